/* Rules of single expressions: pointwise ops, reductions, sources; and of what PyTorch cannot say.
 */
#include "exports/pytorch/parts.h"

torch_text dl_torch_refuse(torch_export *t, const dl_node *n, const char *word) {
    (void)word;
    dl_export_refuse(n, "PyTorch", t->err);
    return (torch_text){0};
}

/* ---- templates ---- */

/* The attribute that a name begins with; advances over it. */
static const char *attribute(torch_export *t, const dl_node *n, const char **s) {
    size_t length = strspn(*s, "abcdefghijklmnopqrstuvwxyz_");
    int id = dl_attr_find(dl_strndup(t->arena, *s, length));
    const dl_attr *a = dl_node_attr(n, (dl_attr_id)id);
    DL_CHECK(a);
    *s += length;
    if (dl_attrs[id].kind == DL_KIND_FLOAT) return dl_torch_number(t, a->f, DL_F32);
    return dl_format(t->arena, "%lld", (long long)a->i);
}

/* An operand, in the result's axes where the op is pointwise. */
static torch_text aligned(torch_export *t, const dl_node *n, int i) {
    bool pointwise = dl_ops[n->op].class == DL_CLASS_ELEM && n->nin > 1;
    return pointwise ? dl_torch_aligned(t, n, i, &n->out[0].type) : dl_torch_operand(t, n, i);
}

static const char *operand(torch_export *t, const dl_node *n, int i, bool number, char next) {
    torch_text x = aligned(t, n, i);
    if (x.is_number && !number) x = dl_torch_tensor(t, n, i);
    return next == '.' ? dl_torch_within(t, x, TORCH_ATOM) : x.s;
}

torch_text dl_torch_say(torch_export *t, const dl_node *n, const char *word) {
    dl_buf b = {0};
    int next = 0;
    for (const char *s = word; *s;) {
        char c = *s++;
        dl_dtype made = n->out[0].type.dtype;
        switch (c) {
        case '$':
        case '&': dl_puts(&b, operand(t, n, next++, c == '&', *s)); break;
        case '@': dl_puts(&b, attribute(t, n, &s)); break;
        case '#': dl_puts(&b, dl_torch_dims(t, n)); break;
        case '%': dl_puts(&b, dl_torch_dtype(made)); break;
        case '~':
            if (!dl_dtype_is_float(made)) dl_putf(&b, ", dtype=%s", dl_torch_dtype(made));
            break;
        default: dl_putn(&b, &c, 1);
        }
    }
    torch_text x = dl_torch_atom(t, "%s", b.at);
    dl_buf_free(&b);
    return x;
}

/* ---- pointwise ---- */

torch_text dl_torch_same(torch_export *t, const dl_node *n, const char *word) {
    (void)word;
    return dl_torch_operand(t, n, 0);
}

torch_text dl_torch_cast(torch_export *t, const dl_node *n, const char *word) {
    bool alike = n->in[0]->type.dtype == n->out[0].type.dtype;
    return alike ? dl_torch_same(t, n, word) : dl_torch_say(t, n, word);
}

torch_text dl_torch_prefix(torch_export *t, const dl_node *n, const char *word) {
    torch_text x = dl_torch_operand(t, n, 0);
    if (x.is_number && *word == '~') x = dl_torch_tensor(t, n, 0);
    bool number = x.is_number;
    x = dl_torch_at(t, TORCH_SIGN, "%s%s", word, dl_torch_within(t, x, TORCH_POWER));
    x.is_number = number;
    return x;
}

static torch_level level_of(const char *word) {
    static const struct {
        const char *word;
        torch_level level;
    } levels[] = {{"+", TORCH_SUM},    {"-", TORCH_SUM}, {"*", TORCH_PRODUCT}, {"/", TORCH_PRODUCT},
                  {"**", TORCH_POWER}, {"&", TORCH_AND}, {"|", TORCH_OR}};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (strcmp(levels[i].word, word) == 0) return levels[i].level;
    return TORCH_TEST;
}

torch_text dl_torch_infix(torch_export *t, const dl_node *n, const char *word) {
    if (dl_torch_is_bias(t, n)) return dl_torch_operand(t, n, 0); /* the layer has added it */
    torch_level level = level_of(word);
    torch_text a = aligned(t, n, 0), b = aligned(t, n, 1);
    if (a.is_number && b.is_number) a = dl_torch_tensor(t, n, 0);
    if (level == TORCH_SUM && *word == '+' && b.is_number && *b.s == '-')
        word = "-", b = dl_torch_atom(t, "%s", b.s + 1);
    bool binds_left = level != TORCH_POWER && level != TORCH_TEST;
    const char *left = dl_torch_within(t, a, binds_left ? level : level + 1),
               *right = dl_torch_within(t, b, level + 1);
    return dl_torch_at(t, level, "%s %s %s", left, word, right);
}

/* With a number: a bound of torch.clamp. */
torch_text dl_torch_extreme(torch_export *t, const dl_node *n, const char *word) {
    torch_text a = aligned(t, n, 0), b = aligned(t, n, 1);
    if (a.is_number && b.is_number) a = dl_torch_tensor(t, n, 0);
    const char *bound = *word == 'm' && strcmp(word, "maximum") == 0 ? "min" : "max";
    if (b.is_number) return dl_torch_atom(t, "torch.clamp(%s, %s=%s)", a.s, bound, b.s);
    if (a.is_number) return dl_torch_atom(t, "torch.clamp(%s, %s=%s)", b.s, bound, a.s);
    return dl_torch_atom(t, "torch.%s(%s, %s)", word, a.s, b.s);
}

torch_text dl_torch_select(torch_export *t, const dl_node *n, const char *word) {
    (void)word;
    torch_text c = aligned(t, n, 0), a = aligned(t, n, 1), b = aligned(t, n, 2);
    if (c.is_number) c = dl_torch_tensor(t, n, 0);
    torch_text y = dl_torch_atom(t, "torch.where(%s, %s, %s)", c.s, a.s, b.s);
    dl_dtype made = n->out[0].type.dtype; /* of two numbers PyTorch makes float32 or int64 */
    if (!a.is_number || !b.is_number || made == DL_F32 || made == DL_I64) return y;
    return dl_torch_atom(t, "%s.to(%s)", y.s, dl_torch_dtype(made));
}

torch_text dl_torch_clamp(torch_export *t, const dl_node *n, const char *word) {
    static const char *const names[] = {"min", "max"};
    const dl_attr *bounds[] = {dl_node_attr(n, DL_ATTR_low), dl_node_attr(n, DL_ATTR_high)};
    const char *s = "";
    for (int i = 0; i < 2; i++)
        if (bounds[i])
            s = dl_format(t->arena, "%s, %s=%s", s, names[i],
                          dl_torch_number(t, bounds[i]->f, n->in[0]->type.dtype));
    if (!*s) return dl_torch_same(t, n, word);
    return dl_torch_atom(t, "torch.clamp(%s%s)", dl_torch_tensor(t, n, 0).s, s);
}

/* ---- sources ---- */

/* A number that grows, or shrinks, with the samples is a multiple of n, or of 1 / n. */
static torch_text number_of(torch_export *t, const dl_node *n, double now, double then) {
    double ratio = (double)(t->samples + 1) / (double)t->samples, k = (double)t->samples;
    dl_dtype d = n->out[0].type.dtype;
    torch_text x = {.s = NULL, .is_number = true};
    if (now == then || (now != now && then != then)) {
        x.s = dl_torch_number(t, now, d);
        x.level = *x.s == '-' ? TORCH_SIGN : TORCH_ATOM;
        return x;
    }
    double close = 1e-9 * (now < 0 ? -now : now), up = then - now * ratio,
           down = then - now / ratio;
    t->reads_samples = true;
    x.level = TORCH_PRODUCT;
    if (up <= close && up >= -close)
        x.s = dl_format(t->arena, "n * %s", dl_torch_number(t, now / k, d));
    else if (down <= close && down >= -close && dl_dtype_is_float(d))
        x.s = dl_format(t->arena, "%s / n", dl_torch_number(t, now * k, d));
    else
        return dl_torch_refuse(t, n, NULL);
    return x;
}

torch_text dl_torch_constant(torch_export *t, const dl_node *n, const char *word) {
    (void)word;
    const dl_node *next = dl_torch_next(t, n);
    double now = dl_node_float(n, DL_ATTR_value);
    return number_of(t, n, now, next ? dl_node_float(next, DL_ATTR_value) : now);
}

torch_text dl_torch_iota(torch_export *t, const dl_node *n, const char *word) {
    (void)word;
    return dl_torch_atom(t, "torch.arange(%s, dtype=%s, device=%s)",
                         dl_torch_size(t, &n->out[0], 0), dl_torch_dtype(n->out[0].type.dtype),
                         t->device);
}

/* ---- reductions ---- */

torch_text dl_torch_reduce(torch_export *t, const dl_node *n, const char *word) {
    return dl_node_attr(n, DL_ATTR_over)->n ? dl_torch_say(t, n, word) : dl_torch_same(t, n, word);
}

/* Rule of PyTorch's LSTM with proj_size, whose output is a product of what it computes: scans of a
 * step. */
#include "imports/dl/step.h"

/* Parameters of one layer and direction; biases may be NULL. */
typedef struct {
    const dl_foreign_tensor *ih, *hh, *ih_bias, *hh_bias, *hr;
} weights;

static dl_in_value *product(dl_in_step *s, dl_in_value *h, const char *role) {
    const weights *w = s->weights;
    bool last = !strcmp(role, "hr");
    return dl_step_product(s, h, last ? w->hr : w->hh, last ? NULL : w->hh_bias);
}

/* "rnn" of "rnn.weight_ih_l0" */
static const char *label_of(dl_in_ctx *c, const dl_foreign_tensor *t) {
    const char *dot = strrchr(t->path, '.');
    return dl_strndup(c->w->arena, t->path, dot ? (size_t)(dot - t->path) : 0);
}

/* State k of that many features before the first step: row `row` of hx, or zeros. NULL: of another
 * form. */
static dl_in_value *start_of(dl_in_ctx *c, const dl_in_value *x, int k, int row, int64_t size) {
    const dl_foreign_arg *hx = dl_foreign_find(c->n, "hx");
    const dl_foreign_tensor *t = hx && k < hx->n ? hx->tensors[k] : NULL;
    int d = 0;
    dl_in_value *form = dl_reduced(dl_copy_value(c, x), 1, &d, false);
    const char *names[] = {"L", form->axis[0].name, form->axis[1].name};
    form->axis[1].n = form->dim[1].n = 1, form->param = -1, form->is_view = false;
    form->axis[1].atom[0] = form->dim[1].atom[0] = dl_new_atom(c->w, size);
    if (hx && !t) return NULL;
    if (t && !dl_is_zero(c, t)) {
        dl_in_value *h = dl_copy_value(c, dl_value_of(c, t));
        if (h->rank != 3) return NULL;
        dl_ordered(c, h, true);
        dl_rename(c, h, names);
        form->stmt =
            dl_say(c, STMT_PLAIN, P_POSTFIX, "%p[L=%i]", h, P_POSTFIX, "layer", (int64_t)row);
        return form;
    }
    if (strcmp(names[1], "N") != 0) return NULL;
    form->stmt = dl_say(c, STMT_PLAIN, P_POSTFIX, "expand(0.0");
    if (!dl_say_batch(c)) return NULL;
    dl_say_more(c, ", %s=%i)", names[2], "hidden", size);
    return form;
}

/* The states of all steps, [T, N, projected], of one direction; last: h and c. row: of the first
 * states. */
static dl_in_value *direction(dl_in_ctx *c, dl_in_value *x, const weights *w, int row, bool reverse,
                              dl_in_value **last) {
    dl_in_step s = {.gates = 4,
                    .hidden = w->hh->shape[0] / 4,
                    .function = {"sigmoid", "tanh", "tanh"},
                    .projected = true,
                    .product = product,
                    .weights = w};
    dl_in_scan scan = {.states = 2, .reverse = reverse};
    dl_in_value *u, *next[DL_IN_STATES];
    if (!dl_contract(c, 2, (dl_in_value *[]){dl_copy_value(c, x), dl_value_of(c, w->ih)},
                     (const char *[]){"abz", "oz"}, "abo"))
        return NULL;
    u = c->b->of[c->n->results[0]->id];
    if (w->ih_bias) {
        dl_in_value *b = dl_value_of(c, w->ih_bias), *sum = dl_match(c, u, b);
        sum->stmt = dl_say(c, STMT_PLAIN, P_SUM, "%p + %p", u, P_SUM, b, P_PRODUCT);
        u = sum;
    }
    scan.x = dl_copy_value(c, u);
    dl_ordered(c, scan.x, true);
    dl_rename(c, scan.x, (const char *[]){x->axis[0].name, x->axis[1].name, x->axis[2].name});
    scan.start[0] = start_of(c, scan.x, 0, row, w->hr->shape[0]);
    scan.start[1] = start_of(c, scan.x, 1, row, s.hidden);
    if (!scan.start[0] || !scan.start[1]) return NULL;
    scan.body = dl_new_body(c->w, "LSTM", label_of(c, w->ih));
    dl_in_ctx inner = {.w = c->w, .b = scan.body, .n = c->n, .index = c->index};
    s.c = &inner;
    dl_enter_step(c, &scan, &s);
    if (!dl_say_step(&s, next)) return NULL;
    for (int k = 0; k < scan.states; k++) dl_push(c->w->arena, &scan.body->returns, next[k]->stmt);
    int at = dl_say_scan(c, &scan);
    for (int k = 0; k < scan.states; k++) last[k] = dl_scan_result(c, &scan, at, 1 + k);
    return dl_scan_result(c, &scan, at, 0);
}

/* Values of one form as one with a first dimension L of them. */
static dl_in_value *stacked(dl_in_ctx *c, dl_in_value *const *v, int n) {
    dl_in_value one = *v[0], *made = dl_copy_value(c, v[0]), part;
    int s[64];
    for (int i = 0; i < n; i++) s[i] = dl_call_function(c, "unsqueeze", v[i], ", over=L, at=0");
    made->stmt = s[0], made->n = one.n + 1, made->rank = one.rank + 1;
    for (int d = 0; d < one.n; d++) made->axis[d + 1] = one.axis[d], made->dim[d + 1] = one.dim[d];
    made->axis[0] = (dl_in_axis){.name = "L", .n = 1, .atom = {dl_new_atom(c->w, n)}};
    made->dim[0].n = 1, made->dim[0].atom[0] = made->axis[0].atom[0];
    if (n == 1) return made;
    made->stmt = dl_say(c, STMT_PLAIN, P_POSTFIX, "cat(");
    for (int i = 0; i < n; i++) part.stmt = s[i], dl_say_more(c, "%v, ", &part);
    dl_say_more(c, "over=L)");
    return made;
}

/* Both directions next to each other. */
static dl_in_value *joined(dl_in_ctx *c, dl_in_value *const *y) {
    dl_in_value *made = dl_copy_value(c, y[0]);
    const char *axis = made->axis[2].name;
    made->stmt = dl_say(c, STMT_PLAIN, P_POSTFIX, "cat(%v, %v, over=%s)", y[0], y[1], axis);
    made->axis[2].n = made->dim[2].n = 1;
    made->axis[2].atom[0] = made->dim[2].atom[0] =
        dl_new_atom(c->w, 2 * dl_axis_size_of(c->w, &y[0]->axis[2]));
    return made;
}

bool dl_in_projected(dl_in_ctx *c, dl_in_value *x, int layers, int directions, bool biases) {
    const dl_foreign_arg *params = dl_foreign_find(c->n, "params");
    int each = biases ? 5 : 3, rows = layers * directions;
    double rate = dl_foreign_real(c->n, "dropout", 0);
    dl_in_value *last[2][64], *ends[2];
    if (rows > 64 || strcmp(c->detail, "lstm") != 0) return false;
    for (int l = 0; l < layers; l++) {
        dl_in_value *y[2];
        for (int d = 0; d < directions; d++) {
            int row = l * directions + d;
            const dl_foreign_tensor *const *t = params->tensors + row * each;
            weights w = {t[0], t[1], biases ? t[2] : NULL, biases ? t[3] : NULL, t[each - 1]};
            if (!w.ih || !w.hh || !w.hr || w.ih->rank != 2 || w.hh->rank != 2 || w.hr->rank != 2 ||
                !(y[d] = direction(c, x, &w, row, d, ends)))
                return false;
            for (int k = 0; k < 2; k++) last[k][row] = ends[k];
        }
        x = directions > 1 ? joined(c, y) : y[0];
        if (rate > 0 && l + 1 < layers) {
            dl_in_value *kept = dl_copy_value(c, x);
            kept->stmt = dl_say(c, STMT_LAYER, P_PIPE, "%v |> dropout(%r)", x, "rate", rate);
            x = kept;
        }
    }
    dl_set(c, 0, x);
    for (int k = 0; k < 2; k++)
        if (c->w->last_use[c->n->results[1 + k]->id] >= 0)
            dl_set(c, 1 + k, stacked(c, last[k], rows));
    return true;
}

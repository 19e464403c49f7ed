/* einsum: a sum of products by letters, as numpy, PyTorch and opt_einsum write it.
 *
 * Letters name the operands' axes in order. A letter's axis keeps the name that its first operand
 * gives it; where two letters have axes of one name, the later axis gets the letter's capital as
 * its name. Operands are multiplied from left to right, and an axis is summed as soon as no later
 * operand and not the result has it. */
#include <ctype.h>

#include "frontends/dl/builtin.h"
#include "ir/fourier.h"

enum { MAX_OPERANDS = 16, LETTERS = 128 };

typedef struct {
    char axis[DL_MAX_RANK];
    int n;
} term;

typedef struct {
    dl_call *c;
    const char *pattern;
    dl_span at; /* of the pattern */
    int n;      /* operands */
    int parts;  /* 1: complex_einsum: an axis Z of complex numbers follows the letters' */
    term in[MAX_OPERANDS], out;
    dl_axis of[LETTERS]; /* by letter: its axis; name NULL: none */
    int last[LETTERS];   /* the last operand that has the letter; n: the result */
} einsum;

static bool bad(einsum *s, const char *why) {
    dl_bad(s->c->E, s->at, DL_DIAG_bad_pattern, "einsum \"%.100s\": %s", s->pattern, why);
    dl_help(s->c->E, "write it like einsum(\"nk,km->nm\", a, b)");
    return false;
}

static bool parse_term(einsum *s, const char *p, const char *end, term *t) {
    for (; p < end; p++) {
        if (*p == ' ') continue;
        if (*p == '.') return bad(s, "each axis has a letter of its own; there is no '...'");
        if (!isalpha((unsigned char)*p))
            return bad(s, "only letters, commas and `->` may stand there");
        if (t->n == DL_MAX_RANK) return bad(s, "a tensor has 8 axes at most");
        if (memchr(t->axis, *p, (size_t)t->n))
            return bad(s, dl_format(s->c->E->arena, "'%c' stands twice in one tensor", *p));
        t->axis[t->n++] = *p;
    }
    return true;
}

static bool parse(einsum *s) {
    const char *p = s->pattern, *arrow = strstr(p, "->");
    if (!arrow) return bad(s, "there is no '->'");
    int terms = 0;
    for (const char *end = p; end <= arrow; end++) {
        if (end < arrow && *end != ',') continue;
        if (terms == s->n) return bad(s, "it names more operands than there are");
        if (!parse_term(s, p, end, &s->in[terms++])) return false;
        p = end + 1;
    }
    if (terms < s->n) return bad(s, "it names fewer operands than there are");
    return parse_term(s, arrow + 2, arrow + strlen(arrow), &s->out);
}

static bool is_taken(const einsum *s, const char *name) {
    for (int i = 0; i < LETTERS; i++)
        if (s->of[i].name == name) return true;
    return false;
}

/* Gives the letter an axis, or compares the axis with the one that it has. */
static bool bind_letter(einsum *s, int operand, int axis, const dl_val *in) {
    const dl_type *t = &in[operand].t->type;
    const char letter = s->in[operand].axis[axis];
    dl_axis *of = &s->of[(int)letter], own = t->axis[axis];
    if (of->name && of->size != own.size) {
        dl_bad(s->c->E, s->c->where, DL_DIAG_axis_mismatch,
               "einsum \"%.100s\": '%c' is %lld and, in %s, %lld", s->pattern, letter,
               (long long)of->size, dl_type_text(t), (long long)own.size);
        for (int i = 0; i < s->n; i++) dl_note_tensor(s->c->E, in[i]);
        return false;
    }
    if (of->name) return true;
    const char capital[] = {(char)toupper((unsigned char)letter), 0};
    if (!*own.name || is_taken(s, own.name)) own.name = dl_intern(capital);
    if (is_taken(s, own.name)) {
        dl_bad(s->c->E, s->c->where, DL_DIAG_duplicate_axis,
               "einsum \"%.100s\": two letters would name an axis %s", s->pattern, own.name);
        dl_help(s->c->E, "name the axes of an operand apart: b as [N, S, D]");
        return false;
    }
    *of = own;
    return true;
}

/* Does the operand end in the axis Z of complex numbers? */
static bool check_complex(einsum *s, dl_val x) {
    const dl_type *t = &x.t->type;
    if (dl_fourier_is_complex(t)) return true;
    dl_bad(s->c->E, s->c->where, DL_DIAG_axis_mismatch,
           "complex_einsum multiplies complex numbers, whose last axis is Z=2, not %s",
           dl_type_text(t));
    dl_note_tensor(s->c->E, x);
    return false;
}

static bool bind(einsum *s, const dl_val *in) {
    for (int i = 0; i < s->n; i++) {
        if (s->parts && !check_complex(s, in[i])) return false;
        if (s->in[i].n != in[i].t->type.rank - s->parts) {
            dl_bad(s->c->E, s->at, DL_DIAG_bad_pattern,
                   "einsum \"%.100s\" names %d axes of operand %d, which has %d%s: %s", s->pattern,
                   s->in[i].n, i + 1, in[i].t->type.rank - s->parts, s->parts ? " and Z" : "",
                   dl_type_text(&in[i].t->type));
            dl_note_tensor(s->c->E, in[i]);
            return false;
        }
        for (int k = 0; k < s->in[i].n; k++) {
            if (!bind_letter(s, i, k, in)) return false;
            s->last[(int)s->in[i].axis[k]] = i;
        }
    }
    for (int k = 0; k < s->out.n; k++) {
        int letter = s->out.axis[k];
        if (!s->of[letter].name)
            return bad(s, dl_format(s->c->E->arena, "'%c' stands only on the right", letter));
        s->last[letter] = s->n;
    }
    return true;
}

/* Converts the operands to one element type, of floats. */
static bool take_operands(einsum *s, dl_val *in) {
    bool tensors;
    for (int i = 0; i < s->n; i++)
        if (!dl_call_float(s->c, &in[i])) return false;
    const dl_dtype met = dl_tensor_meet(s->n, in, &tensors);
    const dl_dtype type = s->parts && dl_dtype_is_half(met) ? DL_F32 : met;
    for (int i = 0; i < s->n; i++) {
        in[i] = dl_tensor_cast(s->c->E, s->c->where, in[i], type);
        if (in[i].kind != DL_V_TENSOR) return false;
    }
    return true;
}

/* The type of x with the axes of a term, in its order. */
static dl_type type_of(const einsum *s, const term *t, dl_val x) {
    dl_type type = dl_scalar(x.t->type.dtype);
    for (int k = 0; k < t->n; k++)
        dl_type_push(&type, s->of[(int)t->axis[k]].name, s->of[(int)t->axis[k]].size);
    if (s->parts) dl_type_push(&type, dl_fourier_axis(), 2);
    return type;
}

static dl_val named(einsum *s, const term *t, dl_val x) {
    dl_type type = type_of(s, t, x);
    if (dl_type_same(&type, &x.t->type)) return x;
    return dl_tensor_op(s->c->E, s->c->where, DL_OP_rename, 1, &x, 0, NULL, &type);
}

/* The axes of x that are not needed after operand i: those that `other` has, too, or those that it
 * lacks. */
static int find_done(const einsum *s, dl_val x, const dl_val *other, bool shared, int i,
                     const char *names[DL_MAX_RANK]) {
    int n = 0;
    for (int letter = 0; letter < LETTERS; letter++) {
        const char *name = s->of[letter].name;
        if (!name || s->last[letter] > i || dl_type_axis(&x.t->type, name) < 0) continue;
        bool both = other && dl_type_axis(&other->t->type, name) >= 0;
        if (both == shared) names[n++] = name;
    }
    return n;
}

/* x summed over the axes that only it has, and that are not needed any more. */
static dl_val sum_own(einsum *s, dl_val x, const dl_val *other, int i) {
    const char *over[DL_MAX_RANK];
    int n = find_done(s, x, other, false, i, over);
    return n ? dl_tensor_reduce(s->c->E, s->c->where, DL_OP_sum, x, n, over) : x;
}

/* The type of a b, summed over the axes `over`: the result's order after the last operand, else a's
 * axes and then b's. */
static dl_type product_type(const einsum *s, dl_val a, dl_val b, int n, const char *const *over,
                            bool last) {
    if (last) return type_of(s, &s->out, a);
    dl_type type = dl_scalar(a.t->type.dtype);
    for (int side = 0; side < 2; side++) {
        const dl_type *t = &(side ? b : a).t->type;
        for (int k = 0; k < t->rank - 1; k++) {
            bool summed = dl_type_axis(&type, t->axis[k].name) >= 0;
            for (int j = 0; j < n; j++) summed |= over[j] == t->axis[k].name;
            if (!summed) dl_type_push(&type, t->axis[k].name, t->axis[k].size);
        }
    }
    dl_type_push(&type, dl_fourier_axis(), 2);
    return type;
}

static dl_val part(einsum *s, dl_val x, int i) {
    return dl_tensor_at(s->c->E, s->c->where, x, dl_fourier_axis(), i);
}

/* By four products of real numbers: where no batch axis comes last. */
static dl_val by_parts(einsum *s, dl_val a, dl_val b, int n, const char *const *over) {
    dl_val p[2][2], y[2];
    dl_attr at = dl_attr_names(DL_ATTR_over, n, over);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++)
            p[i][k] = n ? dl_tensor_op(s->c->E, s->c->where, DL_OP_contract, 2,
                                       (dl_val[]){part(s, a, i), part(s, b, k)}, 1, &at, NULL)
                        : dl_call_elem(s->c, DL_OP_mul, part(s, a, i), part(s, b, k));
    y[0] = dl_call_elem(s->c, DL_OP_sub, p[0][0], p[1][1]);
    y[1] = dl_call_elem(s->c, DL_OP_add, p[0][1], p[1][0]);
    for (int i = 0; i < 2 && y[i].kind == DL_V_TENSOR; i++) {
        dl_attr to[] = {dl_attr_name(DL_ATTR_axis, dl_fourier_axis()),
                        dl_attr_int(DL_ATTR_index, y[i].t->type.rank)};
        y[i] = dl_tensor_op(s->c->E, s->c->where, DL_OP_unsqueeze, 1, &y[i], 2, to, NULL);
    }
    dl_attr along = dl_attr_name(DL_ATTR_axis, dl_fourier_axis());
    return dl_tensor_op(s->c->E, s->c->where, DL_OP_cat, 2, y, 1, &along, NULL);
}

static dl_val multiply_complex(einsum *s, dl_val a, dl_val b, int i, int n,
                               const char *const *over) {
    dl_type type = product_type(s, a, b, n, over, i == s->n - 1);
    const dl_type *types[] = {&a.t->type, &b.t->type, &type};
    const char *last = type.rank > 1 ? type.axis[type.rank - 2].name : NULL;
    for (int k = 0; k < 3 && last; k++)
        if (types[k]->rank < 2 || types[k]->axis[types[k]->rank - 2].name != last) last = NULL;
    if (!last) return by_parts(s, a, b, n, over);
    dl_attr at[] = {{.id = DL_ATTR_over}, dl_attr_ints(DL_ATTR_conj, 2, (int64_t[]){0, 0})};
    if (n) at[0] = dl_attr_names(DL_ATTR_over, n, over);
    return dl_tensor_op(s->c->E, s->c->where, DL_OP_complex_contract, 2, (dl_val[]){a, b}, 2, at,
                        &type);
}

static dl_val multiply(einsum *s, dl_val a, dl_val b, int i) {
    const char *over[DL_MAX_RANK];
    a = sum_own(s, a, &b, i), b = sum_own(s, b, &a, i);
    if (a.kind != DL_V_TENSOR || b.kind != DL_V_TENSOR) return dl_poison();
    int n = find_done(s, a, &b, true, i, over);
    if (s->parts) return multiply_complex(s, a, b, i, n, over);
    if (!n) return dl_call_elem(s->c, DL_OP_mul, a, b);
    dl_attr at = dl_attr_names(DL_ATTR_over, n, over);
    return dl_tensor_op(s->c->E, s->c->where, DL_OP_contract, 2, (dl_val[]){a, b}, 1, &at, NULL);
}

static dl_val compute(einsum *s, const dl_val *in) {
    dl_val y = named(s, &s->in[0], in[0]);
    for (int i = 1; i < s->n && y.kind == DL_V_TENSOR; i++)
        y = multiply(s, y, named(s, &s->in[i], in[i]), i);
    if (s->n == 1 && y.kind == DL_V_TENSOR) y = sum_own(s, y, NULL, 0);
    if (y.kind != DL_V_TENSOR) return y;
    dl_type type = type_of(s, &s->out, y);
    return dl_tensor_ordered(s->c->E, s->c->where, y, &type);
}

/* Takes the pattern, which stands first or after a piped operand, and the operands. */
static bool take_arguments(einsum *s, dl_val in[MAX_OPERANDS]) {
    dl_call *c = s->c;
    s->at = c->where;
    for (int i = 0; i < c->rest.items.n; i++) {
        dl_val v = c->rest.items.at[i];
        if (v.kind == DL_V_STR && !s->pattern) {
            s->pattern = v.s, s->at = v.origin;
        } else if (v.kind != DL_V_TENSOR) {
            if (!dl_refuse_layer(c->E, c->where, v))
                dl_bad(c->E, c->where, DL_DIAG_not_a_tensor, "einsum multiplies tensors, not %s",
                       dl_val_describe(c->E, v));
            return false;
        } else if (s->n == MAX_OPERANDS) {
            dl_bad(c->E, c->where, DL_DIAG_too_many_arguments, "einsum takes 16 tensors at most");
            return false;
        } else
            in[s->n++] = v;
    }
    if (s->pattern && s->n) return true;
    dl_bad(c->E, c->where, DL_DIAG_missing_argument, "einsum takes a pattern and tensors");
    dl_help(c->E, "write it like einsum(\"nk,km->nm\", a, b)");
    return false;
}

static dl_val run(einsum *s) {
    dl_val in[MAX_OPERANDS];
    if (!take_arguments(s, in) || !parse(s) || !bind(s, in) || !take_operands(s, in))
        return dl_poison();
    return compute(s, in);
}

dl_val dl_fn_einsum(dl_call *c) { return run(&(einsum){.c = c}); }
/* The same of complex numbers, in f32 at least. */
dl_val dl_fn_complex_einsum(dl_call *c) { return run(&(einsum){.c = c, .parts = 1}); }

/* Rules of element-by-element ops. */
#include <math.h>

#include "imports/dl/rules.h"

/* The names of a parameter's axes, before a function of it hides that it is one. */
static dl_in_value *settled(dl_in_ctx *c, dl_in_value *v) {
    for (int d = 0; v && d < v->rank; d++) dl_axis_name(c, v, d);
    return v;
}

bool dl_in_unary(dl_in_ctx *c) {
    dl_in_value *v = settled(c, dl_self(c));
    if (v && v->random == UNIFORM && !strcmp(c->detail, "floor") && v->keep > 0 && v->keep <= 1) {
        dl_in_value *made = dl_copy_value(c, v);
        made->random = DRAWN, made->is_view = false;
        dl_set(c, 0, made);
        return true;
    }
    if (v && v->random) return false;
    return v && dl_done(c, v, dl_call_function(c, c->detail, v, ""));
}

/* The length, where the numbers are complex. */
bool dl_in_absolute(dl_in_ctx *c) {
    dl_in_value *v = dl_self(c);
    if (!v || !v->pair) return dl_in_unary(c);
    dl_end_in_parts(c, v);
    dl_in_value *made = dl_copy_value(c, v);
    made->stmt = dl_call_function(c, "norm", v, ", over=%s", dl_parts_axis);
    made->is_view = false, made->param = -1, made->n--, made->rank--;
    dl_set(c, 0, made);
    return true;
}

bool dl_in_negate(dl_in_ctx *c) {
    dl_in_value *v = settled(c, dl_self(c));
    return v && dl_done(c, v, dl_say(c, STMT_PLAIN, P_UNARY, "-%p", v, P_UNARY));
}

bool dl_in_gelu(dl_in_ctx *c) {
    dl_in_value *v = settled(c, dl_self(c));
    bool tanh = strcmp(dl_foreign_text(c->n, "approximate", "none"), "tanh") == 0;
    return v && dl_done(c, v,
                        dl_call_function(c, "gelu", v, "%s", tanh ? ", approximate=\"tanh\"" : ""));
}

/* detail: function, PyTorch's argument, its default, the argument here */
bool dl_in_unary_number(dl_in_ctx *c) {
    char copy[128], *at = copy;
    strncpy(copy, c->detail, sizeof copy - 1), copy[sizeof copy - 1] = 0;
    const char *function = strsep(&at, " "), *theirs = strsep(&at, " ");
    double standard = 0;
    dl_parse_real(strsep(&at, " "), &standard);
    dl_in_value *v = settled(c, dl_self(c));
    double value = dl_foreign_real(c->n, theirs, standard);
    if (!v || (dl_foreign_find(c->n, "scale") && dl_foreign_real(c->n, "scale", 1) != 1))
        return false;
    function = dl_strdup(c->w->arena, function);
    return dl_done(c, v,
                   dl_call_function(c, function, v, ", %r", dl_strdup(c->w->arena, at), value));
}

bool dl_in_softplus(dl_in_ctx *c) {
    dl_in_value *v = settled(c, dl_self(c));
    double beta = dl_foreign_real(c->n, "beta", 1), t = dl_foreign_real(c->n, "threshold", 20);
    if (!v) return false;
    int s = beta == 1 && t == 20 ? dl_call_function(c, "softplus", v, "")
                                 : dl_call_function(c, "softplus", v, ", beta=%r, threshold=%r",
                                                    "beta", beta, "threshold", t);
    return dl_done(c, v, s);
}

/* Between two tensors, or a tensor and no bound. */
static bool clamp_between(dl_in_ctx *c, dl_in_value *v, const dl_foreign_arg *low,
                          const dl_foreign_arg *high) {
    const dl_foreign_arg *bounds[] = {low, high};
    for (int i = 0; i < 2; i++) {
        if (!bounds[i]) continue;
        if (bounds[i]->kind != DL_ARG_TENSOR) return false;
        dl_in_value *b = settled(c, dl_value_of(c, bounds[i]->tensors[0])),
                    *made = dl_match(c, v, b);
        made->stmt = dl_call_function(c, i ? "min" : "max", v, ", %v", b);
        v = made;
    }
    return dl_done(c, v, v->stmt);
}

bool dl_in_clamp(dl_in_ctx *c) {
    dl_in_value *v = settled(c, dl_self(c));
    bool tanh = strcmp(c->detail, "hardtanh") == 0;
    const dl_foreign_arg *low = dl_foreign_find(c->n, tanh ? "min_val" : "min");
    const dl_foreign_arg *high = dl_foreign_find(c->n, tanh ? "max_val" : "max");
    if (!v || (!tanh && !low && !high)) return false;
    if ((low && low->kind == DL_ARG_TENSOR) || (high && high->kind == DL_ARG_TENSOR))
        return clamp_between(c, v, low, high);
    int s = dl_call_function(c, "clamp", v, "");
    if (low || tanh)
        dl_say_more(c, ", min=%r", "low", dl_foreign_real(c->n, tanh ? "min_val" : "min", -1));
    if (high || tanh)
        dl_say_more(c, ", max=%r", "high", dl_foreign_real(c->n, tanh ? "max_val" : "max", 1));
    return dl_done(c, v, s);
}

bool dl_in_compare_zero(dl_in_ctx *c) {
    dl_in_value *v = settled(c, dl_self(c));
    if (!v || v->class == DL_FOREIGN_INT) return false;
    return dl_done(c, v, dl_say(c, STMT_PLAIN, P_COMPARE, "%p == 0", v, P_SUM));
}

/* ---- two operands ---- */

typedef struct {
    const char *sign;
    dl_in_prec prec, left, right;
} sign;
static const sign signs[] = {
    {"+", P_SUM, P_SUM, P_PRODUCT},       {"-", P_SUM, P_SUM, P_PRODUCT},
    {"*", P_PRODUCT, P_PRODUCT, P_UNARY}, {"/", P_PRODUCT, P_PRODUCT, P_UNARY},
    {"**", P_POWER, P_POSTFIX, P_UNARY},  {"==", P_COMPARE, P_SUM, P_SUM},
    {"!=", P_COMPARE, P_SUM, P_SUM},      {"<", P_COMPARE, P_SUM, P_SUM},
    {"<=", P_COMPARE, P_SUM, P_SUM},      {">", P_COMPARE, P_SUM, P_SUM},
    {">=", P_COMPARE, P_SUM, P_SUM}};

static const sign *find_sign(const char *text) {
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (strcmp(signs[i].sign, text) == 0) return &signs[i];
    return NULL;
}

static bool is_number(const dl_foreign_arg *a) {
    return a && (a->kind == DL_ARG_INT || a->kind == DL_ARG_FLOAT);
}

static void say_number(dl_in_ctx *c, const dl_foreign_arg *a) {
    if (a->kind == DL_ARG_INT)
        dl_say_more(c, "%i", "k", a->ints[0]);
    else
        dl_say_more(c, "%r", "k", a->reals[0]);
}

/* a op b where one of them, or both, are tensors. A value known when compiling becomes a number. */
static bool is_complex(const dl_foreign_arg *x) {
    return x->kind == DL_ARG_TENSOR && x->tensors[0]->pair;
}

/* NULL: it is no tensor, or cannot stand next to a complex one. */
static dl_in_value *operand(dl_in_ctx *c, const dl_foreign_arg *x, const dl_foreign_arg *other) {
    dl_in_value *v = x->kind == DL_ARG_TENSOR ? dl_value_of(c, x->tensors[0]) : NULL;
    return v && is_complex(other) && !v->pair ? dl_next_to_parts(c, settled(c, v)) : v;
}

static bool two(dl_in_ctx *c, const dl_foreign_arg *x, const dl_foreign_arg *y, const char *text,
                double alpha) {
    const sign *s = find_sign(text);
    if (!x || !y || (is_number(x) && is_number(y))) return false;
    dl_in_value *a = operand(c, x, y), *b = operand(c, y, x);
    if ((!a && !is_number(x)) || (!b && !is_number(y))) return false;
    if ((is_complex(x) || is_complex(y)) && !dl_is_by_parts(text, x, y))
        return a && b && !strcmp(text, "*") && dl_multiply_complex(c, a, b);
    dl_in_value *made = a && b ? dl_match(c, a, b) : settled(c, a ? a : b);
    if (!s) { /* max(a, b) */
        int at = a ? dl_call_function(c, text, a, ", ") : dl_call_function(c, text, b, ", ");
        if (a && b)
            dl_say_more(c, "%v", b);
        else
            say_number(c, a ? y : x);
        if (!strcmp(text, "fmod") && c->n->results[0]->class == DL_FOREIGN_INT) {
            dl_in_value rest = {.stmt = at};
            at = dl_say(c, STMT_PLAIN, P_PIPE, "%v as i64", &rest);
        }
        return dl_done(c, made, at);
    }
    int at = dl_say(c, STMT_PLAIN, s->prec, "");
    if (a)
        dl_say_more(c, "%p", a, s->left);
    else
        say_number(c, x);
    dl_say_more(c, " %s ", s->sign);
    if (alpha != 1) dl_say_more(c, "%r * ", "alpha", alpha);
    if (b)
        dl_say_more(c, "%p", b, alpha != 1 ? P_UNARY : s->right);
    else
        say_number(c, y);
    return dl_done(c, made, at);
}

/* ---- drop_path: empty([N, 1, ...]).bernoulli_(keep).div_(keep) times x ---- */

bool dl_in_empty(dl_in_ctx *c) {
    const dl_foreign_tensor *t = c->n->n_results == 1 ? c->n->results[0] : NULL;
    if (t && dl_foreign_count(t) == 0) { /* it has no numbers to read */
        dl_set(c, 0, dl_new_value(c, dl_say(c, STMT_PLAIN, P_POSTFIX, "0"), t));
        return true;
    }
    bool drawn = t && t->rank > 0 && t->shape[0] == c->w->atoms.at[0];
    for (int d = 1; drawn && d < t->rank; d++) drawn = t->shape[d] == 1;
    if (!drawn) { /* any numbers do where the program writes all of them before it reads one */
        if (!t || *c->detail) return false;
        c->detail = "0";
        return dl_in_constant(c);
    }
    int s = dl_say(c, STMT_PLAIN, P_POSTFIX, "fail(\"random numbers\")");
    dl_in_value *v = dl_new_value(c, s, t);
    v->n = 1, v->axis[0].name = "N", v->axis[0].atom[0] = v->dim[0].atom[0] = 0;
    for (int d = 1; d < t->rank; d++) v->dim[d].n = 0;
    v->random = *c->detail ? UNIFORM : EMPTY;
    dl_set(c, 0, v);
    return true;
}

bool dl_in_bernoulli(dl_in_ctx *c) {
    dl_in_value *v = dl_self(c);
    if (!v || v->random != EMPTY) return false;
    dl_in_value *made = dl_copy_value(c, v);
    made->random = DRAWN, made->keep = dl_foreign_real(c->n, "p", 0.5), made->is_view = false;
    dl_set(c, 0, made);
    return true;
}

static bool drop_path(dl_in_ctx *c, const dl_foreign_arg *x, const dl_foreign_arg *y) {
    dl_in_value *a = x && x->kind == DL_ARG_TENSOR ? dl_value_of(c, x->tensors[0]) : NULL;
    dl_in_value *b = y && y->kind == DL_ARG_TENSOR ? dl_value_of(c, y->tensors[0]) : NULL;
    dl_in_value *uniform = a && a->random == UNIFORM ? a : b && b->random == UNIFORM ? b : NULL;
    const dl_foreign_arg *number = uniform == a ? y : x;
    if (uniform && !strcmp(c->detail, "+") && number && is_number(number)) {
        dl_in_value *made = dl_copy_value(c, uniform); /* keep + rand, whose floor is drawn */
        made->keep += number->kind == DL_ARG_INT ? (double)number->ints[0] : number->reals[0];
        made->is_view = false;
        dl_set(c, 0, made);
        return true;
    }
    if (!strcmp(c->detail, "/") && a && a->random == DRAWN && is_number(y) &&
        dl_foreign_real(c->n, "other", 0) == a->keep) {
        dl_in_value *made = dl_copy_value(c, a);
        made->random = SCALED, made->is_view = false;
        dl_set(c, 0, made);
        return true;
    }
    if (strcmp(c->detail, "*") != 0 || !a || !b || (a->random < DRAWN && b->random < DRAWN))
        return false;
    dl_in_value *mask = a->random >= DRAWN ? a : b, *kept = mask == a ? b : a;
    if (kept->random || kept->rank != mask->rank) return false;
    settled(c, kept);
    double rate = round((1 - mask->keep) * 1e9) / 1e9;
    int s = dl_say(c, STMT_LAYER, P_PIPE, "%v |> drop_path(%r)", kept, "rate", rate);
    if (mask->random == SCALED) return dl_done(c, kept, s);
    dl_in_value dropped = *kept; /* which drop_path has divided by what is kept */
    dropped.stmt = s;
    return dl_done(
        c, kept,
        dl_say(c, STMT_PLAIN, P_PRODUCT, "%p * %r", &dropped, P_PRODUCT, "keep", mask->keep));
}

/* x + 0, x * 1 and the like, of x's own type */
static bool changes_nothing(const dl_in_ctx *c, const dl_foreign_arg *y) {
    const dl_foreign_tensor *x = dl_foreign_operand(c->n, "self"), *t = c->n->results[0];
    if (!x || !y || !is_number(y) || x->dtype != t->dtype || x->class != t->class) return false;
    double k = y->kind == DL_ARG_INT ? (double)y->ints[0] : y->reals[0];
    return (!strcmp(c->detail, "+") || !strcmp(c->detail, "-")) ? k == 0
           : !strcmp(c->detail, "*") || !strcmp(c->detail, "/") || !strcmp(c->detail, "**")
               ? k == 1 && !dl_foreign_find(c->n, "rounding_mode")
               : false;
}

/* An operand whose elements are all one number, as that number, where the other one has the
 * result's shape and type: ones of the example's batch fit no other. */
static const dl_foreign_arg *filled(dl_in_ctx *c, const dl_foreign_arg *a,
                                    const dl_foreign_arg *other) {
    double number;
    if (!a || !other || a->kind != DL_ARG_TENSOR || other->kind != DL_ARG_TENSOR) return a;
    const dl_foreign_tensor *t = other->tensors[0], *r = c->n->results[0];
    if (t->rank != r->rank || t->class != r->class || t->dtype != r->dtype || t->pair || r->pair ||
        memcmp(t->shape, r->shape, (size_t)t->rank * sizeof *t->shape) != 0 ||
        !dl_is_filled(c, a->tensors[0], &number))
        return a;
    dl_foreign_arg *made = DL_NEW(c->w->arena, dl_foreign_arg);
    double *real = DL_NEW(c->w->arena, double);
    *real = number;
    *made = (dl_foreign_arg){.name = a->name, .kind = DL_ARG_FLOAT, .n = 1, .reals = real};
    return made;
}

bool dl_in_binary(dl_in_ctx *c) {
    const dl_foreign_arg *x = dl_foreign_find(c->n, "self"), *y = dl_foreign_find(c->n, "other");
    if (!y) y = dl_foreign_find(c->n, "exponent");
    if (c->n->n_results == 1) y = filled(c, y, x);
    if (c->n->n_results == 1 && y && y->kind == DL_ARG_TENSOR) x = filled(c, x, y);
    if (drop_path(c, x, y)) return true;
    if (changes_nothing(c, y)) return dl_in_same(c);
    if (!strcmp(c->detail, "*") && x && y && x->kind == DL_ARG_TENSOR && y->kind == DL_ARG_COMPLEX)
        return dl_times_number(c, settled(c, dl_value_of(c, x->tensors[0])), y->reals);
    const char *mode = dl_foreign_text(c->n, "rounding_mode", NULL);
    if (c->n->n_results == 1 && c->n->results[0]->class == DL_FOREIGN_INT &&
        !strcmp(c->detail, "/")) {
        c->detail = "floor";
        return mode && !strcmp(mode, "floor") && dl_in_whole_division(c);
    }
    double alpha = dl_foreign_real(c->n, "alpha", 1);
    if (!strcmp(c->detail, "r-")) return two(c, y, x, "-", alpha);
    if (!two(c, x, y, c->detail, alpha)) return false;
    if (!mode) return true;
    dl_in_value *v = c->b->of[c->n->results[0]->id];
    return dl_done(c, v, dl_call_function(c, strcmp(mode, "floor") ? "trunc" : "floor", v, ""));
}

static bool choose(dl_in_ctx *c, dl_in_value *condition, const dl_foreign_arg *x,
                   const dl_foreign_arg *y) {
    if (!condition || !x || !y) return false;
    dl_in_value *a = x->kind == DL_ARG_TENSOR ? dl_value_of(c, x->tensors[0]) : NULL;
    dl_in_value *b = y->kind == DL_ARG_TENSOR ? dl_value_of(c, y->tensors[0]) : NULL;
    if ((!a && !is_number(x)) || (!b && !is_number(y))) return false;
    settled(c, condition);
    dl_in_value *made = condition;
    if (a) made = dl_match(c, made, a);
    if (b) made = dl_match(c, made, b);
    int at = dl_call_function(c, "where", condition, ", ");
    if (a)
        dl_say_more(c, "%v, ", a);
    else
        say_number(c, x), dl_say_more(c, ", ");
    if (b)
        dl_say_more(c, "%v", b);
    else
        say_number(c, y);
    if (c->n->results[0]->class == DL_FOREIGN_BOOL) { /* of truth values it gives numbers */
        dl_in_value number = *made;
        number.stmt = at;
        at = dl_say(c, STMT_PLAIN, P_COMPARE, "%p != 0", &number, P_SUM);
    }
    return dl_done(c, made, at);
}

bool dl_in_where(dl_in_ctx *c) {
    return choose(c, dl_operand(c, "condition"), dl_foreign_find(c->n, "self"),
                  dl_foreign_find(c->n, "other"));
}

/* of truth values */
bool dl_in_logic(dl_in_ctx *c) {
    dl_in_value *a = dl_operand(c, "self"), *b = dl_operand(c, "other");
    if (!a || !b || a->class != DL_FOREIGN_BOOL || b->class != DL_FOREIGN_BOOL) return false;
    dl_in_value *made = dl_match(c, a, b);
    if (a->n == 0) { /* a number is no condition */
        dl_in_value *other = a;
        a = b, b = other;
    }
    int s =
        c->detail[0] == 'a'   ? dl_say(c, STMT_PLAIN, P_COMPARE, "where(%v, %v, false) != 0", a, b)
        : c->detail[0] == 'o' ? dl_say(c, STMT_PLAIN, P_COMPARE, "where(%v, true, %v) != 0", a, b)
                              : dl_say(c, STMT_PLAIN, P_COMPARE, "%p != %p", a, P_SUM, b, P_SUM);
    return dl_done(c, made, s);
}

/* floor(x / k), or what is left of x after it, for a number k */
bool dl_in_whole_division(dl_in_ctx *c) {
    dl_in_value *x = settled(c, dl_self(c));
    const dl_foreign_arg *k = dl_foreign_find(c->n, "other");
    double by = dl_foreign_real(c->n, "other", 0);
    if (!x || !is_number(k) || by == 0 || x->class == DL_FOREIGN_BOOL) return false;
    bool rest = c->detail[0] == 'r', whole = x->class == DL_FOREIGN_INT;
    int s = rest ? dl_say(c, STMT_PLAIN, P_SUM, "%p - %r * floor(%p / %r)", x, P_SUM, "k", by, x,
                          P_PRODUCT, "k", by)
                 : dl_say(c, STMT_PLAIN, P_POSTFIX, "floor(%p / %r)", x, P_PRODUCT, "k", by);
    dl_in_value made = *x;
    made.stmt = s;
    if (whole && c->n->results[0]->class == DL_FOREIGN_INT)
        s = dl_say(c, STMT_PLAIN, P_PIPE, "%v as i64", &made);
    return dl_done(c, x, s);
}

bool dl_in_masked_fill(dl_in_ctx *c) {
    return choose(c, dl_operand(c, "mask"), dl_foreign_find(c->n, "value"),
                  dl_foreign_find(c->n, "self"));
}

/* self + value * a * b */
bool dl_in_addcmul(dl_in_ctx *c) {
    dl_in_value *x = settled(c, dl_operand(c, "self")), *a = dl_operand(c, "tensor1"),
                *b = dl_operand(c, "tensor2");
    double k = dl_foreign_real(c->n, "value", 1);
    if (!x || !a || !b) return false;
    dl_in_value *product = dl_match(c, settled(c, a), b);
    product->stmt =
        dl_say(c, STMT_PLAIN, P_PRODUCT, "%p %s %p", a, P_PRODUCT, c->detail, b, P_UNARY);
    dl_in_value *made = dl_match(c, x, product);
    int at = dl_say(c, STMT_PLAIN, P_SUM, "%p + ", x, P_SUM);
    if (k != 1) dl_say_more(c, "%r * ", "k", k);
    dl_say_more(c, "%p", product, k != 1 ? P_UNARY : P_PRODUCT);
    return dl_done(c, made, at);
}

bool dl_in_lerp(dl_in_ctx *c) {
    dl_in_value *a = settled(c, dl_operand(c, "self")), *b = dl_operand(c, "end");
    const dl_foreign_arg *weight = dl_foreign_find(c->n, "weight");
    if (!a || !b || !is_number(weight)) return false;
    dl_in_value *made = dl_match(c, a, b);
    int at = dl_call_function(c, "lerp", a, ", %v, ", b);
    say_number(c, weight);
    return dl_done(c, made, at);
}

bool dl_in_same(dl_in_ctx *c) {
    dl_in_value *v = dl_self(c);
    if (!v) return false;
    dl_in_value *made = dl_copy_value(c, v);
    made->is_view = strstr(c->n->op, "clone") == NULL;
    dl_set(c, 0, made);
    return true;
}

/* copy_ of a tensor of the same shape and type */
bool dl_in_copy(dl_in_ctx *c) {
    const dl_foreign_tensor *from = dl_foreign_operand(c->n, "src"),
                            *to = dl_foreign_operand(c->n, "self");
    if (!from || !to || from->rank != to->rank || from->class != to->class ||
        from->dtype != to->dtype || from->pair != to->pair)
        return false;
    for (int d = 0; d < to->rank; d++)
        if (from->shape[d] != to->shape[d]) return false;
    dl_in_value *made = dl_copy_value(c, settled(c, dl_value_of(c, from)));
    made->is_view = false;
    dl_set(c, 0, made);
    return true;
}

bool dl_in_nothing(dl_in_ctx *c) { return c->n->n_results == 0; }

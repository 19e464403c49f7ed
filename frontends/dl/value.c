/* Compile-time values: numbers, strings, lists, and their operators, with Python's semantics and
 * overflow checks. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "frontends/dl/elab.h"
#include "frontends/dl/facts.h"
#include "parser.h"

enum { MAX_LIST = 65536, MAX_WORK = 1000000, MAX_NODES = 100000, FAULT_WORK = 50 };

/* Reports */

void dl_tell(dl_elab *E, dl_span where, dl_val v) {
    if (!E->facts || where.end <= where.begin) return;
    if (v.kind == DL_V_TENSOR)
        dl_facts_value(E->facts, where, dl_type_text(&v.t->type));
    else if (v.kind == DL_V_INT)
        dl_facts_value(E->facts, where, dl_format(E->facts->arena, "%lld", (long long)v.i));
    else if (v.kind == DL_V_FLOAT)
        dl_facts_value(E->facts, where, dl_format(E->facts->arena, "%g", v.f));
}

dl_val dl_poison(void) { return (dl_val){.kind = DL_V_POISON}; }

dl_val dl_bad(dl_elab *E, dl_span where, dl_diag_id id, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    char text[2000];
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    E->last = dl_report(E->diags, where, id, "%s", text);
    E->work += FAULT_WORK;
    int shown = 0;
    for (const dl_frame *f = E->frame; f && shown < 3; f = f->outer, shown++)
        dl_diag_add_note(E->diags, E->last, f->where->span, "in '%s', applied here", f->what->name);
    return dl_poison();
}

void dl_note(dl_elab *E, dl_span where, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    char text[1000];
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    dl_diag_add_note(E->diags, E->last, where, "%s", text);
}

void dl_help(dl_elab *E, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    char text[1000];
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    dl_diag_set_help(E->diags, E->last, "%s", text);
}

bool dl_spend(dl_elab *E, dl_span where, int64_t steps) {
    if (E->exhausted) return false;
    E->work += steps;
    if (E->work <= MAX_WORK && E->b.graph->nodes.n < MAX_NODES) return true;
    E->exhausted = true;
    dl_bad(E, where, DL_DIAG_too_much_work, "elaborating the model takes too long: more than %s",
           E->work > MAX_WORK ? "a million steps" : "100,000 operations");
    dl_help(E, "shorten the loops; work on whole tensors instead of elements");
    return false;
}

/* Constructors and predicates */

/* Samples are the axis N of inputs: the batch of a rank, equal on all ranks. */
dl_val dl_val_size(const char *axis, int64_t size, dl_span where) {
    dl_val v = dl_val_int(size, where);
    v.batch = strcmp(axis, "N") == 0, v.doubled = 2 * (double)size;
    return v;
}

dl_val dl_val_int(int64_t i, dl_span where) {
    return (dl_val){.kind = DL_V_INT, .origin = where, .i = i};
}
dl_val dl_val_float(double f, dl_span where) {
    return (dl_val){.kind = DL_V_FLOAT, .origin = where, .f = f};
}
dl_val dl_val_bool(bool b, dl_span where) {
    return (dl_val){.kind = DL_V_BOOL, .origin = where, .b = b};
}
dl_val dl_val_str(const char *s, dl_span where) {
    return (dl_val){.kind = DL_V_STR, .origin = where, .s = s};
}
dl_val dl_val_tensor(dl_value *t, dl_span where) {
    return (dl_val){.kind = DL_V_TENSOR, .origin = where, .t = t};
}
/* The pipeline that binds it ends before the layer is applied. */
dl_val dl_val_layer(dl_elab *E, dl_layer layer, dl_step *step, dl_span where) {
    dl_layer *l = DL_NEW(E->arena, dl_layer);
    *l = layer;
    l->step = step;
    dl_push(E->arena, &E->layers, l);
    if (step->pipeline) {
        dl_pipeline *p = DL_NEW(E->arena, dl_pipeline);
        *p = *step->pipeline;
        step->pipeline = p;
    }
    return (dl_val){.kind = DL_V_LAYER, .origin = where, .layer = l};
}
dl_val dl_val_new_list(dl_elab *E, dl_span where) {
    return (dl_val){.kind = DL_V_LIST, .origin = where, .list = DL_NEW(E->arena, dl_val_list)};
}

bool dl_val_append(dl_elab *E, dl_val list, dl_val item, dl_span where) {
    if (list.list->items.n == MAX_LIST) {
        dl_bad(E, where, DL_DIAG_too_much_work, "a list may have at most %d elements", MAX_LIST);
        dl_help(E, "more numbers are an input, which a file holds, or parts: cat(a as [K], b as "
                   "[K], over=K)");
        return false;
    }
    /* Copying lists counts as work. */
    if (!dl_spend(E, where, 1)) return false;
    dl_push(E->arena, &list.list->items, item);
    return true;
}

dl_val dl_setting_value(dl_elab *E, dl_span where, const dl_setting *s) {
    switch (s->kind) {
    case DL_SET_NONE: return (dl_val){.kind = DL_V_NONE, .origin = where};
    case DL_SET_BOOL: return dl_val_bool(s->b, where);
    case DL_SET_INT: return dl_val_int(s->i, where);
    case DL_SET_FLOAT: return dl_val_float(s->f, where);
    case DL_SET_STRING: return dl_val_str(dl_intern(s->s), where);
    case DL_SET_LIST: break;
    }
    dl_val list = dl_val_new_list(E, where);
    for (int i = 0; i < s->list.n; i++)
        if (!dl_val_append(E, list, dl_setting_value(E, where, &s->list.items[i]), where)) break;
    return list;
}

bool dl_val_is_number(dl_val v) {
    return v.kind == DL_V_INT || v.kind == DL_V_FLOAT || v.kind == DL_V_BOOL;
}

double dl_val_number(dl_val v) {
    return v.kind == DL_V_INT ? (double)v.i : v.kind == DL_V_BOOL ? (double)v.b : v.f;
}

const char *dl_val_describe(dl_elab *E, dl_val v) {
    dl_buf b = {0};
    switch (v.kind) {
    case DL_V_POISON: return "a faulty value";
    case DL_V_NONE: return "none";
    case DL_V_BOOL: return v.b ? "true" : "false";
    case DL_V_INT: return dl_format(E->arena, "the whole number %lld", (long long)v.i);
    case DL_V_FLOAT: dl_puts(&b, "the number "), dl_put_double(&b, v.f); break;
    case DL_V_STR: return dl_format(E->arena, "the string \"%.60s\"", v.s);
    case DL_V_LIST: return dl_format(E->arena, "a list of %d", v.list->items.n);
    case DL_V_LAYER:
        return dl_format(E->arena, "the layer %.60s, applied to nothing", v.layer->name);
    case DL_V_TENSOR: dl_puts(&b, "the tensor "), dl_type_print(&b, &v.t->type); break;
    }
    const char *text = dl_strdup(E->arena, b.at);
    dl_buf_free(&b);
    return text;
}

const char *dl_val_words(dl_elab *E, dl_val v, const char *otherwise) {
    return v.name ? dl_format(E->arena, "'%s'", v.name) : otherwise;
}

/* The value before a function pinned it (dl_tensor_pin); others unchanged. */
static const dl_value *unpinned(const dl_value *v) {
    while (v->def && v->def->op == DL_OP_cast && v->def->in[0]->type.dtype == v->type.dtype)
        v = v->def->in[0];
    return v;
}

void dl_note_tensor(dl_elab *E, dl_val v) {
    if (v.kind != DL_V_TENSOR) return;
    const dl_var *var = unpinned(v.t)->var;
    dl_note(E, v.origin, "%s is %s, %s here", dl_val_words(E, v, "this"), dl_type_text(&v.t->type),
            var && var->role != DL_VAR_TABLE ? "declared" : "made");
}

bool dl_refuse_layer(dl_elab *E, dl_span where, dl_val v) {
    if (v.kind != DL_V_LAYER) return false;
    if (v.layer->refused) return true;
    v.layer->refused = true;
    dl_bad(E, where, DL_DIAG_not_a_tensor,
           "here stands a tensor, but %s is a layer that is applied to nothing",
           v.name ? dl_val_words(E, v, "") : dl_format(E->arena, "'%s'", v.layer->name));
    if (v.origin.begin != where.begin) dl_note(E, v.origin, "bound here");
    dl_help(E, "apply it: x |> %s",
            v.name ? v.name : dl_format(E->arena, "%s(...)", v.layer->name));
    return true;
}

bool dl_val_count(dl_elab *E, dl_val v, int64_t least, const char *what, int64_t *out) {
    if (v.kind == DL_V_POISON) return false;
    if (v.kind == DL_V_INT && v.i >= least) return *out = v.i, true;
    if (v.kind == DL_V_INT) {
        dl_bad(E, v.origin, least == 0 ? DL_DIAG_negative_size : DL_DIAG_bad_argument,
               "%s must be %lld or more, not %lld", what, (long long)least, (long long)v.i);
        return false;
    }
    dl_bad(E, v.origin, v.kind == DL_V_FLOAT ? DL_DIAG_not_whole : DL_DIAG_bad_argument,
           "%s must be a whole number, not %s", what, dl_val_describe(E, v));
    if (v.uneven) {
        dl_note(E, v.uneven->span, "this division leaves a remainder");
        dl_help(E, "choose sizes that divide evenly, or round down with '//'");
    }
    return false;
}

/* Operators */

static dl_val not_defined(dl_elab *E, const dl_ast *e, const char *op, dl_val a, dl_val b) {
    if (dl_refuse_layer(E, e->at, a) || dl_refuse_layer(E, e->at, b)) return dl_poison();
    return dl_bad(E, e->at, DL_DIAG_bad_operand, "'%s' does not work on %s and %s", op,
                  dl_val_describe(E, a), dl_val_describe(E, b));
}

static dl_val too_big(dl_elab *E, const dl_ast *e) {
    return dl_bad(E, e->span, DL_DIAG_overflow,
                  "the result does not fit into a 64-bit whole number");
}

dl_val dl_fold_unary(dl_elab *E, const dl_ast *e, dl_val a) {
    if (e->op == T_NOT) return dl_val_bool(dl_val_number(a) == 0, e->span);
    if (dl_refuse_layer(E, e->span, a)) return dl_poison();
    if (!dl_val_is_number(a))
        return dl_bad(E, e->at, DL_DIAG_bad_operand,
                      "the sign works on numbers and tensors, not on %s", dl_val_describe(E, a));
    if (a.kind == DL_V_BOOL) a = dl_val_int(a.b, a.origin);
    a.origin = e->span, a.name = NULL;
    if (e->op == T_PLUS) return a;
    a.doubled = -a.doubled;
    if (a.kind == DL_V_FLOAT) return a.f = -a.f, a;
    if (a.i == INT64_MIN) return too_big(E, e);
    return a.i = -a.i, a;
}

static dl_val int_power(dl_elab *E, const dl_ast *e, int64_t a, int64_t n) {
    if (n < 0) {
        if (a == 0) return dl_bad(E, e->at, DL_DIAG_division_by_zero, "0 to a negative power");
        return dl_val_float(pow((double)a, (double)n), e->span);
    }
    int64_t r = 1;
    for (; n > 0; n >>= 1) {
        if ((n & 1) && __builtin_mul_overflow(r, a, &r)) return too_big(E, e);
        if (n > 1 && __builtin_mul_overflow(a, a, &a)) return too_big(E, e);
    }
    return dl_val_int(r, e->span);
}

/* '/' of whole numbers is whole where it has no remainder; a division with a remainder is
 * remembered, for the message if a size is made of it. */
static dl_val int_divide(dl_elab *E, const dl_ast *e, int64_t a, int64_t b) {
    if (b == 0) return dl_bad(E, e->at, DL_DIAG_division_by_zero, "division by zero");
    if (b == -1 && a == INT64_MIN) return too_big(E, e);
    int64_t q = a / b, r = a % b;
    if (e->op == T_DIVIDE && r == 0) return dl_val_int(q, e->span);
    if (e->op == T_DIVIDE) {
        dl_val v = dl_val_float((double)a / (double)b, e->span);
        v.uneven = e;
        return v;
    }
    /* Rounds towards minus infinity, as Python does. */
    if (r != 0 && (r < 0) != (b < 0)) q--, r += b;
    return dl_val_int(e->op == T_PERCENT ? r : q, e->span);
}

static dl_val int_op(dl_elab *E, const dl_ast *e, int64_t a, int64_t b) {
    int64_t r = 0;
    bool over = false;
    switch (e->op) {
    case T_PLUS: over = __builtin_add_overflow(a, b, &r); break;
    case T_MINUS: over = __builtin_sub_overflow(a, b, &r); break;
    case T_TIMES: over = __builtin_mul_overflow(a, b, &r); break;
    case T_POWER: return int_power(E, e, a, b);
    default: return int_divide(E, e, a, b);
    }
    return over ? too_big(E, e) : dl_val_int(r, e->span);
}

static double apply_op(int op, double a, double b) {
    switch (op) {
    case T_PLUS: return a + b;
    case T_MINUS: return a - b;
    case T_TIMES: return a * b;
    case T_DIVIDE: return a / b;
    case T_FLOOR_DIV: return floor(a / b);
    case T_PERCENT: return a - b * floor(a / b);
    default: return pow(a, b);
    }
}

/* The result r of an operation on a and b, with its value for a batch twice as large. */
static dl_val with_doubled(const dl_ast *e, dl_val r, dl_val a, dl_val b) {
    if ((!a.batch && !b.batch) || !dl_val_is_number(r)) return r;
    r.batch = true;
    r.doubled = apply_op(e->op, a.batch ? a.doubled : dl_val_number(a),
                         b.batch ? b.doubled : dl_val_number(b));
    return r;
}

static dl_val float_op(dl_elab *E, const dl_ast *e, dl_val av, dl_val bv) {
    double a = dl_val_number(av), b = dl_val_number(bv), r = 0;
    bool divides = e->op == T_DIVIDE || e->op == T_FLOOR_DIV || e->op == T_PERCENT;
    if (divides && b == 0) return dl_bad(E, e->at, DL_DIAG_division_by_zero, "division by zero");
    r = apply_op(e->op, a, b);
    if (!isfinite(r))
        return dl_bad(E, e->at, DL_DIAG_bad_operand, "the result is not a finite number (%s)",
                      isnan(r) ? "NaN" : "infinity");
    dl_val v = dl_val_float(r, e->span);
    v.uneven = av.kind == DL_V_FLOAT && av.uneven ? av.uneven
               : bv.kind == DL_V_FLOAT            ? bv.uneven
                                                  : NULL;
    return v;
}

static bool compares(int op) {
    return op == T_EQ || op == T_NE || op == T_LT || op == T_LE || op == T_GT || op == T_GE;
}

static dl_val compare(const dl_ast *e, double d) {
    bool r = e->op == T_EQ   ? d == 0
             : e->op == T_NE ? d != 0
             : e->op == T_LT ? d < 0
             : e->op == T_LE ? d <= 0
             : e->op == T_GT ? d > 0
                             : d >= 0;
    return dl_val_bool(r, e->span);
}

static const char *op_text(dl_elab *E, const dl_ast *e) {
    return dl_format(E->arena, "%.*s", (int)(e->at.end - e->at.begin),
                     E->source->text + e->at.begin);
}

static dl_val list_op(dl_elab *E, const dl_ast *e, dl_val a, dl_val b) {
    dl_val r = dl_val_new_list(E, e->span);
    if (e->op == T_PLUS && a.kind == DL_V_LIST && b.kind == DL_V_LIST) {
        const dl_val_list *parts[] = {a.list, b.list};
        for (int k = 0; k < 2; k++)
            for (int i = 0; i < parts[k]->items.n; i++)
                if (!dl_val_append(E, r, parts[k]->items.at[i], e->span)) return dl_poison();
        return r;
    }
    if (e->op == T_TIMES && a.kind == DL_V_LIST && b.kind == DL_V_INT) {
        for (int64_t k = 0; k < b.i && a.list->items.n; k++)
            for (int i = 0; i < a.list->items.n; i++)
                if (!dl_val_append(E, r, a.list->items.at[i], e->span)) return dl_poison();
        return r;
    }
    return not_defined(E, e, op_text(E, e), a, b);
}

dl_val dl_fold_binary(dl_elab *E, const dl_ast *e, dl_val a, dl_val b) {
    bool numbers = dl_val_is_number(a) && dl_val_is_number(b);
    if (a.kind == DL_V_LIST || b.kind == DL_V_LIST) return list_op(E, e, a, b);
    if (e->op == T_EQ || e->op == T_NE) {
        if (a.kind == DL_V_STR && b.kind == DL_V_STR) return compare(e, a.s != b.s);
        if (a.kind == DL_V_NONE || b.kind == DL_V_NONE) return compare(e, a.kind != b.kind);
        if (!numbers && a.kind != b.kind) return compare(e, 1);
    }
    if (!numbers) return not_defined(E, e, op_text(E, e), a, b);
    bool whole = a.kind != DL_V_FLOAT && b.kind != DL_V_FLOAT;
    int64_t ai = a.kind == DL_V_BOOL ? a.b : a.i, bi = b.kind == DL_V_BOOL ? b.b : b.i;
    if (compares(e->op)) {
        if (whole) return compare(e, (ai > bi) - (ai < bi));
        double x = dl_val_number(a), y = dl_val_number(b);
        return compare(e, (x > y) - (x < y));
    }
    return with_doubled(e, whole ? int_op(E, e, ai, bi) : float_op(E, e, a, b), a, b);
}

/* Expressions of the loop IR as text, by the emitter's dialect. */
#include "compiler/codegen/emit_parts.h"
#include "compiler/codegen/loop_parts.h"

const char *dl_loop_type_name(const dl_emitter *e, dl_loop_type type) {
    static const char *const names[] = {
        [DL_LOOP_INT] = "int",       [DL_LOOP_LONG] = "long",       [DL_LOOP_FLOAT] = "float",
        [DL_LOOP_DOUBLE] = "double", [DL_LOOP_LANES] = "vf",        [DL_LOOP_INT_LANES] = "vi",
        [DL_LOOP_BOOL_LANES] = "vb", [DL_LOOP_SUMS] = "struct sums"};
    return type == DL_LOOP_INDEX  ? e->dialect->index
           : type == DL_LOOP_BOOL ? e->dialect->truth
                                  : names[type];
}

/* How strongly an expression holds together, as C's operators do. */
static int strength(dl_expr x) {
    if (x->kind == DL_E_SELECT || (x->kind == DL_E_OP && x->op == 'm')) return 0;
    if (x->kind != DL_E_OP) return 6;
    return x->op == '&'   ? 1
           : x->op == '=' ? 2
           : x->op == '<' ? 3
           : x->op == '+' ? 4
           : x->op == '-' ? 4
                          : 5;
}

static void put_within(dl_emitter *e, dl_expr x, bool apart) {
    dl_puts(e->out, apart ? "(" : "");
    dl_loop_put(e, x);
    dl_puts(e->out, apart ? ")" : "");
}

static void put_number(dl_emitter *e, dl_expr x, const char *mark) {
    if (x->fixed)
        dl_putf(e->out, "%lld", (long long)x->number);
    else
        dl_putf(e->out, "$%s%lld%s$", mark, (long long)x->number, e->dialect->whole);
}

static void put_op(dl_emitter *e, dl_expr x) {
    int own = strength(x);
    bool divides = x->op == '/' || x->op == '%';
    if (x->op == 'm') {
        dl_loop_put_term(e, x->a), dl_puts(e->out, " < ");
        dl_loop_put_term(e, x->b), dl_puts(e->out, " ? ");
        put_within(e, x->a, !strength(x->a)), dl_puts(e->out, " : "), dl_loop_put(e, x->b);
        return;
    }
    put_within(e, x->a, strength(x->a) < own);
    dl_puts(e->out, x->op == '=' ? " == " : x->op == '&' ? " && " : "");
    if (x->op != '=' && x->op != '&') dl_putf(e->out, " %c ", x->op);
    if (divides && x->b->kind == DL_E_NUMBER) /* of the item's index: one thread may divide it */
        put_number(e, x->b, x->a->kind == DL_E_ITEM ? ":" : "/");
    else
        put_within(e, x->b, strength(x->b) <= own);
}

static void put_call(dl_emitter *e, dl_expr x) {
    const dl_expr args[] = {x->a, x->b, x->c, x->d};
    dl_putf(e->out, "%s(", x->text);
    for (int i = 0; i < 4 && args[i]; i++) dl_puts(e->out, i ? ", " : ""), dl_loop_put(e, args[i]);
    dl_puts(e->out, ")");
}

/* a and b as one result; or all lanes' results of a as one, with b lanes where that is a hole. */
static void put_reduction(dl_emitter *e, dl_expr x) {
    const dl_thread_layout *t = &x->threads;
    const char *by = e->dialect->operation ? e->dialect->operation(x->in) : NULL;
    if (x->kind == DL_E_REDUCE && !x->b)
        dl_putf(e->out, "group_reduce<%s, %d, %d, %s>(", by, t->lanes * t->groups, t->lanes,
                t->strided ? "true" : "false");
    else if (x->kind == DL_E_REDUCE)
        dl_putf(e->out, "group_reduce_by<%s, %d>(", by, t->lanes * t->groups);
    else if (by)
        dl_putf(e->out, "%s::of(", by);
    else
        dl_putf(e->out, "%s(", x->in->op == DL_OP_sum ? "" : dl_emit_combine(x->in));
    dl_loop_put(e, x->a);
    if (x->b) {
        dl_puts(e->out, by || x->in->op != DL_OP_sum ? ", " : " + ");
        dl_loop_put(e, x->b);
    }
    dl_puts(e->out, ")");
}

void dl_loop_put_term(dl_emitter *e, dl_expr x) { put_within(e, x, strength(x) < 4); }

void dl_loop_put(dl_emitter *e, dl_expr x) {
    switch (x->kind) {
    case DL_E_NUMBER: put_number(e, x, ""); break;
    case DL_E_NAME:
        if (x->of) x->of->used = true;
        dl_puts(e->out, x->text);
        break;
    case DL_E_ITEM: dl_puts(e->out, "item"); break;
    case DL_E_THREAD: dl_puts(e->out, e->dialect->thread); break;
    case DL_E_COORD: dl_puts(e->out, dl_emit_coordinate(e, (int)x->number)); break;
    case DL_E_VALUE: dl_putf(e->out, "$v%d$", (int)x->number); break;
    case DL_E_OP: put_op(e, x); break;
    case DL_E_SELECT:
        put_within(e, x->a, !strength(x->a)), dl_puts(e->out, " ? ");
        put_within(e, x->b, !strength(x->b)), dl_puts(e->out, " : "), dl_loop_put(e, x->c);
        break;
    case DL_E_CONVERT:
        dl_putf(e->out, "(%s)", dl_loop_type_name(e, x->type)),
            put_within(e, x->a, strength(x->a) < 6);
        break;
    case DL_E_MEMORY:
        dl_putf(e->out, "((%s *)(%s + $%lldL$))", dl_loop_type_name(e, x->type), x->text,
                (long long)x->number);
        break;
    case DL_E_AT:
        dl_loop_put(e, x->a), dl_puts(e->out, "["), dl_loop_put(e, x->b), dl_puts(e->out, "]");
        break;
    case DL_E_FROM: dl_loop_put(e, x->a), dl_puts(e->out, " + "), dl_loop_put(e, x->b); break;
    case DL_E_INSIDE: dl_emit_bounds(e, &e->k->params.at[x->in->param].type, x->in->index); break;
    case DL_E_START: dl_puts(e->out, dl_emit_start(x->in)); break;
    case DL_E_COMBINE:
    case DL_E_REDUCE: put_reduction(e, x); break;
    case DL_E_CALL: put_call(e, x); break;
    }
}

void dl_emit_linear_index(dl_emitter *e, const dl_axis_list *list) {
    dl_loops l = dl_loop_begin(e);
    dl_loop_put(e, dl_loop_linear(&l, list));
}

/* The printer of the IR's text; docs/internals/ir.md is the grammar, ir/text/parse.c its inverse.
 */
#include "ir/text/text.h"

#include <stdlib.h>

#include "ir/base/foreign.h"
#include "ir/kernel/schedule.h"
#include "ir/text/text_chars.h"

static void put_string(dl_buf *out, const char *s) {
    dl_puts(out, "\"");
    dl_put_foreign(out, DL_IN_IR, s);
    dl_puts(out, "\"");
}

static bool is_name(const char *s) {
    if (!*s) return false;
    for (; *s; s++)
        if (!dl_is_name(*s)) return false;
    return true;
}

static bool is_word(const char *s) {
    if (!dl_is_letter(*s)) return false;
    for (; *s; s++)
        if (!dl_is_word(*s)) return false;
    return true;
}

/* A name after its sigil ("" for a file name): bare where it can be, else quoted. */
static void put_name(dl_buf *out, const char *sigil, const char *name) {
    dl_puts(out, sigil);
    if (is_name(name))
        dl_puts(out, name);
    else
        put_string(out, name);
}

static void put_word(dl_buf *out, const char *s) {
    if (is_word(s))
        dl_puts(out, s);
    else
        put_string(out, s);
}

static void put_int(dl_buf *out, int64_t v) { dl_putf(out, "%lld", (long long)v); }

static void put_ints(dl_buf *out, int n, const int64_t *v) {
    dl_puts(out, "[");
    for (int i = 0; i < n; i++) dl_puts(out, i ? ", " : ""), put_int(out, v[i]);
    dl_puts(out, "]");
}

static bool has_loc(dl_loc loc) { return loc.line > 0 && loc.file; }

static void put_loc(dl_buf *out, dl_loc loc) {
    put_name(out, "", loc.file);
    dl_putf(out, ":%d", loc.line);
    if (loc.column > 0) dl_putf(out, ":%d", loc.column);
}

/* Ends a statement: prints its location as a comment, where wanted and known. */
static void end_line(dl_buf *out, dl_loc loc, dl_print_options opt) {
    if (opt.locations && has_loc(loc)) dl_puts(out, "   # "), put_loc(out, loc);
    dl_puts(out, "\n");
}

static void put_value(dl_buf *out, const dl_value *v) {
    if (v->var)
        put_name(out, "$", v->var->name);
    else
        dl_putf(out, "%%%u", v->id);
}

static void put_typed(dl_buf *out, const dl_value *v) {
    dl_type_print(out, &v->type);
    if (v->offset >= 0) dl_puts(out, " at "), put_int(out, v->offset);
}

static void put_attr(dl_buf *out, const dl_attr *a) {
    dl_putf(out, "%s=", dl_attrs[a->id].name);
    switch (dl_attrs[a->id].kind) {
    case DL_KIND_INT: put_int(out, a->i); break;
    case DL_KIND_INTS: put_ints(out, a->n, a->ints); break;
    case DL_KIND_FLOAT: dl_put_double(out, a->f); break;
    case DL_KIND_NAME: put_word(out, a->s); break;
    case DL_KIND_NAMES:
        dl_puts(out, "[");
        for (int i = 0; i < a->n; i++) dl_puts(out, i ? ", " : ""), put_word(out, a->names[i]);
        dl_puts(out, "]");
        break;
    case DL_KIND_STR: put_string(out, a->s); break;
    case DL_KIND_TEXTS:
        dl_puts(out, "[");
        for (int i = 0; i < a->n; i++) dl_puts(out, i ? ", " : ""), put_string(out, a->texts[i]);
        dl_puts(out, "]");
        break;
    }
}

static void put_attrs(dl_buf *out, const dl_node *n) {
    for (int i = 0; i < n->nattrs; i++) dl_puts(out, i ? ", " : " {"), put_attr(out, &n->attrs[i]);
    if (n->nattrs) dl_puts(out, "}");
}

static void put_node(dl_buf *out, const dl_node *n) {
    for (int i = 0; i < n->nout; i++) dl_puts(out, i ? ", " : ""), put_value(out, &n->out[i]);
    dl_putf(out, " = %s", dl_ops[n->op].name);
    if (n->op == DL_OP_fused)
        put_name(out, " @", n->kernel ? n->kernel->name : ""), dl_puts(out, "(");
    if (dl_op_has_body(n->op)) put_name(out, " @", n->body ? n->body->name : ""), dl_puts(out, "(");
    bool called = n->op == DL_OP_fused || dl_op_has_body(n->op);
    const char *first = called ? "" : " ";
    for (int i = 0; i < n->nin; i++) dl_puts(out, i ? ", " : first), put_value(out, n->in[i]);
    if (called) dl_puts(out, ")");
    put_attrs(out, n);
    for (int i = 0; i < n->nout; i++) dl_puts(out, i ? ", " : " : "), put_typed(out, &n->out[i]);
}

void dl_print_node(dl_buf *out, const dl_node *n) { put_node(out, n); }

static void put_numbers(dl_buf *out, const dl_var *v) {
    dl_puts(out, " numbers(");
    for (int i = 0; i < v->numbers.n; i++)
        dl_puts(out, i ? ", " : ""), dl_put_double(out, v->numbers.at[i]);
    dl_puts(out, ")");
}

static void put_var(dl_buf *out, const dl_var *v) {
    dl_putf(out, "  %s", dl_var_roles[v->role]);
    put_name(out, " $", v->name);
    if (v->of) put_name(out, " of $", v->of);
    if (v->by) dl_puts(out, " by "), put_string(out, v->by);
    dl_putf(out, " = %%%u : ", v->value.id);
    put_typed(out, &v->value);
    for (int i = 0; i < v->piece.n; i++) {
        const dl_var_cut *c = &v->piece.cut[i];
        dl_putf(out, " piece(%d, ", c->axis), put_int(out, c->size), dl_puts(out, ", ");
        put_word(out, c->group), dl_putf(out, ", %d, %d", c->ranks, c->rank);
        if (c->parts > 1) dl_putf(out, ", %d", c->parts);
        dl_puts(out, ")");
    }
    if (v->role == DL_VAR_TABLE) {
        put_numbers(out, v);
        return;
    }
    bool fed = v->role == DL_VAR_INPUT || v->role == DL_VAR_TARGET;
    if (fed && v->init.kind == DL_INIT_ZERO) return;
    dl_putf(out, " init %s", dl_init_kinds[v->init.kind]);
    if (v->init.kind == DL_INIT_ZERO || v->init.kind == DL_INIT_GIVEN) return;
    dl_puts(out, "("), dl_put_double(out, v->init.a);
    if (v->init.kind != DL_INIT_CONST) dl_puts(out, ", "), dl_put_double(out, v->init.b);
    dl_puts(out, ")");
}

static void put_result(dl_buf *out, const dl_result *r) {
    dl_putf(out, "  %s", dl_result_roles[r->role]);
    if (r->var) put_name(out, " $", r->var->name);
    if (!r->var || r->name != r->var->name) dl_puts(out, " "), put_string(out, r->name);
    dl_puts(out, " = ");
    put_value(out, r->value);
    if (r->undo) dl_puts(out, " undo "), put_string(out, r->undo);
    dl_puts(out, "\n");
}

/* One more than the largest id: the default of next_id. */
static uint32_t derived_next_id(const dl_graph *g) {
    uint32_t next = 0;
    for (int i = 0; i < g->vars.n; i++)
        if (g->vars.at[i]->value.id >= next) next = g->vars.at[i]->value.id + 1;
    for (int i = 0; i < g->nodes.n; i++)
        for (int j = 0; j < g->nodes.at[i]->nout; j++)
            if (g->nodes.at[i]->out[j].id >= next) next = g->nodes.at[i]->out[j].id + 1;
    return next;
}

void dl_print_graph(dl_buf *out, const dl_graph *g, dl_print_options opt) {
    put_name(out, g->is_body ? "body @" : "graph @", g->name);
    dl_puts(out, " {\n");
    for (int i = 0; i < g->vars.n; i++)
        put_var(out, g->vars.at[i]), end_line(out, g->vars.at[i]->loc, opt);
    for (int i = 0; i < g->nodes.n; i++) {
        dl_puts(out, "  ");
        put_node(out, g->nodes.at[i]);
        end_line(out, g->nodes.at[i]->loc, opt);
    }
    for (int i = 0; i < g->results.n; i++) put_result(out, &g->results.at[i]);
    if (g->next_id != derived_next_id(g)) dl_putf(out, "  next %%%u\n", g->next_id);
    if (g->arena_bytes || g->arena_at) dl_puts(out, "  arena "), put_int(out, g->arena_bytes);
    if (g->arena_at) dl_puts(out, " at "), put_int(out, g->arena_at);
    if (g->arena_bytes || g->arena_at) dl_puts(out, "\n");
    dl_puts(out, "}\n");
}

/* A space axis: its name, or @position where the name is not unique. */
static void put_axis(dl_buf *out, const dl_kernel *k, int axis) {
    const char *name = k->space[axis].name;
    int same = 0;
    for (int i = 0; i < k->nspace; i++) same += k->space[i].name == name;
    if (*name && same == 1)
        dl_puts(out, name);
    else
        dl_putf(out, "@%d", axis);
}

static void put_param(dl_buf *out, const dl_kernel *k, int param) {
    put_name(out, "%", k->params.at[param].name);
}

/* " div 2 exact": the divisor of the sum, and the rule for indices outside. */
static void put_landing(dl_buf *out, const dl_index *x) {
    if (x->div > 1) dl_puts(out, " div "), put_int(out, x->div);
    if (x->outside) dl_putf(out, " %s", dl_outside_names[x->outside]);
}

/* "(H div 8 mul 90, W div 8)+5" */
static void put_terms(dl_buf *out, const dl_kernel *k, const dl_index *x) {
    for (int i = 0; i < x->nterms; i++) {
        const dl_term *t = &x->term[i];
        dl_puts(out, i ? ", " : "(");
        put_axis(out, k, t->axis);
        if (t->div != 1) dl_puts(out, " div "), put_int(out, t->div);
        if (t->mod) dl_puts(out, " mod "), put_int(out, t->mod);
        if (t->mul != 1) dl_puts(out, " mul "), put_int(out, t->mul);
    }
    dl_puts(out, ")");
    if (x->offset) dl_putf(out, "%+lld", (long long)x->offset);
}

static void put_place(dl_buf *out, const dl_kernel *k, const dl_kinstr *in) {
    put_param(out, k, in->param);
    dl_puts(out, "[");
    for (int i = 0; i < k->params.at[in->param].type.rank; i++) {
        dl_puts(out, i ? ", " : "");
        const dl_index *x = &in->index[i];
        if (x->indirect)
            dl_putf(out, "%%%d", x->indirect - 1);
        else if (x->nterms)
            put_terms(out, k, x);
        else if (x->axis < 0)
            put_int(out, x->offset);
        else {
            put_axis(out, k, x->axis);
            if (x->offset) dl_putf(out, "%+lld", (long long)x->offset);
        }
        put_landing(out, x);
    }
    dl_puts(out, "]");
}

/* "contract over(E.in=384) %a[N, T, E.in], %b[E, E.in]" */
static void put_names(dl_buf *out, const dl_kernel *k, const dl_kinstr *in) {
    dl_putf(out, "%s over(", dl_ops[in->op].name);
    for (int i = 0; i < in->nsums; i++) {
        dl_putf(out, "%s%s=", i ? ", " : "", in->sum[i].name);
        put_int(out, in->sum[i].size);
    }
    for (int side = 0; side < 2; side++) {
        dl_puts(out, side ? ", " : ") ");
        put_param(out, k, in->parts[side][0]);
        for (int i = 0; i < k->params.at[in->parts[side][0]].type.rank; i++) {
            int at = in->follow[side][i];
            dl_puts(out, i ? ", " : "[");
            if (at < DL_MAX_RANK)
                put_axis(out, k, at);
            else
                dl_puts(out, in->sum[at - DL_MAX_RANK].name);
        }
        dl_puts(out, k->params.at[in->parts[side][0]].type.rank ? "]" : "[]");
    }
}

static bool spreads(const dl_windows *w) {
    for (int i = 0; i < w->n; i++)
        if (w->dilation[i] != 1) return true;
    return false;
}

static void put_contract(dl_buf *out, const dl_kernel *k, const dl_kinstr *in) {
    if (!dl_op_slides(in->op)) {
        put_names(out, k, in);
        return;
    }
    dl_puts(out, dl_ops[in->op].name);
    for (int side = 0; side < 2; side++) {
        bool several = in->nparts[side] > 1;
        dl_puts(out, side ? ", " : " ");
        dl_puts(out, several ? "cat(" : "");
        for (int i = 0; i < in->nparts[side]; i++)
            dl_puts(out, i ? ", " : ""), put_param(out, k, in->parts[side][i]);
        dl_puts(out, several ? ")" : "");
    }
    const dl_windows *w = &in->windows;
    dl_puts(out, " {stride="), put_ints(out, w->n, w->stride);
    dl_puts(out, ", pad_lo="), put_ints(out, w->n, w->pad_lo);
    dl_puts(out, ", pad_hi="), put_ints(out, w->n, w->pad_hi);
    if (spreads(w)) dl_puts(out, ", dilation="), put_ints(out, w->n, w->dilation);
    if (w->groups != 1) dl_puts(out, ", groups="), put_int(out, w->groups);
    if (in->w_start) dl_puts(out, ", w_start="), put_int(out, in->w_start);
    dl_puts(out, "}");
}

static void put_over(dl_buf *out, const dl_kernel *k, unsigned over) {
    const char *comma = "";
    dl_puts(out, "over=[");
    for (int i = 0; i < k->nspace; i++)
        if (over >> i & 1) dl_puts(out, comma), put_axis(out, k, i), comma = ", ";
    dl_puts(out, "]");
}

/* "schedule rows {over=[E], phases=1}", "schedule call {variant=\"64x64\"}" */
static void put_schedule(dl_buf *out, const dl_kernel *k) {
    const dl_loop_schedule *s = &k->schedule;
    if (s->kind == DL_BY_NOTHING) return;
    dl_putf(out, "  schedule %s", dl_schedule_name(s->kind));
    bool phases = dl_schedule_has_phases(s->kind);
    dl_puts(out, phases || s->variant ? " {" : "");
    if (dl_schedule_has_axes(s->kind)) put_over(out, k, s->axes), dl_puts(out, ", ");
    if (phases) dl_putf(out, "phases=%d", s->phases);
    if (s->variant) dl_puts(out, phases ? ", variant=" : "variant="), put_string(out, s->variant);
    dl_puts(out, phases || s->variant ? "}\n" : "\n");
}

/* "random %0, %1 {number=3, first=0, along=[12, 1]}"; with a third operand ", part=24" follows */
static void put_random(dl_buf *out, const dl_kernel *k, const dl_kinstr *in) {
    dl_putf(out, "random %%%d, %%%d", in->args[0], in->args[1]);
    if (in->nargs > 2) dl_putf(out, ", %%%d", in->args[2]);
    dl_puts(out, " {number="), put_int(out, in->number);
    dl_puts(out, ", first="), put_int(out, in->first);
    dl_puts(out, ", along="), put_ints(out, k->nspace, in->along);
    if (in->nargs > 2) dl_puts(out, ", part="), put_int(out, in->part);
    dl_puts(out, "}");
}

static void put_elem(dl_buf *out, const dl_kinstr *in) {
    dl_puts(out, dl_ops[in->op].name);
    for (int i = 0; i < in->nargs; i++) dl_putf(out, "%s%%%d", i ? ", " : " ", in->args[i]);
    if (in->no_contract) dl_puts(out, " no_contract");
    const dl_op_info *op = &dl_ops[in->op];
    if (op->nattrs != 1 || dl_attrs[op->attrs[0]].kind != DL_KIND_FLOAT) return;
    dl_putf(out, " {%s=", dl_attrs[op->attrs[0]].name);
    dl_put_double(out, in->p);
    dl_puts(out, "}");
}

static void put_instr(dl_buf *out, const dl_kernel *k, int number) {
    const dl_kinstr *in = &k->instrs.at[number];
    if (in->kind == DL_K_STORE) {
        dl_puts(out, in->op == DL_OP_reduce_max ? "store max " : "store ");
        put_place(out, k, in);
        dl_putf(out, ", %%%d", in->args[0]);
        return;
    }
    if (in->kind == DL_K_CALL) {
        dl_putf(out, "call %s", dl_ops[in->call->op].name);
        put_attrs(out, in->call);
        return;
    }
    dl_putf(out, "%%%d = ", number);
    switch (in->kind) {
    case DL_K_CONTRACT: put_contract(out, k, in), dl_puts(out, in->tf32 ? " in tf32" : ""); break;
    case DL_K_LOAD: dl_puts(out, "load "), put_place(out, k, in); break;
    case DL_K_CONST:
        dl_puts(out, "const {value="), dl_put_double(out, in->p), dl_puts(out, "}");
        break;
    case DL_K_COORD: dl_puts(out, "coord "), put_axis(out, k, in->axis); break;
    case DL_K_RANDOM: put_random(out, k, in); break;
    case DL_K_ELEM: put_elem(out, in); break;
    case DL_K_REDUCE:
        put_elem(out, in), dl_puts(out, " {"), put_over(out, k, in->over), dl_puts(out, "}");
        break;
    default: break;
    }
    dl_putf(out, " : %s", dl_dtype_name(in->type));
}

static void put_params(dl_buf *out, const dl_kernel *k, int from, int to) {
    dl_puts(out, "(");
    for (int i = from; i < to; i++) {
        const dl_kparam *p = &k->params.at[i];
        dl_puts(out, i > from ? ", " : "");
        put_param(out, k, i);
        dl_puts(out, ": ");
        dl_type_print(out, &p->type);
        if (p->is_out && p->alias >= 0) dl_puts(out, " alias "), put_param(out, k, p->alias);
    }
    dl_puts(out, ")");
}

void dl_print_kernel(dl_buf *out, const dl_kernel *k, dl_print_options opt) {
    put_name(out, "kernel @", k->name);
    put_params(out, k, 0, k->nin);
    dl_puts(out, " -> ");
    put_params(out, k, k->nin, k->params.n);
    dl_puts(out, " space(");
    for (int i = 0; i < k->nspace; i++) {
        dl_puts(out, i ? ", " : "");
        if (*k->space[i].name) dl_putf(out, "%s=", k->space[i].name);
        put_int(out, k->space[i].size);
    }
    dl_puts(out, ")");
    if (k->flops || k->bytes || k->bytes_unfused)
        dl_putf(out, " cost(flops=%lld, bytes=%lld, unfused=%lld)", (long long)k->flops,
                (long long)k->bytes, (long long)k->bytes_unfused);
    dl_puts(out, " {\n");
    put_schedule(out, k);
    for (int i = 0; i < k->instrs.n; i++) {
        dl_puts(out, "  ");
        put_instr(out, k, i);
        end_line(out, k->instrs.at[i].loc, opt);
    }
    dl_puts(out, "}");
    const char *before = "   # ";
    for (int i = 0; opt.locations && i < k->locs.n; i++)
        if (has_loc(k->locs.at[i])) dl_puts(out, before), put_loc(out, k->locs.at[i]), before = " ";
    dl_puts(out, "\n");
}

static bool wanted(const char *filter, const char *name) {
    if (!filter) return true;
    return strcmp(filter + (*filter == '@'), name) == 0;
}

/* Kernels by the first graph that uses them. */
typedef struct {
    const dl_kernel *kernel;
    int graph;
} first_use;

static int by_kernel(const void *pa, const void *pb) {
    const first_use *a = pa, *b = pb;
    uintptr_t p = (uintptr_t)a->kernel, q = (uintptr_t)b->kernel;
    return p != q ? (p > q) - (p < q) : a->graph - b->graph;
}

static first_use *find_first_uses(const dl_module *m, int *n) {
    int all = 0;
    for (int i = 0; i < m->graphs.n; i++) all += m->graphs.at[i]->kernels.n;
    first_use *uses = dl_calloc((size_t)all, sizeof *uses);
    all = 0;
    for (int i = 0; i < m->graphs.n; i++)
        for (int j = 0; j < m->graphs.at[i]->kernels.n; j++)
            uses[all++] = (first_use){m->graphs.at[i]->kernels.at[j], i};
    qsort(uses, (size_t)all, sizeof *uses, by_kernel);
    *n = 0;
    for (int i = 0; i < all; i++)
        if (i == 0 || uses[i].kernel != uses[i - 1].kernel) uses[(*n)++] = uses[i];
    return uses;
}

static int compare_kernels(const void *pa, const void *pb) {
    uintptr_t p = (uintptr_t)((const first_use *)pa)->kernel,
              q = (uintptr_t)((const first_use *)pb)->kernel;
    return (p > q) - (p < q);
}

/* The bodies of a graph's nodes, each after its own kernels and bodies. */
static void print_bodies(dl_buf *out, const dl_graph *g, dl_print_options opt, const char **gap) {
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_graph *body = g->nodes.at[i]->body;
        if (!body) continue;
        for (int j = 0; j < body->kernels.n; j++) {
            if (!wanted(opt.filter, body->kernels.at[j]->name)) continue;
            dl_puts(out, *gap), *gap = "\n";
            dl_print_kernel(out, body->kernels.at[j], opt);
        }
        print_bodies(out, body, opt, gap);
        if (!wanted(opt.filter, body->name)) continue;
        dl_puts(out, *gap), *gap = "\n";
        dl_print_graph(out, body, opt);
    }
}

/* A kernel used by several graphs is printed before the first. */
void dl_print_module(dl_buf *out, const dl_module *m, dl_print_options opt) {
    const char *gap = "";
    int n;
    first_use *uses = find_first_uses(m, &n);
    for (int i = 0; i < m->graphs.n; i++) {
        const dl_graph *g = m->graphs.at[i];
        print_bodies(out, g, opt, &gap);
        for (int j = 0; j < g->kernels.n; j++) {
            first_use key = {.kernel = g->kernels.at[j]};
            const first_use *first = bsearch(&key, uses, (size_t)n, sizeof *uses, compare_kernels);
            if ((first && first->graph < i) || !wanted(opt.filter, key.kernel->name)) continue;
            dl_puts(out, gap), gap = "\n";
            dl_print_kernel(out, key.kernel, opt);
        }
        if (!wanted(opt.filter, g->name)) continue;
        dl_puts(out, gap), gap = "\n";
        dl_print_graph(out, g, opt);
    }
    free(uses);
}

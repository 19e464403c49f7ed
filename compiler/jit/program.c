/* A planned graph as a program of a plan: variables, launches, collectives, results. */
#include "compiler/jit/program.h"

#include "ir/base/foreign.h"
#include "ir/walk.h"

void dl_put_line(dl_buf *b, dl_loc loc) {
    dl_put_foreign(b, DL_IN_LINE, loc.file);
    dl_putf(b, ":%d", loc.line);
}

static int add_var(dl_plan *p, const dl_var *v) {
    for (int i = 0; i < p->vars.n; i++)
        if (strcmp(p->vars.at[i].name, v->name) == 0) return i;
    dl_plan_var pv = {.name = dl_strdup(p->arena, v->name),
                      .of = v->of ? dl_strdup(p->arena, v->of) : NULL,
                      .role = v->role,
                      .type = v->value.type,
                      .init = v->init,
                      .piece = v->piece,
                      .offset = v->value.offset};
    for (int i = 0; i < pv.piece.n; i++)
        pv.piece.cut[i].group = dl_strdup(p->arena, pv.piece.cut[i].group);
    for (int i = 0; i < v->numbers.n; i++) dl_push(p->arena, &pv.numbers, v->numbers.at[i]);
    dl_push(p->arena, &p->vars, pv);
    return p->vars.n - 1;
}

/* ---- collectives ---- */

/* Describes the collective's work on operand k, which stays where it is in memory. */
static dl_plan_collective describe(dl_plan *p, const dl_node *n, int k) {
    const dl_type *t = &n->in[k]->type, *result = &n->out[k].type;
    const dl_attr *of = dl_node_attr(n, DL_ATTR_of);
    dl_buf where = {0};
    if (n->loc.line) dl_put_line(&where, n->loc);
    dl_plan_collective c = {.op = n->op,
                            .group = dl_strdup(p->arena, dl_node_name(n, DL_ATTR_group)),
                            .ranks = (int)dl_node_int(n, DL_ATTR_ranks),
                            .dtype = t->dtype,
                            .outer = 1,
                            .inner = 1,
                            .from = n->in[k]->offset,
                            .to = n->out[k].offset,
                            .where = dl_strdup(p->arena, where.at ? where.at : "")};
    dl_buf_free(&where);
    dl_push(p->arena, &c.members,
            ((dl_plan_member){dl_strdup(p->arena, of ? of->texts[k] : ""), 0}));
    if (n->op == DL_OP_all_reduce) { /* the whole allocation, with the padding of panels */
        c.size = c.own = dl_type_bytes(t) / dl_dtype_bytes(t->dtype);
        return c;
    }
    int axis = dl_type_axis(t, dl_node_name(n, DL_ATTR_axis));
    bool gathers = n->op == DL_OP_all_gather;
    if (n->op == DL_OP_shift) {
        const dl_around piece = dl_type_around(t, axis);
        c.outer = piece.outer, c.inner = piece.inner,
        c.size = dl_node_attr(n, DL_ATTR_size)->ints[0];
        c.own = piece.size, c.come = result->axis[axis].size,
        c.ring_step = (int)dl_node_int(n, DL_ATTR_ring_step);
        return c;
    }
    const dl_around whole = dl_type_laid_around(gathers ? result : t, axis);
    c.outer = whole.outer, c.size = whole.size, c.inner = whole.inner;
    c.own = (gathers ? t : result)->axis[axis].size;
    return c;
}

/* Do the bytes of b directly follow those of a, apart from alignment, in both places? */
static bool follows(const dl_plan_collective *a, const dl_plan_collective *b) {
    int64_t end = a->from + a->size * dl_dtype_bytes(a->dtype), gap = b->from - end;
    return a->op == DL_OP_all_reduce && a->from == a->to && b->from == b->to && gap >= 0 &&
           gap < DL_PLAN_ALIGN;
}

/* Starts the collectives of node n. Operands of a bucket that are contiguous in memory become
 * one. */
static void add_collectives(dl_plan *p, const dl_node *n, int *first, dl_plan_program *prog) {
    *first = prog->collectives.n;
    for (int k = 0; k < n->nout; k++) {
        dl_plan_collective c = describe(p, n, k);
        dl_plan_collective *last = k ? &prog->collectives.at[prog->collectives.n - 1] : NULL;
        if (last && follows(last, &c)) {
            int64_t begins = (c.from - last->from) / dl_dtype_bytes(c.dtype);
            dl_push(p->arena, &last->members, ((dl_plan_member){c.members.at[0].of, begins}));
            last->size = last->own = begins + c.size;
            continue;
        }
        dl_push(p->arena, &prog->collectives, c);
    }
    for (int i = *first; i < prog->collectives.n; i++)
        dl_push(p->arena, &prog->steps, ((dl_plan_step){DL_STEP_START, i}));
}

/* ---- the program ---- */

static void add_launch(dl_plan *p, const dl_graph *g, const dl_node *n, int first_kernel,
                       dl_plan_program *prog) {
    int at = 0;
    while (g->kernels.at[at] != n->kernel) at++;
    dl_plan_launch launch = {.kernel = first_kernel + at, .nargs = n->nin + n->nout};
    launch.args = DL_NEWS(p->arena, int64_t, launch.nargs + 1);
    for (int k = 0; k < n->nin; k++) launch.args[k] = n->in[k]->offset;
    for (int k = 0; k < n->nout; k++) launch.args[n->nin + k] = n->out[k].offset;
    dl_push(p->arena, &prog->steps, ((dl_plan_step){DL_STEP_LAUNCH, prog->launches.n}));
    dl_push(p->arena, &prog->launches, launch);
}

void dl_add_program(dl_plan *p, const dl_graph *g, int first_kernel) {
    dl_plan_program prog = {.name = dl_strdup(p->arena, g->name)};
    for (int i = 0; i < g->vars.n; i++) add_var(p, g->vars.at[i]);
    dl_arena *scratch = dl_arena_new(NULL);
    const int *waits = dl_graph_waits(g, scratch);
    int *first = DL_NEWS(scratch, int, g->nodes.n + 1),
        *end = DL_NEWS(scratch, int, g->nodes.n + 1);
    DL_ARRAY(int) begun = {0}; /* nodes whose collectives are in flight */
    for (int i = 0; i <= g->nodes.n; i++) {
        int left = 0;
        for (int k = 0; k < begun.n; k++) {
            int node = begun.at[k];
            if (waits[node] != i) begun.at[left++] = node;
            for (int c = first[node]; c < end[node] && waits[node] == i; c++)
                dl_push(p->arena, &prog.steps, ((dl_plan_step){DL_STEP_WAIT, c}));
        }
        begun.n = left;
        if (i == g->nodes.n) break;
        if (waits[i] < 0) {
            add_launch(p, g, g->nodes.at[i], first_kernel, &prog);
            continue;
        }
        add_collectives(p, g->nodes.at[i], &first[i], &prog);
        end[i] = prog.collectives.n;
        dl_push(scratch, &begun, i);
    }
    if (!prog.collectives.n) prog.steps.n = 0;
    dl_arena_free(scratch);
    for (int i = 0; i < g->results.n; i++) {
        const dl_result *r = &g->results.at[i];
        dl_plan_result pr = {.role = r->role,
                             .name = r->name ? dl_strdup(p->arena, r->name) : NULL,
                             .type = r->value->type,
                             .offset = r->value->offset,
                             .var = r->var ? add_var(p, r->var) : -1};
        dl_push(p->arena, &prog.results, pr);
    }
    dl_push(p->arena, &p->programs, prog);
}

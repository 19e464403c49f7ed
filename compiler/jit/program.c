/* A planned graph as a program of a plan: variables, launches, collectives, results. */
#include "compiler/jit/program.h"

#include "ir/base/foreign.h"
#include "ir/body.h"
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

typedef struct {
    dl_plan *p;
    dl_plan_program *prog;
    int first_kernel;
    dl_kernel **kernels; /* of the graph and its bodies */
    dl_arena *scratch;
} adder;

/* `at`: by value id of the node's graph, its place in the arena. */
static void add_launch(adder *a, const dl_node *n, const int64_t *at) {
    dl_arena *arena = a->p->arena;
    int number = 0;
    while (a->kernels[number] != n->kernel) number++;
    dl_plan_launch launch = {.kernel = a->first_kernel + number, .nargs = n->nin + n->nout};
    launch.args = DL_NEWS(arena, int64_t, launch.nargs + 1);
    for (int k = 0; k < n->nin; k++) launch.args[k] = at[n->in[k]->id];
    for (int k = 0; k < n->nout; k++) launch.args[n->nin + k] = at[n->out[k].id];
    dl_push(arena, &a->prog->steps, ((dl_plan_step){DL_STEP_LAUNCH, a->prog->launches.n}));
    dl_push(arena, &a->prog->launches, launch);
}

static int64_t *places_of(const dl_graph *g, dl_arena *scratch) {
    int64_t *at = DL_NEWS(scratch, int64_t, g->next_id + 1);
    for (int i = 0; i < g->vars.n; i++) at[g->vars.at[i]->value.id] = g->vars.at[i]->value.offset;
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.at[i]->nout; k++)
            at[g->nodes.at[i]->out[k].id] = g->nodes.at[i]->out[k].offset;
    return at;
}

/* The launches of a scan: those of its body for each step, on the step's slices. A state is read at
 * the operand in the first step, and at the result, where each step leaves it, later. */
static void add_scan(adder *a, const dl_node *n, const int64_t *around) {
    const dl_graph *body = n->body;
    const dl_steps s = dl_steps_of(n);
    int64_t *at = places_of(body, a->scratch);
    for (int64_t i = 0; i < s.steps; i++) {
        const int64_t step = s.reverse ? s.steps - 1 - i : i;
        for (int k = 0; k < body->vars.n; k++) {
            const dl_var *v = body->vars.at[k];
            int64_t moved = v->role == DL_VAR_INPUT ? step * dl_scan_stride(&n->in[k]->type) : 0;
            if (v->role != DL_VAR_STATE || i == 0) at[v->value.id] = around[n->in[k]->id] + moved;
        }
        for (int k = 0; k < body->results.n; k++) {
            const dl_result *r = &body->results.at[k];
            bool stacked = r->role == DL_RESULT_OUTPUT;
            at[r->value->id] =
                around[n->out[k].id] + (stacked ? step * dl_scan_stride(&n->out[k].type) : 0);
            if (!stacked && i > 0) at[r->var->value.id] = around[n->out[k].id];
        }
        for (int k = 0; k < body->nodes.n; k++) {
            const dl_node *of = body->nodes.at[k];
            if (of->body)
                add_scan(a, of, at);
            else
                add_launch(a, of, at);
        }
    }
}

void dl_add_program(dl_plan *p, const dl_graph *g, int first_kernel) {
    dl_plan_program prog = {.name = dl_strdup(p->arena, g->name)};
    for (int i = 0; i < g->vars.n; i++) add_var(p, g->vars.at[i]);
    dl_arena *scratch = dl_arena_new(NULL);
    adder a = {.p = p,
               .prog = &prog,
               .kernels = dl_graph_kernel_list(g, scratch),
               .first_kernel = first_kernel,
               .scratch = scratch};
    const int64_t *at = places_of(g, scratch);
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
            if (g->nodes.at[i]->body)
                add_scan(&a, g->nodes.at[i], at);
            else
                add_launch(&a, g->nodes.at[i], at);
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

#include "compiler/prepared.h"

#include "ir/base/counts.h"
#include "ir/kernel/kernel.h"

/* ---- kernels ---- */

/* Is a weight of the node's contraction a variable that nobody writes between runs? */
static bool keeps_weight(const dl_node *n) {
    const dl_kernel *k = n->kernel;
    int anchor = k ? dl_kernel_anchor(k) : -1;
    if (anchor < 0 || !dl_op_slides(k->instrs.at[anchor].op)) return false;
    const dl_kinstr *c = &k->instrs.at[anchor];
    const int weight = dl_op_place(c->op, DL_TENSOR_W);
    if (weight == DL_RESULT_PLACE) return false;
    const dl_var *v = n->in[c->parts[weight][0]]->var;
    return v && v->role != DL_VAR_INPUT && v->role != DL_VAR_TARGET;
}

void dl_mark_prepared(const dl_module *m) {
    for (int g = 0; g < m->graphs.n; g++) {
        const dl_graph *of = m->graphs.at[g];
        if (dl_graph_updates(of)) continue;
        for (int i = 0; i < of->nodes.n; i++)
            if (of->nodes.at[i]->kernel)
                of->nodes.at[i]->kernel->keeps_weight = keeps_weight(of->nodes.at[i]);
    }
}

/* ---- workspaces ---- */

static bool updates(const dl_plan_program *g) {
    bool any = false;
    for (int i = 0; i < g->results.n; i++) any |= g->results.at[i].role == DL_RESULT_UPDATE;
    return any;
}

/* Is this a byte of a variable that the host writes rarely? */
static bool is_constant(const dl_plan *p, int64_t offset) {
    bool any = false;
    for (int i = 0; i < p->vars.n; i++) {
        const dl_plan_var *v = &p->vars.at[i];
        any |= !dl_plan_is_fed(v) && offset >= v->offset &&
               offset < v->offset + dl_type_bytes(&v->type);
    }
    return any;
}

/* An own workspace: of which kernel, prepared of which argument. */
typedef struct {
    int kernel;
    int64_t from, at;
} place;

typedef struct {
    dl_plan *plan;
    int64_t end, most; /* of the memory that has places so far, and may have */
    DL_ARRAY(place) places;
} search;

static const place *find_place(const search *s, int kernel, int64_t from) {
    for (int i = 0; i < s->places.n; i++)
        if (s->places.at[i].kernel == kernel && s->places.at[i].from == from)
            return &s->places.at[i];
    return NULL;
}

/* Where the workspace of a launch lies; 0: it has none of its own. */
static int64_t own_workspace(search *s, dl_arena *arena, const dl_plan_launch *l) {
    const dl_plan_kernel *k = &s->plan->kernels.at[l->kernel];
    if (!k->prepares) return 0;
    const int64_t from = l->args[k->prepared];
    const place *made = find_place(s, l->kernel, from);
    if (made) return made->at;
    const int64_t at = dl_plan_round(s->end), end = at + k->workspace;
    if (end > s->most || !is_constant(s->plan, from)) return 0;
    dl_push(arena, &s->places, ((place){l->kernel, from, at}));
    s->end = end;
    return at;
}

/* The end of all variables. */
static int64_t end_of_variables(const dl_plan *p) {
    int64_t end = 0;
    for (int i = 0; i < p->vars.n; i++)
        end = dl_at_least(end, p->vars.at[i].offset + dl_type_bytes(&p->vars.at[i].type));
    return end;
}

void dl_plan_prepare(dl_plan *p, const int64_t *ends) {
    const int64_t variables = end_of_variables(p);
    bool trains = false;
    for (int i = 0; i < p->programs.n; i++) trains |= updates(&p->programs.at[i]);
    const int64_t most = trains ? p->arena_bytes : INT64_MAX;
    for (int i = 0; i < p->programs.n; i++) {
        dl_plan_program *g = &p->programs.at[i];
        if (updates(g)) continue;
        dl_arena *arena = dl_arena_new(NULL);
        search s = {.plan = p, .end = dl_at_least(variables, ends[i]), .most = most};
        for (int j = 0; j < g->launches.n; j++)
            g->launches.at[j].own = own_workspace(&s, arena, &g->launches.at[j]);
        if (s.end > p->arena_bytes && s.places.n) p->arena_bytes = dl_plan_round(s.end);
        dl_arena_free(arena);
    }
}

/* The network for one CPU target: its plan, and where the plan's memory lies in C. */
#include <stdlib.h>

#include "compiler/cpu/cpu.h"
#include "compiler/cpu/library.h"
#include "exports/c/c_network.h"

/* No tuner and no linking: the target may be another machine's. */
static dl_plan *compile(const dl_c_network *c, const dl_target *target, dl_error *err) {
    dl_session *s = c->of->net->session;
    dl_compile_options opt;
    if (!dl_session_predict(s, 0, NULL, err) ||
        !dl_session_options(s, "cpu:generic", &opt, err)) /* which every machine has */
        return NULL;
    dl_backend *backend = DL_NEW(c->of->arena, dl_backend);
    dl_target *one = DL_NEW(c->of->arena, dl_target);
    *backend = dl_backend_cpu;
    backend->open = dl_cpu_open_whole, backend->libraries = NULL;
    *one = *target, one->backend = backend;
    one->winograd = opt.target->winograd; /* as the key says */
    opt.target = one, opt.link = false;
    return dl_session_compile(s, &opt, err);
}

/* ---- places ---- */

static int64_t align(int64_t n) { return (n + 63) & ~63LL; }

static int find_constant(const dl_plan *p, int64_t offset) {
    for (int i = 0; i < p->vars.n; i++) {
        const dl_plan_var *v = &p->vars.at[i];
        if (!dl_plan_is_fed(v) && offset >= v->offset &&
            offset < v->offset + dl_type_bytes(&v->type))
            return i;
    }
    return -1;
}

static void add_part(dl_arena *arena, dl_c_variant *v, int64_t offset, int64_t bytes) {
    if (bytes <= 0) return;
    int var = find_constant(v->plan, offset);
    dl_c_part part = {.from = offset, .n = bytes, .var = var};
    if (var >= 0) {
        const dl_plan_var *of = &v->plan->vars.at[var];
        part.from = of->offset, part.n = dl_type_bytes(&of->type);
    }
    dl_push(arena, &v->parts, part);
}

static int by_offset(const void *a, const void *b) {
    const dl_c_part *x = a, *y = b;
    return (x->from > y->from) - (x->from < y->from);
}

/* Parts that share bytes become one, and each gets its place, with the alignment that it has in
 * the plan's arena. */
static void place_parts(dl_c_variant *v) {
    int n = 0;
    dl_c_part *at = v->parts.at;
    if (v->parts.n) qsort(at, (size_t)v->parts.n, sizeof *at, by_offset);
    for (int i = 0; i < v->parts.n; i++) {
        dl_c_part *last = n ? &at[n - 1] : NULL;
        int64_t end = at[i].from + at[i].n;
        if (!last || at[i].from >= last->from + last->n)
            at[n++] = at[i];
        else if (end > last->from + last->n)
            last->n = end - last->from;
    }
    v->parts.n = n;
    for (int i = 0; i < n; i++) {
        int64_t *end = at[i].var < 0 ? &v->work : &v->weights;
        at[i].to = align(*end) + at[i].from % 64;
        *end = at[i].to + at[i].n;
    }
    v->weights = align(v->weights), v->work = align(v->work);
}

static void find_places(dl_arena *arena, dl_c_variant *v) {
    const dl_plan *p = v->plan;
    for (int i = 0; i < v->program->launches.n; i++) {
        const dl_plan_launch *l = &v->program->launches.at[i];
        for (int a = 0; a < l->nargs; a++)
            add_part(arena, v, l->args[a], p->kernels.at[l->kernel].arg_bytes[a]);
    }
    for (int i = 0; i < v->program->results.n; i++) {
        const dl_plan_result *r = &v->program->results.at[i];
        add_part(arena, v, r->offset, dl_type_bytes(&r->type));
    }
    for (int i = 0; i < p->vars.n; i++)
        if (p->vars.at[i].role == DL_VAR_INPUT)
            add_part(arena, v, p->vars.at[i].offset, dl_type_bytes(&p->vars.at[i].type));
    place_parts(v);
    v->workspace = v->work, v->scratch = v->workspace + align(p->workspace_bytes);
    v->work = v->scratch + align(p->scratch_bytes);
}

int64_t dl_c_place(const dl_c_variant *v, int64_t offset, bool *in_weights) {
    *in_weights = false;
    for (int i = 0; i < v->parts.n; i++) {
        const dl_c_part *p = &v->parts.at[i];
        if (offset < p->from || offset >= p->from + p->n) continue;
        *in_weights = p->var >= 0;
        return p->to + (offset - p->from);
    }
    return 0; /* of no bytes */
}

const dl_plan_var *dl_c_input_var(const dl_c_variant *v, const dl_c_array *a) {
    for (int i = 0; i < v->plan->vars.n; i++)
        if (v->plan->vars.at[i].role == DL_VAR_INPUT && !strcmp(v->plan->vars.at[i].name, a->name))
            return &v->plan->vars.at[i];
    return NULL;
}

/* ---- what C cannot say ---- */

/* The weights are constants there, and there is one process. */
static bool check(const dl_c_network *c, const dl_c_variant *v, dl_error *err) {
    const dl_plan *p = v->plan;
    for (int i = 0; i < v->program->launches.n; i++) {
        const dl_plan_launch *l = &v->program->launches.at[i];
        const dl_plan_kernel *k = &p->kernels.at[l->kernel];
        for (int s = 0; s < k->stores.n; s++)
            if (find_constant(p, l->args[k->stores.at[s].arg]) >= 0)
                return dl_fail(err, DL_INPUT,
                               "%s: C has no way to say that a prediction changes '%s'",
                               k->stores.at[s].where,
                               p->vars.at[find_constant(p, l->args[k->stores.at[s].arg])].name);
    }
    for (int i = 0; i < c->n_inputs; i++) {
        const dl_plan_var *in = dl_c_input_var(v, &c->input[i]);
        if (!in || in->type.layout.kind == DL_PANEL)
            return dl_fail(err, DL_INTERNAL, "the plan has no input '%s'", c->input[i].name);
    }
    return (v->program->results.n == c->n_outputs && !v->program->collectives.n) ||
           dl_fail(err, DL_INTERNAL, "the plan has other outputs than the graph");
}

bool dl_c_variant_make(const dl_c_network *c, dl_c_variant *v, dl_error *err) {
    v->plan = compile(c, v->target, err);
    if (!v->plan) return false;
    v->program = dl_plan_program_find(v->plan, "predict");
    if (!v->program) return dl_fail(err, DL_INTERNAL, "the plan has no program 'predict'");
    if (!check(c, v, err)) return false;
    find_places(c->of->arena, v);
    return true;
}

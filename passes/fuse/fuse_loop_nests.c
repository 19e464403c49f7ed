/* Fusion: whether reductions and the readers of their results at every point become one kernel.
 *
 * Where reductions have resident rows (ir/kernel/loop_nest.h), they should: each tensor goes
 * through memory once. Where a kernel makes several passes over its points, later passes recompute
 * values of earlier ones from their operands. That may read more bytes than to store and load
 * them. */
#include <limits.h>
#include <stdlib.h>

#include "ir/kernel/schedule.h"
#include "passes/fuse/fuse.h"

enum {
    MOST_TIMES = 4, /* the most passes over the same points */
    MOST_LEFT =
        16384 /* the most points of a result, if reductions of several kinds are in one kernel */
};

static bool is_from(const dl_fusion *f, dl_value *v, const dl_type *space, int *steps) {
    v = dl_fuse_past_views(f, v);
    if (!v->def || --*steps < 0) return false;
    if (dl_ops[v->def->op].class == DL_CLASS_REDUCE)
        return dl_fuse_same_axes(&v->def->in[0]->type, space);
    if (dl_ops[v->def->op].class != DL_CLASS_ELEM || dl_fuse_same_axes(&v->type, space))
        return false;
    for (int i = 0; i < v->def->nin; i++)
        if (is_from(f, v->def->in[i], space, steps)) return true;
    return false;
}

bool dl_fuse_from_reduction(const dl_fusion *f, dl_value *v, const dl_type *space) {
    int steps = 64;
    return is_from(f, v, space, &steps);
}

/* A kernel under trial, as schedulable steps. */
typedef struct {
    dl_fusion *f;
    dl_arena *arena; /* scratch of this trial */
    const dl_type *space;
    int a, b, node;
    int nrecomputed;
    const int *recomputed; /* nodes of other clusters that it rematerializes */
    int n, nmembers, *member;
    dl_step *steps;
    int *of;     /* by step: its member, or -1 */
    bool floats; /* its reductions are of f32 or of 16-bit types */
    bool sums;   /* one of them is a sum */
} trial;

/* The axes of a type as bits of the space; false where the space lacks one. */
static bool find_axes(const trial *t, const dl_type *type, unsigned *axes) {
    *axes = 0;
    for (int i = 0; i < type->rank; i++) {
        if (type->axis[i].size == 1) continue;
        int at = *type->axis[i].name ? dl_type_axis(t->space, type->axis[i].name) : -1;
        if (at < 0) return false;
        *axes |= 1u << at;
    }
    return true;
}

static bool is_here(const trial *t, int node) {
    int cluster = t->f->cluster[node];
    return node == t->node || (cluster >= 0 && (cluster == t->a || cluster == t->b));
}

static bool is_stored(const trial *t, int node) {
    if (t->f->wanted[t->f->graph->nodes.at[node]->out[0].id]) return true;
    for (int i = 0; i < t->f->out[node].n; i++)
        if (!is_here(t, t->f->out[node].at[i].node)) return true;
    return false;
}

static int add(trial *t, dl_step s, int member) {
    t->of[t->n] = member;
    t->steps[t->n] = s;
    return t->n++;
}

static bool add_member(trial *t, int node) {
    dl_fusion *f = t->f;
    const dl_node *n = f->graph->nodes.at[node];
    dl_step s = {.kind = DL_K_ELEM};
    unsigned axes;
    if (!find_axes(t, &n->out[0].type, &s.axes)) return false;
    for (int i = 0; i < n->nin && s.nargs < 3; i++) {
        const dl_value *v = dl_fuse_past_views(f, n->in[i]);
        int at = v->def ? f->instr[f->position[v->id]] : -1;
        if (at >= 0) s.args[s.nargs++] = at;
    }
    if (dl_ops[n->op].class == DL_CLASS_REDUCE) {
        if (!find_axes(t, &n->in[0]->type, &axes)) return false;
        s.over = axes & ~s.axes;
        if (s.over) s.kind = DL_K_REDUCE;
        if (s.over) t->floats &= dl_kernel_type(n->out[0].type.dtype) == DL_F32;
        if (s.over) t->sums |= n->op == DL_OP_sum;
        if (!s.nargs) s.args[s.nargs++] = add(t, (dl_step){.kind = DL_K_LOAD, .axes = axes}, -1);
    }
    f->instr[node] = add(t, s, node);
    if (is_here(t, node) &&
        is_stored(t, node)) /* a node of another cluster is not stored by this kernel */
        add(t, (dl_step){.kind = DL_K_STORE, .axes = s.axes, .nargs = 1, .args = {f->instr[node]}},
            -1);
    return true;
}

static int by_value(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static bool find_steps(trial *t) {
    dl_fusion *f = t->f;
    const int clusters[] = {t->a, t->b};
    int most = 1 + t->nrecomputed;
    for (int i = 0; i < 2; i++)
        if (clusters[i] >= 0) most += f->clusters.at[clusters[i]].members.n;
    t->member = DL_NEWS(t->arena, int, most);
    for (int i = 0; i < 2; i++)
        for (int k = 0; clusters[i] >= 0 && k < f->clusters.at[clusters[i]].members.n; k++)
            t->member[t->nmembers++] = f->clusters.at[clusters[i]].members.at[k];
    if (t->node >= 0) t->member[t->nmembers++] = t->node;
    for (int i = 0; i < t->nrecomputed; i++) t->member[t->nmembers++] = t->recomputed[i];
    qsort(t->member, (size_t)t->nmembers, sizeof(int), by_value);
    t->steps = DL_NEWS(t->arena, dl_step, 3 * most), t->of = DL_NEWS(t->arena, int, 3 * most);
    bool ok = t->floats = true;
    t->sums = false;
    for (int i = 0; i < t->nmembers; i++) ok = ok && add_member(t, t->member[i]);
    for (int i = 0; i < t->nmembers; i++) f->instr[t->member[i]] = -1;
    return ok;
}

/* Does it pay to recompute the member in several loop nests? Each of them reads its operands. A
 * separate kernel reads these once, writes the result once, and each loop nest reads that. */
static bool pays_to_recompute(const trial *t, int node, int nests) {
    const dl_node *n = t->f->graph->nodes.at[node];
    int reads = 0;
    for (int i = 0; i < n->nin; i++) {
        const dl_value *v = dl_fuse_past_views(t->f, n->in[i]);
        bool source = v->def && dl_ops[v->def->op].class == DL_CLASS_SOURCE;
        bool own = v->def && is_here(t, t->f->position[v->id]);
        reads += !source && !own && dl_type_count(&v->type) * 2 > dl_type_count(&n->out[0].type);
    }
    int written = is_stored(t, node);
    return nests < 2 ||
           (!dl_op_is_transcendental(n->op) && nests * reads + written <= reads + 1 + nests);
}

static dl_loop_nests find_trial_nests(const trial *t) {
    dl_arena *arena = t->arena;
    const dl_type *space = t->space;
    int inner = space->layout.kind == DL_CL ? dl_layout_channels(space->layout) : space->rank - 1;
    dl_loop_problem p = {.n = t->n,
                         .steps = t->steps,
                         .nspace = space->rank,
                         .space = space->axis,
                         .inner = inner,
                         .floats = t->floats,
                         .sums = t->sums};
    return dl_schedule_nests(arena, t->n, t->steps,
                             dl_schedule_choose(arena, &p, t->f->ctx->loops));
}

/* Is the longest chain of reductions longer than a kernel may have? */
static bool is_deep(const trial *t) {
    int *stage = DL_NEWS(t->arena, int, t->n + 1);
    for (int i = 0; i < t->n; i++) {
        const dl_step *s = &t->steps[i];
        stage[i] = dl_reductions_up_to(stage, s->nargs, s->args, s->kind == DL_K_REDUCE);
        if (stage[i] > DL_MAX_STAGES) return true;
    }
    return false;
}

int dl_fuse_passes(dl_fusion *f, int cluster, int n, const int *nodes) {
    const dl_cluster *g = &f->clusters.at[cluster];
    if (!g->reduce || g->anchor) return 1;
    trial t = {.f = f,
               .arena = dl_arena_new(NULL),
               .space = &g->space,
               .a = cluster,
               .b = -1,
               .node = -1,
               .nrecomputed = n,
               .recomputed = nodes};
    bool found = find_steps(&t);
    int times = found && is_deep(&t) ? INT_MAX : found ? find_trial_nests(&t).times : 1;
    dl_arena_free(t.arena);
    return times > 1 ? times : 1;
}

/* The number of passes over the points; 0 where one kernel does not pay. */
static int weigh(trial *t) {
    dl_arena *arena = t->arena;
    const dl_type *space = t->space;
    if (!find_steps(t) || is_deep(t)) return 0;
    dl_loop_nests s = find_trial_nests(t);
    if (s.times > MOST_TIMES) return 0;
    int finalizes = 0;
    int64_t most = 0;
    for (int i = 0; i < s.n; i++) {
        if (!s.at[i].finalize) continue;
        int64_t left = dl_axes_points(space->rank, space->axis, s.at[i].axes);
        finalizes++;
        if (left > most) most = left;
    }
    if (finalizes > 1 && most > MOST_LEFT) return 0;
    if (s.times <= 1) return 1;
    int *nests = DL_NEWS(arena, int, t->n);
    for (int i = 0; i < s.n; i++)
        for (int k = 0; k < s.at[i].run.n && !s.at[i].finalize; k++) nests[s.at[i].run.at[k]]++;
    for (int i = 0; i < t->n; i++)
        if (t->of[i] >= 0 && t->steps[i].kind == DL_K_ELEM &&
            !pays_to_recompute(t, t->of[i], nests[i]))
            return 0;
    return s.times;
}

int dl_fuse_pays(dl_fusion *f, int a, int b, int node, const dl_type *space) {
    trial t = {.f = f, .arena = dl_arena_new(NULL), .space = space, .a = a, .b = b, .node = node};
    int times = weigh(&t);
    dl_arena_free(t.arena);
    return times;
}

int dl_fuse_member(const dl_fusion *f, const dl_cluster *cluster, dl_value *v) {
    v = dl_fuse_past_views(f, v);
    if (!v->def) return -1;
    int low = 0, high = cluster->members.n, at = f->position[v->id];
    while (low < high) {
        int middle = (low + high) / 2;
        if (cluster->members.at[middle] == at) return middle;
        *(cluster->members.at[middle] < at ? &low : &high) =
            cluster->members.at[middle] < at ? middle + 1 : middle;
    }
    return -1;
}

/* Horizontally fused (multi-tensor) kernels: their stores form parts without a common value,
 * such as the statistics of several norms, or the updates of an optimiser's parameters. Where
 * some parts are equal except for parameters and numbers, each part is a text of its own.
 * merge_fused_parts.c then makes one function for all kernels that consist of the same kinds of
 * parts, in any number. */
#include <string.h>

#include "compiler/cuda/emit_loops.h"

enum { MOST_BLOCKS = 64 }; /* of a part: a larger part fills the GPU alone */

typedef struct {
    dl_emitter *e;
    const dl_step *steps;
    bool *recomputed; /* by instruction: so cheap that each part recomputes it */
    int *of; /* by instruction: another one of its part, in the end the first (union-find) */
    int n;   /* parts, by their first store */
    int root[DL_MOST_FUSED_PARTS];
} finder;

static const dl_kinstr *instr_of(const finder *f, int i) { return &f->e->k->instrs.at[i]; }
static bool is_store(const finder *f, int i) { return instr_of(f, i)->kind == DL_K_STORE; }

static int root_of(const finder *f, int i) {
    while (f->of[i] != i) i = f->of[i];
    return i;
}

static void connect(finder *f, int a, int b) { f->of[root_of(f, b)] = root_of(f, a); }

/* The output that shares the parameter's memory, or -1. */
static int written_over(const dl_kernel *k, int param) {
    for (int i = k->nin; i < k->params.n; i++)
        if (k->params.at[i].alias == param) return i;
    return -1;
}

/* Constants, coordinates, and scalars; not if another part may have overwritten them. */
static bool is_recomputed(const finder *f, int i) {
    const dl_kinstr *in = instr_of(f, i);
    return in->kind == DL_K_CONST || in->kind == DL_K_COORD ||
           (in->kind == DL_K_LOAD && !f->steps[i].axes && written_over(f->e->k, in->param) < 0);
}

/* Loads and the store of shared memory belong to one part. */
static void connect_memory(finder *f) {
    const dl_kernel *k = f->e->k;
    int *first = DL_NEWS(f->e->arena, int, k->params.n + 1);
    for (int i = 0; i < k->params.n; i++) first[i] = -1;
    for (int i = 0; i < k->instrs.n; i++) {
        const dl_kinstr *in = instr_of(f, i);
        if (!dl_emit_is_access(in)) continue;
        int out = in->kind == DL_K_STORE ? in->param : written_over(k, in->param);
        if (out < 0) continue;
        if (first[out] < 0) first[out] = i;
        connect(f, first[out], i);
    }
}

/* False: some instruction is not pointwise, or scatters; or there is one part, or too many. */
static bool find_parts(finder *f) {
    const dl_kernel *k = f->e->k;
    f->steps = f->e->steps;
    f->recomputed = DL_NEWS(f->e->arena, bool, k->instrs.n + 1);
    f->of = DL_NEWS(f->e->arena, int, k->instrs.n + 1);
    for (int i = 0; i < k->instrs.n; i++) {
        if (f->steps[i].kind == DL_K_REDUCE || f->steps[i].nargs != instr_of(f, i)->nargs)
            return false;
        f->of[i] = i, f->recomputed[i] = is_recomputed(f, i);
        for (int a = 0; a < f->steps[i].nargs; a++)
            if (!f->recomputed[f->steps[i].args[a]]) connect(f, f->steps[i].args[a], i);
    }
    connect_memory(f);
    for (int i = 0; i < k->instrs.n; i++) {
        int known = 0, root = root_of(f, i);
        if (!is_store(f, i)) continue;
        while (known < f->n && f->root[known] != root) known++;
        if (known < f->n) continue;
        if (f->n == DL_MOST_FUSED_PARTS) return false;
        f->root[f->n++] = root;
    }
    return f->n > 1;
}

/* Appends the instruction after its missing operands; `number`: by instruction, its new index
 * plus one. */
static void add_instr(const finder *f, dl_kernel *to, int *number, int i) {
    dl_kinstr in = *instr_of(f, i);
    for (int a = 0; a < in.nargs; a++) {
        if (!number[in.args[a]]) add_instr(f, to, number, in.args[a]);
        in.args[a] = number[in.args[a]] - 1;
    }
    dl_push(f->e->arena, &to->instrs, in);
    number[i] = to->instrs.n;
}

/* The kernel of one part. Recomputed instructions come directly before their first use, so that
 * equal parts have equal orders. All others keep the kernel's order, since FMA contraction
 * depends on it; stores come last. */
static dl_kernel *kernel_of(const finder *f, int fused_part) {
    int n = f->e->k->instrs.n, *number = DL_NEWS(f->e->arena, int, n + 1);
    dl_kernel *k = DL_NEW(f->e->arena, dl_kernel);
    *k = *f->e->k;
    k->schedule = (dl_loop_schedule){.kind = DL_BY_POINTS};
    memset(&k->instrs, 0, sizeof k->instrs);
    for (int stores = 0; stores < 2; stores++)
        for (int i = 0; i < n; i++)
            if (root_of(f, i) == f->root[fused_part] && !f->recomputed[i] &&
                is_store(f, i) == stores)
                add_instr(f, k, number, i);
    return k;
}

/* ---- which parts are equal ---- */

/* By parameter and by axis of one part, from 1 on: the other part's; 0: none yet. */
typedef struct {
    int *params, axes[DL_MAX_RANK];
} renaming;

static bool renames(int *to, int own, int other) {
    if (!to[own]) to[own] = other + 1;
    return to[own] == other + 1;
}

static bool is_same_axis(const dl_kernel *a, const dl_kernel *b, renaming *r, int own, int other) {
    if (own < 0 || other < 0) return own < 0 && other < 0;
    return renames(r->axes, own, other) && (a->space[own].size == 1) == (b->space[other].size == 1);
}

/* Are they the same text, up to numbers and names? */
static bool is_same_index(const dl_kernel *a, const dl_kernel *b, renaming *r, const dl_index *x,
                          const dl_index *y) {
    bool same = x->nterms == y->nterms && !x->offset == !y->offset && x->indirect == y->indirect &&
                (x->div > 1) == (y->div > 1) && x->outside == y->outside;
    if (same && !x->nterms) return is_same_axis(a, b, r, x->axis, y->axis);
    for (int i = 0; same && i < x->nterms; i++) {
        const dl_term *s = &x->term[i], *t = &y->term[i];
        same = is_same_axis(a, b, r, s->axis, t->axis) && (s->div == 1) == (t->div == 1) &&
               !s->mod == !t->mod && (s->mul == 1) == (t->mul == 1);
    }
    return same;
}

/* Parameters of one type and rank, with equal sharing, at equal places. */
static bool is_same_access(const dl_kernel *a, const dl_kernel *b, renaming *r, const dl_kinstr *x,
                           const dl_kinstr *y) {
    const dl_type *s = &a->params.at[x->param].type, *t = &b->params.at[y->param].type;
    bool same = renames(r->params, x->param, y->param) && s->dtype == t->dtype &&
                s->rank == t->rank && (x->param < a->nin) == (y->param < b->nin) &&
                dl_cuda_is_shared(a, x->param) == dl_cuda_is_shared(b, y->param);
    for (int i = 0; same && i < s->rank; i++)
        same = is_same_index(a, b, r, &x->index[i], &y->index[i]);
    return same;
}

/* Are two parts' kernels equal except for parameters, axes and numbers? */
static bool is_same_kind(dl_arena *arena, const dl_kernel *a, const dl_kernel *b) {
    renaming r = {.params = DL_NEWS(arena, int, a->params.n + 1)};
    bool same = a->instrs.n == b->instrs.n;
    for (int i = 0; same && i < a->instrs.n; i++) {
        const dl_kinstr *x = &a->instrs.at[i], *y = &b->instrs.at[i];
        same = x->kind == y->kind && x->op == y->op && x->type == y->type && x->nargs == y->nargs &&
               memcmp(x->args, y->args, sizeof *x->args * (size_t)x->nargs) == 0 &&
               x->no_contract == y->no_contract;
        if (same && dl_emit_is_access(x)) same = is_same_access(a, b, &r, x, y);
    }
    return same;
}

/* ---- parts as texts ---- */

/* A part's emitter, whose loop nests are found. */
static dl_emitter emitter_of(const finder *f, int fused_part) {
    dl_emitter e = *f->e;
    e.fused_part = true, e.resident = 2; /* as of other loop nests: emit_loop_nests.c */
    dl_emit_by_schedule(&e, kernel_of(f, fused_part));
    return e;
}

/* Can the part be a text of its own: one phase, without a workspace, and not so long that other
 * kernels should not share its function? */
static bool is_short(const dl_emitter *e) {
    int64_t items = 0;
    bool kept = false;
    for (int i = 0; i < e->k->instrs.n; i++) kept |= e->nests.kept[i];
    for (int i = 0; i < e->nests.n; i++)
        items +=
            dl_ceil_div(dl_axes_points(e->k->nspace, e->k->space, e->nests.at[i].axes), DL_BLOCK);
    return e->nests.valid && !kept && items <= MOST_BLOCKS &&
           dl_loop_nests_independent(&e->nests, 0) == e->nests.n;
}

static int count_params(const dl_emitter *e) {
    bool *used = DL_NEWS(e->arena, bool, e->k->params.n + 1);
    int n = 0;
    for (int i = 0; i < e->k->instrs.n; i++) {
        const dl_kinstr *in = &e->k->instrs.at[i];
        if (!dl_emit_is_access(in)) continue;
        n += !used[in->param], used[in->param] = true;
    }
    return n;
}

/* Does it pay? Some parts must be equal, and a launch must hold all parameters. */
static bool is_worth(const finder *f, const dl_emitter *parts) {
    bool alike = false;
    int pointers = 0;
    for (int i = 0; i < f->n; i++) {
        pointers += count_params(&parts[i]);
        if (!is_short(&parts[i])) return false;
        for (int j = 0; j < i && !alike; j++)
            alike = is_same_kind(f->e->arena, parts[i].k, parts[j].k);
    }
    return alike && pointers <= DL_TABLE_POINTERS;
}

bool dl_cuda_fused_parts(dl_emitter *e, dl_emitted *code, dl_error *err) {
    finder f = {.e = e};
    if (!find_parts(&f)) return dl_cuda_loop_nests(e, code, err);
    dl_emitter *parts = DL_NEWS(e->arena, dl_emitter, f.n);
    for (int i = 0; i < f.n; i++) parts[i] = emitter_of(&f, i);
    if (!is_worth(&f, parts)) return dl_cuda_loop_nests(e, code, err);
    int64_t items = 0;
    code->needs[DL_NEED_LOOPS] = 1;
    for (int i = 0; i < f.n; i++) {
        code->phases = 0;
        if (!dl_cuda_phases(&parts[i], 0, code, err)) return false;
        items += code->part_items[i] = code->items[0];
    }
    DL_CHECK(code->texts.n == f.n && !code->workspace);
    code->fused_parts = f.n, code->items[0] = items;
    return true;
}

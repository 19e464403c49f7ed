/* Horizontally fused (multi-tensor) kernels: their stores form parts without a common value,
 * such as the statistics of several norms, or the updates of an optimiser's parameters. Where
 * some parts are equal except for parameters and numbers, each part is a text of its own.
 * merge_fused_parts.c then makes one function for all kernels that consist of the same kinds of
 * parts, in any number. */
#include <string.h>

#include "compiler/cuda/emit_loops.h"
#include "compiler/cuda/merge.h"

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
        if (in->kind != DL_K_LOAD && in->kind != DL_K_STORE) continue;
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
    memset(&k->instrs, 0, sizeof k->instrs);
    for (int stores = 0; stores < 2; stores++)
        for (int i = 0; i < n; i++)
            if (root_of(f, i) == f->root[fused_part] && !f->recomputed[i] &&
                is_store(f, i) == stores)
                add_instr(f, k, number, i);
    return k;
}

/* The part's text. */
static bool put_part(const finder *f, int fused_part, dl_emitted *code, dl_merged **to,
                     dl_error *err) {
    dl_emitter e = *f->e;
    e.k = kernel_of(f, fused_part), e.steps = dl_kernel_steps(e.k, e.arena);
    e.fused_part = true;
    if (!dl_cuda_sweeps(&e, code, err)) return false;
    *to = dl_merge_take(e.arena, 0, 0, code->texts.at[0]);
    return true;
}

/* Does it pay? Some parts must be equal, a launch must hold all parameters, and no part may be
 * so long that other kernels should not share its function. */
static bool is_worth(const finder *f, dl_merged *const *parts, const dl_emitted *code) {
    bool alike = false;
    int pointers = 0;
    for (int i = 0; i < f->n; i++) {
        pointers += parts[i]->s.args.n;
        if (code[i].phases != 1 || code[i].workspace || code[i].units[0] > MOST_BLOCKS)
            return false;
        for (int j = 0; j < i; j++) alike |= dl_merge_equal(parts[i], parts[j]);
    }
    return alike && pointers <= DL_TABLE_POINTERS;
}

bool dl_cuda_fused_parts(dl_emitter *e, dl_emitted *code, dl_error *err) {
    finder f = {.e = e};
    if (!find_parts(&f)) return dl_cuda_sweeps(e, code, err);
    dl_emitted *each = DL_NEWS(e->arena, dl_emitted, f.n);
    dl_merged **parts = DL_NEWS(e->arena, dl_merged *, f.n);
    bool ok = true;
    for (int i = 0; i < f.n && ok; i++) ok = put_part(&f, i, &each[i], &parts[i], err);
    bool worth = ok && is_worth(&f, parts, each);
    if (worth) {
        *code = each[0];
        for (int i = 1; i < f.n; i++) dl_push(e->texts, &code->texts, each[i].texts.at[0]);
        code->fused_parts = f.n, code->units[0] = 0;
        for (int i = 0; i < f.n; i++) code->units[0] += code->part_units[i] = each[i].units[0];
    }
    return ok && (worth || dl_cuda_sweeps(e, code, err));
}

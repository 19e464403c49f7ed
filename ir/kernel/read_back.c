/* Reads a stored value back in later loop nests of a kernel, where that reads fewer bytes than the
 * operands that it was computed from.
 *
 * Example: the backward pass of a batch norm before a residual connection adds two gradients,
 * masks and stores them, and sums them; its second loop nest reads the stored gradient in place of
 * the three. A value that is stored in 16 bits qualifies where the kernel rounds it before any
 * use: then both are the same number. */
#include "ir/kernel/schedule.h"

typedef struct {
    dl_arena *arena;
    const dl_kernel *k;
    const dl_step *steps;
    dl_loop_nests s;
    int *root;       /* by instruction: the loop nest whose store or reduction it is, or -1 */
    int *stored;     /* by instruction: the store that later loop nests read it back from, or -1 */
    bool *derived;   /* by instruction: depends on such a value within a loop nest */
    bool *seen;      /* of a walk */
    int *now, *late; /* by instruction: its number in the new kernel, at its place and in later loop
                        nests; or -1 */
    dl_kernel *made;
} reader;

static const dl_kinstr *instr_of(const reader *r, int i) { return &r->k->instrs.at[i]; }

static bool is_root(const reader *r, int i) {
    return r->steps[i].kind == DL_K_STORE || r->steps[i].kind == DL_K_REDUCE;
}

/* Is it a kept value, which loop nests read and do not compute? */
static bool is_left(const reader *r, int i) {
    return r->s.kept[i] || r->steps[i].kind == DL_K_REDUCE;
}

/* Can the value of instruction i be read back from this store? */
static bool gives_back(const reader *r, int i, int store) {
    const dl_kinstr *in = instr_of(r, store);
    const dl_kparam *p = &r->k->params.at[in->param];
    dl_dtype type = p->type.dtype, held = instr_of(r, i)->type;
    bool same = held == type || (held == dl_kernel_type(type) && dl_kernel_holds(r->k, i, type));
    if (!same || p->alias >= 0 || instr_of(r, i)->kind != DL_K_ELEM || is_left(r, i) ||
        r->steps[store].axes != r->steps[i].axes)
        return false;
    for (int a = 0; a < p->type.rank; a++) {
        const dl_index *x = &in->index[a];
        if (x->offset || x->nterms || x->div > 1 || x->indirect) return false;
    }
    return true;
}

/* Bytes of parameters that loop nest `w` reads, with the values that are read back so far. */
static int64_t count_bytes(const reader *r, const dl_loop_nest *w) {
    int64_t bytes = 0;
    memset(r->seen, 0, sizeof *r->seen * (size_t)r->k->instrs.n);
    for (int j = w->run.n - 1; j >= 0; j--) {
        int i = w->run.at[j];
        if (is_root(r, i)) r->seen[i] = true;
        if (!r->seen[i]) continue;
        const dl_kinstr *in = instr_of(r, i);
        if (in->kind == DL_K_LOAD) bytes += dl_type_bytes(&r->k->params.at[in->param].type);
        if (r->stored[i] >= 0 && !is_root(r, i)) {
            bytes += dl_type_bytes(&r->k->params.at[instr_of(r, r->stored[i])->param].type);
            continue;
        }
        for (int a = 0; a < r->steps[i].nargs; a++) r->seen[r->steps[i].args[a]] = true;
    }
    return bytes;
}

static bool is_late(const dl_loop_nest *w, int stage) { return !w->finalize && w->stage > stage; }

/* Bytes that the loop nests after `stage` read. */
static int64_t count_late(const reader *r, int stage) {
    int64_t bytes = 0;
    for (int i = 0; i < r->s.n; i++)
        if (is_late(&r->s.at[i], stage)) bytes += count_bytes(r, &r->s.at[i]);
    return bytes;
}

/* Does every root of the later loop nests follow the store? */
static bool precedes(const reader *r, int store, int stage) {
    for (int i = 0; i < store; i++)
        if (r->root[i] >= 0 && is_late(&r->s.at[r->root[i]], stage)) return false;
    return true;
}

/* Fills `stored` with the values worth reading back of the first stage that has any; -1: there is
 * none. */
static int choose(reader *r) {
    int chosen = -1, n = r->k->instrs.n;
    for (int stage = 0; stage < r->s.times && chosen < 0; stage++)
        for (int i = n - 1; i >= 0; i--) {
            const dl_kinstr *in = instr_of(r, i);
            if (in->kind != DL_K_STORE || r->root[i] < 0 || r->s.stage[in->args[0]] != stage)
                continue;
            const dl_loop_nest *w = &r->s.at[r->root[i]];
            int of = in->args[0];
            if (w->finalize || w->stage != stage || r->stored[of] >= 0 || !gives_back(r, of, i) ||
                !precedes(r, i, stage))
                continue;
            int64_t before = count_late(r, stage);
            r->stored[of] = i;
            if (count_late(r, stage) < before)
                chosen = stage;
            else
                r->stored[of] = -1;
        }
    return chosen;
}

static int emit(reader *r, dl_kinstr in) {
    dl_push(r->arena, &r->made->instrs, in);
    return r->made->instrs.n - 1;
}

/* Instruction i as later loop nests have it. */
static int take_late(reader *r, int i) {
    if (!r->derived[i] || is_left(r, i)) return r->now[i];
    if (r->late[i] >= 0) return r->late[i];
    dl_kinstr in = *instr_of(r, i);
    if (r->stored[i] >= 0) {
        const dl_kinstr *store = instr_of(r, r->stored[i]);
        in = (dl_kinstr){.kind = DL_K_LOAD,
                         .type = in.type,
                         .param = store->param,
                         .index = store->index,
                         .loc = in.loc};
    }
    for (int a = 0; a < in.nargs; a++) in.args[a] = take_late(r, in.args[a]);
    return r->late[i] = emit(r, in);
}

/* By instruction: does the new kernel keep it in addition to its later twin? It keeps the operands
 * of roots of `stage` and before and of finalize steps, and values of later loop nests that depend
 * on nothing that is read back. */
static bool *find_needed(const reader *r, int stage) {
    int n = r->k->instrs.n;
    bool *needed = DL_NEWS(r->arena, bool, n + 1), *late = DL_NEWS(r->arena, bool, n + 1);
    for (int i = n - 1; i >= 0; i--) {
        bool root = r->root[i] >= 0, of_late = root && is_late(&r->s.at[r->root[i]], stage);
        *(of_late ? &late[i] : &needed[i]) |= root || (is_root(r, i) && r->root[i] < 0);
        if (late[i] && (!r->derived[i] || is_left(r, i)) && !of_late) needed[i] = true;
        for (int a = 0; a < r->steps[i].nargs; a++) {
            int of = r->steps[i].args[a];
            if (needed[i]) needed[of] = true;
            if (late[i] && (r->stored[i] < 0 || of_late)) late[of] = true;
        }
    }
    return needed;
}

const dl_kernel *dl_kernel_read_back(dl_arena *arena, const dl_kernel *k) {
    int n = k->instrs.n;
    if (!dl_kernel_reductions(k)) return k; /* it has one loop nest over points */
    reader r = {.arena = arena, .k = k, .steps = dl_kernel_steps(k, arena)};
    for (int i = 0; i < n; i++)
        if (k->instrs.at[i].kind == DL_K_CONTRACT || r.steps[i].nargs > k->instrs.at[i].nargs)
            return k;
    r.s = dl_schedule_nests(arena, n, r.steps, (dl_loop_schedule){.kind = DL_BY_POINTS});
    if (r.s.times < 2) return k;
    r.root = DL_NEWS(arena, int, n + 1), r.stored = DL_NEWS(arena, int, n + 1);
    r.now = DL_NEWS(arena, int, n + 1), r.late = DL_NEWS(arena, int, n + 1);
    r.derived = DL_NEWS(arena, bool, n + 1), r.seen = DL_NEWS(arena, bool, n + 1);
    for (int i = 0; i < n; i++) r.root[i] = r.stored[i] = r.now[i] = r.late[i] = -1;
    for (int w = 0; w < r.s.n; w++)
        for (int i = 0; i < r.s.at[w].run.n; i++)
            if (is_root(&r, r.s.at[w].run.at[i])) r.root[r.s.at[w].run.at[i]] = w;
    int stage = choose(&r);
    if (stage < 0) return k;
    for (int i = 0; i < n; i++) {
        r.derived[i] = r.stored[i] >= 0;
        for (int a = 0; a < r.steps[i].nargs; a++)
            r.derived[i] |= r.derived[r.steps[i].args[a]] && !is_left(&r, r.steps[i].args[a]);
    }
    const bool *needed = find_needed(&r, stage);
    r.made = DL_NEW(arena, dl_kernel);
    *r.made = *k;
    memset(&r.made->instrs, 0, sizeof r.made->instrs);
    for (int i = 0; i < n; i++) {
        dl_kinstr in = k->instrs.at[i];
        bool late = r.root[i] >= 0 && is_late(&r.s.at[r.root[i]], stage);
        if (!late && !needed[i]) continue;
        for (int a = 0; a < in.nargs; a++)
            in.args[a] = late ? take_late(&r, in.args[a]) : r.now[in.args[a]];
        r.now[i] = emit(&r, in);
    }
    return r.made;
}

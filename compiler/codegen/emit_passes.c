#include "compiler/codegen/emit_passes.h"

static const dl_kinstr *instr_of(const dl_emitter *e, int i) { return &e->k->instrs.at[i]; }

bool dl_emit_reduces_row(const dl_emitter *e, const dl_loop_nest *s, int number) {
    return e->steps[number].kind == DL_K_REDUCE && e->steps[number].over == s->row;
}

bool dl_emit_reduces_more(const dl_emitter *e, const dl_loop_nest *s, int number) {
    return e->steps[number].kind == DL_K_REDUCE && e->steps[number].over != s->row;
}

unsigned dl_emit_root_axes(const dl_emitter *e, int number) {
    const dl_step *s = &e->steps[number];
    return s->kind == DL_K_STORE ? s->axes : e->steps[s->args[0]].axes | s->over;
}

/* Is it free to read: in memory, a constant, a coordinate, or one value per row? */
static bool is_at_hand(const dl_emitter *e, const dl_row_passes *p, int i) {
    const dl_kinstr *in = instr_of(e, i);
    if (p->shared[i] || p->read[i] || in->kind == DL_K_CONST || in->kind == DL_K_COORD) return true;
    if (in->kind != DL_K_LOAD) return false;
    for (int a = 0; a < e->k->params.at[in->param].type.rank; a++)
        if (in->index[a].nterms || in->index[a].div > 1 || in->index[a].indirect) return false;
    return true;
}

/* Is it recomputed instead of saved? Shared memory costs as much as a trivial op or two. */
static bool is_repeated(const dl_emitter *e, const dl_row_passes *p, int i) {
    const dl_kinstr *in = instr_of(e, i);
    if (is_at_hand(e, p, i)) return true;
    if (in->kind != DL_K_ELEM || !dl_op_is_trivial(in->op)) return false;
    for (int a = 0; a < in->nargs; a++)
        if (!is_at_hand(e, p, in->args[a])) return false;
    return true;
}

/* By instruction: is it an operand of something that a pass computes? */
static bool *find_taken(const dl_emitter *e, const dl_row_passes *p, const bool *made) {
    bool *taken = DL_NEWS(e->arena, bool, e->k->instrs.n + 1);
    for (int j = 0; j < e->k->instrs.n; j++)
        for (int a = 0; made[j] && !p->read[j] && a < e->steps[j].nargs; a++)
            taken[e->steps[j].args[a]] = true;
    return taken;
}

dl_row_passes dl_emit_find_passes(const dl_emitter *e, const dl_loop_nest *s, bool saves,
                                  bool constants) {
    const dl_kernel *k = e->k;
    int n = k->instrs.n;
    bool *runs = DL_NEWS(e->arena, bool, n + 1);
    dl_row_passes p = {.n = 1};
    p.shared = DL_NEWS(e->arena, bool, n + 1), p.read = DL_NEWS(e->arena, bool, n + 1);
    p.saved = DL_NEWS(e->arena, bool, n + 1), p.pass = DL_NEWS(e->arena, int, n + 1);
    for (int i = 0; i < s->read.n; i++) p.read[s->read.at[i]] = true;
    for (int i = 0; i < n; i++) p.shared[i] = !(e->steps[i].axes & s->row), p.pass[i] = -1;
    for (int i = 0; i < s->run.n; i++) {
        int number = s->run.at[i];
        bool root = instr_of(e, number)->kind == DL_K_STORE || dl_emit_reduces_more(e, s, number);
        runs[number] = true;
        if (!dl_emit_reduces_row(e, s, number) && !(root && dl_emit_root_axes(e, number) & s->row))
            continue;
        p.pass[number] = e->nests.level[e->steps[number].args[0]];
        if (p.pass[number] >= p.n) p.n = p.pass[number] + 1;
    }
    p.made = DL_NEWS(e->arena, bool *, p.n), p.taken = DL_NEWS(e->arena, bool *, p.n);
    for (int pass = p.n - 1; pass >= 0;
         pass--) { /* an earlier pass computes what this pass reads as saved */
        bool *made = p.made[pass] = DL_NEWS(e->arena, bool, n + 1);
        for (int i = n - 1; i >= 0; i--) {
            const dl_kinstr *in = instr_of(e, i);
            if (!runs[i] && !p.read[i]) continue;
            /* a store in place of an input waits until the whole row has been read */
            bool last = in->kind == DL_K_STORE && k->params.at[in->param].alias >= 0;
            bool root = p.pass[i] >= 0 && (last ? p.n - 1 : p.pass[i]) == pass;
            root |= p.saved[i] && e->nests.level[i] == pass;
            if (saves && !root && made[i] && e->nests.level[i] < pass && !is_repeated(e, &p, i))
                p.saved[i] = true, made[i] = false;
            made[i] |= root;
            for (int a = 0; made[i] && !p.read[i] && a < e->steps[i].nargs; a++) {
                int arg = e->steps[i].args[a];
                if (!p.shared[arg] || (constants && instr_of(e, arg)->kind == DL_K_CONST))
                    made[arg] = true;
            }
        }
    }
    for (int pass = 0; pass < p.n; pass++) p.taken[pass] = find_taken(e, &p, p.made[pass]);
    return p;
}

/* ---- loops ---- */

dl_rows dl_rows_of(const dl_emitter *e, const dl_loop_nest *s) {
    int n = e->k->instrs.n + 1;
    return (dl_rows){.nest = s,
                     .at = DL_NEWS(e->arena, int64_t, n),
                     .own = DL_NEWS(e->arena, dl_expr, n),
                     .reduced = DL_NEWS(e->arena, dl_expr, n)};
}

/* A point's value in the work item's own memory. */
static dl_expr saved(dl_rows *r, int number) {
    dl_loop_type type = dl_loop_expr_type(dl_loop_value(&r->l, number));
    return dl_loop_at(&r->l, dl_loop_memory(&r->l, type, r->at[number]), r->place);
}

static void put_pass(dl_rows *r, int pass) {
    const dl_row_passes *p = &r->passes;
    const dl_emitter *e = r->l.e;
    r->pass = pass;
    r->by->open(r);
    for (int i = 0; i < e->k->instrs.n; i++) {
        int level = e->nests.level[i];
        if (p->saved[i] && level < pass && p->taken[pass][i] && !p->made[pass][i])
            dl_loop_give(&r->l, i, saved(r, i));
        if (!p->made[pass][i]) continue;
        if (p->read[i])
            dl_loop_read(&r->l, i);
        else if (!dl_emit_reduces_row(e, r->nest, i))
            r->by->instr(r, i);
        else if (p->pass[i] == pass)
            r->by->grow(r, i);
        if (p->saved[i] && level == pass) dl_loop_set(&r->l, saved(r, i), dl_loop_value(&r->l, i));
    }
    r->by->close(r);
}

/* Is it a store, or a reduction over more than the row? */
static bool is_root(const dl_rows *r, int i) {
    return instr_of(r->l.e, i)->kind == DL_K_STORE || dl_emit_reduces_more(r->l.e, r->nest, i);
}

/* The row's own values of a level, which the next pass may use. */
static void put_level(dl_rows *r, int level) {
    const dl_emitter *e = r->l.e;
    int *own = DL_NEWS(e->arena, int, r->nest->run.n + 1),
        *over = DL_NEWS(e->arena, int, r->nest->run.n + 1);
    int n = 0, nover = 0;
    for (int i = 0; i < r->nest->read.n && level == 0; i++)
        if (r->passes.shared[r->nest->read.at[i]]) dl_loop_read(&r->l, r->nest->read.at[i]);
    for (int i = 0; i < r->nest->run.n; i++) {
        int number = r->nest->run.at[i];
        if (is_root(r, number) || !r->passes.shared[number] || e->nests.level[number] != level)
            continue;
        own[n++] = number;
        if (dl_emit_reduces_row(e, r->nest, number)) over[nover++] = number;
    }
    r->by->reduce(r, nover, over);
    for (int i = 0; i < n; i++) {
        if (dl_emit_reduces_row(e, r->nest, own[i]))
            dl_loop_define(&r->l, own[i], r->reduced[own[i]]);
        else
            dl_loop_instr(&r->l, own[i]), dl_loop_spare(&r->l, own[i]);
    }
}

/* Stores and sums that run once per row. */
static void put_end(dl_rows *r) {
    const dl_emitter *e = r->l.e;
    bool waits = false;
    r->pass = -1;
    for (int i = 0; i < r->nest->run.n; i++) {
        int number = r->nest->run.at[i];
        const dl_kinstr *in = instr_of(e, number);
        if (!is_root(r, number) || dl_emit_root_axes(e, number) & r->nest->row) continue;
        if (in->kind == DL_K_STORE && e->k->params.at[in->param].alias >= 0 && !waits)
            dl_loop_barrier(&r->l), waits = true; /* the others have read what is there */
        r->by->instr(r, number);
    }
}

void dl_emit_row(dl_rows *r) {
    const dl_emitter *e = r->l.e;
    int levels = 0;
    for (int i = 0; i < r->nest->run.n; i++) {
        int number = r->nest->run.at[i];
        if (e->nests.level[number] > levels) levels = e->nests.level[number];
        if (dl_emit_reduces_row(e, r->nest, number)) r->own[number] = r->by->start(r, number);
    }
    for (int level = 0; level <= levels || level < r->passes.n; level++) {
        put_level(r, level);
        if (level < r->passes.n) put_pass(r, level);
    }
    put_end(r);
}

/* The contractions that hand-written loops can compute, for all backends. */
#include "compiler/codegen/emit_program.h"

/* Does a loop nest compute the contraction, which is instruction 0? */
static bool contracts(const dl_loop_nest *s) { return s->run.n && s->run.at[0] == 0; }

static int64_t longest_axis(int rank, const dl_axis *axis) {
    int64_t most = 0;
    for (int i = 0; i < rank; i++)
        if (axis[i].size > most) most = axis[i].size;
    return most;
}

static bool check_operand(const dl_emitter *e, const dl_kinstr *c, int place, const dl_type *t,
                          dl_error *err) {
    dl_layout_need need = e->t->contractions->layout_needs(c->op, place);
    bool panels = need == DL_LAYOUT_WEIGHTS && e->t->weights.kind == DL_PANEL,
         is = t->layout.kind == DL_PANEL;
    if (panels && !is)
        return dl_emit_refuse(e->k, c, err, "the weight of '%s' does not lie in panels [DL-E0803]",
                              dl_ops[c->op].name);
    return is == panels ||
           dl_emit_refuse(e->k, c, err, "an operand of '%s' lies in panels [DL-E0803]",
                          dl_ops[c->op].name);
}

/* The reductions in its loop nest. */
static bool check_epilogue(const dl_emitter *e, const dl_kinstr *c, dl_error *err) {
    for (int i = 0; i < e->now->run.n; i++) {
        const dl_kinstr *in = &e->k->instrs.at[e->now->run.at[i]];
        const dl_step *step = &e->steps[e->now->run.at[i]];
        if (step->kind != DL_K_REDUCE ||
            e->t->contractions->epilogue_takes(c->op, in->op, in->type, step->axes))
            continue;
        return dl_emit_refuse(e->k, in, err,
                              "next to '%s', this '%s' of %s is not supported [DL-E0803]",
                              dl_ops[c->op].name, dl_ops[in->op].name, dl_dtype_name(in->type));
    }
    return true;
}

bool dl_emit_check_contraction(const dl_emitter *e, const dl_kinstr *c, const char *kernels,
                               dl_error *err) {
    enum { LONGEST = 1 << 30 };
    const dl_kernel *k = e->k;
    const char *op = dl_ops[c->op].name;
    int64_t longest = longest_axis(k->nspace, k->space);
    for (int o = 0; o < 2; o++)
        for (int i = 0; i < c->nparts[o]; i++) {
            const dl_type *t = &k->params.at[c->parts[o][i]].type;
            int64_t own = longest_axis(t->rank, t->axis);
            if (own > longest) longest = own;
            if (!dl_emit_is_float(t->dtype) || !dl_emit_is_float(c->type))
                return dl_emit_refuse(
                    k, c, err, "'%s' is in %s, and %s compute it in f32 [DL-E0803]", op,
                    dl_dtype_name(dl_emit_is_float(c->type) ? t->dtype : c->type), kernels);
            if (!check_operand(e, c, o, t, err)) return false;
        }
    if (longest > LONGEST)
        return dl_emit_refuse(
            k, c, err,
            "an axis of '%s' has more than 2^30 elements: use a smaller batch or crop [DL-E0804]",
            op);
    int nests = 0; /* number of the contraction's loop nests: one, or refused */
    for (int i = 0; i < e->nests.n; i++) nests += contracts(&e->nests.at[i]);
    if (nests != 1)
        return dl_emit_refuse(k, c, err, "instructions next to '%s' are swept over %s [DL-E0803]",
                              op, nests ? "more than once" : "without it");
    return check_epilogue(e, c, err);
}

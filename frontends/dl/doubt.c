/* Warnings about programs that are legal, run, and give plausible numbers, but are hardly
 * intended: axes that are confused, values that make a layer or a loss constant. */
#include "frontends/dl/elab.h"

/* The name of an axis of t with a size above 1 that `other` lacks, or NULL. */
static const char *lacks(const dl_type *t, const dl_type *other) {
    for (int i = 0; i < t->rank; i++)
        if (t->axis[i].size != 1 && dl_type_axis(other, t->axis[i].name) < 0)
            return t->axis[i].name;
    return NULL;
}

static bool share_an_axis(const dl_type *a, const dl_type *b) {
    for (int i = 0; i < a->rank; i++)
        if (*a->axis[i].name && dl_type_axis(b, a->axis[i].name) >= 0) return true;
    return false;
}

bool dl_mixes_axes(dl_op op, int n, const dl_val *in, const dl_type *result) {
    if (op == DL_OP_rename || !n) return false;
    if (dl_ops[op].class == DL_CLASS_ELEM) {
        const dl_type *types[3];
        for (int i = 0; i < n; i++) types[i] = &in[i].t->type;
        int leader = dl_infer_leader(types, n);
        return leader < 0 ? result->rank > 0 : in[leader].mixed;
    }
    bool follows = dl_ops[op].class == DL_CLASS_REDUCE || dl_ops[op].class == DL_CLASS_MOVE;
    return follows && (in[0].mixed || (n > 1 && in[1].mixed) || (n > 2 && in[2].mixed));
}

void dl_doubt_outer_product(dl_elab *E, dl_span where, dl_op op, int n, const dl_val *in) {
    if (op == DL_OP_mul) return; /* a product and its sum are the way to write a matrix product */
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++) {
            if (in[i].kind != DL_V_TENSOR || in[j].kind != DL_V_TENSOR) continue;
            const dl_type *a = &in[i].t->type, *b = &in[j].t->type;
            const char *of_a = lacks(a, b), *of_b = lacks(b, a);
            if (!of_a || !of_b || !share_an_axis(a, b)) continue;
            dl_bad(E, where, DL_DIAG_outer_product,
                   "every %s meets every %s here: %s is %s and %s is %s", of_a, of_b,
                   dl_val_words(E, in[i], "the left side"), dl_type_text(a),
                   dl_val_words(E, in[j], "the right side"), dl_type_text(b));
            dl_help(E,
                    "if %s and %s are one axis, rename one of them with `as`; if this is meant, "
                    "say so: "
                    "expand(..., over=%s)",
                    of_a, of_b, of_b);
            return;
        }
}

void dl_doubt_renaming(dl_elab *E, const dl_ast *as, dl_val x, const dl_type *renamed) {
    const dl_type *t = &x.t->type;
    int changed = 0;
    for (int i = 0; i < t->rank; i++) {
        changed += t->axis[i].name != renamed->axis[i].name;
        int to = *t->axis[i].name ? dl_type_axis(renamed, t->axis[i].name) : -1;
        if (to < 0 || to == i) continue;
        dl_bad(E, as->at, DL_DIAG_renamed_unseen,
               "`as` goes by position: %s is %s, so this calls %s what was %s and moves nothing",
               dl_val_words(E, x, "the tensor"), dl_type_text(t), renamed->axis[to].name,
               *t->axis[to].name ? t->axis[to].name : "unnamed");
        dl_help(E, "state the axes in the order in which they are; x |> rearrange(\"n t e -> n e "
                   "t\") moves them");
        return;
    }
    if (!x.mixed || changed < 2) return;
    dl_buf order = {0};
    for (int i = 0; i < t->rank; i++) dl_putf(&order, "%s%s", i ? ", " : "", t->axis[i].name);
    dl_bad(E, as->at, DL_DIAG_renamed_unseen,
           "`as` goes by position, and the order of the axes of %s, %s, comes from that of "
           "operands elsewhere",
           dl_val_words(E, x, "the tensor"), dl_type_text(t));
    dl_help(E, "state it first, which checks it: as [%s] as [...]", order.at);
    dl_buf_free(&order);
}

/* ---- layers and losses that are constant, or computed twice ---- */

/* Whether an op gives the numbers of its operand, in other places. */
static bool only_moves(dl_op op) {
    return op == DL_OP_cast || op == DL_OP_rearrange || dl_ops[op].class == DL_CLASS_MOVE;
}

void dl_doubt_scores(dl_elab *E, dl_span where, const char *loss, dl_val given, dl_op maker) {
    if (given.kind != DL_V_TENSOR) return;
    const dl_value *v = given.t;
    while (v->def && only_moves(v->def->op)) v = v->def->in[0];
    if (!dl_made_by(v, maker)) return;
    dl_bad(E, where, DL_DIAG_softmax_twice,
           "%s takes scores, and these are probabilities: the result of %s", loss,
           dl_ops[maker].name);
    dl_help(E, "leave out the %s", dl_ops[maker].name);
}

void dl_doubt_one_class(dl_elab *E, dl_span where, const char *what, const dl_type *x, int axis) {
    if (x->axis[axis].size != 1) return;
    bool loss = strcmp(what, "cross_entropy") == 0;
    dl_bad(E, where, DL_DIAG_one_class, "%s of one class is %d, whatever the score: its %s %s",
           what, !loss && strcmp(what, "softmax") == 0, loss ? "scores are" : "input is",
           dl_type_text(x));
    dl_help(E, loss ? "bce_with_logits takes one score" : "sigmoid takes one score");
}

void dl_doubt_one_value(dl_elab *E, dl_span where, const char *layer, const dl_type *x, int axis) {
    if (x->axis[axis].size != 1) return;
    dl_bad(E, where, DL_DIAG_one_value_a_group,
           "%s along %s divides one value by its own %s: its input is %s", layer,
           x->axis[axis].name, strcmp(layer, "rms_norm") == 0 ? "size" : "deviation, which is 0",
           dl_type_text(x));
}

void dl_doubt_image_axes(dl_elab *E, dl_span where, dl_val x) {
    enum { TIMES = 8 }; /* an image is so many times as high as it has channels, or more */
    const dl_type *t = &x.t->type;
    if (t->rank != 4 || !x.t->var || x.t->var->role != DL_VAR_INPUT) return;
    int64_t last = t->axis[3].size;
    if (last < 3 || last > 4 || t->axis[1].size < TIMES * last || t->axis[2].size < TIMES * last)
        return;
    dl_bad(E, where, DL_DIAG_image_axes,
           "%s has %lld channels, and %s has the size of an image's channels: %s",
           dl_val_words(E, x, "the input"), (long long)t->axis[1].size, t->axis[3].name,
           dl_type_text(t));
    dl_help(E,
            "of images with their channels last: input x: f32[N, H=%lld, W=%lld, C=%lld], and "
            "x |> rearrange(\"n h w c -> n c h w\")",
            (long long)t->axis[1].size, (long long)t->axis[2].size, (long long)last);
}

/* Numbers that each sample has: constants that a file repeats for a batch of any size, and counts
 * of samples. They are computed for a single sample; masks of attention consist of them.
 *
 * The second sample's numbers less the first one's are the step of all: each further sample has as
 * much more than its predecessor. Counts of samples and ops that are linear in them are so, and no
 * others. */
#include "imports/onnx/fold.h"

int dl_ox_batch_axis(const dl_ox_value *v) {
    int axis = -1;
    for (int d = 0; d < v->t->rank; d++) {
        if (v->t->shape[d] == 0 || v->t->shape[d] % DL_OX_BATCH) continue;
        if (axis >= 0 || v->t->shape[d] != DL_OX_BATCH) return -1;
        axis = d;
    }
    return axis;
}

bool dl_ox_counts_all(const dl_ox_value *v) {
    if (!v->sample || !v->step || dl_ox_batch_axis(v) != 0) return false;
    int64_t n = dl_foreign_count(v->t) / DL_OX_BATCH;
    for (int64_t i = 0; i < n; i++)
        if (v->sample[i] != (double)i || v->step[i] != (double)n) return false;
    return true;
}

/* ---- which nodes ---- */

/* How an op treats samples: their axis must not be the one that it works along, and operands from
 * `plain` on do not differ by sample. */
static const struct {
    const char *op;
    int plain;
    bool shape; /* operand 1 is the shape of the result */
} ops[] = {{"Add", 2, false},       {"Sub", 2, false},
           {"Neg", 1, false},       {"Mul", 2, false},
           {"Div", 1, false},       {"Cast", 1, false},
           {"Expand", 1, true},     {"Reshape", 1, true},
           {"Unsqueeze", 1, false}, {"Squeeze", 1, false},
           {"Transpose", 1, false}, {"Gather", 1, false},
           {"Slice", 1, false},     {"Concat", 1 << 20, false},
           {"CumSum", 1, false},    {"GatherND", 2, false},
           {"Where", 0, false},     {"Equal", 0, false},
           {"Less", 0, false},      {"LessOrEqual", 0, false},
           {"Greater", 0, false},   {"GreaterOrEqual", 0, false},
           {"And", 0, false},       {"Or", 0, false},
           {"Not", 0, false},       {"Max", 0, false},
           {"Min", 0, false},       {"Mod", 0, false},
           {"Abs", 0, false}};

/* Whether the node works along the batch's axis of operand 0, or of its result. */
static bool is_along_batch(dl_ox_folding *f) {
    dl_ox_op o = {.r = f->r, .n = f->n};
    int own = dl_ox_batch_axis(f->n->in[0]), to = dl_ox_batch_axis(f->n->out[0]);
    int rank = f->n->in[0]->t->rank;
    const char *op = f->n->op;
    if (!strcmp(op, "Concat")) return dl_ox_dim(dl_ox_int(f->n, "axis", 0), rank) == to;
    if (!strcmp(op, "Reshape")) return own != 0 || to != 0;
    if (own < 0) return false;
    if (!strcmp(op, "Gather")) return dl_ox_dim(dl_ox_int(f->n, "axis", 0), rank) == own;
    if (!strcmp(op, "CumSum")) return dl_ox_dim(dl_ox_whole(f->x[1][0]), rank) == own;
    int64_t axes[DL_FOREIGN_RANK];
    int n = strcmp(op, "Slice") ? 0 : dl_ox_ints(&o, 3, NULL, DL_FOREIGN_RANK, axes);
    if (n < 0) return true;
    for (int k = 0; k < n; k++)
        if (dl_ox_dim(axes[k], rank) == own) return true;
    return false;
}

/* The index of GatherND takes each sample's own row along the batch's axis of x, and differs in
 * nothing else: then it is that of the first sample. */
static bool takes_own(const dl_ox_value *x, const dl_ox_value *index) {
    int own = x->sample ? dl_ox_batch_axis(x) : -1;
    int64_t k = index->t->rank ? index->t->shape[index->t->rank - 1] : 0;
    if (!index->step) return own < 0 || own >= k;
    int64_t n = dl_foreign_count(index->t) / DL_OX_BATCH;
    for (int64_t i = 0; i < n; i++)
        if (i % k == own ? index->sample[i] != 0 || index->step[i] != 1 : index->step[i] != 0)
            return false;
    return own >= 0 && own < k;
}

/* ---- numbers ---- */

static bool note_range(dl_ox *r, const dl_ox_node *n) {
    double start, delta;
    if (n->n_in != 3 || !dl_ox_number(r, n->in[0], &start) || !dl_ox_number(r, n->in[2], &delta))
        return false;
    double *numbers = DL_NEWS(r->arena, double, 2);
    numbers[0] = start, numbers[1] = delta;
    n->out[0]->sample = numbers, n->out[0]->step = numbers + 1;
    return true;
}

/* The row of ops for a node, if it has operands for it; -1. */
static int find_op(dl_ox *r, const dl_ox_node *n) {
    bool any = !strcmp(n->op, "Expand");
    for (int i = 0; i < n->n_in; i++) any = any || (n->in[i] && n->in[i]->sample);
    int row = any ? (int)(sizeof ops / sizeof *ops) - 1 : -1;
    while (row >= 0 && strcmp(ops[row].op, n->op) != 0) row--;
    for (int i = 0; row >= 0 && i < n->n_in; i++) {
        dl_ox_value *v = n->in[i];
        if (!v ? strcmp(n->op, "Slice") != 0
               : !v->sample && !(ops[row].shape && i == 1) && (!dl_ox_known(r, v) || v->other))
            return -1;
        if (v && v->step && i >= ops[row].plain) return -1;
    }
    return row;
}

static void note(dl_ox *r, const dl_ox_node *n) {
    dl_ox_value *to = n->n_out ? n->out[0] : NULL;
    if (!to || !to->t || to->t->class == DL_FOREIGN_UNKNOWN || to->known || to->sample) return;
    if (n->n_in < 1 || dl_ox_batch_axis(to) < 0) return;
    if (!strcmp(n->op, "Range") && to->t->shape[0] == DL_OX_BATCH && note_range(r, n)) return;
    int row = find_op(r, n);
    if (row < 0 || (n->n_in > 5 && strcmp(n->op, "Concat") != 0)) return;
    dl_ox_folding f = {.r = r, .n = n, .count = n->n_in, .batch = DL_OX_FOR_FIRST};
    bool steps = false, rows = !strcmp(n->op, "GatherND");
    for (int i = 0; i < n->n_in; i++) {
        bool shape = ops[row].shape && i == 1;
        if (n->in[i] && !shape) steps = steps || (n->in[i]->step && !(rows && i == 1));
        if (i > 3 || !n->in[i]) continue;
        f.in[i] = n->in[i], f.s[i] = dl_ox_fold_shape(&f, n->in[i]);
        f.x[i] = dl_ox_fold_numbers(&f, n->in[i]);
    }
    bool square = !strcmp(n->op, "Mul") && n->in[0]->step && n->in[1]->step;
    bool whole = !strcmp(n->op, "Div") && steps && n->in[0]->t->class != DL_FOREIGN_FLOAT;
    if (square || whole || is_along_batch(&f) || (rows && !takes_own(n->in[0], n->in[1]))) return;
    if (!dl_ox_fold_by_rule(&f)) to->sample = NULL;
    if (!to->sample || !steps) return;
    f.batch = DL_OX_FOR_SECOND;
    for (int i = 0; i < n->n_in && i < 4; i++)
        if (f.in[i] && !(rows && i == 1)) f.x[i] = dl_ox_fold_numbers(&f, f.in[i]);
    if (!dl_ox_fold_by_rule(&f)) to->sample = NULL;
}

/* ---- the numbers in the graph ---- */

/* Whether a node that is to come has an operand of unknown numbers next to v. */
static bool is_read_by_others(const dl_ox *r, const dl_ox_value *v) {
    for (int i = v->by + 1; i < r->nodes.n; i++) {
        const dl_ox_node *n = &r->nodes.at[i];
        bool reads = false, unknown = true;
        for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
            unknown = unknown && strcmp(ops[k].op, n->op) != 0;
        for (int k = 0; k < n->n_in; k++) {
            const dl_ox_value *w = n->in[k];
            reads = reads || w == v;
            unknown = unknown || (w && !w->sample && !w->known && !w->stored);
        }
        if (reads && unknown) return true;
    }
    return false;
}

void dl_ox_note_sample(dl_ox_op *o) {
    note(o->r, o->n);
    dl_ox_value *v = o->n->n_out ? o->n->out[0] : NULL;
    if (!v || !v->sample || v->step || !strcmp(o->n->op, "Expand") || !is_read_by_others(o->r, v))
        return;
    dl_ox_value *row = DL_NEW(o->r->arena, dl_ox_value);
    *row = (dl_ox_value){.name = v->name, .by = -1};
    dl_ox_shape all = dl_ox_shape_of(v), s = all;
    s.size[dl_ox_batch_axis(v)] = 1;
    double *numbers = DL_NEWS(o->r->arena, double, dl_ox_count(&s) + 1);
    memcpy(numbers, v->sample, (size_t)dl_ox_count(&s) * sizeof *numbers);
    dl_ox_hold(o->r, row, &s, v->t->class, v->t->dtype, numbers);
    dl_ox_arg_tensor(o, "self", row);
    v->repeated = dl_ox_make(o, "aten.expand.default", NULL, &all, v);
}

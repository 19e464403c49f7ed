/* Random ops: dropout in its forms, and numbers that a model asks for.
 *
 * A random number is a pure function of the seed, the step, the number of its op and the index
 * of its element (ir/base/philox.h). Seed and step are variables of the plan. So the backward
 * pass draws the same numbers again, a resumed run continues the sequence, and another seed
 * needs no compilation. Where ranks share the samples, the index counts the elements of all
 * ranks, so that a sample's numbers do not depend on its rank. The rank is a variable of the
 * plan, too, so that all ranks share one plan. */
#include <math.h>
#include <stdlib.h>

#include "ir/attention.h"
#include "ir/base/philox.h"
#include "passes/lower/legalize.h"
#include "passes/lower/lower.h"
#include "passes/pass.h"

/* The scalar variable of this name, which is created where there is none yet. */
static dl_value *counter(dl_lowering *l, dl_var_role role, const char *name) {
    dl_graph *g = l->b.graph;
    const dl_type type = dl_scalar(DL_I64);
    name = dl_intern(name);
    dl_var *v = dl_graph_find_var(g, name);
    if (v && (v->role != role || !dl_type_same(&v->value.type, &type)) && l->err->code == DL_OK)
        dl_fail_taken(g, v, "what random numbers are drawn by", l->err);
    return v ? &v->value : &dl_graph_var(g, role, name, type, (dl_init){0}, l->b.loc)->value;
}

/* Each step counts itself. */
static void count_steps(dl_lowering *l) {
    l->step = counter(l, DL_VAR_STATE, DL_RANDOM_STEP);
    if (l->err->code != DL_OK) return;
    for (int i = 0; i < l->b.graph->results.n; i++) {
        const dl_result *r = &l->b.graph->results.at[i];
        if (r->role == DL_RESULT_UPDATE && &r->var->value == l->step) return;
    }
    dl_value *next = dl_build_k(&l->b, DL_OP_add, l->step, 1);
    dl_graph_result(l->b.graph, DL_RESULT_UPDATE, l->step->var->name, next, l->step->var);
}

/* The second number by which n draws. An evaluation changes no state: the host numbers its batches,
 * so that each evaluation of the same samples draws the same. */
static dl_value *count_for(dl_lowering *l, const dl_node *n) {
    const dl_attr *training = dl_node_attr(n, DL_ATTR_training);
    bool evaluates = training && !training->i;
    if (evaluates && !l->batch) l->batch = counter(l, DL_VAR_HYPER, DL_RANDOM_BATCH);
    if (!evaluates && !l->step) count_steps(l);
    return evaluates ? l->batch : l->step;
}

/* Does the value depend on a rank's samples? A value of weights alone is equal on all ranks, as is
 * a sum over the ranks, and must draw equal numbers. `seen`: by value id. */
static bool is_fed(const dl_value *v, bool *seen) {
    if (seen[v->id]) return false;
    seen[v->id] = true;
    if (v->def && v->def->op == DL_OP_all_reduce) return false;
    if (!v->def) return v->var && (v->var->role == DL_VAR_INPUT || v->var->role == DL_VAR_TARGET);
    for (int i = 0; i < v->def->nin; i++)
        if (is_fed(v->def->in[i], seen)) return true;
    return false;
}

/* Are the operand's elements a contiguous part of those of all ranks, which follow each other in
 * rank order? It is true as well for samples that are not along the first axis. Each rank then
 * has different numbers, but one rank that has all samples draws others. */
static bool has_part(dl_lowering *l, const dl_node *n) {
    if (!l->ranks) return false;
    bool *seen = dl_calloc((size_t)l->b.graph->next_id + 1, sizeof *seen), fed = false;
    for (int i = 0; i < n->nin; i++) fed = fed || is_fed(n->in[i], seen);
    free(seen);
    return fed;
}

int dl_lower_draw(dl_builder *b, const dl_node *n, int64_t *number, dl_value *in[3]) {
    dl_lowering *l = dl_lowering_of(b);
    bool part = has_part(l, n);
    if (!l->seed) l->seed = counter(l, DL_VAR_HYPER, DL_RANDOM_SEED);
    in[0] = l->seed, in[1] = count_for(l, n);
    if (part && !l->rank) l->rank = counter(l, DL_VAR_HYPER, DL_RANDOM_RANK);
    if (l->next == DL_RANDOM_NUMBERS && l->err->code == DL_OK)
        dl_fail(l->err, DL_INPUT, "%s:%d:%d: error: a step draws for more than %d ops",
                b->loc.file ? b->loc.file : b->graph->name, b->loc.line, b->loc.column,
                DL_RANDOM_NUMBERS);
    *number = l->next++;
    if (part) in[2] = l->rank;
    return l->err->code == DL_OK ? 2 + part : 0;
}

/* Random numbers uniform in [0, 1), one for each element of a type, in place of n. NULL and the
 * pass' error where n may not draw. */
static dl_value *draw(dl_builder *b, const dl_node *n, dl_type type) {
    int64_t which;
    dl_value *in[3];
    int nin = dl_lower_draw(b, n, &which, in);
    if (!nin) return NULL;
    dl_attr number = dl_attr_int(DL_ATTR_number, which);
    if (type.dtype != DL_F64) type.dtype = DL_F32;
    type.layout = (dl_layout){0};
    return dl_build_as(b, DL_OP_random, nin, in, 1, &number, type);
}

/* n's operand x as x / (1 - rate) with the probability 1 - rate, else 0. One number decides for
 * each element of `tossed`. The threshold is a multiple of 2^-24, as the numbers are, so that it
 * is equal in any precision. */
static dl_value *drop(dl_builder *b, const dl_node *n, dl_type tossed) {
    dl_value *x = n->in[0];
    double rate = dl_node_float(n, DL_ATTR_rate);
    if (rate == 0) return x;
    if (rate == 1)
        return dl_build_k(b, DL_OP_mul, x, 0); /* the gradient is 0, too, but it exists */
    double threshold = ceil(rate * 0x1p24) * 0x1p-24;
    dl_value *toss = draw(b, n, tossed);
    if (!toss) return x;
    dl_value *kept = dl_build_k(b, DL_OP_ge, toss, threshold);
    /* a product, as in PyTorch: a non-finite value remains one where it is dropped, and training
     * stops there */
    dl_value *more = dl_build_const(b, x->type.dtype, 1 / (1 - rate)),
             *none = dl_build_const(b, x->type.dtype, 0);
    dl_value *scale = dl_build3(b, DL_OP_select, kept, more, none);
    return dl_build2(b, DL_OP_mul, x, scale);
}

dl_value *dl_lower_rand(dl_builder *b, const dl_node *n) { return draw(b, n, n->out[0].type); }

/* Each element independently (Srivastava et al. 2014), as torch.nn.Dropout. */
dl_value *dl_lower_dropout(dl_builder *b, const dl_node *n) { return drop(b, n, n->in[0]->type); }

/* A mask or bias as what is added to scores: minus infinity where the query may not see the key. */
static dl_value *addend_of(dl_builder *b, dl_value *v, dl_dtype type) {
    if (v->type.dtype != DL_BOOL) return dl_build_cast(b, v, type);
    return dl_build3(b, DL_OP_select, v, dl_build_const(b, type, 0),
                     dl_build_const(b, type, -INFINITY));
}

/* The template, with the operands of its random numbers where it drops; only the backward half
 * reads its second result. */
dl_value *dl_lower_attention(dl_builder *b, const dl_node *n) {
    dl_value *in[DL_GRAD_MOST] = {n->in[0], n->in[1], n->in[2]};
    dl_dtype scores = n->in[0]->type.dtype == DL_F64 ? DL_F64 : DL_F32;
    for (int i = DL_ATT_FIXED; i < n->nin; i++) in[i] = addend_of(b, n->in[i], scores);
    double rate = dl_node_float(n, DL_ATTR_rate);
    const dl_attr *causal = dl_node_attr(n, DL_ATTR_causal);
    int64_t number = 0;
    int draws = rate > 0 ? dl_lower_draw(b, n, &number, in + n->nin) : 0;
    if (rate > 0 && !draws) return NULL;
    dl_attr attrs[] = {dl_attr_float(DL_ATTR_rate, rate), dl_attr_int(DL_ATTR_number, number),
                       dl_attr_int(DL_ATTR_heads, dl_node_int(n, DL_ATTR_heads)),
                       dl_attr_int(DL_ATTR_causal, causal ? causal->i : 0)};
    bool twice = dl_lower_twice(b, n);
    for (int i = 0; twice && i < n->nin; i++)
        if (dl_dtype_is_half(in[i]->type.dtype)) in[i] = dl_build_cast(b, in[i], DL_F32);
    dl_value *y = dl_build(b, DL_OP_flash_attention, n->nin + draws, in, 4, attrs);
    if (!twice) return y;
    b->graph->nodes.n--; /* the template is described by its node, which is not in the graph */
    return dl_build_cast(b, dl_expand_attention(b, y->def), n->out[0].type.dtype);
}

/* Drops whole samples, along the first axis (Huang et al. 2016, "stochastic depth"), as timm's
 * DropPath. */
dl_value *dl_lower_drop_path(dl_builder *b, const dl_node *n) {
    dl_type samples = n->in[0]->type;
    if (samples.rank > 1) samples.rank = 1;
    return drop(b, n, samples);
}

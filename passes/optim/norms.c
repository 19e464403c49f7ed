/* Metrics of a step in addition to the model's: norms of gradients and weights, of all and by
 * layer, and the gradient's noise scale. */
#include <string.h>

#include "ir/base/tags.h"
#include "passes/optim/optimizer.h"

/* The layer of a parameter, interned: its name without the last part; "body" of "body.weight". */
static const char *layer_of(const char *parameter) {
    const char *dot = strrchr(parameter, '.');
    return dot ? dl_intern_n(parameter, (size_t)(dot - parameter)) : dl_intern(parameter);
}

/* ---- norms ---- */

/* The square, in f64, of a norm of n parameters from `first` on that are of the layer (NULL: all).
 * For shards it is the norm over all ranks. Squares are f64, too: in f32, squares of values above
 * 1.8e19 would be infinite, and below 1e-23 they would be 0. */
static dl_value *square_of(dl_optimization *o, int first, int n, const char *layer, bool weights) {
    dl_o_total total = {0};
    for (int i = first; i < first + n; i++) {
        const dl_trained *t = &o->trained.at[i];
        if (layer && layer_of(t->var->name) != layer) continue;
        dl_value *v = dl_build_cast(o->b, weights ? t->next : t->grad, DL_F64);
        dl_value *square = dl_build2(o->b, DL_OP_mul, v, v);
        dl_o_total_add(o, &total, t, dl_build_reduce(o->b, DL_OP_sum, square, 0, NULL));
    }
    return dl_o_total_sum(o, &total, "a norm");
}

dl_value *dl_norm_of_set(dl_optimization *o, const dl_trained_set *set, bool weights) {
    return dl_build1(o->b, DL_OP_sqrt, square_of(o, set->first, set->n, NULL, weights));
}

bool dl_norms_need_gradients(const dl_optimization *o) {
    return o->step_options->norms || o->step_options->noise;
}

static void report(const dl_optimization *o, const char *name, dl_value *v) {
    dl_graph_result(o->b->graph, DL_RESULT_METRIC, name, v, NULL);
}

/* The norm of all sets together, from a norm of each. */
static dl_value *joint_norm(dl_optimization *o, int n, dl_value *const *norms) {
    dl_value *sum = NULL;
    for (int i = 0; i < n; i++) {
        dl_value *square = dl_o_mul(o, norms[i], norms[i]);
        sum = sum ? dl_o_add(o, sum, square) : square;
    }
    return n == 1 ? norms[0] : dl_build1(o->b, DL_OP_sqrt, sum);
}

/* The norm of all gradients, or of all weights after the step. */
static dl_value *norm_of_all(dl_optimization *o, bool weights) {
    dl_value **norms = DL_NEWS(o->arena, dl_value *, o->sets.n);
    for (int i = 0; i < o->sets.n; i++)
        norms[i] = weights ? dl_norm_of_set(o, &o->sets.at[i], true) : o->sets.at[i].norm;
    return joint_norm(o, o->sets.n, norms);
}

/* ---- layers ---- */

/* Whether parameter i is the first of its layer. */
static bool begins_layer(const dl_optimization *o, int i, const char *layer) {
    for (int k = 0; k < i; k++)
        if (layer_of(o->trained.at[k].var->name) == layer) return false;
    return true;
}

static void report_layers(dl_optimization *o, const char *metric, bool weights) {
    for (int i = 0; i < o->trained.n; i++) {
        const char *layer = layer_of(o->trained.at[i].var->name);
        if (!begins_layer(o, i, layer)) continue;
        o->b->loc = o->trained.at[i].var->loc;
        dl_value *square = square_of(o, 0, o->trained.n, layer, weights);
        report(o, dl_internf("%s.%s", metric, layer), dl_build1(o->b, DL_OP_sqrt, square));
    }
}

void dl_layer_norms_begin(dl_optimization *o) {
    if (o->step_options->layer_norms) report_layers(o, DL_TAG_GRAD_NORM, false);
}

/* ---- the noise scale ---- */

/* The mean of a number over the steps so far, newer ones weighing more. */
static dl_value *mean_of_steps(dl_optimization *o, const char *name, dl_value *v) {
    const double newest = 0.01;
    dl_var *mean = dl_optimizer_scalar(o, name, 0);
    dl_value *next = dl_o_add(o, dl_build_k(o->b, DL_OP_mul, &mean->value, 1 - newest),
                              dl_build_k(o->b, DL_OP_mul, v, newest));
    dl_graph_result(o->b->graph, DL_RESULT_UPDATE, mean->name, next, mean);
    return next;
}

/* Batches of a step times ranks with samples of their own. */
static dl_value *number_of_parts(dl_optimization *o) {
    dl_var *batches = dl_graph_find_var(o->b->graph, DL_ACCUMULATE_BATCHES);
    dl_value *n = batches ? &batches->value : dl_o_k(o, 1);
    return dl_build_k(o->b, DL_OP_mul, n, o->data_ranks);
}

/* The samples of this rank in a batch. */
static double part_samples(const dl_graph *g) {
    const char *batch = dl_intern("N");
    for (int i = 0; i < g->vars.n; i++) {
        const dl_var *v = g->vars.at[i];
        if (v->role == DL_VAR_INPUT && v->value.type.rank && v->value.type.axis[0].name == batch)
            return (double)v->value.type.axis[0].size;
    }
    return 1;
}

/* The batch at which the gradient's noise is as large as the gradient, tr(S) / |G|^2 (McCandlish et
 * al. 2018, appendix A): from the mean square of the norms of the parts' gradients, and the square
 * of their mean's norm, for k parts of as many samples. Estimates of S and |G|^2 are averaged over
 * steps before they are divided. In samples, by the samples of a part. */
static void report_noise(dl_optimization *o, const dl_result *parts) {
    dl_value *small = dl_build_cast(o->b, parts->value, DL_F64), *norm = norm_of_all(o, false),
             *big = dl_o_mul(o, norm, norm), *k = number_of_parts(o);
    dl_value *less = dl_build_k(o->b, DL_OP_add, k, -1);
    dl_value *gradient = dl_o_div(o, dl_o_sub(o, dl_o_mul(o, k, big), small), less);
    dl_value *noise = dl_o_div(o, dl_o_mul(o, k, dl_o_sub(o, small, big)), less);
    dl_value *ratio = dl_o_div(o, mean_of_steps(o, DL_NOISE_VARIANCE, noise),
                               mean_of_steps(o, DL_NOISE_SQUARE, gradient));
    report(o, DL_TAG_NOISE_SCALE, dl_build_k(o->b, DL_OP_mul, ratio, part_samples(o->b->graph)));
}

/* ---- all of them ---- */

void dl_norms_report(dl_optimization *o) {
    const dl_result *parts =
        dl_graph_find_result(o->b->graph, DL_RESULT_METRIC, DL_TAG_PART_SQUARE);
    const dl_loc whole = o->b->loc;
    if (o->step_options->norms) {
        report(o, DL_TAG_GRAD_NORM, norm_of_all(o, false));
        report(o, DL_TAG_WEIGHT_NORM, norm_of_all(o, true));
    }
    if (o->step_options->layer_norms) report_layers(o, DL_TAG_WEIGHT_NORM, true);
    o->b->loc = whole;
    if (o->step_options->noise && parts) report_noise(o, parts);
}

/* The reference interpreter: its runs, and the meaning of every op except contractions and
 * kernels. */
#include "ir/interp/interp_parts.h"

#include <stdlib.h>

#include "ir/base/philox.h"

struct dl_interp {
    const dl_graph *graph;
    bool round, release;
    double shake; /* the relative size of random perturbations of each result; 0: none */
    uint64_t random;
    dl_interp_own *own; /* may replace a node's result; NULL: none */
    void *user;
    dl_interp_source
        *source; /* of dl_interp_stream; NULL: the run holds its variables and results */
    dl_interp_take *take;
    void *stream;
    uint32_t n;
    double **data; /* by value id; NULL before the first use */
};

dl_interp *dl_interp_new(const dl_graph *g, bool round) {
    dl_interp *in = dl_calloc(1, sizeof *in);
    *in = (dl_interp){.graph = g, .round = round, .n = g->next_id};
    in->data = dl_calloc(in->n, sizeof *in->data);
    return in;
}

void dl_interp_free(dl_interp *in) {
    if (!in) return;
    for (uint32_t i = 0; i < in->n; i++) free(in->data[i]);
    free(in->data);
    free(in);
}

void dl_interp_release(dl_interp *in) { in->release = true; }

void dl_interp_shake(dl_interp *in, double relative, uint64_t seed) {
    in->shake = relative, in->random = seed;
}

void dl_interp_means(dl_interp *in, dl_interp_own *own, void *user) {
    in->own = own, in->user = user;
}

void dl_interp_stream(dl_interp *in, dl_interp_source *source, dl_interp_take *take, void *user) {
    in->release = true;
    in->source = source, in->take = take, in->stream = user;
}

/* 1 + shake or 1 - shake, by a random bit (splitmix64: Steele, Lea and Flood, OOPSLA 2014). */
static double toss(dl_interp *in) {
    uint64_t z = in->random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z >> 63 ? 1 + in->shake : 1 - in->shake;
}

double *dl_interp_data(dl_interp *in, const dl_value *v) {
    DL_CHECK(v->id < in->n);
    if (in->data[v->id]) return in->data[v->id];
    int64_t count = dl_type_count(&v->type);
    double *data = in->data[v->id] = calloc(count ? (size_t)count : 1, sizeof(double));
    for (int i = 0; data && v->var && i < v->var->numbers.n; i++)
        data[i] = dl_interp_convert(v->type.dtype, v->var->numbers.at[i], in->round);
    if (data && v->var && in->source) in->source(in->stream, v, data);
    return data;
}

void dl_interp_drop(dl_interp *in, const dl_value *v) {
    DL_CHECK(v->id < in->n);
    free(in->data[v->id]);
    in->data[v->id] = NULL;
}

/* --- walking --- */

/* Strides, by axis of `walked`, of a row-major tensor `t` that follows it by axis name: 0 along
 * axes that t lacks. */
static void follow(const dl_type *t, const dl_type *walked, int64_t stride[DL_MAX_RANK]) {
    dl_type row = *t;
    int64_t own[DL_MAX_RANK];
    row.layout = (dl_layout){0};
    dl_type_strides(&row, own);
    for (int i = 0; i < walked->rank; i++) {
        int j = *walked->axis[i].name ? dl_type_axis(t, walked->axis[i].name) : -1;
        stride[i] = j < 0 || t->axis[j].size == 1 ? 0 : own[j];
    }
}

enum { STREAMS = 3 };
/* A row-major walk over a type, with the offsets of up to three tensors that follow it. */
typedef struct {
    const dl_type *type;
    int n;
    int64_t at[DL_MAX_RANK], stride[STREAMS][DL_MAX_RANK], place[STREAMS];
} walk;

static void step(walk *w) {
    for (int i = w->type->rank - 1; i >= 0; i--) {
        int64_t back = 0;
        if (++w->at[i] == w->type->axis[i].size) back = w->at[i], w->at[i] = 0;
        for (int s = 0; s < w->n; s++) w->place[s] += w->stride[s][i] - back * w->stride[s][i];
        if (!back) return;
    }
}

/* --- meanings: the operands' data a[], the result's data r --- */

typedef void meaning(const dl_node *n, const double *const *a, double *r);

/* The op's one float attribute, or 0. */
static double parameter(const dl_node *n) {
    for (int i = 0; i < n->nattrs; i++)
        if (dl_attrs[n->attrs[i].id].kind == DL_KIND_FLOAT) return n->attrs[i].f;
    return 0;
}

static void mean_elem(const dl_node *n, const double *const *a, double *r) {
    const dl_type *t = &n->out[0].type;
    walk w = {.type = t, .n = n->nin};
    double v[STREAMS] = {0}, p = parameter(n);
    int64_t count = dl_type_count(t);
    for (int s = 0; s < n->nin; s++) follow(&n->in[s]->type, t, w.stride[s]);
    for (int64_t i = 0; i < count; i++, step(&w)) {
        for (int s = 0; s < n->nin; s++) v[s] = a[s][w.place[s]];
        r[i] = dl_interp_scalar(n->op, v[0], v[1], v[2], p);
    }
}

static void mean_reduce(const dl_node *n, const double *const *a, double *r) {
    const dl_type *t = &n->in[0]->type, *result = &n->out[0].type;
    walk w = {.type = t, .n = 1};
    int64_t from = dl_type_count(t), to = dl_type_count(result), each = 1;
    const dl_attr *over = dl_node_attr(n, DL_ATTR_over);
    follow(result, t, w.stride[0]);
    for (int64_t i = 0; i < to; i++) r[i] = dl_interp_identity(n->op);
    for (int64_t i = 0; i < from; i++, step(&w))
        r[w.place[0]] = dl_interp_scalar(n->op, r[w.place[0]], a[0][i], 0, 0);
    for (int i = 0; i < over->n; i++) each *= t->axis[dl_type_axis(t, over->names[i])].size;
    if (n->op == DL_OP_mean)
        for (int64_t i = 0; i < to; i++) r[i] /= (double)each;
}

static void mean_const(const dl_node *n, const double *const *a, double *r) {
    (void)a;
    int64_t count = dl_type_count(&n->out[0].type);
    for (int64_t i = 0; i < count; i++) r[i] = dl_node_float(n, DL_ATTR_value);
}

static void mean_iota(const dl_node *n, const double *const *a, double *r) {
    (void)a;
    for (int64_t i = 0; i < n->out[0].type.axis[0].size; i++) r[i] = (double)i;
}

static void mean_random(const dl_node *n, const double *const *a, double *r) {
    int64_t count = dl_type_count(&n->out[0].type);
    uint32_t number = (uint32_t)dl_node_int(n, DL_ATTR_number);
    uint64_t first = n->nin > 2 ? (uint64_t)(int64_t)a[2][0] * (uint64_t)count : 0;
    for (int64_t i = 0; i < count; i++)
        r[i] = (double)dl_unit_float(dl_random_word(
            (uint64_t)(int64_t)a[0][0], (uint64_t)(int64_t)a[1][0], number, first + (uint64_t)i));
}

static void mean_broadcast(const dl_node *n, const double *const *a, double *r) {
    const dl_type *t = &n->out[0].type;
    walk w = {.type = t, .n = 1};
    int64_t count = dl_type_count(t);
    follow(&n->in[0]->type, t, w.stride[0]);
    for (int64_t i = 0; i < count; i++, step(&w)) r[i] = a[0][w.place[0]];
}

/* Elements [from, from + n) of axis `axis` of tensor `of`, copied to [to, to + n) of the same axis
 * of r. */
static void copy_range(const dl_type *of, const double *a, int64_t from, const dl_type *into,
                       double *r, int64_t to, int64_t n, int axis) {
    const dl_around s = dl_type_around(of, axis);
    int64_t target = into->axis[axis].size;
    for (int64_t i = 0; i < s.outer && n * s.inner > 0; i++)
        memcpy(r + (i * target + to) * s.inner, a + (i * s.size + from) * s.inner,
               sizeof *r * (size_t)(n * s.inner));
}

static int axis_of(const dl_node *n) {
    return dl_type_axis(&n->in[0]->type, dl_node_name(n, DL_ATTR_axis));
}

static void mean_slice(const dl_node *n, const double *const *a, double *r) {
    int axis = axis_of(n);
    const dl_type *t = &n->out[0].type;
    copy_range(&n->in[0]->type, a[0], dl_node_int(n, DL_ATTR_start), t, r, 0, t->axis[axis].size,
               axis);
}

static void mean_pad(const dl_node *n, const double *const *a, double *r) {
    int axis = axis_of(n);
    const dl_type *t = &n->in[0]->type;
    int64_t count = dl_type_count(&n->out[0].type);
    for (int64_t i = 0; i < count; i++) r[i] = 0;
    copy_range(t, a[0], 0, &n->out[0].type, r, dl_node_attr(n, DL_ATTR_pad_lo)->ints[0],
               t->axis[axis].size, axis);
}

static void mean_cat(const dl_node *n, const double *const *a, double *r) {
    int axis = axis_of(n);
    int64_t to = 0;
    for (int i = 0; i < n->nin; i++) {
        const dl_type *t = &n->in[i]->type;
        copy_range(t, a[i], 0, &n->out[0].type, r, to, t->axis[axis].size, axis);
        to += t->axis[axis].size;
    }
}

static void mean_affine(const dl_node *n, const double *const *a, double *r) {
    const dl_type *from = &n->in[0]->type, *t = &n->out[0].type;
    const dl_attr *along = dl_node_attr(n, DL_ATTR_along),
                  *stride = dl_node_attr(n, DL_ATTR_stride);
    int axis = dl_type_axis(from, along->names[0]);
    dl_outside outside = (dl_outside)dl_outside_find(dl_node_name(n, DL_ATTR_outside));
    dl_type row = *from;
    int64_t own[DL_MAX_RANK], count = dl_type_count(t), div = dl_node_int(n, DL_ATTR_div);
    walk w = {.type = t, .n = 1};
    row.layout = (dl_layout){0};
    dl_type_strides(&row, own);
    follow(from, t, w.stride[0]);
    w.stride[0][dl_type_axis(t, along->names[0])] = 0;
    for (int64_t i = 0; i < count; i++, step(&w)) {
        int64_t sum = dl_node_int(n, DL_ATTR_start);
        for (int k = 0; k < along->n; k++)
            sum += stride->ints[k] * w.at[dl_type_axis(t, along->names[k])];
        int64_t place = dl_affine_place(sum, div, outside, from->axis[axis].size);
        r[i] = place < 0 ? dl_outside_value(outside) : a[0][w.place[0] + place * own[axis]];
    }
}

/* Walks over `whole` together with `numbers`, which are indices along an axis of a tensor of type
 * `along`. places[i] is the tensor's element for element i of `whole`, or -1 where the index is out
 * of range. */
static void walk_numbered(const dl_node *n, const dl_type *whole, const dl_type *along,
                          const double *numbers, int64_t *places) {
    const dl_type *t = &n->in[1]->type;
    int axis = dl_type_axis(along, dl_node_name(n, DL_ATTR_axis)),
        own_axis = dl_type_axis(whole, along->axis[axis].name);
    dl_type row = *along;
    int64_t own[DL_MAX_RANK], count = dl_type_count(whole);
    walk w = {.type = whole, .n = 2};
    row.layout = (dl_layout){0};
    dl_type_strides(&row, own);
    follow(t, whole, w.stride[0]);
    follow(along, whole, w.stride[1]);
    if (own_axis >= 0) w.stride[1][own_axis] = 0;
    for (int64_t i = 0; i < count; i++, step(&w)) {
        double v = numbers[w.place[0]];
        places[i] =
            v >= 0 && v < (double)along->axis[axis].size ? w.place[1] + (int64_t)v * own[axis] : -1;
    }
}

static void mean_gather(const dl_node *n, const double *const *a, double *r) {
    const dl_type *t = &n->out[0].type;
    int64_t count = dl_type_count(t), *places = dl_calloc((size_t)count + 1, sizeof *places);
    walk_numbered(n, t, &n->in[0]->type, a[1], places);
    for (int64_t i = 0; i < count; i++)
        r[i] = places[i] >= 0 ? a[0][places[i]] : dl_outside_value(dl_outside_of_gather(t->dtype));
    free(places);
}

/* Sums, or the largest of the values for an element. */
static void mean_scatter(const dl_node *n, const double *const *a, double *r) {
    const dl_type *t = &n->in[0]->type;
    int64_t count = dl_type_count(t), to = dl_type_count(&n->out[0].type);
    int64_t *places = dl_calloc((size_t)count + 1, sizeof *places);
    bool *some = dl_calloc((size_t)to + 1, sizeof *some), most = n->op == DL_OP_scatter_max;
    for (int64_t i = 0; i < to; i++) r[i] = 0;
    walk_numbered(n, t, &n->out[0].type, a[1], places);
    for (int64_t i = 0; i < count; i++) {
        int64_t p = places[i];
        if (p < 0) continue;
        double v = a[0][i];
        r[p] = !most ? r[p] + v : some[p] ? dl_interp_scalar(DL_OP_max, r[p], v, 0, 0) : v;
        some[p] = true;
    }
    free(places), free(some);
}

/* The same elements in the same logical order: squeeze, unsqueeze, rename, reshape, relayout,
 * enter. */
static void mean_same(const dl_node *n, const double *const *a, double *r) {
    memcpy(r, a[0], sizeof *r * (size_t)dl_type_count(&n->out[0].type));
}

static void mean_contract(const dl_node *n, const double *const *a, double *r) {
    dl_relation relation = dl_relation_of(n);
    dl_interp_contract(&relation, a[0], a[1], &(dl_interp_sums){.sum = r});
}

static meaning *const of_class[DL_CLASS_HIGH + 1] = {[DL_CLASS_ELEM] = mean_elem,
                                                     [DL_CLASS_REDUCE] = mean_reduce,
                                                     [DL_CLASS_CONTRACT] = mean_contract};
static meaning *const of_op[DL_NOPS] = {
    [DL_OP_const] = mean_const,
    [DL_OP_iota] = mean_iota,
    [DL_OP_random] = mean_random,
    [DL_OP_broadcast] = mean_broadcast,
    [DL_OP_slice] = mean_slice,
    [DL_OP_pad] = mean_pad,
    [DL_OP_cat] = mean_cat,
    [DL_OP_squeeze] = mean_same,
    [DL_OP_unsqueeze] = mean_same,
    [DL_OP_rename] = mean_same,
    [DL_OP_relayout] = mean_same,
    [DL_OP_reshape] = mean_same,
    [DL_OP_enter] = mean_same,
    [DL_OP_scale_gradient] = mean_same,
    [DL_OP_affine] = mean_affine,
    [DL_OP_gather] = mean_gather,
    [DL_OP_scatter_add] = mean_scatter,
    [DL_OP_scatter_max] = mean_scatter,
};

/* --- running --- */

static double *need(dl_interp *in, const dl_value *v, dl_error *err) {
    double *data = dl_interp_data(in, v);
    if (!data)
        dl_fail(err, DL_RESOURCE, "no memory for %%%u in the interpreter: %s in double precision",
                v->id, dl_type_text(&v->type));
    return data;
}

/* A scan, whose body runs as the graph around it does. */
static bool run_body(const dl_interp *in, const dl_node *n, double *const *data, dl_error *err) {
    dl_interp *step = dl_interp_new(n->body, in->round);
    dl_interp_means(step, in->own, in->user);
    bool ok = dl_interp_body(n, data, &(dl_interp_step){step, dl_interp_data, dl_interp_run}, err);
    dl_interp_free(step);
    return ok;
}

static bool run_node(dl_interp *in, const dl_node *n, const dl_interp_ranges *ranges,
                     dl_error *err) {
    meaning *mean = of_op[n->op] ? of_op[n->op] : of_class[dl_ops[n->op].class];
    dl_interp_call *call = dl_interp_calls[n->op];
    if (dl_op_is_collective(n->op))
        return dl_fail(err, DL_INPUT,
                       "op '%s' needs the other ranks, which the interpreter has not",
                       dl_ops[n->op].name);
    const bool body = dl_op_has_body(n->op);
    if (!mean && !call && !n->kernel && !body && !in->own)
        return dl_fail(err, DL_INPUT, "op '%s' is checked but not lowered yet", dl_ops[n->op].name);
    double **data =
        dl_calloc((size_t)(n->nin + n->nout), sizeof *data); /* the operands, then the results */
    bool ok = true;
    for (int i = 0; i < n->nin && ok; i++) ok = (data[i] = need(in, n->in[i], err)) != NULL;
    for (int i = 0; i < n->nout && ok && !ranges; i++)
        ok = (data[n->nin + i] = need(in, &n->out[i], err)) != NULL;
    bool owned = ok && in->own && in->own(in->user, n, data);
    if (ok && !owned && body) ok = run_body(in, n, data, err);
    if (ok && !owned && !mean && !call && !n->kernel && !body)
        ok = dl_fail(err, DL_INPUT, "op '%s' is checked but not lowered yet", dl_ops[n->op].name);
    if (ok && !owned && n->kernel) dl_interp_kernel(n->kernel, data, in->round, ranges);
    if (ok && !owned && call) call(n, data, in->round, NULL);
    if (ok && !owned && mean && !n->kernel) mean(n, (const double *const *)data, data[n->nin]);
    for (int i = 0; i < n->nout && ok && !ranges; i++) {
        int64_t count = dl_type_count(&n->out[i].type);
        double *r = data[n->nin + i];
        dl_dtype type = n->out[i].type.dtype;
        for (int64_t j = 0; in->shake != 0 && dl_dtype_is_float(type) && j < count; j++)
            r[j] *= toss(in);
        bool kept = !in->round && dl_dtype_is_float(type); /* the value needs no conversion */
        for (int64_t j = 0; !kept && j < count; j++)
            r[j] = dl_interp_convert(type, r[j], in->round);
    }
    free(data);
    return ok;
}

bool dl_interp_node(dl_interp *in, const dl_node *n, dl_error *err) {
    return run_node(in, n, NULL, err);
}

bool dl_interp_node_ranges(dl_interp *in, const dl_node *n, const dl_interp_ranges *to,
                           dl_error *err) {
    DL_CHECK(n->kernel);
    return run_node(in, n, to, err);
}

/* By value id: the number of remaining readers; one more, which never comes, for results that are
 * held. */
static int *count_readers(const dl_interp *in) {
    const dl_graph *g = in->graph;
    int *readers = dl_calloc(in->n, sizeof *readers);
    for (int i = 0; i < g->nodes.n; i++)
        for (int j = 0; j < g->nodes.at[i]->nin; j++) readers[g->nodes.at[i]->in[j]->id]++;
    for (int i = 0; i < g->results.n && !in->source; i++) readers[g->results.at[i].value->id]++;
    return readers;
}

static void free_unread(dl_interp *in, const dl_value *v, const int *readers) {
    if (v->var ? !in->source : readers[v->id] > 0) return;
    dl_interp_drop(in, v);
}

static bool is_result(const dl_graph *g, const dl_value *v) {
    for (int i = 0; i < g->results.n; i++)
        if (g->results.at[i].value == v) return true;
    return false;
}

/* Passes the node's outputs that are results to `take`. A node that need not run has results
 * without elements. Results that are variables are passed at the end. */
static void take_results(dl_interp *in, const dl_node *n) {
    for (int k = 0; k < n->nout; k++)
        if (is_result(in->graph, &n->out[k]))
            in->take(in->stream, &n->out[k], dl_interp_data(in, &n->out[k]));
}

static bool take_variables(dl_interp *in, dl_error *err) {
    for (int i = 0; i < in->graph->vars.n; i++) {
        const dl_value *v = &in->graph->vars.at[i]->value;
        if (!is_result(in->graph, v)) continue;
        const double *data = need(in, v, err);
        if (!data) return false;
        in->take(in->stream, v, data);
        dl_interp_drop(in, v);
    }
    return true;
}

/* Applies all updates together: every new value is read before any variable is written. */
static bool apply_updates(dl_interp *in, dl_error *err) {
    const dl_graph *g = in->graph;
    double **taken = dl_calloc((size_t)g->results.n, sizeof *taken);
    bool ok = true;
    for (int i = 0; i < g->results.n && ok; i++) {
        const dl_value *v = g->results.at[i].value;
        if (g->results.at[i].role != DL_RESULT_UPDATE) continue;
        double *from = need(in, v, err);
        ok = from && need(in, &g->results.at[i].var->value, err);
        if (!ok || !v->var) continue; /* only a variable may be overwritten before it is read */
        size_t bytes = sizeof(double) * (size_t)dl_type_count(&v->type);
        taken[i] = malloc(bytes ? bytes : 1);
        ok = taken[i] ||
             dl_fail(err, DL_RESOURCE, "no memory to update $%s", g->results.at[i].var->name);
        if (ok) memcpy(taken[i], from, bytes);
    }
    for (int i = 0; i < g->results.n && ok; i++) {
        const dl_result *r = &g->results.at[i];
        if (r->role != DL_RESULT_UPDATE) continue;
        memcpy(in->data[r->var->value.id], taken[i] ? taken[i] : in->data[r->value->id],
               sizeof(double) * (size_t)dl_type_count(&r->value->type));
    }
    for (int i = 0; i < g->results.n; i++) free(taken[i]);
    free(taken);
    return ok;
}

/* By node: does an element of a result depend on an element of this node? This is exact where axes
 * are empty: nothing depends on a large count along an axis if each of its readers has an empty
 * axis, too. */
static bool *find_needed(const dl_interp *in) {
    const dl_graph *g = in->graph;
    bool *value = dl_calloc(in->n, sizeof *value),
         *node = dl_calloc((size_t)g->nodes.n + 1, sizeof *node);
    for (int i = 0; i < g->results.n; i++) value[g->results.at[i].value->id] = true;
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        const dl_node *n = g->nodes.at[i];
        for (int k = 0; k < n->nout; k++)
            node[i] = node[i] || (value[n->out[k].id] && dl_type_count(&n->out[k].type) > 0);
        for (int k = 0; k < n->nin && node[i]; k++) value[n->in[k]->id] = true;
    }
    free(value);
    return node;
}

bool dl_interp_run(dl_interp *in, dl_error *err) {
    const dl_graph *g = in->graph;
    int *readers = in->release ? count_readers(in) : NULL;
    bool ok = true, *needed = in->release ? find_needed(in) : NULL;
    for (int i = 0; i < g->nodes.n && ok; i++) {
        const dl_node *n = g->nodes.at[i];
        if (!needed || needed[i]) ok = dl_interp_node(in, n, err);
        if (ok && in->take) take_results(in, n);
        if (!readers) continue;
        for (int j = 0; j < n->nin; j++) readers[n->in[j]->id]--;
        for (int j = 0; j < n->nin; j++) free_unread(in, n->in[j], readers);
        for (int j = 0; j < n->nout; j++) free_unread(in, &n->out[j], readers);
    }
    free(readers), free(needed);
    return ok && (in->source ? take_variables(in, err) : apply_updates(in, err));
}

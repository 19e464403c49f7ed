#include "verify/lockstep.h"

#include <stdlib.h>

#include "ir/collective.h"
#include "ir/text/text.h"

typedef struct {
    const dl_ranks *ranks;
    const dl_graph *const *graph;
    dl_interp *const *in;
    int world, *at; /* by rank: its current node */
    int *members;   /* of the current group */
    dl_error *err;
} lockstep;

static const dl_node *node_at(const lockstep *l, int rank) {
    return l->at[rank] < l->graph[rank]->nodes.n ? l->graph[rank]->nodes.at[l->at[rank]] : NULL;
}

/* Runs the rank to its next collective. */
static bool advance(lockstep *l, int rank) {
    for (const dl_node *n; (n = node_at(l, rank)) && !dl_op_is_collective(n->op); l->at[rank]++)
        if (!dl_interp_node(l->in[rank], n, l->err)) return false;
    return true;
}

/* The rank's current node as text. */
static const char *tell(const lockstep *l, int rank, dl_buf *b) {
    const dl_node *n = node_at(l, rank);
    if (!n) return "the end";
    b->n = 0;
    dl_print_node(b, n);
    return b->at;
}

static bool fail_pair(lockstep *l, int a, int b) {
    dl_buf x = {0}, y = {0};
    dl_fail(l->err, DL_INPUT, "rank %d stands at %s, rank %d at %s", a, tell(l, a, &x), b,
            tell(l, b, &y));
    dl_buf_free(&x), dl_buf_free(&y);
    return false;
}

/* Copies elements [from.first, from.first + from.n) of the axis of a whole tensor, to or from a
 * shard. */
static void move_piece(dl_around whole, dl_share own, const double *w, double *to_piece,
                       const double *piece, double *to_whole) {
    for (int64_t o = 0; o < whole.outer; o++)
        for (int64_t i = 0; i < own.n * whole.inner; i++) {
            int64_t at = (o * whole.size + own.first) * whole.inner + i,
                    in = o * own.n * whole.inner + i;
            if (to_piece)
                to_piece[in] = w[at];
            else
                to_whole[at] = piece[in];
        }
}

/* Computes a collective's result for the whole group, on each member's data. */
static void sum_up(lockstep *l, int n, int k) {
    const dl_value *first = node_at(l, l->members[0])->in[k];
    int64_t count = dl_type_count(&first->type);
    double *sum = dl_calloc((size_t)count + 1, sizeof *sum);
    for (int m = 0; m < n; m++) {
        const double *own = dl_interp_data(l->in[l->members[m]], node_at(l, l->members[m])->in[k]);
        for (int64_t i = 0; i < count; i++) sum[i] += own[i];
    }
    for (int m = 0; m < n; m++) {
        double *own = dl_interp_data(l->in[l->members[m]], &node_at(l, l->members[m])->out[k]);
        memcpy(own, sum, sizeof *sum * (size_t)count);
    }
    free(sum);
}

static void gather(lockstep *l, int n) {
    const dl_node *first = node_at(l, l->members[0]);
    const dl_type *t = &first->out[0].type;
    int axis = dl_type_axis(t, dl_node_name(first, DL_ATTR_axis));
    dl_around b = dl_type_around(t, axis);
    for (int to = 0; to < n; to++) {
        double *whole = dl_interp_data(l->in[l->members[to]], &node_at(l, l->members[to])->out[0]);
        for (int m = 0; m < n; m++)
            move_piece(b, dl_share_of(b.size, n, m), NULL, NULL,
                       dl_interp_data(l->in[l->members[m]], node_at(l, l->members[m])->in[0]),
                       whole);
    }
}

static void scatter(lockstep *l, int n) {
    const dl_node *first = node_at(l, l->members[0]);
    const dl_type *t = &first->in[0]->type;
    int64_t count = dl_type_count(t);
    dl_around b = dl_type_around(t, dl_type_axis(t, dl_node_name(first, DL_ATTR_axis)));
    double *sum = dl_calloc((size_t)count + 1, sizeof *sum);
    for (int m = 0; m < n; m++) {
        const double *own = dl_interp_data(l->in[l->members[m]], node_at(l, l->members[m])->in[0]);
        for (int64_t i = 0; i < count; i++) sum[i] += own[i];
    }
    for (int m = 0; m < n; m++)
        move_piece(b, dl_share_of(b.size, n, m), sum,
                   dl_interp_data(l->in[l->members[m]], &node_at(l, l->members[m])->out[0]), NULL,
                   NULL);
    free(sum);
}

static void shift(lockstep *l, int n) {
    for (int m = 0; m < n; m++) {
        int from = l->members[(m + n - 1) % n], to = l->members[m];
        const dl_value *given = node_at(l, from)->in[0];
        memcpy(dl_interp_data(l->in[to], &node_at(l, to)->out[0]),
               dl_interp_data(l->in[from], given),
               sizeof(double) * (size_t)dl_type_count(&given->type));
    }
}

/* Do both carry values of the same names? In a bucket, types alone do not determine this. */
static bool of_same(const dl_node *a, const dl_node *b) {
    const dl_attr *x = dl_node_attr(a, DL_ATTR_of), *y = dl_node_attr(b, DL_ATTR_of);
    if (!x || !y) return !x && !y;
    return x->n == y->n && memcmp(x->texts, y->texts, sizeof *x->texts * (size_t)x->n) == 0;
}

/* Are both the same collective, of members number i and j? Shards may differ in size. */
static bool agree(const dl_node *a, const dl_node *b, int j) {
    bool same = a->op == b->op && a->nin == b->nin && a->nout == b->nout &&
                dl_node_name(a, DL_ATTR_group) == dl_node_name(b, DL_ATTR_group) &&
                dl_node_int(a, DL_ATTR_ranks) == dl_node_int(b, DL_ATTR_ranks) && of_same(a, b);
    bool shifts = a->op == DL_OP_shift;
    for (int k = 0; k < a->nin && same && !shifts; k++) {
        bool whole_in = a->op != DL_OP_all_gather, whole_out = a->op != DL_OP_reduce_scatter;
        if (whole_in) same = dl_type_same(&a->in[k]->type, &b->in[k]->type);
        if (whole_out && k < a->nout) same = same && dl_type_same(&a->out[k].type, &b->out[k].type);
    }
    if (!same || a->op == DL_OP_all_reduce) return same;
    if (shifts &&
        (dl_node_int(a, DL_ATTR_ring_step) != dl_node_int(b, DL_ATTR_ring_step) ||
         dl_node_attr(a, DL_ATTR_size)->ints[0] != dl_node_attr(b, DL_ATTR_size)->ints[0]))
        return false;
    return dl_node_name(a, DL_ATTR_axis) == dl_node_name(b, DL_ATTR_axis) &&
           dl_node_int(b, DL_ATTR_rank) == j;
}

static bool has_memory(lockstep *l, int rank) {
    const dl_node *n = node_at(l, rank);
    bool all = true;
    for (int k = 0; k < n->nin; k++) all = all && dl_interp_data(l->in[rank], n->in[k]);
    for (int k = 0; k < n->nout; k++) all = all && dl_interp_data(l->in[rank], &n->out[k]);
    return all || dl_fail(l->err, DL_RESOURCE, "no memory for rank %d in the interpreter", rank);
}

/* Runs the collective at which `rank` waits, if all members have reached it. *done: whether they
 * have. */
static bool meet(lockstep *l, int rank, bool *done) {
    const dl_node *n = node_at(l, rank);
    const char *group = dl_node_name(n, DL_ATTR_group);
    int count = dl_ranks_count(l->ranks, group);
    if (count != dl_node_int(n, DL_ATTR_ranks))
        return dl_fail(l->err, DL_INPUT, "rank %d: a collective of %lld ranks, but group %s has %d",
                       rank, (long long)dl_node_int(n, DL_ATTR_ranks), group, count);
    dl_ranks_members(l->ranks, group, rank, l->members);
    *done = false;
    for (int m = 0; m < count; m++) {
        const dl_node *other = node_at(l, l->members[m]);
        if (!other) return fail_pair(l, rank, l->members[m]);
        if (!dl_op_is_collective(other->op) ||
            dl_node_name(other, DL_ATTR_group) != dl_node_name(n, DL_ATTR_group))
            return true; /* not yet */
    }
    for (int m = 0; m < count; m++)
        if (!agree(node_at(l, l->members[0]), node_at(l, l->members[m]), m))
            return fail_pair(l, l->members[0], l->members[m]);
    for (int m = 0; m < count; m++)
        if (!has_memory(l, l->members[m])) return false;
    for (int k = 0; n->op == DL_OP_all_reduce && k < n->nin; k++) sum_up(l, count, k);
    if (n->op == DL_OP_all_gather) gather(l, count);
    if (n->op == DL_OP_reduce_scatter) scatter(l, count);
    if (n->op == DL_OP_shift) shift(l, count);
    for (int m = 0; m < count; m++) l->at[l->members[m]]++;
    return *done = true;
}

bool dl_lockstep_run(const dl_ranks *ranks, const dl_graph *const *graph, dl_interp *const *in,
                     int64_t *collectives, dl_error *err) {
    lockstep l = {
        .ranks = ranks, .graph = graph, .in = in, .world = dl_ranks_world(ranks), .err = err};
    int64_t met = 0;
    bool ok = true, any = true;
    l.at = dl_calloc((size_t)l.world, sizeof *l.at);
    l.members = dl_calloc((size_t)l.world, sizeof *l.members);
    while (ok && any) {
        any = false;
        for (int r = 0; r < l.world && ok; r++) ok = advance(&l, r);
        for (int r = 0; r < l.world && ok; r++) {
            bool done = false;
            const dl_node *n = node_at(&l, r);
            if (n && dl_op_is_collective(n->op))
                ok = meet(&l, r, &done); /* another rank may have run its collective */
            met += done, any = any || done;
        }
    }
    for (int r = 0; r < l.world && ok; r++) { /* a deadlock */
        const dl_node *n = node_at(&l, r);
        if (!n) continue;
        dl_ranks_members(ranks, dl_node_name(n, DL_ATTR_group), r, l.members);
        for (int m = 0; m < dl_ranks_count(ranks, dl_node_name(n, DL_ATTR_group)) && ok; m++) {
            const dl_node *other = node_at(&l, l.members[m]);
            if (!other || dl_node_name(other, DL_ATTR_group) != dl_node_name(n, DL_ATTR_group))
                ok = fail_pair(&l, r, l.members[m]);
        }
    }
    if (collectives) *collectives = met;
    free(l.at), free(l.members);
    return ok;
}

/* By element of the variable, row-major: its index in the whole tensor. */
static int64_t place_in(const dl_type *t, const dl_type *whole, const dl_var_piece *piece,
                        int64_t i) {
    int64_t at = 0, step = 1;
    for (int a = t->rank - 1; a >= 0; a--) {
        int64_t left = 1;
        at += dl_piece_at(piece, a, i % t->axis[a].size, &left) * step;
        i /= t->axis[a].size, step *= whole->axis[a].size;
    }
    return at;
}

void dl_lockstep_cut(const dl_var *v, const double *whole, double *piece) {
    const dl_type *own = &v->value.type, all = dl_piece_whole(*own, &v->piece);
    for (int64_t i = 0; i < dl_type_count(own); i++)
        piece[i] = whole[place_in(own, &all, &v->piece, i)];
}

void dl_lockstep_join(const dl_var *v, const double *piece, double *whole) {
    const dl_type *own = &v->value.type, all = dl_piece_whole(*own, &v->piece);
    for (int64_t i = 0; i < dl_type_count(own); i++)
        whole[place_in(own, &all, &v->piece, i)] = piece[i];
}

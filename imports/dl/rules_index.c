/* Rules of ops that read and write elements by their numbers. */
#include <math.h>

#include "imports/dl/rules.h"

/* x[..., numbers, ...]: a gather along one axis */
bool dl_gather(dl_in_ctx *c, dl_in_value *x, dl_in_value *numbers, int d) {
    dl_in_value *index = dl_copy_value(c, numbers);
    if (d < 0 || d >= x->rank || index->class != DL_FOREIGN_INT) return false;
    dl_whole(c, x);
    if (!x->dim[d].n) dl_ordered(c, x, true);
    int a = dl_axis_for(c, x, d);
    dl_ordered(c, index, false);
    if (a < 0 || index->n == 0 || index->n + x->n - 1 > DL_FOREIGN_RANK ||
        index->rank + x->rank - 1 > DL_FOREIGN_RANK)
        return false;
    const char *name[DL_FOREIGN_RANK];
    dl_in_value both = *x;
    for (int k = 0; k < index->n; k++) { /* axes of one name would go together */
        name[k] = index->axis[k].name;
        for (int i = 0; i < both.n; i++)
            if (!strcmp(both.axis[i].name, name[k])) name[k] = dl_fresh_name(&both, k, 8);
        if (both.n < DL_FOREIGN_RANK) both.axis[both.n++].name = name[k];
    }
    dl_rename(c, index, name);
    dl_in_value *made = DL_NEW(c->w->arena, dl_in_value);
    *made = (dl_in_value){.param = -1};
    made->stmt = dl_call_function(c, "gather", x, ", %v, over=%s", index, x->axis[a].name);
    for (int k = 0; k < index->n; k++) made->axis[made->n++] = index->axis[k];
    for (int i = 0; i < x->n; i++) {
        if (i == a) continue;
        made->axis[made->n] = x->axis[i];
        made->n++;
    }
    for (int i = 0; i < x->rank; i++) {
        if (i != d) {
            made->dim[made->rank++] = x->dim[i];
            continue;
        }
        for (int k = 0; k < index->rank; k++) made->dim[made->rank++] = index->dim[k];
    }
    dl_set(c, 0, made);
    return true;
}

/* x[..., [number], ...]: the one element, in as many dimensions of size 1 as the list has. */
static bool pick_one(dl_in_ctx *c, dl_in_value *x, const dl_foreign_tensor *list, int d) {
    const dl_in_stmt *said = &c->b->stmts.at[dl_value_of(c, list)->stmt];
    int rank = list->rank;
    int64_t size = dl_dim_size(c->w, x, d), at;
    if (said->style != STMT_PARAM || said->keyword || !dl_parse_int(said->start, &at)) return false;
    if (at < 0) at += size;
    if (at < 0 || at >= size || x->rank - 1 + rank > DL_FOREIGN_RANK) return false;
    dl_in_value *made = dl_copy_value(c, x);
    if (x->dim[d].n) {
        int a = dl_axis_for(c, x, d);
        if (a < 0) return false;
        *made = *x;
        made->stmt = dl_say(c, STMT_PLAIN, P_POSTFIX, "%p[%s=%i]", x, P_POSTFIX, x->axis[a].name,
                            "index", at);
        memmove(&made->axis[a], &made->axis[a + 1], (size_t)(made->n - 1 - a) * sizeof *made->axis);
        made->n--;
    }
    made->param = -1, made->is_view = false, made->rank = 0;
    for (int i = 0; i < x->rank; i++) {
        if (i != d) made->dim[made->rank++] = x->dim[i];
        for (int k = 0; i == d && k < rank; k++) made->dim[made->rank++].n = 0;
    }
    dl_set(c, 0, made);
    return true;
}

/* Whether the value counts from 0 to size - 1 along its only axis. */
static bool counts_to(const dl_in_ctx *c, const dl_in_value *v, int64_t size) {
    const dl_in_stmt *s = &c->b->stmts.at[v->stmt];
    const char *text =
        s->pieces.n == 1 && s->pieces.at[0].kind == PIECE_TEXT ? s->pieces.at[0].text : "";
    return v->n == 1 && dl_axis_size_of(c->w, &v->axis[0]) == size && !strncmp(text, "range(", 6) &&
           text[strcspn(text, ",)")] == ')';
}

/* x[i, j, ...] where each index counts along its own dimension: x, whose dimensions go to where the
 * indices have theirs. */
static bool index_by_counts(dl_in_ctx *c, const dl_in_value *x, const dl_foreign_arg *list) {
    const dl_foreign_tensor *t = c->n->results[0];
    if (list->n != x->rank || x->pair) return false;
    dl_in_value *made = dl_copy_value(c, x);
    made->rank = t->rank;
    for (int p = 0; p < t->rank; p++) made->dim[p].n = 0;
    for (int i = 0; i < list->n; i++) {
        dl_in_value *index = list->tensors[i] ? dl_value_of(c, list->tensors[i]) : NULL;
        if (!index || !counts_to(c, index, dl_dim_size(c->w, x, i))) return false;
        for (int d = 0; d < index->rank; d++) {
            if (!index->dim[d].n) continue;
            int p = t->rank - index->rank + d;
            if (p < 0 || made->dim[p].n) return false;
            made->dim[p] = x->dim[i];
        }
    }
    for (int p = 0; p < t->rank; p++)
        if (dl_dim_size(c->w, made, p) != t->shape[p]) return false;
    dl_set(c, 0, made);
    return true;
}

/* Whether a tensor's numbers are known, as the archive has them or says how they count; *low and
 * *high: bounds of them. */
static bool is_known(dl_in_ctx *c, const dl_foreign_tensor *t, double *low, double *high) {
    const dl_foreign_tensor *of = dl_source_of(c, t);
    int64_t n = of ? dl_foreign_count(of) : 0;
    if (n < 1 || n > 1 << 24 || of->class != DL_FOREIGN_INT) return false;
    int by = c->w->defined_by[of->id];
    if (by >= 0 && !strncmp(c->w->graph->nodes.at[by].op, "aten.arange.", 12)) {
        const dl_foreign_node *count = &c->w->graph->nodes.at[by];
        double step = dl_foreign_real(count, "step", 1), first = dl_foreign_real(count, "start", 0),
               last = first + step * (double)(n - 1);
        *low = fmin(first, last), *high = fmax(first, last);
        return !of->open[0];
    }
    if (!of->data) return false;
    double *v = DL_NEWS(c->w->arena, double, n);
    if (!dl_foreign_numbers(c->w->graph, of, v, c->w->err)) return false;
    *low = *high = v[0];
    for (int64_t i = 1; i < n; i++) *low = fmin(*low, v[i]), *high = fmax(*high, v[i]);
    return true;
}

dl_in_value *dl_from_start(dl_in_ctx *c, const dl_foreign_tensor *t, int64_t size) {
    dl_in_value *v = dl_value_of(c, t);
    double low, high;
    if (!is_known(c, t, &low, &high) || low >= 0) return v;
    dl_in_value *made = dl_copy_value(c, v);
    dl_name_all(c, made);
    made->stmt = dl_say(c, STMT_PLAIN, P_POSTFIX, "where(%p < 0, %p + %i, %v)", made, P_SUM, made,
                        P_SUM, "size", size, made);
    made->param = -1;
    return made;
}

/* The dimensions that the list has numbers for: the first, one past the last, and how many. */
typedef struct {
    int first, end, n;
} indexed;

static indexed find_indexed(const dl_foreign_arg *list) {
    indexed of = {0};
    for (int i = 0; i < list->n; i++)
        if (list->tensors[i]) of.first = of.n++ ? of.first : i, of.end = i + 1;
    return of;
}

/* The dimension along which an index counts, of `rank` that the indices have together; -1: none. */
static int counted_dim(const dl_in_value *index, int rank) {
    int k = 0;
    while (k < index->rank && !index->dim[k].n) k++;
    return k < index->rank ? k + rank - index->rank : -1;
}

/* x[i, j] where i counts along its own dimension, and j has a number for each of these: a gather
 * in which the two go together. Where j has one for all of these, x keeps that dimension. */
static bool index_together(dl_in_ctx *c, const dl_in_value *given, const dl_foreign_arg *list) {
    indexed of = find_indexed(list);
    dl_in_value *x = dl_copy_value(c, given), *at = NULL, both;
    const char *name[DL_FOREIGN_RANK];
    bool shared[DL_FOREIGN_RANK] = {0};
    int d = -1, keeps[DL_FOREIGN_RANK], rank = 0; /* which dimension of x one of the indices is */
    int64_t shape[DL_FOREIGN_RANK];
    if (of.end - of.first != of.n || of.end > x->rank || x->pair) return false;
    for (int i = of.first; i < of.end; i++) {
        const dl_in_value *index = dl_value_of(c, list->tensors[i]);
        int64_t size = dl_dim_size(c->w, x, i);
        if (index->rank > rank) rank = index->rank;
        if (counts_to(c, index, size)) continue;
        if (at) return false;
        at = dl_copy_value(c, dl_from_start(c, list->tensors[i], size)), d = i;
    }
    if (!at || at->class != DL_FOREIGN_INT || rank + x->rank - of.n > DL_FOREIGN_RANK) return false;
    int wider = rank - at->rank, n = 0;
    for (int k = 0; k < rank; k++) keeps[k] = -1;
    for (int i = of.first; i < of.end; i++) {
        int k = i == d ? -1 : counted_dim(dl_value_of(c, list->tensors[i]), rank);
        if (i != d && (k < 0 || keeps[k] >= 0)) return false;
        if (k >= 0 && (k < wider || dl_dim_size(c->w, at, k - wider) == 1)) keeps[k] = i;
    }
    for (int k = 0; k < rank; k++) {
        if (k < wider && keeps[k] < 0) return false;
        if (keeps[k] < 0) shape[n++] = dl_dim_size(c->w, at, k - wider);
    }
    if (n < at->rank) dl_reshape(c, at, n, shape);
    dl_ordered(c, x, true), dl_ordered(c, at, true);
    both = *x;
    for (int k = 0; k < at->n; k++) {
        name[k] = dl_fresh_name(&both, k, DL_FOREIGN_RANK);
        if (both.n < DL_FOREIGN_RANK) both.axis[both.n++].name = name[k];
    }
    for (int i = of.first; i < of.end; i++) {
        if (i == d) continue;
        int p = counted_dim(dl_value_of(c, list->tensors[i]), rank), k = p;
        if (keeps[p] >= 0) continue;
        for (int q = 0; q < p; q++) k -= keeps[q] >= 0;
        if (k >= at->n || dl_dim_size(c->w, at, k) != dl_dim_size(c->w, x, i) ||
            dl_has_batch(at->axis[k].n, at->axis[k].atom) !=
                dl_has_batch(x->axis[i].n, x->axis[i].atom))
            return false;
        name[k] = x->axis[i].name, shared[i] = true;
    }
    dl_rename(c, at, name);
    dl_in_value *made = dl_copy_value(c, at);
    made->stmt = dl_call_function(c, "gather", x, ", %v, over=%s", at, x->axis[d].name);
    made->param = -1, made->is_view = false, made->rank = 0;
    for (int i = 0; i < x->rank; i++) {
        if (i == of.first)
            for (int k = 0, own = 0; k < rank; k++)
                made->dim[made->rank++] = keeps[k] >= 0 ? x->dim[keeps[k]] : at->dim[own++];
        if (i == d || shared[i]) continue;
        made->axis[made->n++] = x->axis[i];
        if (i < of.first || i >= of.end) made->dim[made->rank++] = x->dim[i];
    }
    dl_set(c, 0, made);
    return true;
}

dl_in_value *dl_join_indexed(dl_in_ctx *c, dl_in_value *x, const dl_foreign_arg *list, int *first) {
    indexed of = find_indexed(list);
    dl_in_value *place = NULL;
    int64_t shape[DL_FOREIGN_RANK], all = 1;
    int rank = 0;
    *first = of.first;
    if (of.n < 1 || of.end - of.first != of.n || of.end > x->rank || x->pair) return NULL;
    if (of.n == 1) return dl_from_start(c, list->tensors[of.first], dl_dim_size(c->w, x, of.first));
    for (int i = of.first; i < of.end; i++) {
        int64_t size = dl_dim_size(c->w, x, i);
        double low, high;
        if (dl_has_batch(x->dim[i].n, x->dim[i].atom)) return NULL;
        dl_in_value *at = dl_value_of(c, list->tensors[i]), *so_far = place;
        if (is_known(c, list->tensors[i], &low, &high) && low >= -(double)size &&
            high < (double)size)
            at = dl_from_start(c, list->tensors[i], size);
        else if (!counts_to(c, at, size))
            return NULL; /* a number beyond one of them would mean another element */
        all *= size;
        if (!so_far) {
            place = at;
            continue;
        }
        dl_in_value *row = dl_copy_value(c, so_far);
        dl_name_all(c, row);
        row->stmt = dl_say(c, STMT_PLAIN, P_PRODUCT, "%i * %p", "size", size, row, P_UNARY);
        row->param = -1;
        place = dl_match(c, row, at);
        place->stmt = dl_say(c, STMT_PLAIN, P_SUM, "%p + %p", row, P_SUM, at, P_PRODUCT);
    }
    for (int i = 0; i < x->rank; i++)
        if (i == of.first)
            shape[rank++] = all;
        else if (i < of.first || i >= of.end)
            shape[rank++] = dl_dim_size(c->w, x, i);
    dl_reshape(c, x, rank, shape);
    place->class = DL_FOREIGN_INT;
    return place;
}

static bool index_joined(dl_in_ctx *c, const dl_in_value *given, const dl_foreign_arg *list) {
    int d;
    dl_in_value *x = dl_copy_value(c, given), *place = dl_join_indexed(c, x, list, &d);
    return place && dl_gather(c, x, place, d);
}

bool dl_in_index(dl_in_ctx *c) {
    const dl_foreign_arg *list = dl_foreign_find(c->n, "indices");
    dl_in_value *x = dl_self(c);
    if (!x || !list || c->n->n_results != 1) return false;
    indexed of = find_indexed(list);
    for (int i = 0; i < list->n; i++)
        if (list->tensors[i] && list->tensors[i]->class != DL_FOREIGN_INT) return false;
    if (of.n > 1)
        return index_by_counts(c, x, list) || index_together(c, x, list) ||
               index_joined(c, x, list);
    int d = of.first;
    if (of.n == 0 || d >= x->rank) return false;
    const dl_foreign_tensor *at = list->tensors[d];
    if (dl_foreign_count(at) == 1 && pick_one(c, x, at, d)) return true;
    return dl_gather(c, x, dl_from_start(c, at, dl_dim_size(c->w, x, d)), d);
}

bool dl_in_index_select(dl_in_ctx *c) {
    dl_in_value *x = dl_self(c);
    const dl_foreign_tensor *index = dl_foreign_operand(c->n, "index");
    int d = x ? dl_dim(x, dl_foreign_int(c->n, "dim", 0)) : -1;
    return index && d >= 0 && d < x->rank &&
           dl_gather(c, x, dl_from_start(c, index, dl_dim_size(c->w, x, d)), d);
}

/* torch.gather: the numbers have all dimensions of x, and these go together but for one. */
bool dl_in_gather(dl_in_ctx *c) {
    dl_in_value *x = dl_self(c), *index = dl_operand(c, "index");
    if (!x || !index || x->rank != index->rank || x->pair) return false;
    int d = dl_dim(x, dl_foreign_int(c->n, "dim", 0));
    if (d < 0 || d >= x->rank) return false;
    for (int k = 0; k < x->rank; k++)
        if (k != d && dl_dim_size(c->w, x, k) != dl_dim_size(c->w, index, k)) return false;
    dl_in_value *from = dl_copy_value(c, x), *at = dl_copy_value(c, index);
    dl_ordered(c, from, true), dl_ordered(c, at, true);
    const char *name[DL_FOREIGN_RANK];
    for (int a = 0; a < at->n; a++) name[a] = from->axis[a].name;
    name[d] = dl_fresh_name(from, d, from->rank);
    dl_rename(c, at, name);
    at->stmt = dl_call_function(c, "gather", from, ", %v, over=%s", at, from->axis[d].name);
    at->param = -1, at->is_view = false;
    dl_set(c, 0, at);
    return true;
}

/* ---- writes into a part ---- */

/* Every step-th element along dimension d from `begin` on is one of `from`: element i is number
 * k = floor((i - begin) / step) of it where i = begin + step k. */
static dl_in_value *written_by_steps(dl_in_ctx *c, dl_in_value *to, dl_in_value *from, int d,
                                     int64_t begin, int64_t step) {
    const char *axis = to->axis[d].name;
    int64_t size = dl_dim_size(c->w, to, d), end = begin + step * dl_dim_size(c->w, from, d);
    if (dl_has_batch(to->axis[d].n, to->axis[d].atom)) return NULL;
    dl_in_value i = {.param = -1}, k = i, hit = i, there = i;
    i.stmt = dl_say(c, STMT_PLAIN, P_PIPE, "range(%i) as [%s]", "size", size, axis);
    k.stmt =
        begin ? dl_say(c, STMT_PLAIN, P_PIPE, "floor((%p - %i) / %i) as i64", &i, P_SUM, "begin",
                       begin, "step", step)
              : dl_say(c, STMT_PLAIN, P_PIPE, "floor(%p / %i) as i64", &i, P_PRODUCT, "step", step);
    hit.stmt =
        dl_say(c, STMT_PLAIN, P_COMPARE, "%p == %i * %p", &i, P_SUM, "step", step, &k, P_UNARY);
    if (begin) dl_say_more(c, " + %i", "begin", begin);
    if (begin >= step) dl_say_more(c, " and %p >= %i", &i, P_SUM, "begin", begin);
    if (end < size) dl_say_more(c, " and %p < %i", &i, P_SUM, "end", end);
    there.stmt = dl_call_function(c, "gather", from, ", %v, over=%s", &k, axis);
    dl_in_value *made = dl_copy_value(c, to), *condition = dl_copy_value(c, to);
    condition->axis[0] = to->axis[d], condition->n = 1, condition->stmt = hit.stmt;
    condition->param = -1;
    for (int p = 0; p < to->rank; p++) condition->dim[p].n = p == d ? to->dim[d].n : 0;
    dl_in_value *part = dl_copy_value(c, to); /* gather's index has its axis first */
    part->stmt = there.stmt, part->param = -1;
    memmove(&part->axis[1], &part->axis[0], (size_t)d * sizeof *part->axis);
    part->axis[0] = to->axis[d];
    made = dl_match(c, dl_match(c, condition, part), to);
    made->stmt = dl_call_function(c, "where", condition, ", %v, %v", part, to);
    made->param = -1, made->is_view = false, made->class = to->class;
    return made;
}

dl_in_value *dl_written(dl_in_ctx *c, const dl_foreign_node *part, const dl_in_value *whole,
                        const dl_in_value *content) {
    bool one = strncmp(part->op, "aten.select", 11) == 0;
    int64_t step = dl_foreign_int(part, "step", 1);
    if ((!one && strncmp(part->op, "aten.slice", 10) != 0) || step < 1) return NULL;
    dl_in_value *to = dl_copy_value(c, whole), *from = dl_copy_value(c, content);
    int d = dl_dim(to, dl_foreign_int(part, "dim", 0));
    if (d < 0 || d >= to->rank) return NULL;
    int64_t size = dl_dim_size(c->w, to, d),
            begin = dl_foreign_int(part, one ? "index" : "start", 0);
    int64_t end = one ? begin : dl_foreign_int(part, "end", size), shape[DL_FOREIGN_RANK];
    if (begin < 0) begin += size;
    if (end < 0) end += size;
    end = one ? begin + 1 : end > size ? size : end;
    if (begin < 0 || begin >= end) return NULL;
    for (int k = 0; k < to->rank; k++) shape[k] = dl_dim_size(c->w, to, k);
    shape[d] = (end - begin + step - 1) / step;
    if (one) dl_reshape(c, from, to->rank, shape);
    if (d > 0 && (!(to = dl_with_batch(c, to, from)) || !(from = dl_with_batch(c, from, to))))
        return NULL;
    dl_ordered(c, to, true), dl_ordered(c, from, true);
    if (from->n != to->n) return NULL;
    const char *name[DL_FOREIGN_RANK];
    for (int a = 0; a < to->n; a++) name[a] = to->axis[a].name;
    dl_rename(c, from, name);
    if (step > 1) return written_by_steps(c, to, from, d, begin, step);
    int s = dl_say(c, STMT_PLAIN, P_POSTFIX, "cat(");
    if (begin > 0) dl_say_more(c, "%p[%s=:%i], ", to, P_POSTFIX, name[d], "from", begin);
    dl_say_more(c, "%v", from);
    if (end < size) dl_say_more(c, ", %p[%s=%i:]", to, P_POSTFIX, name[d], "to", end);
    dl_say_more(c, ", over=%s)", name[d]);
    to->stmt = s, to->param = -1, to->is_view = false;
    if (begin == 0 && end == size) to->stmt = from->stmt;
    return to;
}

/* Rules of ops that choose elements by their size, and of those that put elements where numbers
 * say. */
#include "imports/dl/rules.h"

/* ---- sorted ---- */

/* The elements of x at the k first places in order, and the places themselves where they are read.
 * values: the result that they are, or -1. */
static bool ranked(dl_in_ctx *c, dl_in_value *v, int d, int64_t k, bool largest, int values) {
    int places = values < 0 ? 0 : values + 1;
    dl_in_value *x = dl_copy_value(c, v), *by = x;
    if (d < 0 || d >= v->rank || v->pair || k < 1) return false;
    dl_ordered(c, x, true);
    if (dl_has_batch(x->axis[d].n, x->axis[d].atom)) return false;
    const char *axis = x->axis[d].name;
    dl_in_value *made = dl_copy_value(c, x);
    made->param = -1, made->is_view = false;
    made->axis[d].n = made->dim[d].n = 1;
    made->axis[d].atom[0] = made->dim[d].atom[0] = dl_new_atom(c->w, k);
    bool all = k == dl_dim_size(c->w, x, d), read = c->w->last_use[c->n->results[places]->id] >= 0;
    if (values >= 0 && all && !read) {
        made->stmt =
            dl_call_function(c, "sort", x, ", over=%s%s", axis, largest ? ", descending=true" : "");
        dl_set(c, values, made);
        return true;
    }
    if (!largest) {
        by = dl_copy_value(c, x);
        by->stmt = dl_say(c, STMT_PLAIN, P_UNARY, "-%p", x, P_UNARY);
    }
    dl_in_value *at = dl_copy_value(c, made);
    at->stmt = dl_call_function(c, "top_k", by, ", %i, over=%s", "k", k, axis);
    if (values >= 0) {
        made->stmt = dl_call_function(c, "gather", x, ", %v, over=%s", at, axis);
        dl_set(c, values, made);
    }
    dl_set(c, places, at);
    return true;
}

bool dl_in_topk(dl_in_ctx *c) {
    dl_in_value *x = dl_self(c);
    return x && c->n->n_results == 2 &&
           ranked(c, x, dl_dim(x, dl_foreign_int(c->n, "dim", -1)), dl_foreign_int(c->n, "k", 0),
                  dl_foreign_int(c->n, "largest", 1), 0);
}

/* detail "places": argsort */
bool dl_in_sort(dl_in_ctx *c) {
    dl_in_value *x = dl_self(c);
    int d = x ? dl_dim(x, dl_foreign_int(c->n, "dim", -1)) : -1;
    if (d < 0 || d >= x->rank || c->n->n_results != (*c->detail ? 1 : 2)) return false;
    return ranked(c, x, d, dl_dim_size(c->w, x, d), dl_foreign_int(c->n, "descending", 0),
                  *c->detail ? -1 : 0);
}

/* ---- put where numbers say ---- */

/* Where elements go: their numbers along dimension d, with the axes of the elements. */
typedef struct {
    dl_in_value *to, *numbers;
    int d;
    int64_t size;      /* of the tensor along d */
    const char *count; /* the same as text */
    bool batch;        /* it is the batch's */
    const char *over;  /* the axis of the elements along d */
    const char *axis;  /* the new one in its place */
} places;

/* Brings tensor, elements (or NULL) and numbers into order: names are those of the elements. */
static bool read_places(dl_in_ctx *c, places *p, dl_in_value **from) {
    dl_in_value *like = *from ? *from : p->numbers;
    const char *name[DL_FOREIGN_RANK];
    if (p->to->pair || like->rank != p->to->rank || p->d < 0 || p->d >= p->to->rank) return false;
    if (p->numbers->class != DL_FOREIGN_INT) return false;
    p->size = dl_dim_size(c->w, p->to, p->d);
    p->count = dl_in_whole(c->w, p->size);
    p->batch = dl_has_batch(p->to->dim[p->d].n, p->to->dim[p->d].atom);
    if (p->batch && (p->to->dim[p->d].n > 1 || !(p->count = dl_batch_count(c)))) return false;
    p->to = dl_copy_value(c, p->to), p->numbers = dl_copy_value(c, p->numbers);
    dl_ordered(c, p->to, true), dl_ordered(c, p->numbers, true);
    if (*from) {
        *from = dl_copy_value(c, *from);
        dl_ordered(c, *from, true);
        like = *from;
    } else
        like = p->numbers;
    for (int a = 0; a < like->n; a++) {
        name[a] = like->axis[a].name;
        if (a != p->d && dl_dim_size(c->w, like, a) != dl_dim_size(c->w, p->to, a)) return false;
    }
    p->over = name[p->d];
    if (p->numbers->rank == 1)
        dl_rename(c, p->numbers, &p->over);
    else if (p->numbers->rank == like->rank) {
        for (int a = 0; a < like->n; a++)
            if (dl_dim_size(c->w, like, a) != dl_dim_size(c->w, p->numbers, a)) return false;
        dl_rename(c, p->numbers, name);
    } else
        return false;
    p->axis = p->to->axis[p->d].name;
    for (int a = 0; a < like->n; a++)
        if (!strcmp(p->axis, name[a])) {
            if (p->batch) return false; /* the new axis has its name */
            p->axis = dl_fresh_name(like, p->d, DL_FOREIGN_RANK);
            break;
        }
    return true;
}

/* The elements that go to one place, reduced by sum, mean, max or min: with the axes of the tensor.
 */
static dl_in_value *reduced(dl_in_ctx *c, const places *p, const dl_in_value *from,
                            const char *how) {
    dl_in_value *made = dl_copy_value(c, from);
    made->stmt = dl_say(c, STMT_PLAIN, P_POSTFIX, "segment_%s(%v, %v, over=%s, %s=%s)", how, from,
                        p->numbers, p->over, p->axis, p->count);
    made->param = -1, made->is_view = false;
    int atom = p->batch ? 0 : dl_new_atom(c->w, p->size);
    made->axis[p->d] = (dl_in_axis){.name = p->axis, .n = 1, .atom = {atom}};
    made->dim[p->d].n = 1, made->dim[p->d].atom[0] = made->axis[p->d].atom[0];
    return made;
}

/* Whether a number goes to a place: any(one_hot(numbers, S=n) > 0, over=T) */
static dl_in_value *hit(dl_in_ctx *c, const places *p) {
    dl_in_value *made = dl_copy_value(c, p->numbers);
    int hot = dl_call_function(c, "one_hot", p->numbers, ", %s=%s", p->axis, p->count);
    dl_in_value of = {.stmt = hot};
    made->stmt = dl_say(c, STMT_PLAIN, P_POSTFIX, "any(%p > 0, over=%s)", &of, P_SUM, p->over);
    made->param = -1, made->is_view = false, made->class = DL_FOREIGN_BOOL;
    int at = p->numbers->rank == 1 ? 0 : p->d, last = made->n - 1;
    int atom = p->batch ? 0 : dl_new_atom(c->w, p->size);
    /* one_hot's axis is the last one */
    memmove(&made->axis[at], &made->axis[at + 1], (size_t)(last - at) * sizeof *made->axis);
    made->axis[last] = (dl_in_axis){.name = p->axis, .n = 1, .atom = {atom}};
    made->dim[at].n = 1, made->dim[at].atom[0] = atom;
    if (p->numbers->rank == 1)
        while (made->rank < p->to->rank - p->d) made->dim[made->rank++].n = 0;
    return made;
}

/* self + the elements of src, or self with them in the places of its own. */
static bool put(dl_in_ctx *c, places *p, dl_in_value *from, const dl_foreign_arg *number, bool adds,
                bool on_zeros) {
    if (!read_places(c, p, &from)) return false;
    if (from && (adds || on_zeros)) {
        dl_in_value *sum = reduced(c, p, from, "sum");
        if (on_zeros) return dl_done(c, sum, sum->stmt);
        dl_in_value *made = dl_match(c, p->to, sum);
        return dl_done(c, made,
                       dl_say(c, STMT_PLAIN, P_SUM, "%p + %p", p->to, P_SUM, sum, P_PRODUCT));
    }
    if (!from && !number) return false;
    dl_in_value *here = hit(c, p), *made = dl_match(c, here, p->to);
    dl_in_value *sum = from ? reduced(c, p, from, "sum") : NULL;
    if (sum) made = dl_match(c, made, sum);
    int s = dl_call_function(c, "where", here, ", ");
    if (sum)
        dl_say_more(c, "%v", sum);
    else
        dl_say_more(c, "%r", "value",
                    number->kind == DL_ARG_INT ? (double)number->ints[0] : number->reals[0]);
    dl_say_more(c, ", %v", p->to);
    return dl_done(c, made, s);
}

/* detail: the argument of the elements; "+", where they are added */
bool dl_in_scatter(dl_in_ctx *c) {
    bool adds = *c->detail == '+';
    const dl_foreign_tensor *self = dl_foreign_operand(c->n, "self");
    dl_in_value *to = dl_self(c), *numbers = dl_operand(c, "index"),
                *from = dl_operand(c, adds ? c->detail + 1 : c->detail);
    const dl_foreign_arg *number = dl_foreign_find(c->n, "value");
    if (!to || !numbers || dl_foreign_find(c->n, "reduce") ||
        dl_foreign_real(c->n, "alpha", 1) != 1 || c->n->n_results != 1)
        return false;
    if (number && number->kind != DL_ARG_INT && number->kind != DL_ARG_FLOAT) return false;
    places p = {.to = to, .numbers = numbers, .d = dl_dim(to, dl_foreign_int(c->n, "dim", 0))};
    return put(c, &p, from, number, adds, dl_is_zero(c, self));
}

/* The elements that go to one place: their sum, mean, largest or smallest one. */
bool dl_in_scatter_reduce(dl_in_ctx *c) {
    static const char *const theirs[] = {"sum", "mean", "amax", "amin"};
    static const char *const ours[] = {"sum", "mean", "max", "min"};
    const char *how = dl_foreign_text(c->n, "reduce", "");
    dl_in_value *to = dl_self(c), *numbers = dl_operand(c, "index"),
                *from = dl_operand(c, c->detail);
    bool own = dl_foreign_int(c->n, "include_self", 1);
    int k = 0;
    while (k < 4 && strcmp(theirs[k], how) != 0) k++;
    if (k == 4 || !to || !numbers || !from || c->n->n_results != 1 || to->class != DL_FOREIGN_FLOAT)
        return false;
    places p = {.to = to, .numbers = numbers, .d = dl_dim(to, dl_foreign_int(c->n, "dim", 0))};
    if (k == 0 && own) return put(c, &p, from, NULL, true, false);
    if (!read_places(c, &p, &from)) return false;
    dl_in_value *of = reduced(c, &p, from, own && k == 1 ? "sum" : ours[k]), *here = hit(c, &p),
                *made = dl_match(c, dl_match(c, here, p.to), of);
    int s = dl_call_function(c, "where", here, ", ");
    if (own && k == 1) {
        dl_in_value hot = {
            .stmt = dl_call_function(c, "one_hot", p.numbers, ", %s=%s", p.axis, p.count)};
        dl_in_value *count = dl_copy_value(c, here);
        count->stmt = dl_say(c, STMT_PLAIN, P_POSTFIX, "sum(%v, over=%s)", &hot, p.over);
        s = dl_say(c, STMT_PLAIN, P_PRODUCT, "(%p + %p) / (1 + %p)", p.to, P_SUM, of, P_PRODUCT,
                   count, P_PRODUCT);
        return dl_done(c, dl_match(c, dl_match(c, p.to, of), count), s);
    }
    if (own)
        dl_say_more(c, "%s(%v, %v), %v", ours[k], p.to, of, p.to);
    else
        dl_say_more(c, "%v, %v", of, p.to);
    return dl_done(c, made, s);
}

/* x with new content in a part of it: in a slice, or in one element along a dimension. */
bool dl_in_part_scatter(dl_in_ctx *c) {
    dl_in_value *to = dl_self(c), *from = dl_operand(c, "src");
    if (!to || !from || c->n->n_results != 1) return false;
    dl_in_value *made = dl_written(c, c->n, to, from);
    if (made) dl_set(c, 0, made);
    return made;
}

/* x[mask] = number */
static bool put_masked(dl_in_ctx *c, dl_in_value *to, const dl_in_value *index, int d,
                       const dl_in_value *number) {
    dl_in_value *mask = dl_copy_value(c, index), *one = dl_copy_value(c, number);
    if (d + mask->rank > to->rank) return false;
    while (d + mask->rank < to->rank) mask->dim[mask->rank++].n = 0;
    dl_name_all(c, mask);
    dl_in_value *made = dl_match(c, mask, to);
    dl_ordered(c, one, false);
    dl_drop_ones(c, one);
    return dl_done(c, made, dl_call_function(c, "where", mask, ", %v, %v", one, to));
}

/* x[..., i, j, ...] = elements, or += them: numbers along one dimension, or several in a row. */
static bool put_indexed(dl_in_ctx *c, const dl_in_value *self, const dl_foreign_arg *list,
                        const dl_in_value *values, bool adds, bool on_zeros) {
    const dl_foreign_tensor *t = c->n->results[0];
    dl_in_value *to = dl_copy_value(c, self), *from;
    places p = {.to = to};
    int64_t shape[2 * DL_FOREIGN_RANK], flat[DL_FOREIGN_RANK], all = 1;
    int rank = 0;
    if (!(p.numbers = dl_join_indexed(c, to, list, &p.d))) return false;
    p.numbers = dl_copy_value(c, p.numbers);
    for (int i = 0; i < to->rank; i++) {
        flat[i] = shape[rank] = dl_dim_size(c->w, to, i);
        for (int k = 0; i == p.d && k < p.numbers->rank; k++, rank++)
            all *= shape[rank] = dl_dim_size(c->w, p.numbers, k);
        rank += i != p.d;
    }
    flat[p.d] = all;
    if (rank > DL_FOREIGN_RANK || !(from = dl_expanded(c, values, rank, shape, NULL))) return false;
    dl_reshape(c, from, to->rank, flat);
    dl_reshape(c, p.numbers, 1, &all);
    if (!put(c, &p, from, NULL, adds, on_zeros)) return false;
    dl_reshape(c, c->b->of[t->id], t->rank, t->shape);
    return true;
}

bool dl_in_index_put(dl_in_ctx *c) {
    const dl_foreign_arg *list = dl_foreign_find(c->n, "indices");
    const dl_foreign_tensor *self = dl_foreign_operand(c->n, "self"),
                            *values = dl_foreign_operand(c->n, "values");
    dl_in_value *to = dl_self(c);
    bool adds = dl_foreign_int(c->n, "accumulate", 0);
    int masks = 0, n = 0, d = 0;
    if (!to || to->pair || !list || !values || c->n->n_results != 1) return false;
    for (int i = 0; i < list->n; i++) {
        if (!list->tensors[i]) continue;
        n++, d = i;
        masks += dl_value_of(c, list->tensors[i])->class == DL_FOREIGN_BOOL;
    }
    dl_in_value *from = dl_value_of(c, values);
    if (masks)
        return n == 1 && !adds && dl_foreign_count(values) == 1 &&
               put_masked(c, to, dl_value_of(c, list->tensors[d]), d, from);
    return put_indexed(c, to, list, from, adds, dl_is_zero(c, self));
}

/* A last dimension of zeros and ones. */
bool dl_in_one_hot(dl_in_ctx *c) {
    dl_in_value *v = dl_self(c);
    if (!v || v->class != DL_FOREIGN_INT || v->rank == DL_FOREIGN_RANK || c->n->n_results != 1)
        return false;
    dl_in_value *x = dl_copy_value(c, v);
    dl_ordered(c, x, true);
    int64_t n = c->n->results[0]->shape[x->rank];
    const char *name = dl_fresh_name(x, x->rank, x->rank + 1);
    int hot = dl_call_function(c, "one_hot", x, ", %s=%i", name, "size", n);
    dl_in_value of = {.stmt = hot};
    int atom = dl_new_atom(c->w, n);
    x->stmt = dl_say(c, STMT_PLAIN, P_PIPE, "%v as i64", &of), x->param = -1, x->is_view = false;
    x->axis[x->n++] = (dl_in_axis){.name = name, .n = 1, .atom = {atom}};
    x->dim[x->rank].n = 1, x->dim[x->rank++].atom[0] = atom;
    dl_set(c, 0, x);
    return true;
}

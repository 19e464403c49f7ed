/* Rules of ops that read and write elements by their numbers. */
#include "imports/dl/rules.h"

static dl_in_value *self(dl_in_ctx *c) {
    return c->n->n_args && c->n->args[0].kind == DL_ARG_TENSOR
               ? dl_value_of(c, c->n->args[0].tensors[0])
               : NULL;
}

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
    const char *begin = dl_format(c->w->arena, "range(%lld) as ", (long long)size);
    return v->n == 1 && s->pieces.n && s->pieces.at[0].kind == PIECE_TEXT &&
           !strncmp(s->pieces.at[0].text, begin, strlen(begin));
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

bool dl_in_index(dl_in_ctx *c) {
    const dl_foreign_arg *list = dl_foreign_find(c->n, "indices");
    dl_in_value *x = self(c);
    int d = -1;
    if (!x || !list || c->n->n_results != 1) return false;
    if (list->n > 1 && index_by_counts(c, x, list)) return true;
    for (int i = 0; i < list->n; i++) {
        if (!list->tensors[i]) continue;
        if (d >= 0) return false;
        d = i;
    }
    if (d < 0 || d >= x->rank) return false;
    const dl_foreign_tensor *at = list->tensors[d];
    if (dl_foreign_count(at) == 1 && pick_one(c, x, at, d)) return true;
    return dl_gather(c, x, dl_value_of(c, at), d);
}

bool dl_in_index_select(dl_in_ctx *c) {
    dl_in_value *x = self(c), *index = dl_operand(c, "index");
    return x && index && dl_gather(c, x, index, dl_dim(x, dl_foreign_int(c->n, "dim", 0)));
}

/* torch.gather: the numbers have all dimensions of x, and these go together but for one. */
bool dl_in_gather(dl_in_ctx *c) {
    dl_in_value *x = self(c), *index = dl_operand(c, "index");
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

dl_in_value *dl_written(dl_in_ctx *c, const dl_foreign_node *part, const dl_in_value *whole,
                        const dl_in_value *content) {
    bool one = strncmp(part->op, "aten.select.", 12) == 0;
    if ((!one && strncmp(part->op, "aten.slice.", 11) != 0) || dl_foreign_int(part, "step", 1) != 1)
        return NULL;
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
    shape[d] = end - begin;
    if (one) dl_reshape(c, from, to->rank, shape);
    dl_ordered(c, to, true), dl_ordered(c, from, true);
    if (from->n != to->n) return NULL;
    const char *name[DL_FOREIGN_RANK];
    for (int a = 0; a < to->n; a++) name[a] = to->axis[a].name;
    dl_rename(c, from, name);
    int s = dl_say(c, STMT_PLAIN, P_POSTFIX, "cat(");
    if (begin > 0) dl_say_more(c, "%p[%s=:%i], ", to, P_POSTFIX, name[d], "from", begin);
    dl_say_more(c, "%v", from);
    if (end < size) dl_say_more(c, ", %p[%s=%i:]", to, P_POSTFIX, name[d], "to", end);
    dl_say_more(c, ", over=%s)", name[d]);
    to->stmt = s, to->param = -1, to->is_view = false;
    if (begin == 0 && end == size) to->stmt = from->stmt;
    return to;
}

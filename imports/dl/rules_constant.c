/* Rule of tensors of one number. */
#include "imports/dl/rules.h"

/* Whether all that reads t is the same for all samples, too. */
static bool is_shared(const dl_writer *w, const dl_foreign_tensor *t) {
    for (int i = w->first_use[t->id]; i >= 0 && i <= w->last_use[t->id]; i++) {
        if (i == w->graph->nodes.n) return false; /* it is an output */
        const dl_foreign_node *n = &w->graph->nodes.at[i];
        for (int k = 0; k < n->n_results && dl_foreign_reads(n, t); k++)
            if (w->sampled[n->results[k]->id]) return false;
    }
    return true;
}

/* Whether the first dimension is the batch. In an archive of one sample its size says nothing: a
 * mask is made of tensors [1, H, W, 1], and meets the samples as a constant. */
static bool is_batch(const dl_writer *w, const dl_foreign_tensor *t) {
    return t->shape[0] == w->atoms.at[0] && (t->open[0] || t->rank - t->pair > 1) &&
           (t->open[0] || t->shape[0] > 1 || !is_shared(w, t));
}

bool dl_in_constant(dl_in_ctx *c) {
    if (c->n->n_results != 1) return false;
    const dl_foreign_tensor *t = c->n->results[0];
    double value = 0;
    if (!dl_parse_real(c->detail, &value)) value = dl_foreign_real(c->n, c->detail, 0);
    if (t->pair && value != 0) return false;
    const char *text = t->class == DL_FOREIGN_BOOL    ? value != 0 ? "true" : "false"
                       : t->class == DL_FOREIGN_FLOAT ? dl_in_real(c->w, value)
                                                      : dl_in_whole(c->w, (int64_t)value);
    int s = dl_say(c, STMT_PLAIN, P_POSTFIX, "expand(%s", text);
    dl_in_value *v = dl_new_value(c, s, t);
    int n = 0;
    for (int d = 0; d < t->rank; d++) {
        bool batch = d == 0 && is_batch(c->w, t);
        if (t->shape[d] == 1 && !batch) {
            v->dim[d].n = 0;
            continue;
        }
        dl_in_value so_far = {.n = n};
        memcpy(so_far.axis, v->axis, sizeof v->axis);
        const char *name = batch               ? "N"
                           : dl_is_parts(t, d) ? dl_parts_axis
                                               : dl_fresh_name(&so_far, d, t->rank - t->pair);
        if (batch) v->dim[d].atom[0] = 0;
        v->axis[n++] = (dl_in_axis){.name = name, .n = 1, .atom = {v->dim[d].atom[0]}};
        if (batch) {
            if (!dl_say_batch(c)) return false;
        } else
            dl_say_more(c, ", %s=%i", name, "size", t->shape[d]);
    }
    v->n = n;
    dl_say_more(c, ")");
    if (n == 0) v->stmt = dl_say(c, STMT_PLAIN, P_POSTFIX, "%s", text);
    if (n && t->class != DL_FOREIGN_FLOAT) /* expand makes floats of numbers */
        v->stmt = dl_say(c, STMT_PLAIN, P_PIPE, "%v as %s", v,
                         t->class == DL_FOREIGN_INT ? "i64" : "bool");
    dl_set(c, 0, v);
    return true;
}

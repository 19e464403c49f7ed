/* Finds the rule of an op; what no rule writes becomes fail(...), and a row of the report. */
#include "imports/dl/rules.h"

#include <stdio.h>

#include "ir/base/foreign.h"

static const struct {
    const char *op;
    dl_in_rule *rule;
    const char *detail;
} rules[] = {
#define RULE(op, function, detail) {op, dl_in_##function, detail},
#include "imports/dl/rules.def"
};

/* "aten.add_.Tensor" is "aten.add"; in_place tells that it had an underscore. */
static const char *plain_name(dl_arena *arena, const char *op, bool *in_place) {
    size_t dots = strcspn(op, ".");
    size_t n = op[dots] ? dots + 1 + strcspn(op + dots + 1, ".") : dots;
    *in_place = n > 0 && op[n - 1] == '_';
    return dl_strndup(arena, op, n - *in_place);
}

static void report(dl_in_ctx *c) {
    dl_import_report *r = c->w->report;
    const dl_foreign_node *n = c->n;
    r->lacking++;
    for (int i = 0; i < r->lacks.n; i++)
        if (strcmp(r->lacks.at[i].op, n->op) == 0) {
            r->lacks.at[i].count++;
            return;
        }
    const char *module = n->depth ? n->stack[n->depth - 1].path : NULL;
    dl_push(
        c->w->arena, &r->lacks,
        (dl_import_lack){
            .op = n->op, .count = 1, .module = module, .function = n->function, .line = n->line});
}

/* Text inside a string of the language. */
static const char *quoted(dl_arena *arena, const char *s) {
    char *copy = dl_strdup(arena, dl_shown(arena, s));
    for (char *p = copy; *p; p++)
        if (*p == '"' || *p == '\\') *p = '\'';
    return copy;
}

static void write_fail(dl_in_ctx *c) {
    const dl_foreign_node *n = c->n;
    dl_arena *arena = c->w->arena;
    report(c);
    const char *where = n->line ? dl_format(arena, ", line %d in %s", n->line,
                                            quoted(arena, n->function ? n->function : "?"))
                                : "";
    dl_in_value *read[16]; /* its operands, so that what computes them is written */
    int n_read = 0;
    for (int a = 0; a < n->n_args && n->n_results; a++)
        for (int k = 0; k < n->args[a].n && n_read < 16; k++) {
            const dl_foreign_tensor *t =
                n->args[a].kind == DL_ARG_TENSOR || n->args[a].kind == DL_ARG_TENSORS
                    ? n->args[a].tensors[k]
                    : NULL;
            bool written = t && (t->class == DL_FOREIGN_FLOAT || t->class == DL_FOREIGN_INT);
            if (written) read[n_read++] = dl_value_of(c, t);
        }
    for (int i = 0; i < n->n_results; i++) {
        int s = dl_say(c, STMT_PLAIN, P_POSTFIX, "fail(\"%s is not in the language%s\"",
                       quoted(arena, n->op), where);
        for (int a = 0; a < n_read; a++) dl_say_more(c, ", %v", read[a]);
        dl_say_more(c, ")");
        dl_in_value *v = dl_new_value(c, s, n->results[i]);
        for (int a = 0; a < v->n; a++) v->axis[a].name = dl_fresh_name(v, a, v->n);
        if (v->n && n->results[i]->shape[0] == c->w->atoms.at[0])
            v->axis[0].name = "N", v->axis[0].atom[0] = v->dim[0].atom[0] = 0;
        dl_set(c, i, v);
    }
}

/* An op in place: whoever reads its operand from now on reads the result. */
static void replace_operand(dl_in_ctx *c) {
    const dl_foreign_arg *self = c->n->n_args ? &c->n->args[0] : NULL;
    if (!self || self->kind != DL_ARG_TENSOR || !c->n->n_results) return;
    c->b->of[self->tensors[0]->id] = c->b->of[c->n->results[0]->id];
}

static int self_of(const dl_in_ctx *c) {
    const dl_foreign_arg *self = c->n->n_args ? &c->n->args[0] : NULL;
    return self && self->kind == DL_ARG_TENSOR ? self->tensors[0]->id : -1;
}

/* Whether a tensor that another one views, or that views another one, is read after this node:
 * then a write in place would have to change both. */
static bool shares_memory(const dl_in_ctx *c) {
    int self = self_of(c), n = c->w->graph->tensors.n;
    for (int t = self; t >= 0 && (t = c->w->view_of[t]) >= 0;)
        if (c->w->last_use[t] > c->index) return true;
    for (int t = 0; self >= 0 && t < n; t++)
        if (c->w->view_of[t] == self && c->w->last_use[t] > c->index) return true;
    return false;
}

static void note_views(const dl_in_ctx *c) {
    for (int i = 0; i < c->n->n_results; i++) {
        const dl_in_value *v = c->b->of[c->n->results[i]->id];
        if (v && v->is_view) c->w->view_of[c->n->results[i]->id] = self_of(c);
    }
}

static bool counts_batches(const dl_foreign_node *n) {
    const dl_foreign_arg *self = n->n_args ? &n->args[0] : NULL;
    if (!self || self->kind != DL_ARG_TENSOR || self->tensors[0]->origin != DL_FOREIGN_BUFFER)
        return false;
    const char *path = self->tensors[0]->path, *end = "num_batches_tracked";
    size_t n_path = strlen(path), n_end = strlen(end);
    return n_path >= n_end && strcmp(path + n_path - n_end, end) == 0;
}

void dl_apply_rule(dl_in_ctx *c) {
    bool in_place;
    const char *name = plain_name(c->w->arena, c->n->op, &in_place);
    c->w->report->nodes++;
    if (counts_batches(c->n)) return; /* batch_norm counts by itself */
    bool shared = in_place && shares_memory(c);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (strcmp(rules[i].op, name) != 0 || shared) continue;
        c->detail = rules[i].detail;
        if (!rules[i].rule(c)) break;
        note_views(c);
        if (in_place) replace_operand(c);
        return;
    }
    write_fail(c);
}

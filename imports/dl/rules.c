/* Finds the rule of an op; what no rule writes becomes fail(...), and a row of the report. */
#include "imports/dl/rules.h"

#include <stdio.h>

#include "ir/base/foreign.h"

static const struct {
    const char *op;
    dl_in_rule *rule;
    const char *detail;
    bool complex; /* it takes complex numbers, too */
} rules[] = {
#define RULE(op, function, detail)         {op, dl_in_##function, detail, false},
#define RULE_COMPLEX(op, function, detail) {op, dl_in_##function, detail, true},
#include "imports/dl/rules.def"
};

/* "aten.add_.Tensor" is "aten.add"; in_place tells that it had an underscore. */
static const char *plain_name(dl_arena *arena, const char *op, bool *in_place) {
    size_t n = dl_op_length(op);
    *in_place = dl_is_in_place(op);
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
    dl_push(c->w->arena, &r->lacks,
            (dl_import_lack){.op = n->op,
                             .count = 1,
                             .node = n->name,
                             .module = module,
                             .function = n->function,
                             .line = n->line});
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
                        : n->name && *n->name
                            ? dl_format(arena, ", node %.100s", quoted(arena, n->name))
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
        for (int a = 0; a < v->n - v->pair; a++)
            v->axis[a].name = dl_fresh_name(v, a, v->n - v->pair);
        if (v->n && n->results[i]->shape[0] == c->w->atoms.at[0])
            v->axis[0].name = "N", v->axis[0].atom[0] = v->dim[0].atom[0] = 0;
        dl_set(c, i, v);
    }
}

/* An op in place: later nodes that read its operand read the result. */
static void replace_operand(dl_in_ctx *c) {
    const dl_foreign_arg *self = c->n->n_args ? &c->n->args[0] : NULL;
    if (!self || self->kind != DL_ARG_TENSOR || !c->n->n_results) return;
    c->b->of[self->tensors[0]->id] = c->b->of[c->n->results[0]->id];
    c->w->written[self->tensors[0]->id] = true;
}

static int self_of(const dl_in_ctx *c) {
    const dl_foreign_arg *self = c->n->n_args ? &c->n->args[0] : NULL;
    return self && self->kind == DL_ARG_TENSOR ? self->tensors[0]->id : -1;
}

/* Whether other views of tensor `of` than `but` are read after this node. */
static bool has_readers(const dl_in_ctx *c, int of, int but) {
    for (int t = 0; t < c->w->graph->tensors.n; t++)
        if (t != but && c->w->view_of[t] == of && c->w->last_use[t] > c->index) return true;
    return false;
}

/* Whether a write in place would change a tensor that is read after this node: one that views the
 * operand, or one that it views. */
static bool shares_memory(const dl_in_ctx *c) {
    int self = self_of(c);
    if (self >= 0 && has_readers(c, self, -1)) return true;
    for (int t = self; t >= 0 && (t = c->w->view_of[t]) >= 0;)
        if (c->w->last_use[t] > c->index) return true;
    return false;
}

/* The operand is a part of a part ... of a tensor: they get the new content, too. False: a part of
 * another kind, or other views of them are read; or a damaged archive has a write without a result.
 */
static bool write_back(dl_in_ctx *c) {
    int self = self_of(c);
    if (self < 0 || !c->n->n_results || has_readers(c, self, -1)) return false;
    dl_in_value *content = c->b->of[c->n->results[0]->id];
    for (int whole; (whole = c->w->view_of[self]) >= 0; self = whole) {
        int by = c->w->defined_by[self];
        if (by < 0 || has_readers(c, whole, self) || !c->b->of[whole]) return false;
        content = dl_written(c, &c->w->graph->nodes.at[by], c->b->of[whole], content);
        if (!content) return false;
        c->b->of[whole] = content, c->w->written[whole] = true;
    }
    return true;
}

static void note_views(const dl_in_ctx *c) {
    for (int i = 0; i < c->n->n_results; i++) {
        const dl_in_value *v = c->b->of[c->n->results[i]->id];
        if (v && v->is_view) c->w->view_of[c->n->results[i]->id] = self_of(c);
    }
}

static bool is_complex(const dl_foreign_node *n) {
    for (int i = 0; i < n->n_results; i++)
        if (n->results[i]->pair) return true;
    for (int a = 0; a < n->n_args; a++)
        for (int k = 0; k < n->args[a].n; k++)
            if ((n->args[a].kind == DL_ARG_TENSOR || n->args[a].kind == DL_ARG_TENSORS) &&
                n->args[a].tensors[k] && n->args[a].tensors[k]->pair)
                return true;
    return false;
}

/* Whether each result that is read has a value: some ops of Core ATen give statistics, too. */
static bool has_all(const dl_in_ctx *c) {
    for (int i = 1; i < c->n->n_results; i++) {
        int id = c->n->results[i]->id;
        if (!c->b->of[id] && c->w->last_use[id] >= 0) return false;
    }
    return true;
}

/* An archive may call a result complex that the op does not make so. */
static bool has_parts(const dl_in_ctx *c) {
    for (int i = 0; i < c->n->n_results; i++) {
        const dl_in_value *v = c->b->of[c->n->results[i]->id];
        if (v && v->pair && (v->rank < 1 || dl_dim_size(c->w, v, v->rank - 1) != 2)) return false;
    }
    return true;
}

/* A write into a part without elements. */
static bool writes_nothing(const dl_in_ctx *c) {
    int self = self_of(c);
    return self >= 0 && c->n->n_results == 1 &&
           dl_foreign_count(c->w->graph->tensors.at[self]) == 0;
}

/* A write into a buffer of the module's, which stays as it is here: a step would not repeat what
 * the next one reads. */
static bool writes_state(const dl_in_ctx *c, bool in_place) {
    const dl_foreign_graph *g = c->w->graph;
    int to = in_place ? self_of(c) : -1;
    while (to >= 0 && c->w->view_of[to] >= 0) to = c->w->view_of[to];
    return dl_foreign_operand(c->n, "out") ||
           (to >= 0 && g->tensors.at[to]->origin == DL_FOREIGN_BUFFER);
}

void dl_apply_rule(dl_in_ctx *c) {
    bool in_place;
    const char *name = plain_name(c->w->arena, c->n->op, &in_place);
    c->w->report->nodes++;
    if (dl_counts_batches(c->w, c->n)) return; /* batch_norm counts by itself */
    if (in_place && writes_nothing(c)) {
        dl_set(c, 0, dl_new_value(c, dl_say(c, STMT_PLAIN, P_POSTFIX, "0"), c->n->results[0]));
        return;
    }
    if (writes_state(c, in_place)) {
        write_fail(c);
        return;
    }
    bool shared = in_place && shares_memory(c);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (strcmp(rules[i].op, name) != 0) continue;
        c->detail = rules[i].detail;
        if (is_complex(c->n) && !rules[i].complex) break;
        if (!rules[i].rule(c) || !has_all(c) || !has_parts(c) || (shared && !write_back(c))) break;
        note_views(c);
        if (in_place) replace_operand(c);
        return;
    }
    write_fail(c);
}

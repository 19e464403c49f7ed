#include "imports/dl/write.h"

#include <ctype.h>

#include "imports/dl/rules.h"

/* ---- what is read where ---- */

static void find_uses(dl_writer *w) {
    const dl_foreign_graph *g = w->graph;
    int n = g->tensors.n;
    w->last_use = DL_NEWS(w->arena, int, n + 1), w->defined_by = DL_NEWS(w->arena, int, n + 1);
    w->first_use = DL_NEWS(w->arena, int, n + 1), w->reads = DL_NEWS(w->arena, int, n + 1);
    w->view_of = DL_NEWS(w->arena, int, n + 1), w->kept = DL_NEWS(w->arena, bool, n + 1);
    w->written = DL_NEWS(w->arena, bool, n + 1), w->sampled = DL_NEWS(w->arena, bool, n + 1);
    for (int i = 0; i < g->inputs.n; i++) w->sampled[g->inputs.at[i]->id] = true;
    for (int t = 0; t < n; t++)
        w->first_use[t] = w->last_use[t] = w->defined_by[t] = w->view_of[t] = -1;
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_foreign_node *node = &g->nodes.at[i];
        bool sampled = strstr(node->op, "rand") || strstr(node->op, "bernoulli") ||
                       strstr(node->op, "dropout");
        for (int a = 0; a < node->n_args; a++) {
            const dl_foreign_arg *arg = &node->args[a];
            for (int k = 0; k < arg->n; k++)
                if ((arg->kind == DL_ARG_TENSOR || arg->kind == DL_ARG_TENSORS) &&
                    arg->tensors[k]) {
                    int id = arg->tensors[k]->id;
                    if (w->reads[id]++ == 0) w->first_use[id] = i;
                    w->last_use[id] = i;
                    sampled = sampled || w->sampled[id];
                }
        }
        for (int k = 0; k < node->n_results; k++)
            w->defined_by[node->results[k]->id] = i, w->sampled[node->results[k]->id] = sampled;
    }
    for (int i = 0; i < g->outputs.n; i++) w->last_use[g->outputs.at[i]->id] = g->nodes.n;
}

/* ---- inputs ---- */

/* Names of an input's axes by the op that reads it first. */
static const char *const *axes_of(const dl_foreign_graph *g, const dl_foreign_tensor *t) {
    static const char *const plain[] = {"E"}, *const rows[] = {"N", "E"},
                             *const words[] = {"N", "T"}, *const tokens[] = {"N", "T", "E"},
                             *const line[] = {"N", "C", "W"}, *const image[] = {"N", "C", "H", "W"},
                             *const last[] = {"N", "H", "W", "C"},
                             *const volume[] = {"N", "C", "D", "H", "W"},
                             *const film[] = {"N", "T", "C", "D", "H", "W"}, *const batch[] = {"N"};
    const char *op = "";
    for (int i = 0; i < g->nodes.n && !*op; i++)
        if (dl_foreign_reads(&g->nodes.at[i], t)) op = g->nodes.at[i].op;
    switch (t->rank - t->pair) {
    case 1: return batch;
    case 2: return strstr(op, "embedding") || t->class == DL_FOREIGN_INT ? words : rows;
    case 3:
        return strstr(op, "conv") || strstr(op, "batch_norm") || strstr(op, "pool") ? line : tokens;
    case 4: return strstr(op, "linear") || strstr(op, "layer_norm") ? last : image;
    case 5: return volume;
    case 6: return film;
    default: return plain;
    }
}

static const char *type_name(const dl_foreign_tensor *t) {
    if (t->class == DL_FOREIGN_BOOL) return "bool";
    if (t->class == DL_FOREIGN_INT) return t->dtype == DLR_ST_I32 ? "i32" : "i64";
    return "f32"; /* precision is the configuration's */
}

/* Its own name, where that is a name here: another program's need not be. */
static const char *input_name(dl_writer *w, const dl_foreign_tensor *t, int index) {
    if (dl_in_is_name(t->name)) return t->name;
    for (int k = index;; k++) {
        const char *name = k ? dl_format(w->arena, "x%d", k + 1) : "x";
        bool taken = false;
        for (int i = 0; i < w->graph->inputs.n; i++)
            taken = taken || !strcmp(w->graph->inputs.at[i]->name, name);
        if (!taken) return name;
    }
}

static bool declare_input(dl_in_ctx *c, const dl_foreign_tensor *t, int index, dl_buf *out) {
    if (t->class == DL_FOREIGN_UNKNOWN || t->rank - t->pair > 6)
        return dl_fail(c->w->err, DL_INPUT, "%s: input '%s' is of an unknown type, or has 7 axes",
                       c->w->graph->path, t->name);
    const char *const *names = axes_of(c->w->graph, t);
    dl_in_value *v = dl_new_value(c, dl_say(c, STMT_INPUT, P_POSTFIX, ""), t);
    const char *own = input_name(c->w, t, index);
    c->b->stmts.at[v->stmt].name = own;
    dl_putf(out, "    input %s: %s", own, type_name(t));
    for (int d = 0; d < t->rank; d++) {
        bool batch = d == 0 && t->shape[0] == c->w->atoms.at[0];
        const char *name = dl_is_parts(t, d) ? dl_parts_axis : batch || d > 0 ? names[d] : "B";
        if (batch) v->axis[0].atom[0] = v->dim[0].atom[0] = 0;
        v->axis[d].name = name;
        dl_putf(out, "%s%s", d ? ", " : "[", name);
        if (!batch) dl_putf(out, "=%lld", (long long)t->shape[d]);
    }
    dl_puts(out, t->rank ? "]\n" : "\n");
    c->b->of[t->id] = v;
    return true;
}

/* ---- the loss ---- */

static const struct {
    const char *word, *function;
    bool classes;
} losses[] = {{"mse", "mse_loss", false},
              {"l1", "l1_loss", false},
              {"smooth_l1", "smooth_l1_loss", false},
              {"huber", "huber_loss", false},
              {"relative_l2", "relative_l2_loss", false},
              {"bce_with_logits", "bce_with_logits", false},
              {"cross_entropy", "cross_entropy", true}};
enum { N_LOSSES = sizeof losses / sizeof *losses };

static void put_loss(dl_writer *w, const dl_in_value *y, dl_buf *target, dl_buf *loss) {
    int k = 0;
    while (w->options->loss && k < N_LOSSES && strcmp(losses[k].word, w->options->loss) != 0) k++;
    if (!w->options->loss || k == N_LOSSES) {
        dl_puts(loss, "    # What the model learns is yours to say, for example:\n"
                      "    # target t: f32[N, ...]\n    # loss = mse_loss(y, t)\n");
        return;
    }
    const char *name = "t"; /* an input may have it */
    for (int i = 0; i < w->graph->inputs.n; i++)
        if (!strcmp(w->graph->inputs.at[i]->name, name)) name = "wanted";
    bool first = true;
    dl_putf(target, "    target %s: %s[", name, losses[k].classes ? "i64" : "f32");
    for (int a = 0; a < y->n; a++) {
        if (losses[k].classes && a == 1) continue;
        dl_putf(target, "%s%s", first ? "" : ", ", y->axis[a].name);
        if (y->axis[a].atom[0] != 0)
            dl_putf(target, "=%lld", (long long)dl_axis_size_of(w, &y->axis[a]));
        first = false;
    }
    dl_puts(target, "]\n");
    dl_putf(loss, "    loss = %s(y, %s)\n", losses[k].function, name);
}

/* ---- the file ---- */

static const char *model_name(dl_writer *w) {
    const char *class = w->graph->class ? w->graph->class : w->options->title;
    const char *dot = strrchr(class, '.');
    char *name = dl_strdup(w->arena, dot ? dot + 1 : class);
    for (char *p = name; *p; p++)
        if (!isalnum((unsigned char)*p) && *p != '_') *p = '_';
    if (!isalpha((unsigned char)*name)) name = dl_format(w->arena, "Model%s", name);
    return dl_in_is_name(name) ? name : "Imported";
}

static bool write_all(dl_writer *w, dl_buf *out) {
    const dl_foreign_graph *g = w->graph;
    dl_buf inputs = {0}, target = {0}, loss = {0}, body = {0};
    int64_t batch = 1;
    if (g->inputs.n && g->inputs.at[0]->rank) batch = g->inputs.at[0]->shape[0];
    dl_new_atom(w, batch);
    dl_in_ctx c = {.w = w, .b = dl_new_body(w, model_name(w), "")};
    bool ok =
        (g->inputs.n && g->outputs.n) ||
        dl_fail(w->err, DL_INPUT, "%s: a model needs inputs and outputs that are tensors", g->path);
    for (int i = 0; ok && i < g->inputs.n; i++)
        if (w->last_use[g->inputs.at[i]->id] >= 0)
            ok = declare_input(&c, g->inputs.at[i], i, &inputs);
    const char *names[64];
    if (ok && g->outputs.n > 64)
        ok = dl_fail(w->err, DL_INPUT, "%s: %d outputs", g->path, g->outputs.n);
    if (ok) dl_write_nodes(&c, 0, g->nodes.n, 0);
    for (int i = 0; ok && i < g->outputs.n; i++) {
        dl_in_value *y = dl_value_of(&c, g->outputs.at[i]);
        dl_ordered(&c, y, true);
        if (c.b->stmts.at[y->stmt].style == STMT_INPUT ||
            c.b->stmts.at[y->stmt].style == STMT_PARAM)
            y->stmt = dl_say(&c, STMT_PLAIN, P_SUM, "%p + 0", y, P_SUM);
        dl_push(w->arena, &c.b->returns, y->stmt);
        names[i] = i ? dl_format(w->arena, "y%d", i + 1) : "y";
        if (i == 0) put_loss(w, y, &target, &loss);
    }
    ok = ok && !w->err->code;
    if (ok) {
        dl_group_bodies(w);
        for (int i = 0; i < w->bodies.n; i++)
            if (w->bodies.at[i]->same == w->bodies.at[i]) dl_roll_loops(w, w->bodies.at[i]);
        for (int depth = 0; depth < c.b->depth + 1; depth++)
            for (int i = 1; i < w->bodies.n; i++)
                if (w->bodies.at[i]->same == w->bodies.at[i] && w->bodies.at[i]->depth == depth &&
                    !w->bodies.at[i]->gone)
                    dl_in_print_module(w, out, w->bodies.at[i]);
        dl_in_print_model(w, &body, c.b, names);
        dl_putf(out, "model %s():\n%s%s%s", c.b->class, inputs.at, target.n ? target.at : "",
                body.n ? body.at : "");
        for (int i = 0; i < g->outputs.n; i++) dl_putf(out, "    output %s\n", names[i]);
        dl_puts(out, loss.at);
    }
    dl_buf_free(&inputs), dl_buf_free(&target), dl_buf_free(&loss), dl_buf_free(&body);
    return ok;
}

bool dl_import_write(const dl_foreign_graph *g, const dl_import_options *options, dl_buf *out,
                     dl_import_report *report, const bool **kept, dl_error *err) {
    dl_writer w = {.arena = g->arena, .graph = g, .options = options, .report = report, .err = err};
    find_uses(&w);
    *kept = w.kept;
    return write_all(&w, out);
}

bool dl_import_is_loss(const char *word) {
    for (int k = 0; k < N_LOSSES; k++)
        if (strcmp(losses[k].word, word) == 0) return true;
    return false;
}

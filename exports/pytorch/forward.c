/* forward: statements from the graph's nodes, with the model's lines as comments. */
#include <ctype.h>

#include "exports/pytorch/parts.h"

enum { LONGEST_PART = 52 /* of an expression within another */ };

/* ---- statements ---- */

/* The output that a value is, if its name is free. */
static const char *output_name(torch_export *t, const dl_value *v) {
    for (int i = 0; i < t->e->n_outputs; i++)
        if (t->e->output[i].value == v && !dl_torch_is_taken(t, t->e->output[i].name)) {
            const char *name = dl_torch_name(t, t->e->output[i].name);
            dl_torch_take(t, name);
            return name;
        }
    return dl_torch_fresh(t);
}

/* The length of an expression, whose numbers count one each: repeated blocks are cut alike. */
static int length_of(const char *s) {
    int n = 0;
    for (; *s; s++) n += !isdigit((unsigned char)*s) || !isdigit((unsigned char)s[1]);
    return n;
}

/* Does the expression stay within that of its only reader? */
static bool stays(const torch_export *t, const dl_node *n, torch_text x) {
    const dl_uses *u = &t->uses[n->out[0].id];
    if (x.is_name || x.is_number) return true;
    return u->n == 1 && !u->results && length_of(x.s) <= LONGEST_PART &&
           u->readers[0]->loc.line == n->loc.line;
}

/* Parameters that a layer holds have no expression: only the layer reads them. */
static bool is_held(const torch_export *t, const dl_var *v) {
    for (int i = 0; i < t->layers.n; i++) {
        const torch_layer *l = &t->layers.at[i];
        size_t n = strlen(l->path);
        if (!l->refused && strncmp(l->path, v->name, n) == 0 && v->name[n] == '.') return true;
    }
    return false;
}

static bool put_node(torch_export *t, const dl_node *n) {
    dl_value *v = &n->out[0];
    const dl_var *var = dl_torch_var_of(v);
    bool read = false;
    for (int k = 0; k < n->nout; k++)
        read |= t->uses[n->out[k].id].n || t->uses[n->out[k].id].results;
    if (!read || (var && is_held(t, var)) || dl_torch_is_no_affine(t, n)) return true;
    torch_text x = dl_torch_rule_of(t, n);
    if (!x.s) return false;
    t->text[v->id] = x;
    for (int k = n->nout - 1; k >= 0; k--)
        if (dl_torch_is_variable(t, &n->out[k]))
            dl_torch_put_variable(t, &n->out[k], output_name(t, &n->out[k]), &n->loc);
    x = t->text[v->id];
    if (!stays(t, n, x)) dl_torch_assign(t, v, output_name(t, v), &n->loc);
    return true;
}

/* ---- the statistics of the data ---- */

static void put_input(torch_export *t, const dl_export_input *in) {
    const char *name = t->text[in->var->value.id].s;
    const dl_array_record *r = in->record;
    if (r && r->n_scales)
        dl_torch_put(&t->body, 8,
                     dl_format(t->arena, "%s = (%s - self.%s) / self.%s", name, name,
                               dl_torch_statistic(t, name, "mean"),
                               dl_torch_statistic(t, name, "deviation")));
    if (r && r->replaces_nan)
        dl_torch_put(&t->body, 8,
                     dl_format(t->arena, "%s = %s.masked_fill(~torch.isfinite(%s), %s)", name, name,
                               name, dl_torch_number(t, r->nan, in->var->value.type.dtype)));
}

static const char *output(torch_export *t, int i) {
    const dl_export_output *out = &t->e->output[i];
    torch_text x = dl_torch_value(t, out->value);
    if (!out->undo) return x.s;
    const char *array = dl_torch_undo_array(t, i);
    return dl_format(t->arena, "%s * self.%s + self.%s", dl_torch_within(t, x, TORCH_PRODUCT),
                     dl_torch_statistic(t, array, "deviation"),
                     dl_torch_statistic(t, array, "mean"));
}

/* In brackets, which a line breaks at, where there are several. */
static const char *return_of(torch_export *t) {
    const char *s = "";
    for (int i = 0; i < t->e->n_outputs; i++)
        s = dl_format(t->arena, "%s%s%s", s, i ? ", " : "", output(t, i));
    return dl_format(t->arena, t->e->n_outputs > 1 ? "return (%s)" : "return %s", s);
}

/* ---- variables ---- */

static bool put_var(torch_export *t, const dl_var *v) {
    const char *s;
    switch (v->role) {
    case DL_VAR_INPUT: return true;
    case DL_VAR_PARAM:
    case DL_VAR_STATE: s = dl_torch_path(t, v->name); break;
    case DL_VAR_TABLE: s = dl_format(t->arena, "self.%s", dl_torch_table(t, v)); break;
    default:
        return dl_fail(t->err, DL_INPUT,
                       "%s:%d:%d: error: PyTorch has no way to say '%s', a variable of role %s",
                       v->loc.file ? v->loc.file : "?", v->loc.line, v->loc.column, v->name,
                       dl_var_roles[v->role]);
    }
    t->text[v->value.id] = (torch_text){.s = s, .level = TORCH_ATOM, .is_name = true};
    return true;
}

bool dl_torch_put_nodes(torch_export *t) {
    for (int i = 0; i < t->graph->vars.n; i++) {
        dl_var *v = t->graph->vars.at[i];
        const bool own = v->role == DL_VAR_INPUT || /* a parameter of the function */
                         (v->role == DL_VAR_STATE && t->graph->is_body);
        if (dl_torch_is_variable(t, &v->value))
            dl_torch_put_variable(t, &v->value, own ? t->text[v->value.id].s : dl_torch_fresh(t),
                                  &v->loc);
    }
    for (int i = 0; i < t->graph->nodes.n; i++)
        if (!put_node(t, t->graph->nodes.at[i])) return false;
    return true;
}

bool dl_torch_put_forward(torch_export *t) {
    for (int i = 0; i < t->e->n_inputs; i++) put_input(t, &t->e->input[i]);
    for (int i = 0; i < t->graph->vars.n; i++)
        if (!is_held(t, t->graph->vars.at[i]) && !put_var(t, t->graph->vars.at[i])) return false;
    if (!dl_torch_put_nodes(t)) return false;
    dl_torch_put_statements(t, return_of(t));
    return true;
}

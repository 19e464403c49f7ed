/* scan: a function for a step, within forward, and a call of the helper that goes through the
 * steps. Tensors that are the same at every step are the names of forward. */
#include "exports/pytorch/parts.h"
#include "ir/body.h"

/* The expressions of operands, in the order of the body's variables: "h1, h2" of a role. */
static const char *operands(torch_export *t, const dl_node *n, dl_var_role role) {
    const char *s = "";
    for (int i = 0; i < n->nin; i++)
        if (n->body->vars.at[i]->role == role)
            s = dl_format(t->arena, "%s%s%s", s, *s ? ", " : "", dl_torch_tensor(t, n, i).s);
    return s;
}

/* Names the body's variables of a role; appends the names to the parameters of the function. */
static const char *name_vars(torch_export *t, dl_var_role role, const char *parameters) {
    for (int i = 0; i < t->graph->vars.n; i++) {
        const dl_var *v = t->graph->vars.at[i];
        if (v->role != role) continue;
        const char *name = dl_torch_fresh(t);
        t->text[v->value.id] = (torch_text){.s = name, .level = TORCH_ATOM, .is_name = true};
        parameters = dl_format(t->arena, "%s%s%s", parameters, *parameters ? ", " : "", name);
    }
    return parameters;
}

/* The body's results of a role: values of all steps in their order, states in that of variables. */
static int results(const dl_graph *body, dl_result_role role, int *order) {
    int n = 0;
    for (int k = 0; k < body->results.n && role == DL_RESULT_OUTPUT; k++)
        if (body->results.at[k].role == role) order[n++] = k;
    for (int i = 0; i < body->vars.n && role == DL_RESULT_UPDATE; i++)
        if (body->vars.at[i]->role == DL_VAR_STATE)
            order[n++] = dl_body_update(body, body->vars.at[i]);
    return n;
}

static const char *returned(torch_export *t, int n, const int *order) {
    const char *s = "";
    for (int i = 0; i < n; i++)
        s = dl_format(t->arena, "%s%s%s", s, i ? ", " : "",
                      dl_torch_value(t, t->graph->results.at[order[i]].value).s);
    return dl_format(t->arena, "[%s]", s);
}

/* The lines of the function; NULL: an error is set. */
static const char *function(torch_export *t, const char *name, int nout, int nstates,
                            const int *order) {
    const char *parameters = name_vars(t, DL_VAR_STATE, name_vars(t, DL_VAR_INPUT, ""));
    t->indent += 4;
    dl_putf(&t->body, "%*sdef %s(%s):\n", t->indent - 4, "", name, parameters);
    if (!t->put_nodes(t)) return NULL;
    const char *values = returned(t, nout, order);
    dl_torch_put_statements(
        t, dl_format(t->arena, "return %s, %s", values, returned(t, nstates, order + nout)));
    return dl_strdup(t->arena, t->body.at);
}

/* The function of the body, said as a graph of its own. */
static const char *say_body(torch_export *t, const dl_node *n, const char *name, int nout,
                            int nstates, const int *order) {
    const torch_export around = *t;
    const dl_node *next = dl_torch_next(t, n);
    dl_torch_enter(t, n->body, next ? next->body : NULL);
    t->statements.at = NULL, t->statements.n = t->statements.cap = 0;
    t->body = (dl_buf){0}, t->line = 0;
    for (int i = 0; i < n->nin; i++)
        t->text[n->body->vars.at[i]->value.id] = around.text[n->in[i]->id];
    const char *text = function(t, name, nout, nstates, order);
    dl_buf_free(&t->body);
    t->graph = around.graph, t->next = around.next, t->uses = around.uses;
    t->type_next = around.type_next, t->text = around.text, t->statements = around.statements;
    t->body = around.body, t->line = around.line, t->indent = around.indent;
    return text;
}

/* A name for the function: step, step2, step3... */
static const char *step_name(torch_export *t) {
    const char *name = "step";
    for (int i = 2; dl_torch_is_taken(t, name); i++) name = dl_format(t->arena, "step%d", i);
    dl_torch_take(t, name);
    return name;
}

torch_text dl_torch_scan(torch_export *t, const dl_node *n, const char *word) {
    const dl_steps s = dl_steps_of(n);
    int *order = DL_NEWS(t->arena, int, n->body->results.n);
    (void)word;
    t->helps |= 1u << TORCH_HELP_STEPS;
    for (int i = 0; i < n->nin; i++)
        if (n->body->vars.at[i]->role == DL_VAR_PARAM) dl_torch_named(t, n, i);
    const char *step = step_name(t), *made = dl_torch_fresh(t);
    const int nout = results(n->body, DL_RESULT_OUTPUT, order),
              nstates = results(n->body, DL_RESULT_UPDATE, order + nout);
    const char *function = say_body(t, n, step, nout, nstates, order);
    if (!function) return (torch_text){0};
    const char *call = dl_format(t->arena, "scan(%s, [%s], [%s], %lld%s)", step,
                                 operands(t, n, DL_VAR_INPUT), operands(t, n, DL_VAR_STATE),
                                 (long long)s.steps, s.reverse ? ", reverse=True" : "");
    dl_push(t->arena, &t->statements, (torch_statement){made, call, n->loc.line, function});
    for (int k = 0; k < n->nout; k++)
        t->text[n->out[order[k]].id] = (torch_text){
            .s = dl_format(t->arena, "%s[%d]", made, k), .level = TORCH_ATOM, .is_name = true};
    return t->text[n->out[0].id];
}

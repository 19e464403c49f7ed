/* Scans (ir/body.h): a run of the body for each step. */
#include <string.h>

#include "ir/body.h"
#include "ir/interp/interp_parts.h"

static void copy(double *to, const double *from, const dl_type *t) {
    memcpy(to, from, sizeof *to * (size_t)dl_type_count(t));
}

/* Copies between the data of the body's variables or results and a step's slices: variables of the
 * given role from the operands, outputs into the results. */
typedef struct {
    const dl_node *n;
    const dl_interp_step *step;
    double *const *data;
} scan;

static bool fill(const scan *s, dl_var_role role, int64_t at, dl_error *err) {
    const dl_graph *body = s->n->body;
    for (int k = 0; k < body->vars.n; k++) {
        const dl_value *v = &body->vars.at[k]->value;
        if (body->vars.at[k]->role != role) continue;
        double *to = s->step->data(s->step->in, v);
        if (!to) return dl_fail(err, DL_RESOURCE, "no memory for a scan in the interpreter");
        copy(to, s->data[k] + at * dl_type_count(&v->type), &v->type);
    }
    return true;
}

/* Takes the outputs: before the step, of those that are variables, which the step changes; after
 * it, of the others. */
static bool take(const scan *s, bool before, int64_t at, dl_error *err) {
    const dl_graph *body = s->n->body;
    for (int k = 0; k < body->results.n; k++) {
        const dl_result *r = &body->results.at[k];
        if (r->role != DL_RESULT_OUTPUT || (r->value->var != NULL) != before) continue;
        const double *from = s->step->data(s->step->in, r->value);
        if (!from) return dl_fail(err, DL_RESOURCE, "no memory for a scan in the interpreter");
        copy(s->data[s->n->nin + k] + at * dl_type_count(&r->value->type), from, &r->value->type);
    }
    return true;
}

bool dl_interp_body(const dl_node *n, double *const *data, const dl_interp_step *step,
                    dl_error *err) {
    const dl_steps steps = dl_steps_of(n);
    const scan s = {n, step, data};
    bool ok = fill(&s, DL_VAR_PARAM, 0, err) && fill(&s, DL_VAR_STATE, 0, err);
    for (int64_t i = 0; i < steps.steps && ok; i++) {
        int64_t at = steps.reverse ? steps.steps - 1 - i : i;
        ok = fill(&s, DL_VAR_INPUT, at, err) && take(&s, true, at, err) &&
             step->run(step->in, err) && take(&s, false, at, err);
    }
    for (int k = 0; k < n->body->results.n && ok; k++) {
        const dl_result *r = &n->body->results.at[k];
        if (r->role == DL_RESULT_UPDATE)
            copy(data[n->nin + k], step->data(step->in, &r->var->value), &r->var->value.type);
    }
    return ok;
}

/* grad: torch.autograd.grad. The tensor by which a gradient is taken is one of its own that
 * requires a gradient, and forward computes with gradients on (helpers.c). */
#include "exports/pytorch/parts.h"

bool dl_torch_has_gradients(const dl_graph *g) {
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        if (n->op == DL_OP_grad || (n->body && dl_torch_has_gradients(n->body))) return true;
    }
    return false;
}

bool dl_torch_is_variable(const torch_export *t, const dl_value *v) {
    const dl_uses *u = &t->uses[v->id];
    for (int i = 0; i < u->n; i++)
        if (u->readers[i]->op == DL_OP_grad && u->readers[i]->in[1] == v) return true;
    return false;
}

void dl_torch_put_variable(torch_export *t, dl_value *v, const char *name, const dl_loc *loc) {
    /* A renamed tensor is another value, and the same tensor of PyTorch. */
    torch_text x = dl_torch_value(t, v);
    const bool shared = v->def && (x.is_name || v->def->op == DL_OP_cast) && !v->def->body;
    const char *s = dl_torch_within(t, x, TORCH_ATOM);
    t->text[v->id] = shared ? dl_torch_atom(t, "variable(%s.view_as(%s))", s, s)
                            : dl_torch_atom(t, "variable(%s)", x.s);
    dl_torch_assign(t, v, name, loc);
}

torch_text dl_torch_grad(torch_export *t, const dl_node *n, const char *word) {
    (void)word;
    return dl_torch_atom(t, "gradient(%s, %s)", dl_torch_tensor(t, n, 0).s,
                         dl_torch_operand(t, n, 1).s);
}

/* The expressions of values, and the names that they are assigned to. */
#include "exports/pytorch/parts.h"

torch_text dl_torch_operand(torch_export *t, const dl_node *n, int i) {
    return t->text[n->in[i]->id];
}

torch_text dl_torch_as_tensor(torch_export *t, torch_text number, dl_dtype dtype) {
    return dl_torch_atom(t, "torch.tensor(%s, dtype=%s, device=%s)", number.s,
                         dl_torch_dtype(dtype), t->device);
}

torch_text dl_torch_value(torch_export *t, const dl_value *v) {
    torch_text x = t->text[v->id];
    return x.is_number ? dl_torch_as_tensor(t, x, v->type.dtype) : x;
}

torch_text dl_torch_tensor(torch_export *t, const dl_node *n, int i) {
    return dl_torch_value(t, n->in[i]);
}

void dl_torch_assign(torch_export *t, dl_value *v, const char *name, const dl_loc *loc) {
    dl_push(t->arena, &t->statements, (torch_statement){name, t->text[v->id].s, loc->line, NULL});
    t->text[v->id] = (torch_text){.s = name, .level = TORCH_ATOM, .is_name = true};
}

const char *dl_torch_fresh(torch_export *t) {
    for (;;) {
        const char *name = dl_format(t->arena, "h%d", ++t->next_name);
        if (!dl_torch_is_taken(t, name)) return name;
    }
}

const char *dl_torch_named(torch_export *t, const dl_node *n, int i) {
    dl_value *v = n->in[i];
    if (t->text[v->id].is_number) t->text[v->id] = dl_torch_tensor(t, n, i);
    if (!t->text[v->id].is_name) dl_torch_assign(t, v, dl_torch_fresh(t), &n->loc);
    return t->text[v->id].s;
}

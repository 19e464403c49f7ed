/* Every op's rule. */
#include "exports/pytorch/parts.h"

static const struct {
    dl_torch_rule *rule;
    const char *word;
} rows[DL_NOPS] = {
#define ROW(op, rule, word) [DL_OP_##op] = {dl_torch_##rule, word},
#include "exports/pytorch/rules.def"
#undef ROW
};

/* Do the whole numbers among the attributes not depend on the samples? Rules of the ops that have
 * such numbers look at both graphs. */
static bool is_fixed(torch_export *t, const dl_node *n) {
    const dl_node *next = dl_torch_next(t, n);
    if (!next || n->op == DL_OP_const || n->op == DL_OP_slice || n->op == DL_OP_affine) return true;
    for (int i = 0; i < n->nattrs; i++) {
        const dl_attr *a = &n->attrs[i], *b = &next->attrs[i];
        dl_attr_kind kind = dl_attrs[a->id].kind;
        if (kind == DL_KIND_INT && a->i != b->i) return false;
        for (int k = 0; kind == DL_KIND_INTS && k < a->n; k++)
            if (a->ints[k] != b->ints[k]) return false;
    }
    return true;
}

torch_text dl_torch_rule_of(torch_export *t, const dl_node *n) {
    if (!rows[n->op].rule || !is_fixed(t, n)) return dl_torch_refuse(t, n, NULL);
    return rows[n->op].rule(t, n, rows[n->op].word);
}

/* Finds the rule of a node. What no rule makes is a node that the writer reports. */
#include "imports/onnx/parts.h"

static const struct {
    const char *op;
    dl_ox_rule *rule;
    const char *detail;
} rules[] = {
#define OP(op, function, detail) {op, dl_ox_##function, detail},
#include "imports/onnx/ops.def"
};

bool dl_ox_translate(dl_ox *r, const dl_ox_node *n) {
    dl_ox_op o = {.r = r, .n = n, .detail = ""};
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] && !n->in[i]->t)
            return dl_ox_bad(r, "'%.200s' is used before it is computed", n->in[i]->name);
    if (dl_ox_fold(r, n)) return true;
    bool ok = n->n_in > 0; /* every row reads operand 0 */
    for (int i = 0; i < n->n_in; i++)
        ok = ok && (n->in[i] ? n->in[i]->t->class != DL_FOREIGN_UNKNOWN : i > 0);
    ok = ok && n->out[0];
    for (size_t i = 0; ok && i < sizeof rules / sizeof *rules; i++) {
        if (strcmp(rules[i].op, n->op) != 0) continue;
        o.detail = rules[i].detail;
        if (rules[i].rule(&o)) {
            dl_ox_note_sample(&o);
            return !r->err->code;
        }
        if (r->err->code) return false;
        break; /* what it has made in vain is not needed by an output */
    }
    return dl_ox_make_lacking(&o);
}

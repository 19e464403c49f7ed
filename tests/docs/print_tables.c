/* Prints the tables of the sources for tests/docs/reference.py: fields end with byte 31, rows with
 * byte 30, and a row's first field is its table's name. The keys are the Markdown of
 * dl_config_put_docs. */
#include <stdio.h>

#include "frontends/dl/diag.h"
#include "frontends/dl/elab.h"
#include "frontends/yaml/config.h"
#include "ir/op.h"

static void put(const char *field) { printf("%s\x1f", field ? field : ""); }
static void end(void) { fputs("\x1e", stdout); }

static const char *const classes[] = {"ELEM",  "REDUCE",   "CONTRACT",   "MOVE", "SOURCE",
                                      "FUSED", "TEMPLATE", "COLLECTIVE", "HIGH"};
static const char *const categories[] = {"lower_precision", "preserve", "float32", "promote",
                                         "unchanged"};

static void print_functions(void) {
    for (int i = 0; i < dl_builtin_count(); i++) {
        const dl_builtin *f = dl_builtin_at(i);
        put("function"), put(f->name), put(f->makes);
        put(f->formula ? f->formula : f->op == DL_OP_const ? "" : dl_ops[f->op].name);
        put(f->op != DL_OP_const ? categories[dl_ops[f->op].amp] : f->wide ? "float32" : "");
        for (int p = 0; p < DL_MAX_PARAMS && f->params[p].name; p++)
            put(f->params[p].name), put(f->params[p].otherwise);
        end();
    }
}

static void print_ops(void) {
    for (int i = 0; i < DL_NOPS; i++) {
        const dl_op_info *op = &dl_ops[i];
        char arity[12];
        snprintf(arity, sizeof arity, "%d", op->arity);
        put("op"), put(op->name), put(arity), put(classes[op->class]), put(categories[op->amp]);
        put(op->expr);
        for (int a = 0; a < op->nattrs; a++) {
            put(dl_attrs[op->attrs[a]].name);
            put(a >= op->nattrs - op->noptional ? "optional" : "");
        }
        end();
    }
}

static void print_rows(void) {
#define DIAG(id, code, explanation)                                                                \
    put("diagnostic"), put(#id), put("DL-" code), put(explanation), end();
#include "frontends/dl/diag.def"
#define PASS(name, takes, leaves, bodies, skipped, help)                                           \
    put("pass"), put(#name), put(#takes), put(#leaves), put(#bodies), put(help), end();
#include "passes/passes.def"
#define FORMAT(name, place, bytes, endings, package, command)                                      \
    put("format"), put(name), put(endings), put(package), put(command), end();
#define ZIP(name, entry, package, command)                                                         \
    put("format"), put(name), put(""), put(package), put(command), end();
#include "runtime/data/foreign_formats.def"
}

int main(void) {
    dl_buf keys = {0};
    dl_config_put_docs(&keys);
    put("keys"), put(keys.at), end();
    dl_buf_free(&keys);
    print_functions();
    print_ops();
    print_rows();
    return 0;
}

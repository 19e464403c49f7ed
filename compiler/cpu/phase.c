/* Functions that work items run. */
#include "compiler/cpu/emit_cpu.h"

void dl_emit_function(dl_emitter *e, const char *attributes, const char *name) {
    dl_putf(e->out,
            "%svoid %s(char *const *arg, long item, char *scratch, char *workspace) {\n    "
            "(void)arg, (void)item, (void)scratch, (void)workspace;\n",
            attributes, name);
}

void dl_emit_phase(dl_emitter *e, dl_emitted *code, int64_t items, const char *statements) {
    dl_emit_function(e, "", dl_format(e->arena, "%s_%d", DL_OWN_NAME, code->phases));
    dl_putf(e->out, "    %s\n}\n", statements);
    code->items[code->phases++] = items;
}

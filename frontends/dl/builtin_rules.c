/* Applies built-in layers and functions: maps each row of the table to the function that builds its
 * result. */
#include "frontends/dl/builtin.h"

static dl_val (*const rules[])(dl_call *c) = {
#define BUILTIN(name, makes, op, fold, apply, ...) apply,
#define FORMULA(name, wide, text, ...)             NULL,
#include "frontends/dl/builtins.def"
};

dl_val dl_builtin_run(dl_call *c) { return rules[c->what - dl_builtin_at(0)](c); }

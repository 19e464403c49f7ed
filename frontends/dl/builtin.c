/* The table of built-in layers and functions: names, parameters, and their constant folding.
 * builtin_rules.c applies them. */
#include "frontends/dl/elab.h"

#include <math.h>

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double relu(double x) { return x > 0 ? x : 0; }
static double sign(double x) { return (x > 0) - (x < 0); }
static double silu(double x) { return x / (1 + exp(-x)); }
static double rsqrt(double x) { return 1 / sqrt(x); }
static double gelu(double x) { return 0.5 * x * (1 + erf(x / sqrt(2))); }

static const dl_builtin table[] = {
#define BUILTIN(name, makes, op, fold, apply, ...)                                                 \
    {name, makes, op, fold, NULL, false, {__VA_ARGS__}},
#define FORMULA(name, wide, text, ...) {name, NULL, NO_OP, NULL, text, wide, {__VA_ARGS__}},
#include "frontends/dl/builtins.def"
};

int dl_builtin_count(void) { return (int)(sizeof table / sizeof *table); }
const dl_builtin *dl_builtin_at(int i) { return &table[i]; }

bool dl_builtin_makes(const dl_builtin *f, const char *role) {
    size_t n = strlen(role);
    for (const char *at = f->makes; at && n; at = strchr(at, ','), at += at ? strlen(", ") : 0)
        if (strncmp(at, role, n) == 0 && (!at[n] || at[n] == ',')) return true;
    return false;
}

const dl_builtin *dl_builtin_find(const char *name) {
    for (int i = 0; i < dl_builtin_count(); i++)
        if (strcmp(table[i].name, name) == 0) return &table[i];
    return NULL;
}

const char *dl_builtin_usage(dl_arena *arena, const dl_builtin *f) {
    dl_buf b = {0};
    dl_putf(&b, "%s(", f->name);
    bool first = true;
    for (int i = 0; i < DL_MAX_PARAMS && f->params[i].name; i++) {
        const dl_param_spec *p = &f->params[i];
        if (i == 0 && f->makes) continue; /* the piped tensor */
        dl_putf(&b, "%s%s", first ? "" : ", ", p->name);
        if (p->otherwise && p->kind != DL_P_KEYED) dl_putf(&b, "=%s", p->otherwise);
        first = false;
    }
    dl_puts(&b, ")");
    const char *text = dl_strdup(arena, b.at);
    dl_buf_free(&b);
    return text;
}

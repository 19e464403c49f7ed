/* Names that Python, PyTorch and the file allow. */
#include <ctype.h>

#include "exports/pytorch/parts.h"

static bool is_one_of(const char *name, const char *const *list) {
    for (; *list; list++)
        if (strcmp(name, *list) == 0) return true;
    return false;
}

static bool is_identifier(const char *s) {
    static const char *const keywords[] = {
        "False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
        "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
        "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
        "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield",    NULL};
    if (!isalpha((unsigned char)*s) && *s != '_') return false;
    for (const char *c = s; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_') return false;
    return !is_one_of(s, keywords);
}

bool dl_torch_is_attribute(const char *name) {
    /* of nn.Module */
    static const char *const others[] = {"T_destination",
                                         "add_module",
                                         "apply",
                                         "bfloat16",
                                         "buffers",
                                         "call_super_init",
                                         "children",
                                         "compile",
                                         "cpu",
                                         "cuda",
                                         "double",
                                         "dump_patches",
                                         "eval",
                                         "extra_repr",
                                         "float",
                                         "forward",
                                         "get_buffer",
                                         "get_extra_state",
                                         "get_parameter",
                                         "get_submodule",
                                         "half",
                                         "ipu",
                                         "load_state_dict",
                                         "modules",
                                         "mtia",
                                         "named_buffers",
                                         "named_children",
                                         "named_modules",
                                         "named_parameters",
                                         "parameters",
                                         "register_backward_hook",
                                         "register_buffer",
                                         "register_forward_hook",
                                         "register_forward_pre_hook",
                                         "register_full_backward_hook",
                                         "register_full_backward_pre_hook",
                                         "register_load_state_dict_post_hook",
                                         "register_load_state_dict_pre_hook",
                                         "register_module",
                                         "register_parameter",
                                         "register_state_dict_post_hook",
                                         "register_state_dict_pre_hook",
                                         "requires_grad_",
                                         "set_extra_state",
                                         "set_submodule",
                                         "share_memory",
                                         "state_dict",
                                         "to",
                                         "to_empty",
                                         "train",
                                         "training",
                                         "type",
                                         "xpu",
                                         "zero_grad",
                                         "self",
                                         NULL};
    return is_identifier(name) && *name != '_' && !is_one_of(name, others);
}

bool dl_torch_is_taken(const torch_export *t, const char *name) {
    static const char *const ours[] = {
        "self",     "torch",          "nn",    "F",          "n",           "attention",
        "gather",   "scatter_add",    "along", "recurrence", "linear_scan", "scan",
        "Group",    "scatter_max",    "float", "super",      "slice",       "variable",
        "gradient", "differentiable", NULL};
    for (int i = 0; i < t->taken.n; i++)
        if (strcmp(t->taken.at[i], name) == 0) return true;
    return is_one_of(name, ours);
}

void dl_torch_take(torch_export *t, const char *name) { dl_push(t->arena, &t->taken, name); }

const char *dl_torch_name(torch_export *t, const char *name) {
    char *s = dl_strdup(t->arena, name);
    for (char *c = s; *c; c++)
        if (!isalnum((unsigned char)*c)) *c = '_';
    if (!isalpha((unsigned char)*s)) s = dl_format(t->arena, "x%s", s);
    while (!is_identifier(s) || dl_torch_is_taken(t, s)) s = dl_format(t->arena, "%s_", s);
    return s;
}

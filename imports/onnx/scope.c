/* Modules of nodes, and which stored tensors are parameters under names of the user's. */
#include <ctype.h>
#include <stdlib.h>

#include "imports/onnx/parts.h"
#include "runtime/formats/onnx_fields.h"

/* ---- names ---- */

bool dl_ox_is_name(const dl_ox *r, const dl_ox_value *v) {
    if (v->trained || v->buffer) return true;
    if (r->has_signature) return false; /* the exporter has made it */
    bool first = true;
    for (const char *p = v->name; *p; p++) {
        if (first ? !isalnum((unsigned char)*p) && *p != '_'
                  : !isalnum((unsigned char)*p) && !strchr("_.", *p))
            return false;
        first = *p == '.';
    }
    if (strncmp(v->name, "onnx__", 6) == 0) return false;
    return !first && !isdigit((unsigned char)v->name[0]);
}

bool dl_ox_is_parameter(const dl_ox *r, const dl_ox_value *v) {
    return v->stored && v->t->class == DL_FOREIGN_FLOAT && dl_ox_is_name(r, v);
}

/* Lines "p_fc_weight: PARAMETER target='fc.weight'". */
void dl_ox_read_signature(dl_ox *r, const char *text) {
    for (const char *at = text; *at; at += strcspn(at, "\n"), at += *at == '\n') {
        size_t n = strcspn(at, "\n");
        const char *kind = memchr(at, ':', n), *quote = kind ? strchr(kind, '\'') : NULL;
        if (!quote || quote >= at + n) continue;
        bool trained = strncmp(kind, ": PARAMETER ", 12) == 0;
        if (!trained && strncmp(kind, ": BUFFER ", 9) != 0 && strncmp(kind, ": CONSTANT", 10) != 0)
            continue;
        dl_ox_value *v = dl_ox_find(r, dl_strndup(r->arena, quote + 1, strcspn(quote + 1, "'\n")));
        v->trained = trained, v->buffer = !trained, r->has_signature = true;
    }
}

/* ---- modules ---- */

/* "Block" for "blocks.3", "Attn" for "attn": ONNX has no classes. */
static const char *class_of(const char *component, size_t n, bool container) {
    if (container) return dl_intern("torch.nn.modules.container.Sequential");
    char name[64];
    size_t used = 0, dot = n;
    for (size_t i = 0; i < n; i++)
        if (component[i] == '.') {
            dot = i;
            break;
        }
    for (size_t i = 0; i < dot && used < sizeof name - 1; i++) {
        bool after = i == 0 || component[i - 1] == '_';
        if (component[i] == '_') continue;
        name[used++] = (char)(after ? toupper((unsigned char)component[i]) : component[i]);
    }
    if (dot < n && used > 2 && name[used - 1] == 's') used--;
    return used ? dl_intern_n(name, used) : dl_intern("Block");
}

static void push_module(dl_ox *r, dl_ox_node *n, const char *path, const char *class, int call) {
    dl_foreign_module *list = DL_NEWS(r->arena, dl_foreign_module, n->depth + 1);
    if (n->depth) memcpy(list, n->stack, (size_t)n->depth * sizeof *list);
    list[n->depth] = (dl_foreign_module){.path = dl_intern(path), .class = class, .call = call};
    n->stack = list, n->depth++;
}

void dl_ox_note_modules(dl_ox *r, const char *name) {
    for (const char *dot = name; (dot = strchr(dot, '.')) != NULL; dot++)
        dl_ox_find(r, dl_strndup(r->arena, name, (size_t)(dot - name + 1)))->holds = true;
}

/* "norm_1" where norm has tensors and norm_1 has none: the second call of norm, which is 1. */
static const char *called_again(dl_ox *r, const char *path, int *call) {
    size_t n = strlen(path), digits = 0;
    while (digits < n && isdigit((unsigned char)path[n - 1 - digits])) digits++;
    *call = 0;
    if (!digits || digits > 4 || digits + 1 >= n || path[n - 1 - digits] != '_') return path;
    const char *base = dl_strndup(r->arena, path, n - digits - 1);
    if (dl_ox_find(r, dl_format(r->arena, "%s.", path))->holds ||
        !dl_ox_find(r, dl_format(r->arena, "%s.", base))->holds)
        return path;
    *call = (int)strtol(path + n - digits, NULL, 10);
    return base;
}

/* "/layer1/layer1.0/conv1/Conv": module layer1.0 of layer1, and conv1 of that. */
static void scope_of_name(dl_ox *r, dl_ox_node *n) {
    const char *path = "", *at = n->name + 1, *last = "";
    size_t n_last = 0;
    for (size_t length; length = strcspn(at, "/"), at[length]; at += length + 1) {
        if (length == 0 || n->depth == 64) return;
        const char *next = at + length + 1;
        bool container = strncmp(next, at, length) == 0 && next[length] == '.';
        bool inside =
            n_last && length > n_last && strncmp(at, last, n_last) == 0 && at[n_last] == '.';
        if (inside) /* the component repeats its container's name */
            path = dl_format(r->arena, "%s%.*s", path, (int)(length - n_last), at + n_last);
        else
            path = dl_format(r->arena, "%s%s%.*s", path, *path ? "." : "", (int)length, at);
        int call;
        path = called_again(r, path, &call);
        push_module(r, n, path, class_of(at, length, container), call);
        last = at, n_last = length;
    }
}

/* The next text in quotes of a list of Python's: ['', 'conv1', 'conv2d'] */
static const char *next_word(dl_ox *r, const char **at) {
    const char *begin = strchr(*at, '\''), *end = begin ? strchr(begin + 1, '\'') : NULL;
    if (!end) return NULL;
    *at = end + 1;
    return dl_strndup(r->arena, begin + 1, (size_t)(end - begin - 1));
}

/* The lists begin with the root and end with the op. */
static void scope_of_lists(dl_ox *r, dl_ox_node *n, const char *scopes, const char *classes) {
    const char *path = next_word(r, &scopes), *class = next_word(r, &classes);
    for (int i = 0; path && class && i < 64; i++) {
        const char *next = next_word(r, &scopes), *next_class = next_word(r, &classes);
        if (!next || !next_class) return; /* path is the op */
        if (*path && strncmp(path, "_empty", 6) != 0)
            push_module(r, n, path, dl_intern(class), 0);
        else if (!*path && i == 0 && !r->graph.class)
            r->graph.class = dl_intern(class);
        path = next, class = next_class;
    }
}

void dl_ox_read_scope(dl_ox *r, dl_ox_node *n, dlr_pb_view message) {
    const char *scopes = NULL, *classes = NULL;
    dlr_pb_field f, part;
    while (dlr_pb_next(&message, &f)) {
        if (f.field != DL_NODE_METADATA || !dlr_pb_find(f.bytes, DL_ENTRY_KEY, &part)) continue;
        const char *key = dl_ox_text(r, part.bytes);
        if (!dlr_pb_find(f.bytes, DL_ENTRY_VALUE, &part)) continue;
        if (!strcmp(key, "pkg.torch.onnx.name_scopes")) scopes = dl_ox_text(r, part.bytes);
        if (!strcmp(key, "pkg.torch.onnx.class_hierarchy")) classes = dl_ox_text(r, part.bytes);
        if (!strcmp(key, "pkg.torch.onnx.stack_trace"))
            dl_foreign_user_line(r->arena, dl_ox_text(r, part.bytes), &n->function, &n->line);
    }
    n->scoped = (scopes && classes) || n->name[0] == '/';
    if (scopes && classes)
        scope_of_lists(r, n, scopes, classes);
    else if (n->name[0] == '/')
        scope_of_name(r, n);
}

static bool is_same(const dl_foreign_module *a, const dl_foreign_module *b) {
    return strcmp(a->path, b->path) == 0 && a->call == b->call;
}

/* Optimizers of exporters make nodes without names of modules: each is in the modules that the
 * nodes before and after it are in. */
void dl_ox_fill_scopes(dl_ox *r) {
    int next = 0;
    for (int i = 1; i < r->nodes.n; i++) {
        dl_ox_node *n = &r->nodes.at[i];
        const dl_ox_node *before = &r->nodes.at[i - 1];
        while (next < r->nodes.n && (next <= i || !r->nodes.at[next].scoped)) next++;
        if (n->scoped || !before->depth || next == r->nodes.n) continue;
        const dl_ox_node *after = &r->nodes.at[next];
        int depth = 0;
        while (depth < before->depth && depth < after->depth &&
               is_same(&before->stack[depth], &after->stack[depth]))
            depth++;
        n->stack = before->stack, n->depth = depth;
    }
}

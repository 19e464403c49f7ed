/* The tree of modules, whose names are those of the parameters' paths, and __init__ from it. */
#include <ctype.h>
#include <stdlib.h>

#include "exports/pytorch/parts.h"

static torch_member *member(torch_export *t, torch_member *of, const char *name) {
    for (int i = 0; i < of->members.n; i++)
        if (of->members.at[i]->name == name) return of->members.at[i];
    torch_member *m = DL_NEW(t->arena, torch_member);
    m->name = name;
    dl_push(t->arena, &of->members, m);
    return m;
}

static const torch_layer *layer_at(const torch_export *t, const char *path) {
    for (int i = 0; i < t->layers.n; i++)
        if (t->layers.at[i].path == path && !t->layers.at[i].refused) return &t->layers.at[i];
    return NULL;
}

static void add(torch_export *t, const dl_var *v) {
    torch_member *at = &t->root;
    for (const char *s = v->name;;) {
        const char *dot = strchr(s, '.');
        at = member(t, at, dot ? dl_intern_n(s, (size_t)(dot - s)) : dl_intern(s));
        if (!dot) break;
        at->layer = layer_at(t, dl_intern_n(v->name, (size_t)(dot - v->name)));
        if (at->layer) return;
        s = dot + 1;
    }
    at->var = v;
}

/* The number that a name is, or -1. */
static int64_t number_of(const char *name) {
    if (!*name || strlen(name) > 6 || (*name == '0' && name[1])) return -1;
    for (const char *c = name; *c; c++)
        if (!isdigit((unsigned char)*c)) return -1;
    return strtoll(name, NULL, 10);
}

/* Sorts members 0, 1, 2... of a list; false where they are no list. */
static bool sort_list(torch_export *t, torch_member *m) {
    torch_member **sorted = DL_NEWS(t->arena, torch_member *, m->members.n + 1);
    for (int i = 0; i < m->members.n; i++) {
        int64_t k = number_of(m->members.at[i]->name);
        if (k < 0 || k >= m->members.n || m->members.at[i]->var) return false;
        sorted[k] = m->members.at[i];
    }
    memcpy(m->members.at, sorted, sizeof *sorted * (size_t)m->members.n);
    return m->members.n > 0;
}

static void find_lists(torch_export *t, torch_member *m) {
    for (int i = 0; i < m->members.n; i++) {
        torch_member *one = m->members.at[i];
        find_lists(t, one);
        if (one->members.n) one->is_list = sort_list(t, one);
    }
}

void dl_torch_build_tree(torch_export *t) {
    for (int i = 0; i < t->graph->vars.n; i++) {
        const dl_var *v = t->graph->vars.at[i];
        if (v->role == DL_VAR_PARAM || v->role == DL_VAR_STATE) add(t, v);
    }
    find_lists(t, &t->root);
}

/* The dictionary of nn.Module that has members whose names cannot be attributes. */
static const char *kind_of(const torch_member *m) {
    if (!m->var) return "_modules";
    return m->var->role == DL_VAR_PARAM ? "_parameters" : "_buffers";
}

const char *dl_torch_path(torch_export *t, const char *path) {
    const torch_member *at = &t->root;
    const char *text = "self";
    for (const char *s = path; s;) {
        const char *dot = strchr(s, '.'),
                   *name = dot ? dl_intern_n(s, (size_t)(dot - s)) : dl_intern(s);
        const torch_member *next = NULL;
        for (int i = 0; i < at->members.n; i++)
            if (at->members.at[i]->name == name) next = at->members.at[i];
        DL_CHECK(next);
        if (at->is_list)
            text = dl_format(t->arena, "%s[%s]", text, name);
        else if (dl_torch_is_attribute(name))
            text = dl_format(t->arena, "%s.%s", text, name);
        else
            text = dl_format(t->arena, "%s.%s[\"%s\"]", text, kind_of(next), name);
        at = next, s = dot ? dot + 1 : NULL;
    }
    return text;
}

static int list_size(torch_export *t, const torch_member *m, const char *path, const char *want) {
    for (int i = 0; i < m->members.n; i++) {
        const torch_member *one = m->members.at[i];
        const char *name = *path ? dl_format(t->arena, "%s.%s", path, one->name) : one->name;
        if (one->is_list && strcmp(dl_torch_path(t, name), want) == 0) return one->members.n;
        int n = one->members.n && !one->layer ? list_size(t, one, name, want) : 0;
        if (n) return n;
    }
    return 0;
}

int dl_torch_list_size(torch_export *t, const char *path) {
    return list_size(t, &t->root, "", path);
}

/* ---- __init__ ---- */

static const char *zeros(torch_export *t, const dl_var *v) {
    const char *sizes = "", *dtype = "";
    for (int i = 0; i < v->value.type.rank; i++)
        sizes = dl_format(t->arena, "%s%s%lld", sizes, i ? ", " : "",
                          (long long)v->value.type.axis[i].size);
    if (!v->value.type.rank) sizes = "()";
    if (v->value.type.dtype != DL_F32)
        dtype = dl_format(t->arena, ", dtype=%s", dl_torch_dtype(v->value.type.dtype));
    return dl_format(t->arena, "torch.zeros(%s%s)", sizes, dtype);
}

static const char *made(torch_export *t, const torch_member *m);

/* "nn.ModuleList([...])": of equal members one stands for all. */
static const char *list(torch_export *t, const torch_member *m) {
    const char *s = "", *first = made(t, m->members.at[0]);
    bool alike = m->members.n > 1;
    for (int i = 0; i < m->members.n; i++) {
        const char *one = made(t, m->members.at[i]);
        alike = alike && strcmp(one, first) == 0;
        s = dl_format(t->arena, "%s%s%s", s, i ? ", " : "", one);
    }
    if (alike)
        return dl_format(t->arena, "nn.ModuleList([%s for _ in range(%d)])", first, m->members.n);
    return dl_format(t->arena, "nn.ModuleList([%s])", s);
}

/* "Group(norm=nn.LayerNorm(8), ...)", and "Group(**{"0": ...})" where names are no Python's. */
static const char *group(torch_export *t, const torch_member *m) {
    const char *s = "", *apart = "";
    t->helps |= 1u << TORCH_HELP_GROUP;
    for (int i = 0; i < m->members.n; i++) {
        const torch_member *one = m->members.at[i];
        if (dl_torch_is_attribute(one->name))
            s = dl_format(t->arena, "%s%s%s=%s", s, *s ? ", " : "", one->name, made(t, one));
        else
            apart = dl_format(t->arena, "%s%s\"%s\": %s", apart, *apart ? ", " : "", one->name,
                              made(t, one));
    }
    if (*apart) s = dl_format(t->arena, "%s%s**{%s}", s, *s ? ", " : "", apart);
    return dl_format(t->arena, "Group(%s)", s);
}

static const char *made(torch_export *t, const torch_member *m) {
    if (m->layer) return m->layer->made;
    if (m->is_list) return list(t, m);
    if (!m->var) return group(t, m);
    if (m->var->role == DL_VAR_STATE) return zeros(t, m->var);
    return dl_format(t->arena, "nn.Parameter(%s)", zeros(t, m->var));
}

void dl_torch_put_init(torch_export *t, dl_buf *to) {
    for (int i = 0; i < t->root.members.n; i++) {
        const torch_member *m = t->root.members.at[i];
        const char *value = made(t, m), *s;
        if (!dl_torch_is_attribute(m->name))
            s = dl_format(t->arena, "self.%s[\"%s\"] = %s", kind_of(m), m->name, value);
        else if (m->var && m->var->role == DL_VAR_STATE)
            s = dl_format(t->arena, "self.register_buffer(\"%s\", %s)", m->name, value);
        else
            s = dl_format(t->arena, "self.%s = %s", m->name, value);
        dl_torch_put(to, 8, s);
    }
}

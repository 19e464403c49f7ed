/* The tree that a pickle builds: the interpreter's stack and containers, with the bounds that keep
 * it a tree and small. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/formats/torch_internal.h"

bool dlr_pickle_refuse(dlr_pickle *m, const char *format, ...) {
    char what[600];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return dl_fail(m->err, DL_INPUT, "%s: data.pkl, byte %zu: %s", m->path, m->op, what);
}

bool dlr_pickle_push(dlr_pickle *m, dlr_torch_value v) {
    if (++m->pushes > DLR_PICKLE_PUSHES)
        return dlr_pickle_refuse(m, "more than %d values", DLR_PICKLE_PUSHES);
    dl_push(m->arena, &m->stack, v);
    return true;
}

int dlr_pickle_above(const dlr_pickle *m) {
    return m->stack.n - (m->marks.n ? m->marks.at[m->marks.n - 1] : 0);
}

bool dlr_pickle_need(dlr_pickle *m, int n) {
    return dlr_pickle_above(m) >= n || dlr_pickle_refuse(m, "takes more values than there are");
}

static bool is_container(dlr_torch_kind k) {
    return k == DLR_TORCH_TUPLE || k == DLR_TORCH_LIST || k == DLR_TORCH_DICT;
}

static dlr_pickle_object *object_of(dlr_torch_value v) {
    return is_container(v.kind) ? (dlr_pickle_object *)(uintptr_t)v.items : NULL;
}

bool dlr_pickle_is_inner(dlr_torch_value v) {
    const dlr_pickle_object *o = object_of(v);
    return v.kind >= DLR_TORCH_N_KINDS || (o && o->inner);
}

/* ---- containers ---- */

bool dlr_pickle_push_object(dlr_pickle *m, dlr_torch_kind kind, bool ordered) {
    dlr_pickle_object *o = DL_NEW(m->arena, dlr_pickle_object);
    o->items.ordered = ordered, o->weight = 1, o->depth = 1;
    if (kind == DLR_TORCH_DICT) dl_push(m->arena, &m->dicts, o);
    return dlr_pickle_push(m, (dlr_torch_value){.kind = kind, .items = &o->items});
}

/* Adds n values to a container, and freezes them. */
static bool add(dlr_pickle *m, dlr_torch_value container, const dlr_torch_value *values, int n) {
    dlr_pickle_object *o = object_of(container);
    /* only arguments may hold values that are in no tree */
    bool args = container.kind == DLR_TORCH_TUPLE;
    for (int i = 0; i < n; i++) {
        dlr_pickle_object *c = object_of(values[i]);
        bool inner = dlr_pickle_is_inner(values[i]);
        if (inner && !args)
            return dlr_pickle_refuse(m, "%s in %s", dlr_torch_kind_name(values[i].kind),
                                     dlr_torch_kind_name(container.kind));
        o->inner = o->inner || inner, o->weight++;
        if (!c) continue;
        c->held = true;
        if (o->depth <= c->depth) o->depth = c->depth + 1;
        o->weight += c->weight;
        if (o->depth > DLR_PICKLE_DEPTH)
            return dlr_pickle_refuse(m, "nested more than %d deep", DLR_PICKLE_DEPTH);
        if (o->weight > DLR_PICKLE_PUSHES)
            return dlr_pickle_refuse(m, "unfolds to more than %d values", DLR_PICKLE_PUSHES);
    }
    if (o->held)
        return dlr_pickle_refuse(m, "%s that another one holds, or that holds itself, grows",
                                 dlr_torch_kind_name(container.kind));
    if (o->items.n + n > o->cap) {
        int cap = 2 * o->cap > o->items.n + n ? 2 * o->cap : o->items.n + n;
        dlr_torch_value *more = DL_NEWS(m->arena, dlr_torch_value, cap);
        if (o->items.n) memcpy(more, o->items.at, (size_t)o->items.n * sizeof *more);
        o->items.at = more, o->cap = cap;
    }
    if (n)
        memcpy((dlr_torch_value *)(uintptr_t)o->items.at + o->items.n, values,
               (size_t)n * sizeof *values);
    o->items.n += n;
    return true;
}

bool dlr_pickle_add_top(dlr_pickle *m, dlr_torch_kind kind, int n) {
    if (!dlr_pickle_need(m, n + 1)) return false;
    dlr_torch_value container = m->stack.at[m->stack.n - n - 1];
    const dlr_torch_value *values = m->stack.at + m->stack.n - n;
    if (container.kind != kind)
        return dlr_pickle_refuse(m, "adds to %s as if it were %s",
                                 dlr_torch_kind_name(container.kind), dlr_torch_kind_name(kind));
    for (int i = 0; kind == DLR_TORCH_DICT && i < n; i += 2)
        if (values[i].kind != DLR_TORCH_TEXT && values[i].kind != DLR_TORCH_INT)
            return dlr_pickle_refuse(
                m, "%s as a dictionary's key, where text or a whole number is wanted",
                dlr_torch_kind_name(values[i].kind));
    m->stack.n -= n;
    return add(m, container, values, n);
}

bool dlr_pickle_make_tuple(dlr_pickle *m, int n) {
    if (!dlr_pickle_need(m, n) || !dlr_pickle_push_object(m, DLR_TORCH_TUPLE, false)) return false;
    dlr_torch_value tuple = m->stack.at[--m->stack.n];
    m->stack.n -= n;
    if (!add(m, tuple, m->stack.at + m->stack.n, n)) return false;
    object_of(tuple)->held = true;
    m->stack.at[m->stack.n++] = tuple;
    return true;
}

static int by_key(const void *a, const void *b) { return dlr_torch_compare_keys(a, b); }

bool dlr_pickle_check_keys(dlr_pickle *m) {
    for (int k = 0; k < m->dicts.n; k++) {
        const dlr_torch_items *d = &m->dicts.at[k]->items;
        int n = d->n / 2;
        dlr_torch_value *keys = n > 1 ? malloc((size_t)n * sizeof *keys) : NULL;
        bool twice = false;
        char name[64] = "";
        for (int i = 0; keys && i < n; i++) keys[i] = d->at[2 * i];
        if (keys) qsort(keys, (size_t)n, sizeof *keys, by_key);
        for (int i = 1; keys && i < n && !twice; i++) {
            twice = by_key(&keys[i - 1], &keys[i]) == 0;
            if (twice && keys[i].kind == DLR_TORCH_TEXT)
                snprintf(name, sizeof name, "'%.60s'", keys[i].text);
            if (twice && keys[i].kind == DLR_TORCH_INT)
                snprintf(name, sizeof name, "%lld", (long long)keys[i].integer);
        }
        free(keys);
        if (n > 1 && !keys) return dl_fail(m->err, DL_RESOURCE, "no memory to read %s", m->path);
        if (twice) return dlr_pickle_refuse(m, "a dictionary has the key %s twice", name);
    }
    return true;
}

/* Parameters and running statistics by their names. */
#include <string.h>

#include "library/model.h"
#include "runtime/exec/state.h"

/* The parameter of a call, or NULL with an error. */
static const dlr_view *find(const dlc_model *m, const char *call, const char *name,
                            const void *memory, size_t bytes, dl_error *err) {
    if (!m || !name || !memory) {
        dl_fail(err, DL_USAGE, "%s: the %s is NULL", call,
                !m      ? "model"
                : !name ? "name"
                        : "memory");
        return NULL;
    }
    for (int i = 0; i < m->tensors.n; i++) {
        if (strcmp(m->tensors.list[i].name, name) != 0) continue;
        const dl_type *t = m->tensors.views[i].type;
        size_t size = (size_t)dl_type_count(t) * dl_dtype_bytes(t->dtype);
        if (bytes == size) return &m->tensors.views[i];
        dl_fail(err, DL_USAGE, "%s: '%.200s' is %s, %zu bytes, and not %zu", call, name,
                dl_type_text(t), size, bytes);
        return NULL;
    }
    dl_fail(err, DL_USAGE, "%s: the model has no parameter '%.200s'", call, name);
    return NULL;
}

int dlc_get(dlc_model *m, const char *name, void *to, size_t bytes, dlc_status *status) {
    dl_error err = {0};
    const dlr_view *v = find(m, "dlc_get", name, to, bytes, &err);
    if (v) dlr_state_read(m->exec, *v, v->type->dtype, to);
    return library_end(v != NULL, &err, status);
}

int dlc_set(dlc_model *m, const char *name, const void *from, size_t bytes, dlc_status *status) {
    dl_error err = {0};
    const dlr_view *v = find(m, "dlc_set", name, from, bytes, &err);
    if (v) dlr_state_write(m->exec, *v, v->type->dtype, from);
    return library_end(v != NULL, &err, status);
}

#include "imports/graph/weights.h"

#include <stdlib.h>

/* One tensor is in memory at a time: the writer asks for its pieces in order. */
typedef struct {
    const dl_foreign_graph *graph;
    const dl_foreign_tensor **of;
    int loaded;
    char *bytes;
} source;

static bool read_piece(void *context, int index, int64_t first, int64_t n, void *to,
                       dl_error *err) {
    source *s = context;
    size_t size = dlr_st_dtype_size(s->of[index]->dtype);
    if (s->loaded != index) {
        free(s->bytes);
        s->loaded = -1;
        s->bytes = malloc((size_t)dl_foreign_count(s->of[index]) * size + 1);
        if (!s->bytes) return dl_fail(err, DL_RESOURCE, "no memory for '%s'", s->of[index]->path);
        if (!dl_foreign_load(s->graph, s->of[index], s->bytes, err)) return false;
        s->loaded = index;
    }
    memcpy(to, s->bytes + (size_t)first * size, (size_t)n * size);
    return true;
}

bool dl_import_weights(const dl_foreign_graph *g, const bool *kept, const char *path,
                       dl_error *err) {
    source s = {.graph = g, .loaded = -1};
    dlr_st_tensor *list = DL_NEWS(g->arena, dlr_st_tensor, g->tensors.n + 1);
    int n = 0;
    s.of = DL_NEWS(g->arena, const dl_foreign_tensor *, g->tensors.n + 1);
    for (int i = 0; i < g->tensors.n; i++) {
        const dl_foreign_tensor *t = g->tensors.at[i];
        if (!kept[i] || !t->data) continue;
        list[n] = (dlr_st_tensor){.name = t->path, .dtype = t->dtype, .rank = t->rank};
        memcpy(list[n].shape, t->shape, sizeof t->shape);
        s.of[n++] = t;
    }
    dlr_st_content content = {.tensors = list, .n = n, .read = read_piece, .ctx = &s};
    bool ok = dlr_st_write(path, &content, NULL, err);
    free(s.bytes);
    return ok;
}

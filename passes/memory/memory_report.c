/* The values alive at the peak of memory, as text. */
#include <stdlib.h>

#include "passes/memory/memory.h"

static void put_size(dl_buf *out, int64_t bytes) {
    dl_putf(out, "%10.3f MiB", (double)bytes / (1 << 20));
}

static int by_size(const void *pa, const void *pb) {
    const dl_storage *a = *(const dl_storage *const *)pa, *b = *(const dl_storage *const *)pb;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
    return (a->value->id > b->value->id) - (a->value->id < b->value->id);
}

static void put_storage(dl_buf *out, const dl_storage *s) {
    const dl_value *v = s->value;
    put_size(out, s->bytes);
    if (s->body) {
        dl_putf(out, "  own values of @%s", s->body->name);
    } else {
        dl_putf(out, "  %%%u ", v->id);
        dl_type_print(out, &v->type);
    }
    if (v->def->loc.line) dl_putf(out, "  # %s:%d", v->def->loc.file, v->def->loc.line);
    dl_puts(out, "\n");
}

static void put_variables(dl_buf *out, const dl_graph *g) {
    for (int role = 0; role < DL_NVAR_ROLES; role++) {
        int64_t bytes = 0;
        int n = 0;
        for (int i = 0; i < g->vars.n; i++)
            if ((int)g->vars.at[i]->role == role)
                bytes += dl_type_bytes(&g->vars.at[i]->value.type), n++;
        if (!n) continue;
        put_size(out, bytes);
        dl_putf(out, "  %d %s variable%s\n", n, dl_var_roles[role], n == 1 ? "" : "s");
    }
}

bool dl_memory_report(const dl_graph *g, dl_buf *out, dl_error *err) {
    if (!g->arena_bytes)
        return dl_fail(err, DL_USAGE,
                       "the memory of graph '%s' is not planned: run plan_memory first", g->name);
    dl_arena *scratch = dl_arena_new(NULL);
    dl_liveness live;
    bool fine = dl_find_liveness(g, scratch, &live, err);
    if (fine) {
        const dl_storage **alive = DL_NEWS(scratch, const dl_storage *, live.n ? live.n : 1);
        int n = 0;
        for (int i = 0; i < live.n; i++)
            if (live.at[i].first <= live.peak_at && live.peak_at <= live.at[i].last)
                alive[n++] = &live.at[i];
        qsort(alive, (size_t)n, sizeof *alive, by_size);
        put_size(out, g->arena_bytes);
        dl_putf(out, "  the arena; graph '%s' is at its peak at node %d of %d\n", g->name,
                live.peak_at + 1, g->nodes.n);
        put_variables(out, g);
        put_size(out, live.peak);
        dl_putf(out, "  %d values, of which\n", n);
        for (int i = 0; i < n; i++) put_storage(out, alive[i]);
    }
    dl_arena_free(scratch);
    return fine;
}

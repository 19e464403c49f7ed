#include "ir/plan/plan_kept.h"

#include "ir/base/dirs.h"
#include "ir/base/output.h"

/* RUN/kernels/TARGET.ENDING, where a target's colons are no part of a file's name. */
static const char *path_of(dl_arena *arena, const char *run, const char *target,
                           const char *ending) {
    char *name = dl_strdup(arena, target);
    for (char *c = name; *c; c++)
        if (*c == ':') *c = '-';
    return dl_format(arena, "%s/kernels/%s.%s", run, name, ending);
}

const char *dl_plan_kept_path(dl_arena *arena, const char *run, const char *target) {
    return path_of(arena, run, target, "dlp");
}

static void put_sources(dl_buf *b, const dl_plan *p) {
    for (int i = 0; i < p->objects.n; i++)
        if (p->objects.at[i].source) dl_puts(b, p->objects.at[i].source);
}

bool dl_plan_keep(const char *run, const dl_plan *p, dl_error *err) {
    dl_arena *arena = dl_arena_new(NULL);
    bool gpu = dl_target_is_gpu(p->target);
    dl_buf text = {0};
    put_sources(&text, p);
    for (int i = 0; i < p->predictions.n; i++) put_sources(&text, p->predictions.at[i]);
    bool ok = dl_make_dirs(dl_format(arena, "%s/kernels", run), 0777, err) &&
              dl_plan_write(p, dl_plan_kept_path(arena, run, p->target), err) &&
              dl_write_file(path_of(arena, run, p->target, gpu ? "cu" : "c"),
                            text.at ? text.at : "", text.n, err);
    dl_buf_free(&text);
    dl_arena_free(arena);
    return ok;
}

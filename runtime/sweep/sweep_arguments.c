/* arguments.json: what a sweep's runs are given. */
#include <unistd.h>

#include "ir/base/input.h"
#include "ir/base/output.h"
#include "runtime/formats/json.h"
#include "runtime/sweep/sweep.h"

enum { MOST_BYTES = 1 << 20 };

bool dl_sweep_put_arguments(const char *dir, int ranks, int argc, char *const *argv,
                            dl_error *err) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_buf b = {0};
    dl_putf(&b, "{\"ranks\": %d, \"arguments\": [", ranks);
    for (int i = 1; i < argc; i++) {
        if (i > 1) dl_puts(&b, ", ");
        dlr_json_put_string(&b, argv[i]);
    }
    dl_puts(&b, "]}\n");
    const char *path = dl_format(arena, "%s/arguments.json", dir), *there = NULL;
    size_t n = 0;
    bool is_there = access(path, F_OK) == 0, ok = true;
    if (is_there) {
        there = dl_read_file(arena, path, MOST_BYTES, &n, err);
        ok = there && ((n == b.n && memcmp(there, b.at, n) == 0) ||
                       dl_fail(err, DL_USAGE,
                               "%.300s is there, and its runs are given something else: %.500s",
                               dir, there));
    } else
        ok = dl_write_file(path, b.at, b.n, err);
    dl_buf_free(&b);
    dl_arena_free(arena);
    return ok;
}

bool dl_sweep_arguments(dl_arena *arena, const char *dir, int *ranks, int *argc, char ***argv,
                        dl_error *err) {
    const char *path = dl_format(arena, "%s/arguments.json", dir);
    size_t n;
    const char *text = dl_read_file(arena, path, MOST_BYTES, &n, err);
    const dlr_json *all =
        text ? dlr_json_parse(arena, text, n, (dlr_json_limits){8, 10000}, path, err) : NULL;
    const dlr_json *list = dlr_json_get(all, "arguments"), *size = dlr_json_get(all, "ranks");
    if (!all) return false;
    bool ok = list && list->kind == DLR_JSON_ARRAY && size && size->kind == DLR_JSON_INT &&
              size->integer > 0;
    for (int i = 0; ok && i < list->n; i++) ok = list->items[i].kind == DLR_JSON_STRING;
    if (!ok) return dl_fail(err, DL_INPUT, "%s: error: no arguments of a sweep's runs", path);
    *ranks = (int)size->integer, *argc = list->n + 1;
    *argv = DL_NEWS(arena, char *, list->n + 2);
    (*argv)[0] = dl_strdup(arena, "dlrun");
    for (int i = 0; i < list->n; i++) (*argv)[i + 1] = dl_strdup(arena, list->items[i].string);
    return true;
}

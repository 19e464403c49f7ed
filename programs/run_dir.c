#include "programs/run_dir.h"

#include <string.h>

#include "ir/base/str.h"

const char *dl_run_dir(dl_arena *arena, const dl_config *c, int ranks, dl_error *err) {
    const struct {
        const char *name, *value;
    } words[] = {{"expdir", dl_config_str(c, DL_KEY_expdir)},
                 {"config", c->name},
                 {"ranks", dl_format(arena, "%d", ranks)},
                 {"run_num", dl_config_str(c, DL_KEY_run_num)}};
    enum { WORDS = sizeof words / sizeof *words };
    const char *run_num = dl_config_str(c, DL_KEY_run_num), *form = dl_config_str(c, DL_KEY_run_dir),
               *s = form;
    if (!dl_is_file_name(c->name) || !dl_is_file_name(run_num))
        return dl_fail(err, DL_USAGE, "no run can be kept under '%.80s' and '%.80s': both name a folder",
                       c->name, run_num),
               NULL;
    static const dl_key written[] = {DL_KEY_run_dir, DL_KEY_expdir, DL_KEY_run_num};
    for (size_t i = 0; i < sizeof written / sizeof *written; i++)
        if (!dl_config_check_written(c, written[i], err)) return NULL;
    dl_buf b = {0};
    bool ok = true;
    while (ok && *s) {
        size_t n = strcspn(s, "{"), length = s[n] ? strcspn(s + n + 1, "}") : 0;
        dl_putn(&b, s, n);
        s += n;
        if (!*s) break;
        int k = 0;
        while (k < WORDS && (strlen(words[k].name) != length || strncmp(words[k].name, s + 1, length) != 0))
            k++;
        ok = k < WORDS && s[1 + length] == '}';
        if (ok) dl_puts(&b, words[k].value), s += length + 2;
    }
    while (b.n > 1 && b.at[b.n - 1] == '/') b.n--;
    const char *path = ok ? dl_strndup(arena, b.at, b.n) : NULL;
    if (!ok)
        dl_config_fail(c, DL_KEY_run_dir, err, "%.60s is none of {expdir}, {config}, {ranks} and {run_num}",
                       s);
    dl_buf_free(&b);
    return path;
}

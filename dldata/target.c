#include "dldata/target.h"

#include "dldata/array.h"
#include "ir/base/sandbox.h"

#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

static bool read_generator(void *file, dl_sandbox_result *out, dl_error *err) {
    return hdf5_read_generator(file, &out->text, err);
}

static bool is_made_by(const char *generator, const char *path) {
    dl_error ignored = {0};
    dl_sandbox_result r;
    if (!dl_sandbox_run(path, 10, read_generator, (char *)(uintptr_t)path, &r, &ignored))
        return false;
    bool made = strcmp(r.text.at, generator) == 0;
    dl_buf_free(&r.text);
    dl_buf_free(&r.bytes);
    return made;
}

bool target_check(const char *path, const char *generator, bool force, dl_error *err) {
    struct stat st;
    /* only regular files are replaced */
    if (force || stat(path, &st) != 0 || !S_ISREG(st.st_mode)) return true;
    if (is_made_by(generator, path)) return true;
    return dl_fail(err, DL_USAGE,
                   "%s exists and was not made by `%s`; choose another name, or add --force", path,
                   generator);
}

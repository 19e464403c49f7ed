#include "runtime/formats/npz.h"

#include "ir/base/npy.h"
#include "runtime/formats/zip.h"

typedef struct {
    const dlr_npz_array *at;
    int n;
} arrays;

static bool put_array(dlr_zip_writer *z, dl_arena *arena, const dlr_npz_array *a) {
    dl_buf b = {0};
    char *name = dl_format(arena, "%s.npy", a->name);
    for (char *s = name; *s; s++)
        if (*s == '/') *s = '_';
    const int64_t n = a->n;
    dl_npy_put_header(&b, a->numbers ? "<f8" : "<i8", &n, a->numbers ? 1 : 0);
    if (a->numbers)
        dl_putn(&b, (const char *)a->numbers, (size_t)a->n * sizeof *a->numbers);
    else
        dl_putn(&b, (const char *)&a->whole, sizeof a->whole);
    bool ok = dlr_zip_put(z, name, b.at, b.n);
    dl_buf_free(&b);
    return ok;
}

static bool put_file(dlr_st_stream *s, dl_arena *arena, const void *ctx) {
    const arrays *all = ctx;
    dlr_zip_writer z = {.s = s};
    bool ok = true;
    s->counts_crc = true;
    for (int i = 0; ok && i < all->n; i++) ok = put_array(&z, arena, &all->at[i]);
    ok = ok && dlr_zip_finish(&z);
    dlr_zip_free(&z);
    return ok;
}

bool dlr_npz_write(const char *path, const dlr_npz_array *at, int n, dl_error *err) {
    const arrays all = {at, n};
    return dlr_st_write_as(path, &(dlr_st_content){0}, put_file, &all, NULL, err);
}

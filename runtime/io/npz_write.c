#include "runtime/io/npz.h"

#include "runtime/io/zip.h"

typedef struct {
    const dlr_npz_array *at;
    int n;
} arrays;

/* What stands before the numbers: a dictionary in Python's words, padded with blanks so that they begin at a
 * multiple of 64. */
static void put_header(dl_buf *b, const dlr_npz_array *a) {
    enum { BEFORE = 10 };
    dl_buf words = {0};
    if (a->numbers)
        dl_putf(&words, "{'descr': '<f8', 'fortran_order': False, 'shape': (%d,), }", a->n);
    else
        dl_puts(&words, "{'descr': '<i8', 'fortran_order': False, 'shape': (), }");
    while ((BEFORE + words.n + 1) % DLR_ST_ALIGN) dl_puts(&words, " ");
    dl_puts(&words, "\n");
    const char length[2] = {(char)(words.n & 255), (char)(words.n >> 8)};
    dl_putn(b, "\x93NUMPY\x01\x00", 8);
    dl_putn(b, length, 2);
    dl_putn(b, words.at, words.n);
    dl_buf_free(&words);
}

static bool put_array(dlr_zip_writer *z, dl_arena *arena, const dlr_npz_array *a) {
    dl_buf b = {0};
    char *name = dl_format(arena, "%s.npy", a->name);
    for (char *s = name; *s; s++)
        if (*s == '/') *s = '_';
    put_header(&b, a);
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

/* Columns of numbers of Parquet files: each an array. Rows without a number are NaN. A column is
 * unpacked as a whole and held in memory: small data. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/base/file_calls.h"
#include "ir/base/input.h"
#include "runtime/data/array_format.h"
#include "runtime/data/parquet_meta.h"

enum { MARK = 4, TAIL = 8, MOST_FOOTER = 64 << 20 };

static bool owns_parquet(const dlr_array_head *h) {
    return h->n >= MARK && memcmp(h->bytes, "PAR1", MARK) == 0;
}

static bool has_codecs(const dlr_parquet *p, const dlr_parquet_column *c) {
    for (int k = 0; k < p->groups; k++)
        if (!dlr_parquet_unpacks(c->chunk[k].codec)) return false;
    return true;
}

static void put_facts(dl_arena *arena, const dlr_parquet *p, dlr_array_facts *a) {
    for (int i = 0; i < p->columns; i++) {
        const dlr_parquet_column *c = &p->column[i];
        const char *name = c->name;
        for (int k = 0; k < i; k++)
            if (strcmp(a[k].name, name) == 0) name = dl_format(arena, "%s,%d", name, i);
        a[i] = (dlr_array_facts){.name = name,
                                 .stored = dlr_element_name(c->element),
                                 .type = c->element,
                                 .rank = 1,
                                 .packing = "none",
                                 .odd = c->odd};
        const bool unpacks = c->refused || has_codecs(p, c);
        if (c->refused || !unpacks)
            a[i].refused = dlr_add_remedy(
                arena, &dlr_parquet_format, c->name, unpacks ? c->odd : DLR_ODD_NUMBERS,
                unpacks ? c->refused : "is packed with a codec that is not read");
        a[i].dims[0] = p->rows, a[i].axis[0] = "row";
        if (p->rows == 0) a[i].refused = "is empty: the file has no rows";
        for (int k = 0; k < p->groups && !c->refused; k++)
            if (c->chunk[k].codec != 0) a[i].packing = "pages";
    }
}

static bool list_parquet(dlr_array_file *f, dl_error *err) {
    struct stat st;
    unsigned char tail[TAIL] = {0};
    dlr_parquet *p = DL_NEW(f->arena, dlr_parquet);
    const int fd = dl_input_open(f->path, err);
    if (fd < 0) return false;
    bool ok = dl_fstat(fd, &st) == 0 || dl_fail_errno(err, DL_IO, "cannot read %s", f->path);
    const bool whole = ok && st.st_size >= MARK + TAIL;
    if (whole) ok = dl_read_at(fd, f->path, tail, TAIL, st.st_size - TAIL, err);
    const int64_t n =
        tail[0] | (int64_t)tail[1] << 8 | (int64_t)tail[2] << 16 | (int64_t)tail[3] << 24;
    if (ok && (!whole || memcmp(tail + 4, "PAR1", MARK) != 0 || n > MOST_FOOTER ||
               n > st.st_size - MARK - TAIL))
        ok = dl_fail(err, DL_INPUT, "%s is damaged: it does not end as a Parquet file does",
                     f->path);
    if (ok) {
        char *footer = dl_alloc(f->arena, (size_t)n + 1);
        ok = dl_read_at(fd, f->path, footer, (size_t)n, st.st_size - TAIL - n, err) &&
             dlr_parquet_read_footer(f->arena, footer, (size_t)n, st.st_size, f->path, p, err);
    }
    close(fd);
    if (!ok) return false;
    dlr_array_facts *arrays = DL_NEWS(f->arena, dlr_array_facts, p->columns + 1);
    put_facts(f->arena, p, arrays);
    f->arrays = arrays, f->n = p->columns, f->state = p;
    return true;
}

/* ---- as a source ---- */

typedef struct {
    dlr_parquet_column column;
    dlr_parquet_chunk *chunk;
    int groups, fd;
} parquet_state;

/* Unpacks one group of rows. */
static bool load_group(const dlr_source *s, const parquet_state *p, const dlr_parquet_chunk *chunk,
                       char *out, dl_error *err) {
    const char *why;
    const size_t n = (size_t)chunk->bytes;
    if (s->on_paper) {
        dl_file_calls_add(&(dl_file_calls){.reads = 1, .bytes = chunk->bytes});
        return true;
    }
    unsigned char *packed = malloc(n + 1);
    if (!packed) return dl_fail(err, DL_RESOURCE, "no memory for a column of %s", s->label);
    bool ok = dl_read_at(p->fd, s->label, packed, n, chunk->at, err);
    if (ok && !dlr_parquet_unpack(&p->column, chunk, packed, n, out, &why))
        ok = dl_fail(err, DL_INPUT, "%s %s", s->label, why);
    free(packed);
    return ok;
}

static bool load_column(const dlr_source *s, const dlr_chunking *how, int64_t index, void *out,
                        bool *absent, dl_error *err) {
    const parquet_state *p = how->state;
    const size_t bytes = dlr_element_bytes(s->type);
    char *at = out;
    (void)index;
    *absent = false;
    for (int i = 0; i < p->groups; i++) {
        if (!load_group(s, p, &p->chunk[i], at, err)) return false;
        if (at) at += (size_t)p->chunk[i].rows * bytes;
    }
    return true;
}

static void close_parquet(void *state) {
    parquet_state *p = state;
    if (p->fd >= 0) close(p->fd);
    free(p->chunk);
    free(p);
}

static bool open_parquet(dlr_source *s, const dlr_array_file *f, const dlr_array_facts *a,
                         size_t cache, dl_error *err) {
    const dlr_parquet *file = f->state;
    const size_t groups = (size_t)file->groups;
    dlr_chunking how = {.load = load_column, .close = close_parquet};
    parquet_state *p = how.state = calloc(1, sizeof *p);
    if (!p) return dl_fail(err, DL_RESOURCE, "no memory to open %s", s->label);
    p->column = file->column[a - f->arrays], p->groups = file->groups;
    p->fd = dl_input_open(f->path, err);
    p->chunk = malloc(groups * sizeof *p->chunk + 1);
    if (p->chunk && groups) memcpy(p->chunk, p->column.chunk, groups * sizeof *p->chunk);
    if (!dlr_whole_open(s, &how, cache, err) || p->fd < 0) return false;
    return p->chunk || dl_fail(err, DL_RESOURCE, "no memory to open %s", s->label);
}

const dlr_array_format dlr_parquet_format = {.name = "Parquet",
                                             .modules = "pandas",
                                             .load = "pandas.read_parquet('IN')%s.to_numpy()",
                                             .owns = owns_parquet,
                                             .list = list_parquet,
                                             .open = open_parquet};

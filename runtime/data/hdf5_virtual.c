/* Reads the mappings of a virtual data set by libhdf5, in a child process with limits. */
#include "runtime/data/hdf5_virtual.h"

#include <hdf5.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "ir/base/file_calls.h"
#include "ir/base/input.h"
#include "ir/base/sandbox.h"
#include "runtime/data/hdf5_contents.h"

enum { CPU_SECONDS = 20, MOST_PARTS = 4096, MOST_SOURCES = 1024, UNLIMITED = -1 };

/* ---- in the child ---- */

typedef struct {
    char file[DLR_HDF5_FILE], path[DLR_HDF5_NAME]; /* as the virtual set names it */
    dlr_hdf5_set set;
} source_seen;

typedef struct {
    const char *main;
    const dlr_hdf5_set *set;
    source_seen *seen; /* MOST_SOURCES */
    int sources;
    char why[DLR_HDF5_WHY];
} mapping;

#define FAIL(m, ...) dlr_hdf5_say((m)->why, sizeof(m)->why, __VA_ARGS__)

/* The selection as a box with strides; a count of an axis without an end is UNLIMITED. `whole` has
 * the sizes of all of it: libhdf5 does not know those of a source's space. */
static bool take_box(mapping *m, hid_t space, const dlr_hdf5_set *whole, dlr_block *box,
                     int *rank) {
    hsize_t start[H5S_MAX_RANK], stride[H5S_MAX_RANK], count[H5S_MAX_RANK], block[H5S_MAX_RANK];
    const bool all = H5Sget_select_type(space) == H5S_SEL_ALL;
    *rank = all ? whole->rank : H5Sget_simple_extent_ndims(space);
    if (*rank < 0 || *rank > DLR_ARRAY_RANK)
        return FAIL(m, "is a virtual data set with a source of more than %d axes", DLR_ARRAY_RANK);
    if (!all &&
        (H5Sget_select_type(space) != H5S_SEL_HYPERSLABS || H5Sis_regular_hyperslab(space) <= 0 ||
         H5Sget_regular_hyperslab(space, start, stride, count, block) < 0))
        return FAIL(m, "is a virtual data set with a part that is no box");
    *box = (dlr_block){0};
    for (int i = 0; i < *rank; i++) {
        if (all) start[i] = 0, stride[i] = 1, count[i] = (hsize_t)whole->dims[i], block[i] = 1;
        const bool blocks = block[i] != 1 && stride[i] != block[i] && count[i] != 1;
        if (blocks) return FAIL(m, "is a virtual data set with parts in blocks");
        const bool steps = block[i] == 1 && count[i] != 1;
        box->start[i] = (int64_t)start[i], box->stride[i] = steps ? (int64_t)stride[i] : 1;
        box->count[i] = count[i] == H5S_UNLIMITED || block[i] == H5S_UNLIMITED
                            ? UNLIMITED
                            : (int64_t)(count[i] * block[i]);
    }
    return true;
}

/* Finds the counts without an end: as many as the virtual set has room for. The axes of more than
 * one element must be the same. */
static bool match_boxes(mapping *m, dlr_block *at, int rank, dlr_block *from, int from_rank) {
    int k = 0;
    for (int i = 0; i < rank; i++) {
        const int64_t room = m->set->dims[i] - at->start[i];
        const bool open = at->count[i] == UNLIMITED;
        if (open) at->count[i] = room < 1 ? 0 : (room - 1) / at->stride[i] + 1;
        if (at->count[i] == 1 && !open) continue;
        while (k < from_rank && from->count[k] == 1) k++;
        if (k < from_rank && from->count[k] == UNLIMITED) from->count[k] = at->count[i];
        if (k == from_rank || from->count[k++] != at->count[i])
            return FAIL(m,
                        "is a virtual data set with a part of another shape than its source has");
    }
    while (k < from_rank && from->count[k] == 1) k++;
    return k == from_rank ||
           FAIL(m, "is a virtual data set with a part of another shape than its source has");
}

/* Describes the source at the end of links. */
static bool describe_source(mapping *m, const char *in, const char *name, source_seen *s) {
    char why[200] = "";
    dlr_hdf5_place end = {.file = -1};
    bool ok = dlr_hdf5_place_open(m->main, in, &end, why, sizeof why);
    if (!ok)
        FAIL(m, "is a virtual data set, and its source '%.100s', a file, %s", s->file, why);
    else if (!(ok = dlr_hdf5_follow(m->main, &end, name, why, sizeof why)))
        FAIL(m, "is a virtual data set, and its source '%.60s:%.60s' %s", s->file, name, why);
    hid_t object = ok && end.path[0] ? H5Dopen2(end.file, end.path, H5P_DEFAULT) : -1;
    if (ok && object < 0)
        ok = FAIL(m, "is a virtual data set, and its source '%.60s:%.60s' is no array", s->file,
                  name);
    if (ok) {
        snprintf(s->set.name, sizeof s->set.name, "%s", end.path);
        snprintf(s->set.path, sizeof s->set.path, "%s", end.path);
        snprintf(s->set.file, sizeof s->set.file, "%s", end.in);
        dlr_hdf5_describe(object, &s->set);
        H5Dclose(object);
    }
    if (end.file >= 0) H5Fclose(end.file);
    return ok;
}

/* The number of the source, which is described when it is met first; -1: it cannot be. */
static int take_source(mapping *m, const char *file, const char *path) {
    char in[DLR_HDF5_FILE], why[200] = "";
    for (int i = 0; i < m->sources; i++)
        if (strcmp(m->seen[i].file, file) == 0 && strcmp(m->seen[i].path, path) == 0) return i;
    if (m->sources == MOST_SOURCES)
        return FAIL(m, "is a virtual data set of more than %d sources", MOST_SOURCES), -1;
    source_seen *s = &m->seen[m->sources];
    snprintf(s->file, sizeof s->file, "%s", file);
    snprintf(s->path, sizeof s->path, "%s", path);
    if (strcmp(file, ".") == 0)
        strcpy(in, m->set->file);
    else if (strchr(file, '%') || strchr(path, '%'))
        return FAIL(m, "is a virtual data set whose sources are a pattern, '%.100s'", file), -1;
    else if (!dlr_hdf5_near(m->set->file, file, in, why, sizeof why))
        return FAIL(m, "is a virtual data set, and its source '%.100s' %s", file, why), -1;
    return describe_source(m, in, path, s) ? m->sources++ : -1;
}

static bool take_part(mapping *m, hid_t plist, size_t i, dlr_hdf5_part *part) {
    char file[DLR_HDF5_FILE], path[DLR_HDF5_NAME];
    int rank = 0, from_rank = 0;
    hid_t at = H5Pget_virtual_vspace(plist, i), from = H5Pget_virtual_srcspace(plist, i);
    ssize_t file_n = H5Pget_virtual_filename(plist, i, file, sizeof file),
            path_n = H5Pget_virtual_dsetname(plist, i, path, sizeof path);
    bool ok = at >= 0 && from >= 0 && file_n > 0 && path_n > 0;
    if (!ok) FAIL(m, "is a virtual data set with a part that cannot be read");
    if (ok && (file_n >= (ssize_t)sizeof file || path_n >= (ssize_t)sizeof path))
        ok = FAIL(m, "is a virtual data set with a source of a longer name than is read");
    ok = ok && take_box(m, at, m->set, &part->at, &rank);
    ok = ok && (part->source = take_source(m, file, path)) >= 0 &&
         take_box(m, from, &m->seen[part->source].set, &part->from, &from_rank);
    if (ok && rank != m->set->rank)
        ok = FAIL(m, "is a virtual data set with a part of another number of axes");
    ok = ok && match_boxes(m, &part->at, rank, &part->from, from_rank);
    if (ok && m->seen[part->source].set.rank != from_rank)
        ok = FAIL(m,
                  "is a virtual data set, and its source '%.60s:%.60s' has another number of axes",
                  file, path);
    if (at >= 0) H5Sclose(at);
    if (from >= 0) H5Sclose(from);
    return ok;
}

typedef struct {
    const char *main;
    const dlr_hdf5_set *set;
} virtual_job;

/* The result: the numbers of sources and parts, the sources, the parts; or a reason as text. */
static bool read_virtual(void *context, dl_sandbox_result *out, dl_error *err) {
    const virtual_job *job = context;
    mapping m = {.main = job->main, .set = job->set, .seen = calloc(MOST_SOURCES, sizeof *m.seen)};
    dlr_hdf5_part *parts = calloc(MOST_PARTS, sizeof *parts);
    if (!m.seen || !parts) return dl_fail(err, DL_RESOURCE, "no memory to read %s", job->main);
    dlr_hdf5_quiet();
    dlr_hdf5_place at;
    hid_t set = dlr_hdf5_place_open(m.main, m.set->file, &at, m.why, sizeof m.why)
                    ? H5Dopen2(at.file, m.set->path, H5P_DEFAULT)
                    : -1;
    hid_t plist = set < 0 ? set : H5Dget_create_plist(set);
    size_t n = 0;
    bool ok = plist >= 0 && H5Pget_virtual_count(plist, &n) >= 0;
    if (!ok) FAIL(&m, "is a virtual data set that cannot be read");
    if (ok && n > MOST_PARTS)
        ok = FAIL(&m, "is a virtual data set of more than %d parts", MOST_PARTS);
    for (size_t i = 0; ok && i < n; i++) ok = take_part(&m, plist, i, &parts[i]);
    if (!ok) {
        dl_puts(&out->text, m.why);
        return true;
    }
    const int counts[2] = {m.sources, (int)n};
    dl_putn(&out->bytes, (const char *)counts, sizeof counts);
    for (int i = 0; i < m.sources; i++)
        dl_putn(&out->bytes, (const char *)&m.seen[i].set, sizeof m.seen[i].set);
    dl_putn(&out->bytes, (const char *)parts, n * sizeof *parts);
    return true;
}

/* ---- in this process ---- */

static bool refuse(dlr_hdf5_set *set, dlr_hdf5_virtual *v, const char *why, const char *source) {
    v->parts = 0;
    snprintf(set->why, sizeof set->why, "is a virtual data set%s%s%.150s%s", why[0] ? " " : "", why,
             source, source[0] ? "'" : "");
    return true;
}

/* Whether a box with elements lies within these sizes. */
static bool is_within(const dlr_block *b, int rank, const int64_t *dims) {
    for (int i = 0; i < rank; i++)
        if (b->start[i] < 0 || b->count[i] < 1 || b->stride[i] < 1 ||
            b->stride[i] > DLR_MOST_STRIDE || b->start[i] >= dims[i] ||
            b->count[i] - 1 > (dims[i] - 1 - b->start[i]) / b->stride[i])
            return false;
    return true;
}

static bool do_overlap(const dlr_block *a, const dlr_block *b, int rank) {
    for (int i = 0; i < rank; i++)
        if (!dlr_find_common(a, b, i, &(dlr_common){0})) return false;
    return true;
}

/* Checks the child's parts, which come from an untrusted file. */
static bool check_parts(dlr_hdf5_set *set, dlr_hdf5_virtual *v) {
    int64_t covered = 0, all = 1;
    int kept = 0;
    for (int i = 0; i < set->rank; i++)
        if (__builtin_mul_overflow(all, set->dims[i], &all) || all > INT64_MAX / 2)
            return refuse(set, v, "of more numbers than can be counted", "");
    for (int i = 0; i < v->parts; i++) {
        const dlr_hdf5_part p = v->part[i];
        int64_t n = 1;
        for (int k = 0; k < set->rank; k++) n *= p.at.count[k] != 0;
        if (n == 0) continue; /* a part without an end, of which the set has none */
        if (p.source < 0 || p.source >= v->sources)
            return refuse(set, v, "with a part that is damaged", "");
        const dlr_hdf5_set *s = &v->source[p.source];
        if (!is_within(&p.at, set->rank, set->dims))
            return refuse(set, v,
                          "with a part that lies out of it, or has a stride of more than 4096", "");
        if (!is_within(&p.from, s->rank, s->dims))
            return refuse(set, v, "that takes more than its source has: '", s->path);
        for (int k = 0; k < set->rank; k++) n *= p.at.count[k];
        covered += n;
        for (int k = 0; k < kept; k++)
            if (do_overlap(&p.at, &v->part[k].at, set->rank))
                return refuse(set, v,
                              "with parts that overlap, so that two sources have the same "
                              "elements: '",
                              s->path);
        v->part[kept++] = p;
    }
    v->parts = kept, v->gaps = covered < all;
    return true;
}

static bool check_sources(const char *main, dlr_hdf5_set *set, dlr_hdf5_virtual *v, dl_error *err) {
    struct stat st;
    if (dl_stat(main, &st) != 0) return dl_fail_errno(err, DL_IO, "cannot read %s", main);
    for (int i = 0; i < v->sources; i++) {
        dlr_hdf5_set *s = &v->source[i];
        if (!dlr_hdf5_check_set(s, main, st.st_size, err)) return false;
        if (s->layout == DLR_HDF5_VIRTUAL)
            return refuse(set, v, "of virtual data sets, which are not followed: '", s->path);
        if (s->layout == DLR_HDF5_EXTERNAL)
            return refuse(set, v, "of a set with external storage, which is not followed: '",
                          s->path);
        if (s->rank > DLR_ARRAY_RANK || s->element != set->element)
            return refuse(set, v, "whose source has another type of numbers: '", s->path);
    }
    return true;
}

bool dlr_hdf5_virtual_inspect(dl_arena *arena, const char *main, dlr_hdf5_set *set,
                              dlr_hdf5_virtual *v, dl_error *err) {
    virtual_job job = {main, set};
    dl_sandbox_result r;
    int counts[2];
    enum { CHILD_FILES = 8 };
    *v = (dlr_hdf5_virtual){0};
    if (!dl_check_descriptors(CHILD_FILES, main, err) ||
        !dl_sandbox_run(main, CPU_SECONDS, read_virtual, &job, &r, err))
        return false;
    bool ok = true;
    if (r.text.n)
        snprintf(set->why, sizeof set->why, "%s", r.text.at);
    else if (r.bytes.n < sizeof counts)
        ok = dl_fail(err, DL_INPUT, "%s is damaged", main);
    else {
        memcpy(counts, r.bytes.at, sizeof counts);
        v->sources = counts[0], v->parts = counts[1];
        ok = v->sources >= 0 && v->sources <= MOST_SOURCES && v->parts >= 0 &&
             v->parts <= MOST_PARTS &&
             r.bytes.n == sizeof counts + (size_t)v->sources * sizeof *v->source +
                              (size_t)v->parts * sizeof *v->part;
        if (!ok) dl_fail(err, DL_INPUT, "%s is damaged", main);
    }
    if (ok && !r.text.n) {
        const size_t bytes = (size_t)v->sources * sizeof *v->source;
        v->source = DL_NEWS(arena, dlr_hdf5_set, v->sources + 1);
        v->part = DL_NEWS(arena, dlr_hdf5_part, v->parts + 1);
        memcpy(v->source, r.bytes.at + sizeof counts, bytes);
        memcpy(v->part, r.bytes.at + sizeof counts + bytes, (size_t)v->parts * sizeof *v->part);
        ok = check_sources(main, set, v, err) && (set->why[0] || check_parts(set, v));
    }
    dl_buf_free(&r.text), dl_buf_free(&r.bytes);
    return ok;
}

/* The plan's file (.dlp), little-endian:
 *
 *     magic[8] version:u32 sections:u32 bytes:u64 checksum:u64
 *                                   header; the checksum is of all bytes after it
 *     {id:u32 zero:u32 offset:u64 bytes:u64}
 *                                   a section, in order, without gaps
 *     the sections: streams of records, as plan_records.c lists them; once more for each of the
 *     plan's predictions
 *
 * dl_plan_check checks what the numbers mean together. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/base/hash.h"
#include "ir/base/input.h"
#include "ir/base/install.h"
#include "ir/base/output.h"
#include "ir/plan/plan_records.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "plans hold machine code: bring big-endian machines here");

static const char magic[8] = {'\x89', 'D', 'L', 'P', '\r', '\n', '\x1a', '\n'};

typedef struct {
    char magic[8];
    uint32_t version, sections;
    uint64_t bytes, checksum;
} header;

typedef struct {
    uint32_t id, zero;
    uint64_t offset, bytes;
} section;

static const size_t most_bytes = (size_t)256 << 20;

enum { MOST_SECTIONS = (1 + DL_MAX_PREDICTIONS) * DL_PLAN_SECTIONS };

/* Where the first section begins. */
static size_t body(uint32_t sections) { return sizeof(header) + sections * sizeof(section); }

bool dl_plan_write(const dl_plan *p, const char *path, dl_error *err) {
    if (!dl_plan_check(p, err)) return false;
    dl_plan copies[1 + DL_MAX_PREDICTIONS] = {*p};
    for (int i = 0; i < p->predictions.n; i++) copies[1 + i] = *p->predictions.at[i];
    dl_buf b = {0};
    section table[MOST_SECTIONS] = {0};
    header h = {.version = DL_PLAN_VERSION,
                .sections = (1 + (uint32_t)p->predictions.n) * DL_PLAN_SECTIONS};
    memcpy(h.magic, magic, sizeof magic);
    dl_putn(&b, (const char *)&h, sizeof h);
    dl_putn(&b, (const char *)table, h.sections * sizeof *table);
    for (uint32_t i = 0; i < h.sections; i++) {
        table[i] = (section){.id = i, .offset = b.n};
        dl_plan_sections[i % DL_PLAN_SECTIONS](&(dl_plan_codec){.out = &b},
                                               &copies[i / DL_PLAN_SECTIONS]);
        table[i].bytes = b.n - table[i].offset;
    }
    memcpy(b.at + sizeof h, table, h.sections * sizeof *table);
    h.bytes = b.n;
    h.checksum = dl_hash(b.at + sizeof h, b.n - sizeof h, 0);
    memcpy(b.at, &h, sizeof h);
    bool ok = b.n <= most_bytes ? dl_write_file(path, b.at, b.n, err)
                                : dl_fail(err, DL_RESOURCE,
                                          "the plan is larger than the %zu MiB of a plan's file",
                                          most_bytes >> 20);
    dl_buf_free(&b);
    return ok;
}

static bool damaged(const char *path, const char *what, dl_error *err) {
    return dl_fail(err, DL_INPUT, "%s is damaged: %s; remove it and compile the model again", path,
                   what);
}

static bool check_header(const char *path, const char *file, size_t n, dl_error *err) {
    header h;
    if (n < sizeof magic || memcmp(file, magic, sizeof magic) != 0)
        return dl_fail(err, DL_INPUT, "%s is not a plan: 'dlc compile' makes plans", path);
    if (n < sizeof h) return damaged(path, "it is cut short", err);
    memcpy(&h, file, sizeof h);
    if (h.version != DL_PLAN_VERSION)
        return dl_fail(
            err, DL_INPUT,
            "%s is a plan of version %u, and this program reads %d: compile the model again", path,
            h.version, DL_PLAN_VERSION);
    if (!h.sections || h.sections > MOST_SECTIONS || h.sections % DL_PLAN_SECTIONS)
        return damaged(path, "it has not the sections of its version", err);
    if (h.bytes != n || n < body(h.sections))
        return damaged(path, n < h.bytes ? "it is cut short" : "it is too long", err);
    return h.checksum == dl_hash(file + sizeof h, n - sizeof h, 0) ||
           damaged(path, "its checksum is not that of its contents", err);
}

static bool read_sections(dl_plan *p, const char *path, const char *file, size_t n, dl_error *err) {
    header h;
    section table[MOST_SECTIONS];
    memcpy(&h, file, sizeof h);
    memcpy(table, file + sizeof h, h.sections * sizeof *table);
    size_t at = body(h.sections);
    for (uint32_t i = DL_PLAN_SECTIONS; i < h.sections; i += DL_PLAN_SECTIONS) {
        dl_plan *q = DL_NEW(p->arena, dl_plan);
        q->arena = p->arena;
        dl_push(p->arena, &p->predictions, q);
    }
    for (uint32_t i = 0; i < h.sections; i++) {
        if (table[i].id != i || table[i].zero || table[i].offset != at || table[i].bytes > n - at)
            return damaged(path, "its table of sections is out of order", err);
        dl_plan_codec c = {.at = file + at, .left = table[i].bytes, .arena = p->arena};
        dl_plan *of = i < DL_PLAN_SECTIONS ? p : p->predictions.at[i / DL_PLAN_SECTIONS - 1];
        dl_plan_sections[i % DL_PLAN_SECTIONS](&c, of);
        if (!c.fault && c.left) c.fault = "a section is longer than its records";
        if (c.fault) return damaged(path, c.fault, err);
        at += table[i].bytes;
    }
    if (at != n) return damaged(path, "there are bytes after its last section", err);
    dl_error why = {0};
    return dl_plan_check(p, &why) || damaged(path, why.message, err);
}

/* The file has code that runs with our rights: only we or root may have written it. */
static bool check_trust(const char *path, int fd, size_t *bytes, dl_error *err) {
    struct stat st;
    if (fstat(fd, &st) != 0) return dl_fail_errno(err, DL_IO, "cannot read %s", path);
    if (!dl_install_trusts(st.st_uid))
        return dl_fail(err, DL_TRUST,
                       "%s holds code and belongs to another user: compile the model yourself",
                       path);
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return dl_fail(
            err, DL_TRUST,
            "%s holds code and others may write it: if you trust its contents, 'chmod go-w %s'",
            path, path);
    if ((uint64_t)st.st_size > most_bytes)
        return dl_fail(err, DL_INPUT, "%s is larger than the %zu MiB of a plan's file", path,
                       most_bytes >> 20);
    *bytes = (size_t)st.st_size;
    return true;
}

static const char *read_trusted(dl_arena *arena, const char *path, size_t *n, dl_error *err) {
    int fd = dl_file_open(path, err);
    if (fd < 0) return NULL;
    char *data = NULL;
    if (check_trust(path, fd, n, err)) {
        data = dl_alloc(arena, *n + 1);
        for (size_t have = 0; have < *n;) {
            ssize_t k = read(fd, data + have, *n - have);
            if (k < 0 && errno == EINTR) continue;
            if (k <= 0) {
                if (k < 0)
                    dl_fail_errno(err, DL_IO, "cannot read %s", path);
                else
                    damaged(path, "it became shorter while it was read", err);
                data = NULL;
                break;
            }
            have += (size_t)k;
        }
    }
    close(fd);
    return data;
}

dl_plan *dl_plan_read(dl_arena *parent, const char *path, dl_error *err) {
    dl_arena *arena = dl_arena_new(parent);
    dl_plan *p = DL_NEW(arena, dl_plan);
    p->arena = arena;
    size_t n = 0;
    const char *file = read_trusted(arena, path, &n, err); /* strings and images point into it */
    if (file && check_header(path, file, n, err) && read_sections(p, path, file, n, err)) return p;
    dl_arena_free(arena);
    return NULL;
}

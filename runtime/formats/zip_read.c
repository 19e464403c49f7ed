#include <stdlib.h>

#include "ir/base/input.h"
#include "runtime/formats/zip.h"

enum {
    END = 22,     /* end of central directory */
    LOCATOR = 20, /* of the zip64 end, right before it */
    END64 = 56,
    LOCAL = 30,          /* bytes of a local header before its name */
    CENTRAL = 46,        /* the same of a directory entry */
    WIDE_FIELD = 0x0001, /* id of the zip64 extra field */
    ENCRYPTED = 1,
    STORED = 0, /* methods */
    DEFLATED = 8
};

static uint16_t u16(const unsigned char *p) { return (uint16_t)(p[0] | p[1] << 8); }
static uint32_t u32(const unsigned char *p) {
    return (uint32_t)u16(p) | (uint32_t)u16(p + 2) << 16;
}
static uint64_t u64(const unsigned char *p) {
    return (uint64_t)u32(p) | (uint64_t)u32(p + 4) << 32;
}

typedef struct {
    dl_arena *arena;
    int fd;
    const char *path;
    uint64_t size;               /* of the file */
    uint64_t at, bytes, entries; /* the directory */
    uint64_t end;                /* the offset of the first record after the directory */
    dl_error *err;
} reader;

static bool damaged(const reader *r, const char *what) {
    return dl_fail(r->err, DL_INPUT, "%s: a damaged zip file: %s", r->path, what);
}

static bool at(const reader *r, uint64_t offset, void *dst, size_t n) {
    return dl_read_at(r->fd, r->path, dst, n, (int64_t)offset, r->err);
}

/* Reads the zip64 end record of a file whose directory needs 64 bits: its offset, and its
 * values. */
static bool read_end64(reader *r) {
    unsigned char locator[LOCATOR], end[END64];
    if (r->size < END + LOCATOR + END64 || !at(r, r->size - END - LOCATOR, locator, LOCATOR))
        return damaged(r, "no room for its zip64 record");
    if (u32(locator) != 0x07064b50) return damaged(r, "no zip64 locator where sizes ask for one");
    r->end = u64(locator + 8);
    if (r->end > r->size - END - LOCATOR - END64)
        return damaged(r, "its zip64 record lies after the file's end");
    if (!at(r, r->end, end, END64)) return false;
    if (u32(end) != 0x06064b50 || u32(end + 16) != 0 || u32(end + 20) != 0)
        return damaged(r, "its zip64 record does not begin as one");
    r->entries = u64(end + 32), r->bytes = u64(end + 40), r->at = u64(end + 48);
    return true;
}

static bool read_end(reader *r) {
    unsigned char end[END];
    if (r->size < END) return damaged(r, "shorter than a zip file's end: cut off?");
    if (!at(r, r->size - END, end, END)) return false;
    if (u32(end) != 0x06054b50 || u16(end + 20) != 0)
        return damaged(r, "no directory at its end: cut off, or still being written?");
    if (u16(end + 4) != 0 || u16(end + 6) != 0) return damaged(r, "it is one part of several");
    r->entries = u16(end + 10), r->bytes = u32(end + 12), r->at = u32(end + 16),
    r->end = r->size - END;
    if ((r->entries == 0xffff || r->bytes == 0xffffffff || r->at == 0xffffffff) && !read_end64(r))
        return false;
    if (r->bytes > DLR_ST_MAX_HEADER) return damaged(r, "its directory has more than 100 MB");
    if (r->at > r->end || r->bytes > r->end - r->at)
        return damaged(r, "its directory lies outside of the file");
    if (r->entries > r->bytes / CENTRAL)
        return damaged(r, "its directory has no room for its entries");
    return true;
}

static bool bad_entry(const reader *r, const char *name, const char *what) {
    return dl_fail(r->err, DL_INPUT, "%s: entry '%.200s' of the zip file %s", r->path, name, what);
}

/* Reads the extra field for sizes and offset that need 64 bits: it has exactly those that do, in
 * this order. */
static bool read_wide(const reader *r, const char *name, const unsigned char *extra, size_t n,
                      uint64_t *values[3]) {
    bool wanted = false;
    for (int i = 0; i < 3; i++) wanted = wanted || *values[i] == 0xffffffff;
    if (!wanted) return true;
    while (n >= 4) {
        size_t field = u16(extra + 2);
        if (field > n - 4) break;
        if (u16(extra) != WIDE_FIELD) {
            extra += 4 + field, n -= 4 + field;
            continue;
        }
        const unsigned char *p = extra + 4;
        for (int i = 0; i < 3; i++) {
            if (*values[i] != 0xffffffff) continue;
            if (field < 8) return bad_entry(r, name, "has a zip64 field that is too short");
            *values[i] = u64(p), p += 8, field -= 8;
        }
        return true;
    }
    return bad_entry(r, name, "lacks the zip64 field that its sizes ask for");
}

/* Reads the entry's local header, which must agree with the directory; its data follow it. */
static bool read_local(const reader *r, dlr_zip_entry *e, size_t name_bytes) {
    unsigned char head[LOCAL];
    if (r->at < LOCAL || e->header > r->at - LOCAL)
        return bad_entry(r, e->name, "starts after the data's end");
    if (!at(r, e->header, head, LOCAL)) return false;
    uint64_t names = e->header + LOCAL;
    e->at = names + u16(head + 26) + u16(head + 28);
    if (u32(head) != 0x04034b50 || u16(head + 8) != (e->deflated ? DEFLATED : STORED) ||
        u16(head + 26) != name_bytes || e->at > r->at)
        return bad_entry(r, e->name, "has another header than the directory says");
    char name[1 << 16];
    if (!at(r, names, name, name_bytes)) return false;
    if (memcmp(name, e->name, name_bytes) != 0)
        return bad_entry(r, e->name, "has another name than the directory says");
    return e->bytes <= r->at - e->at || bad_entry(r, e->name, "is larger than the file");
}

/* One entry of the directory; advances *p. */
static bool read_entry(const reader *r, const unsigned char **p, const unsigned char *end,
                       dlr_zip_entry *e) {
    const unsigned char *c = *p;
    if (end - c < CENTRAL || u32(c) != 0x02014b50) return damaged(r, "its directory breaks off");
    size_t name = u16(c + 28), extra = u16(c + 30), comment = u16(c + 32);
    if ((size_t)(end - c) - CENTRAL < name + extra + comment)
        return damaged(r, "its directory breaks off");
    if (name == 0 || memchr(c + CENTRAL, 0, name))
        return damaged(r, "an entry's name is empty or has a zero byte");
    e->name = dl_strndup(r->arena, (const char *)c + CENTRAL, name);
    if (u16(c + 8) & ENCRYPTED) return bad_entry(r, e->name, "is encrypted");
    if (u16(c + 10) != STORED && u16(c + 10) != DEFLATED)
        return bad_entry(
            r, e->name, "is compressed by a method that is not supported (stored and deflate are)");
    e->deflated = u16(c + 10) == DEFLATED;
    e->crc = u32(c + 16), e->bytes = u32(c + 20), e->unpacked = u32(c + 24),
    e->header = u32(c + 42);
    if (!read_wide(r, e->name, c + CENTRAL + name, extra,
                   (uint64_t *[]){&e->unpacked, &e->bytes, &e->header}))
        return false;
    if (!e->deflated && e->unpacked != e->bytes)
        return bad_entry(r, e->name, "has two sizes, though it is not compressed");
    *p = c + CENTRAL + name + extra + comment;
    return read_local(r, e, name);
}

static int by_place(const void *a, const void *b) {
    const dlr_zip_entry *x = a, *y = b;
    return (x->header > y->header) - (x->header < y->header);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const dlr_zip_entry *)a)->name, ((const dlr_zip_entry *)b)->name);
}

static bool check_apart(const reader *r, dlr_zip *z) {
    if (z->n > 1) qsort(z->entries, (size_t)z->n, sizeof *z->entries, by_place);
    for (int i = 1; i < z->n; i++) {
        const dlr_zip_entry *before = &z->entries[i - 1], *e = &z->entries[i];
        if (e->header < before->at + before->bytes)
            return bad_entry(r, e->name, "overlaps another one");
    }
    if (z->n > 1) qsort(z->entries, (size_t)z->n, sizeof *z->entries, by_name);
    for (int i = 1; i < z->n; i++)
        if (by_name(&z->entries[i - 1], &z->entries[i]) == 0)
            return bad_entry(r, z->entries[i].name, "is there twice");
    return true;
}

bool dlr_zip_read(dl_arena *arena, int fd, const char *path, uint64_t size, dlr_zip *zip,
                  dl_error *err) {
    reader r = {.arena = arena, .fd = fd, .path = path, .size = size, .err = err};
    if (!read_end(&r)) return false;
    unsigned char *directory = dl_alloc(arena, (size_t)r.bytes + 1);
    const unsigned char *p = directory, *end = directory + r.bytes;
    if (!at(&r, r.at, directory, (size_t)r.bytes)) return false;
    *zip = (dlr_zip){.entries = DL_NEWS(arena, dlr_zip_entry, r.entries + 1)};
    for (; zip->n < (int)r.entries; zip->n++)
        if (!read_entry(&r, &p, end, &zip->entries[zip->n])) return false;
    if (p != end) return damaged(&r, "its directory has more bytes than entries");
    if (zip->n == 0) return damaged(&r, "it is empty");
    zip->first = zip->entries[0].name, zip->unsummed = true;
    for (int i = 0; i < zip->n; i++) zip->unsummed = zip->unsummed && zip->entries[i].crc == 0;
    return check_apart(&r, zip);
}

const dlr_zip_entry *dlr_zip_find(const dlr_zip *z, const char *name) {
    const dlr_zip_entry key = {.name = name};
    return bsearch(&key, z->entries, (size_t)z->n, sizeof key, by_name);
}

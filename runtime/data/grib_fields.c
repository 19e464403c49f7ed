#include "runtime/data/grib_fields.h"

#include <stdlib.h>
#include <string.h>

#include "ir/base/input.h"
#include "runtime/data/byte_order.h"

enum {
    WINDOW = 4096,
    INDICATOR_1 = 8, /* bytes of section 0, by edition */
    INDICATOR_2 = 16,
    END = 4,          /* bytes of "7777" */
    NUMBERS = 7,      /* the section of the numbers, edition 2 */
    BITMAP = 6,       /* and of the bitmap */
    NUMBERS_1 = 4,    /* the section of the numbers, edition 1 */
    HEAD_NUMBERS = 64 /* bytes of it that describe how the numbers are packed */
};

/* A file of which a window is held. */
typedef struct {
    int fd;
    const char *path;
    int64_t size, at;
    size_t n;
    unsigned char bytes[WINDOW];
    dl_error *err;
} view;

/* The next bytes at `at`, which the file has; NULL with an error. */
static const unsigned char *look(view *v, int64_t at, size_t n) {
    if (at < v->at || at + (int64_t)n > v->at + (int64_t)v->n) {
        const int64_t left = v->size - at;
        v->at = at, v->n = left < WINDOW ? (size_t)left : WINDOW;
        if (!dl_read_at(v->fd, v->path, v->bytes, v->n, at, v->err)) return v->n = 0, NULL;
    }
    return v->bytes + (at - v->at);
}

/* The first error counts: a read that failed is no damage. */
static bool fail_at(const view *v, int64_t at, const char *why) {
    if (v->err->code != DL_OK) return false;
    return dl_fail(v->err, DL_INPUT, "%s is damaged: its message at byte %lld %s", v->path,
                   (long long)at, why);
}

/* The length of a section of edition 1 that lies within `end`; -1 with an error. */
static int64_t length_1(view *v, const dlr_grib_field *f, int64_t at, int64_t end) {
    const unsigned char *p = end - at >= 3 ? look(v, at, 3) : NULL;
    const int64_t n = p ? (int64_t)dlr_load(p, 3, true) : -1;
    if (p && n >= 3 && n <= end - at) return n;
    fail_at(v, f->at, "has sections beyond its end");
    return -1;
}

/* Takes the sections of a message of edition 1. Where the numbers take more than 8 MiB, lengths
 * count 120 bytes, and that of the numbers says how many of these are not used. */
static bool take_1(view *v, dlr_grib_field *f, dlr_grib_fields *found, dl_arena *arena) {
    const bool large = f->bytes >> 23;
    int64_t at = f->at + INDICATOR_1, end = large ? v->size : f->at + f->bytes;
    unsigned flags = 0;
    for (int i = 1; i <= NUMBERS_1; i++) {
        if ((i == 2 && !(flags & 0x80)) || (i == 3 && !(flags & 0x40))) continue;
        const int64_t n = length_1(v, f, at, end);
        if (n < 0) return false;
        if (i == 1) {
            const unsigned char *p = n >= 8 ? look(v, at, 8) : NULL;
            if (!p) return fail_at(v, f->at, "has too short a section 1");
            flags = p[7];
        }
        f->section[i] = at, f->length[i] = n;
        at += n;
    }
    if (large && f->length[NUMBERS_1] < 120) {
        f->bytes = (f->bytes & 0x7fffff) * 120 - f->length[NUMBERS_1] + 4;
        f->length[NUMBERS_1] = f->at + f->bytes - END - f->section[NUMBERS_1];
        if (f->length[NUMBERS_1] < 11) return fail_at(v, f->at, "has too short a section 4");
    }
    if (f->bytes > v->size - f->at) return fail_at(v, f->at, "does not end within the file");
    if (f->section[NUMBERS_1] + f->length[NUMBERS_1] > f->at + f->bytes - END)
        return fail_at(v, f->at, "has sections beyond its end");
    dl_push(arena, found, *f);
    return true;
}

/* Takes the bitmap of a field, or the one before it where that is in common. */
static bool take_bitmap(view *v, dlr_grib_field *f, int64_t at, int64_t n, int64_t bitmap[2]) {
    const unsigned char *p = n >= 6 ? look(v, at, 6) : NULL;
    if (!p) return fail_at(v, f->at, "has too short a section 6");
    enum { HERE = 0, BEFORE = 254 };
    if (p[5] == HERE) bitmap[0] = at, bitmap[1] = n;
    if (p[5] == BEFORE && !bitmap[1]) return fail_at(v, f->at, "has no bitmap to repeat");
    f->section[BITMAP] = p[5] == BEFORE ? bitmap[0] : at;
    f->length[BITMAP] = p[5] == BEFORE ? bitmap[1] : n;
    return true;
}

/* Takes the sections of a message of edition 2, in which sections 2 to 7, 3 to 7 or 4 to 7 may be
 * repeated. */
static bool take_2(view *v, dlr_grib_field *f, dlr_grib_fields *found, dl_arena *arena) {
    const int64_t end = f->at + f->bytes - END;
    int64_t at = f->at + INDICATOR_2, bitmap[2] = {0};
    for (int before = 0, number; at < end; before = number) {
        const unsigned char *p = end - at >= 5 ? look(v, at, 5) : NULL;
        if (!p) return fail_at(v, f->at, "has sections beyond its end");
        const int64_t n = (int64_t)dlr_load(p, 4, true);
        number = p[4];
        if (n < 5 || n > end - at) return fail_at(v, f->at, "has sections beyond its end");
        const bool follows = before == NUMBERS ? number >= 2 && number <= 4
                             : before == 1     ? number == 2 || number == 3
                                               : number == before + 1;
        if (!follows) return fail_at(v, f->at, "has sections in another order than GRIB's");
        f->section[number] = at, f->length[number] = n;
        if (number == BITMAP && !take_bitmap(v, f, at, n, bitmap)) return false;
        if (number == NUMBERS) dl_push(arena, found, *f);
        if (found->n > DLR_GRIB_MOST) return true;
        at += n;
    }
    return (found->n && found->at[found->n - 1].at == f->at) ||
           fail_at(v, f->at, "has no section 7");
}

/* The next message at or after `at`; the file's size: there is none; -1 with an error. */
static int64_t find_message(view *v, int64_t at) {
    while (v->size - at >= INDICATOR_2) {
        const unsigned char *p = look(v, at, 4);
        if (!p) return -1;
        if (memcmp(p, "GRIB", 4) == 0) return at;
        const unsigned char *next = memchr(p + 1, 'G', v->n - (size_t)(p - v->bytes) - 1);
        at = v->at + (next ? next - v->bytes : (ptrdiff_t)v->n);
    }
    return v->size;
}

static bool take_message(view *v, int64_t at, dlr_grib_fields *found, dl_arena *arena,
                         int64_t *end) {
    const unsigned char *p = look(v, at, INDICATOR_2);
    if (!p) return false;
    dlr_grib_field f = {.edition = p[7], .at = at};
    f.bytes = (int64_t)(f.edition == 2 ? dlr_load(p + 8, 8, true) : dlr_load(p + 4, 3, true));
    const bool large = f.edition == 1 && f.bytes >> 23;
    if (f.edition != 1 && f.edition != 2) return fail_at(v, at, "is of no edition 1 or 2");
    if (!large && (f.bytes < INDICATOR_2 + END || f.bytes > v->size - at))
        return fail_at(v, at, "does not end within the file");
    const int before = found->n;
    if (!(f.edition == 1 ? take_1 : take_2)(v, &f, found, arena)) return false;
    if (found->n > before) f.bytes = found->at[before].bytes;
    *end = at + f.bytes;
    p = look(v, *end - END, END);
    return p && (memcmp(p, "7777", END) == 0 || fail_at(v, at, "does not end with 7777"));
}

bool dlr_grib_find(dl_arena *arena, int fd, const char *path, int64_t size, dlr_grib_fields *found,
                   dl_error *err) {
    view v = {.fd = fd, .path = path, .size = size, .err = err};
    int64_t at = 0;
    while (found->n <= DLR_GRIB_MOST) {
        at = find_message(&v, at);
        if (at < 0) return false;
        if (at == size) break;
        if (!take_message(&v, at, found, arena, &at)) return false;
    }
    if (found->n > DLR_GRIB_MOST)
        return dl_fail(err, DL_INPUT, "%s has more than %d fields: cut it into files", path,
                       DLR_GRIB_MOST);
    return found->n > 0 || dl_fail(err, DL_INPUT, "%s has no whole message of GRIB", path);
}

/* ---- a message of one field ---- */

/* The bytes of a section that the message gets. */
static int64_t kept_bytes(const dlr_grib_field *f, int i, bool head) {
    if (head && f->edition == 2 && i == NUMBERS) return 5;
    if (head && f->edition == 2 && i == BITMAP) return f->length[i] ? 6 : 0;
    if (head && f->edition == 1 && i == NUMBERS_1 && f->length[i] > HEAD_NUMBERS)
        return HEAD_NUMBERS;
    return f->length[i];
}

static unsigned char *put_sections(int fd, const char *path, const dlr_grib_field *f, bool head,
                                   unsigned char *to, dl_error *err) {
    const size_t size = f->edition == 2 ? 4 : 3; /* bytes of a section's length */
    for (int i = 1; i < DLR_GRIB_SECTIONS; i++) {
        const int64_t n = kept_bytes(f, i, head);
        if (n == 0) continue;
        if (!dl_read_at(fd, path, to, (size_t)n, f->section[i], err)) return NULL;
        if (n != f->length[i]) dlr_store(to, (uint64_t)n, size, true);
        if (n != f->length[i] && f->edition == 2 && i == BITMAP) to[5] = 255; /* none */
        to += n;
    }
    return to;
}

unsigned char *dlr_grib_message(int fd, const char *path, const dlr_grib_field *f, bool head,
                                size_t *n, dl_error *err) {
    const size_t first = f->edition == 2 ? INDICATOR_2 : INDICATOR_1;
    const bool whole = f->edition == 1 && !head;
    *n = whole ? (size_t)f->bytes : first + END;
    for (int i = 1; !whole && i < DLR_GRIB_SECTIONS; i++) *n += (size_t)kept_bytes(f, i, head);
    unsigned char *message = malloc(*n);
    if (!message) return dl_fail(err, DL_RESOURCE, "no memory for a message of %s", path), NULL;
    bool ok = dl_read_at(fd, path, message, whole ? *n : first, f->at, err);
    unsigned char *end =
        ok && !whole ? put_sections(fd, path, f, head, message + first, err) : message;
    ok = ok && end;
    if (ok && !whole) {
        memcpy(end, "7777", END);
        if (f->edition == 2)
            dlr_store(message + 8, *n, 8, true);
        else
            dlr_store(message + 4, *n, 3, true);
    }
    if (ok) return message;
    free(message);
    return NULL;
}

/* Zip files of PyTorch's and of others: damaged, hostile, large, without checksums. */
#include "tests/unit/torch_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/formats/zip.h"
#include "tests/check.h"

/* ---- zip files by hand ---- */

static unsigned char *good;
static size_t good_n;

static const char *write_bytes(const void *data, size_t n) {
    const char *path = in_dir("zip.pt");
    dl_error err = {0};
    CHECK(dl_write_file(path, data, n, &err), "%s", err.message);
    return path;
}

void load_good(void) {
    static const char pickle[] = MODEL(V2 "(" BYTES12 "K\0K\x0c\x85K\1\x85\x89" HOOKS "tR");
    dl_error err = {0};
    const char *path = write_handmade(pickle, sizeof pickle - 1, 12);
    good = (unsigned char *)dl_strdup(arena, ""), good_n = 0;
    struct stat st;
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0 && fstat(fd, &st) == 0);
    good_n = (size_t)st.st_size, good = dl_alloc(arena, good_n);
    CHECK(read(fd, good, good_n) == (ssize_t)good_n);
    close(fd);
    dlr_st_file *f = dlr_st_open(path, DLR_ST_PLAIN, &err);
    CHECK(f, "%s", err.message);
    dlr_st_close(f);
}

/* The bytes of data/0 in `good`, which count up. */
static size_t find_storage(void) {
    for (size_t at = 0; at + 12 <= good_n; at++)
        for (int k = 0; k < 12 && good[at + (size_t)k] == k; k++)
            if (k == 11) return at;
    return 0;
}

void test_damaged_zip(void) {
    size_t storage = find_storage();
    CHECK(storage > 0);
    for (size_t n = 0; n < good_n; n++) {
        dl_error err = {0};
        dlr_st_file *f = dlr_st_open(write_bytes(good, n), DLR_ST_PLAIN, &err);
        CHECK(!f && err.code == DL_INPUT, "%zu bytes: %s", n, err.message);
        dlr_st_close(f);
    }
    int fd = open(write_bytes(good, good_n), O_RDWR);
    for (size_t bit = 0; bit < 8 * good_n; bit++) {
        unsigned char flipped = (unsigned char)(good[bit / 8] ^ 1 << bit % 8);
        CHECK(pwrite(fd, &flipped, 1, (off_t)(bit / 8)) == 1);
        dl_error err = {0};
        dlr_st_file *f = dlr_st_open(in_dir("zip.pt"), DLR_ST_STRIP, &err);
        CHECK(f ? err.code == DL_OK : err.code == DL_INPUT, "bit %zu: %s", bit, err.message);
        for (int i = 0; f && i < f->n; i++) {
            char copy[100];
            bool its_own = bit / 8 >= storage && bit / 8 < storage + 12;
            CHECK(f->tensors[i].bytes == 12);
            bool loaded = dlr_st_load(f, &f->tensors[i], copy, &err);
            CHECK(loaded
                      ? !its_own && memcmp(copy, good + storage, 12) == 0
                      : err.code == DL_INPUT && strstr(err.message, "checksum of entry 'x/data/0'"),
                  "bit %zu: %s", bit, err.message);
        }
        dlr_st_close(f);
        CHECK(pwrite(fd, &good[bit / 8], 1, (off_t)(bit / 8)) == 1);
    }
    close(fd);
}

static void put32(unsigned char *p, uint64_t v) {
    for (int i = 0; i < 4; i++) p[i] = (unsigned char)(v >> 8 * i);
}
static uint32_t get32(const unsigned char *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

void test_hostile_zip(void) {
    size_t end = good_n - 22, at = get32(good + end + 16);
    const struct {
        const char *says;
        size_t where;
        uint64_t value;
    } cases[] = {
        {"is compressed", at + 10, 9},
        {"is encrypted", at + 8, 0x0801},
        {"two sizes", at + 20, 5},
        {"lacks the zip64 field", at + 42, 0xffffffff},
        {"starts after", at + 42, 0xfffffffe},
        {"starts after", at + 42, at - 3},
        {"another header", at + 42, 1},
        {"another name", 30, 0x61642f79 /* y/da */},
        {"no directory", end, 0},
        {"one part of several", end + 4, 1},
        {"outside of the file", end + 16, 0xfffffffe},
        {"outside of the file", end + 12, at},
        {"no room for its entries", end + 10, 0xfffe},
        {"more than 100 MB", end + 12, 0xfffffffe},
        {"no zip64 locator", end + 16, 0xffffffff},
        {"breaks off", at, 0},
        {"more bytes than entries", end + 10, 1},
        {"breaks off", at + 28, 0xffff},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char *copy = dl_alloc(arena, good_n);
        memcpy(copy, good, good_n);
        bool narrow = cases[i].where == at + 10 || cases[i].where == at + 8 ||
                      cases[i].where == end + 4 || cases[i].where == end + 10 ||
                      cases[i].where == at + 28;
        if (narrow)
            copy[cases[i].where] = (unsigned char)cases[i].value,
            copy[cases[i].where + 1] = (unsigned char)(cases[i].value >> 8);
        else
            put32(copy + cases[i].where, cases[i].value);
        dl_error err = {0};
        dlr_st_file *f = dlr_st_open(write_bytes(copy, good_n), DLR_ST_PLAIN, &err);
        CHECK(!f && err.code == DL_INPUT && strstr(err.message, cases[i].says), "%zu, %s: %s", i,
              cases[i].says, err.message);
        dlr_st_close(f);
    }
    /* Sizes that make the first entry reach over the second. */
    unsigned char *copy = dl_alloc(arena, good_n);
    memcpy(copy, good, good_n);
    put32(copy + at + 20, get32(good + at + 20) + 40),
        put32(copy + at + 24, get32(good + at + 24) + 40);
    dl_error err = {0};
    CHECK(!dlr_st_open(write_bytes(copy, good_n), DLR_ST_PLAIN, &err) &&
              strstr(err.message, "overlaps"),
          "%s", err.message);
}

void test_unsummed_zip(void) {
    unsigned char *copy = dl_alloc(arena, good_n);
    for (int summed = 0; summed < 2; summed++) {
        memcpy(copy, good, good_n);
        size_t p = get32(good + good_n - 22 + 16);
        for (int i = 0; i < 2; i++, p += 46 + (size_t)good[p + 28])
            put32(copy + p + 16, i ? 0 : (uint64_t)summed);
        dl_error err = {0};
        char data[12];
        dlr_st_file *f = dlr_st_open(write_bytes(copy, good_n), DLR_ST_PLAIN, &err);
        CHECK(summed ? !f && strstr(err.message, "checksum of entry 'x/data.pkl'")
                     : f && dlr_st_load(f, &f->tensors[0], data, &err) && data[11] == 11,
              "%s", err.message);
        dlr_st_close(f);
    }
}

void test_zip64(void) {
    size_t end = good_n - 22, at = get32(good + end + 16), p = at;
    dl_buf b = {0};
    dl_putn(&b, (char *)good, at);
    for (int i = 0; i < 2;
         i++) { /* each entry with its sizes and its place in the wide field, after another one */
        unsigned char head[46], extra[4 + 3 + 4 + 24] = {9, 9, 3, 0, 1, 2, 3, 1, 0, 24, 0};
        size_t name = good[p + 28];
        memcpy(head, good + p, 46);
        for (int k = 0; k < 3; k++) {
            static const int from[] = {24, 20, 42};
            memcpy(extra + 11 + 8 * k, good + p + from[k], 4);
            put32(head + from[k], 0xffffffff);
        }
        head[30] = sizeof extra;
        dl_putn(&b, (char *)head, 46), dl_putn(&b, (char *)good + p + 46, name);
        dl_putn(&b, (char *)extra, sizeof extra);
        p += 46 + name;
    }
    unsigned char tail[56 + 20 + 22] = "PK\6\6\x2c";
    size_t wide = b.n;
    tail[24] = tail[32] = 2;
    put32(tail + 40, wide - at), put32(tail + 48, at);
    memcpy(tail + 56, "PK\6\7", 4), put32(tail + 64, wide), tail[72] = 1;
    memset(tail + 76, 0xff, 20), memcpy(tail + 76, "PK\5\6\0\0\0\0", 8), tail[96] = tail[97] = 0;
    dl_putn(&b, (char *)tail, sizeof tail);
    dl_error err = {0};
    dlr_st_file *f = dlr_st_open(write_bytes(b.at, b.n), DLR_ST_PLAIN, &err);
    CHECK(f && f->n == 1 && f->tensors[0].bytes == 12, "%s", err.message);
    char data[12];
    CHECK(f && dlr_st_load(f, &f->tensors[0], data, &err) && data[11] == 11, "%s", err.message);
    dlr_st_close(f);
    b.at[find_storage() + 5] ^= 4;
    f = dlr_st_open(write_bytes(b.at, b.n), DLR_ST_PLAIN, &err);
    CHECK(f && !dlr_st_load(f, &f->tensors[0], data, &err) && strstr(err.message, "checksum"), "%s",
          err.message);
    dlr_st_close(f);
    err = (dl_error){0};
    put32((unsigned char *)b.at + wide + 56 + 8, 0x7fffffff);
    CHECK(!dlr_st_open(write_bytes(b.at, b.n), DLR_ST_PLAIN, &err) &&
              strstr(err.message, "after the file's end"),
          "%s", err.message);
    dl_buf_free(&b);
}

typedef struct {
    const char *names[3], *texts[3];
} entries;

static bool put_entries(dlr_st_stream *s, dl_arena *a, const void *ctx) {
    const entries *e = ctx;
    dlr_zip_writer z = {.s = s};
    (void)a;
    s->counts_crc = true;
    bool ok = true;
    for (int i = 0; i < 3 && e->names[i]; i++)
        ok = ok && dlr_zip_put(&z, e->names[i], e->texts[i], strlen(e->texts[i]));
    ok = ok && dlr_zip_finish(&z);
    dlr_zip_free(&z);
    return ok;
}

void test_foreign_archives(void) {
    static const struct {
        entries e;
        const char *says; /* NULL: it is read */
    } cases[] = {
        {{{"a/data.pkl"}, {"\x80\2}."}}, NULL},
        {{{"a/data.pkl", "a/byteorder"}, {"\x80\2}.", "little"}}, NULL},
        {{{"a/data.pkl", "a/byteorder"}, {"\x80\2}.", "big"}}, "not little-endian"},
        {{{"a/data.pkl", "a/byteorder"}, {"\x80\2}.", "little, or nearly"}}, "not little-endian"},
        {{{"a/b", "b/data.pkl"}, {"", "\x80\2}."}}, "without a/data.pkl"},
        {{{"readme.txt"}, {"x"}}, "it begins with 'readme.txt'"},
        {{{"/data.pkl"}, {"\x80\2}."}}, "it begins with '/data.pkl'"},
        {{{"a/data.pkl", "a/data.pkl"}, {"\x80\2}.", "\x80\2}."}}, "is there twice"},
        {{{NULL}, {NULL}}, "it is empty"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_error err = {0};
        const char *path = in_dir("hand.pt");
        CHECK(dlr_st_write_as(path, &(dlr_st_content){0}, put_entries, &cases[i].e, NULL, &err),
              "%s", err.message);
        dlr_st_file *f = dlr_st_open(path, DLR_ST_PLAIN, &err);
        CHECK(cases[i].says ? !f && err.code == DL_INPUT && strstr(err.message, cases[i].says)
                            : f != NULL,
              "%zu: %s", i, err.message);
        dlr_st_close(f);
    }
}

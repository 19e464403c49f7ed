/* PyTorch's files: round trips, views, and hostile files. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/base/output.h"
#include "runtime/formats/torch_file.h"
#include "runtime/formats/zip.h"
#include "tests/check.h"

static char dir[] = "/tmp/dl_test_XXXXXX";
static dl_arena *arena;

static const char *in_dir(const char *name) { return dl_format(arena, "%s/%s", dir, name); }

static bool fill(void *ctx, int index, int64_t first, int64_t n, void *dst, dl_error *err) {
    (void)err, (void)ctx;
    for (int64_t i = 0; i < n; i++) ((float *)dst)[i] = (float)(10 * index + first + i);
    return true;
}

static dlr_torch_value text(const char *s) {
    return (dlr_torch_value){.kind = DLR_TORCH_TEXT, .text = s};
}
static dlr_torch_value tensor(const dlr_st_tensor *t) {
    return (dlr_torch_value){.kind = DLR_TORCH_TENSOR, .tensor = t};
}
static dlr_torch_value whole(int64_t n) {
    return (dlr_torch_value){.kind = DLR_TORCH_INT, .integer = n};
}

static void test_round_trip(void) {
    static const unsigned char odd[3] = {1, 0, 1};
    static const int64_t count = -7;
    dlr_st_tensor tensors[] = {
        {.name = "module.flags", .dtype = DLR_ST_BOOL, .rank = 1, .shape = {3}, .data = odd},
        {.name = "conv.weight", .dtype = DLR_ST_F32, .rank = 2, .shape = {2, 3}},
        {.name = "count", .dtype = DLR_ST_I64, .rank = 0, .data = &count},
        {.name = "empty \"\xc3\xa9\"", .dtype = DLR_ST_F16, .rank = 3, .shape = {4, 0, 5}},
    };
    dlr_st_content content = {.tensors = tensors, .n = 4, .read = fill, .finite = true};
    dlr_st_written written = {0};
    dl_error err = {0};
    const char *const names[] = {"a.pt", "a.pth", "a.tar"};
    for (int i = 0; i < 3; i++) {
        const char *path = in_dir(names[i]);
        CHECK(dlr_st_write(path, &content, &written, &err), "%s", err.message);
        struct stat st;
        CHECK(stat(path, &st) == 0 && (uint64_t)st.st_size == written.bytes);
        dlr_st_file *f = dlr_st_open(path, DLR_ST_STRIP, &err);
        CHECK(f && f->n == 4 && dlr_torch_root(f), "%s", err.message);
        if (!f) return;
        const dlr_st_tensor *w = dlr_st_find(f, "conv.weight"), *c = dlr_st_find(f, "count");
        float values[6];
        int64_t got = 0;
        CHECK(dlr_st_find(f, "flags") && dlr_st_find(f, "empty \"\xc3\xa9\"") &&
              !dlr_st_find(f, "none"));
        CHECK(w && w->rank == 2 && !w->view && dlr_st_load_f32(f, w, values, &err) &&
              values[0] == 10 && values[5] == 15);
        CHECK(c && dlr_st_load(f, c, &got, &err) && got == -7);
        CHECK(((uintptr_t)w->data & 63) == 0, "aligned as PyTorch does it");
        dlr_st_close(f);
    }
    dlr_st_file *f = dlr_st_open(in_dir("a.pt"), DLR_ST_PLAIN, &err);
    CHECK(f && dlr_st_find(f, "module.flags") && dlr_st_check(f, tensors, 4, &err), "%s",
          err.message);
    dlr_st_close(f);
}

static void test_refused_writing(void) {
    static const float bad[2] = {1, NAN};
    dlr_st_tensor t[] = {{.name = "a", .dtype = DLR_ST_F32, .rank = 1, .shape = {2}, .data = bad},
                         {.name = "a", .dtype = DLR_ST_F32, .rank = 1, .shape = {2}, .data = bad}};
    const char *path = in_dir("refused.pt");
    dl_error err = {0};
    dlr_st_content content = {.tensors = t, .n = 1, .finite = true};
    CHECK(!dlr_st_write(path, &content, NULL, &err) && err.code == DL_NUMERIC &&
          strstr(err.message, "nan at [1]"));
    content = (dlr_st_content){.tensors = t, .n = 2};
    err = (dl_error){0};
    CHECK(!dlr_st_write(path, &content, NULL, &err) && strstr(err.message, "'a' is there twice"),
          "%s", err.message);
    t[1].name = "\xff", err = (dl_error){0};
    CHECK(!dlr_st_write(path, &content, NULL, &err) && strstr(err.message, "UTF-8"), "%s",
          err.message);
    t[1].name = "b", t[1].dtype = DLR_ST_U16, err = (dl_error){0};
    CHECK(!dlr_st_write(path, &content, NULL, &err) && strstr(err.message, "U16"), "%s",
          err.message);
    t[1].dtype = DLR_ST_F32, t[1].shape[0] = -1, err = (dl_error){0};
    CHECK(!dlr_st_write(path, &content, NULL, &err) && strstr(err.message, "no valid shape"), "%s",
          err.message);
    content.n = 1, content.n_metadata = 1, err = (dl_error){0};
    CHECK(!dlr_st_write(path, &content, NULL, &err) && strstr(err.message, "metadata"), "%s",
          err.message);
    CHECK(access(path, F_OK) != 0, "nothing was left");
}

/* ---- pickles by hand ---- */

typedef struct {
    const char *pickle;
    size_t n;
    uint64_t storage; /* bytes of data/0, which count up */
} handmade;

static bool put_handmade(dlr_st_stream *s, dl_arena *a, const void *ctx) {
    const handmade *h = ctx;
    dlr_zip_writer z = {.s = s};
    char *data = dl_alloc(a, h->storage + 1);
    s->counts_crc = true;
    for (uint64_t i = 0; i < h->storage; i++) data[i] = (char)i;
    bool ok = dlr_zip_put(&z, "x/data.pkl", h->pickle, h->n) &&
              dlr_zip_put(&z, "x/data/0", data, h->storage) && dlr_zip_finish(&z);
    dlr_zip_free(&z);
    return ok;
}

static const char *write_handmade(const char *pickle, size_t n, uint64_t storage) {
    const char *path = in_dir("hand.pt");
    const handmade h = {pickle, n, storage};
    dl_error err = {0};
    CHECK(dlr_st_write_as(path, &(dlr_st_content){0}, put_handmade, &h, NULL, &err), "%s",
          err.message);
    return path;
}

#define V2         "ctorch._utils\n_rebuild_tensor_v2\n"
#define TEXT(n, s) "X" n "\0\0\0" s
#define STORAGE(class, key, n)                                                                     \
    "(X\7\0\0\0storagectorch\n" class "\nX\1\0\0\0" key "X\3\0\0\0cpuK" n "tQ"
#define HOOKS   "ccollections\nOrderedDict\n)R"
#define BYTES12 STORAGE("ByteStorage", "0", "\x0c")
/* {"a": tensor} */
#define MODEL(tensor) "\x80\2}X\1\0\0\0a" tensor "s."

static void test_views(void) {
    static const char pickle[] = MODEL(V2 "(" BYTES12 "K\1K\3K\2\x86K\1K\5\x86\x89" HOOKS
                                          "tR"); /* element (i, j) at 1 + i + 5 j */
    static const unsigned char want[6] = {1, 6, 2, 7, 3, 8};
    dl_error err = {0};
    dlr_st_file *f = dlr_st_open(write_handmade(pickle, sizeof pickle - 1, 12), DLR_ST_PLAIN, &err);
    const dlr_st_tensor *t = f ? dlr_st_find(f, "a") : NULL;
    CHECK(t && t->view && t->bytes == 6, "%s", err.message);
    for (int first = 0; t && first < 6; first++)
        for (int n = 0; first + n <= 6; n++) {
            unsigned char got[6];
            dlr_st_tensor outer = dlr_st_part(t, first, 6 - first),
                          part = dlr_st_part(&outer, 0, n);
            CHECK(dlr_st_load(f, &part, got, &err) && memcmp(got, want + first, (size_t)n) == 0,
                  "%d %d", first, n);
        }
    dlr_st_close(f);
}

/* What lies too far apart to be held at once is read run by run. */
static void test_far_views(void) {
    enum { FAR = 70 << 20 };
    static const char pickle[] =
        MODEL(V2 "((X\7\0\0\0storagectorch\nByteStorage\nX\1\0\0\0"
                 "0X\3\0\0\0cpuJ\3\0\x60\4tQK\0K\3K\2\x86K\1J\0\0\x60\4\x86\x89" HOOKS "tR");
    dl_error err = {0};
    dlr_st_file *f =
        dlr_st_open(write_handmade(pickle, sizeof pickle - 1, FAR + 3), DLR_ST_PLAIN, &err);
    unsigned char got[6];
    CHECK(f && dlr_st_load(f, f->tensors, got, &err) &&
              memcmp(got, (unsigned char[]){0, 0, 1, 1, 2, 2}, 6) == 0,
          "%s", err.message);
    dlr_st_close(f);
}

#define P(pickle) pickle, sizeof pickle - 1
static const struct {
    const char *pickle;
    size_t n;
    const char *says;
} hostile[] = {
    {P("\x80\2cposix\nsystem\nX\1\0\0\0x\x85R."), "posix.system is no part of weights"},
    {P("\x80\2c__builtin__\neval\nX\1\0\0\0x\x85R."), "__builtin__.eval"},
    {P("\x80\2ccollections\nOrderedDict\nX\1\0\0\0x\x85R."), "OrderedDict with 1 arguments"},
    {P("\x80\2ctorch\nFloatStorage\n)R."), "calls torch.FloatStorage"},
    {P("\x80\2ctorch\nFloatStorage\n."), "ends with a class"},
    {P("\x80\2ctorch\nFloatStorage\n\x85."), "ends with a class"},
    {P("\x80\2]ctorch\nFloatStorage\na."), "a class or function in a list"},
    {P("\x80\2]K\1\x85R."), "calls a list with a tuple"},
    {P("\x80\2" HOOKS "K\1R."), "calls a dictionary"},
    {P("\x80\2ccollections"), "does not end"},
    {P("\x80\4\x95\0\0\0\0\0\0\0\0."), "protocol 4"},
    {P("\x80\2\x95\0\0\0\0\0\0\0\0."), "the opcode FRAME"},
    {P("\x80\2\x94."), "the opcode MEMOIZE"},
    {P("\x80\2\x8c\1x\x8c\1y\x93."), "the opcode SHORT_BINUNICODE"},
    {P("\x80\2(iposix\nsystem\n."), "the opcode INST"},
    {P("\x80\2(S'x'\noposix\nsystem\n."), "the opcode STRING"},
    {P("\x80\2" HOOKS ")\x81."), "the opcode NEWOBJ"},
    {P("\x80\2K\1\x32."), "the opcode DUP"},
    {P("\x80\2\xff."), "0xff is no opcode"},
    {P("}."), "PROTO"},
    {P("\x80\2\x80\2}."), "PROTO in the middle"},
    {P("\x80\2"), "breaks off"},
    {P("\x80\2X\xff\xff\xff\xffx."), "breaks off"},
    {P("\x80\2X\2\0\0\0\xc3\x28."), "UTF-8"},
    {P("\x80\2X\2\0\0\0a\0."), "zero byte"},
    {P("\x80\2."), "ends with 0 values"},
    {P("\x80\2K\1K\2."), "ends with 2 values"},
    {P("\x80\2(K\1."), "ends with 1 values"},
    {P("\x80\2K\1.."), "1 bytes follow"},
    {P("\x80\2t."), "no mark"},
    {P("\x80\2K\1\x86."), "takes more values"},
    {P("\x80\2K\1(\x85."), "takes more values"},
    {P("\x80\2q\0."), "takes more values"},
    {P("\x80\2}q\1."), "remembers number 1 of 0"},
    {P("\x80\2}r\xff\xff\xff\xff."), "remembers number 4294967295"},
    {P("\x80\2h\0."), "recalls number 0 of 0"},
    {P("\x80\2j\0\0\0\x80."), "recalls number 2147483648"},
    {P("\x80\2]q\0h\0a."), "holds itself"},
    {P("\x80\2]q\0]q\1h\0ah\1a."), "holds itself"},
    {P("\x80\2]q\0]q\1h\0aa."), "holds itself"},
    {P("\x80\2}q\0K\1h\0s."), "holds itself"},
    {P("\x80\2}q\0K\1h\0\x85s."), "holds itself"},
    {P("\x80\2]q\0\x85h\0K\1a."), "holds itself"},
    {P("\x80\2)K\1a."), "adds to a tuple as if it were a list"},
    {P("\x80\2}K\1a."), "adds to a dictionary"},
    {P("\x80\2]K\1K\2s."), "adds to a list"},
    {P("\x80\2}(K\1u."), "a key without a value"},
    {P("\x80\2}(K\1K\2K\1K\3u."), "the key 1 twice"},
    {P("\x80\2}(X\1\0\0\0aK\2X\1\0\0\0aK\3u."), "the key 'a' twice"},
    {P("\x80\2}NK\1s."), "None as a dictionary's key"},
    {P("\x80\2}}b."), "gives a state to a dictionary"},
    {P("\x80\2" HOOKS "Nb."), "gives a state"},
    {P("\x80\2\x8a\x09\0\0\0\0\0\0\0\0\1."), "whole number of 9 bytes"},
    {P("\x80\2K\1Q."), "BINPERSID"},
    {P("\x80\2)Q."), "BINPERSID"},
    {P("\x80\2(X\6\0\0\0moduleNNNNtQ."), "BINPERSID"},
    {P("\x80\2" BYTES12 "."), "ends with a class, a function or a storage"},
    {P("\x80\2" STORAGE("ByteStorage", "1", "\x0c") "."), "no entry 'x/data/1'"},
    {P("\x80\2" STORAGE("ByteStorage", "0", "\x0d") "."), "has 12 bytes, but 13 elements"},
    {P("\x80\2" STORAGE("LongStorage", "0", "\1") "."), "has 12 bytes, but 1 elements of 8"},
    {P(MODEL(V2 "(" BYTES12 "K\0K\x0d\x85K\1\x85\x89" HOOKS "tR")), "beyond its storage of 12"},
    {P(MODEL(V2 "(" BYTES12 "K\1K\x0c\x85K\1\x85\x89" HOOKS "tR")), "beyond its storage"},
    {P(MODEL(V2 "(" BYTES12 "J\xff\xff\xff\xffK\1\x85K\1\x85\x89" HOOKS "tR")), "offset"},
    {P(MODEL(V2 "(" BYTES12 "K\0J\xff\xff\xff\xff\x85K\1\x85\x89" HOOKS "tR")), "size holds"},
    {P(MODEL(V2 "(" BYTES12 "K\0K\2\x85J\xff\xff\xff\xff\x85\x89" HOOKS "tR")), "stride holds"},
    {P(MODEL(V2 "(" BYTES12 "K\0K\2\x85\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85\x89" HOOKS
                "tR")),
     "beyond"},
    {P(MODEL(V2 "(" BYTES12 "K\0K\2\x85)\x89" HOOKS "tR")), "1 sizes and 0 strides"},
    {P(MODEL(V2 "(" BYTES12 "K\0]K\1\x85\x89" HOOKS "tR")), "not a tuple"},
    {P(MODEL(V2 "(" BYTES12 "K\0(K\1K\1K\1K\1K\1K\1K\1K\1K\1tK\1\x85\x89" HOOKS "tR")),
     "9 dimensions"},
    {P(MODEL(V2 "(" BYTES12
                "K\0\x8a\x08\0\0\0\0\0\0\0\x40\x8a\x08\0\0\0\0\0\0\0\x40\x86K\0K\0\x86\x89" HOOKS
                "tR")),
     "more than 2^63"},
    {P(MODEL(V2 "(" BYTES12 "K\0K\1\x85K\1\x85\x89}K\1K\2stR")), "hooks"},
    {P(MODEL(V2 "(" BYTES12 "K\0K\1\x85K\1\x85\x89" HOOKS "}X\3\0\0\0neg\x88stR")),
     "other arguments"},
    {P(MODEL(V2 "(NK\0K\1\x85K\1\x85\x89" HOOKS "tR")), "other arguments"},
    {P(MODEL("ctorch._utils\n_rebuild_parameter\nK\1\x89" HOOKS "\x87R")),
     "_rebuild_parameter with other"},
    {P("\x80\2}K\1" V2 "(" BYTES12 "K\0K\1\x85K\1\x85\x89" HOOKS "tRs."), "'1' is a tensor, where"},
    {P("\x80\2K\7."), "holds a whole number"},
};

static void test_hostile_pickles(void) {
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        dl_error err = {0};
        const char *path = write_handmade(hostile[i].pickle, hostile[i].n, 12);
        dlr_st_file *f = dlr_st_open(path, DLR_ST_PLAIN, &err);
        CHECK(!f && err.code == DL_INPUT && strstr(err.message, hostile[i].says) &&
                  strstr(err.message, path),
              "number %zu, '%s', says '%s'", i, hostile[i].says, err.message);
        dlr_st_close(f);
    }
}

/* ---- floods: each is small for what it asks ---- */

static void check_flood(const char *what, const char *begin, size_t begin_n, const char *again,
                        size_t n, int64_t times, const char *says) {
    dl_buf b = {0};
    dl_error err = {0};
    dl_putn(&b, begin, begin_n);
    for (int64_t i = 0; i < times; i++) dl_putn(&b, again, n);
    dl_puts(&b, ".");
    dlr_st_file *f = dlr_st_open(write_handmade(b.at, b.n, 0), DLR_ST_PLAIN, &err);
    CHECK(says ? !f && err.code == DL_INPUT && strstr(err.message, says) : f != NULL, "%s: %s",
          what, err.message);
    dlr_st_close(f);
    dl_buf_free(&b);
}

static void test_floods(void) {
    enum { MANY = 6000000 };
    check_flood("marks", P("\x80\2"), P("("), MANY, "more than 4000000 values");
    check_flood("lists", P("\x80\2"), P("]"), MANY, "more than 4000000 values");
    check_flood("tuples", P("\x80\2"), P(")"), MANY, "more than 4000000 values");
    check_flood("ordered", P("\x80\2"), P(HOOKS), MANY / 2, "more than 4000000 values");
    check_flood("puts", P("\x80\2}"), P("q\0"), MANY, NULL);
    check_flood("nesting", P("\x80\2)"), P("\x85"), 100, "nested more than 64");
    /* ((x, x), (x, x)) and so on: 2^40 values */
    check_flood("laughter", P("\x80\2)"), P("q\0h\0\x86"), 40, "unfolds to more than");
    check_flood("tensors",
                P("\x80\2" V2 "q\0(" STORAGE("ByteStorage", "0", "\0") "K\0K\0\x85K\1\x85\x89" HOOKS
                                                                       "tq\1R"),
                P("h\0h\1R"), MANY, "more than 200000 tensors");
    check_flood("storages", P("\x80\2" STORAGE("ByteStorage", "0", "\0")),
                P(STORAGE("ByteStorage", "0", "\0")), MANY / 6, "more than 4000000 values");
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    CHECK(use.ru_maxrss < 1200 * 1024, "%ld KiB", use.ru_maxrss);
}

/* ---- zip files by hand ---- */

static unsigned char *good;
static size_t good_n;

static const char *write_bytes(const void *data, size_t n) {
    const char *path = in_dir("zip.pt");
    dl_error err = {0};
    CHECK(dl_write_file(path, data, n, &err), "%s", err.message);
    return path;
}

static void load_good(void) {
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

/* Every file cut short is refused, and each flip of one bit gives an error, or a file whose numbers
 * are those that were written: of the numbers' own bits always an error. */
static void test_damaged_zip(void) {
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

static void test_hostile_zip(void) {
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

/* Checksums that were left out (torch.serialization.set_crc32_options) are not looked at; one that
 * is there makes all count. */
static void test_unsummed_zip(void) {
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

static void test_zip64(void) {
    size_t end = good_n - 22, at = get32(good + end + 16), p = at;
    dl_buf b = {0};
    dl_putn(&b, (char *)good, at);
    for (int i = 0; i < 2;
         i++) { /* each entry with its sizes and its place in the wide field, behind another one */
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

/* Sound zip files that PyTorch did not write, and one of another kind of machine. */
static void test_foreign_archives(void) {
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

/* A tree that holds what its own kinds are for. */
static void test_tree(void) {
    static const float x[2] = {1, 2};
    dlr_st_tensor t = {.name = "w", .dtype = DLR_ST_F32, .rank = 1, .shape = {2}, .data = x};
    dlr_st_content content = {.tensors = &t, .n = 1};
    dlr_torch_value state[] = {text("w"), tensor(&t)},
                    list[] = {whole(-1), whole(1LL << 40), whole(70000)};
    dlr_torch_items state_items = {state, 2, true}, list_items = {list, 3, false};
    dlr_torch_value top[] = {text("model_state"),
                             {.kind = DLR_TORCH_DICT, .items = &state_items},
                             whole(7),
                             {.kind = DLR_TORCH_TUPLE, .items = &list_items},
                             text("lr"),
                             {.kind = DLR_TORCH_REAL, .real = 0.1}};
    dlr_torch_items items = {top, 6, false};
    dlr_torch_value root = {.kind = DLR_TORCH_DICT, .items = &items};
    dl_error err = {0};
    CHECK(dlr_torch_write(in_dir("tree.tar"), &root, &content, NULL, &err), "%s", err.message);
    dlr_st_file *f = dlr_st_open(in_dir("tree.tar"), DLR_ST_PLAIN, &err);
    CHECK(f && f->n == 1 && dlr_st_find(f, "w"), "%s", err.message);
    const dlr_torch_value *r = f ? dlr_torch_root(f) : NULL, *lr = dlr_torch_get(r, "lr");
    CHECK(lr && lr->kind == DLR_TORCH_REAL && lr->real == 0.1 && !dlr_torch_get(r, "x") &&
          !dlr_torch_get(lr, "x"));
    CHECK(r && r->items->at[3].items->at[1].integer == 1LL << 40 &&
          r->items->at[3].items->at[0].integer == -1);
    CHECK(dlr_torch_get(r, "model_state")->items->ordered);
    dlr_st_close(f);
    top[2] = text("lr");
    CHECK(!dlr_torch_write(in_dir("tree.tar"), &root, &content, NULL, &err) &&
          strstr(err.message, "'lr' is there twice"));
}

int main(void) {
    if (!mkdtemp(dir)) return 1;
    arena = dl_arena_new(NULL);
    test_round_trip();
    test_refused_writing();
    test_tree();
    test_views();
    test_far_views();
    test_hostile_pickles();
    test_floods();
    load_good();
    test_damaged_zip();
    test_hostile_zip();
    test_unsummed_zip();
    test_zip64();
    test_foreign_archives();
    static const char *const left[] = {"a.pt", "a.pth", "a.tar", "hand.pt", "zip.pt", "tree.tar"};
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) unlink(in_dir(left[i]));
    CHECK(rmdir(dir) == 0);
    dl_arena_free(arena);
    return dl_test_end();
}

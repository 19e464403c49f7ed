/* Pickles of PyTorch's files that were written by hand: views, hostile and flooding ones. */
#include "tests/unit/torch_files.h"

#include <sys/resource.h>

#include "runtime/formats/zip.h"
#include "tests/check.h"

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

const char *write_handmade(const char *pickle, size_t n, uint64_t storage) {
    const char *path = in_dir("hand.pt");
    const handmade h = {pickle, n, storage};
    dl_error err = {0};
    CHECK(dlr_st_write_as(path, &(dlr_st_content){0}, put_handmade, &h, NULL, &err), "%s",
          err.message);
    return path;
}

void test_views(void) {
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

void test_far_views(void) {
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

void test_hostile_pickles(void) {
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

void test_floods(void) {
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

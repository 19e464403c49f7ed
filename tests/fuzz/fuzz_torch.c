/* PyTorch's files: the zip, the pickle in it, views, loading. */
#include <stdlib.h>
#include <string.h>

#include "runtime/formats/torch_training.h"
#include "tests/fuzz/fuzz.h"

static void load(const dlr_st_file *f, const dlr_st_tensor *t) {
    dl_error err = {0};
    if (t->bytes > 1 << 16) return;
    uint64_t elements = t->bytes / dlr_st_dtype_size(t->dtype);
    unsigned char *raw = malloc(t->bytes + 1), *part = malloc(t->bytes + 1);
    FUZZ_CHECK(raw && part);
    if (!dlr_st_load(f, t, raw,
                     &err)) { /* the file is whole: an open file has what it says, but for sums */
        FUZZ_CHECK(err.code == DL_INPUT && strstr(err.message, "checksum"));
        free(raw), free(part);
        return;
    }
    int64_t first = (int64_t)(elements / 3), n = (int64_t)(elements - elements / 3);
    dlr_st_tensor rest = dlr_st_part(t, first, n);
    FUZZ_CHECK(dlr_st_load(f, &rest, part, &err));
    FUZZ_CHECK(memcmp(part, raw + (size_t)first * dlr_st_dtype_size(t->dtype), rest.bytes) == 0);
    free(raw), free(part);
}

/* Every value once for each way to it, which the reader bounds. */
static void walk(const dlr_st_file *f, const dlr_torch_value *v, int depth) {
    FUZZ_CHECK(depth <= 64);
    if (v->kind == DLR_TORCH_TENSOR) load(f, v->tensor);
    if (v->kind == DLR_TORCH_TEXT) FUZZ_CHECK(strlen(v->text) < 1 << 20);
    bool nested =
        v->kind == DLR_TORCH_TUPLE || v->kind == DLR_TORCH_LIST || v->kind == DLR_TORCH_DICT;
    FUZZ_CHECK(v->kind < DLR_TORCH_N_KINDS);
    for (int i = 0; nested && i < v->items->n; i++) walk(f, &v->items->at[i], depth + 1);
}

/* As the run to go on from, of a model whose parameters are the file's tensors, or the first of
 * them. */
static void go_on(const dlr_st_file *f, dl_optimizer optimizer, int n) {
    dl_error err = {0};
    dl_arena *arena = dl_arena_new(NULL);
    dlr_torch_training t;
    if (dlr_torch_training_read(arena, f, optimizer, f->tensors, n, &t, &err)) {
        FUZZ_CHECK(t.iters >= 0 && t.epoch >= 0 && t.steps >= 0 && t.rate >= 0);
        FUZZ_CHECK(dlr_torch_training_iters(f) == t.iters);
        for (int i = 0; i < n; i++)
            for (int k = 0; k < DL_MOST_KEPT; k++)
                if (t.kept[i].moment[k]) load(f, t.kept[i].moment[k]);
    } else {
        FUZZ_CHECK(err.code == DL_INPUT);
    }
    dl_arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    for (int flags = DLR_ST_PLAIN; flags <= DLR_ST_STRIP; flags++) {
        dl_error err = {0};
        dlr_st_file *f = dlr_st_open(fuzz_file(data, n), (dlr_st_flags)flags, &err);
        FUZZ_CHECK(f || err.code == DL_INPUT || err.code == DL_IO);
        if (!f) continue;
        for (int i = 0; i < f->n; i++) {
            FUZZ_CHECK(dlr_st_find(f, f->tensors[i].name));
            load(f, &f->tensors[i]);
        }
        if (dlr_torch_root(f)) walk(f, dlr_torch_root(f), 1);
        for (int params = 0; params <= f->n && params <= 8; params += f->n > 0 ? f->n : 1)
            for (int i = 0; i < DL_OPT_NONE; i++) go_on(f, (dl_optimizer)i, params);
        dlr_st_close(f);
    }
    return 0;
}

/* ---- inputs: the pickle is changed, and the zip put right around it ---- */

static uint32_t get(const uint8_t *p, int bytes) {
    uint32_t v = 0;
    for (int i = 0; i < bytes; i++) v |= (uint32_t)p[i] << 8 * i;
    return v;
}

static void put(uint8_t *p, uint32_t v) {
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> 8 * i);
}

typedef struct {
    size_t at, n;           /* the pickle, which is the first entry */
    size_t directory, last; /* the directory's place; the end record's */
} archive;

/* Where things are in what our writer wrote, or what was made of it; false for another file. */
static bool find(const uint8_t *data, size_t n, archive *a) {
    if (n < 100 || memcmp(data, "PK\3\4", 4) != 0 || memcmp(data + n - 22, "PK\5\6", 4) != 0)
        return false;
    a->last = n - 22, a->directory = get(data + a->last + 16, 4);
    a->at = 30 + get(data + 26, 2) + get(data + 28, 2);
    if (a->directory > a->last - 46 || memcmp(data + a->directory, "PK\1\2", 4) != 0) return false;
    a->n = get(data + a->directory + 24, 4);
    return a->at <= a->directory && a->n <= a->directory - a->at;
}

/* Opcodes and pieces of what torch.save writes. */
static const struct {
    const char *at;
    size_t n;
} words[] = {
#define WORD(text)                                                                                 \
    { text, sizeof text - 1 }
    WORD("ccollections\nOrderedDict\n)R"),
    WORD("ctorch._utils\n_rebuild_tensor_v2\n"),
    WORD("ctorch._utils\n_rebuild_parameter\n"),
    WORD("ctorch\nFloatStorage\n"),
    WORD("ctorch\nByteStorage\n"),
    WORD("cos\nsystem\n"),
    WORD("X\7\0\0\0storage"),
    WORD("X\5\0\0\0model"),
    WORD("X\4\0\0\0step"),
    WORD("X\5\0\0\0state"),
    WORD("X\6\0\0\0params"),
    WORD("X\x0c\0\0\0param_groups"),
    WORD("X\x0e\0\0\0num_bad_epochs"),
    WORD("X\1\0\0\0"
         "0"),
    WORD("tQ"),
    WORD("tR"),
    WORD("("),
    WORD(")"),
    WORD("]"),
    WORD("}"),
    WORD("\x85"),
    WORD("\x86"),
    WORD("\x87"),
    WORD("a"),
    WORD("s"),
    WORD("e"),
    WORD("u"),
    WORD("t"),
    WORD("b"),
    WORD("R"),
    WORD("Q"),
    WORD("q\0"),
    WORD("h\0"),
    WORD("h\1"),
    WORD("N"),
    WORD("\x88"),
    WORD("K\0"),
    WORD("J\xff\xff\xff\xff"),
    WORD("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"),
    WORD("G\x7f\xf0\0\0\0\0\0\0"),
    WORD("."),
};

/* Changes the pickle of n bytes within `max`. */
static size_t change(uint8_t *p, size_t n, size_t max, fuzz_random *r) {
    if (fuzz_below(r, 2)) return fuzz_mutate_bytes(p, n, max, r);
    size_t at = fuzz_below(r, n + 1), from = fuzz_below(r, n + 1), more;
    uint8_t piece[64];
    if (fuzz_below(r, 3)) {
        size_t word = fuzz_below(r, sizeof words / sizeof *words);
        memcpy(piece, words[word].at, more = words[word].n);
    } else {
        more = fuzz_below(r, sizeof piece) < n - from ? fuzz_below(r, sizeof piece) : n - from;
        if (more > n - from) more = n - from;
        memcpy(piece, p + from, more);
    }
    if (fuzz_below(r, 2) && more <= n - at) { /* in place of what is there */
        memcpy(p + at, piece, more);
        return n;
    }
    if (n + more > max) return n;
    memmove(p + at + more, p + at, n - at);
    memcpy(p + at, piece, more);
    return n + more;
}

/* All that stands after the pickle moves by this much. */
static void move_entries(uint8_t *data, const archive *a, ptrdiff_t by, size_t pickle) {
    uint8_t *end = data + a->last + by, *e = data + a->directory + by;
    put(end + 16, (uint32_t)(a->directory + (size_t)by));
    put(e + 20, (uint32_t)pickle), put(e + 24, (uint32_t)pickle);
    for (bool first = true; end - e >= 46 && memcmp(e, "PK\1\2", 4) == 0; first = false) {
        put(e + 16, 0); /* no entry has a checksum: torch.save may leave them out, and readers look
                           at none */
        if (!first) put(e + 42, get(e + 42, 4) + (uint32_t)by);
        size_t length = 46 + get(e + 28, 2) + get(e + 30, 2) + get(e + 32, 2);
        if (length > (size_t)(end - e)) return;
        e += length;
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed) {
    fuzz_random r = {seed};
    archive a;
    if (fuzz_below(&r, 5) == 0 || !find(data, n, &a)) return fuzz_mutate_bytes(data, n, max, &r);
    size_t after = n - a.at - a.n;
    uint8_t *rest = malloc(after + 1);
    if (!rest) return n;
    memcpy(rest, data + a.at + a.n, after);
    size_t pickle = change(data + a.at, a.n, max - a.at - after, &r);
    memcpy(data + a.at + pickle, rest, after);
    move_entries(data, &a, (ptrdiff_t)pickle - (ptrdiff_t)a.n, pickle);
    free(rest);
    return a.at + pickle + after;
}

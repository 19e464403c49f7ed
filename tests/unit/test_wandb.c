/* Weights & Biases' offline files: digests, blocks and their edges, torn and damaged ends, a run
 * that goes on. */
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "ir/base/dirs.h"
#include "ir/base/input.h"
#include "ir/base/output.h"
#include "runtime/formats/protobuf.h"
#include "runtime/formats/sha256.h"
#include "runtime/formats/wandb.h"
#include "runtime/formats/wandb_log.h"
#include "tests/check.h"

enum { BLOCK = 32768, HEAD = 7 };

static char dir[] = "/tmp/dl_test_XXXXXX";
static dl_arena *arena;
static dl_error err;

/* ---- digests: FIPS 180-4's examples, and lengths around a block's end as Python's hashlib has
 * them ---- */

static void test_sha256(void) {
    static const struct {
        size_t n;
        const char *hex;
    } of_a[] = {
        {0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
        {56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
        {63, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34"},
        {64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
        {65, "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0"},
        {119, "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb"},
        {120, "2f3d335432c70b580af0e8e1b3674a7c020d683aa5f73aaaedfdc55af904c21c"},
        {1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
    };
    char hex[65], *a = dl_alloc(arena, 1000000);
    memset(a, 'a', 1000000);
    for (size_t i = 0; i < sizeof of_a / sizeof *of_a; i++) {
        dlr_sha256(a, of_a[i].n, hex);
        CHECK_STR(hex, of_a[i].hex);
    }
    dlr_sha256("abc", 3, hex);
    CHECK_STR(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    const char *two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    dlr_sha256(two, strlen(two), hex);
    CHECK_STR(hex, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

/* ---- blocks ---- */

/* Byte i of record k. */
static char byte_of(int k, size_t i) { return (char)(k * 37 + (int)(i % 251)); }

static char *record_of(int k, size_t n) {
    char *r = dl_alloc(arena, n + 1);
    for (size_t i = 0; i < n; i++) r[i] = byte_of(k, i);
    return r;
}

static void put(dlr_wandb_log *log, int k, size_t n) {
    CHECK(dlr_wandb_log_put(log, record_of(k, n), n, &err), "%s", err.message);
}

/* The log's records in order, of sizes[0..n). */
typedef struct {
    const size_t *sizes;
    int n, seen, keep; /* of them the first `keep` stay */
} expected;

static bool look(void *context, const void *record, size_t n) {
    expected *e = context;
    int k = e->seen++;
    CHECK(k < e->n && n == e->sizes[k], "record %d of %zu bytes", k, n);
    if (k < e->n && n == e->sizes[k])
        CHECK(memcmp(record, record_of(k, n), n) == 0, "record %d", k);
    return k < e->keep;
}

static const unsigned char *slurp(const char *path, size_t *n) {
    const char *file = dl_read_file(arena, path, 1 << 26, n, &err);
    CHECK(file != NULL, "%s", err.message);
    return (const unsigned char *)(file ? file : "");
}

/* The format's own rules, read here once more: types in order, CRCs, zeros at the end of blocks, no
 * chunk across one. Types of the chunks as digits. */
static const char *chunk_types(const char *path) {
    size_t size, at = HEAD;
    const unsigned char *f = slurp(path, &size);
    dl_buf types = {0};
    CHECK(size >= HEAD && memcmp(f, ":W&B\xe1\xbe\0", HEAD) == 0);
    while (at < size) {
        size_t room = BLOCK - at % BLOCK;
        if (room < HEAD) {
            for (; room > 0 && at < size; room--) CHECK(f[at++] == 0, "padding");
            continue;
        }
        size_t n = f[at + 4] | (size_t)f[at + 5] << 8;
        CHECK(HEAD + n <= room && at + HEAD + n <= size, "a chunk of %zu at %zu", n, at);
        if (at + HEAD + n > size) break;
        unsigned long crc =
            f[at] | f[at + 1] << 8 | f[at + 2] << 16 | (unsigned long)f[at + 3] << 24;
        CHECK(crc == crc32(0, f + at + 6, (uInt)n + 1), "CRC at %zu", at);
        dl_putf(&types, "%d", f[at + 6]);
        at += HEAD + n;
    }
    const char *text = dl_strdup(arena, types.at ? types.at : "");
    dl_buf_free(&types);
    return text;
}

/* One record, whose chunk ends `left` bytes before the first block's end (below 0: after it), then
 * two more. */
static void test_edge(int left, size_t second, const char *types) {
    const char *path = dl_format(arena, "%s/edge.wandb", dir);
    size_t sizes[] = {(size_t)(BLOCK - 2 * HEAD - left), second, 5};
    unlink(path);
    dlr_wandb_log *log = dlr_wandb_log_new(path, &err);
    CHECK(log != NULL, "%s", err.message);
    if (!log) return;
    for (int k = 0; k < 3; k++) put(log, k, sizes[k]);
    CHECK(dlr_wandb_log_records(log) == 3 && dlr_wandb_log_flush(log, &err));
    dlr_wandb_log_close(log);
    const char *found = chunk_types(path);
    CHECK(strcmp(found, types) == 0, "%d bytes left, then %zu: chunks %s, want %s", left, second,
          found, types);
    size_t whole;
    slurp(path, &whole);
    for (int keep = 0; keep <= 3; keep++) { /* cut back, gone on: the same file */
        expected e = {sizes, 3, 0, keep};
        log = dlr_wandb_log_open(path, look, &e, &err);
        CHECK(log && e.seen == 3 && dlr_wandb_log_records(log) == keep, "%s: %d seen", err.message,
              e.seen);
        if (!log) return;
        for (int k = keep; k < 3; k++) put(log, k, sizes[k]);
        dlr_wandb_log_close(log);
        size_t now;
        slurp(path, &now);
        CHECK(now == whole, "%zu bytes, not %zu", now, whole);
        CHECK_STR(chunk_types(path), types);
    }
}

static void test_blocks(void) {
    test_edge(0, 9, "111"); /* ends with the block */
    for (int left = 1; left < HEAD; left++) test_edge(left, 9, "111");
    test_edge(HEAD, 9, "1241");     /* room for a chunk without data */
    test_edge(HEAD, 0, "111");      /* which is whole here */
    test_edge(HEAD + 1, 9, "1241"); /* and for one byte */
    test_edge(HEAD + 9, 9, "111");
    test_edge(-1, 9, "2411"); /* across the end, by one byte */
    test_edge(-9, 9, "2411");
    test_edge(0, BLOCK - HEAD, "111");         /* a whole block */
    test_edge(0, BLOCK - HEAD + 1, "1241");    /* and a byte more */
    test_edge(0, 3 * (BLOCK - HEAD), "12341"); /* three whole ones */
    test_edge(3, 3 * (BLOCK - HEAD) + 1, "123341");
    test_edge(100, 70000, "123341");
}

/* Cut at every byte of its last record, and damaged at every byte of its second: what stands before
 * stays. */
static void test_torn(void) {
    const char *path = dl_format(arena, "%s/torn.wandb", dir);
    size_t sizes[] = {20, 30, 40}, size, first = HEAD + HEAD + 20, second = first + HEAD + 30;
    dlr_wandb_log *log = dlr_wandb_log_new(path, &err);
    CHECK(log != NULL);
    if (!log) return;
    for (int k = 0; k < 3; k++) put(log, k, sizes[k]);
    dlr_wandb_log_close(log);
    const unsigned char *whole = slurp(path, &size);
    for (size_t n = 0; n <= size; n++) {
        CHECK(dl_write_file(path, whole, n, &err));
        int there = n < first ? 0 : n < second ? 1 : n < size ? 2 : 3;
        expected e = {sizes, there, 0, 3};
        log = dlr_wandb_log_open(path, look, &e, &err);
        CHECK(log && e.seen == there, "cut at %zu: %s, %d seen", n, err.message, e.seen);
        if (!log) return;
        for (int k = there; k < 3; k++) put(log, k, sizes[k]);
        dlr_wandb_log_close(log);
        size_t now;
        CHECK(memcmp(slurp(path, &now), whole, size) == 0 && now == size, "cut at %zu", n);
    }
    for (size_t at = first; at < second; at++) {
        char *damaged = dl_alloc(arena, size);
        memcpy(damaged, whole, size), damaged[at] ^= 1;
        CHECK(dl_write_file(path, damaged, size, &err));
        expected e = {sizes, 1, 0, 3};
        log = dlr_wandb_log_open(path, look, &e, &err);
        CHECK(log && e.seen == 1, "damaged at %zu: %d seen", at, e.seen);
        dlr_wandb_log_close(log);
    }
    CHECK(dl_write_file(path, ":W&B\xe1\xbf\0 of another kind", 24, &err));
    CHECK(!dlr_wandb_log_open(path, look, NULL, &err) && err.code == DL_INPUT &&
          strstr(err.message, "move it away"));
    err = (dl_error){0};
    CHECK(!dlr_wandb_log_new(path, &err) && err.code == DL_IO); /* it is there */
    err = (dl_error){0};
}

/* ---- a run ---- */

/* The steps, and the other records by a letter each, in order. */
static bool spell(void *context, const void *record, size_t n) {
    static const struct {
        int field;
        char letter;
    } kinds[] = {{21, 'h'}, {17, 'r'}, {5, 'c'},  {6, 'f'},
                 {3, 's'},  {23, 'p'}, {18, 'x'}, {20, 'e'}};
    dl_buf *text = context;
    dlr_pb_view all = {record, (const unsigned char *)record + n};
    dlr_pb_field part, step, number;
    CHECK(dlr_pb_find(all, 1, &number) && number.number > 0);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (dlr_pb_find(all, kinds[i].field, &part)) dl_putf(text, "%c", kinds[i].letter);
    if (dlr_pb_find(all, 2, &part) && dlr_pb_find(part.bytes, 2, &step) &&
        dlr_pb_find(step.bytes, 1, &number))
        dl_putf(text, "%d", (int)number.number);
    return true;
}

static const char *spelled(const char *wandb, const char *id) {
    dl_buf text = {0};
    dlr_wandb_log *log = dlr_wandb_log_open(
        dl_format(arena, "%s/latest-run/run-%s.wandb", wandb, id), spell, &text, &err);
    CHECK(log != NULL, "%s", err.message);
    dlr_wandb_log_close(log);
    const char *s = dl_strdup(arena, text.at ? text.at : "");
    dl_buf_free(&text);
    return s;
}

static void put_points(dlr_wandb *w, int from, int to) {
    for (int e = from; e <= to; e++) {
        dlr_metric values[] = {{"train_loss", e == 2 ? NAN : 1.0 / e}, {"Loss/valid", 2.0 / e}};
        if (e == 3) dlr_wandb_image(w, "vis", (dlr_png_view){2, 1, 3, "no PNG", 6});
        CHECK(dlr_wandb_put(w, e, 10 * e, values, 2, true, &err), "%s", err.message);
    }
}

static dlr_wandb *open_run(const char *wandb, const dlr_wandb_options *o, int64_t epoch,
                           int64_t newest) {
    dlr_wandb *w = dlr_wandb_open(wandb, o, epoch, &err);
    CHECK(w && dlr_wandb_newest(w) == newest, "%s: newest %d", err.message,
          w ? (int)dlr_wandb_newest(w) : 0);
    return w;
}

static void test_run(void) {
    const char *wandb = dl_format(arena, "%s/wandb", dir);
    const char text[] = "{\"lr\": 1e-3, \"model\": \"cnn\", \"box\": [1, 2], \"none\": null}";
    dlr_wandb_options o = {
        .id = "abc-1", .project = "p", .tags = "one,two", .notes = "no \xff UTF-8"};
    o.config = dlr_json_parse(arena, text, strlen(text), (dlr_json_limits){8, 100}, "", &err);
    dlr_wandb *w = open_run(wandb, &o, -1, -1);
    if (!w) return;
    put_points(w, 1, 4);
    CHECK(dlr_wandb_end(w, DL_REQUEUE, &err), "%s", err.message);
    dlr_wandb_close(w);
    CHECK_STR(spelled(wandb, "abc-1"), "hrfs1s2fs3s4pxe");
    const char *folder = dl_format(arena, "%s/latest-run", wandb);
    char sum[65];
    dlr_sha256("no PNG", 6, sum);
    CHECK(access(dl_format(arena, "%s/files/media/images/vis_3_%.20s.png", folder, sum), F_OK) ==
          0);
    const char *summary =
        (const char *)slurp(dl_format(arena, "%s/files/wandb-summary.json", folder), &(size_t){0});
    CHECK(strncmp(summary, "{\"train_loss\": 0.25, \"Loss/valid\": 0.5, \"epoch\": 4,", 51) == 0,
          "%s", summary);

    /* After a checkpoint of epoch 2: points, end and mark of what was uploaded go. */
    const char *mark = dl_format(arena, "%s/run-abc-1.wandb.synced", folder);
    CHECK(dl_write_file(mark, "", 0, &err));
    o.id = NULL;
    w = open_run(wandb, &o, 2, 2);
    if (!w) return;
    CHECK(access(mark, F_OK) != 0 && strstr(dlr_wandb_folder(w), "-abc-1"));
    put_points(w, 2, 3); /* 2 is there */
    CHECK(dlr_wandb_end(w, DL_OK, &err));
    dlr_wandb_close(w);
    CHECK_STR(spelled(wandb, "abc-1"), "hrfs1s2cffs3xe");

    /* Nothing new: the end is told again. */
    w = open_run(wandb, &o, 3, 3);
    if (!w) return;
    CHECK(dlr_wandb_end(w, DL_OK, &err));
    dlr_wandb_close(w);
    CHECK_STR(spelled(wandb, "abc-1"), "hrfs1s2cffs3cfxe");

    /* Another name is another run, elsewhere; then both are gone: one more. */
    o.id = "other", o.folder = dl_format(arena, "%s/elsewhere", dir);
    w = open_run(wandb, &o, 3, -1);
    if (!w) return;
    CHECK(strncmp(dlr_wandb_folder(w), o.folder, strlen(o.folder)) == 0);
    put_points(w, 1, 1);
    dlr_wandb_close(w); /* as if killed: no end */
    CHECK_STR(spelled(wandb, "other"), "hrfs1");
    w = open_run(wandb, &o, 1, 1);
    dlr_wandb_close(w);
    CHECK(dl_remove_tree(o.folder, &err));
    o.id = o.folder = NULL;
    w = open_run(wandb, &o, 3, -1);
    CHECK(w && strstr(dlr_wandb_folder(w), "offline-run-20"));
    dlr_wandb_close(w);
}

static void test_ids(void) {
    CHECK(dlr_wandb_check_id("a1b2c3d4") && dlr_wandb_check_id("a-b_c.d"));
    static const char *const bad[] = {"",    ".",   "a/b", "a b",  "a\\b", "a#b",
                                      "a?b", "a%b", "a:b", "a\nb", "a\xff"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(!dlr_wandb_check_id(bad[i]), "%s", bad[i]);
    char text[130];
    memset(text, 'a', 129), text[129] = 0;
    CHECK(!dlr_wandb_check_id(text) && dlr_wandb_check_id(text + 1));
}

int main(void) {
    arena = dl_arena_new(NULL);
    if (!mkdtemp(dir)) return 1;
    test_sha256();
    test_blocks();
    test_torn();
    test_run();
    test_ids();
    dl_remove_tree(dir, &err);
    dl_arena_free(arena);
    return dl_test_end();
}

/* Safetensors: round trips, what other programs write, and hostile files. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/base/output.h"
#include "ir/base/str.h"
#include "runtime/formats/stored.h"
#include "tests/check.h"

static char dir[] = "/tmp/dl_test_XXXXXX";
static dl_arena *arena;

static const char *in_dir(const char *name) { return dl_format(arena, "%s/%s", dir, name); }

static bool fill(void *ctx, int index, int64_t first, int64_t n, void *dst, dl_error *err) {
    (void)err;
    (*(int *)ctx)++;
    for (int64_t i = 0; i < n; i++) ((float *)dst)[i] = (float)(10 * index + first + i);
    return true;
}

static bool refuse(void *ctx, int index, int64_t first, int64_t n, void *dst, dl_error *err) {
    (void)ctx, (void)index, (void)first, (void)n, (void)dst;
    return dl_fail(err, DL_RESOURCE, "the device is gone");
}

static void test_round_trip(void) {
    static const unsigned char odd[3] = {1, 0, 1};
    static const int64_t count = 7;
    int calls = 0;
    dlr_st_tensor tensors[] = {
        {.name = "flags", .dtype = DLR_ST_BOOL, .rank = 1, .shape = {3}, .data = odd},
        {.name = "conv.weight", .dtype = DLR_ST_F32, .rank = 2, .shape = {2, 3}},
        {.name = "count", .dtype = DLR_ST_I64, .rank = 0, .data = &count},
        {.name = "empty \"\xc3\xa9\"", .dtype = DLR_ST_F16, .rank = 3, .shape = {4, 0, INT64_MAX}},
    };
    dlr_st_meta meta[] = {{"format", "pt"}, {"who", "a \"test\"\n"}};
    dlr_st_content content = {tensors, 4, meta, 2, fill, &calls, .finite = true};
    dlr_st_written written = {0};
    dl_error err = {0};
    const char *path = in_dir("a.safetensors");
    CHECK(dlr_st_write(path, &content, &written, &err), "%s", err.message);
    struct stat st;
    CHECK(stat(path, &st) == 0 && (uint64_t)st.st_size == written.bytes && calls == 1);

    dlr_st_file *f = dlr_st_open(path, DLR_ST_PLAIN, &err);
    CHECK(f && f->n == 4 && f->n_metadata == 2, "%s", err.message);
    if (!f) return;
    CHECK_STR(dlr_st_metadata(f, "who"), "a \"test\"\n");
    const dlr_st_tensor *w = dlr_st_find(f, "conv.weight"), *c = dlr_st_find(f, "count");
    CHECK(w && w->dtype == DLR_ST_F32 && w->rank == 2 && w->shape[0] == 2 && w->shape[1] == 3 &&
          w->bytes == 24);
    CHECK(dlr_st_find(f, "empty \"\xc3\xa9\"") && !dlr_st_find(f, "none"));
    float values[6];
    CHECK(dlr_st_load_f32(f, w, values, &err) && values[0] == 10 && values[5] == 15);
    CHECK(memcmp(w->data, values, 24) == 0);
    /* Narrow types stand last, so that wide ones stay aligned; the data starts at a multiple of 64.
     */
    CHECK(((uintptr_t)c->data & 63) == 0 && ((uintptr_t)w->data & 3) == 0);
    CHECK(dlr_st_check(f, tensors, 4, &err), "%s", err.message);
    dlr_st_close(f);

    content.read = refuse;
    CHECK(!dlr_st_write(path, &content, NULL, &err) && err.code == DL_RESOURCE);
    f = dlr_st_open(path, DLR_ST_PLAIN, &(dl_error){0});
    CHECK(f != NULL); /* the file before is whole */
    dlr_st_close(f);
    content.read = fill, tensors[2].name = "flags";
    err = (dl_error){0};
    CHECK(!dlr_st_write(path, &content, NULL, &err) && err.code == DL_INTERNAL &&
          strstr(err.message, "twice"));
    err = (dl_error){0};
    CHECK(!dlr_st_write("/nonexistent/x", &(dlr_st_content){0}, NULL, &err) && err.code == DL_IO);
}

/* Element i of the tensor is i modulo 2^23: a float holds it. Asks never for more than a piece. */
static bool count_up(void *ctx, int index, int64_t first, int64_t n, void *dst, dl_error *err) {
    (void)index, (void)err;
    CHECK(n * (int64_t)sizeof(float) <= DLR_ST_PIECE && first == *(int64_t *)ctx);
    for (int64_t i = 0; i < n; i++) ((float *)dst)[i] = (float)((first + i) % (1 << 23));
    *(int64_t *)ctx += n;
    return true;
}

/* A tensor of several pieces and a bit, written and read in pieces: what one buffer for the whole
 * would give. */
static void test_pieces(void) {
    dl_error err = {0};
    int64_t n = 3 * (DLR_ST_PIECE / (int64_t)sizeof(float)) + 5, asked = 0, wrong = 0;
    dlr_st_tensor t = {.name = "w", .dtype = DLR_ST_F32, .rank = 1, .shape = {n}};
    dlr_st_content content = {
        .tensors = &t, .n = 1, .read = count_up, .ctx = &asked, .finite = true};
    dlr_st_written by_piece, whole;
    CHECK(dlr_st_write(in_dir("p"), &content, &by_piece, &err) && asked == n, "%s", err.message);
    float *data = malloc((size_t)n * sizeof *data), part[7];
    for (int64_t i = 0; i < n; i++) data[i] = (float)(i % (1 << 23));
    t.data = data;
    CHECK(dlr_st_write(in_dir("q"), &content, &whole, &err), "%s", err.message);
    CHECK(whole.bytes == by_piece.bytes && whole.checksum == by_piece.checksum &&
          !whole.not_finite);
    dlr_st_file *f = dlr_st_open(in_dir("p"), DLR_ST_PLAIN, &err);
    CHECK(f, "%s", err.message);
    for (int64_t at = 0; f && at + 7 <= n; at += n / 50) {
        dlr_st_tensor p = dlr_st_part(dlr_st_find(f, "w"), at, 7);
        CHECK(dlr_st_load(f, &p, part, &err) && p.bytes == sizeof part, "%s", err.message);
        wrong += memcmp(part, data + at, sizeof part) != 0;
    }
    CHECK(wrong == 0);
    dlr_st_close(f);
    free(data);
}

/* One value that is not finite, of every type, anywhere: found where it is, and an error where none
 * may be; the largest finite ones and integers of the same bits are none. */
static void test_finite(void) {
    static const struct {
        dlr_st_dtype dtype;
        uint64_t infinity, largest;
    } rows[] = {{DLR_ST_F64, 0x7ff0000000000000, 0x7fefffffffffffff},
                {DLR_ST_F32, 0x7f800000, 0x7f7fffff},
                {DLR_ST_F16, 0x7c00, 0x7bff},
                {DLR_ST_BF16, 0x7f80, 0x7f7f},
                {DLR_ST_I32, 0x7f800000, 0x7f800000},
                {DLR_ST_U16, 0x7c00, 0x7f80}};
    enum { ROWS = 3, COLUMNS = 1000 };
    const char *path = in_dir("finite");
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        size_t size = dlr_st_dtype_size(rows[k].dtype);
        unsigned char *data = calloc(ROWS * COLUMNS, size);
        static const unsigned char one[8] = {1};
        dlr_st_tensor tensors[] = {
            {.name = "fine", .dtype = DLR_ST_U8, .rank = 1, .shape = {8}, .data = one},
            {.name = "w",
             .dtype = rows[k].dtype,
             .rank = 2,
             .shape = {ROWS, COLUMNS},
             .data = data}};
        dlr_st_content content = {.tensors = tensors, .n = 2, .finite = true};
        bool is_float = k < 4;
        dl_error err = {0};
        for (int i = 0; i < ROWS * COLUMNS; i++)
            memcpy(data + (size_t)i * size, &rows[k].largest, size);
        CHECK(dlr_st_write(path, &content, NULL, &err), "%s", err.message);
        for (int i = 0; i < ROWS * COLUMNS; i += 37) {
            /* nan (quiet or not), infinity, and the negative ones */
            uint64_t sign = (uint64_t)(i & 1) << (8 * size - 1);
            uint64_t value = rows[k].infinity | (i % 3 == 0 ? 0 : 1) | sign;
            const char *where =
                dl_format(arena, "'w' has %s at [%d, %d]", i % 3 == 0 ? "an infinity" : "nan",
                          i / COLUMNS, i % COLUMNS);
            dlr_st_written written;
            memcpy(data + (size_t)i * size, &value, size);
            err = (dl_error){0};
            bool ok = dlr_st_write(path, &content, &written, &err);
            CHECK(ok == !is_float && (ok || (err.code == DL_NUMERIC && strstr(err.message, where))),
                  "%s: %s, not %s", dlr_st_dtype_name(rows[k].dtype), err.message, where);
            content.finite = false;
            CHECK(dlr_st_write(in_dir("any"), &content, &written, &err));
            CHECK(is_float ? written.not_finite && strcmp(written.not_finite, "w") == 0
                           : !written.not_finite);
            content.finite = true;
            memcpy(data + (size_t)i * size, &rows[k].largest, size);
        }
        dlr_st_file *f = dlr_st_open(path, DLR_ST_PLAIN, &err);
        CHECK(f && memcmp(dlr_st_find(f, "w")->data, data, is_float ? 37 * size : 0) == 0,
              "the file before is whole");
        dlr_st_close(f);
        free(data);
    }
}

static const char *write_raw(const char *header, uint64_t length, size_t data) {
    const char *path = in_dir("raw.safetensors");
    dl_buf b = {0};
    dl_putn(&b, (const char *)&length, 8);
    dl_puts(&b, header);
    for (size_t i = 0; i < data; i++) dl_putn(&b, (const char[]){(char)i}, 1);
    dl_error err = {0};
    CHECK(dl_write_file(path, b.at, b.n, &err), "%s", err.message);
    dl_buf_free(&b);
    return path;
}

static void test_hostile(void) {
    static const struct {
        const char *header;
        size_t data;
        const char *says;
    } cases[] = {
        {"[]", 0, "object"},
        {"{\"a\":1}", 0, "expected {dtype"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4,
         "expected {dtype"},
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "'F4'"},
        {"{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "'dtype'"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "whole number"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4, "whole number"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":{},\"data_offsets\":[0,4]}}", 4, "'shape'"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
         "dimensions"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "does not fit"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}", 0,
         "does not fit"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
         "does not fit"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 3, "ends at byte"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "begin <= end"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", 4, "begin <= end"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[9223372036854775804,"
         "9223372036854775807]}"
         "}",
         4, "ends"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[99999999999999999999,4]}}", 4,
         "begin <= end"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "gap"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 5, "follow"},
        {"{}", 5, "follow"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[2,6]}}",
         6, "overlap"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
         4, "overlap"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
         8, "twice"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[1,1]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
         2, "overlap"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "not a string"},
        {"{\"__metadata__\":[]}", 0, "no object"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[[[[[[[[[[[1]]]]]]]]]]],\"data_offsets\":[0,4]}}", 4,
         "deeply"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_error err = {0};
        const char *path = write_raw(cases[i].header, strlen(cases[i].header), cases[i].data);
        dlr_st_file *f = dlr_st_open(path, DLR_ST_PLAIN, &err);
        CHECK(!f && err.code == DL_INPUT && strstr(err.message, cases[i].says) &&
                  strstr(err.message, path),
              "%s says '%s'", cases[i].header, err.message);
        dlr_st_close(f);
    }
    static const struct {
        uint64_t length;
        const char *says;
    } lengths[] = {{3, "cut off"},
                   {100000001, "at most"},
                   {UINT64_MAX, "at most"},
                   {UINT64_MAX - 7, "at most"},
                   {0, "ends"}};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        dl_error err = {0};
        CHECK(!dlr_st_open(write_raw("{}", lengths[i].length, 0), DLR_ST_PLAIN, &err) &&
                  strstr(err.message, lengths[i].says),
              "%s", err.message);
    }
    dl_error err = {0};
    CHECK(!dlr_st_open(dir, DLR_ST_PLAIN, &err) && err.code == DL_INPUT &&
          strstr(err.message, "a directory"));
    err = (dl_error){0};
    CHECK(!dlr_st_open(in_dir("absent"), DLR_ST_PLAIN, &err) && err.code == DL_IO);
    err = (dl_error){0};
    CHECK(mkfifo(in_dir("fifo"), 0600) == 0 && !dlr_st_open(in_dir("fifo"), DLR_ST_PLAIN, &err) &&
          err.code == DL_INPUT);
    err = (dl_error){0};
    CHECK(dl_write_file(in_dir("empty"), "", 0, &err) &&
              !dlr_st_open(in_dir("empty"), DLR_ST_PLAIN, &err) && err.code == DL_INPUT,
          "%s", err.message);
}

/* Each flip of one bit gives an error or a file whose tensors can be touched to their last byte. */
static void test_bit_flips(void) {
    const char *header = "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
                         "\"b\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[16,22]}}";
    size_t n = 8 + strlen(header);
    const char *path = write_raw(header, strlen(header), 22);
    int fd = open(path, O_RDWR), opened = 0;
    for (size_t bit = 0; bit < 8 * n; bit++) {
        unsigned char c, flipped;
        CHECK(pread(fd, &c, 1, (off_t)(bit / 8)) == 1);
        flipped = (unsigned char)(c ^ 1 << bit % 8);
        CHECK(pwrite(fd, &flipped, 1, (off_t)(bit / 8)) == 1);
        dl_error err = {0};
        dlr_st_file *f = dlr_st_open(path, DLR_ST_STRIP, &err);
        CHECK(f ? err.code == DL_OK : err.code == DL_INPUT && strstr(err.message, path),
              "bit %zu: %s", bit, err.message);
        for (int i = 0; f && i < f->n; i++) {
            char *copy = malloc(f->tensors[i].bytes + 1);
            CHECK(f->tensors[i].bytes <= 22 && dlr_st_load(f, &f->tensors[i], copy, &err));
            CHECK(memcmp(copy, f->tensors[i].data, f->tensors[i].bytes) == 0);
            free(copy);
        }
        opened += f != NULL;
        dlr_st_close(f);
        CHECK(pwrite(fd, &c, 1, (off_t)(bit / 8)) == 1);
    }
    close(fd);
    CHECK(opened > 0 && opened < (int)(8 * n) / 4, "%d of %zu opened", opened,
          8 * n); /* names and the like may change */
}

static void test_names(void) {
    dl_error err = {0};
    float x = 1;
    dlr_st_tensor t[] = {{.name = "module._orig_mod.conv.weight", .dtype = DLR_ST_F32, .data = &x},
                         {.name = "module.", .dtype = DLR_ST_F32, .data = &x},
                         {.name = "my.module.x", .dtype = DLR_ST_F32, .data = &x},
                         {.name = "conv.weight", .dtype = DLR_ST_F32, .data = &x}};
    const char *path = in_dir("names.safetensors");
    CHECK(dlr_st_write(path, &(dlr_st_content){.tensors = t, .n = 3}, NULL, &err), "%s",
          err.message);
    dlr_st_file *f = dlr_st_open(path, DLR_ST_STRIP, &err);
    CHECK(f && dlr_st_find(f, "conv.weight") && dlr_st_find(f, "module.") &&
          dlr_st_find(f, "my.module.x"));
    dlr_st_close(f);
    f = dlr_st_open(path, DLR_ST_PLAIN, &err);
    CHECK(f && dlr_st_find(f, "module._orig_mod.conv.weight") && !dlr_st_find(f, "conv.weight"));
    dlr_st_close(f);
    CHECK(dlr_st_write(path, &(dlr_st_content){.tensors = t, .n = 4}, NULL, &err));
    CHECK(!dlr_st_open(path, DLR_ST_STRIP, &err) && strstr(err.message, "'conv.weight'"), "%s",
          err.message);
}

static void test_differences(void) {
    dl_error err = {0};
    float x[4] = {0};
    dlr_st_tensor have[] = {{.name = "a", .dtype = DLR_ST_F32, .rank = 1, .shape = {4}, .data = x},
                            {.name = "b", .dtype = DLR_ST_F16, .rank = 1, .shape = {4}, .data = x},
                            {.name = "c", .dtype = DLR_ST_I64, .rank = 1, .shape = {2}, .data = x}};
    dlr_st_tensor want[] = {{.name = "a", .dtype = DLR_ST_F32, .rank = 2, .shape = {2, 2}},
                            {.name = "b", .dtype = DLR_ST_F32, .rank = 1, .shape = {4}},
                            {.name = "d", .dtype = DLR_ST_I64, .rank = 0}};
    const char *path = in_dir("other.safetensors");
    CHECK(dlr_st_write(path, &(dlr_st_content){.tensors = have, .n = 3}, NULL, &err));
    dlr_st_file *f = dlr_st_open(path, DLR_ST_PLAIN, &err);
    CHECK(f && !dlr_st_check(f, want, 3, &err) && err.code == DL_INPUT);
    CHECK(strstr(err.message, "a: the file has F32[4], the model F32[2,2]"), "%s", err.message);
    CHECK(strstr(err.message, "d: missing in the file, the model has I64[]"), "%s", err.message);
    CHECK(strstr(err.message, "c: not in the model, the file has I64[2]") &&
          !strstr(err.message, "b:"));
    dlr_st_tensor many[100];
    for (int i = 0; i < 100; i++)
        many[i] = (dlr_st_tensor){.name = dl_format(arena, "a.long.name.%d", i)};
    err = (dl_error){0};
    CHECK(!dlr_st_check(f, many, 100, &err) && strstr(err.message, "more"), "%s", err.message);
    dlr_st_close(f);
}

static void test_widening(void) {
    /* Every binary16 value against the compiler's own conversion would need hardware; the formula
     * is exact instead. */
    uint16_t h[65536];
    float *wide = malloc(sizeof(float) * 65536);
    dl_error err = {0};
    for (int i = 0; i < 65536; i++) h[i] = (uint16_t)i;
    dlr_st_tensor t[] = {
        {.name = "h", .dtype = DLR_ST_F16, .rank = 1, .shape = {65536}, .data = h},
        {.name = "b", .dtype = DLR_ST_BF16, .rank = 1, .shape = {65536}, .data = h},
        {.name = "d", .dtype = DLR_ST_F64, .rank = 1, .shape = {1}, .data = &(double){0.1}}};
    const char *path = in_dir("half.safetensors");
    CHECK(dlr_st_write(path, &(dlr_st_content){.tensors = t, .n = 3}, NULL, &err), "%s",
          err.message);
    dlr_st_file *f = dlr_st_open(path, DLR_ST_PLAIN, &err);
    CHECK(f && dlr_st_load_f32(f, dlr_st_find(f, "h"), wide, &err));
    int wrong = 0;
    for (int i = 0; i < 65536; i++) {
        int e = i >> 10 & 31, m = i & 1023;
        double v = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
        if (i >> 15) v = -v;
        wrong +=
            isnan(v) ? !isnan(wide[i]) : (double)wide[i] != v || !signbit(wide[i]) != !signbit(v);
    }
    CHECK(wrong == 0, "%d of 65536", wrong);
    CHECK(dlr_st_load_f32(f, dlr_st_find(f, "b"), wide, &err));
    uint32_t bits;
    memcpy(&bits, &wide[0x3f80], 4);
    CHECK(wide[0x3f80] == 1.0f && wide[0xc040] == -3.0f && bits == 0x3f800000);
    CHECK(dlr_st_load_f32(f, dlr_st_find(f, "d"), wide, &err) && wide[0] == 0.1f);
    dlr_st_close(f);
    free(wide);
}

int main(void) {
    arena = dl_arena_new(NULL);
    CHECK(mkdtemp(dir) != NULL);
    test_round_trip();
    test_pieces();
    test_finite();
    test_hostile();
    test_bit_flips();
    test_names();
    test_differences();
    test_widening();
    static const char *const names[] = {"a", "raw", "names", "other", "half"};
    for (int i = 0; i < 5; i++) unlink(in_dir(dl_format(arena, "%s.safetensors", names[i])));
    static const char *const others[] = {"fifo", "empty", "p", "q", "finite", "any"};
    for (int i = 0; i < 6; i++) unlink(in_dir(others[i]));
    CHECK(rmdir(dir) == 0); /* nothing temporary was left */
    dl_arena_free(arena);
    return dl_test_end();
}

/* Archives of PyTorch and ONNX files as they are, and damaged in every way: none ends the process,
 * and what is refused is refused with its place. */
#include <sys/stat.h>
#include <unistd.h>

#include "frontends/dl/format.h"
#include "imports/dl/write.h"
#include "imports/graph/weights.h"
#include "imports/onnx/onnx.h"
#include "imports/pt2/pt2.h"
#include "ir/base/input.h"
#include "tests/check.h"

static char folder[] = "/tmp/dlc_test_import_XXXXXX";

typedef struct {
    char *at;
    size_t n;
} bytes;

static void put(const char *path, const bytes *b, size_t n) {
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(b->at, 1, n, f) == n && fclose(f) == 0);
}

/* Imports a file; the error's message, or "". */
static const char *import(const char *path, dl_buf *text) {
    static dl_error err;
    dl_arena *arena = dl_arena_new(NULL);
    err = (dl_error){0};
    bool is_onnx = strstr(path, ".onnx") != NULL;
    dl_onnx_file *onnx = is_onnx ? dl_onnx_open(arena, path, NULL, &err) : NULL;
    dl_pt2 *archive = is_onnx ? NULL : dl_pt2_open(arena, path, &err);
    const dl_foreign_graph *g = onnx ? dl_onnx_graph(onnx) : archive ? dl_pt2_graph(archive) : NULL;
    dl_import_options options = {.loss = "mse", .title = "Model"};
    dl_import_report report = {0};
    const bool *kept;
    dl_buf written = {0};
    if (g && dl_import_write(g, &options, &written, &report, &kept, &err)) {
        dl_source *s = dl_source_new(arena, "t.dl", written.at, written.n);
        dl_diags *diags = dl_diags_new(arena, s);
        dl_buf faults = {0};
        bool parses = dl_format_source(arena, s, text, diags);
        if (!parses) dl_diags_print(&faults, diags, false);
        CHECK(parses, "what is written parses: %s", faults.at);
        dl_buf_free(&faults);
        char weights[300];
        snprintf(weights, sizeof weights, "%s/w.safetensors", folder);
        dl_error ignored = {0};
        if (!dl_import_weights(g, kept, weights, &ignored)) err = ignored;
    }
    CHECK((err.code == DL_OK) == !*err.message && err.code != DL_INTERNAL, "%s", err.message);
    dl_buf_free(&written);
    dl_pt2_close(archive), dl_onnx_close(onnx);
    dl_arena_free(arena);
    dl_input_forget();
    return err.message;
}

/* The archive as one without checksums, so that damage in its JSON is read. */
static void drop_sums(bytes *b) {
    for (size_t i = 0; i + 46 < b->n; i++) {
        if (memcmp(b->at + i, "PK\1\2", 4) == 0) memset(b->at + i + 16, 0, 4);
        if (memcmp(b->at + i, "PK\3\4", 4) == 0) memset(b->at + i + 14, 0, 4);
    }
}

static bool replace(bytes *b, const char *from, const char *to) {
    CHECK(strlen(from) == strlen(to));
    char *at = memmem(b->at, b->n, from, strlen(from));
    if (at) memcpy(at, to, strlen(to));
    return at != NULL;
}

typedef struct {
    const char *from, *to, *says; /* NULL: it may be taken */
} damage;

static void test_damages(const char *path, const bytes *whole) {
    static const damage list[] = {
        {"\"major\":8", "\"major\":7", "schema version"},
        {"\"parameter_name\":\"w\"", "\"parameter_name\":\"v\"", "lists no such tensor"},
        {"torch.ops.aten.", "torch.ops.atem.", NULL},
        {"\"as_int\":8", "\"as_int\":9", "shape"},
        {"\"storage_offset\":{\"as_int\":0", "\"storage_offset\":{\"as_int\":9", NULL},
        {"\"use_pickle\": false", "\"use_pickle\": true ", "pickle"},
        {"archive_formatpt2", "archive_formatpt3", "archive_format"},
    };
    char copy_path[300];
    snprintf(copy_path, sizeof copy_path, "%s/damaged.pt2", folder);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        bytes b = {malloc(whole->n), whole->n};
        memcpy(b.at, whole->at, b.n);
        drop_sums(&b);
        CHECK(replace(&b, list[i].from, list[i].to), "%s is in %s", list[i].from, path);
        put(copy_path, &b, b.n);
        dl_buf text = {0};
        const char *message = import(copy_path, &text);
        CHECK(!list[i].says || strstr(message, list[i].says), "%s: '%s'", list[i].to, message);
        dl_buf_free(&text);
        free(b.at);
    }
}

static uint32_t next(uint32_t *state) { return *state = *state * 1664525u + 1013904223u; }

/* Flips, digits and cut ends at random places. */
static void test_random(const bytes *whole, const char *name, uint32_t seed, int rounds) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (int i = 0; i < rounds; i++) {
        bytes b = {malloc(whole->n), whole->n};
        memcpy(b.at, whole->at, b.n);
        if (i % 4) drop_sums(&b);
        for (uint32_t k = 1 + next(&seed) % 4; k > 0; k--) {
            size_t at = (size_t)(next(&seed) >> 4) % b.n;
            if (i % 2) { /* a digit in place of a digit: numbers that mean something else */
                while (at + 1 < b.n && !(b.at[at] >= '0' && b.at[at] <= '9')) at++;
                b.at[at] = (char)('0' + next(&seed) % 10);
            } else
                b.at[at] = (char)(next(&seed) >> 24);
        }
        put(path, &b, i % 7 == 6 ? (size_t)(next(&seed) >> 4) % b.n : b.n);
        dl_buf text = {0};
        import(path, &text);
        dl_buf_free(&text);
        free(b.at);
    }
    CHECK(rounds > 0);
}

int main(void) {
    static const char *const names[] = {
        "tests/data/import/mixer.pt2", "examples/import/convnext.pt2", "tests/data/import/mlp.pt2",
        "tests/data/import/mixer.script.onnx", "examples/import/convnext.onnx"};
    CHECK(mkdtemp(folder) != NULL);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        dl_arena *arena = dl_arena_new(NULL);
        dl_error err = {0};
        bool is_onnx = strstr(names[i], ".onnx") != NULL;
        bytes b = {0};
        b.at = dl_read_file(arena, names[i], 1 << 20, &b.n, &err);
        CHECK(b.at != NULL, "%s", err.message);
        dl_buf text = {0};
        CHECK_STR(import(names[i], &text), "");
        dl_buf_free(&text);
        if (b.at && i == 0) test_damages(names[i], &b);
        if (b.at) test_random(&b, is_onnx ? "random.onnx" : "random.pt2", (uint32_t)i + 1, 300);
        dl_arena_free(arena);
    }
    for (const char *const *name = (const char *const[]){"random.pt2", "random.onnx", "damaged.pt2",
                                                         "w.safetensors", NULL};
         *name; name++) {
        char path[300];
        snprintf(path, sizeof path, "%s/%s", folder, *name);
        unlink(path);
    }
    CHECK(rmdir(folder) == 0);
    return dl_test_end();
}

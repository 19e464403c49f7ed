/* Archives of PyTorch: the graph, the text of its model and its weights. */
#include <string.h>

#include "imports/dl/write.h"
#include "imports/pt2/pt2.h"
#include "ir/base/input.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    dl_pt2 *archive = dl_pt2_open(arena, fuzz_file(data, n), &err);
    FUZZ_CHECK(archive || err.code == DL_INPUT || err.code == DL_IO);
    if (archive) {
        const dl_foreign_graph *g = dl_pt2_graph(archive);
        dl_import_options options = {.loss = "mse", .title = "Model"};
        dl_import_report report = {0};
        const bool *kept;
        dl_buf text = {0};
        bool ok = dl_import_write(g, &options, &text, &report, &kept, &err);
        FUZZ_CHECK(ok || err.code == DL_INPUT || err.code == DL_IO);
        for (int i = 0; ok && i < g->tensors.n; i++) {
            const dl_foreign_tensor *t = g->tensors.at[i];
            if (!kept[i] || !t->data || dl_foreign_count(t) > 1 << 16) continue;
            double *numbers = DL_NEWS(arena, double, dl_foreign_count(t) + 1);
            ok = dl_foreign_numbers(g, t, numbers, &err);
            FUZZ_CHECK(ok || err.code == DL_INPUT || err.code == DL_IO);
        }
        dl_buf_free(&text);
        dl_pt2_close(archive);
    }
    dl_input_forget();
    dl_arena_free(arena);
    return 0;
}

/* Without checksums, damage in the JSON is read. */
static void drop_sums(uint8_t *data, size_t n) {
    for (size_t i = 0; i + 46 < n; i++) {
        if (memcmp(data + i, "PK\1\2", 4) == 0) memset(data + i + 16, 0, 4);
        if (memcmp(data + i, "PK\3\4", 4) == 0) memset(data + i + 14, 0, 4);
    }
}

/* A string of the JSON in the place of another one of its length: names of tensors, of ops and of
 * arguments. */
static void swap_names(uint8_t *data, size_t n, fuzz_random *r) {
    size_t from = fuzz_below(r, n), to = fuzz_below(r, n), length = 0;
    while (from < n && data[from] != '"') from++;
    while (from + length + 1 < n && data[from + length + 1] != '"' && length < 60) length++;
    for (size_t i = 0; i < n && length; i++, to = to + 1 < n ? to + 1 : 0)
        if (to + length + 2 < n && data[to] == '"' && data[to + length + 1] == '"' && to != from &&
            !memchr(data + to + 1, '"', length)) {
            memmove(data + to, data + from, length + 1);
            return;
        }
}

/* Ops and arguments of the same length in place of each other, digits, names; or bytes anywhere. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed) {
    static const char *const words[][2] = {
        {"aten.add.", "aten.mul."},       {"aten.mul.", "aten.max."},
        {"aten.tanh.", "aten.view."},     {"aten.relu.", "aten.sort."},
        {"aten.view.", "aten.roll."},     {"aten.mean.", "aten.topk."},
        {"aten.sum.", "aten.pad."},       {"aten.gelu.", "aten.flip."},
        {"aten.select.", "aten.repeat."}, {"aten.linear.", "aten.conv2d."},
        {"as_tensor\"", "as_string\""},   {"as_int\"", "as_ints"},
        {"as_ints\"", "as_bool\""}};
    fuzz_random r = {seed};
    if (fuzz_below(&r, 8) == 0) return fuzz_mutate_bytes(data, n, max, &r);
    drop_sums(data, n);
    for (size_t k = 1 + fuzz_below(&r, 4); k > 0 && n; k--) {
        size_t at = fuzz_below(&r, n), kind = fuzz_below(&r, 4);
        if (kind == 0) {
            swap_names(data, n, &r);
        } else if (kind == 1) {
            const char *const *word = words[fuzz_below(&r, sizeof words / sizeof *words)];
            size_t length = strlen(word[0]);
            uint8_t *found = memmem(data + at, n - at, word[0], length);
            if (found && strlen(word[1]) == length) memcpy(found, word[1], length);
        } else { /* a digit in place of a digit, or a sign */
            while (at + 1 < n && !(data[at] >= '0' && data[at] <= '9')) at++;
            data[at] = kind == 2 ? (uint8_t)('0' + fuzz_below(&r, 10)) : (uint8_t)'-';
        }
    }
    return n;
}

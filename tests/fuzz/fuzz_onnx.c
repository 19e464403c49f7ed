/* ONNX files: the graph, the text of its model and its weights. */
#include <string.h>

#include "imports/dl/write.h"
#include "imports/onnx/onnx.h"
#include "ir/base/input.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    const char *path = fuzz_file(data, n);
    dl_onnx_file *file = dl_onnx_open(arena, path, "height=16,width=16", &err);
    FUZZ_CHECK(file || err.code == DL_INPUT || err.code == DL_IO);
    if (file) {
        dl_import_options options = {.loss = "mse", .title = "Model"};
        dl_import_report report = {0};
        const bool *kept;
        dl_buf text = {0};
        bool ok = dl_import_write(dl_onnx_graph(file), &options, &text, &report, &kept, &err);
        FUZZ_CHECK(ok || err.code == DL_INPUT || err.code == DL_IO);
        const dl_foreign_graph *g = dl_onnx_graph(file);
        for (int i = 0; ok && i < g->tensors.n; i++) {
            const dl_foreign_tensor *t = g->tensors.at[i];
            if (!kept[i] || !t->data || dl_foreign_count(t) > 1 << 16) continue;
            double *numbers = DL_NEWS(arena, double, dl_foreign_count(t) + 1);
            ok = dl_foreign_numbers(g, t, numbers, &err);
            FUZZ_CHECK(ok || err.code == DL_INPUT || err.code == DL_IO);
        }
        dl_buf_free(&text);
        dl_onnx_close(file);
    }
    dl_input_forget();
    dl_arena_free(arena);
    return 0;
}

/* Names and words of the same length in place of each other, or bytes anywhere: lengths of
 * messages stay right in most inputs. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed) {
    static const char *const words[][2] = {
        {"Add", "Mul"},    {"Mul", "Div"},       {"Conv", "Gemm"},     {"Gemm", "Tile"},
        {"Relu", "Clip"},  {"MatMul", "Gather"}, {"Concat", "Resize"}, {"Reshape", "Squeeze"},
        {"axis", "axes"},  {"pads", "perm"},     {"Slice", "Split"},   {"Expand", "Einsum"},
        {"Shape", "Range"}};
    fuzz_random r = {seed};
    if (fuzz_below(&r, 3) == 0) return fuzz_mutate_bytes(data, n, max, &r);
    for (size_t k = 1 + fuzz_below(&r, 3); k > 0; k--) {
        const char *const *word = words[fuzz_below(&r, sizeof words / sizeof *words)];
        size_t length = strlen(word[0]), from = fuzz_below(&r, n);
        if (strlen(word[1]) == length)
            for (size_t i = from; i + length <= n; i++)
                if (memcmp(data + i, word[0], length) == 0) {
                    memcpy(data + i, word[1], length);
                    break;
                }
        /* a small number in place of a byte: sizes, axes, types */
        if (n) data[fuzz_below(&r, n)] = (uint8_t)fuzz_below(&r, 20);
    }
    return n;
}

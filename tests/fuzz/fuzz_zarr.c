/* Zarr's metadata, of both versions, and attributes. */
#include <math.h>
#include <string.h>

#include "ir/base/arena.h"
#include "runtime/data/packing.h"
#include "runtime/data/zarr_meta.h"
#include "tests/fuzz/fuzz.h"

static void check(const dlr_array_facts *a, const dlr_zarr_how *how) {
    if (a->rank > DLR_ARRAY_RANK) return; /* it is not read */
    FUZZ_CHECK(a->rank >= 0 && a->type <= DLR_EL_NONE && a->stored && a->packing);
    for (int i = 0; i < a->rank; i++) FUZZ_CHECK(a->dims[i] >= 0 && a->chunk[i] >= 1);
    FUZZ_CHECK(how->codecs >= 0 && how->codecs <= DLR_MAX_CODECS && how->separator);
    for (int i = 0; how->sharded && !a->refused && i < a->rank; i++) FUZZ_CHECK(how->shard[i] >= 1);
    for (int i = 0; i < how->codecs; i++) FUZZ_CHECK(how->codec[i].element > 0);
    for (int i = 0; i < a->attribute_count; i++)
        FUZZ_CHECK(a->attributes[i].name && a->attributes[i].text);
    dlr_packing p;
    dl_buf warnings = {0};
    dl_error err = {0};
    bool ok = dlr_packing_of(a, &p, &warnings, &err);
    FUZZ_CHECK(ok || err.code == DL_INPUT);
    FUZZ_CHECK(!ok || (p.n_missing >= 0 && p.n_missing <= DLR_MISSING && isfinite(p.scale)));
    dl_buf_free(&warnings);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    dl_arena *arena = dl_arena_new(NULL);
    char *text = dl_strndup(arena, (const char *)data, n);
    for (int version = 2; version <= 3; version++) {
        dl_error err = {0}, fault = {0};
        dlr_array_facts a = {.name = ""};
        dlr_zarr_how how;
        bool ok = dlr_zarr_array(arena, text, n, version, "a/.zarray", &a, &how, &err);
        FUZZ_CHECK(ok || err.code == DL_INPUT);
        if (ok) check(&a, &how);
        dlr_array_facts b = {
            .name = "", .type = (dlr_element)(n % DLR_NELEMENTS), .stored = "", .packing = ""};
        ok = dlr_zarr_attributes(arena, text, n, "a/.zattrs", &b, &fault);
        FUZZ_CHECK(ok || fault.code == DL_INPUT);
        if (ok) check(&b, &(dlr_zarr_how){.separator = '.'});
    }
    dl_error err = {0};
    dlr_zarr_node node;
    bool ok = dlr_zarr_node_of(arena, text, n, "a/zarr.json", &node, &err);
    FUZZ_CHECK(ok || err.code == DL_INPUT);
    dl_arena_free(arena);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed) {
    static const char *const words[] = {"\"zarr_format\":",
                                        "2",
                                        "3",
                                        "\"shape\":",
                                        "\"chunks\":",
                                        "[0]",
                                        "[2, 3]",
                                        "9223372036854775807",
                                        "-1",
                                        "null",
                                        "\"<f4\"",
                                        "\">i2\"",
                                        "\"|b1\"",
                                        "\"blosc\"",
                                        "\"gzip\"",
                                        "\"shuffle\"",
                                        "\"NaN\"",
                                        "1e999",
                                        "{",
                                        "}",
                                        "\"bytes\"",
                                        "\"crc32c\"",
                                        "\"sharding_indexed\"",
                                        "\"chunk_shape\":",
                                        "\"index_codecs\":",
                                        "\"float16\"",
                                        "\"_ARRAY_DIMENSIONS\":",
                                        NULL};
    return fuzz_mutate_text((char *)data, n, max, words, &(fuzz_random){seed});
}

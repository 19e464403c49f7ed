/* A shard of a Zarr array: its index and its chunks. The first byte says how the array is stored,
 * the others are the shard. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/data/array_file.h"
#include "runtime/formats/crc32c.h"
#include "tests/fuzz/fuzz.h"

enum { CHUNKS = 6, ENTRY = 16, CHECKSUM = 4 };

static void put(const char *path, const void *data, size_t n) {
    FILE *f = fopen(path, "wb");
    FUZZ_CHECK(f && fwrite(data, 1, n, f) == n && fclose(f) == 0);
}

/* A store of one shard of 3 x 2 chunks, with codecs and the place of its index by `how`. */
static const char *store(uint8_t how, const uint8_t *data, size_t n) {
    static const char *const codecs[] = {
        "", ", {\"name\": \"gzip\", \"configuration\": {\"level\": 1}}", ", {\"name\": \"crc32c\"}",
        ", {\"name\": \"zstd\", \"configuration\": {\"level\": 1, \"checksum\": false}}"};
    static char folder[256], path[512], text[1024];
    if (!folder[0]) snprintf(folder, sizeof folder, "%s.zarr", fuzz_file("", 0));
    mkdir(folder, 0700);
    snprintf(path, sizeof path, "%s/c", folder), mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/c/0", folder), mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/c/0/0", folder);
    put(path, data, n);
    int bytes = snprintf(
        text, sizeof text,
        "{\"zarr_format\": 3, \"node_type\": \"array\", \"shape\": [5, 4], \"data_type\": "
        "\"float32\", \"chunk_grid\": {\"name\": \"regular\", \"configuration\": {\"chunk_shape\": "
        "[6, 4]}}, \"fill_value\": 7, \"chunk_key_encoding\": {\"name\": \"default\", "
        "\"configuration\": {\"separator\": \"/\"}}, \"codecs\": [{\"name\": \"sharding_indexed\", "
        "\"configuration\": {\"chunk_shape\": [2, 2], \"index_location\": \"%s\", \"codecs\": "
        "[{\"name\": \"bytes\", \"configuration\": {\"endian\": \"little\"}}%s], \"index_codecs\": "
        "[{\"name\": \"bytes\", \"configuration\": {\"endian\": \"little\"}}%s]}}]}",
        how & 1 ? "start" : "end", codecs[how / 2 % 4], how & 8 ? "" : ", {\"name\": \"crc32c\"}");
    snprintf(path, sizeof path, "%s/zarr.json", folder);
    put(path, text, (size_t)bytes);
    return folder;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (n < 1) return 0;
    dl_error err = {0};
    dlr_array_file *f = dlr_array_file_open(store(data[0], data + 1, n - 1), &err);
    FUZZ_CHECK(f && f->n == 1 && !f->arrays[0].refused);
    dlr_source *s = dlr_source_open(f, &f->arrays[0], 1 << 12, &err);
    FUZZ_CHECK(s);
    for (int row = 0; row < 5;
         row += 2) { /* chunks one by one: one that is damaged ends no other */
        dl_error fault = {0};
        float out[8];
        const dlr_block b = {.start = {row}, .count = {row == 4 ? 1 : 2, 4}};
        FUZZ_CHECK(dlr_source_read(s, &b, DLR_EL_F32, out, &fault) || fault.code == DL_INPUT);
    }
    dlr_source_close(s);
    dlr_array_file_close(f);
    return 0;
}

/* The checksum of the index fits again, mostly. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed) {
    fuzz_random r = {seed};
    n = fuzz_mutate_bytes(data, n, max, &r);
    const size_t index = CHUNKS * ENTRY;
    if (n < 1 + index + CHECKSUM || data[0] & 8 || fuzz_below(&r, 8) == 0) return n;
    uint8_t *at = data[0] & 1 ? data + 1 : data + n - index - CHECKSUM;
    for (int i = 0; i < CHUNKS; i++) /* places are within the shard, mostly */
        if (fuzz_below(&r, 4))
            for (int k = 2; k < 16; k++)
                if (k % 8 > 1 && at[i * ENTRY + k] != 255) at[i * ENTRY + k] = 0;
    const uint32_t sum = dlr_crc32c(at, index);
    for (int i = 0; i < CHECKSUM; i++) at[index + (size_t)i] = (uint8_t)(sum >> 8 * i);
    return n;
}

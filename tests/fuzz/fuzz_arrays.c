/* Arrays of files as loaders read them, of every format but HDF5 and folders; and chunks as they
 * are packed: a file of no such format is taken for one, its first bytes for the codecs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/base/input.h"
#include "runtime/data/array_format.h"
#include "runtime/data/chunk_codec.h"
#include "tests/fuzz/fuzz.h"

static void read_array(const dlr_array_file *f, const dlr_array_facts *a) {
    static const dlr_element wanted[] = {DLR_EL_F32, DLR_EL_I16, DLR_EL_BOOL};
    dl_error err = {0};
    int64_t count = 1;
    dlr_source *s = dlr_source_open(f, a, 1 << 16, &err);
    FUZZ_CHECK(s || err.code == DL_INPUT || err.code == DL_IO || err.code == DL_RESOURCE);
    if (!s) return;
    dlr_block b = {0};
    for (int i = 0; i < a->rank; i++) {
        b.count[i] = a->dims[i] < 5 ? a->dims[i] : 5;
        b.start[i] = a->dims[i] - b.count[i];
        count *= b.count[i];
    }
    for (int k = 0; k < 3 && count <= 1 << 16; k++) {
        dl_error fault = {0};
        void *out = malloc((size_t)count * dlr_element_bytes(wanted[k]) + 1);
        FUZZ_CHECK(out &&
                   (dlr_source_read(s, &b, wanted[k], out, &fault) || fault.code == DL_INPUT ||
                    fault.code == DL_IO || fault.code == DL_RESOURCE));
        free(out);
    }
    dlr_source_close(s);
}

static void unpack(const uint8_t *data, size_t n) {
    dlr_codec codecs[3];
    const char *why;
    if (n < 6) return;
    for (int i = 0; i < 3; i++)
        codecs[i] =
            (dlr_codec){(dlr_codec_kind)(data[i] % (DLR_CODEC_CRC32C + 1)), 1 + data[3] % 8};
    size_t room = data[4] + 256u * (data[5] % 16);
    char *packed = malloc(n), *out = malloc(room + 1);
    FUZZ_CHECK(packed && out);
    memcpy(packed, data + 6, n - 6);
    if (!dlr_chunk_unpack(codecs, 1 + data[3] % 3, 0, packed, n - 6, out, room, &why))
        FUZZ_CHECK(why && *why);
    free(packed), free(out);
}

/* The file with these bytes, where a reader of ours recognizes it; or NULL. Formats that are known
 * by a name get it: text is a table, gzip a volume. */
static const char *name_of(const uint8_t *data, size_t n) {
    static const dlr_array_format *const formats[] = {
        &dlr_npy_format,    &dlr_npz_format,     &dlr_netcdf3_format,
        &dlr_nifti_format,  &dlr_fits_format,    &dlr_tiff_format,
        &dlr_matlab_format, &dlr_parquet_format, &dlr_csv_format};
    static char named[512];
    const bool letter = n > 0 && data[0] >= ' ' && data[0] < 127;
    dlr_array_head h = {.path = letter ? "fuzz.csv" : "fuzz",
                        .n = n < DLR_FOREIGN_HEAD ? n : DLR_FOREIGN_HEAD};
    memcpy(h.bytes, data, h.n);
    if (n > 2 && data[0] == 0x1f && data[1] == 0x8b) h.path = "fuzz.nii.gz";
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i]->owns(&h)) {
            const char *own = fuzz_file(data, n);
            if (!strchr(h.path, '.')) return own;
            snprintf(named, sizeof named, "%s-%s", own, h.path);
            unlink(named);
            FUZZ_CHECK(symlink(own, named) == 0);
            return named;
        }
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    const char *path = name_of(data, n);
    if (!path) { /* HDF5 is libhdf5's, in a process of its own */
        unpack(data, n);
        return 0;
    }
    dl_error err = {0};
    dlr_array_file *f = dlr_array_file_open(path, &err);
    FUZZ_CHECK(f || err.code == DL_INPUT || err.code == DL_IO);
    for (int i = 0; f && i < f->n; i++) read_array(f, &f->arrays[i]);
    dlr_array_file_close(f);
    dl_input_forget();
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed) {
    fuzz_random r = {seed};
    return n > 4 ? 4 + fuzz_mutate_bytes(data + 4, n - 4, max - 4, &r) : n;
}

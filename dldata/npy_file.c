#include "dldata/npy_file.h"

#include "ir/base/npy.h"
#include "ir/base/output.h"

bool npy_file_write(const char *path, const float *data, const int *dims, int rank, dl_error *err) {
    dl_buf b = {0};
    int64_t wide[DL_NPY_RANK] = {0};
    size_t n = 1;
    for (int i = 0; i < rank; i++) n *= (size_t)dims[i], wide[i] = dims[i];
    dl_npy_put_header(&b, "<f4", wide, rank);
    dl_putn(&b, (const char *)data, n * sizeof *data);
    bool ok = dl_write_file(path, b.at, b.n, err);
    dl_buf_free(&b);
    return ok;
}

/* Writes NumPy's .npy files of f32, atomically. */
#ifndef DLDATA_NPY_FILE_H
#define DLDATA_NPY_FILE_H
#include "ir/base/status.h"

/* Errors: those of dl_write_file (ir/base/output.h). rank is at most 8. */
bool npy_file_write(const char *path, const float *data, const int *dims, int rank, dl_error *err);
#endif

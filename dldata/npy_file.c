/* Version 1 of the format (NumPy enhancement proposal 1): magic, length and a dictionary that ends on a
 * multiple of 64 bytes. */
#include "dldata/npy_file.h"

#include "ir/base/output.h"
#include "ir/base/str.h"

bool npy_file_write(const char *path, const float *data, const int *dims, int rank, dl_error *err) {
    enum { BEFORE = 10 };
    dl_buf b = {0}, head = {0};
    size_t n = 1;
    dl_puts(&head, "{'descr': '<f4', 'fortran_order': False, 'shape': (");
    for (int i = 0; i < rank; i++) {
        dl_putf(&head, i + 1 < rank ? "%d, " : rank == 1 ? "%d," : "%d", dims[i]);
        n *= (size_t)dims[i];
    }
    dl_puts(&head, "), }");
    while ((BEFORE + head.n + 1) % 64) dl_puts(&head, " ");
    dl_puts(&head, "\n");
    char length[2] = {(char)(head.n & 255), (char)(head.n >> 8)};
    dl_putn(&b, "\x93NUMPY\x01\x00", 8);
    dl_putn(&b, length, 2);
    dl_putn(&b, head.at, head.n);
    dl_putn(&b, (const char *)data, n * sizeof *data);
    bool ok = dl_write_file(path, b.at, b.n, err);
    dl_buf_free(&b);
    dl_buf_free(&head);
    return ok;
}

/* Checksums of zip entries: PKWARE's CRC-32 of their data, unpacked (APPNOTE.TXT 4.4.7). */
#include <libdeflate.h>
#include <stdlib.h>

#include "ir/base/input.h"
#include "runtime/formats/zip.h"

static bool check_sum(const char *path, const dlr_zip_entry *e, uint32_t crc, dl_error *err) {
    return crc == e->crc || dl_fail(err, DL_INPUT,
                                    "%s is damaged: the checksum of entry '%.200s' of the zip file "
                                    "does not fit its bytes %llu "
                                    "to %llu",
                                    path, e->name, (unsigned long long)e->at,
                                    (unsigned long long)(e->at + e->bytes));
}

bool dlr_zip_check_data(const char *path, const dlr_zip_entry *e, const void *data, dl_error *err) {
    return check_sum(path, e, libdeflate_crc32(0, data, (size_t)e->unpacked), err);
}

bool dlr_zip_check_stored(int fd, const char *path, const dlr_zip_entry *e, dl_error *err) {
    enum { PIECE = 1 << 20 };
    unsigned char *piece = malloc(PIECE);
    uint32_t crc = 0;
    bool ok = piece || dl_fail(err, DL_RESOURCE, "no memory to read %s", path);
    for (uint64_t done = 0; ok && done < e->bytes;) {
        size_t n = e->bytes - done < PIECE ? (size_t)(e->bytes - done) : PIECE;
        ok = dl_read_at(fd, path, piece, n, (int64_t)(e->at + done), err);
        if (ok) crc = libdeflate_crc32(crc, piece, n);
        done += n;
    }
    free(piece);
    return ok && check_sum(path, e, crc, err);
}

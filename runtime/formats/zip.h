/* Zip files, whose entries are stored (PyTorch's, torch_file.h; NumPy's .npz) or deflated (.npz).
 *
 * Source: PKWARE, APPNOTE.TXT 6.3.10; sizes and offsets of 4 GiB and more by its zip64 records. The
 * directory is checked when it is read, an entry's data by its reader: dlr_zip_check_stored,
 * dlr_zip_check_data. */
#ifndef DLR_ZIP_H
#define DLR_ZIP_H
#include "ir/base/str.h"
#include "runtime/formats/stored_internal.h"

typedef struct {
    const char *name;
    uint64_t header;    /* where its local header stands in the file */
    uint64_t at, bytes; /* its data in the file */
    bool deflated;      /* they are RFC 1951, */
    uint64_t unpacked;  /* of so many bytes; else the same number */
    uint32_t crc;       /* of these, CRC-32 */
} dlr_zip_entry;

typedef struct {
    dlr_zip_entry *entries; /* by name */
    int n;
    const char *first; /* the name that the directory lists first */
    bool unsummed; /* every crc is 0: torch.serialization.set_crc32_options(False) leaves them out
                      so */
} dlr_zip;

/* Reads the directory of an open file of `size` bytes. What it says is checked: entries are stored
 * or deflated, lie within the file apart from each other, and have names of their own, which their
 * local headers repeat. Errors: DL_INPUT naming `path`, entry and fault; DL_IO. */
bool dlr_zip_read(dl_arena *arena, int fd, const char *path, uint64_t size, dlr_zip *zip,
                  dl_error *err);
/* Whether the data of an entry, unpacked, have its checksum; of a stored one by reading it, 1 MiB
 * at a time. Errors: DL_INPUT naming `path`, the entry and its bytes; DL_IO, DL_RESOURCE. */
bool dlr_zip_check_data(const char *path, const dlr_zip_entry *e, const void *data, dl_error *err);
bool dlr_zip_check_stored(int fd, const char *path, const dlr_zip_entry *e, dl_error *err);
/* The entry of that name, or NULL. */
const dlr_zip_entry *dlr_zip_find(const dlr_zip *zip, const char *name);

/* A zip on its way out. The stream counts its CRC (counts_crc). */
typedef struct {
    dlr_st_stream *s;
    dl_buf directory;
    dl_buf name; /* of the entry that is open */
    int n;
    uint64_t start, bytes; /* its local header, its size */
} dlr_zip_writer;

/* Begins an entry of exactly `bytes` bytes, which the caller puts into the stream: at a multiple of
 * 64, padded as PyTorch does it. */
bool dlr_zip_begin(dlr_zip_writer *z, const char *name, uint64_t bytes);
bool dlr_zip_end(dlr_zip_writer *z);
/* A whole entry. */
bool dlr_zip_put(dlr_zip_writer *z, const char *name, const void *data, uint64_t bytes);
/* The directory. */
bool dlr_zip_finish(dlr_zip_writer *z);
void dlr_zip_free(dlr_zip_writer *z);
#endif

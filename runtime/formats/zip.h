/* Zip files, whose entries are stored (PyTorch's, torch_file.h; NumPy's .npz) or deflated (.npz).
 *
 * Source: PKWARE, APPNOTE.TXT 6.3.10; sizes and offsets of 4 GiB and more by its zip64 records. The
 * directory is checked when it is read; its reader checks an entry's data: dlr_zip_check_stored,
 * dlr_zip_check_data. */
#ifndef DLR_ZIP_H
#define DLR_ZIP_H
#include "ir/base/str.h"
#include "runtime/formats/stored_internal.h"

typedef struct {
    const char *name;
    uint64_t header;    /* offset of its local header in the file */
    uint64_t at, bytes; /* offset and size of its data in the file */
    bool deflated;      /* the data are deflated (RFC 1951), */
    uint64_t unpacked;  /* from so many bytes; otherwise equal to `bytes` */
    uint32_t crc;       /* the CRC-32 of these */
} dlr_zip_entry;

typedef struct {
    dlr_zip_entry *entries; /* by name */
    int n;
    const char *first; /* the first name in the directory */
    bool unsummed; /* every crc is 0: written after torch.serialization.set_crc32_options(False) */
} dlr_zip;

/* Reads the directory of an open file of `size` bytes. It checks that entries are stored or
 * deflated, lie within the file without overlap, and have distinct names, which their local headers
 * repeat. Errors: DL_INPUT naming `path`, entry and fault; DL_IO. */
bool dlr_zip_read(dl_arena *arena, int fd, const char *path, uint64_t size, dlr_zip *zip,
                  dl_error *err);
/* Check an entry's unpacked data against its checksum; a stored entry is read for this, 1 MiB at a
 * time. Errors: DL_INPUT naming `path`, the entry and its bytes; DL_IO, DL_RESOURCE. */
bool dlr_zip_check_data(const char *path, const dlr_zip_entry *e, const void *data, dl_error *err);
bool dlr_zip_check_stored(int fd, const char *path, const dlr_zip_entry *e, dl_error *err);
/* The entry of that name, or NULL. */
const dlr_zip_entry *dlr_zip_find(const dlr_zip *zip, const char *name);

/* A zip that is being written. The stream computes its CRC (counts_crc). */
typedef struct {
    dlr_st_stream *s;
    dl_buf directory;
    dl_buf name; /* name of the open entry */
    int n;
    uint64_t start, bytes; /* offset of its local header, its size */
} dlr_zip_writer;

/* Begins an entry of exactly `bytes` bytes, which the caller writes to the stream. The data are
 * aligned to 64, padded as PyTorch does it. */
bool dlr_zip_begin(dlr_zip_writer *z, const char *name, uint64_t bytes);
bool dlr_zip_end(dlr_zip_writer *z);
/* Writes a whole entry. */
bool dlr_zip_put(dlr_zip_writer *z, const char *name, const void *data, uint64_t bytes);
/* Writes the directory. */
bool dlr_zip_finish(dlr_zip_writer *z);
void dlr_zip_free(dlr_zip_writer *z);
#endif

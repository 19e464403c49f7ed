/* Reads a file that nobody vouches for in a child process with limits: libhdf5 1.10 can crash or hang on a
 * hostile file, and then only the child is lost. */
#ifndef DLDATA_SANDBOX_H
#define DLDATA_SANDBOX_H
#include "ir/base/str.h"

/* What a reader hands back: bytes of text and of a picture, freed by the caller (dl_buf_free). */
typedef struct {
    dl_buf text, picture;
} sandbox_result;
typedef bool sandbox_reader(void *ctx, sandbox_result *out, dl_error *err);

/* Runs read(ctx, ...) in the child and brings back its result or error. `path` is for messages. A child that
 * dies or uses more than `cpu_seconds` is DL_INPUT: the file is damaged. Errors: those, and DL_RESOURCE
 * without a child. */
bool sandbox_run(const char *path, int cpu_seconds, sandbox_reader *read, void *ctx, sandbox_result *out,
                 dl_error *err);

/* Called by a reader: it may use so many seconds more. */
void sandbox_extend(int cpu_seconds);

/* The root attribute `generator` of an HDF5 file; false when it has none or is no HDF5 file. */
bool sandbox_generator(const char *path, char *generator, size_t n);
#endif

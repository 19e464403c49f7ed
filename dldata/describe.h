/* What `inspect` says of a data file, and the slices it draws. Runs in a sandbox's child. */
#ifndef DLDATA_DESCRIBE_H
#define DLDATA_DESCRIBE_H
#include "ir/base/sandbox.h"

typedef struct {
    const char *path;
    long long slice; /* index along the first drawn-away axis (depth, or time); -1: the middle */
} describe_request;

/* A dl_sandbox_reader on a describe_request: out->text is the description, out->bytes a PNG (empty
 * when the file has nothing to draw). Errors: DL_INPUT, DL_IO; DL_USAGE for a slice that no array
 * has. */
bool describe_file(void *request, dl_sandbox_result *out, dl_error *err);
#endif

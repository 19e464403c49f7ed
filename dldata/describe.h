/* The description of a data file for `inspect`, and the slices that it draws. Runs in a sandbox's
 * child. */
#ifndef DLDATA_DESCRIBE_H
#define DLDATA_DESCRIBE_H
#include "ir/base/sandbox.h"

typedef struct {
    const char *path;
    /* index along the first axis that is not drawn (depth, or time); -1: the middle */
    long long slice;
} describe_request;

/* A dl_sandbox_reader on a describe_request: out->text is the description, out->bytes a PNG (empty
 * when nothing can be drawn). Errors: DL_INPUT, DL_IO; DL_USAGE for a slice that no array has. */
bool describe_file(void *request, dl_sandbox_result *out, dl_error *err);
#endif

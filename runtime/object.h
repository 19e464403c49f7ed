/* Machine code from memory: a shared object's image, loaded into this process. */
#ifndef DLR_OBJECT_H
#define DLR_OBJECT_H
#include <stddef.h>

#include "ir/base/status.h"

typedef struct {
    void *handle; /* for dlsym */
    int fd;       /* open as long as the object is loaded: see object.c */
} dlr_object;

/* Loads the image from an anonymous file, or from a temporary one that only we can read where the system has
 * none that may hold code. All symbols are bound now, and none is seen by other objects. The caller's
 * floating-point environment stays as it is: an object linked with -ffast-math would otherwise turn on
 * flush-to-zero when loaded. Errors: DL_INPUT (not a shared object for this machine), DL_IO (no file can be
 * made). */
bool dlr_object_load(dlr_object *object, const unsigned char *image, size_t bytes, dl_error *err);
void dlr_object_unload(dlr_object *object);
#endif

/* Machine code from memory: a shared object's image, loaded into this process. */
#ifndef DL_OBJECT_H
#define DL_OBJECT_H
#include <stddef.h>

#include "ir/base/status.h"

typedef struct {
    void *handle; /* for dlsym */
    int fd;       /* open as long as the object is loaded: see object.c */
} dl_object;

/* Loads the image from an anonymous file, or from a temporary one that only we can read where the
 * system has none that may hold code. All symbols are bound now, and none is seen by other objects.
 * The caller's floating-point environment is restored, since loading an object that was linked with
 * -ffast-math turns on flush-to-zero. Errors: DL_INPUT (not a shared object for this machine),
 * DL_IO (no file can be made). */
bool dl_object_load(dl_object *object, const unsigned char *image, size_t bytes, dl_error *err);
/* The function of that name, or NULL. */
void *dl_object_find(const dl_object *object, const char *name);
void dl_object_unload(dl_object *object);
#endif

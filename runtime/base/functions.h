/* The functions of a library that is found at run time, as a table. */
#ifndef DLR_FUNCTIONS_H
#define DLR_FUNCTIONS_H
#include "ir/base/arena.h"

typedef struct {
    const char *name;
    size_t at; /* of its pointer in the table */
} dlr_function;

/* The library to find, and the functions that it must have. */
typedef struct {
    const char *name;         /* "NCCL" */
    const char *override;     /* the environment variable that names its file */
    const char *const *files; /* as dl_cuda_search has them */
    const char *called;       /* the same in words: "libnccl.so.2, 2.18 or newer" */
    const char *package;      /* of pip, which has it */
    size_t n;
    const dlr_function *functions;
    void *table; /* to be filled */
    /* Checks the filled table: NULL, or the reason against this library, a text that follows the
     * file's name. */
    const char *(*refuse)(dl_arena *arena, void *table);
} dlr_functions;

/* Loads the library for good and fills the table. Returns the library's file, or NULL: DL_RESOURCE,
 * with all places that were searched. */
const char *dlr_functions_find(const dlr_functions *from, dl_error *err);
#endif

/* Loads a library at run time and fills a table with the addresses of its functions. */
#ifndef DLR_FUNCTIONS_H
#define DLR_FUNCTIONS_H
#include "ir/base/arena.h"

typedef struct {
    const char *name;
    size_t at; /* offset of its pointer in the table */
} dlr_function;

/* The library to find, and the functions that it must export. */
typedef struct {
    const char *name;         /* "NCCL" */
    const char *override;     /* the environment variable that names its file */
    const char *const *files; /* file names, as dl_cuda_search takes them */
    const char *called;       /* the same in words, for messages: "libnccl.so.2, 2.18 or newer" */
    const char *package;      /* the pip package that contains it */
    size_t n;
    const dlr_function *functions;
    void *table; /* to be filled */
    /* Checks the filled table. Returns NULL, or why this library is refused, a text that follows
     * the file's name. */
    const char *(*refuse)(dl_arena *arena, void *table);
} dlr_functions;

/* Loads the library, which is never unloaded, and fills the table. Returns the library's file, or
 * NULL: DL_RESOURCE, with all places that were searched. */
const char *dlr_functions_find(const dlr_functions *from, dl_error *err);
#endif

/* The functions of a library that is found at run time, as a table. */
#ifndef DLR_FUNCTIONS_H
#define DLR_FUNCTIONS_H
#include "ir/base/arena.h"

typedef struct {
    const char *name;
    size_t at; /* of its pointer in the table */
} dlr_function;

/* Loads the library, which stays, and fills the table; *path: the file that it came from. NULL, or why it
 * will not do. */
const char *dlr_functions_load(dl_arena *arena, const char *library, size_t n, const dlr_function *functions,
                               void *table, const char **path);
#endif

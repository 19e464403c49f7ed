/* Hierarchical arenas: memory that belongs to a graph, a compilation or a run, and is freed as a
 * whole.
 *
 * Allocation never returns NULL: without memory the program ends (memory.h). The runtime maps the
 * large memory of a run, the plan's arena, and reports a lack of it as an error. */
#ifndef DL_ARENA_H
#define DL_ARENA_H
#include "ir/base/memory.h"
#include "ir/base/status.h"
#include <string.h>

typedef struct dl_arena dl_arena;

/* A new arena; with a parent it is freed when the parent is (or earlier, by dl_arena_free). */
dl_arena *dl_arena_new(dl_arena *parent);
void dl_arena_free(dl_arena *arena); /* NULL is fine; frees the children too */
/* Makes the arena a child of another one, or of none (NULL): its contents then outlive the arena
 * that it was made in. */
void dl_arena_move(dl_arena *arena, dl_arena *parent);

void *dl_alloc(dl_arena *arena, size_t bytes); /* zeroed, aligned to 16 */
void *dl_alloc_array(dl_arena *arena, size_t n, size_t bytes);
char *dl_strdup(dl_arena *arena, const char *s);
char *dl_strndup(dl_arena *arena, const char *s, size_t n);
char *dl_format(dl_arena *arena, const char *format, ...) DL_PRINTF(2, 3);

#define DL_NEW(arena, T)     ((T *)dl_alloc((arena), sizeof(T)))
#define DL_NEWS(arena, T, n) ((T *)dl_alloc_array((arena), (size_t)(n), sizeof(T)))

/* Growable arrays in an arena: `DL_ARRAY(int) xs = {0}; dl_push(arena, &xs, 3); xs.at[0]; xs.n`. */
#define DL_ARRAY(T)                                                                                \
    struct {                                                                                       \
        T *at;                                                                                     \
        int n, cap;                                                                                \
    }
void *dl_grow(dl_arena *arena, void *at, int n, int *cap, size_t size);
#define dl_push(arena, a, ...)                                                                     \
    do {                                                                                           \
        if ((a)->n == (a)->cap)                                                                    \
            (a)->at = dl_grow((arena), (a)->at, (a)->n, &(a)->cap, sizeof *(a)->at);               \
        (a)->at[(a)->n++] = (__VA_ARGS__);                                                         \
    } while (0)
#endif

#include "ir/base/arena.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct block {
    struct block *next;
    size_t used, size;
    _Alignas(16) unsigned char data[];
} block;

struct dl_arena {
    block *blocks;
    dl_arena *parent, *child, *next; /* next: the parent's other children */
};

enum { BLOCK = 64 * 1024 };

static void join(dl_arena *a, dl_arena *parent) {
    a->parent = parent;
    if (parent) a->next = parent->child, parent->child = a;
}

static void leave(dl_arena *a) {
    if (!a->parent) return;
    for (dl_arena **p = &a->parent->child; *p; p = &(*p)->next)
        if (*p == a) {
            *p = a->next;
            break;
        }
    a->parent = a->next = NULL;
}

dl_arena *dl_arena_new(dl_arena *parent) {
    dl_arena *a = dl_calloc(1, sizeof *a);
    join(a, parent);
    return a;
}

static void release(dl_arena *a) {
    for (dl_arena *c = a->child, *next; c; c = next) next = c->next, release(c);
    for (block *b = a->blocks, *next; b; b = next) next = b->next, free(b);
    free(a);
}

void dl_arena_free(dl_arena *a) {
    if (!a) return;
    leave(a);
    release(a);
}

void dl_arena_move(dl_arena *a, dl_arena *parent) {
    leave(a);
    join(a, parent);
}

void *dl_alloc(dl_arena *a, size_t bytes) {
    if (bytes > SIZE_MAX / 2) dl_no_memory(bytes);
    bytes = (bytes + 15) & ~(size_t)15;
    block *b = a->blocks;
    if (!b || b->size - b->used < bytes) {
        size_t size = bytes > BLOCK ? bytes : BLOCK;
        b = dl_malloc(sizeof *b + size);
        b->size = size, b->used = 0;
        /* A large block follows the current one, which may still have room. */
        if (bytes > BLOCK / 4 && a->blocks)
            b->next = a->blocks->next, a->blocks->next = b;
        else
            b->next = a->blocks, a->blocks = b;
    }
    void *p = b->data + b->used;
    b->used += bytes;
    return memset(p, 0, bytes);
}

void *dl_alloc_array(dl_arena *a, size_t n, size_t bytes) {
    if (bytes && n > SIZE_MAX / bytes) dl_no_memory(SIZE_MAX);
    return dl_alloc(a, n * bytes);
}

char *dl_strndup(dl_arena *a, const char *s, size_t n) {
    char *p = dl_alloc(a, n + 1);
    memcpy(p, s, n);
    return p;
}

char *dl_strdup(dl_arena *a, const char *s) { return dl_strndup(a, s, strlen(s)); }

char *dl_format(dl_arena *a, const char *format, ...) {
    char text[120]; /* room for most */
    va_list ap, again;
    va_start(ap, format);
    va_copy(again, ap);
    int n = vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    DL_CHECK(n >= 0);
    char *p = dl_alloc(a, (size_t)n + 1);
    if ((size_t)n < sizeof text)
        memcpy(p, text, (size_t)n + 1);
    else
        vsnprintf(p, (size_t)n + 1, format, again);
    va_end(again);
    return p;
}

void *dl_grow(dl_arena *a, void *at, int n, int *cap, size_t size) {
    if (*cap > INT_MAX / 2) dl_no_memory(SIZE_MAX);
    int more = *cap ? *cap * 2 : 8;
    void *p = dl_alloc_array(a, (size_t)more, size);
    if (n) memcpy(p, at, (size_t)n * size);
    *cap = more;
    return p;
}

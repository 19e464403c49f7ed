/* The sections of a plan's file as streams of records; plan_file.c puts them together. Private to
 * this folder. */
#ifndef DL_PLAN_RECORDS_H
#define DL_PLAN_RECORDS_H
#include "ir/plan/plan.h"

/* One section that is written to `out`, or (out NULL) read from the `left` bytes at `at`. */
typedef struct {
    dl_buf *out;
    const char *at;
    size_t left;
    dl_arena *arena;   /* of lists that are read; strings and images point into the file's bytes */
    const char *fault; /* the first, or NULL */
} dl_plan_codec;

/* The sections in the file's order: sizes and names, origin, variables, kernels, objects,
 * programs. */
enum { DL_PLAN_SECTIONS = 6 };
extern void (*const dl_plan_sections[DL_PLAN_SECTIONS])(dl_plan_codec *c, dl_plan *p);
#endif

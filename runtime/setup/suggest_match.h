/* Which arrays of files could be a model's, by shapes and names. For suggest_data.c alone. */
#ifndef DL_SUGGEST_MATCH_H
#define DL_SUGGEST_MATCH_H
#include "ir/base/arena.h"
#include "runtime/data/array_file.h"
#include "runtime/data/dataset.h"

typedef struct {
    dl_arena *arena;
    DL_ARRAY(const dlr_array_file *) files;
    const dlr_arrays *model;
} dl_holdings;

/* An array that gives some of the channels. */
typedef struct {
    int file, array;
    const char *name;
    const char *axes; /* "[sim, time, H, W, C]"; NULL: the usual ones */
} dl_match_part;

/* How an array of a file could be one of the model's. */
typedef struct {
    int file, array; /* -1: none does */
    int points;
    const char *axes[DL_MAX_RANK + 1];
    int n_axes;
    bool usual;      /* the axes are the model's, with N first */
    bool cropped;    /* some are longer than the model's */
    bool other;      /* some are shorter, or other channels: the model's arguments must change */
    bool again;      /* an input has it, too: the target is a later sample */
    int64_t samples; /* along N, or simulations; 0: it has no N */
    DL_ARRAY(dl_match_part) parts; /* arrays that are channels; none: the one array */
    int left;                      /* arrays that could be channels, too, and are not taken */
    bool trajectory;               /* the first two axes are simulations and times */
    int64_t history;               /* times of an input */
    /* a pattern of the array's name and others' of the same shape, which differ in a group's number
     * ("0012/data"): a simulation each; NULL: there are none */
    const char *family;
} dl_match;

/* `text` with a star for each run of digits that is these: names of one family. */
const char *dl_put_star(dl_arena *arena, const char *text, const char *digits, size_t n);
/* The match of the model's array k, following those of arrays before it. */
dl_match dl_find_match(dl_holdings *h, int k, const dl_match *taken);
#endif

/* Random models as people write them, in the model language: residual, dense,
 * squeeze-and-excitation, inception and transformer blocks of every norm, activation, resize, pool
 * and convolution, two to six of them, in U shapes and with skips, of one to three spatial axes.
 * layer_fuzz.c compiles them. */
#ifndef DL_LAYERS_H
#define DL_LAYERS_H
#include "ir/base/str.h"
#include "tests/unit/random_numbers.h"

/* A feature map: the variable h<id>, of axes [N, C=c, ...size]; d spatial axes. */
typedef struct {
    int id, c, d, size[3];
} layer_map;

typedef struct {
    dl_arena *arena;
    dl_buf out;
    rng r;
    int n;           /* samples */
    int maps;        /* named so far */
    int labels;      /* of layers */
    int params;      /* of the model's own */
    int64_t largest; /* elements of a feature map */
} layer_maker;

/* The model of this seed, the same for ever; small: for the interpreter. In the arena. */
const char *layer_model(dl_arena *arena, uint64_t seed, bool small);

/* ---- layer_parts.c ---- */

int64_t layer_points(const layer_map *x); /* spatial elements of a sample */
/* "[D, H, W]": the names of d spatial axes; "n c d h w" and "d h w" in patterns. */
const char *layer_axes(int d);
const char *layer_pattern(int d);
/* Writes "    h7 = h3 |> STAGES" and returns the new map, of c channels and the sizes of `like`. */
layer_map layer_put(layer_maker *m, layer_map from, layer_map like, const char *stages);
const char *layer_activation(layer_maker *m);
const char *layer_norm_of(layer_maker *m, const layer_map *x);
/* Each applies one layer and returns its map; one that has no room gives back x. */
layer_map layer_conv(layer_maker *m, layer_map x, int c);  /* the sizes stay */
layer_map layer_point(layer_maker *m, layer_map x, int c); /* 1 x 1 */
layer_map layer_down(layer_maker *m, layer_map x, int c);  /* smaller: strided, pooled, sliced */
layer_map layer_up(layer_maker *m, layer_map x, int c);    /* twice or three times as large */
layer_map layer_to(layer_maker *m, layer_map x, const layer_map *s); /* resized to the sizes of s */
layer_map layer_bend(layer_maker *m, layer_map x); /* an activation, or one written out */
layer_map layer_norm(layer_maker *m, layer_map x);

/* ---- layer_blocks.c ---- */

layer_map layer_block(layer_maker *m, layer_map x); /* any: the sizes stay */
#endif

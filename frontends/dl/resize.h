/* Resizing whose weights are tables (resize.c): bicubic, and smoothed against aliasing. */
#ifndef DL_RESIZE_H
#define DL_RESIZE_H
#include "frontends/dl/builtin.h"

typedef struct {
    bool cubic;   /* otherwise linear */
    bool smooth;  /* a filter as wide as the step where the image becomes smaller */
    bool corners; /* the first and last elements keep their positions */
} dl_resizing;

/* x [N, C, spatial...] with these spatial sizes, as torch.nn.functional.interpolate. Linear without
 * `smooth` is the op upsample. Poison: reported. */
dl_val dl_resize(dl_call *c, dl_val x, const int64_t *size, dl_resizing how);
#endif

/* Pictures of fields: slices of data and predictions next to each other, in colours whose lightness
 * follows the value. */
#ifndef DLR_IMAGE_H
#define DLR_IMAGE_H
#include "runtime/image/png.h"
#include <stddef.h>

typedef enum {
    DLR_MAP_SEQUENTIAL, /* dark to light: densities, temperatures */
    DLR_MAP_DIVERGING,  /* blue, white, red: values around zero */
    DLR_MAP_GREY
} dlr_map;

/* A 2-D field of floats somewhere in memory: element (y, x) is at[y * row + x * column]. `at` NULL:
 * an empty panel. */
typedef struct {
    const float *at;
    int height, width;
    ptrdiff_t row, column;
    float low, high; /* values at the ends of the colour map; low >= high: chosen from the data
                        (dlr_field_range) */
    dlr_map map;
    const char *label; /* one line above the panel, cut to its width; NULL for none */
} dlr_field;

/* The colour of t in [0, 1] (clamped); NaN is mid-grey. */
void dlr_map_colour(dlr_map map, float t, uint8_t rgb[3]);
/* Sets low and high to the 0.5th and 99.5th percentile (of at most 65,536 finite values spread over
 * the field), symmetric around 0 for a diverging map, and never equal. */
void dlr_field_range(dlr_field *field);

/* The panels in reading order, `columns` per row. Each is enlarged by whole pixels, or shrunk by
 * averaging, to about `pixels` on its longer side. Fields may differ in size. The picture is in the
 * arena; NULL with DL_INPUT for impossible sizes. */
dlr_image *dlr_image_panels(dl_arena *arena, const dlr_field *fields, int n, int columns,
                            int pixels, dl_error *err);

/* A new picture of one colour. Errors: DL_INPUT for impossible sizes. */
dlr_image *dlr_image_new(dl_arena *arena, int width, int height, const uint8_t rgb[3],
                         dl_error *err);
/* Drawing, clipped to the picture. Text is ASCII (other bytes: a box) in cells of 6 x 8 pixels, (x,
 * y) its top left. */
enum { DLR_TEXT_WIDTH = 6, DLR_TEXT_HEIGHT = 8 };
void dlr_image_fill(dlr_image *image, int x, int y, int width, int height, const uint8_t rgb[3]);
void dlr_image_text(dlr_image *image, int x, int y, const char *text, const uint8_t rgb[3]);
#endif

/* Pictures as samples: the tensors that a model must take for them, their augmentation in training,
 * and the scaling of bytes to values.
 *
 * A picture is float planes [3, H, W] of 0 to 255, red, green, blue. */
#ifndef DLR_PICTURE_H
#define DLR_PICTURE_H
#include "runtime/base/rng.h"
#include "runtime/data/dataset.h"

typedef enum {
    DLR_SCALING_UNIT, /* value / 255 */
    /* Keras' caffe mode: blue, green, red minus 103.939, 116.779 and 123.68, ImageNet's means */
    DLR_SCALING_CAFFE
} dlr_scaling;

/* The augmentation of each training picture; all zero: none. */
typedef struct {
    double shift; /* a shift by up to this fraction of height and width each way, 0 to 1 */
    double zoom;  /* a separate zoom of height and width by a factor of 1 - zoom to 1 + zoom, 0 to
                     below 1 */
    bool flip;    /* a horizontal flip, with probability 1/2 */
    /* a random crop of at least this fraction of its area, above 0 to below 1; 0: none */
    double crop;
} dlr_moves;

/* Options that the loaders of pictures (cifar.h, image_folder.h) share. */
typedef struct {
    dlr_scaling scaling;
    dlr_moves moves;
    int64_t classes; /* the model's number of classes; 0: unknown */
    int64_t limit;   /* use only the first so many samples; 0: all */
} dlr_picture_options;

/* The first member of such a data set's state. */
typedef struct {
    dlr_picture_options o;
    int64_t height, width; /* the model's size */
    dlr_element points;    /* u8 or f32: type of a picture as it is read */
    /* Reads picture `picture`, in the files' order, as planes[3][height][width] of `points`, and
     * its class. The epoch and sample determine its crop. Errors: those of samples. */
    bool (*read)(const dlr_dataset *d, int64_t picture, int64_t epoch, int64_t sample, void *planes,
                 int64_t *label, dl_error *err);
} dlr_pictures;

/* Maps an augmented picture's pixels to positions in the original of the same size: pixel p of an
 * axis of n pixels is at zoom (p - c) + c + shift n, c = (n - 1) / 2, mirrored with `flip`.
 * Interpolation is linear; outside, the border pixels are repeated. */
typedef struct {
    double shift[2], zoom[2]; /* height, width */
    bool flip;
} dlr_move;

/* Draws as Keras' ImageDataGenerator does: every quantity is uniform and independent. */
dlr_move dlr_move_draw(const dlr_moves *moves, dlr_rng_place place);
/* A rectangle of a picture, in pixels. */
typedef struct {
    int64_t top, left, height, width;
} dlr_box;
/* The crop of a picture of height x width pixels, drawn as by torchvision's RandomResizedCrop: an
 * area fraction from moves->crop to 1, an aspect ratio between 3/4 and 4/3 (log-uniform), at any
 * position. If ten such crops do not fit, it is the centered one. Without moves->crop it is the
 * whole picture. */
dlr_box dlr_box_draw(const dlr_moves *moves, dlr_rng_place place, int64_t height, int64_t width);
/* The crop of a sample: drawn from (seed, epoch, sample) in training, the whole picture in
 * validation. */
dlr_box dlr_box_of(const dlr_dataset *d, const dlr_moves *moves, int64_t epoch, int64_t sample,
                   int64_t height, int64_t width);
/* The augmentation of a sample: drawn from (seed, epoch, sample) in training, none in
 * validation. */
dlr_move dlr_move_of(const dlr_dataset *d, const dlr_moves *moves, int64_t epoch, int64_t sample);
/* The picture of a sample: shuffled in each epoch of training. */
int64_t dlr_picture_of(const dlr_dataset *d, int64_t epoch, int64_t sample);

/* Sets d->scratch, and the size of the pictures of a model that takes f32[3, H, W] and a class, a
 * whole number. Errors: DL_INPUT for a model that takes other tensors; DL_USAGE for augmentations
 * out of range. */
bool dlr_picture_check(dlr_dataset *d, dlr_pictures *pictures, dl_error *err);
/* Scratch bytes of dlr_picture_write. */
size_t dlr_picture_scratch(int64_t height, int64_t width);
/* Writes planes[3][height][width], augmented and scaled, to out[3][height][width], and the class to
 * `label`, of `type`. */
void dlr_picture_write(const float *planes, int64_t height, int64_t width, const dlr_move *move,
                       dlr_scaling scaling, float *out, void *scratch);
void dlr_label_write(const dl_type *type, int64_t label, void *out);

/* A loader's functions (loader.h), of a data set whose state begins with dlr_pictures. A device
 * that makes the samples augments, scales and lays out what `read` returns; it can hold the
 * pictures where no crops are drawn. */
bool dlr_pictures_sample(const dlr_dataset *d, int64_t epoch, int64_t sample, void *const *out,
                         void *scratch, dl_error *err);
bool dlr_pictures_raw(const dlr_dataset *d, dlr_raw *raw);
bool dlr_pictures_numbers(const dlr_dataset *d, int64_t epoch, int64_t sample, void *const *out,
                          void *scratch, dlr_layout_map *how, dl_error *err);
void dlr_pictures_store(const dlr_dataset *d, dlr_store *store);
bool dlr_pictures_piece(const dlr_dataset *d, int64_t i, void *out, void *scratch, int64_t *at,
                        int64_t *bytes, dl_error *err);
void dlr_pictures_locate(const dlr_dataset *d, int64_t epoch, int64_t sample, dlr_layout_map *how);
#endif

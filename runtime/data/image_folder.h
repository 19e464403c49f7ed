/* Folders of JPEG files, a folder each class: FOLDER/CLASS/NAME.jpg (.jpeg, in any case of
 * letters).
 *
 * Classes are numbered in the order of their folders' names, which are those of the training's
 * folder in validation, too. Pictures are resized to the model's size, whatever their shape; then
 * moved and scaled (picture.h). They are numbered through the classes in turn, so that the first so
 * many hold all classes. */
#ifndef DLR_IMAGE_FOLDER_H
#define DLR_IMAGE_FOLDER_H
#include "runtime/data/picture.h"

typedef struct {
    const char *train, *valid; /* train_dir, valid_dir; validation reads both */
    dlr_picture_options pictures;
    /* Files that are no JPEG that can be read: an error; or, where this is not NULL, the next one
     * that can be is taken instead, and each is told once, from any thread. */
    void (*skipped)(const char *why);
} dlr_image_folder_options;

extern const dlr_loader dlr_image_folder_loader;
#endif

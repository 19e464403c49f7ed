/* Folders of JPEG files, a folder per class: FOLDER/CLASS/NAME.jpg (.jpeg, in upper or lower case).
 *
 * Classes are numbered in the order of the training folder's names, for validation, too. Pictures
 * are resized to the model's size, whatever their shape; then augmented and scaled (picture.h).
 * They are numbered through the classes in turn, so that the first few hold all classes. */
#ifndef DLR_IMAGE_FOLDER_H
#define DLR_IMAGE_FOLDER_H
#include "runtime/data/jpeg_folder.h"
#include "runtime/data/picture.h"

typedef struct {
    const char *train, *valid; /* train_dir, valid_dir; validation reads both, for the classes */
    dlr_picture_options pictures;
    /* NULL: a file that is no readable JPEG is an error. Otherwise the next readable picture takes
     * its place, and this function is called once per file, from any thread. */
    void (*skipped)(const char *why);
} dlr_image_folder_options;

extern const dlr_loader dlr_image_folder_loader;
/* The names of the classes in their order, of a data set of this loader. */
const dlr_names *dlr_image_folder_classes(const dlr_dataset *d);
#endif

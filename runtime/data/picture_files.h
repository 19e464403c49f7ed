/* Pictures of files, numbered: those of a JPEG file, of a folder, and of a file of
 * CIFAR-10's records.
 *
 * Of a folder they are its JPEG files by name, and then those of its folders, by name in turn. Each
 * is the tensor that a model is validated on (picture.h): resized to its size, not augmented. */
#ifndef DLR_PICTURE_FILES_H
#define DLR_PICTURE_FILES_H
#include "runtime/data/jpeg_folder.h"
#include "runtime/data/picture.h"

typedef struct dlr_picture_files dlr_picture_files;

/* For a model of pictures of height x width pixels. A file of a name that ends in .bin has
 * CIFAR-10's records. Errors (NULL): DL_IO; DL_INPUT for files of other kinds, for a folder
 * without pictures, and for CIFAR-10 where the size is not 32 x 32; DL_RESOURCE. */
dlr_picture_files *dlr_picture_files_open(const char *path, int64_t height, int64_t width,
                                          dlr_scaling scaling, dl_error *err);
void dlr_picture_files_close(dlr_picture_files *f); /* NULL is fine */
int64_t dlr_picture_files_count(const dlr_picture_files *f);
/* The path of picture i. */
const char *dlr_picture_files_name(const dlr_picture_files *f, int64_t i);
/* The class of picture i: the record's; of a file the place of its folder's name among `classes`.
 * Errors: DL_INPUT (its folder is none of them). */
bool dlr_picture_files_class(const dlr_picture_files *f, int64_t i, const dlr_names *classes,
                             int64_t *class, dl_error *err);
/* Writes picture i, scaled, to out[3][height][width]. For many threads. Errors: DL_IO, DL_INPUT (no
 * readable JPEG), DL_RESOURCE. */
bool dlr_picture_files_read(const dlr_picture_files *f, int64_t i, float *out, dl_error *err);
#endif

/* The files of test_data.c's sources, and where a sample's voxels come from. */
#ifndef DL_DATA_SETS_H
#define DL_DATA_SETS_H
#include "tests/unit/data_files.h"

const char *in_dir(const char *name);
test_crops options(bool in_memory, const char *path, int size);
size_t bytes_of(const dlr_dataset *d, int array);
void test_synthetic(void);

/* Uniform floats lie in [0, 1), evenly; classes are what they are next to normal ones. */
void test_uniform_noise(void);

/* Drawn anew at each epoch of training; the first is as without that, and validation stays. */
void test_redrawn_noise(void);

/* Any number of arrays of any types, or no target; the first two draw the same whatever is after
 * them. */
void test_synthetic_arrays(void);
void test_faults(void);

/* Samples that are no crops: other shapes, types and numbers of arrays than a volume in and one
 * out. */
void test_model_types(void);

/* Bytes of the metadata changed at random: an answer each time, and a sample of what was accepted.
 */
void test_damage(void);
void test_sandbox(void);

/* A chunked set: read in a child that a signal to its group does not end, and whose loss is an
 * error with a name. */
void test_child(void);
#endif

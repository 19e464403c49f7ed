/* The file of predictions: HDF5, or .npy of one output, by the name's ending; "-" is .npy to
 * standard output. */
#ifndef DLC_PREDICT_FILE_H
#define DLC_PREDICT_FILE_H
#include "runtime/formats/hdf5_write.h"

/* Whether a file of that name is written: .h5, .hdf5, .he5, .hdf, .nc, .nc4 and names without an
 * ending are HDF5, .npy is NumPy's. Errors: DL_USAGE for other endings. */
bool dl_predict_file_check(const char *path, dl_error *err);

bool dl_predict_file_is_stdout(const char *path);

typedef struct dl_predict_file dl_predict_file;

/* Begins the file of these sets, of which the first n_outputs are the model's outputs; a .npy file
 * has the one output alone, without attributes. Errors: DL_USAGE where such a file cannot hold so
 * many outputs; those of dlr_h5_open. */
dl_predict_file *dl_predict_file_open(const char *path, int n_outputs, int n_sets,
                                      const dlr_h5_set *sets, int n_attributes,
                                      const dlr_h5_attribute *attributes, dl_error *err);
/* As dlr_h5_write, dlr_h5_commit and dlr_h5_discard; a set that the file does not hold is passed
 * over. */
bool dl_predict_file_write(dl_predict_file *f, int set, int64_t first, int64_t n, const void *data,
                           dl_error *err);
bool dl_predict_file_commit(dl_predict_file *f, dl_error *err);
void dl_predict_file_discard(dl_predict_file *f);
#endif

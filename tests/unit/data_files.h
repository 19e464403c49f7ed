/* HDF5 files for the tests of runtime/data: volumes whose every voxel says where it is, in any
 * layout. */
#ifndef DL_TEST_DATA_FILES_H
#define DL_TEST_DATA_FILES_H
#include "runtime/data/crops.h"

#include <hdf5.h>
#include <stdlib.h>
#include <unistd.h>

typedef enum { PLAIN, CHUNKED, COMPACT, UNWRITTEN, EXTERNAL, VIRTUAL } test_layout;

/* Exact in f32 for c < 16 and coordinates below 100. */
static inline float voxel(int c, int64_t x, int64_t y, int64_t z) {
    return (float)(1000000 * c + 10000 * x + 100 * y + z);
}

static inline void add_set(hid_t file, const char *name, int rank, const hsize_t *dims,
                           test_layout layout, hid_t type) {
    hsize_t n = 1, chunk[4] = {1, 5, 6, 7};
    for (int i = 0; i < rank; i++) n *= dims[i];
    hid_t space = H5Screate_simple(rank, dims, NULL), plist = H5Pcreate(H5P_DATASET_CREATE);
    for (int i = 0; i < rank; i++)
        if (chunk[i] > dims[i]) chunk[i] = dims[i];
    if (layout == CHUNKED)
        H5Pset_chunk(plist, rank, chunk), H5Pset_shuffle(plist), H5Pset_deflate(plist, 4),
            H5Pset_fletcher32(plist);
    if (layout == COMPACT) H5Pset_layout(plist, H5D_COMPACT);
    if (layout == EXTERNAL) H5Pset_external(plist, "/etc/passwd", 0, n * 4);
    if (layout == VIRTUAL) H5Pset_virtual(plist, space, "elsewhere.h5", name, space);
    hid_t set = H5Dcreate2(file, name, type, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    if (layout == PLAIN || layout == CHUNKED || layout == COMPACT) {
        float *data = malloc(n * sizeof *data), *at = data;
        int64_t d[4] = {1, 1, 1, 1};
        for (int i = 0; i < rank; i++) d[4 - rank + i] = (int64_t)dims[i];
        for (int c = 0; c < d[0]; c++)
            for (int64_t x = 0; x < d[1]; x++)
                for (int64_t y = 0; y < d[2]; y++)
                    for (int64_t z = 0; z < d[3]; z++) *at++ = voxel(c, x, y, z);
        H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
        free(data);
    }
    H5Dclose(set), H5Pclose(plist), H5Sclose(space);
}

static inline hid_t new_file(const char *path, hsize_t userblock) {
    hid_t plist = H5Pcreate(H5P_FILE_CREATE);
    H5Pset_userblock(plist, userblock);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, plist, H5P_DEFAULT);
    H5Pclose(plist);
    return file;
}

/* `Nbody` [2,edge^3] and `Hydro` [3,edge^3] in one layout and type. */
static inline void write_volumes(const char *path, hsize_t edge, test_layout layout, hid_t type,
                                 hsize_t userblock) {
    hid_t file = new_file(path, userblock);
    add_set(file, "Nbody", 4, (hsize_t[]){2, edge, edge, edge}, layout, type);
    add_set(file, "Hydro", 4, (hsize_t[]){3, edge, edge, edge}, layout, type);
    H5Fclose(file);
}

/* A data set of crops, for a model that takes x [N, input_channels, S, S, S] and t [N,
 * target_channels, ...]. */
typedef struct {
    dlr_crops_options crops;
    dlr_split split;
    int input_channels, target_channels, size;
    uint64_t seed;
    bool mapped, probe;
} test_crops;

static inline dlr_arrays volume_arrays(const test_crops *o) {
    dlr_arrays arrays = {0};
    dl_error err = {0};
    for (int i = 0; i < 2; i++) {
        static const char *const axes[] = {"N", "C", "D", "H", "W"};
        dl_type t = dl_scalar(DL_F32);
        for (int k = 0; k < 5; k++)
            dl_type_push(&t, axes[k],
                         k > 1   ? o->size
                         : k < 1 ? 1
                         : i     ? o->target_channels
                                 : o->input_channels);
        dlr_arrays_add(&arrays, i ? "t" : "x", i, &t, &err);
    }
    return arrays;
}

static inline dlr_dataset *open_crops(const test_crops *o, dl_error *err) {
    dlr_arrays arrays = volume_arrays(o);
    dlr_dataset_options common = {o->split, o->seed, &arrays, o->mapped,
                                  o->probe ? DLR_OPEN_PROBE : DLR_OPEN_FOR_USE};
    return dlr_dataset_open(&dlr_crops_loader, &o->crops, &common, err);
}

/* One sample of two arrays. */
static inline bool sample_pair(const dlr_dataset *d, int64_t epoch, int64_t sample, void *x,
                               void *t, void *scratch, dl_error *err) {
    return dlr_dataset_sample(d, epoch, sample, (void *[]){x, t}, scratch, err);
}
#endif

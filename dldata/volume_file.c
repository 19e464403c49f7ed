#include "dldata/volume_file.h"

#include "dldata/hdf5_file.h"

static uint64_t cells(int size) { return (uint64_t)size * (uint64_t)size * (uint64_t)size; }

uint64_t volume_file_bytes(int size) {
    return (NBODY_CHANNELS + HYDRO_CHANNELS) * 4 * cells(size) + 65536;
}

bool volume_file_prepare(const char *path, int size, dl_error *err) {
    return hdf5_file_prepare(path, volume_file_bytes(size), err);
}

bool volume_file_write(const char *path, const nbody_setup *s, const float *nbody,
                       const float *hydro, const dl_console *console, dl_error *err) {
    const cosmology *c = &s->cosmos;
    uint64_t L = (uint64_t)s->size;
    const hdf5_set sets[] = {
        {"Nbody", 4, {NBODY_CHANNELS, L, L, L}, nbody, nbody_channel_names, NBODY_CHANNELS},
        {"Hydro", 4, {HYDRO_CHANNELS, L, L, L}, hydro, hydro_channel_names, HYDRO_CHANNELS},
    };
    const hdf5_attribute origin[] = {
        {"generator", HDF5_TEXT, .text = VOLUME_GENERATOR},
        {"version", HDF5_TEXT, .text = DL_VERSION},
        {"description", HDF5_TEXT,
         .text = "A dark-matter simulation at redshift 0 (particle mesh) and a model of the gas "
                 "that follows "
                 "it; formulas: docs/datasets/nbody.md of dlc. Axes: channel, x, y, z."},
        {"seed", HDF5_INTEGER, .integer = s->seed},
        {"box_mpc_h", HDF5_REAL, .real = s->box},
        {"size", HDF5_INTEGER, .integer = L},
        {"steps", HDF5_INTEGER, .integer = (uint64_t)s->steps},
        {"z_start", HDF5_REAL, .real = s->z_start},
        {"redshift", HDF5_REAL, .real = 0},
        {"omega_m", HDF5_REAL, .real = c->omega_m},
        {"omega_b", HDF5_REAL, .real = c->omega_b},
        {"h", HDF5_REAL, .real = c->h},
        {"n_s", HDF5_REAL, .real = c->n_s},
        {"sigma8", HDF5_REAL, .real = c->sigma8},
    };
    hdf5_contents contents = {sets, sizeof sets / sizeof sets[0], origin,
                              sizeof origin / sizeof origin[0]};
    return hdf5_file_write(path, &contents, console, err);
}

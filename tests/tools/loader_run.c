/* A loader without training: how many samples a second it gives, for bench/loaders.
 *
 *   loader_run crops|mapped FILE EDGE WORKERS SECONDS        mapped: the file mapped into memory
 *   loader_run weather FOLDER MEANS STDS CHANNELS HEIGHT WIDTH WORKERS SECONDS
 *   loader_run arrays FILES NAMES AXES SHAPE WORKERS SECONDS
 *                     the arrays NAMES of all FILES (a pattern; NAMES "-": their only one) with
 * axes AXES ("N,H,W") as one input of the SHAPE "C=1,H=64,W=64" loader_run variables|simulations
 * FILE NAMES HEIGHT WIDTH WORKERS SECONDS two times of the arrays NAMES (a,b,c): [time, H, W], or
 * [simulation, time,
 * ...]
 *
 * Batches of four; prints {"samples": N, "seconds": S, "held": BYTES, "checksum": mean of |x|}. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/clock.h"
#include "runtime/data/array_dataset.h"
#include "runtime/data/crops.h"
#include "runtime/data/prefetch.h"
#include "runtime/data/weather.h"

enum { BATCH = 4, WARM = 4 };

static bool add(dlr_arrays *arrays, const char *name, bool target, const int64_t *sizes, int rank,
                dl_error *err) {
    static const char *const axes[] = {"C", "D", "H", "W"};
    dl_type t = dl_scalar(DL_F32);
    dl_type_push(&t, "N", BATCH);
    for (int i = 0; i < rank; i++) dl_type_push(&t, axes[i], sizes[i]);
    return dlr_arrays_add(arrays, name, target, &t, err);
}

static bool run(const dlr_dataset *d, int workers, double seconds, dl_error *err) {
    dlr_prefetch_options o = {.batch = BATCH, .world = 1, .workers = workers};
    dlr_prefetch *p = dlr_prefetch_start(d, &o, err);
    dlr_batch b;
    bool ok = p != NULL;
    int64_t samples = 0;
    for (int i = 0; ok && i < WARM; i++) ok = dlr_prefetch_next(p, &b, err);
    double begin = dl_clock_seconds(), took = 0, sum = 0;
    for (; ok && took < seconds; samples += BATCH, took = dl_clock_seconds() - begin) {
        ok = dlr_prefetch_next(p, &b, err);
        if (ok) sum += fabs(*(const float *)b.data[0]);
    }
    dlr_prefetch_stop(p);
    if (ok)
        printf("{\"samples\": %lld, \"seconds\": %.6f, \"held\": %lld, \"checksum\": %g}\n",
               (long long)samples, took, (long long)dlr_dataset_held(d), sum / (double)samples);
    return ok;
}

static dlr_dataset *open_crops(char **v, const dlr_arrays *arrays, bool mapped, dl_error *err) {
    dlr_crops_options o = {.path = v[0], .samples = 1 << 20};
    return dlr_dataset_open(&dlr_crops_loader, &o,
                            &(dlr_dataset_options){.arrays = arrays, .mapped = mapped}, err);
}

static dlr_dataset *open_weather(char **v, const dlr_arrays *arrays, dl_error *err) {
    dlr_weather_options o = {.folder = v[0], .means = v[1], .stds = v[2], .dt = 1};
    return dlr_dataset_open(&dlr_weather_loader, &o, &(dlr_dataset_options){.arrays = arrays}, err);
}

enum { MOST_NAMES = 16 };

/* Splits "a,b,c" in place. */
static int split_names(char *text, dlr_array_dataset_variable *out,
                       const dlr_array_dataset_names *files) {
    int n = 0;
    for (char *name = strtok(text, ","); name && n < MOST_NAMES; name = strtok(NULL, ","))
        out[n++] = (dlr_array_dataset_variable){.files = *files, .array = name};
    return n;
}

static dlr_dataset *open_variables(char **v, bool simulations, dlr_arrays *arrays, dl_error *err) {
    static const double mean = 0.5, deviation = 2;
    const char *const file[] = {v[0]};
    const dlr_array_dataset_names files = {file, 1};
    dlr_array_dataset_variable variable[MOST_NAMES];
    const int n = split_names(v[1], variable, &files);
    const int64_t size[] = {n, atoll(v[2]), atoll(v[3])};
    dl_type t = dl_scalar(DL_F32);
    static const char *const axes[] = {"C", "H", "W"};
    dl_type_push(&t, "N", BATCH);
    for (int i = 0; i < 3; i++) dl_type_push(&t, axes[i], size[i]);
    dlr_array_dataset_options o = {.split = {.fraction = {0.9, 0.1}}};
    if (simulations)
        o.trajectory = (dlr_array_dataset_trajectory){
            .given = true, .time = 1, .lead = 1, .history = 1, .stride = 1};
    for (int k = 0; k < 2; k++) {
        if (!dlr_arrays_add(arrays, k ? "t" : "x", k, &t, err)) return NULL;
        o.source[k] = (dlr_array_dataset_source){.key = k ? "t" : "x",
                                                 .variables = variable,
                                                 .n_variables = n,
                                                 .offset = simulations ? 0 : k,
                                                 .scale = DLR_SCALE_GIVEN,
                                                 .mean = {&mean, 1, NULL},
                                                 .std = {&deviation, 1, NULL}};
    }
    return dlr_dataset_open(&dlr_array_dataset_loader, &o, &(dlr_dataset_options){.arrays = arrays},
                            err);
}

/* Splits "C=1,H=64" in place. */
static dl_type parse_shape(char *text) {
    dl_type t = dl_scalar(DL_F32);
    dl_type_push(&t, "N", BATCH);
    for (char *axis = strtok(text, ","); axis && t.rank < DL_MAX_RANK; axis = strtok(NULL, ",")) {
        char *size = strchr(axis, '=');
        if (!size) continue;
        *size = 0;
        dl_type_push(&t, axis, atoll(size + 1));
    }
    return t;
}

static dlr_dataset *open_arrays(char **v, dlr_arrays *arrays, dl_error *err) {
    static const double mean = 0.5, deviation = 2;
    const char *const file[] = {v[0]};
    const char *axes[DL_MAX_RANK];
    int n_axes = 0;
    const dlr_array_dataset_names files = {file, 1};
    dlr_array_dataset_variable variable[MOST_NAMES];
    int n = split_names(v[1], variable, &files);
    if (strcmp(v[1], "-") == 0) variable[0].array = NULL;
    for (char *axis = strtok(v[2], ","); axis && n_axes < DL_MAX_RANK; axis = strtok(NULL, ","))
        axes[n_axes++] = axis;
    for (int i = 0; i < n; i++) variable[i].axes = (dlr_array_dataset_names){axes, n_axes};
    const dl_type t = parse_shape(v[3]);
    dlr_array_dataset_options o = {.split = {.fraction = {0.9, 0.1}}};
    if (!dlr_arrays_add(arrays, "x", false, &t, err)) return NULL;
    o.source[0] = (dlr_array_dataset_source){.key = "x",
                                             .variables = variable,
                                             .n_variables = n,
                                             .scale = DLR_SCALE_GIVEN,
                                             .mean = {&mean, 1, NULL},
                                             .std = {&deviation, 1, NULL}};
    return dlr_dataset_open(&dlr_array_dataset_loader, &o, &(dlr_dataset_options){.arrays = arrays},
                            err);
}

int main(int argc, char **argv) {
    dl_error err = {0};
    dlr_arrays arrays = {.n = 0};
    dlr_dataset *d = NULL;
    bool mapped = argc > 1 && strcmp(argv[1], "mapped") == 0;
    if (argc == 6 && (mapped || strcmp(argv[1], "crops") == 0)) {
        int64_t edge = atoll(argv[3]), x[] = {4, edge, edge, edge}, t[] = {5, edge, edge, edge};
        if (add(&arrays, "x", false, x, 4, &err) && add(&arrays, "t", true, t, 4, &err))
            d = open_crops(argv + 2, &arrays, mapped, &err);
    } else if (argc == 10 && strcmp(argv[1], "weather") == 0) {
        int64_t size[] = {atoll(argv[5]), atoll(argv[6]), atoll(argv[7])};
        if (add(&arrays, "x", false, size, 3, &err) && add(&arrays, "t", true, size, 3, &err))
            d = open_weather(argv + 2, &arrays, &err);
    } else if (argc == 8 && strcmp(argv[1], "arrays") == 0) {
        d = open_arrays(argv + 2, &arrays, &err);
    } else if (argc == 8 &&
               (strcmp(argv[1], "variables") == 0 || strcmp(argv[1], "simulations") == 0)) {
        d = open_variables(argv + 2, argv[1][0] == 's', &arrays, &err);
    } else
        return fprintf(stderr,
                       "usage: loader_run crops|weather|arrays|variables|simulations ... (see "
                       "loader_run.c)\n"),
               DL_USAGE;
    bool ok = d && run(d, atoi(argv[argc - 2]), atof(argv[argc - 1]), &err);
    dlr_dataset_close(d);
    if (!ok) fprintf(stderr, "loader_run: %s\n", err.message);
    return ok ? 0 : err.code;
}

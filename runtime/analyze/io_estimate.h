/* The load of ranks on file systems: counted while the data of a configuration are
 * opened here and some samples read (ir/base/file_calls.h), and multiplied. */
#ifndef DL_IO_ESTIMATE_H
#define DL_IO_ESTIMATE_H
#include "compiler/session.h"
#include "ir/base/console.h"
#include "ir/base/file_calls.h"

/* A part of the split. */
typedef struct {
    int64_t samples;  /* in an epoch */
    int64_t looked;   /* samples that were read to count; 0: none needs a file */
    dl_file_calls of; /* these */
    double error;     /* of the mean bytes of a sample: its standard error, as a share of it */
} dl_io_part;

typedef struct {
    const char
        *missing; /* why nothing is known, as a sentence in the session's arena; NULL: all is */
    dl_file_calls
        start; /* of a rank until its first step: both parts are looked at, and opened for use */
    dl_io_part train, valid;
} dl_io_estimate;

/* Estimates the load for a session whose graphs are as the front end built them. Reads some
 * samples; what opening would load besides is counted on paper (DLR_OPEN_ON_PAPER). `by_device`: a
 * device makes the samples where their loader knows how. Forks as dl_samples_open does. Faults are
 * what is missing. */
void dl_io_estimate_of(dl_session *s, bool by_device, dl_io_estimate *out);

/* A job of so many ranks. */
typedef struct {
    int ranks, data_ranks; /* that have samples of their own */
    int64_t batch;         /* of one of them */
    double step_ms;
} dl_io_job;

/* The load of one of its ranks. */
typedef struct {
    int64_t steps;       /* in an epoch; 0: there are too few samples for so many ranks */
    dl_file_calls step;  /* a training step */
    dl_file_calls epoch; /* with its validation */
} dl_io_load;
dl_io_load dl_io_load_of(const dl_io_estimate *r, const dl_io_job *job);

/* For people and programs: tables of these jobs, and the value of "data" in dlc estimate-scaling's
 * JSON. */
void dl_io_print(const dl_console *out, const dl_io_estimate *r, const dl_io_job *jobs, int n);
void dl_io_print_json(const dl_console *out, const dl_io_estimate *r, const dl_io_job *jobs, int n);
#endif

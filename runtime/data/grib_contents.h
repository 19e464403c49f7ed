/* The keys of a GRIB file's fields, and their numbers, by ECMWF's library ecCodes. It is loaded
 * in child processes alone (reader_child.h, ir/base/sandbox.h), where libeccodes.so is there.
 * Private to array_grib.c. */
#ifndef DLR_GRIB_CONTENTS_H
#define DLR_GRIB_CONTENTS_H
#include "ir/base/sandbox.h"
#include "runtime/data/grib_fields.h"
#include "runtime/data/reader_child.h"

/* One field and its keys; texts are cut to their room. */
typedef struct {
    dlr_grib_field field;
    char name[32];       /* shortName, or the numbers of a parameter that ecCodes does not know */
    char level_type[40]; /* typeOfLevel */
    char step_type[16];  /* stepType: instant, accum, ... */
    char units[48], long_name[96], standard_name[80], packing[40];
    char why[80];   /* why its numbers are not read, as the end of a sentence; "": they are */
    int64_t base;   /* when it was computed from, in seconds since 1970 */
    int64_t valid;  /* when it holds */
    int64_t number; /* of the member of an ensemble */
    double level;
    int64_t rows, columns; /* 0 rows: `columns` points without a grid */
    uint64_t grid;         /* the same for fields of the same points */
    bool geographic;       /* rows have one latitude, and columns one longitude */
} dlr_grib_about;

/* The coordinates of a geographic grid; its latitudes and longitudes follow, as doubles. */
typedef struct {
    uint64_t grid;
    int64_t rows, columns;
} dlr_grib_grid;

/* Precedes the fields and the grids of a file. */
typedef struct {
    int64_t fields, grids;
} dlr_grib_counts;

/* A sandbox's reader: `path`; the result's bytes are dlr_grib_counts and what it counts. Errors:
 * DL_INPUT (damaged, or ecCodes is not there), DL_IO. */
bool dlr_grib_read_contents(void *path, dl_sandbox_result *out, dl_error *err);

/* A source, as its child opens it: the fields of `path` that are asked for by their index. */
typedef struct {
    const char *path;
    const dlr_grib_field *field;
    int fd;                                 /* set by the child, */
    const struct dlr_grib_library *library; /* and this */
} dlr_grib_opened;

/* Asks for the `numbers` values of a field, as doubles; NaN where one is missing. */
typedef struct {
    int64_t field, numbers;
} dlr_grib_question;

/* The child's part, of a dlr_grib_opened. */
extern const dlr_child_work dlr_grib_work;
#endif

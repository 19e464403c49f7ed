/* Command lines by table: `--name VALUE`, `--name=VALUE`, `-n VALUE`, flags, and file arguments. */
#ifndef DLDATA_OPTIONS_H
#define DLDATA_OPTIONS_H
#include "ir/base/status.h"

typedef enum { OPTION_FLAG, OPTION_TEXT, OPTION_INTEGER, OPTION_REAL } option_kind;

typedef struct {
    const char *name, *letter; /* without dashes; letter may be NULL */
    option_kind kind;
    void *to;                 /* bool, const char *, long long or double */
    double low, high;         /* bounds of a number, both allowed */
    const char *value, *help; /* how --help shows it */
} option;

/* Reads argv[0..argc-1] (behind the command's name). At most `max_files` arguments that are no
 * options go to files[0..*n_files-1]. "--" ends the options. Errors: DL_USAGE, naming the nearest
 * option. */
bool options_read(const option *options, int n, int argc, char **argv, const char **files,
                  int max_files, int *n_files, dl_error *err);
/* The table as help lines on stdout. */
void options_print(const option *options, int n);
#endif

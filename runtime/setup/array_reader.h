/* Reads the values of the configuration's section `data`: shared by array_options.c and
 * array_sources.c. */
#ifndef DLC_ARRAY_READER_H
#define DLC_ARRAY_READER_H
#include "runtime/setup/array_options.h"

/* A map of the section that is being read. */
typedef struct {
    dl_arena *arena;
    const dl_yaml *map;
    const char *path; /* "data.inputs.x" */
    dl_error *err;
} array_reader;

/* The error (DL_INPUT, at its place) of a value that is not what the key allows. False. */
bool array_refuse(const array_reader *r, const char *key, const dl_yaml *v, const char *allowed);
bool array_is_number(const dl_yaml *v);   /* a finite one */
const char *array_word(const dl_yaml *v); /* its text; NULL: it is no string */

/* Each reads the value of a key of r->map and leaves *out as it is where the map has no such key.
 * Errors: array_refuse's.
 *
 * One word, or a list of them; `1` counts as a word. `what` describes the words, for messages. */
bool array_read_names(const array_reader *r, const char *key, const char *what,
                      dlr_array_dataset_names *out);
/* The index of one of the words; null is the word "none". */
bool array_read_word(const array_reader *r, const char *key, const char *allowed,
                     const char *const *words, int n_words, int *out);
/* A number, a list of numbers, or the path of a .npy file. */
bool array_read_numbers(const array_reader *r, const char *key, dlr_array_dataset_numbers *out);
/* A whole number; of at least `least`, where that is not negative. */
bool array_read_whole(const array_reader *r, const char *key, int64_t least, int64_t *out);
/* Every key of the map is one of `known` (which ends with NULL). */
bool array_check_keys(const array_reader *r, const char *const *known);

/* array_sources.c: FILE:ARRAY, or a map of `file` and `array`, of a key; without it *out stays. */
bool array_read_array(const array_reader *r, const char *key, dlr_array_dataset_variable *out);
/* The entries of `inputs` and `targets`, for each of the arrays. */
bool array_read_sources(dl_arena *arena, const dl_yaml *section, const dlr_arrays *arrays,
                        dlr_array_dataset_options *o, dl_error *err);
#endif

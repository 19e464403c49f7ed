/* A network on its way to C: its arrays by name, and its plans, a CPU target each. */
#ifndef DL_C_NETWORK_H
#define DL_C_NETWORK_H
#include "compiler/target/target.h"
#include "exports/export.h"

enum { DL_C_VARIANTS = 3 };

/* An input or output, as a parameter of the exported function. */
typedef struct {
    const char *name;              /* the model's */
    const char *id, *upper;        /* a name of C and of Fortran, which no other parameter has, and
                                      its capitals */
    dl_type type;                  /* row-major: [N=1, ...] */
    const dl_array_record *record; /* what the run did to its numbers; NULL: nothing */
} dl_c_array;

/* Bytes of the plan's arena that the program uses, and their place in the exported program: in the
 * constant weights, or in the caller's memory. */
typedef struct {
    int64_t from, n, to;
    int var; /* of the plan, which nothing writes; -1: the caller's memory */
} dl_c_part;

/* The network for one CPU target. */
typedef struct {
    const dl_target *target;
    const char *name;      /* "avx2" */
    const char *condition; /* the preprocessor's; NULL: every CPU */
    const dl_plan *plan;   /* with sources, without objects */
    const dl_plan_program *program;
    DL_ARRAY(dl_c_part) parts;
    int64_t weights_at, weights; /* the place in the file of weights, and bytes; multiples of 64 */
    int64_t workspace, scratch;  /* places in the caller's memory, after the parts */
    int64_t work;                /* bytes of the caller's memory */
} dl_c_variant;

typedef struct {
    const dl_export *of;
    const char *name, *upper; /* the model's in lower case and in capitals */
    dl_c_array input[DL_EXPORT_MOST], output[DL_EXPORT_MOST];
    int n_inputs, n_outputs;
    dl_c_variant variant[DL_C_VARIANTS]; /* the fastest first */
    int n_variants;
    int64_t work; /* bytes that are enough for each, at any address */
} dl_c_network;

/* Compiles the network for its target, whose name is set, up to the source text, and finds the
 * places of its memory. Replaces the session's module. Errors: those of dl_session_compile. */
bool dl_c_variant_make(const dl_c_network *c, dl_c_variant *v, dl_error *err);
/* Where a byte of the plan's arena lies; *in_weights: in the weights, else in the caller's memory.
 */
int64_t dl_c_place(const dl_c_variant *v, int64_t offset, bool *in_weights);
/* The plan's variable or result of an array. */
const dl_plan_var *dl_c_input_var(const dl_c_variant *v, const dl_c_array *a);

/* Writes the file of weights: each variant's, as its kernels read them. Errors: DL_IO, those of
 * dl_saved_model_load. */
bool dl_c_weights_write(const dl_c_network *c, const char *path, dl_error *err);

/* The C types by which a caller has an array, and by which the plan has it. */
const char *dl_c_type(dl_dtype d);
const char *dl_c_stored_type(dl_dtype d);
/* Appends the statistics of all arrays, and helpers that their types need. */
void dl_c_put_statistics(dl_buf *b, const dl_c_network *c);
/* Appends a variant's functions NAME_take_X and NAME_give_Y: from a caller's array to the plan's,
 * and back, with normalisation. */
void dl_c_put_arrays(dl_buf *b, const dl_c_network *c, const dl_c_variant *v);
/* Appends the parameters of NAME_predict. */
void dl_c_put_parameters(dl_buf *b, const dl_c_network *c);

/* The example's file: example.c, unless that is the network's. */
const char *dl_c_example(const dl_c_network *c);
/* Appends the text of a file of the folder. */
typedef void dl_c_put_file(dl_buf *b, const dl_c_network *c);
dl_c_put_file dl_c_put_source, dl_c_put_weights, dl_c_put_header, dl_c_put_fortran, dl_c_put_cmake,
    dl_c_put_example, dl_c_put_readme;
#endif

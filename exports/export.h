/* A trained network in another form: `dlc export`.
 *
 * In: a network (runtime/setup/saved_model.h). Out: files of another format, which hold the
 * network's graph "predict" with its weights. Normalisation of the run's data is part of the
 * exported network: raw numbers in, physical numbers out. */
#ifndef DL_EXPORT_H
#define DL_EXPORT_H
#include <ctype.h>
#include <string.h>

#include "runtime/setup/saved_model.h"

enum { DL_EXPORT_MOST = 256 /* inputs, outputs */ };

typedef struct {
    const dl_var *var; /* [N, ...] */
    /* what the run did to its floats: statistics, replaced values, or both; NULL: nothing */
    const dl_array_record *record;
} dl_export_input;

typedef struct {
    const char *name;
    const dl_value *value;
    const dl_array_record *undo; /* the target whose statistics undo it; NULL: none */
} dl_export_output;

typedef struct {
    dl_arena *arena;
    const dl_console *console; /* for warnings */
    const char *name;          /* the model's: "UNet" */
    dl_saved_model *net;   /* its session has the module "predict", which the format may lower */
    const dl_graph *graph; /* "predict" as the front end built it, N = 1 */
    const dlr_st_file *weights; /* parameters and buffers, by the graph's names */
    dl_export_input input[DL_EXPORT_MOST];
    int n_inputs;
    dl_export_output output[DL_EXPORT_MOST];
    int n_outputs;
} dl_export;

/* A format. write: makes `out` (a file or a folder) whole or not at all. Errors (DL_INPUT): an op
 * that the format cannot say, by name and line; DL_IO. */
typedef struct {
    const char *name, *help;
    bool (*write)(const dl_export *e, const char *out, dl_error *err);
} dl_export_format;

/* The name of the network's source file, and of what is in it: `name` in lower case, with the end
 * "_network" where it is one of `taken`, " a b c ": names of files of others that it would hide
 * from programs that look into its folder first. */
static inline const char *dl_export_file_name(dl_arena *arena, const char *name,
                                              const char *taken) {
    char *lower = dl_strdup(arena, name);
    for (char *c = lower; *c; c++) *c = (char)tolower((unsigned char)*c);
    bool is_taken = strstr(taken, dl_format(arena, " %s ", lower)) != NULL;
    return is_taken ? dl_format(arena, "%s_network", lower) : lower;
}

/* Refuses a node that a format cannot say: "net.dl:3:5: error: ONNX has no ..." */
static inline bool dl_export_refuse(const dl_node *n, const char *format, dl_error *err) {
    return dl_fail(err, DL_INPUT, "%s:%d:%d: error: %s has no way to say '%s'",
                   n->loc.file ? n->loc.file : "?", n->loc.line, n->loc.column, format,
                   dl_ops[n->op].name);
}
#endif

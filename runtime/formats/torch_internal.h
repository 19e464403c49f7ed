/* The parts of the reader of PyTorch's files: the pickle interpreter, and the functions that a
 * pickle may call. */
#ifndef DLR_TORCH_INTERNAL_H
#define DLR_TORCH_INTERNAL_H
#include "runtime/formats/torch_file.h"
#include "runtime/formats/zip.h"

/* Bounds on the cost of a malicious pickle: some 500 MB and a second. A checkpoint needs a hundred
 * pushes per parameter. */
enum { DLR_PICKLE_PUSHES = 4000000, DLR_PICKLE_TENSORS = 200000, DLR_PICKLE_DEPTH = 64 };

/* Kinds on the stack and in arguments only, never in a tree: a global by its number, a storage by
 * its number (both in `integer`). */
#define DLR_PICKLE_GLOBAL  ((dlr_torch_kind)DLR_TORCH_N_KINDS)
#define DLR_PICKLE_STORAGE ((dlr_torch_kind)(DLR_TORCH_N_KINDS + 1))

/* A container. When another one takes it up, or the tree is done, it is frozen and grows no more:
 * no container can contain itself. */
typedef struct {
    dlr_torch_items items; /* first member: values point here */
    int cap;
    bool held, inner; /* inner: a tuple that contains globals or storages */
    int depth;
    int64_t weight; /* number of values in it, each counted as often as it is reached */
} dlr_pickle_object;

typedef struct {
    const unsigned char *data;
    uint64_t bytes;
    bool typed;
    dlr_st_dtype dtype; /* if typed */
    bool complex;       /* an element is two of that type */
} dlr_pickle_storage;

typedef DL_ARRAY(dlr_torch_value) dlr_pickle_values;

typedef struct {
    dl_arena *arena;
    const char *path;
    const unsigned char *text; /* the pickle's bytes */
    size_t n, at, op;          /* their number, the next one, the current opcode */
    dlr_pickle_values stack, memo;
    DL_ARRAY(int) marks; /* stack heights of marks */
    DL_ARRAY(dlr_pickle_object *) dicts;
    DL_ARRAY(dlr_pickle_storage) storages;
    int64_t pushes;
    int tensors;
    bool done;
    const dlr_zip *zip;
    const char *archive;      /* prefix of every entry's name */
    const unsigned char *map; /* the mapped file */
    dl_error *err;
} dlr_pickle;

/* Runs the pickle; *root gets its tree. Errors: DL_INPUT with the offset of the faulty opcode;
 * never DL_RESOURCE: a pickle that needs too much is refused. */
bool dlr_pickle_run(dlr_pickle *m, dlr_torch_value *root);

/* torch_tree.c: fails with DL_INPUT, the file, the byte offset, and the fault. Returns false. */
bool dlr_pickle_refuse(dlr_pickle *m, const char *format, ...) DL_PRINTF(2, 3);
/* The stack: the number of values above the last mark; whether there are n of them (DL_INPUT). */
int dlr_pickle_above(const dlr_pickle *m);
bool dlr_pickle_need(dlr_pickle *m, int n);
bool dlr_pickle_push(dlr_pickle *m, dlr_torch_value v);
/* Pushes a new container. */
bool dlr_pickle_push_object(dlr_pickle *m, dlr_torch_kind kind, bool ordered);
/* Adds the n topmost values to the container below them, which must have this kind. */
bool dlr_pickle_add_top(dlr_pickle *m, dlr_torch_kind kind, int n);
/* Makes a tuple of the n topmost values. */
bool dlr_pickle_make_tuple(dlr_pickle *m, int n);
/* Whether a value is or holds a global or a storage. */
bool dlr_pickle_is_inner(dlr_torch_value v);
/* Checks that no dictionary has a key twice. */
bool dlr_pickle_check_keys(dlr_pickle *m);
/* torch_value.c: the name of a value's kind, for messages: "text", "a list". */
const char *dlr_torch_kind_name(dlr_torch_kind kind);
/* Compares keys of dictionaries, for qsort. */
int dlr_torch_compare_keys(const dlr_torch_value *a, const dlr_torch_value *b);

/* torch_sums.c: stores the part of the zip directory that dlr_torch_check needs. */
void dlr_torch_keep_sums(dlr_st_file *f, const dlr_zip *zip);

/* torch_rebuild.c: the number of the global of this name, or -1; the name of a global. */
int dlr_pickle_find_global(const char *module, size_t module_bytes, const char *name,
                           size_t name_bytes);
/* Calls a global with a tuple of arguments and pushes the result. */
bool dlr_pickle_call(dlr_pickle *m, int64_t global, const dlr_torch_items *args);
/* Pushes the storage that a persistent id names. */
bool dlr_pickle_load_storage(dlr_pickle *m, dlr_torch_value id);
#endif

/* PyTorch's files (torch.save since 1.6: .pt, .pth, .tar): a zip of NAME/data.pkl, a pickle of
 * protocol 2, and NAME/data/K, one storage's numbers each.
 *
 * An interpreter runs the pickle. It knows tensors, numbers, text, None, booleans, tuples, lists
 * and dictionaries; other classes, functions and opcodes are refused by name. It builds a tree, at
 * most 64 deep, of at most 4 million values.
 *
 * Source: Python's Lib/pickletools.py for the opcodes; files that torch.save of 1.13 and 2.x
 * writes. */
#ifndef DLR_TORCH_FILE_H
#define DLR_TORCH_FILE_H
#include "runtime/formats/stored.h"

typedef enum {
    DLR_TORCH_NONE,
    DLR_TORCH_BOOL,
    DLR_TORCH_INT,
    DLR_TORCH_REAL,
    DLR_TORCH_TEXT,
    DLR_TORCH_TENSOR,
    DLR_TORCH_TUPLE,
    DLR_TORCH_LIST,
    DLR_TORCH_DICT, /* keys are text or INT */
    DLR_TORCH_N_KINDS
} dlr_torch_kind;

typedef struct dlr_torch_value {
    dlr_torch_kind kind;
    union {
        bool truth;
        int64_t integer;
        double real;
        const char *text;
        const dlr_st_tensor *tensor;
        const struct dlr_torch_items *items; /* TUPLE, LIST, DICT */
    };
} dlr_torch_value;

typedef struct dlr_torch_items {
    const dlr_torch_value *at; /* DICT: key, value, key, value */
    int n;                     /* of `at` */
    bool ordered;              /* DICT: a collections.OrderedDict, like PyTorch's state_dicts */
} dlr_torch_items;

/* The value of a text key of a dictionary, or NULL (also if `dict` is no dictionary). */
const dlr_torch_value *dlr_torch_get(const dlr_torch_value *dict, const char *key);

/* The whole content of an open file, of which the file's tensors are only the model's state; NULL
 * for another format. Its tensors can be loaded with dlr_st_load. The model's state is the
 * dictionary under `model_state`, `model_state_dict`, `state_dict` or `model`, possibly within
 * another such dictionary, or else the whole. */
const dlr_torch_value *dlr_torch_root(const dlr_st_file *file);

/* Writes `root` as torch.save does, atomically. Its TENSOR values point into content->tensors; each
 * of these has a storage of its own, row-major. torch.load reads the file, with weights_only=True,
 * too (where PyTorch 1.13 accepts no REAL values, not even its own). Errors: those of dlr_st_write;
 * DL_INTERNAL for element types that PyTorch 1.13 lacks (U16, U32, U64), a key given twice or that
 * is neither text nor INT, text that is not UTF-8. */
bool dlr_torch_write(const char *path, const dlr_torch_value *root, const dlr_st_content *content,
                     dlr_st_written *written, dl_error *err);
#endif

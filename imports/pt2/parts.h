/* The parts of the reader of PyTorch's archives. */
#ifndef DL_IMPORTS_PT2_PARTS_H
#define DL_IMPORTS_PT2_PARTS_H
#include "imports/pt2/pt2.h"
#include "runtime/formats/json.h"
#include "runtime/formats/zip.h"

struct dl_pt2 {
    dl_arena *arena;
    const char *path;
    int fd;
    dlr_zip zip;
    const char *root; /* the folder of all entries */
    bool *checked;    /* entries whose checksum was right */
    int64_t bytes;    /* of the file */
    int64_t read;     /* of the tensors that were found so far */
    dl_foreign_graph graph;
};

/* A graph that is being read, and the place that a message names. */
typedef struct {
    dl_pt2 *archive;
    dl_arena *arena;
    dl_error *err;
    DL_ARRAY(dl_foreign_tensor *) by_name; /* sorted, for lookup */
    const dlr_json *tensor_values, *sizes;
    int depth;                      /* of the graph in graphs */
    const char *place;              /* "node 12 (aten.add.Tensor)" */
    DL_ARRAY(const char *) defined; /* names of integers that nodes have computed */
} dl_pt2_reader;

/* Fails: "FILE.pt2: models/model.json: PLACE: text". */
bool dl_pt2_bad(const dl_pt2_reader *r, const char *format, ...) DL_PRINTF(2, 3);
/* A member that must be of a kind; NULL with an error. */
const dlr_json *dl_pt2_get(const dl_pt2_reader *r, const dlr_json *object, const char *key,
                           dlr_json_kind kind);
/* The only member of an object like {"as_tensor": ...}; NULL with an error. */
const dlr_json_member *dl_pt2_tagged(const dl_pt2_reader *r, const dlr_json *value);
/* A size: an integer, or one that the archive leaves open (*open), with its example's value. */
bool dl_pt2_size(const dl_pt2_reader *r, const dlr_json *value, int64_t *size, bool *open);
/* Shape, strides and type of {"dtype", "sizes", "strides", "storage_offset"}. stride, offset: may
 * be NULL. */
bool dl_pt2_meta(const dl_pt2_reader *r, const dlr_json *meta, dl_foreign_tensor *t,
                 int64_t *stride, int64_t *offset);

/* Reads an entry as JSON. Errors: DL_INPUT. */
const dlr_json *dl_pt2_json(dl_pt2 *archive, const char *name, dl_error *err);
/* Finds the bytes of a tensor that a config (model_weights_config.json) lists under `path`. */
bool dl_pt2_find_data(dl_pt2_reader *r, const dlr_json *config, const char *folder,
                      dl_foreign_tensor *t);
/* Reads nodes into the graph. */
bool dl_pt2_read_nodes(dl_pt2_reader *r, const dlr_json *graph);
/* The tensor of that name, made at its first use by a result; NULL with an error. */
dl_foreign_tensor *dl_pt2_find(dl_pt2_reader *r, const char *name);
dl_foreign_tensor *dl_pt2_define(dl_pt2_reader *r, const char *name, dl_foreign_origin origin);
/* Module stack, user's function and line of a node. */
bool dl_pt2_read_stack(dl_pt2_reader *r, const dlr_json *metadata, dl_foreign_node *n);
#endif

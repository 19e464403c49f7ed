/* Writes an ONNX model to its file. */
#ifndef DL_ONNX_SAVE_H
#define DL_ONNX_SAVE_H
#include "exports/onnx/model.h"

typedef struct {
    const char *name;           /* the graph's */
    const dlr_st_file *weights; /* of tensors that are not in memory */
    uint64_t most;              /* bytes: a larger file has its constants in another, OUT.data */
} dl_onnx_saving;

/* A file of protobuf holds at most 2 GB. */
enum { DL_ONNX_MOST = 0x7fffffff - (1 << 20) };

/* The file appears whole or not at all; weights are read one after the other. Errors: DL_IO; those
 * of dlr_st_load. */
bool dl_onnx_save(const dl_onnx *o, const dl_onnx_saving *s, const char *out, dl_error *err);
#endif

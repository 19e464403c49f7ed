#include "exports/onnx/save.h"

#include <stdlib.h>

#include "ir/base/output.h"
#include "runtime/base/convert.h"

enum {
    ALIGN = 64,  /* of a tensor in the other file */
    LEAST = 1024 /* bytes of such a tensor; readers look at smaller ones, such as shapes, at once */
};

static uint64_t bytes_of(const dl_onnx_tensor *t) {
    return (uint64_t)(dl_type_count(&t->type) * dl_dtype_bytes(t->type.dtype));
}

/* ---- a tensor's elements ---- */

static bool load(const dl_onnx_saving *s, const dl_onnx_tensor *t, void *to, dl_error *err) {
    static const dlr_st_dtype same[DL_NDTYPES] = {
        [DL_F32] = DLR_ST_F32,   [DL_F64] = DLR_ST_F64, [DL_F16] = DLR_ST_F16,
        [DL_BF16] = DLR_ST_BF16, [DL_I32] = DLR_ST_I32, [DL_I64] = DLR_ST_I64,
        [DL_BOOL] = DLR_ST_BOOL};
    int64_t n = dl_type_count(&t->type);
    dl_dtype from = DL_F32;
    if (t->stored->dtype == same[t->type.dtype]) return dlr_st_load(s->weights, t->stored, to, err);
    bool wide = t->stored->dtype == DLR_ST_I64, whole = wide || t->stored->dtype == DLR_ST_I32;
    if (whole) from = wide ? DL_I64 : DL_I32;
    void *read = malloc((size_t)n * 8 + 1);
    if (!read) return dl_fail(err, DL_RESOURCE, "no memory for '%s'", t->name);
    bool ok = whole ? dlr_st_load(s->weights, t->stored, read, err)
                    : dlr_st_load_f32(s->weights, t->stored, read, err);
    if (ok) dlr_convert(t->type.dtype, to, from, read, n);
    free(read);
    return ok;
}

static bool write_elements(const dl_onnx_saving *s, const dl_onnx_tensor *t, dl_output *to,
                           dl_error *err) {
    uint64_t bytes = bytes_of(t);
    if (t->data) return dl_output_write(to, t->data, (size_t)bytes, err);
    void *room = malloc((size_t)bytes + 1);
    if (!room) return dl_fail(err, DL_RESOURCE, "no memory for '%s'", t->name);
    bool ok = load(s, t, room, err) && dl_output_write(to, room, (size_t)bytes, err);
    free(room);
    return ok;
}

/* ---- messages ---- */

/* A TensorProto without its elements. */
static dl_buf describe(const dl_onnx_tensor *t) {
    dl_buf b = {0};
    for (int i = 0; i < t->type.rank; i++)
        dlr_pb_varint(&b, DL_TENSOR_DIMS, (uint64_t)t->type.axis[i].size);
    dlr_pb_varint(&b, DL_TENSOR_TYPE, (uint64_t)dl_onnx_dtype(t->type.dtype));
    dlr_pb_text(&b, DL_TENSOR_NAME, t->name);
    return b;
}

static void put_entry(dl_buf *tensor, const char *key, const char *value) {
    dl_buf b = {0};
    dlr_pb_text(&b, DL_ENTRY_KEY, key), dlr_pb_text(&b, DL_ENTRY_VALUE, value);
    dlr_pb_message(tensor, DL_TENSOR_EXTERNAL, &b);
}

/* Are the elements in the other file? */
static bool is_apart(const dl_onnx_tensor *t, const char *file) {
    return file && bytes_of(t) >= LEAST;
}

/* The bytes before the elements of an initializer in the graph; all of it where they are in
 * `file`, at `offset`. */
static dl_buf head_of(dl_arena *arena, const dl_onnx_tensor *t, const char *file, uint64_t offset) {
    dl_buf tensor = describe(t), head = {0};
    uint64_t bytes = bytes_of(t);
    if (is_apart(t, file)) {
        put_entry(&tensor, "location", file);
        put_entry(&tensor, "offset", dl_format(arena, "%llu", (unsigned long long)offset));
        put_entry(&tensor, "length", dl_format(arena, "%llu", (unsigned long long)bytes));
        dlr_pb_varint(&tensor, DL_TENSOR_LOCATION, 1);
        dlr_pb_message(&head, DL_GRAPH_INITIALIZER, &tensor);
        return head;
    }
    dlr_pb_announce(&tensor, DL_TENSOR_RAW, (size_t)bytes);
    dlr_pb_announce(&head, DL_GRAPH_INITIALIZER, tensor.n + (size_t)bytes);
    dl_putn(&head, tensor.at, tensor.n);
    dl_buf_free(&tensor);
    return head;
}

static void append(dl_buf *to, const dl_buf *b) {
    if (b->n) dl_putn(to, b->at, b->n);
}

/* The graph without initializers. */
static dl_buf rest_of(const dl_onnx *o, const char *name) {
    dl_buf b = {0};
    append(&b, &o->nodes);
    dlr_pb_text(&b, DL_GRAPH_NAME, name);
    append(&b, &o->inputs), append(&b, &o->outputs), append(&b, &o->infos);
    return b;
}

/* The model up to the content of its graph, which has `bytes`. */
static dl_buf model_head(uint64_t bytes) {
    dl_buf b = {0}, opset = {0};
    dlr_pb_varint(&b, DL_MODEL_IR, DL_ONNX_IR);
    dlr_pb_text(&b, DL_MODEL_PRODUCER, "dlc");
    dlr_pb_text(&b, DL_MODEL_PRODUCER_VERSION, DL_VERSION);
    dlr_pb_varint(&opset, DL_OPSET_VERSION, DL_ONNX_OPSET);
    dlr_pb_message(&b, DL_MODEL_OPSET, &opset);
    dlr_pb_announce(&b, DL_MODEL_GRAPH, (size_t)bytes);
    return b;
}

/* ---- files ---- */

typedef struct {
    const dl_onnx_saving *s;
    const char *path, *data_path, *data_name; /* NULL: the elements are in the model's file */
    dl_output *model, *data;
    dl_buf *heads;
    dl_buf rest;
    uint64_t bytes; /* of the graph */
} files;

static void find_heads(files *f, const dl_onnx *o) {
    uint64_t offset = 0;
    f->heads = DL_NEWS(o->arena, dl_buf, o->tensors.n + 1);
    f->rest = rest_of(o, f->s->name);
    f->bytes = f->rest.n;
    for (int i = 0; i < o->tensors.n; i++) {
        const dl_onnx_tensor *t = &o->tensors.at[i];
        bool apart = is_apart(t, f->data_name);
        f->heads[i] = head_of(o->arena, t, f->data_name, offset);
        f->bytes += f->heads[i].n + (apart ? 0 : bytes_of(t));
        if (apart) offset += (bytes_of(t) + ALIGN - 1) / ALIGN * ALIGN;
    }
}

static void free_heads(files *f, const dl_onnx *o) {
    for (int i = 0; i < o->tensors.n; i++) dl_buf_free(&f->heads[i]);
    dl_buf_free(&f->rest);
}

static bool write_data(files *f, const dl_onnx_tensor *t, dl_error *err) {
    static const char zeros[ALIGN];
    size_t over = (size_t)(bytes_of(t) % ALIGN);
    return write_elements(f->s, t, f->data, err) &&
           (!over || dl_output_write(f->data, zeros, ALIGN - over, err));
}

static bool write(files *f, const dl_onnx *o, dl_error *err) {
    dl_buf head = model_head(f->bytes);
    bool ok = dl_output_write(f->model, head.at, head.n, err) &&
              dl_output_write(f->model, f->rest.at, f->rest.n, err);
    dl_buf_free(&head);
    for (int i = 0; ok && i < o->tensors.n; i++) {
        const dl_onnx_tensor *t = &o->tensors.at[i];
        ok = dl_output_write(f->model, f->heads[i].at, f->heads[i].n, err) &&
             (is_apart(t, f->data_name) ? write_data(f, t, err)
                                        : write_elements(f->s, t, f->model, err));
    }
    return ok;
}

static bool commit(dl_output **file, dl_error *err) {
    dl_output *done = *file;
    *file = NULL;
    return !done || dl_output_commit(done, err);
}

bool dl_onnx_save(const dl_onnx *o, const dl_onnx_saving *s, const char *out, dl_error *err) {
    files f = {.s = s, .path = out};
    find_heads(&f, o);
    if (f.bytes > s->most) {
        free_heads(&f, o);
        f.data_path = dl_format(o->arena, "%s.data", out);
        const char *slash = strrchr(f.data_path, '/');
        f.data_name = slash ? slash + 1 : f.data_path;
        find_heads(&f, o);
    }
    f.model = dl_output_open(out, err);
    if (f.model && f.data_path) f.data = dl_output_open(f.data_path, err);
    bool ok = f.model && (f.data || !f.data_path) && write(&f, o, err) && commit(&f.data, err) &&
              commit(&f.model, err);
    dl_output_discard(f.data), dl_output_discard(f.model);
    free_heads(&f, o);
    return ok;
}

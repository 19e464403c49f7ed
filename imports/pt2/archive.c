/* The archive: a zip, its entries and the bytes of its weights. */
#include <stdlib.h>
#include <unistd.h>

#include "imports/pt2/parts.h"
#include "ir/base/input.h"

/* A small file may state large tensors: by strides of 0, or one storage for many. */
enum { MOST_TIMES = 16, FREE_BYTES = 1 << 26 };
enum { JSON_BYTES = 1 << 30, JSON_DEPTH = 64, JSON_VALUES = 200 * 1000 * 1000 };

static bool read_storage(void *context, const dl_foreign_data *data, void *to, dl_error *err) {
    dl_pt2 *a = context;
    bool *checked = &a->checked[data->entry];
    if (!a->zip.unsummed && !*checked)
        *checked = dlr_zip_check_stored(a->fd, a->path, &a->zip.entries[data->entry], err);
    return (a->zip.unsummed || *checked) &&
           dl_read_at(a->fd, a->path, to, (size_t)data->bytes, data->at, err);
}

static const dlr_zip_entry *find(const dl_pt2 *a, const char *name) {
    return dlr_zip_find(&a->zip, dl_format(a->arena, "%s/%s", a->root, name));
}

const dlr_json *dl_pt2_json(dl_pt2 *a, const char *name, dl_error *err) {
    const dlr_zip_entry *e = find(a, name);
    if (!e) return dl_fail(err, DL_INPUT, "%s: it has no entry '%s'", a->path, name), NULL;
    if (e->bytes > JSON_BYTES)
        return dl_fail(err, DL_INPUT, "%s: %s has %llu bytes, at most %d are read", a->path, name,
                       (unsigned long long)e->bytes, JSON_BYTES),
               NULL;
    char *text = malloc((size_t)e->bytes + 1);
    if (!text) return dl_fail(err, DL_RESOURCE, "no memory to read %s", a->path), NULL;
    const dlr_json *value = NULL;
    /* a digit takes two bytes at least: a text cannot hold more values than half its bytes */
    dlr_json_limits limits = {JSON_DEPTH,
                              (int)(e->bytes / 2 < JSON_VALUES ? e->bytes / 2 + 2 : JSON_VALUES)};
    const char *title = dl_format(a->arena, "%s: %s", a->path, name);
    if (dl_read_at(a->fd, a->path, text, (size_t)e->bytes, (int64_t)e->at, err) &&
        (a->zip.unsummed || dlr_zip_check_data(a->path, e, text, err)))
        value = dlr_json_parse_python(a->arena, text, (size_t)e->bytes, limits, title, err);
    free(text);
    if (value && value->kind != DLR_JSON_OBJECT)
        return dl_fail(err, DL_INPUT, "%s: it is no object of JSON", title), NULL;
    return value;
}

static bool fits(const dl_pt2_reader *r, const dl_foreign_tensor *t, const int64_t *stride,
                 int64_t offset, uint64_t bytes) {
    int64_t size = (int64_t)dlr_st_dtype_size(t->dtype), last = offset;
    for (int d = 0; d < t->rank; d++)
        if (t->shape[d] == 0) return true;
    for (int d = 0; d < t->rank; d++) {
        int64_t step;
        if (stride[d] < 0 || __builtin_mul_overflow(t->shape[d] - 1, stride[d], &step) ||
            __builtin_add_overflow(last, step, &last))
            return dl_pt2_bad(r, "'%s' has strides beyond all sizes", t->path);
    }
    return (uint64_t)last < bytes / (uint64_t)size ||
           dl_pt2_bad(r, "'%s' reaches to element %lld of a storage of %llu bytes", t->path,
                      (long long)last, (unsigned long long)bytes);
}

bool dl_pt2_find_data(dl_pt2_reader *r, const dlr_json *config, const char *folder,
                      dl_foreign_tensor *t) {
    dl_pt2 *a = r->archive;
    r->place = dl_format(r->arena, "the data of '%.200s'", t->path);
    const dlr_json *row = dlr_json_get(dlr_json_get(config, "config"), t->path);
    const dlr_json *file, *meta, *pickled = dlr_json_get(row, "use_pickle");
    if (!row) return dl_pt2_bad(r, "%s lists no such tensor", folder);
    if (!(file = dl_pt2_get(r, row, "path_name", DLR_JSON_STRING)) ||
        !(meta = dl_pt2_get(r, row, "tensor_meta", DLR_JSON_OBJECT)))
        return false;
    if (pickled && pickled->kind == DLR_JSON_BOOL && pickled->boolean)
        return dl_pt2_bad(r, "it is a pickle, which is never run");
    int64_t stride[DL_FOREIGN_RANK], offset;
    dl_foreign_tensor stored = *t;
    if (!dl_pt2_meta(r, meta, &stored, stride, &offset)) return false;
    bool same = stored.rank == t->rank && stored.class == t->class && stored.dtype == t->dtype &&
                stored.pair == t->pair;
    for (int d = 0; same && d < t->rank; d++) same = stored.shape[d] == t->shape[d];
    if (!same) return dl_pt2_bad(r, "its shape or type is not that of the graph");
    if (t->class == DL_FOREIGN_UNKNOWN) return true;
    const dlr_zip_entry *e = find(a, dl_format(r->arena, "%s/%.200s", folder, file->string));
    if (!e) return dl_pt2_bad(r, "the archive has no entry '%s/%.200s'", folder, file->string);
    if (offset < 0 || !fits(r, t, stride, offset, e->bytes)) return dl_pt2_bad(r, "its offset");
    a->read += dl_foreign_count(t) * (int64_t)dlr_st_dtype_size(t->dtype);
    if (a->read > a->bytes * MOST_TIMES + FREE_BYTES)
        return dl_pt2_bad(r, "the tensors up to this one have %lld bytes, of a file of %lld",
                          (long long)a->read, (long long)a->bytes);
    dl_foreign_data *data = DL_NEW(r->arena, dl_foreign_data);
    *data = (dl_foreign_data){.at = (int64_t)e->at,
                              .bytes = (int64_t)e->bytes,
                              .offset = offset,
                              .entry = (int)(e - a->zip.entries)};
    memcpy(data->stride, stride, sizeof stride);
    t->data = data;
    return true;
}

static bool read_text(dl_pt2 *a, const char *name, char to[32], dl_error *err) {
    const dlr_zip_entry *e = find(a, name);
    memset(to, 0, 32);
    if (!e) return true;
    return e->bytes < 32 ? dl_read_at(a->fd, a->path, to, (size_t)e->bytes, (int64_t)e->at, err)
                         : dl_fail(err, DL_INPUT, "%s: '%s' is no word", a->path, name);
}

static bool open_zip(dl_pt2 *a, dl_error *err) {
    struct stat st;
    a->fd = dl_input_open(a->path, err);
    if (a->fd < 0) return false;
    if (fstat(a->fd, &st) != 0) return dl_fail_errno(err, DL_IO, "cannot read %s", a->path);
    if (!dlr_zip_read(a->arena, a->fd, a->path, (uint64_t)st.st_size, &a->zip, err)) return false;
    const char *slash = strchr(a->zip.first, '/');
    char format[32], order[32];
    if (!slash)
        return dl_fail(err, DL_INPUT, "%s: a zip file, but not one of torch.export.save", a->path);
    a->root = dl_strndup(a->arena, a->zip.first, (size_t)(slash - a->zip.first));
    a->checked = DL_NEWS(a->arena, bool, a->zip.n), a->bytes = st.st_size;
    for (int i = 0; i < a->zip.n; i++)
        if (a->zip.entries[i].deflated)
            return dl_fail(err, DL_INPUT,
                           "%s: entry '%.200s' is compressed, and torch.export.save stores: write "
                           "the archive anew",
                           a->path, a->zip.entries[i].name);
    if (!find(a, "models/model.json"))
        return dl_fail(
            err, DL_INPUT,
            "%s: it has no models/model.json: write it with torch.export.save of PyTorch "
            "2.9 or newer",
            a->path);
    if (!read_text(a, "archive_format", format, err) || !read_text(a, "byteorder", order, err))
        return false;
    if (strcmp(format, "pt2") != 0)
        return dl_fail(err, DL_INPUT, "%s: archive_format is '%s', not 'pt2'", a->path, format);
    return !*order || strcmp(order, "little") == 0 ||
           dl_fail(err, DL_INPUT, "%s: its numbers are not little-endian", a->path);
}

static bool read_signature(dl_pt2_reader *r, const dlr_json *specs) {
    const dlr_json *weights =
        dl_pt2_json(r->archive, "data/weights/model_weights_config.json", r->err);
    const dlr_json *constants =
        dl_pt2_json(r->archive, "data/constants/model_constants_config.json", r->err);
    if (!weights || !constants) return false;
    for (int i = 0; i < specs->n; i++) {
        r->place = dl_format(r->arena, "input %d", i);
        const dlr_json_member *spec = dl_pt2_tagged(r, &specs->items[i]);
        if (!spec) return false;
        const dlr_json *arg = dlr_json_get(&spec->value, "arg"), *path = NULL;
        dl_foreign_origin origin = DL_FOREIGN_INPUT;
        bool persistent = true;
        if (!strcmp(spec->key, "parameter"))
            origin = DL_FOREIGN_PARAMETER, path = dlr_json_get(&spec->value, "parameter_name");
        else if (!strcmp(spec->key, "buffer")) {
            const dlr_json *kept = dlr_json_get(&spec->value, "persistent");
            origin = DL_FOREIGN_BUFFER, path = dlr_json_get(&spec->value, "buffer_name");
            persistent = !kept || kept->kind != DLR_JSON_BOOL || kept->boolean;
        } else if (!strcmp(spec->key, "tensor_constant"))
            origin = DL_FOREIGN_CONSTANT, persistent = false,
            path = dlr_json_get(&spec->value, "tensor_constant_name");
        else if (!strcmp(spec->key, "user_input")) {
            const dlr_json *tensor = dlr_json_get(arg, "as_tensor");
            if (!tensor) continue; /* a number or a flag, which the graph holds */
            arg = tensor;
        } else
            continue; /* a token, a custom object: refused where a node uses it */
        const dlr_json *name = dl_pt2_get(r, arg, "name", DLR_JSON_STRING);
        dl_foreign_tensor *t = name ? dl_pt2_define(r, name->string, origin) : NULL;
        if (!t) return false;
        if (origin == DL_FOREIGN_INPUT) {
            dl_push(r->arena, &r->archive->graph.inputs, t);
            continue;
        }
        if (!path || path->kind != DLR_JSON_STRING)
            return dl_pt2_bad(r, "it has no name in the state dict");
        t->path = path->string;
        for (int k = 0; k < r->archive->graph.tensors.n - 1; k++) {
            const dl_foreign_tensor *other = r->archive->graph.tensors.at[k];
            if (other->origin != DL_FOREIGN_INPUT && strcmp(other->path, t->path) == 0)
                return dl_pt2_bad(r, "'%.200s' is there twice", t->path);
        }
        if (!persistent) t->origin = DL_FOREIGN_CONSTANT;
        if (!dl_pt2_find_data(r, persistent ? weights : constants,
                              persistent ? "data/weights" : "data/constants", t))
            return false;
    }
    return true;
}

/* Whether output t is no result of the user's but what a batch norm in training keeps: its layer
 * computes it by itself. Other new contents of buffers and inputs are an error: the language keeps
 * no state between steps. */
static bool is_statistic(dl_pt2_reader *r, const dlr_json_member *spec, const dl_foreign_tensor *t,
                         bool *is) {
    static const char functional[] = "aten._native_batch_norm_legit_functional",
                      count[] = "num_batches_tracked";
    const dl_foreign_graph *g = &r->archive->graph;
    *is = strcmp(spec->key, "user_output") != 0 && strcmp(spec->key, "loss_output") != 0;
    if (!*is) return true;
    const dlr_json *name = dlr_json_get(&spec->value, "buffer_name");
    bool named = name && name->kind == DLR_JSON_STRING;
    if (named && dl_ends_with(name->string, count)) return true;
    for (int i = 0; named && i < g->nodes.n; i++)
        for (int k = 1; k < g->nodes.at[i].n_results; k++)
            if (g->nodes.at[i].results[k] == t &&
                strncmp(g->nodes.at[i].op, functional, sizeof functional - 1) == 0)
                return true;
    return dl_pt2_bad(r, "it is the new content of '%.200s', and the language keeps no state",
                      named ? name->string : spec->key);
}

static bool read_outputs(dl_pt2_reader *r, const dlr_json *specs, const dlr_json *outputs) {
    for (int i = 0; i < outputs->n; i++) {
        r->place = dl_format(r->arena, "output %d", i);
        const dlr_json_member *arg = dl_pt2_tagged(r, &outputs->items[i]);
        if (!arg) return false;
        if (strcmp(arg->key, "as_tensor") != 0) continue;
        const dlr_json *name = dl_pt2_get(r, &arg->value, "name", DLR_JSON_STRING);
        const dl_foreign_tensor *t = name ? dl_pt2_find(r, name->string) : NULL;
        if (!t) return false;
        bool statistic = false;
        if (specs && i < specs->n) {
            const dlr_json_member *spec = dl_pt2_tagged(r, &specs->items[i]);
            if (!spec || !is_statistic(r, spec, t, &statistic)) return false;
        }
        if (!statistic) dl_push(r->arena, &r->archive->graph.outputs, t);
    }
    return true;
}

static bool read_graph(dl_pt2 *a, dl_error *err) {
    const dlr_json *file = dl_pt2_json(a, "models/model.json", err);
    if (!file) return false;
    dl_pt2_reader r = {.archive = a, .arena = a->arena, .err = err, .place = "the file"};
    const dlr_json *version = dlr_json_get(dlr_json_get(file, "schema_version"), "major");
    if (!version || version->kind != DLR_JSON_INT || version->integer != 8)
        return dl_pt2_bad(&r, "it is not of schema version 8");
    const dlr_json *module = dl_pt2_get(&r, file, "graph_module", DLR_JSON_OBJECT), *graph,
                   *signature, *specs, *outputs;
    if (!module || !(graph = dl_pt2_get(&r, module, "graph", DLR_JSON_OBJECT)) ||
        !(signature = dl_pt2_get(&r, module, "signature", DLR_JSON_OBJECT)) ||
        !(specs = dl_pt2_get(&r, signature, "input_specs", DLR_JSON_ARRAY)) ||
        !(outputs = dl_pt2_get(&r, graph, "outputs", DLR_JSON_ARRAY)) ||
        !(r.tensor_values = dl_pt2_get(&r, graph, "tensor_values", DLR_JSON_OBJECT)))
        return false;
    const dlr_json *kinds = dlr_json_get(signature, "output_specs");
    if (kinds && kinds->kind != DLR_JSON_ARRAY) kinds = NULL;
    return read_signature(&r, specs) && dl_pt2_read_nodes(&r, graph) &&
           read_outputs(&r, kinds, outputs);
}

dl_pt2 *dl_pt2_open(dl_arena *arena, const char *path, dl_error *err) {
    dl_pt2 *a = DL_NEW(arena, dl_pt2);
    *a = (dl_pt2){.arena = arena, .path = path, .fd = -1};
    if (!open_zip(a, err)) return dl_pt2_close(a), NULL;
    a->graph = (dl_foreign_graph){.arena = arena, .path = path, .read = read_storage, .context = a};
    if (!read_graph(a, err)) return dl_pt2_close(a), NULL;
    return a;
}

const dl_foreign_graph *dl_pt2_graph(const dl_pt2 *a) { return &a->graph; }

void dl_pt2_close(dl_pt2 *a) {
    if (a && a->fd >= 0) close(a->fd), a->fd = -1;
}

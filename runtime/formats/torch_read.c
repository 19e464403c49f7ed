/* Reads the tensors of a PyTorch file. */
#include <stdio.h>

#include "ir/base/input.h"
#include "runtime/formats/torch_internal.h"

const dlr_torch_value *dlr_torch_root(const dlr_st_file *f) { return f->private->root; }

/* ---- recognizing the file ---- */

/* The begin of PyTorch files before 1.6: a magic number as a pickle of protocol 2, LONG1 of ten
 * bytes. */
static const unsigned char before_zip[] = {0x80, 2,    0x8a, 0x0a, 'l',  0xfc, 0x9c,
                                           0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};

/* A safetensors file begins with a length of eight bytes, followed by '{' or a blank. A zip has a
 * number in place of the latter, and the begin of old PyTorch files is a length beyond all
 * limits. */
bool dlr_torch_begins(const unsigned char *head, size_t n) {
    bool zip = n >= 9 && head[0] == 'P' && head[1] == 'K' && head[2] < 8 && head[8] != '{' &&
               head[8] != ' ';
    return zip || (n >= sizeof before_zip && memcmp(head, before_zip, sizeof before_zip) == 0);
}

static bool refuse_old(const dlr_st_file *f, dl_error *err) {
    return dl_fail(err, DL_INPUT,
                   "%s is of PyTorch's format before 1.6, which is not read. Convert it: python3 "
                   "-c \"import torch; "
                   "torch.save(torch.load('OLD', map_location='cpu'), 'NEW')\"",
                   f->path);
}

/* ---- the archive ---- */

static bool check_byte_order(const dlr_st_file *f, const dlr_zip *z, const char *archive,
                             dl_error *err) {
    char order[8] = "";
    const dlr_zip_entry *e = dlr_zip_find(z, dl_format(f->private->arena, "%s/byteorder", archive));
    /* older versions of PyTorch do not write this entry, and are little-endian */
    if (!e) return true;
    if (e->bytes < sizeof order &&
        (!dl_read_at(f->private->fd, f->path, order, (size_t)e->bytes, (int64_t)e->at, err) ||
         !(z->unsummed || dlr_zip_check_data(f->path, e, order, err))))
        return false;
    return strcmp(order, "little") == 0 || dl_fail(err, DL_INPUT,
                                                   "%s: its numbers are not little-endian "
                                                   "(byteorder: '%s'): save it on another machine",
                                                   f->path, order);
}

static bool read_root(dlr_st_file *f, dl_error *err) {
    struct dlr_st_private *p = f->private;
    dlr_zip zip;
    if (!dlr_zip_read(p->arena, p->fd, f->path, p->size, &zip, err)) return false;
    for (int i = 0; i < zip.n; i++)
        if (zip.entries[i].deflated)
            return dl_fail(err, DL_INPUT,
                           "%s: entry '%.200s' of the zip file is compressed; PyTorch stores: save "
                           "it again with "
                           "torch.save",
                           f->path, zip.entries[i].name);
    const char *slash = strchr(zip.first, '/');
    size_t n = slash ? (size_t)(slash - zip.first) : 0;
    if (n == 0 || n > 250)
        return dl_fail(err, DL_INPUT,
                       "%s: a zip file, but no file of PyTorch's: it begins with '%.100s'", f->path,
                       zip.first);
    const char *archive = dl_strndup(p->arena, zip.first, n);
    const dlr_zip_entry *e = dlr_zip_find(&zip, dl_format(p->arena, "%s/data.pkl", archive));
    if (!e)
        return dl_fail(err, DL_INPUT,
                       "%s: a zip file without %.200s/data.pkl, no file of PyTorch's", f->path,
                       archive);
    if (e->bytes > DLR_ST_MAX_HEADER)
        return dl_fail(err, DL_INPUT, "%s: data.pkl has %llu bytes, at most %d are read", f->path,
                       (unsigned long long)e->bytes, DLR_ST_MAX_HEADER);
    unsigned char *text = dl_alloc(p->arena, (size_t)e->bytes + 1);
    if (!dl_read_at(p->fd, f->path, text, (size_t)e->bytes, (int64_t)e->at, err) ||
        !(zip.unsummed || dlr_zip_check_data(f->path, e, text, err)) ||
        !check_byte_order(f, &zip, archive, err))
        return false;
    dlr_pickle m = {.arena = p->arena,
                    .path = f->path,
                    .text = text,
                    .n = (size_t)e->bytes,
                    .zip = &zip,
                    .archive = archive,
                    .map = p->map,
                    .err = err};
    dlr_torch_keep_sums(f, &zip);
    dlr_torch_value *root = DL_NEW(p->arena, dlr_torch_value);
    p->root = root;
    return dlr_pickle_run(&m, root);
}

/* ---- the model's state ---- */

static const char *const state_keys[] = {"model_state", "model_state_dict", "state_dict", "model"};
enum { N_STATE_KEYS = sizeof state_keys / sizeof *state_keys };

/* Finds the dictionary of `v` under one of these keys; *below is NULL where there is none. */
static bool find_below(const dlr_st_file *f, const dlr_torch_value *v,
                       const dlr_torch_value **below, dl_error *err) {
    const char *key = NULL;
    *below = NULL;
    for (int i = 0; i < N_STATE_KEYS; i++) {
        const dlr_torch_value *d = dlr_torch_get(v, state_keys[i]);
        if (!d || d->kind != DLR_TORCH_DICT) continue;
        if (key)
            return dl_fail(err, DL_INPUT,
                           "%s: both '%s' and '%s' could be the model's state: save one of them",
                           f->path, key, state_keys[i]);
        *below = d, key = state_keys[i];
    }
    return true;
}

/* The innermost such dictionary, or the whole; NULL: failed. */
static const dlr_torch_value *find_state(const dlr_st_file *f, const dlr_torch_value *root,
                                         dl_error *err) {
    for (const dlr_torch_value *v = root, *below;; v = below) {
        if (!find_below(f, v, &below, err)) return NULL;
        if (!below) return v;
    }
}

static bool refuse_entry(const dlr_st_file *f, const dlr_torch_value *key, dl_error *err) {
    char number[32] = "";
    if (key->kind == DLR_TORCH_INT)
        snprintf(number, sizeof number, "%lld", (long long)key->integer);
    return dl_fail(err, DL_INPUT,
                   "%s: '%.200s' is %s, where the model's state has a tensor. It is looked for "
                   "under 'model_state', "
                   "'model_state_dict', 'state_dict' and 'model', and else is the whole file",
                   f->path, key->kind == DLR_TORCH_INT ? number : key->text,
                   dlr_torch_kind_name(key[1].kind));
}

bool dlr_torch_describe(dlr_st_file *f, dl_error *err) {
    struct dlr_st_private *p = f->private;
    if (p->map[0] == before_zip[0]) return refuse_old(f, err);
    if (!read_root(f, err)) return false;
    const dlr_torch_value *state = find_state(f, p->root, err);
    if (!state) return false;
    if (state->kind != DLR_TORCH_DICT)
        return dl_fail(err, DL_INPUT, "%s holds %s, where a dictionary of tensors is wanted",
                       f->path, dlr_torch_kind_name(state->kind));
    p->tensors = DL_NEWS(p->arena, dlr_st_tensor, state->items->n / 2);
    for (int i = 0; i < state->items->n; i += 2) {
        const dlr_torch_value *key = &state->items->at[i];
        if (key->kind != DLR_TORCH_TEXT || key[1].kind != DLR_TORCH_TENSOR)
            return refuse_entry(f, key, err);
        p->tensors[f->n] = *key[1].tensor;
        p->tensors[f->n++].name = key->text;
    }
    return true;
}

/* The C side of check_torch.py.
 *
 *   torch_exchange copy IN OUT       all that a file of PyTorch's says, read and written again
 *   torch_exchange convert IN OUT    the model's state of IN, without prefixes, in the format of
 * OUT's name */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/formats/torch_file.h"

static dl_arena *arena;

typedef struct {
    const dlr_st_file *from;
    DL_ARRAY(dlr_st_tensor) tensors; /* with their data, which is row-major now */
    int at;                          /* of `tensors`: those that have been put into the new tree */
    dl_error *err;
} copying;

static bool load(copying *c, const dlr_st_tensor *t) {
    dlr_st_tensor own = *t;
    void *data = dl_alloc(arena, t->bytes + 1);
    own.data = data, own.view = NULL;
    dl_push(arena, &c->tensors, own);
    return dlr_st_load(c->from, t, data, c->err);
}

static bool load_all(copying *c, const dlr_torch_value *v) {
    if (v->kind == DLR_TORCH_TENSOR) return load(c, v->tensor);
    bool nested =
        v->kind == DLR_TORCH_TUPLE || v->kind == DLR_TORCH_LIST || v->kind == DLR_TORCH_DICT;
    for (int i = 0; nested && i < v->items->n; i++)
        if (!load_all(c, &v->items->at[i])) return false;
    return true;
}

/* The same tree with the loaded tensors, in the same order. */
static dlr_torch_value copy(copying *c, const dlr_torch_value *v) {
    dlr_torch_value to = *v;
    bool nested =
        v->kind == DLR_TORCH_TUPLE || v->kind == DLR_TORCH_LIST || v->kind == DLR_TORCH_DICT;
    if (v->kind == DLR_TORCH_TENSOR) to.tensor = &c->tensors.at[c->at++];
    if (!nested) return to;
    dlr_torch_items *items = DL_NEW(arena, dlr_torch_items);
    dlr_torch_value *at = DL_NEWS(arena, dlr_torch_value, v->items->n + 1);
    for (int i = 0; i < v->items->n; i++) at[i] = copy(c, &v->items->at[i]);
    *items = (dlr_torch_items){at, v->items->n, v->items->ordered};
    to.items = items;
    return to;
}

static bool copy_file(const dlr_st_file *f, const char *to, dl_error *err) {
    copying c = {.from = f, .err = err};
    if (!load_all(&c, dlr_torch_root(f))) return false;
    dlr_torch_value root = copy(&c, dlr_torch_root(f));
    dlr_st_content content = {.tensors = c.tensors.at, .n = c.tensors.n};
    return dlr_torch_write(to, &root, &content, NULL, err);
}

static bool convert_file(const dlr_st_file *f, const char *to, dl_error *err) {
    copying c = {.from = f, .err = err};
    for (int i = 0; i < f->n; i++)
        if (!load(&c, &f->tensors[i])) return false;
    dlr_st_content content = {.tensors = c.tensors.at, .n = c.tensors.n};
    return dlr_st_write(to, &content, NULL, err);
}

int main(int argc, char **argv) {
    dl_error err = {0};
    if (argc != 4) return DL_USAGE;
    arena = dl_arena_new(NULL);
    bool whole = strcmp(argv[1], "copy") == 0;
    dlr_st_file *f = dlr_st_open(argv[2], whole ? DLR_ST_PLAIN : DLR_ST_STRIP, &err);
    if (!f || !(whole ? copy_file : convert_file)(f, argv[3], &err))
        fprintf(stderr, "%s\n", err.message);
    dlr_st_close(f);
    dl_arena_free(arena);
    return err.code;
}

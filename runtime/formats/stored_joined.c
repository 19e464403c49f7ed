/* Opens several files of tensors as one. */
#include <stdlib.h>

#include "runtime/formats/json.h"
#include "runtime/formats/stored_internal.h"

typedef DL_ARRAY(dlr_st_box) box_list;

/* The offsets of the file's tensors in their wholes; NULL: the file has none. */
static bool read_offsets(dl_arena *arena, const dlr_st_file *f, const dlr_json **offsets,
                         dl_error *err) {
    const char *text = dlr_st_metadata(f, DLR_ST_BOXES);
    *offsets = NULL;
    if (!text) return true;
    const char *name = dl_format(arena, "%s: " DLR_ST_BOXES, f->path);
    *offsets = dlr_json_parse(arena, text, strlen(text), (dlr_json_limits){8, 16 << 20}, name, err);
    return *offsets != NULL;
}

static bool place_box(const dlr_json *offsets, const char *stored_name, dlr_st_box *box,
                      dl_error *err) {
    const dlr_st_tensor *t = box->tensor;
    const dlr_json *list = dlr_json_get(dlr_json_get(offsets, stored_name), DLR_ST_OFFSETS);
    if (!offsets) return true;
    bool ok = list && list->kind == DLR_JSON_ARRAY && list->n == t->rank;
    for (int i = 0; ok && i < t->rank; i++) {
        const dlr_json *at = &list->items[i];
        ok = at->kind == DLR_JSON_INT && at->integer >= 0 && at->integer <= INT64_MAX - t->shape[i];
        box->at[i] = ok ? at->integer : 0;
    }
    return ok || dl_fail(err, DL_INPUT, "%s: tensor '%.200s' has no such " DLR_ST_OFFSETS,
                         box->file->path, stored_name);
}

static bool collect(dl_arena *arena, const dlr_st_file *f, box_list *list, dl_error *err) {
    const dlr_json *offsets;
    if (!read_offsets(arena, f, &offsets, err)) return false;
    for (int i = 0; i < f->n; i++) {
        dlr_st_box box = {.file = f, .tensor = &f->tensors[i]};
        if (!place_box(offsets, box.tensor->name, &box, err)) return false;
        dl_push(arena, list, box);
    }
    return true;
}

/* By name; boxes of one name by their offsets. */
static int by_name(const void *a, const void *b) {
    const dlr_st_box *x = a, *y = b;
    int c = strcmp(x->tensor->name, y->tensor->name);
    for (int i = 0; c == 0 && i < DLR_ST_MAX_RANK; i++)
        c = (x->at[i] > y->at[i]) - (x->at[i] < y->at[i]);
    return c;
}

static bool overlaps(const dlr_st_box *a, const dlr_st_box *b) {
    for (int i = 0; i < a->tensor->rank; i++)
        if (a->at[i] + a->tensor->shape[i] <= b->at[i] ||
            b->at[i] + b->tensor->shape[i] <= a->at[i])
            return false;
    return true;
}

/* Joins n boxes to a whole: they must have one type and cover each element once. */
static bool make_whole(dl_arena *arena, const dlr_st_file *f, const dlr_st_box *boxes, int n,
                       dlr_st_tensor *t, dl_error *err) {
    const dlr_st_tensor *first = boxes[0].tensor;
    dlr_st_joined *j = DL_NEW(arena, dlr_st_joined);
    uint64_t covered = 0;
    *t = *first;
    *j = (dlr_st_joined){.boxes = boxes, .n = n};
    for (int k = 0; k < n; k++) {
        const dlr_st_tensor *b = boxes[k].tensor;
        if (b->dtype != first->dtype || b->rank != first->rank)
            return dl_fail(err, DL_INPUT,
                           "%s: tensor '%.200s' is of one type in %s and of another in %s", f->path,
                           first->name, boxes[0].file->path, boxes[k].file->path);
        for (int i = 0; i < b->rank; i++)
            if (boxes[k].at[i] + b->shape[i] > t->shape[i] || k == 0)
                t->shape[i] = boxes[k].at[i] + b->shape[i];
        for (int i = 0; i < k && b->bytes > 0; i++)
            if (boxes[i].tensor->bytes > 0 && overlaps(&boxes[i], &boxes[k]))
                return dl_fail(err, DL_INPUT, "%s: tensor '%.200s' is twice there, in %s and in %s",
                               f->path, first->name, boxes[i].file->path, boxes[k].file->path);
        covered += b->bytes;
    }
    if (!dlr_st_size(t, &t->bytes) || t->bytes != covered)
        return dl_fail(err, DL_INPUT, "%s: tensor '%.200s' is not whole", f->path, first->name);
    memcpy(j->shape, t->shape, sizeof t->shape);
    t->data = NULL, t->view = NULL, t->first = 0, t->joined = j;
    return true;
}

static bool join_all(dlr_st_file *f, dlr_st_flags flags, dl_error *err) {
    struct dlr_st_private *p = f->private;
    box_list boxes = {0};
    for (int i = 0; i < p->n_files; i++)
        if (!collect(p->arena, p->files[i], &boxes, err)) return false;
    if (boxes.n > 1) qsort(boxes.at, (size_t)boxes.n, sizeof *boxes.at, by_name);
    p->tensors = DL_NEWS(p->arena, dlr_st_tensor, boxes.n);
    for (int from = 0, to; from < boxes.n; from = to) {
        for (to = from + 1; to < boxes.n; to++)
            if (strcmp(boxes.at[to].tensor->name, boxes.at[from].tensor->name) != 0) break;
        if (!make_whole(p->arena, f, boxes.at + from, to - from, &p->tensors[f->n++], err))
            return false;
    }
    return dlr_st_index_names(f, flags, err);
}

dlr_st_file *dlr_st_open_joined(const char *const *paths, int n, const char *name,
                                dlr_st_flags flags, dl_error *err) {
    dl_arena *arena = dl_arena_new(NULL);
    dlr_st_file *f = DL_NEW(arena, dlr_st_file);
    f->path = dl_strdup(arena, name);
    f->private = DL_NEW(arena, struct dlr_st_private);
    *f->private = (struct dlr_st_private){
        .arena = arena, .fd = -1, .files = DL_NEWS(arena, dlr_st_file *, n)};
    /* names as in the files, for looking up their metadata */
    for (int i = 0; i < n; i++, f->private->n_files++)
        if (!(f->private->files[i] = dlr_st_open(paths[i], flags & ~DLR_ST_STRIP, err))) break;
    if (f->private->n_files == n && join_all(f, flags, err)) return f;
    dlr_st_close(f);
    return NULL;
}

#include "exports/onnx/axes.h"

void dl_onnx_push(dl_onnx_value *v, const char *name, int64_t size, int64_t per) {
    v->per[v->type.rank] = per;
    v->type.axis[v->type.rank++] = (dl_axis){name, size};
}

void dl_onnx_push_axis(dl_onnx_value *v, const dl_onnx_value *of, int axis) {
    dl_onnx_push(v, of->type.axis[axis].name, of->type.axis[axis].size, of->per[axis]);
}

/* A value without axes of v's element type. */
static dl_onnx_value bare(const dl_onnx_value *v) {
    return (dl_onnx_value){.type = dl_scalar(v->type.dtype)};
}

dl_onnx_value dl_onnx_permute(dl_onnx *o, dl_onnx_value v, const int *order) {
    dl_onnx_value to = bare(&v);
    int64_t perm[DL_MAX_RANK];
    bool moves = false;
    for (int i = 0; i < v.type.rank; i++) {
        perm[i] = order[i];
        moves |= order[i] != i;
        dl_onnx_push_axis(&to, &v, order[i]);
    }
    if (!moves) return v;
    dl_buf attributes = {0};
    dl_onnx_put_ints(&attributes, "perm", v.type.rank, perm);
    return dl_onnx_named(to, dl_onnx_add(o, "Transpose", 1, &v.name, &attributes));
}

static const char *positions(dl_onnx *o, unsigned axes) {
    int64_t at[2 * DL_MAX_RANK];
    int n = 0;
    for (int i = 0; i < 2 * DL_MAX_RANK; i++)
        if (axes >> i & 1) at[n++] = i;
    return dl_onnx_ints(o, n, at);
}

dl_onnx_value dl_onnx_squeeze(dl_onnx *o, dl_onnx_value v, unsigned axes) {
    dl_onnx_value to = bare(&v);
    if (!axes) return v;
    for (int i = 0; i < v.type.rank; i++)
        if (!(axes >> i & 1)) dl_onnx_push_axis(&to, &v, i);
    return dl_onnx_named(to, dl_onnx_add2(o, "Squeeze", v.name, positions(o, axes)));
}

dl_onnx_value dl_onnx_unsqueeze(dl_onnx *o, dl_onnx_value v, unsigned axes) {
    dl_onnx_value to = bare(&v);
    if (!axes) return v;
    for (int i = 0, k = 0; k < v.type.rank || axes >> i; i++) {
        if (axes >> i & 1)
            dl_onnx_push(&to, "", 1, 0);
        else
            dl_onnx_push_axis(&to, &v, k++);
    }
    return dl_onnx_named(to, dl_onnx_add2(o, "Unsqueeze", v.name, positions(o, axes)));
}

/* The named axes of v in `like`'s order; *missing: bits of like's axes that v lacks. */
static dl_onnx_value ordered(dl_onnx *o, dl_onnx_value v, const dl_onnx_value *like,
                             unsigned *missing) {
    unsigned unnamed = 0;
    int order[DL_MAX_RANK], n = 0;
    for (int i = 0; i < v.type.rank; i++) unnamed |= (unsigned)!*v.type.axis[i].name << i;
    v = dl_onnx_squeeze(o, v, unnamed);
    *missing = 0;
    for (int i = 0; i < like->type.rank; i++) {
        const char *name = like->type.axis[i].name;
        int at = *name ? dl_type_axis(&v.type, name) : -1;
        if (at < 0)
            *missing |= 1u << i;
        else
            order[n++] = at;
    }
    return dl_onnx_permute(o, v, order);
}

dl_onnx_value dl_onnx_align(dl_onnx *o, dl_onnx_value v, const dl_onnx_value *like) {
    unsigned missing, first = 0;
    v = ordered(o, v, like, &missing);
    while (first < (unsigned)like->type.rank && missing >> first & 1) first++;
    /* ONNX adds leading axes by itself. */
    return dl_onnx_unsqueeze(o, v, missing >> first);
}

/* A shape as i64[n]. A size with `per` is a multiple of N. */
static const char *shape_of(dl_onnx *o, int n, const int64_t *size, const int64_t *per) {
    const char *part[DL_MAX_RANK];
    bool follows = false;
    for (int i = 0; i < n; i++) follows |= per[i] != 0;
    if (!follows) return dl_onnx_ints(o, n, size);
    for (int i = 0; i < n; i++)
        part[i] = per[i] ? dl_onnx_batches(o, per[i]) : dl_onnx_int(o, size[i]);
    dl_buf attributes = {0};
    dl_onnx_put_int(&attributes, "axis", 0);
    return dl_onnx_add(o, "Concat", n, part, &attributes);
}

dl_onnx_value dl_onnx_expand(dl_onnx *o, dl_onnx_value v, const dl_onnx_value *like) {
    unsigned missing;
    bool grows = false;
    int64_t size[DL_MAX_RANK], per[DL_MAX_RANK];
    v = ordered(o, v, like, &missing);
    for (int i = 0; i < like->type.rank; i++) {
        bool lacks = missing >> i & 1;
        size[i] = lacks ? like->type.axis[i].size : 1;
        per[i] = lacks ? like->per[i] : 0;
        grows |= size[i] != 1 || per[i];
    }
    dl_onnx_value to = *like;
    to.type.dtype = v.type.dtype;
    v = dl_onnx_unsqueeze(o, v, missing);
    if (!grows) return dl_onnx_named(to, v.name);
    return dl_onnx_named(
        to, dl_onnx_add2(o, "Expand", v.name, shape_of(o, like->type.rank, size, per)));
}

dl_onnx_value dl_onnx_reshape(dl_onnx *o, dl_onnx_value v, const dl_onnx_value *like) {
    int64_t size[DL_MAX_RANK], per[DL_MAX_RANK];
    int follow = 0;
    bool empty = false;
    for (int i = 0; i < like->type.rank; i++) {
        size[i] = like->type.axis[i].size, per[i] = like->per[i];
        follow += per[i] != 0, empty |= size[i] == 0;
    }
    if (follow == 1 && !empty) /* the one size that follows from the others */
        for (int i = 0; i < like->type.rank; i++)
            if (per[i]) size[i] = -1, per[i] = 0;
    dl_buf attributes = {0};
    if (empty) dl_onnx_put_int(&attributes, "allowzero", 1);
    const char *in[] = {v.name, shape_of(o, like->type.rank, size, per)};
    dl_onnx_value to = *like;
    to.type.dtype = v.type.dtype;
    return dl_onnx_named(to, dl_onnx_add(o, "Reshape", 2, in, &attributes));
}

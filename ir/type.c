#include "ir/type.h"

#include <stdio.h>

static const struct {
    const char *name;
    int bytes;
} dtypes[] = {
#define X(id, text, bytes) {text, bytes},
    DL_DTYPES(X)
#undef X
};

const char *dl_dtype_name(dl_dtype d) { return dtypes[d].name; }
int dl_dtype_bytes(dl_dtype d) { return dtypes[d].bytes; }

bool dl_dtype_parse(const char *name, dl_dtype *out) {
    for (int d = 0; d < DL_NDTYPES; d++)
        if (strcmp(dtypes[d].name, name) == 0) return *out = (dl_dtype)d, true;
    return false;
}

dl_type dl_scalar(dl_dtype d) { return (dl_type){.dtype = d}; }

void dl_type_push(dl_type *t, const char *name, int64_t size) {
    DL_CHECK(t->rank < DL_MAX_RANK);
    t->axis[t->rank++] = (dl_axis){dl_intern(name), size};
}

int dl_type_axis(const dl_type *t, const char *name) {
    for (int i = 0; i < t->rank; i++)
        if (t->axis[i].name == name) return i;
    return -1;
}

bool dl_type_has_samples(const dl_type *t) {
    return t->rank > 0 && strcmp(t->axis[0].name, "N") == 0;
}

dl_type dl_type_of_samples(const dl_type *t) {
    dl_type out = dl_scalar(t->dtype);
    if (!dl_type_has_samples(t)) dl_type_push(&out, "N", 1);
    for (int k = 0; k < t->rank; k++) dl_type_push(&out, t->axis[k].name, t->axis[k].size);
    return out;
}

int dl_type_channel_axis(const dl_type *t) {
    int first = dl_type_has_samples(t);
    for (int k = first; k < t->rank; k++)
        if (strcmp(t->axis[k].name, "C") == 0) return k;
    return t->rank > first ? first : -1;
}

const char *dl_type_fresh(const dl_type *t, const char *name) {
    do name = dl_internf("%s_", name);
    while (dl_type_axis(t, name) >= 0);
    return name;
}

/* A pass' result (builder.c) may exceed the limit of elements: the count saturates. */
int64_t dl_type_count(const dl_type *t) {
    const int64_t limit = (int64_t)1 << 55;
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) {
        int64_t size = t->axis[i].size;
        n = size > 0 && n > limit / size ? limit : n * size;
    }
    return n;
}

static int64_t blocks(const dl_type *t) {
    return (t->axis[0].size + t->layout.width - 1) / t->layout.width;
}

int64_t dl_type_stored(const dl_type *t) {
    if (t->layout.kind != DL_PANEL) return dl_type_count(t);
    int64_t n = blocks(t) * t->layout.width;
    for (int i = 1; i < t->rank; i++) n *= t->axis[i].size;
    return n;
}

int64_t dl_type_bytes(const dl_type *t) { return dl_type_stored(t) * dl_dtype_bytes(t->dtype); }

bool dl_layout_same(dl_layout a, dl_layout b) {
    return a.kind == b.kind && (a.kind != DL_PANEL || a.width == b.width) && a.steps == b.steps;
}

bool dl_type_same(const dl_type *a, const dl_type *b) {
    if (a->dtype != b->dtype || a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->axis[i].name != b->axis[i].name || a->axis[i].size != b->axis[i].size) return false;
    return true;
}

void dl_type_strides(const dl_type *t, int64_t stride[DL_MAX_RANK]) {
    DL_CHECK(t->layout.kind != DL_PANEL);
    int64_t s = 1;
    const int channels = dl_layout_channels(t->layout);
    const bool cl = t->layout.kind == DL_CL && t->rank > channels;
    if (cl) stride[channels] = 1, s = t->axis[channels].size;
    for (int i = t->rank - 1; i >= 0; i--) {
        if (cl && i == channels) continue;
        stride[i] = s;
        s *= t->axis[i].size;
    }
}

dl_around dl_type_around(const dl_type *t, int axis) {
    dl_around a = {1, t->axis[axis].size, 1};
    for (int i = 0; i < axis; i++) a.outer *= t->axis[i].size;
    for (int i = axis + 1; i < t->rank; i++) a.inner *= t->axis[i].size;
    return a;
}

int64_t dl_type_offset(const dl_type *t, const int64_t at[DL_MAX_RANK]) {
    if (t->layout.kind == DL_PANEL) {
        int64_t taps = 1, tap = 0, width = t->layout.width, channels = t->axis[1].size;
        for (int i = 2; i < t->rank; i++)
            taps *= t->axis[i].size, tap = tap * t->axis[i].size + at[i];
        return ((at[0] / width * taps + tap) * channels + at[1]) * width + at[0] % width;
    }
    int64_t stride[DL_MAX_RANK], offset = 0;
    dl_type_strides(t, stride);
    for (int i = 0; i < t->rank; i++) offset += at[i] * stride[i];
    return offset;
}

dl_around dl_type_laid_around(const dl_type *t, int axis) {
    int64_t lanes = dl_layout_lanes(t->layout);
    const int channels = dl_layout_channels(t->layout);
    bool channels_last =
        t->layout.kind != DL_ROW && t->rank > channels; /* they come after the others */
    dl_around a = {1, t->axis[axis].size, axis ? lanes : 1};
    for (int i = 0; i < t->rank; i++) {
        bool before = channels_last && i == channels      ? false
                      : channels_last && axis == channels ? true
                                                          : i < axis;
        if (i != axis)
            *(before ? &a.outer : &a.inner) *=
                i ? t->axis[i].size : (t->axis[0].size + lanes - 1) / lanes;
    }
    return a;
}

bool dl_type_shares(const dl_type *t, int axis, int64_t ranks) {
    int64_t lanes = dl_layout_lanes(t->layout);
    return axis > 0 || lanes == 1 || t->axis[0].size % (ranks * lanes) == 0;
}

void dl_type_print(dl_buf *out, const dl_type *t) {
    dl_putf(out, "%s[", dl_dtype_name(t->dtype));
    for (int i = 0; i < t->rank; i++) {
        dl_puts(out, i ? ", " : "");
        if (*t->axis[i].name) dl_putf(out, "%s=", t->axis[i].name);
        dl_putf(out, "%lld", (long long)t->axis[i].size);
    }
    dl_puts(out, "]");
    if (t->layout.kind == DL_CL) dl_puts(out, " @cl");
    if (t->layout.steps) dl_putf(out, "%d", t->layout.steps);
    if (t->layout.kind == DL_PANEL) dl_putf(out, " @panel%d", t->layout.width);
}

const char *dl_type_text(const dl_type *t) {
    static _Thread_local char ring[4][320];
    static _Thread_local unsigned turn;
    dl_buf b = {0};
    dl_type_print(&b, t);
    char *s = ring[turn++ % 4];
    snprintf(s, sizeof ring[0], "%s", b.at);
    dl_buf_free(&b);
    return s;
}

/* The loader of data of one's own: draws where a sample lies and how it is turned, and puts its blocks
 * together. */
#include "runtime/data/own.h"

#include <stdlib.h>

#include "runtime/data/own_private.h"
#include "runtime/data/shuffle.h"
#include "runtime/rng.h"

enum { MAX_AXES = DLR_MAX_ARRAYS * DL_MAX_RANK };

/* ---- opening ---- */

bool own_open_part(own *w, const dlr_dataset *d, const dlr_own_options *o, dlr_split part, dl_error *err) {
    *w = (own){.arena = dl_arena_new(NULL), .o = o, .n = d->arrays.n, .mapped = d->mapped};
    for (int k = 0; k < w->n; k++) w->at[k].to = d->arrays.at[k], w->at[k].from = o->source[k];
    if (!own_open_files(w, part, err)) return false;
    for (int k = 0; k < w->n; k++)
        if (!own_match_axes(&w->at[k], err)) return false;
    return own_share_axes(w, err) && own_count_samples(w, part, err);
}

void own_close(own *w) {
    for (int k = 0; k < w->n; k++)
        for (int i = 0; i < w->at[k].files.n; i++) dlr_source_close(w->at[k].files.at[i].source);
    dl_arena_free(w->arena);
}

static bool check_types(const own *w, dl_error *err) {
    for (int k = 0; k < w->n; k++) {
        const own_array *a = &w->at[k];
        bool is_float = a->to.type.dtype == DL_F32;
        if (!is_float && a->from.scale != DLR_SCALE_NONE)
            return own_fail(a, NULL, err, "the model's '%s' is %s, whole numbers: they are not normalised",
                            a->to.name, dl_type_text(&a->to.type));
        const dlr_packing *p = &a->files.at[0].packing;
        if (!is_float && (p->scale != 1 || p->offset != 0))
            return own_fail(
                a, NULL, err,
                "its attributes scale_factor and add_offset make fractions of it, and the model's '%s' is %s",
                a->to.name, dl_type_text(&a->to.type));
        if (!is_float && a->from.replaces_nan)
            return own_fail(a, NULL, err, "the model's '%s' is %s, whole numbers: nan is for floats",
                            a->to.name, dl_type_text(&a->to.type));
    }
    return true;
}

/* How many samples an epoch has. More than there are mean that each is cropped several times. */
static bool settle_samples(dlr_dataset *d, const own *w, const dlr_own_options *o, dl_error *err) {
    const char *key = d->split == DLR_TRAIN ? "Nsamples" : "Nsamples_val";
    bool draws = false, all_static = true;
    for (int i = 0; i < w->axes.n; i++) draws |= w->axes.at[i].crop == DLR_CROP_RANDOM;
    for (int k = 0; k < w->n; k++) all_static &= w->at[k].is_static;
    if (draws && all_static && !o->samples)
        return dl_fail(err, DL_USAGE,
                       "%s is not set: how many random crops an epoch has (the files have no axis N)", key);
    if (!draws && o->samples > w->available)
        return dl_fail(err, DL_INPUT,
                       "%s is %lld, and the files hold %lld samples (only random crops can be drawn again)",
                       key, (long long)o->samples, (long long)w->available);
    d->samples = o->samples ? o->samples : w->available;
    if (o->limit && o->limit < d->samples) d->samples = o->limit;
    return d->samples <= UINT32_MAX ||
           dl_fail(err, DL_INPUT, "%lld samples are more than can be numbered", (long long)d->samples);
}

/* What is used behind `open`, when the options are gone. */
static void keep_source(own *w, own_array *a) {
    dlr_own_source *s = &a->from;
    int64_t *channels = s->channels ? DL_NEWS(w->arena, int64_t, s->n_channels) : NULL;
    if (channels) memcpy(channels, s->channels, (size_t)s->n_channels * sizeof *channels);
    s->key = dl_strdup(w->arena, s->key);
    s->array = s->array ? dl_strdup(w->arena, s->array) : NULL;
    s->channels = channels;
    s->files = s->axes = (dlr_own_names){0};
    s->mean = s->std = (dlr_own_numbers){0};
}

static bool open_own(dlr_dataset *d, const void *options, dl_error *err) {
    const dlr_own_options *o = options;
    own *w = d->state = calloc(1, sizeof *w);
    if (!w) return dl_fail(err, DL_RESOURCE, "no memory for a data set");
    if (!own_open_part(w, d, o, d->split, err) || !check_types(w, err) || !settle_samples(d, w, o, err))
        return false;
    for (int k = 0; k < w->n; k++) {
        own_array *a = &w->at[k];
        if (!own_open_scale(w, k, d, o, err)) return false;
        if (d->probe && a->from.scale != DLR_SCALE_NONE && a->from.scale != DLR_SCALE_GIVEN)
            d->left_out = true;
        size_t bytes = dlr_array_bytes(&a->to);
        if (bytes > d->scratch) d->scratch = bytes;
        for (int i = 0; i < a->files.n; i++) d->held += dlr_source_held(a->files.at[i].source);
        keep_source(w, a);
    }
    w->o = NULL;
    return true;
}

/* ---- what is drawn for a sample ---- */

typedef struct {
    int64_t corner[MAX_AXES]; /* of each axis that arrays share */
    bool flip[MAX_AXES];
    own_turn turn;
} drawn;

static void draw(const own *w, dlr_split part, dlr_rng *rng, drawn *out) {
    for (int i = 0; i < w->axes.n; i++) {
        const own_axis *x = &w->axes.at[i];
        int64_t room = x->high - x->low - ((x->size - 1) * x->step + 1);
        out->flip[i] = false;
        out->corner[i] = x->low;
        if (x->shifts && part == DLR_TRAIN)
            out->corner[i] = dlr_rng_below(rng, (uint32_t)x->extent);
        else if (x->crop == DLR_CROP_RANDOM)
            out->corner[i] += dlr_rng_below(rng, (uint32_t)room + 1);
        else if (x->crop == DLR_CROP_CENTER)
            out->corner[i] += room / 2;
        if (x->flips && part == DLR_TRAIN) out->flip[i] = dlr_rng_below(rng, 2);
    }
    out->turn = (own_turn){{0, 1, 2}, {0}};
    if (w->turns.n && part == DLR_TRAIN) out->turn = w->turns.at[dlr_rng_below(rng, (uint32_t)w->turns.n)];
}

/* ---- where elements go ---- */

/* In `out`, from one element to the next along each axis of the model's: element [0, ...] of the files' block
 * at `base`. Moves are taken in: first the turn, then the flips of what it shows. */
typedef struct {
    ptrdiff_t base, step[DL_MAX_RANK];
} placement;

static int turned_place(const own *w, int shared) {
    for (int i = 0; i < w->n_turned; i++)
        if (w->turned[i] == shared) return i;
    return -1;
}

static int axis_of_shared(const own_array *a, int shared) {
    for (int m = 0; m < a->to.type.rank; m++)
        if (a->shared[m] == shared) return m;
    return -1;
}

static placement place(const own *w, const own_array *a, const drawn *how) {
    placement p = {0};
    int64_t stride[DL_MAX_RANK];
    dl_type_strides(&a->to.type, stride);
    for (int m = 0; m < a->to.type.rank; m++) {
        int shown = m, turned = a->shared[m] < 0 ? -1 : turned_place(w, a->shared[m]);
        bool back = false;
        for (int i = 0; turned >= 0 && i < w->n_turned; i++)
            if (how->turn.source[i] == turned)
                shown = axis_of_shared(a, w->turned[i]), back = how->turn.flip[i];
        if (a->shared[shown] >= 0 && how->flip[a->shared[shown]]) back = !back;
        p.step[m] = back ? -stride[shown] : stride[shown];
        if (back) p.base += (a->to.type.axis[shown].size - 1) * stride[shown];
    }
    return p;
}

/* Whether a packed block of these counts lies in `out` as it is. */
static bool is_packed(int rank, const int64_t *count, const ptrdiff_t *step) {
    ptrdiff_t next = 1;
    for (int j = rank - 1; j >= 0; j--) {
        if (count[j] != 1 && step[j] != next) return false;
        next *= count[j];
    }
    return true;
}

#define SCATTER(T)                                                                                           \
    for (int64_t i = 0; i < n; i++) ((T *)to)[i * step] = ((const T *)from)[i]
static void scatter_row(size_t bytes, int64_t n, const void *from, void *to, ptrdiff_t step) {
    if (bytes == 4)
        SCATTER(uint32_t);
    else if (bytes == 8)
        SCATTER(uint64_t);
    else
        SCATTER(uint8_t);
}

/* Moves a packed block to its places, rows along the last axis. */
static void scatter(int rank, const int64_t *count, size_t bytes, const char *from, char *to,
                    const ptrdiff_t *step) {
    if (rank == 0) {
        memcpy(to, from, bytes);
        return;
    }
    int64_t row = count[rank - 1], rows = 1, index[DL_MAX_RANK] = {0};
    for (int j = 0; j < rank - 1; j++) rows *= count[j];
    for (int64_t r = 0; r < rows; r++) {
        scatter_row(bytes, row, from, to, step[rank - 1]);
        from += (size_t)row * bytes;
        for (int j = rank - 2; j >= 0; j--) {
            to += step[j] * (ptrdiff_t)bytes;
            if (++index[j] < count[j]) break;
            to -= step[j] * (ptrdiff_t)bytes * (ptrdiff_t)count[j];
            index[j] = 0;
        }
    }
}

/* ---- a sample of one array ---- */

/* Part of an axis: elements at `place` .. of the sample come from `start`, start + stride, ... */
typedef struct {
    int64_t start, count, stride, place;
} piece;
typedef struct {
    int n;
    piece at[2];
} pieces;

/* Where an axis is moved round, it is read in two parts. */
static void cut_axis(const own_axis *x, int64_t corner, pieces *out) {
    int64_t first = (x->extent - corner + x->step - 1) / x->step;
    if (first > x->size) first = x->size;
    out->at[0] = (piece){corner, first, x->step, 0};
    out->at[1] = (piece){0, x->size - first, x->step, first};
    out->n = 1 + (first < x->size);
}

/* Channels in runs of neighbours. */
static bool next_channels(const own_array *a, int64_t size, int64_t *at, piece *out) {
    if (*at == size) return false;
    const int64_t *c = a->from.channels;
    *out = (piece){c ? c[*at] : 0, 1, 1, *at};
    if (!c) out->count = size;
    while (c && *at + out->count < size && c[*at + out->count] == out->start + out->count) out->count++;
    *at += out->count;
    return true;
}

typedef struct {
    const own *w;
    const own_array *a;
    const own_file *file;
    int64_t local; /* index of N in the file */
    const drawn *how;
    placement p;
    void *out, *scratch;
} target;

static bool read_block(const target *t, const dlr_block *b, ptrdiff_t base, int64_t channel, dl_error *err) {
    const own_array *a = t->a;
    size_t bytes = (size_t)dl_dtype_bytes(a->to.type.dtype);
    ptrdiff_t step[DL_MAX_RANK];
    for (int j = 0; j < a->rank; j++) step[j] = a->axis[j] < 0 ? 0 : t->p.step[a->axis[j]];
    char *to = (char *)t->out + base * (ptrdiff_t)bytes;
    if (is_packed(a->rank, b->count, step)) return own_read(a, t->file, b, channel, to, err);
    if (!own_read(a, t->file, b, channel, t->scratch, err)) return false;
    scatter(a->rank, b->count, bytes, t->scratch, to, step);
    return true;
}

/* Reads the pieces of axis j and behind it, for what `b` says of the axes before it. */
static bool read_axes(const target *t, int j, dlr_block *b, ptrdiff_t base, int64_t channel, dl_error *err) {
    const own_array *a = t->a;
    if (j == a->rank) return read_block(t, b, base, channel, err);
    int m = a->axis[j];
    b->stride[j] = 1;
    if (m < 0) {
        b->start[j] = m == OWN_SAMPLES ? t->local : 0, b->count[j] = 1;
        return read_axes(t, j + 1, b, base, channel, err);
    }
    if (j == a->channel) {
        piece c;
        for (int64_t at = 0; next_channels(a, a->to.type.axis[m].size, &at, &c);) {
            b->start[j] = c.start, b->count[j] = c.count;
            if (!read_axes(t, j + 1, b, base + c.place * t->p.step[m], c.place, err)) return false;
        }
        return true;
    }
    pieces cut;
    cut_axis(&t->w->axes.at[a->shared[m]], t->how->corner[a->shared[m]], &cut);
    for (int i = 0; i < cut.n; i++) {
        const piece *c = &cut.at[i];
        b->start[j] = c->start, b->count[j] = c->count, b->stride[j] = c->stride;
        if (!read_axes(t, j + 1, b, base + c->place * t->p.step[m], channel, err)) return false;
    }
    return true;
}

static bool sample_own(const dlr_dataset *d, int64_t epoch, int64_t sample, void *const *out, void *scratch,
                       dl_error *err) {
    const own *w = d->state;
    bool train = d->split == DLR_TRAIN;
    if (train)
        sample =
            dlr_shuffle((dlr_rng_place){d->seed, DLR_STREAM_SHUFFLE, (uint32_t)epoch, 0}, d->samples, sample);
    dlr_rng rng = dlr_rng_at((dlr_rng_place){d->seed, train ? DLR_STREAM_TRAIN : DLR_STREAM_VALID,
                                             train ? (uint32_t)epoch : 0, (uint32_t)sample});
    drawn how;
    draw(w, d->split, &rng, &how);
    int64_t index = own_index(w, sample % w->available);
    for (int k = 0; k < w->n; k++) {
        const own_array *a = &w->at[k];
        int64_t i = a->is_static ? 0 : index + a->from.offset;
        const own_file *f = own_find_file(a, i);
        target t = {w, a, f, i - f->first, &how, place(w, a, &how), out[k], scratch};
        dlr_block b = {0};
        if (!read_axes(&t, 0, &b, t.p.base, 0, err)) return false;
    }
    return true;
}

dlr_own_facts dlr_own_facts_of(const dlr_dataset *d, int k) {
    const own_array *a = &((const own *)d->state)->at[k];
    return (dlr_own_facts){&a->from, a->mean, a->deviation, a->mean ? a->n_scales : 0};
}

static void close_own(dlr_dataset *d) {
    own *w = d->state;
    if (!w) return;
    own_close(w);
    free(w);
}

const dlr_loader dlr_own_loader = {.name = "own", .open = open_own, .sample = sample_own, .close = close_own};

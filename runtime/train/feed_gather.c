/* Batches in the form of their files, for a device that crops, rotates, scales and converts them
 * itself (ir/plan/feed.h). */
#include "ir/plan/feed.h"

#include "runtime/formats/log.h"
#include "runtime/train/feed.h"

/* The axes of a sample as the input has them in memory, slowest first; how many. */
static int axes_of(const dl_type *t, int axis[DL_MAX_RANK]) {
    int n = t->rank - 1;
    bool last = t->layout.kind == DL_CL && t->rank > 2;
    for (int i = 0; i < n; i++) axis[i] = last ? (i + 1) % n : i;
    return n;
}

static const dl_feed_type feed_types[DL_NDTYPES] = {
    [DL_F32] = DL_FEED_F32, [DL_F16] = DL_FEED_F16, [DL_BF16] = DL_FEED_BF16,
    [DL_F64] = DL_FEED_F64, [DL_I32] = DL_FEED_I32, [DL_I64] = DL_FEED_I64,
    [DL_BOOL] = DL_FEED_U8};
/* By a loader's element type. */
static const dl_feed_type numbers_types[DLR_NELEMENTS] = {
    [DLR_EL_F32] = DL_FEED_F32, [DLR_EL_I8] = DL_FEED_I8,   [DLR_EL_U8] = DL_FEED_U8,
    [DLR_EL_I16] = DL_FEED_I16, [DLR_EL_U16] = DL_FEED_U16, [DLR_EL_I32] = DL_FEED_I32,
    [DLR_EL_U32] = DL_FEED_U32, [DLR_EL_I64] = DL_FEED_I64, [DLR_EL_BOOL] = DL_FEED_U8};

/* Whether the kernel can make this input. */
static bool fits(const dl_type *t) {
    int64_t all = dl_type_count(t), samples = t->rank > 0 ? t->axis[0].size : 0;
    return all > 0 && t->rank <= DL_FEED_AXES + 1 && t->layout.kind != DL_PANEL &&
           all / samples < INT32_MAX;
}

bool dlr_feed_gathers(const dlr_feed *f, const dlr_dataset *d, dl_error *why) {
    dlr_raw raw[DLR_MAX_ARRAYS];
    if (!dlr_exec_gathers(f->exec))
        return dl_fail(why, DL_USAGE, "the device has no kernel for it");
    if (!dlr_dataset_raw(d, raw))
        return dl_fail(why, DL_USAGE, "the loader makes its samples itself");
    for (int i = 0; i < f->n; i++)
        if (!fits(f->view[i].type))
            return dl_fail(why, DL_USAGE, "the model's '%s' is %s", f->var[i]->name,
                           dl_type_text(f->view[i].type));
    return true;
}

static void pin(void *user, void *memory, size_t bytes) {
    dlr_feed *f = user;
    dl_error why = {0};
    f->pinned = dlr_exec_pin(f->exec, memory, (int64_t)bytes, &why);
    if (!f->pinned) dlr_log_warning("the host copies each batch once more: %s", why.message);
}

static void unpin(void *user, void *memory) {
    dlr_feed *f = user;
    if (f->pinned) dlr_exec_unpin(f->exec, memory);
    f->pinned = false;
}

static void back(void *user) {
    const dlr_feed *f = user;
    if (f->pinned) dlr_exec_wait_staged(f->exec);
}

void dlr_feed_raw_options(dlr_feed *f, dlr_prefetch_raw *raw) {
    *raw = (dlr_prefetch_raw){.user = f, .pin = pin, .unpin = unpin, .back = back};
    for (int i = 0; i < f->n; i++) raw->front[i] = (size_t)dl_feed_place(f->view[i].type).numbers;
}

typedef struct {
    char *to;
    const char *from;
    int64_t bytes;
} copy;
enum { PIECE = 1 << 20 };

static void copy_piece(void *context, int64_t item, int thread) {
    (void)thread;
    const copy *c = context;
    int64_t at = item * PIECE, left = c->bytes - at;
    memcpy(c->to + at, c->from + at, (size_t)(left < PIECE ? left : PIECE));
}

void dlr_feed_numbers(const dlr_feed *f, int array, const dlr_batch *batch) {
    const dl_type *t = f->view[array].type;
    const dlr_raw *raw = &batch->raw[array];
    const dlr_layout_map *how = batch->how[array];
    dl_feed_places at = dl_feed_place(t);
    int axis[DL_MAX_RANK], n = axes_of(t, axis), skipped = DL_FEED_AXES - n;
    int64_t samples = t->axis[0].size, each = dl_type_count(t) / samples,
            bytes = batch->held ? 0 : samples * each * (int64_t)dlr_element_bytes(raw->type);
    char *there = f->pinned ? (char *)batch->data[array] - at.numbers : NULL,
         *to = dlr_exec_input_gather(f->exec, f->view[array], at.numbers + bytes, there);
    dl_feed_table *table = (dl_feed_table *)to;
    *table =
        (dl_feed_table){.samples = samples,
                        .channel = -1,
                        .from = numbers_types[raw->type],
                        .to = feed_types[t->dtype],
                        .moves = at.moves,
                        .scales = at.scales,
                        .numbers = batch->held ? dlr_feed_held_at(f, batch) + raw->at : at.numbers,
                        .held = batch->held,
                        .replaces = raw->replaces,
                        .other = raw->other};
    for (int i = 0; i < DL_FEED_AXES; i++)
        table->size[i] = i < skipped ? 1 : t->axis[1 + axis[i - skipped]].size;
    bool many = raw->mean && raw->axis >= 0;
    for (int i = 0; many && i < n; i++)
        if (axis[i] == raw->axis) table->channel = i + skipped;
    dl_feed_move *moves = (dl_feed_move *)(to + at.moves);
    for (int64_t s = 0; s < samples; s++) {
        moves[s].base = batch->held ? how[s].base : s * each;
        for (int i = 0; i < DL_FEED_AXES; i++) {
            dlr_layout_axis a =
                i < skipped ? dlr_along(1, 0, false) : how[s].axis[axis[i - skipped]];
            moves[s].axis[i] = (dl_feed_axis){a.first, a.step, a.round, a.points, a.zoom, a.shift};
        }
    }
    dl_feed_scale *scales = (dl_feed_scale *)(to + at.scales);
    for (int64_t c = 0; c < (many ? t->axis[1 + raw->axis].size : 1); c++)
        scales[c] =
            raw->mean ? (dl_feed_scale){raw->mean[c], raw->deviation[c]} : (dl_feed_scale){0, 1};
    if (there) return;
    copy c = {to + at.numbers, batch->data[array], bytes};
    dlr_pool_run(dlr_exec_pool(f->exec), (c.bytes + PIECE - 1) / PIECE, copy_piece, &c);
}

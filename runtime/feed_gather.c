/* Batches as files have them, for a device that cuts, turns, scales and converts them itself (ir/feed.h). */
#include "ir/feed.h"

#include "runtime/feed.h"
#include "runtime/io/log.h"

/* The axes of a sample as the input has them in memory, slowest first; how many. */
static int axes_of(const dl_type *t, int axis[DL_MAX_RANK]) {
    int n = t->rank - 1;
    bool last = t->layout.kind == DL_CL && t->rank > 2;
    for (int i = 0; i < n; i++) axis[i] = last ? (i + 1) % n : i;
    return n;
}

static int feed_type(dl_dtype d) {
    switch (d) {
    case DL_F32: return DL_FEED_F32;
    case DL_F16: return DL_FEED_F16;
    case DL_BF16: return DL_FEED_BF16;
    case DL_F64: return DL_FEED_F64;
    default: return -1;
    }
}

/* Whether the kernel can make this input. */
static bool fits(const dl_type *t) {
    int64_t all = dl_type_count(t), samples = t->rank > 0 ? t->axis[0].size : 0;
    return feed_type(t->dtype) >= 0 && all > 0 && t->rank <= DL_FEED_AXES + 1 && t->layout.kind != DL_PANEL &&
           all / samples < INT32_MAX;
}

bool dlr_feed_gathers(const dlr_feed *f, const dlr_dataset *d, dl_error *why) {
    dlr_raw raw[DLR_MAX_ARRAYS];
    if (!dlr_exec_gathers(f->exec)) return dl_fail(why, DL_USAGE, "the device has no kernel for it");
    if (!dlr_dataset_raw(d, raw)) return dl_fail(why, DL_USAGE, "the loader makes its samples itself");
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
    if (f->pinned) dlr_exec_sent(f->exec);
}

void dlr_feed_lend(dlr_feed *f, dlr_prefetch_raw *raw) {
    *raw = (dlr_prefetch_raw){.user = f, .pin = pin, .unpin = unpin, .back = back};
    for (int i = 0; i < f->n; i++) raw->front[i] = (size_t)dl_feed_place(f->view[i].type).numbers;
}

typedef struct {
    char *to;
    const char *from;
    int64_t bytes;
} copy;
enum { PIECE = 1 << 20 };

static void copy_piece(void *context, int64_t unit, int thread) {
    (void)thread;
    const copy *c = context;
    int64_t at = unit * PIECE, left = c->bytes - at;
    memcpy(c->to + at, c->from + at, (size_t)(left < PIECE ? left : PIECE));
}

void dlr_feed_numbers(const dlr_feed *f, int array, const dlr_batch *batch) {
    const dl_type *t = f->view[array].type;
    const dlr_raw *raw = &batch->raw[array];
    const dlr_placing *how = batch->how[array];
    dl_feed_places at = dl_feed_place(t);
    char *there = f->pinned ? (char *)batch->data[array] - at.numbers : NULL,
         *to = dlr_exec_gather(f->exec, f->view[array], there);
    int axis[DL_MAX_RANK], n = axes_of(t, axis), skipped = DL_FEED_AXES - n;
    int64_t samples = t->axis[0].size, each = dl_type_count(t) / samples;
    dl_feed_table *table = (dl_feed_table *)to;
    *table = (dl_feed_table){.samples = samples,
                             .channel = -1,
                             .to = feed_type(t->dtype),
                             .moves = at.moves,
                             .scales = at.scales,
                             .numbers = at.numbers};
    for (int i = 0; i < DL_FEED_AXES; i++)
        table->size[i] = i < skipped ? 1 : t->axis[1 + axis[i - skipped]].size;
    for (int i = 0; raw->mean && i < n; i++)
        if (axis[i] == 0) table->channel = i + skipped;
    dl_feed_move *moves = (dl_feed_move *)(to + at.moves);
    for (int64_t s = 0; s < samples; s++) {
        moves[s] = (dl_feed_move){.base = s * each + how[s].base};
        for (int i = 0; i < n; i++) moves[s].step[skipped + i] = how[s].step[axis[i]];
    }
    dl_feed_scale *scales = (dl_feed_scale *)(to + at.scales);
    for (int64_t c = 0; raw->mean && c < t->axis[1].size; c++)
        scales[c] = (dl_feed_scale){raw->mean[c], raw->deviation[c]};
    if (there) return;
    copy c = {to + at.numbers, batch->data[array], samples * each * (int64_t)sizeof(float)};
    dlr_pool_run(dlr_exec_pool(f->exec), (c.bytes + PIECE - 1) / PIECE, copy_piece, &c);
}

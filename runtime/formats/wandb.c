#include "runtime/formats/wandb.h"

#include <math.h>
#include <time.h>

#include "ir/base/clock.h"
#include "ir/base/dirs.h"
#include "ir/base/output.h"
#include "runtime/formats/protobuf.h"
#include "runtime/formats/sha256.h"
#include "runtime/formats/wandb_internal.h"

const char *dlr_wandb_folder(const dlr_wandb *w) { return w->folder; }

int64_t dlr_wandb_newest(const dlr_wandb *w) { return w->newest; }

double dlr_wandb_seconds(const dlr_wandb *w) { return w->earlier + dl_clock_seconds() - w->began; }

/* ---- records ---- */

bool dlr_wandb_put_record(dlr_wandb *w, int field, dl_buf *message, dl_error *err) {
    dl_buf record = {0};
    dlr_pb_varint(&record, RECORD_NUMBER, (uint64_t)dlr_wandb_log_records(w->log) + 1);
    dlr_pb_message(&record, field, message);
    bool ok = dlr_wandb_log_put(w->log, record.at, record.n, err);
    dl_buf_free(&record);
    return ok;
}

void dlr_wandb_put_item(dl_buf *message, const char *key, const char *json) {
    dl_buf item = {0};
    dlr_pb_text(&item, ITEM_KEY, key);
    dlr_pb_text(&item, ITEM_JSON, json);
    dlr_pb_message(message, ITEMS, &item);
}

bool dlr_wandb_put_file(dlr_wandb *w, const char *path, dl_error *err) {
    dl_buf files = {0}, file = {0};
    dlr_pb_text(&file, FILE_PATH, path);
    dlr_pb_message(&files, FILES_FILE, &file);
    return dlr_wandb_put_record(w, RECORD_FILES, &files, err);
}

/* ---- points ---- */

void dlr_wandb_image(dlr_wandb *w, const char *tag, dlr_png_view image) {
    char *png = dl_alloc(w->held, image.bytes + 1);
    memcpy(png, image.png, image.bytes);
    image.png = png;
    dl_push(w->held, &w->pictures, ((dlr_wandb_picture){dl_strdup(w->held, tag), image}));
}

/* Appends a number as Python's json writes it, which W&B's readers accept: with NaN, Infinity and
 * -Infinity. */
static void put_number(dl_buf *b, double v) {
    if (isfinite(v))
        dl_put_double(b, v);
    else
        dl_puts(b, isnan(v) ? "NaN" : v > 0 ? "Infinity" : "-Infinity");
}

/* A point that is being written: the same items go to history and summary, and are kept for the
 * summary's file. */
typedef struct {
    dl_buf history, summary, values;
} point;

static void add(point *p, const char *key, const char *json) {
    dlr_wandb_put_item(&p->history, key, json), dlr_wandb_put_item(&p->summary, key, json);
    dlr_json_put_key(&p->values, key), dl_puts(&p->values, json);
}

static void add_number(point *p, const char *key, double v) {
    dl_buf b = {0};
    put_number(&b, v);
    add(p, key, b.at);
    dl_buf_free(&b);
}

/* A tag as part of a file's name. */
static const char *file_word(dl_arena *arena, const char *tag) {
    char *word = dl_strdup(arena, tag);
    for (char *c = word; *c; c++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", *c))
            *c = '_';
    return word;
}

/* Writes the file of a picture and its record, and adds the value that refers to it. */
static bool add_picture(dlr_wandb *w, point *p, const dlr_wandb_picture *k, int64_t step,
                        dl_error *err) {
    char sum[65];
    dlr_sha256(k->png.png, k->png.bytes, sum);
    const char *images = dl_format(w->held, "%s/files/media/images", w->folder);
    const char *name = dl_format(w->held, "media/images/%.100s_%lld_%.20s.png",
                                 file_word(w->held, k->tag), (long long)step, sum);
    if (!dl_make_dirs(images, 0777, err) ||
        !dl_write_file(dl_format(w->held, "%s/files/%s", w->folder, name), k->png.png, k->png.bytes,
                       err) ||
        !dlr_wandb_put_file(w, name, err))
        return false;
    const char *json = dl_format(
        w->held,
        "{\"_type\": \"image-file\", \"format\": \"png\", \"path\": \"%s\", \"sha256\": \"%s\", "
        "\"size\": %zu, \"width\": %d, \"height\": %d}",
        name, sum, k->png.bytes, k->png.width, k->png.height);
    add(p, k->tag, json);
    return true;
}

static void drop_pictures(dlr_wandb *w) {
    w->pictures.at = NULL, w->pictures.n = w->pictures.cap = 0;
    dl_arena_free(w->held);
    w->held = dl_arena_new(w->arena);
}

/* The history record comes last: a resumed run looks for it. */
static bool put_point(dlr_wandb *w, point *p, int64_t step, dl_error *err) {
    dl_buf number = {0};
    dlr_pb_number(&number, STEP_NUMBER, (uint64_t)step);
    dlr_pb_message(&p->history, HISTORY_STEP, &number);
    bool ok = dlr_wandb_put_record(w, RECORD_SUMMARY, &p->summary, err) &&
              dlr_wandb_put_record(w, RECORD_HISTORY, &p->history, err);
    if (ok) w->newest = step;
    return ok;
}

static void free_point(point *p) {
    dl_buf_free(&p->history), dl_buf_free(&p->summary), dl_buf_free(&p->values);
}

bool dlr_wandb_put(dlr_wandb *w, int64_t epoch, int64_t iteration, const dlr_metric *values, int n,
                   bool timed, dl_error *err) {
    point p = {0};
    bool ok = true, there = epoch <= w->newest;
    for (int i = 0; i < n; i++) add_number(&p, values[i].tag, values[i].value);
    for (int i = 0; ok && !there && i < w->pictures.n; i++)
        ok = add_picture(w, &p, &w->pictures.at[i], epoch, err);
    add_number(&p, "epoch", (double)epoch), add_number(&p, "iteration", (double)iteration);
    add_number(&p, "_step", (double)epoch);
    if (timed) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        add_number(&p, "_timestamp", (double)now.tv_sec + 1e-9 * (double)now.tv_nsec);
        add_number(&p, "_runtime", dlr_wandb_seconds(w));
    }
    ok = ok && (there || put_point(w, &p, epoch, err));
    drop_pictures(w);
    if (ok) {
        dl_buf last = w->values;
        w->values = p.values, p.values = last;
    }
    free_point(&p);
    return ok;
}

bool dlr_wandb_flush(const dlr_wandb *w, dl_error *err) { return dlr_wandb_log_flush(w->log, err); }

/* ---- closing ---- */

static bool write_summary(const dlr_wandb *w, dl_error *err) {
    dl_buf b = {0};
    dl_putf(&b, "{%s, \"_wandb\": {\"runtime\": %lld}}\n", w->values.at,
            (long long)dlr_wandb_seconds(w));
    bool ok = dl_write_file(dl_format(w->arena, "%s/files/wandb-summary.json", w->folder), b.at,
                            b.n, err);
    dl_buf_free(&b);
    return ok;
}

/* The final record follows the exit record: `wandb sync` of earlier versions waits for it before it
 * reports the exit. */
bool dlr_wandb_end(dlr_wandb *w, int code, dl_error *err) {
    dl_buf preempting = {0}, end = {0}, final = {0};
    /* otherwise the summary of an earlier start remains */
    if (w->values.n && !write_summary(w, err)) return false;
    if (code == DL_REQUEUE && !dlr_wandb_put_record(w, RECORD_PREEMPTING, &preempting, err))
        return false;
    dlr_pb_number(&end, EXIT_CODE, (uint64_t)code);
    dlr_pb_number(&end, EXIT_RUNTIME, (uint64_t)dlr_wandb_seconds(w));
    return dlr_wandb_put_record(w, RECORD_EXIT, &end, err) &&
           dlr_wandb_put_record(w, RECORD_FINAL, &final, err) && dlr_wandb_flush(w, err);
}

void dlr_wandb_close(dlr_wandb *w) {
    if (!w) return;
    dlr_wandb_log_close(w->log);
    dl_buf_free(&w->values);
    dl_arena_free(w->arena);
}

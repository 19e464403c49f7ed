/* Opens a Weights & Biases run: a new one, or the one that the link points to. */
#include <errno.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "ir/base/clock.h"
#include "ir/base/dirs.h"
#include "ir/base/draw.h"
#include "ir/base/output.h"
#include "ir/base/utf8.h"
#include "runtime/formats/protobuf.h"
#include "runtime/formats/wandb_internal.h"

static const char folder_start[] = "offline-run-";
enum {
    STAMP = 15 /* YYYYMMDD_HHMMSS */,
    ID_START = sizeof folder_start - 1 + STAMP + 1,
    MAX_ID = 128
};

bool dlr_wandb_check_id(const char *id) {
    size_t n = strlen(id);
    for (size_t i = 0; i < n;) {
        int length = dl_utf8_length(id + i, n - i);
        if (length == 0) return false;
        i += (size_t)length;
    }
    return dl_is_file_name(id) && n <= MAX_ID && strpbrk(id, "\\#?%: ") == NULL;
}

/* ---- records of a start ---- */

static void put_text(dl_buf *message, int field, const char *text) {
    if (text) dlr_pb_text(message, field, text);
}

static void put_config(dl_buf *message, const dlr_json *config) {
    for (int i = 0; config && config->kind == DLR_JSON_OBJECT && i < config->n; i++) {
        dl_buf json = {0};
        dlr_json_put(&json, &config->members[i].value);
        dlr_wandb_put_item(message, config->members[i].key, json.at);
        dl_buf_free(&json);
    }
}

static const char *host_name(dl_arena *arena) {
    struct utsname name;
    return dl_strdup(arena, uname(&name) == 0 ? name.nodename : "localhost");
}

static bool put_run(dlr_wandb *w, const dlr_wandb_options *o, dl_error *err) {
    dl_buf header = {0}, version = {0}, run = {0}, config = {0}, start = {0};
    dlr_pb_text(&version, VERSION_PRODUCER, "dlrun " DL_VERSION);
    dlr_pb_message(&header, HEADER_VERSION, &version);
    if (!dlr_wandb_put_record(w, RECORD_HEADER, &header, err)) return false;
    dlr_pb_text(&run, RUN_ID, w->id);
    put_text(&run, RUN_ENTITY, o->entity);
    put_text(&run, RUN_PROJECT, o->project);
    put_config(&config, o->config);
    dlr_pb_message(&run, RUN_CONFIG, &config);
    put_text(&run, RUN_GROUP, o->group);
    put_text(&run, RUN_JOB_TYPE, o->job_type);
    put_text(&run, RUN_NAME, o->name);
    put_text(&run, RUN_NOTES, o->notes);
    for (const char *tag = o->tags; tag && *tag;) {
        size_t n = strcspn(tag, ",");
        if (n) dlr_pb_text_n(&run, RUN_TAG, tag, n);
        tag += n + (tag[n] == ',');
    }
    put_text(&run, RUN_SWEEP, o->sweep);
    dlr_pb_text(&run, RUN_HOST, host_name(w->arena));
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    dlr_pb_varint(&start, TIME_SECONDS, (uint64_t)now.tv_sec);
    dlr_pb_number(&start, TIME_NANOS, (uint64_t)now.tv_nsec);
    dlr_pb_message(&run, RUN_START, &start);
    return dlr_wandb_put_record(w, RECORD_RUN, &run, err);
}

/* Writes the metadata file, which `wandb sync` uploads as the run's overview; each start rewrites
 * it. */
static bool put_metadata(dlr_wandb *w, const dlr_wandb_options *o, dl_error *err) {
    static const char name[] = "wandb-metadata.json";
    struct utsname system = {0};
    char stamp[32];
    time_t now = time(NULL);
    struct tm utc;
    uname(&system);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", gmtime_r(&now, &utc));
    dl_buf b = {0};
    dl_puts(&b, "{");
    dlr_json_put_key(&b, "os"),
        dlr_json_put_string(
            &b, dl_format(w->arena, "%s-%s-%s", system.sysname, system.release, system.machine));
    dlr_json_put_key(&b, "startedAt"), dlr_json_put_string(&b, stamp);
    dlr_json_put_key(&b, "program"), dlr_json_put_string(&b, o->n_words ? o->words[0] : "");
    dlr_json_put_key(&b, "args"), dl_puts(&b, "[");
    for (int i = 1; i < o->n_words; i++)
        dl_puts(&b, i > 1 ? ", " : ""), dlr_json_put_string(&b, o->words[i]);
    dl_puts(&b, "]");
    dlr_json_put_key(&b, "host"), dlr_json_put_string(&b, host_name(w->arena));
    dlr_json_put_key(&b, "cpu_count"), dl_putf(&b, "%ld", sysconf(_SC_NPROCESSORS_ONLN));
    dl_puts(&b, "}\n");
    bool ok = dl_write_file(dl_format(w->arena, "%s/files/%s", w->folder, name), b.at, b.n, err);
    dl_buf_free(&b);
    return ok && dlr_wandb_put_file(w, name, err);
}

/* ---- an existing run ---- */

typedef struct {
    int64_t epoch;   /* the last epoch to keep */
    bool run;        /* found: the run record, */
    int64_t newest;  /* the last kept step, */
    double runtime;  /* and its seconds */
    dl_arena *arena; /* temporary */
} found;

static dlr_pb_view view(const void *data, size_t n) {
    return (dlr_pb_view){data, (const unsigned char *)data + n};
}

static bool is_text(dlr_pb_view v, const char *text) {
    return (size_t)(v.end - v.at) == strlen(text) && memcmp(v.at, text, strlen(text)) == 0;
}

/* The number of a point's value; `other` where it has none. */
static double value_of(const found *f, dlr_pb_view history, const char *name, double other) {
    dlr_pb_field item, key, json;
    while (dlr_pb_next(&history, &item))
        if (item.field == ITEMS && dlr_pb_find(item.bytes, ITEM_KEY, &key) &&
            is_text(key.bytes, name) && dlr_pb_find(item.bytes, ITEM_JSON, &json))
            return strtod(dl_strndup(f->arena, (const char *)json.bytes.at,
                                     (size_t)(json.bytes.end - json.bytes.at)),
                          NULL);
    return other;
}

/* Keeps the run record and points up to the epoch. Later records are written again: an exit, files
 * and a summary of a point that is dropped. */
static bool stays(void *context, const void *record, size_t n) {
    found *f = context;
    dlr_pb_field part, step, number;
    if (dlr_pb_find(view(record, n), RECORD_RUN, &part)) return f->run = true;
    if (!dlr_pb_find(view(record, n), RECORD_HISTORY, &part)) return false;
    if (!f->run || !dlr_pb_find(part.bytes, HISTORY_STEP, &step)) return false;
    int64_t at = dlr_pb_find(step.bytes, STEP_NUMBER, &number) ? (int64_t)number.number : 0;
    if (at > f->epoch) return false;
    f->newest = at;
    f->runtime = value_of(f, part.bytes, "_runtime", f->runtime);
    return true;
}

/* The path of the run's file in w->folder, if it exists. */
static const char *file_of(const dlr_wandb *w) {
    return dl_format(w->arena, "%s/run-%s.wandb", w->folder, w->id);
}

/* Finds the run that the link points to. */
static bool find_run(dlr_wandb *w, const char *dir, const char *link, const char *id) {
    char target[4096];
    ssize_t n = readlink(link, target, sizeof target - 1);
    if (n <= 0) return false;
    target[n] = 0;
    const char *slash = strrchr(target, '/'), *name = slash ? slash + 1 : target;
    if (strlen(name) <= ID_START || strncmp(name, folder_start, sizeof folder_start - 1) != 0)
        return false;
    w->id = dl_strdup(w->arena, name + ID_START);
    w->folder =
        *target == '/' ? dl_strdup(w->arena, target) : dl_format(w->arena, "%s/%s", dir, target);
    return dlr_wandb_check_id(w->id) && (!id || strcmp(id, w->id) == 0) &&
           access(file_of(w), F_OK) == 0;
}

/* Removes the marker of an upload, which was incomplete: `wandb sync` skips a run that has it. */
static bool forget_sync(const dlr_wandb *w, dl_error *err) {
    const char *mark = dl_format(w->arena, "%s.synced", file_of(w));
    return unlink(mark) == 0 || errno == ENOENT ||
           dl_fail_errno(err, DL_IO, "cannot remove %s", mark);
}

static bool go_on(dlr_wandb *w, const dlr_wandb_options *o, int64_t epoch, dl_error *err) {
    found f = {.epoch = epoch, .newest = -1, .arena = dl_arena_new(NULL)};
    if (forget_sync(w, err)) w->log = dlr_wandb_log_open(file_of(w), stays, &f, err);
    dl_arena_free(f.arena);
    w->newest = f.newest, w->has_run = f.run, w->earlier = f.runtime;
    if (!w->log) return false;
    if (!w->has_run) return put_run(w, o, err);
    dl_buf config = {0};
    put_config(&config, o->config);
    return dlr_wandb_put_record(w, RECORD_CONFIG, &config, err);
}

/* ---- a new run ---- */

static bool begin(dlr_wandb *w, const char *dir, const char *link, const dlr_wandb_options *o,
                  dl_error *err) {
    char stamp[STAMP + 1];
    time_t now = time(NULL);
    struct tm local;
    strftime(stamp, sizeof stamp, "%Y%m%d_%H%M%S", localtime_r(&now, &local));
    w->id = o->id ? dl_strdup(w->arena, o->id) : dl_draw_name(w->arena);
    const char *name = dl_format(w->arena, "%s%s-%s", folder_start, stamp, w->id);
    w->folder = dl_format(w->arena, "%s/%s", o->folder ? o->folder : dir, name);
    if (!dl_make_dirs(dl_format(w->arena, "%s/files", w->folder), 0777, err)) return false;
    w->log = dlr_wandb_log_new(file_of(w), err);
    if (!w->log || !put_run(w, o, err)) return false;
    char *whole = o->folder ? realpath(w->folder, NULL) : NULL; /* the link is in another folder */
    if (o->folder && !whole) return dl_fail_errno(err, DL_IO, "cannot find %s", w->folder);
    bool ok = dl_replace_link(link, whole ? whole : name, err);
    free(whole);
    return ok && dl_sync_dir(w->folder, err);
}

dlr_wandb *dlr_wandb_open(const char *dir, const dlr_wandb_options *o, int64_t epoch,
                          dl_error *err) {
    dl_arena *arena = dl_arena_new(NULL);
    dlr_wandb *w = DL_NEW(arena, dlr_wandb);
    *w = (dlr_wandb){
        .arena = arena, .newest = -1, .began = dl_clock_seconds(), .held = dl_arena_new(arena)};
    const char *link = dl_format(arena, "%s/latest-run", dir);
    bool ok = dl_make_dirs(dir, 0777, err);
    if (ok)
        ok = epoch >= 0 && find_run(w, dir, link, o->id) ? go_on(w, o, epoch, err)
                                                         : begin(w, dir, link, o, err);
    if (ok && put_metadata(w, o, err)) return w;
    dlr_wandb_close(w);
    return NULL;
}

#include "runtime/formats/tensorboard.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "ir/base/dirs.h"
#include "ir/base/output.h"
#include "runtime/formats/crc32c.h"
#include "runtime/formats/protobuf.h"

/* Field numbers of event.proto, summary.proto, tensor.proto and the hparams plugin's messages. */
enum { EVENT_TIME = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_SUMMARY = 5, EVENT_SESSION = 7 };
enum { SESSION_STATUS = 1, SESSION_START = 1 };
enum {
    SUMMARY_VALUE = 1,
    VALUE_TAG = 1,
    VALUE_SCALAR = 2,
    VALUE_IMAGE = 4,
    VALUE_TENSOR = 8,
    VALUE_METADATA = 9
};
enum { IMAGE_HEIGHT = 1, IMAGE_WIDTH = 2, IMAGE_CHANNELS = 3, IMAGE_PNG = 4 };
enum { TENSOR_DTYPE = 1, TENSOR_SHAPE = 2, TENSOR_STRING = 8, DT_STRING = 7 };
enum { METADATA_PLUGIN = 1, PLUGIN_NAME = 1, PLUGIN_CONTENT = 2 };
enum {
    HPARAMS_SESSION_START = 3,
    HPARAMS_SESSION_END = 4,
    SESSION_HPARAMS = 1,
    SESSION_START_TIME = 5
};
enum { MAP_KEY = 1, MAP_VALUE = 2, ANY_NUMBER = 2, ANY_STRING = 3 };
enum { END_STATUS = 1, END_TIME = 2, STATUS_SUCCESS = 1 };

struct dlr_tensorboard {
    dl_arena *arena;
    const char *path;
    int fd;
    int64_t end;
    bool has_hparams;
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Records store a rotated CRC plus a constant, because the CRC of data that contain their own CRC
 * is a weak check. */
static uint32_t masked_crc(const void *data, size_t n) {
    uint32_t crc = dlr_crc32c(data, n);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* Writes one record: time, step and `event`'s fields; frees `event`. Step 0 is omitted, as protobuf
 * does. */
static bool put_event(dlr_tensorboard *board, int64_t step, dl_buf *event, dl_error *err) {
    dl_buf data = {0}, record = {0};
    dlr_pb_double(&data, EVENT_TIME, now());
    if (step != 0) dlr_pb_varint(&data, EVENT_STEP, (uint64_t)step);
    dl_putn(&data, event->at, event->n);
    uint64_t n = data.n;
    uint32_t crc = masked_crc(&n, sizeof n);
    dl_putn(&record, (const char *)&n, sizeof n);
    dl_putn(&record, (const char *)&crc, sizeof crc);
    dl_putn(&record, data.at, data.n);
    crc = masked_crc(data.at, data.n);
    dl_putn(&record, (const char *)&crc, sizeof crc);
    bool ok = dl_append(board->fd, board->path, record.at, record.n, &board->end, err);
    dl_buf_free(&record);
    dl_buf_free(&data);
    dl_buf_free(event);
    return ok;
}

/* Writes an event with the one summary value `value`; frees it. */
static bool put_value(dlr_tensorboard *board, int64_t step, dl_buf *value, dl_error *err) {
    dl_buf summary = {0}, event = {0};
    dlr_pb_message(&summary, SUMMARY_VALUE, value);
    dlr_pb_message(&event, EVENT_SUMMARY, &summary);
    return put_event(board, step, &event, err);
}

static void put_plugin(dl_buf *value, const char *name, const dl_buf *content) {
    dl_buf plugin = {0}, metadata = {0};
    dlr_pb_text(&plugin, PLUGIN_NAME, name);
    if (content) dlr_pb_bytes(&plugin, PLUGIN_CONTENT, content->at, content->n);
    dlr_pb_message(&metadata, METADATA_PLUGIN, &plugin);
    dlr_pb_message(value, VALUE_METADATA, &metadata);
}

static bool start_file(dlr_tensorboard *board, int64_t first_step, dl_error *err) {
    dl_buf version = {0}, session = {0}, start = {0};
    dlr_pb_text(&version, EVENT_VERSION, "brain.Event:2");
    if (!put_event(board, 0, &version, err)) return false;
    dlr_pb_varint(&session, SESSION_STATUS, SESSION_START);
    dlr_pb_message(&start, EVENT_SESSION, &session);
    return put_event(board, first_step, &start, err);
}

dlr_tensorboard *dlr_tensorboard_open(const char *dir, int64_t first_step, dl_error *err) {
    static atomic_int opened;
    if (!dl_make_dirs(dir, 0755, err)) return NULL;
    char host[256] = "localhost";
    if (gethostname(host, sizeof host) == 0) host[sizeof host - 1] = 0;
    dl_arena *arena = dl_arena_new(NULL);
    dlr_tensorboard *board = DL_NEW(arena, dlr_tensorboard);
    board->arena = arena;
    board->path =
        dl_format(arena, "%s/events.out.tfevents.%010lld.%s.%ld.%d", dir, (long long)time(NULL),
                  host, (long)getpid(), atomic_fetch_add(&opened, 1));
    board->fd = dl_append_open(board->path, DL_APPEND_NEW, err);
    if (board->fd >= 0 && start_file(board, first_step, err)) return board;
    dlr_tensorboard_close(board);
    return NULL;
}

bool dlr_tensorboard_flush(dlr_tensorboard *board, dl_error *err) {
    return fdatasync(board->fd) == 0 ||
           dl_fail_errno(err, DL_IO, "cannot make %s durable", board->path);
}

void dlr_tensorboard_close(dlr_tensorboard *board) {
    if (!board) return;
    if (board->fd >= 0) close(board->fd);
    dl_arena_free(board->arena);
}

bool dlr_tensorboard_scalar(dlr_tensorboard *board, const char *tag, int64_t step, double v,
                            dl_error *err) {
    dl_buf value = {0};
    dlr_pb_text(&value, VALUE_TAG, tag);
    dlr_pb_float(&value, VALUE_SCALAR, (float)v);
    return put_value(board, step, &value, err);
}

bool dlr_tensorboard_image(dlr_tensorboard *board, const char *tag, int64_t step,
                           dlr_png_view image, dl_error *err) {
    dl_buf value = {0}, m = {0};
    dlr_pb_text(&value, VALUE_TAG, tag);
    dlr_pb_varint(&m, IMAGE_HEIGHT, (uint64_t)image.height);
    dlr_pb_varint(&m, IMAGE_WIDTH, (uint64_t)image.width);
    dlr_pb_varint(&m, IMAGE_CHANNELS, (uint64_t)image.channels);
    dlr_pb_bytes(&m, IMAGE_PNG, image.png, image.bytes);
    dlr_pb_message(&value, VALUE_IMAGE, &m);
    return put_value(board, step, &value, err);
}

bool dlr_tensorboard_text(dlr_tensorboard *board, const char *tag, int64_t step, const char *text,
                          dl_error *err) {
    dl_buf value = {0}, tensor = {0};
    dlr_pb_text(&value, VALUE_TAG, dl_format(board->arena, "%s/text_summary", tag));
    put_plugin(&value, "text", NULL);
    dlr_pb_varint(&tensor, TENSOR_DTYPE, DT_STRING);
    dlr_pb_bytes(&tensor, TENSOR_SHAPE, "", 0); /* no dimensions: one string */
    dlr_pb_text(&tensor, TENSOR_STRING, text);
    dlr_pb_message(&value, VALUE_TENSOR, &tensor);
    return put_value(board, step, &value, err);
}

/* Writes a value of the hparams plugin: its content is in the metadata. `field` is the message type
 * of `info`. */
static bool put_hparams(dlr_tensorboard *board, const char *tag, int field, dl_buf *info,
                        dl_error *err) {
    dl_buf value = {0}, content = {0};
    dlr_pb_message(&content, field, info);
    dlr_pb_text(&value, VALUE_TAG, tag);
    put_plugin(&value, "hparams", &content);
    dl_buf_free(&content);
    return put_value(board, 0, &value, err);
}

bool dlr_tensorboard_hparams(dlr_tensorboard *board, const dlr_hparam *params, int n,
                             dl_error *err) {
    dl_buf info = {0};
    for (int i = 0; i < n; i++) {
        dl_buf entry = {0}, any = {0};
        if (params[i].text)
            dlr_pb_text(&any, ANY_STRING, params[i].text);
        else
            dlr_pb_double(&any, ANY_NUMBER, params[i].number);
        dlr_pb_text(&entry, MAP_KEY, params[i].name);
        dlr_pb_message(&entry, MAP_VALUE, &any);
        dlr_pb_message(&info, SESSION_HPARAMS, &entry);
    }
    dlr_pb_double(&info, SESSION_START_TIME, now());
    board->has_hparams = true;
    return put_hparams(board, "_hparams_/session_start_info", HPARAMS_SESSION_START, &info, err);
}

bool dlr_tensorboard_hparams_done(dlr_tensorboard *board, dl_error *err) {
    dl_buf info = {0};
    if (!board->has_hparams) return true;
    dlr_pb_varint(&info, END_STATUS, STATUS_SUCCESS);
    dlr_pb_double(&info, END_TIME, now());
    return put_hparams(board, "_hparams_/session_end_info", HPARAMS_SESSION_END, &info, err);
}

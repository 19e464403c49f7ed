#include "runtime/formats/wandb_log.h"

#include <unistd.h>
#include <zlib.h>

#include "ir/base/input.h"
#include "ir/base/output.h"
#include "ir/base/str.h"

enum { BLOCK = 1 << 15, HEAD = 7, MAX_BYTES = 1 << 30 };
typedef enum { WHOLE = 1, FIRST = 2, MIDDLE = 3, LAST = 4 } chunk;

/* Name, magic number 0xBEE1, version 0. */
static const char header[] = {':', 'W', '&', 'B', (char)0xe1, (char)0xbe, 0};

struct dlr_wandb_log {
    dl_arena *arena;
    const char *path;
    int fd;
    int64_t end, records;
};

static uint32_t checksum(chunk type, const void *data, size_t n) {
    const unsigned char byte = (unsigned char)type;
    return (uint32_t)crc32_z(crc32_z(0, &byte, 1), data, n);
}

static size_t room_at(int64_t at) { return (size_t)(BLOCK - at % BLOCK); }

/* ---- writing ---- */

static void put_chunk(dl_buf *b, chunk type, const void *data, size_t n) {
    uint32_t crc = checksum(type, data, n);
    const char head[HEAD] = {(char)crc,         (char)(crc >> 8), (char)(crc >> 16),
                             (char)(crc >> 24), (char)(n & 0xff), (char)(n >> 8),
                             (char)type};
    dl_putn(b, head, HEAD);
    dl_putn(b, data, n);
}

bool dlr_wandb_log_put(dlr_wandb_log *log, const void *record, size_t n, dl_error *err) {
    static const char zeros[HEAD];
    dl_buf b = {0};
    const char *data = record;
    size_t room = room_at(log->end);
    if (room < HEAD) dl_putn(&b, zeros, room), room = BLOCK;
    if (n <= room - HEAD) {
        put_chunk(&b, WHOLE, data, n);
    } else {
        for (chunk type = FIRST; type != LAST; type = n > BLOCK - HEAD ? MIDDLE : LAST) {
            put_chunk(&b, type, data, room - HEAD);
            data += room - HEAD, n -= room - HEAD, room = BLOCK;
        }
        put_chunk(&b, LAST, data, n);
    }
    bool ok = dl_append(log->fd, log->path, b.at, b.n, &log->end, err);
    log->records += ok;
    dl_buf_free(&b);
    return ok;
}

bool dlr_wandb_log_flush(const dlr_wandb_log *log, dl_error *err) {
    return fdatasync(log->fd) == 0 ||
           dl_fail_errno(err, DL_IO, "cannot make %s durable", log->path);
}

int64_t dlr_wandb_log_records(const dlr_wandb_log *log) { return log->records; }

void dlr_wandb_log_close(dlr_wandb_log *log) {
    if (!log) return;
    if (log->fd >= 0) close(log->fd);
    dl_arena_free(log->arena);
}

static dlr_wandb_log *new_log(const char *path) {
    dl_arena *arena = dl_arena_new(NULL);
    dlr_wandb_log *log = DL_NEW(arena, dlr_wandb_log);
    *log = (dlr_wandb_log){.arena = arena, .path = dl_strdup(arena, path), .fd = -1};
    return log;
}

dlr_wandb_log *dlr_wandb_log_new(const char *path, dl_error *err) {
    dlr_wandb_log *log = new_log(path);
    log->fd = dl_append_open(path, DL_APPEND_NEW, err);
    if (log->fd >= 0 && dl_append(log->fd, path, header, sizeof header, &log->end, err)) return log;
    dlr_wandb_log_close(log);
    return NULL;
}

/* ---- reading, to continue a file ---- */

/* Adds the chunk at *at to the record, and advances; 0: there is no complete and intact chunk. */
static int read_chunk(const unsigned char *file, size_t size, size_t *at, dl_buf *record) {
    size_t room = room_at((int64_t)*at), from = *at + (room < HEAD ? room : 0);
    if (from + HEAD > size) return 0;
    const unsigned char *head = file + from, *data = head + HEAD;
    uint32_t crc =
        (uint32_t)head[3] << 24 | (uint32_t)head[2] << 16 | (uint32_t)head[1] << 8 | head[0];
    size_t n = (size_t)head[5] << 8 | head[4];
    if (n > room_at((int64_t)from) - HEAD || n > size - from - HEAD) return 0;
    if (head[6] < WHOLE || head[6] > LAST || checksum(head[6], data, n) != crc) return 0;
    dl_putn(record, (const char *)data, n);
    *at = from + HEAD + n;
    return head[6];
}

/* Reads the record at *at, with all its chunks. */
static bool read_record(const unsigned char *file, size_t size, size_t *at, dl_buf *record) {
    record->n = 0;
    int type = read_chunk(file, size, at, record);
    if (type == FIRST) do
            type = read_chunk(file, size, at, record);
        while (type == MIDDLE);
    else if (type == LAST || type == MIDDLE)
        return false;
    return type == WHOLE || type == LAST;
}

/* Finds the end of the kept part, and counts its records. A file that was truncated within its
 * header is dropped whole. */
static void find_end(dlr_wandb_log *log, const char *file, size_t size, dlr_wandb_stays *stays,
                     void *context) {
    dl_buf record = {0};
    size_t at = sizeof header;
    if (size < at) return;
    log->end = sizeof header;
    for (int64_t n = 1; read_record((const unsigned char *)file, size, &at, &record); n++)
        if (stays(context, record.at ? record.at : "", record.n))
            log->end = (int64_t)at, log->records = n;
    dl_buf_free(&record);
}

static bool open_there(dlr_wandb_log *log, dlr_wandb_stays *stays, void *context, dl_error *err) {
    dl_arena *arena = dl_arena_new(log->arena);
    size_t size;
    const char *file = dl_read_file(arena, log->path, MAX_BYTES, &size, err);
    bool ok = file != NULL;
    if (ok && memcmp(file, header, size < sizeof header ? size : sizeof header) != 0)
        ok = dl_fail(err, DL_INPUT,
                     "%s is no file of Weights & Biases: move it away, and a new one is begun",
                     log->path);
    if (ok) find_end(log, file, size, stays, context);
    dl_arena_free(arena);
    if (!ok) return false;
    log->fd = dl_append_open(log->path, DL_APPEND, err);
    if (log->fd < 0) return false;
    if ((int64_t)size != log->end && (ftruncate(log->fd, log->end) != 0 || fsync(log->fd) != 0))
        return dl_fail_errno(err, DL_IO, "cannot shorten %s", log->path);
    return log->end > 0 || dl_append(log->fd, log->path, header, sizeof header, &log->end, err);
}

dlr_wandb_log *dlr_wandb_log_open(const char *path, dlr_wandb_stays *stays, void *context,
                                  dl_error *err) {
    dlr_wandb_log *log = new_log(path);
    if (open_there(log, stays, context, err)) return log;
    dlr_wandb_log_close(log);
    return NULL;
}

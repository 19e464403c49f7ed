/* metrics.jsonl: points, repair after a crash, resuming; and what TensorBoard's files look like
 * from C. */
#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include "ir/base/dirs.h"
#include "ir/base/input.h"
#include "ir/base/output.h"
#include "ir/base/str.h"
#include "runtime/formats/crc32c.h"
#include "runtime/formats/metrics.h"
#include "runtime/formats/tensorboard.h"
#include "tests/check.h"

static char dir[] = "/tmp/dl_test_XXXXXX";
static dl_arena *arena;
static dl_error err;

static const char *slurp(const char *path) {
    const char *text = dl_read_file(arena, path, 1 << 20, NULL, &err);
    return text ? text : err.message;
}

static void put(dlr_metrics *m, int iteration) {
    dlr_metric values[] = {{"Loss/train", 1.0 / iteration}, {"Learning Rate", 1e-4}};
    CHECK(dlr_metrics_put(m, iteration / 10, iteration, values, 2, &err), "%s", err.message);
}

static void test_metrics(void) {
    const char *path = dl_format(arena, "%s/metrics.jsonl", dir);
    dlr_metrics_repair repair;
    dlr_metrics *m = dlr_metrics_open(path, -1, &repair, &err);
    CHECK(m != NULL, "%s", err.message);
    for (int i = 10; i <= 40; i += 10) put(m, i);
    CHECK(dlr_metrics_flush(m, &err));
    dlr_metrics_close(m);
    const char *whole = slurp(path);
    const char first[] =
        "{\"epoch\": 1, \"iteration\": 10, \"Loss/train\": 0.1, \"Learning Rate\": 0.0001}\n";
    CHECK(strncmp(whole, first, strlen(first)) == 0, "%s", whole);

    /* A crash at any byte of the file, and a resume from iteration 20, or from the last one before
     * the next point: in the end the same file. */
    size_t n = strlen(whole), two = 0;
    for (int line = 0; line < 2; two++) line += whole[two] == '\n';
    for (size_t cut = two; cut <= n; cut++) {
        CHECK(dl_write_file(path, whole, cut, &err));
        m = dlr_metrics_open(path, cut % 2 ? 20 : 29, &repair, &err);
        CHECK(m && repair.kept == 2 && repair.torn == (cut > two && whole[cut - 1] != '\n'),
              "cut %zu: %d", cut, repair.torn);
        if (!m) return;
        put(m, 30), put(m, 40);
        dlr_metrics_close(m);
        CHECK_STR(slurp(path), whole);
    }
    /* A block of zeros, as a file system may leave it after after a power cut. */
    CHECK(
        dl_write_file(path, dl_format(arena, "%.*s%s", (int)two, whole, "#####\n"), two + 6, &err));
    m = dlr_metrics_open(path, 40, &repair, &err);
    CHECK(m && repair.kept == 2 && repair.torn == 1 && repair.later == 0);
    CHECK(dlr_metrics_put(m, 3, 30, (dlr_metric[]){{"a", NAN}, {"b", 0.1 + 0.2}}, 2, &err));
    dlr_metrics_close(m);
    CHECK(strstr(slurp(path),
                 "{\"epoch\": 3, \"iteration\": 30, \"a\": null, \"b\": 0.30000000000000004}\n"),
          "%s", slurp(path));

    const char *before = slurp(path);
    CHECK(!dlr_metrics_open(path, -1, NULL, &err) &&
          err.code == DL_IO); /* a new run: nothing is replaced */
    err = (dl_error){0};
    CHECK_STR(slurp(path), before);
    CHECK(!dlr_metrics_open("/nonexistent/m", 0, NULL, &err) && err.code == DL_IO);
    err = (dl_error){0};
}

static uint32_t u32(const char *p) {
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}

static uint32_t masked(const void *data, size_t n) {
    uint32_t crc = dlr_crc32c(data, n);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* The frames here; every field by an independent reader in tests/oracle/check_io.py. */
static void test_tensorboard(void) {
    const char *logs = dl_format(arena, "%s/logs", dir);
    dlr_tensorboard *board = dlr_tensorboard_open(logs, 25, &err);
    CHECK(board != NULL, "%s", err.message);
    CHECK(dlr_tensorboard_scalar(board, "Loss/valid", 25, 0.5, &err));
    CHECK(dlr_tensorboard_text(board, "config", 0, "**short**", &err));
    CHECK(dlr_tensorboard_flush(board, &err));
    dlr_tensorboard_close(board);
    board = dlr_tensorboard_open(logs, 0, &err); /* a second file in the same second */
    CHECK(board != NULL, "%s", err.message);
    dlr_tensorboard_close(board);

    DIR *d = opendir(logs);
    const struct dirent *e;
    int files = 0, records = 0;
    while ((e = readdir(d))) {
        if (e->d_name[0] == '.') continue;
        files++;
        long long seconds;
        int at = 0;
        CHECK(sscanf(e->d_name, "events.out.tfevents.%10lld.%n", &seconds, &at) == 1 && at == 31,
              "%s", e->d_name);
        size_t n;
        const char *p = dl_read_file(arena, dl_format(arena, "%s/%s", logs, e->d_name), 1 << 20, &n,
                                     &err),
                   *end = p + n;
        while (p && p < end) {
            uint64_t size;
            memcpy(&size, p, 8);
            CHECK(size < 1000 && u32(p + 8) == masked(p, 8) &&
                  u32(p + 12 + size) == masked(p + 12, size));
            p += 16 + size, records++;
        }
        CHECK(p == end);
    }
    closedir(d);
    CHECK(files == 2 && records == 6, "%d files, %d records", files, records);
    CHECK(!dlr_tensorboard_open("/dev/null/x", 0, &err) && err.code == DL_IO);
    err = (dl_error){0};
}

int main(void) {
    arena = dl_arena_new(NULL);
    CHECK(mkdtemp(dir) != NULL);
    test_metrics();
    test_tensorboard();
    CHECK(dl_remove_tree(dir, &err));
    dl_arena_free(arena);
    return dl_test_end();
}

/* Two ranks that read one checkpoint. */
#include "tests/unit/checkpoint_story.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <sys/wait.h>

#include "tests/check.h"

/* ---- two ranks that read ---- */

/* The messages of each, for the other: they run one after the other, twice, until both know
 * all. */
typedef struct {
    uint64_t same[2][8];
    int64_t most[2][8];
    int n_same, n_most, rank;
    bool second; /* the round in which the other's words are heard */
} talk;

static bool say_same(void *context, uint64_t number, const char *what, dl_error *err) {
    talk *t = context;
    int k = t->n_same++;
    t->same[t->rank][k] = number;
    return !t->second || t->same[!t->rank][k] == number || (t->rank == 0 && !t->same[1][k]) ||
           dl_fail(err, DL_INPUT, "%s of rank 1 is not that of rank 0", what);
}

static bool say_most(void *context, int64_t number, int64_t *most, dl_error *err) {
    talk *t = context;
    int k = t->n_most++;
    (void)err;
    t->most[t->rank][k] = *most = number;
    if (t->second && t->most[!t->rank][k] > number) *most = t->most[!t->rank][k];
    return true;
}

void test_two_readers(void) {
    dl_error err = {0};
    clear();
    CHECK(save(1, 0, true, 2, &err) && save(2, 0, false, 2, &err), "%s", err.message);
    for (int k = -1; k < count_files() - 1; k++) {
        int fd =
            k < 0 ? -1 : open(dl_format(arena, "%s/%s", dir, file_of("step-00000002", k)), O_RDWR);
        unsigned char last = 0, flipped;
        struct stat st;
        if (fd >= 0) CHECK(fstat(fd, &st) == 0 && pread(fd, &last, 1, st.st_size - 1) == 1);
        flipped = last ^ 1;
        if (fd >= 0) CHECK(pwrite(fd, &flipped, 1, st.st_size - 1) == 1);
        talk t = {0};
        for (int turn = 0; turn < 6; turn++) {
            t.rank = turn % 2, t.n_same = t.n_most = 0, t.second = turn > 1;
            dlr_checkpoint_readers readers = {t.rank, 2, say_same, say_most, &t};
            dlr_checkpoint *c = NULL;
            err = (dl_error){0};
            CHECK(dlr_checkpoint_open(dir, "last", &readers, &c, &err) == DLR_CHECKPOINT_LOADED,
                  "%s", err.message);
            /* in the first round they do not know yet */
            bool knows = turn >= 2;
            CHECK(!c || !knows || (int)c->state.iteration == (k < 0 ? 2 : 1), "file %d, rank %d", k,
                  t.rank);
            CHECK(!c || !knows || k < 0 ||
                      (c->n_warnings == 1 && strstr(c->warnings[0], shard_files[k])),
                  "file %d, rank %d: %s", k, t.rank,
                  c && c->n_warnings ? c->warnings[0] : "no warning");
            CHECK(!c || !knows || is_whole(c));
            dlr_checkpoint_close(c);
        }
        if (fd >= 0) CHECK(pwrite(fd, &last, 1, st.st_size - 1) == 1);
        close(fd);
    }
    /* one that sees other checkpoints stands on another file system */
    talk t = {.second = true, .rank = 1};
    dlr_checkpoint_readers readers = {1, 2, say_same, say_most, &t};
    dlr_checkpoint *c;
    err = (dl_error){0};
    CHECK(dlr_checkpoint_open(dir, "last", &readers, &c, &err) == DLR_CHECKPOINT_FAILED &&
              strstr(err.message, "the list of checkpoints in"),
          "%s", err.message);
    t.n_same = 0, err = (dl_error){0};
    CHECK(dlr_checkpoint_open("/nowhere/at/all", "last", &readers, &c, &err) ==
              DLR_CHECKPOINT_FAILED,
          "nothing here is not nothing everywhere");
}

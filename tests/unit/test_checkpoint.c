/* Checkpoints: round trip, damage, and every crash point and every failing call of the writer and
 * the reader; once where one process writes them, and once where two ranks' parts make one.
 *
 * test_checkpoint [long]     long: 100,000 flips in a larger checkpoint, and 10,000 crash points */

#include "tests/unit/faulty_calls.h"

#include <sys/mman.h>
#include <sys/wait.h>

#include "ir/base/dirs.h"
#include "ir/base/str.h"
#include "runtime/base/rng.h"
#include "runtime/formats/checkpoint.h"
#include "tests/check.h"
#include "tests/unit/checkpoint_story.h"

/* ---- Saving and reading ---- */

static char *root;
const char *dir;
dl_arena *arena;
enum { FEW = 5, MANY = 100000 };
static int N = FEW; /* elements of each tensor */
static bool sharded;

/* The files of a checkpoint in the order of the above. */
static const char *const whole_files[] = {"model.safetensors", "optimizer.safetensors",
                                          "state.json"};
const char *const shard_files[] = {
    "model-00001-of-00002.safetensors", "optimizer-00001-of-00002.safetensors",
    "model-00002-of-00002.safetensors", "optimizer-00002-of-00002.safetensors",
    "model.safetensors.index.json",     "state.json"};
int count_files(void) { return sharded ? 6 : 3; }
const char *file_of(const char *step, int i) {
    return dl_format(arena, "%s/%s", step, sharded ? shard_files[i] : whole_files[i]);
}

/* The same content as two ranks write it: two elements of each tensor, and the others. */
static bool save_sharded(const dlr_checkpoint_content *whole, dl_error *err) {
    dlr_checkpoint_file files[4];
    if (!dlr_checkpoint_begin(dir, whole->state.iteration, err)) return false;
    for (int rank = 0; rank < 2; rank++) {
        dlr_checkpoint_part parts[2];
        dlr_checkpoint_content content = *whole;
        dlr_st_tensor tensors[2];
        dlr_st_meta boxes[2];
        dlr_st_written written[2];
        content.parts = parts;
        for (int i = 0; i < 2; i++) {
            const dlr_st_tensor *t = whole->parts[i].content.tensors;
            tensors[i] = *t, tensors[i].shape[0] = rank ? N - 2 : 2;
            if (rank) tensors[i].data = (const char *)t->data + 2 * dlr_st_dtype_size(t->dtype);
            boxes[i] =
                (dlr_st_meta){DLR_ST_BOXES, dl_format(arena, "{\"%s\": {\"%s\": [%d]}}", t->name,
                                                      DLR_ST_OFFSETS, rank ? 2 : 0)};
            parts[i] = (dlr_checkpoint_part){
                dlr_checkpoint_shard_name(arena, whole->parts[i].name, rank + 1, 2),
                {.tensors = &tensors[i], .n = 1, .metadata = &boxes[i], .n_metadata = 1}};
        }
        if (!dlr_checkpoint_write(dir, &content, written, err)) return false;
        for (int i = 0; i < 2; i++)
            files[2 * rank + i] = (dlr_checkpoint_file){parts[i].name, written[i]};
    }
    return dlr_checkpoint_commit(dir, whole, files, 4,
                                 "{\"not read here\": 0, \"nor anywhere\": 0}\n", err);
}

bool save(int step, int version, bool best, int keep, dl_error *err) {
    static float model[MANY];
    static double moments[MANY];
    for (int i = 0; i < N; i++)
        model[i] = (float)(1000 * step + 10 * version + i), moments[i] = model[i] / 3.0;
    dlr_st_tensor weight = {
        .name = "conv.weight", .dtype = DLR_ST_F32, .rank = 1, .shape = {N}, .data = model};
    dlr_st_tensor moment = {.name = "exp_avg.conv.weight",
                            .dtype = DLR_ST_F64,
                            .rank = 1,
                            .shape = {N},
                            .data = moments};
    dlr_checkpoint_part parts[] = {{"model", {.tensors = &weight, .n = 1}},
                                   {"optimizer", {.tensors = &moment, .n = 1}}};
    dlr_state_value values[] = {
        {.key = "losses", .kind = DLR_STATE_REALS, .reals = moments, .n_reals = FEW},
        {.key = "version", .kind = DLR_STATE_INT, .integer = version},
        {.key = "config", .kind = DLR_STATE_TEXT, .text = "short \"x\""}};
    dlr_checkpoint_content content = {.parts = parts, .n_parts = 2, .is_best = best, .keep = keep};
    content.state = (dlr_state){.epoch = step / 2,
                                .iteration = step,
                                .position = step % 2,
                                .seed = UINT64_MAX - 1,
                                .best_loss = step == 1 ? INFINITY : 0.1,
                                .epoch_loss = 1.0 / 3,
                                .values = values,
                                .n_values = 3};
    return sharded ? save_sharded(&content, err) : dlr_checkpoint_save(dir, &content, err);
}

static int version_of(const dlr_checkpoint *c) {
    const dlr_state_value *v = dlr_checkpoint_value(c, "version");
    return v && v->kind == DLR_STATE_INT ? (int)v->integer : -1;
}

bool is_whole(const dlr_checkpoint *c) {
    dl_error err = {0};
    static float model[MANY];
    static double moments[MANY];
    size_t n = (size_t)N;
    const dlr_st_file *m = dlr_checkpoint_part_file(c, "model", &err),
                      *o = dlr_checkpoint_part_file(c, "optimizer", &err);
    const dlr_state_value *losses = dlr_checkpoint_value(c, "losses"),
                          *text = dlr_checkpoint_value(c, "config");
    if (!m || !o || !losses || losses->n_reals != FEW || !text ||
        strcmp(text->text, "short \"x\"") != 0)
        return false;
    const dlr_st_tensor *weight = dlr_st_find(m, "conv.weight"),
                        *moment = dlr_st_find(o, "exp_avg.conv.weight");
    if (!weight || !moment || weight->bytes != n * sizeof *model ||
        moment->bytes != n * sizeof *moments)
        return false;
    if (!dlr_st_load(m, weight, model, &err) || !dlr_st_load(o, moment, moments, &err))
        return false;
    int step = (int)c->state.iteration;
    for (int i = 0; i < N; i++) {
        if (model[i] != (float)(1000 * step + 10 * version_of(c) + i) ||
            moments[i] != model[i] / 3.0)
            return false;
        if (i < FEW && losses->reals[i] != moments[i]) return false;
    }
    return c->state.epoch == step / 2 && c->state.position == step % 2 &&
           c->state.seed == UINT64_MAX - 1 && c->state.epoch_loss == 1.0 / 3 &&
           (step == 1 ? isinf(c->state.best_loss) : c->state.best_loss == 0.1);
}

/* The version and step loaded by `which` as 100 * step + version; 0 for none, -1 failed, -2 torn.
 */
static int load(const char *which, int *warnings) {
    dl_error err = {0};
    dlr_checkpoint *c;
    dlr_checkpoint_outcome outcome = dlr_checkpoint_open(dir, which, NULL, &c, &err);
    if (outcome == DLR_CHECKPOINT_NONE) return err.code == DL_OK ? 0 : -3;
    if (outcome == DLR_CHECKPOINT_FAILED) return err.code != DL_OK ? -1 : -3;
    int id = is_whole(c) ? 100 * (int)c->state.iteration + version_of(c) : -2;
    if (warnings) *warnings = c->n_warnings;
    dlr_checkpoint_close(c);
    return id;
}

static bool exists(const char *name) {
    struct stat st;
    return lstat(dl_format(arena, "%s/%s", dir, name), &st) == 0;
}

void clear(void) {
    dl_error err = {0};
    fault.kind = NO_FAULT;
    CHECK(dl_remove_tree(dir, &err), "%s", err.message);
}

/* ---- Tests ---- */

static void test_ordinary_life(void) {
    dl_error err = {0};
    int warnings;
    clear();
    CHECK(load("last", NULL) == 0); /* no directory: start anew */
    CHECK(save(1, 0, true, 2, &err) && save(2, 0, false, 2, &err), "%s", err.message);
    CHECK(load("last", &warnings) == 200 && warnings == 0 && load("best", NULL) == 100);
    CHECK(save(3, 0, false, 2, &err) && save(4, 0, false, 2, &err));
    CHECK(exists("step-00000001") && !exists("step-00000002") && exists("step-00000003") &&
          load("last", NULL) == 400);
    CHECK(save(5, 0, true, 2, &err));
    CHECK(!exists("step-00000001") && !exists("step-00000003") && exists("step-00000004") &&
          load("best", NULL) == 500);
    CHECK(save(5, 1, false, 2, &err) && load("last", NULL) == 501 && !exists("step-00000005.old"),
          "%s", err.message);
    /* Gone back to step 2: what came later belongs to a future given up. The best stays until there
     * is a better. */
    CHECK(save(3, 2, false, 2, &err) && load("last", NULL) == 302 && !exists("step-00000004") &&
          load("best", NULL) == 501);
    CHECK(mkdir(dl_format(arena, "%s/step-00000009.tmp", dir), 0755) == 0);
    CHECK(save(4, 3, false, 1, &err) && !exists("step-00000009.tmp") && load("last", NULL) == 403);
    dlr_checkpoint *c;
    CHECK(dlr_checkpoint_open(dir, "last", NULL, &c, &err) == DLR_CHECKPOINT_LOADED);
    CHECK(!dlr_checkpoint_part_file(c, "scaler", &err) && err.code == DL_INPUT &&
          strstr(err.message, "scaler"));
    dlr_checkpoint_close(c);
    /* Content that could not be read back is refused before it replaces anything. */
    dlr_state_value twice[] = {{.key = "a", .kind = DLR_STATE_INT},
                               {.key = "a", .kind = DLR_STATE_INT}};
    dlr_checkpoint_content bad = {.state = {.iteration = 7, .values = twice, .n_values = 2},
                                  .keep = 1};
    err = (dl_error){0};
    CHECK(!dlr_checkpoint_save(dir, &bad, &err) && strstr(err.message, "twice"), "%s", err.message);
    CHECK(load("last", NULL) == 403 && !exists("step-00000007.tmp"));
}

/* Flips every bit of every file of the newest checkpoint (under sanitizers, some): found each time,
 * and the previous one taken. */
static void test_damage(void) {
    dl_error err = {0};
    clear();
    CHECK(save(1, 0, false, 2, &err) && save(2, 0, false, 2, &err));
    for (int k = 0; k < count_files(); k++) {
        const char *path = dl_format(arena, "%s/%s", dir, file_of("step-00000002", k));
        int fd = open(path, O_RDWR), missed = 0, warnings = 0;
        struct stat st;
        CHECK(fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 30);
        for (off_t bit = 0; bit < 8 * st.st_size; bit++) {
            unsigned char c, flipped;
            if (!dl_test_takes_cheap((unsigned)bit)) continue;
            CHECK(pread(fd, &c, 1, bit / 8) == 1);
            flipped = (unsigned char)(c ^ 1 << bit % 8);
            CHECK(pwrite(fd, &flipped, 1, bit / 8) == 1);
            missed += load("last", &warnings) != 100 || warnings != 1;
            CHECK(pwrite(fd, &c, 1, bit / 8) == 1);
        }
        CHECK(missed == 0, "%d flips of %s not found", missed, path);
        CHECK(load("last", &warnings) == 200 && warnings == 0);
        CHECK(ftruncate(fd, st.st_size - 1) == 0 && load("last", NULL) == 100);
        close(fd);
        CHECK(unlink(path) == 0 && load("last", NULL) == 100);
        CHECK(save(2, 0, false, 2, &err) && load("last", NULL) == 200);
    }
    CHECK(dl_remove_tree(dl_format(arena, "%s/step-00000002", dir), &err) &&
          load("last", NULL) == 100);
    int warnings = 0;
    CHECK(unlink(dl_format(arena, "%s/last", dir)) == 0 && load("last", &warnings) == 100 &&
          warnings == 1);
    CHECK(unlink(dl_format(arena, "%s/step-00000001/state.json", dir)) == 0 &&
          load("last", NULL) == -1);
}

/* The same in a checkpoint of 1.2 MB, at random places of the data. */
static void test_flips(int flips) {
    dlr_rng random = dlr_rng_at((dlr_rng_place){.seed = 12, .stream = DLR_STREAM_NOISE});
    dl_error err = {0};
    int missed = 0, warnings = 0;
    N = MANY;
    clear();
    CHECK(save(1, 0, false, 2, &err) && save(2, 0, false, 2, &err));
    for (int i = 0; i < flips; i++) {
        const char *path =
            dl_format(arena, "%s/%s", dir, file_of("step-00000002", i % (sharded ? 4 : 2)));
        struct stat st;
        int fd = open(path, O_RDWR);
        CHECK(fd >= 0 && fstat(fd, &st) == 0);
        off_t at = (off_t)dlr_rng_below(&random, (uint32_t)st.st_size);
        unsigned char c, flipped;
        CHECK(pread(fd, &c, 1, at) == 1);
        flipped = (unsigned char)(c ^ 1 << dlr_rng_below(&random, 8));
        CHECK(pwrite(fd, &flipped, 1, at) == 1);
        dlr_checkpoint *read = NULL;
        missed += dlr_checkpoint_open(dir, "last", NULL, &read, &err) != DLR_CHECKPOINT_LOADED ||
                  read->state.iteration != 1 || read->n_warnings != 1 ||
                  !strstr(read->warnings[0], "checksum");
        dlr_checkpoint_close(read);
        CHECK(pwrite(fd, &c, 1, at) == 1);
        close(fd);
    }
    CHECK(missed == 0, "%d of %d flips not found", missed, flips);
    CHECK(load("last", &warnings) == 200 && warnings == 0);
    N = FEW;
}

/* Every failing call of the reader: what it gives is whole, of this step or the one before, or an
 * error. It is never "nothing there", which would start a run anew over them. */
static int test_failing_reads(fault_kind kind) {
    dl_error err = {0};
    clear();
    CHECK(save(1, 0, true, 2, &err) && save(2, 0, false, 2, &err));
    for (int k = 1;; k++) {
        int warnings = 0;
        fault.kind = kind, fault.at = k, atomic_store(&fault.calls, 0), fault.reads = true;
        dlr_checkpoint *c = NULL;
        err = (dl_error){0};
        dlr_checkpoint_outcome outcome = dlr_checkpoint_open(dir, "last", NULL, &c, &err);
        int calls = fault.calls;
        fault.kind = NO_FAULT, fault.reads = false;
        int found = c && is_whole(c) ? (int)c->state.iteration : 0;
        warnings = c ? c->n_warnings : 0;
        dlr_checkpoint_close(c);
        if (calls < k) return k - 1;
        CHECK(outcome != DLR_CHECKPOINT_NONE &&
                  (outcome == DLR_CHECKPOINT_FAILED) == (err.code != DL_OK),
              "read %d: outcome %d, %s", k, outcome, err.message);
        CHECK(outcome == DLR_CHECKPOINT_FAILED || (found == 2 && warnings <= 1) ||
                  (found == 1 && warnings >= 1),
              "read %d: step %d with %d warnings", k, found, warnings);
        CHECK(kind == FAIL_ON || outcome == DLR_CHECKPOINT_LOADED ||
                  strstr(err.message, "cannot read directory"),
              "read %d: one failure is no end: %s", k, err.message);
    }
}

/* The steps of a run: saves, one step three times, the best among them replaced. */
enum { STORY = 6 };
static struct {
    int step, version;
    bool best;
} story[STORY] = {{1, 0, true},  {2, 0, false}, {2, 1, true},
                  {2, 2, false}, {3, 0, false}, {4, 0, false}};

static int id(int i) { return i < 0 ? 0 : 100 * story[i].step + story[i].version; }

/* After `done` saves and a broken one: the last committed or the one that broke loads; life goes
 * on. */
static void check_survival(const char *what, int point, int done, int keep) {
    dl_error err = {0};
    int warnings = 0, last = load("last", &warnings), best = load("best", NULL);
    fault.kind = NO_FAULT;
    for (int i = 0; i < STORY; i++) {
        const char *name = dl_format(arena, "step-%08d", story[i].step);
        bool whole = true;
        for (int k = 0; k < count_files(); k++) whole = whole && exists(file_of(name, k));
        CHECK(whole || !exists(name), "%s %d: half of %s", what, point, name);
    }
    CHECK(last == id(done - 1) || (done < STORY && last == id(done)),
          "%s %d: %d saves done, 'last' loads %d", what, point, done, last);
    CHECK(best >= 0, "%s %d: best loads %d", what, point, best);
    CHECK(save(7, 0, false, keep, &err) && load("last", &warnings) == 700 && warnings == 0,
          "%s %d: %s", what, point, err.message);
    best = load("best", &warnings);
    CHECK(best > 0 && (done == 0 || warnings == 0), "%s %d: best loads %d with %d warnings", what,
          point, best, warnings);
    for (int i = 0; i < STORY; i++) {
        const char *name = dl_format(arena, "step-%08d", story[i].step);
        CHECK(!exists(dl_format(arena, "%s.tmp", name)) &&
                  !exists(dl_format(arena, "%s.old", name)),
              "%s %d: leftovers of %s", what, point, name);
    }
}

/* Kills a writer before its k-th system call, for every k until it gets through; under sanitizers,
 * which see nothing of who is killed, for some. */
static int test_kills(int keep) {
    int *done = mmap(NULL, sizeof *done, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int k = 1;; k++) {
        if (!dl_test_takes_cheap((unsigned)k)) continue;
        clear();
        *done = 0;
        pid_t child = fork();
        if (child == 0) {
            dl_error err = {0};
            fault.kind = KILL, fault.at = k, atomic_store(&fault.calls, 0);
            for (int i = 0;
                 i < STORY && save(story[i].step, story[i].version, story[i].best, keep, &err); i++)
                *done = i + 1;
            _exit(err.code);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        if (WIFEXITED(status)) {
            CHECK(WEXITSTATUS(status) == 0 && *done == STORY);
            munmap(done, sizeof *done);
            return k - 1;
        }
        check_survival("killed at", k, *done, keep);
    }
}

/* The same with failing calls, in this process, so that a sanitizer sees leaks: there of one call
 * in four. */
static int test_failures(fault_kind kind, int keep) {
    for (int k = 1;; k++) {
        if (!dl_test_fast() && ((unsigned)k + dl_test_draw()) % 4) continue;
        dl_error err = {0};
        clear();
        fault.kind = kind, fault.at = k, atomic_store(&fault.calls, 0);
        int done = 0;
        while (done < STORY &&
               save(story[done].step, story[done].version, story[done].best, keep, &err))
            done++;
        fault.kind = NO_FAULT;
        if (fault.calls < k) return k - 1;
        CHECK(done < STORY && err.code == DL_IO && strstr(err.message, "error"), "call %d: %d '%s'",
              k, done, err.message);
        check_survival(kind == FAIL_ONCE ? "failed once at" : "failed from", k, done, keep);
    }
}

/* Another story: steps that come once or again, or the best among them. */
static void make_story(dlr_rng *random) {
    for (int i = 1; i < STORY; i++) {
        bool again = dlr_rng_below(random, 3) == 0;
        story[i].step = story[i - 1].step + !again;
        story[i].version = again ? story[i - 1].version + 1 : 0;
        story[i].best = dlr_rng_below(random, 2) == 0;
    }
}

/* All of it, in the form that `sharded` says. */
static void test_all(bool at_length, dlr_rng *random) {
    test_ordinary_life();
    test_damage();
    test_flips(at_length ? 100000 : dl_test_fast() ? 500 : 50);
    int points = test_failing_reads(FAIL_ONCE) + test_failing_reads(FAIL_ON),
        wanted = at_length        ? 10000
                 : dl_test_fast() ? 1000
                                  : 0;
    CHECK(points > 20);
    for (int keep = 1; points < wanted || keep <= 2; keep = keep % 3 + 1) {
        points += test_kills(keep);
        points += test_failures(FAIL_ONCE, keep);
        points += test_failures(FAIL_ON, keep);
        if (keep == 2) make_story(random);
    }
    printf("%d crash and failure points%s\n", points, sharded ? ", of several ranks' files" : "");
}

int main(int argc, char **argv) {
    bool at_length = argc > 1 && strcmp(argv[1], "long") == 0;
    dlr_rng random = dlr_rng_at((dlr_rng_place){.seed = 10, .stream = DLR_STREAM_NOISE});
    arena = dl_arena_new(NULL);
    /* Thousands of small directories: in memory where there is such a place. */
    root =
        dl_format(arena, "%s/dl_test_XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    CHECK(mkdtemp(root) != NULL);
    dir = dl_format(arena, "%s/run/checkpoints", root);
    for (int i = 0; i < 2; i++) {
        sharded = i == 1;
        test_all(at_length, &random);
    }
    test_two_readers();
    clear();
    dl_error err = {0};
    CHECK(dl_remove_tree(root, &err));
    dl_arena_free(arena);
    return dl_test_end();
}

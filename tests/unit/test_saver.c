/* Checkpoints that are written while the run goes on: what is written is the copy, faults come to
 * the loop, and wherever the process dies, a whole checkpoint is there.
 *
 * test_saver [long]     long: every crash point of more saves, and 5,000 kills at random instants
 */
#include "tests/unit/faulty_calls.h"

#include <sys/mman.h>
#include <sys/wait.h>

#include "compiler/session.h"
#include "ir/base/clock.h"
#include "ir/base/dirs.h"
#include "ir/base/input.h"
#include "ir/base/str.h"
#include "runtime/base/rng.h"
#include "runtime/exec/exec.h"
#include "runtime/exec/state.h"
#include "runtime/formats/log.h"
#include "runtime/train/run.h"
#include "tests/check.h"

static dl_arena *arena;
static const char *folder;
static const dl_plan *plan;
static bool sharded; /* checkpoints in files that ranks write, of which there is one here */

/* ---- a job that is not waited for ---- */

typedef struct {
    int runs;
    bool ok;
} errand;

static bool run_errand(void *context, dl_error *err) {
    errand *e = context;
    while (atomic_load(&fault.sleeps)) usleep(100);
    e->runs++;
    return e->ok || dl_fail(err, DL_IO, "errand %d", e->runs);
}

static void test_background(void) {
    dl_error err = {0};
    dlr_background *b = dlr_background_open(&err);
    CHECK(b, "%s", err.message);
    errand e = {.ok = true};
    double seconds = -1;
    CHECK(!dlr_background_busy(b) && dlr_background_wait(b, &seconds, &err) && seconds == 0);
    for (int i = 0; i < 100; i++) {
        e.ok = i % 3 != 0;
        atomic_store(&fault.sleeps, true);
        dlr_background_start(b, run_errand, &e);
        CHECK(dlr_background_busy(b) && e.runs == i);
        atomic_store(&fault.sleeps, false);
        err = (dl_error){0};
        CHECK(dlr_background_wait(b, &seconds, &err) == e.ok && e.runs == i + 1 && seconds > 0);
        CHECK(e.ok ? err.code == DL_OK
                   : err.code == DL_IO &&
                         strcmp(err.message, dl_format(arena, "errand %d", i + 1)) == 0);
        err = (dl_error){0};
        CHECK(dlr_background_wait(b, NULL, &err), "a fault is told once");
    }
    dlr_background_start(b, run_errand, &e);
    dlr_background_close(b); /* waits */
    CHECK(e.runs == 101);
    dlr_background_close(NULL);
}

/* ---- a run whose weights say which step it is at ---- */

typedef struct {
    dlr_train_options o;
    dlr_rundir dir;
    dlr_run r;
} stage;

static float number(int64_t step, int64_t element) { return (float)(step * 1000 + element % 997); }

/* All that outlives a step becomes the step's. */
static void make_step(dlr_run *r, int64_t step) {
    static float values[1 << 16];
    r->at.iteration = step;
    r->at.epoch = step, r->at.position = 0;
    for (int i = 0; i < plan->vars.n; i++) {
        const dl_plan_var *v = &plan->vars.at[i];
        int64_t n = dl_type_count(&v->type);
        if (!dlr_tensors_keeps(v)) continue;
        CHECK(n <= (int64_t)(sizeof values / sizeof *values));
        for (int64_t k = 0; k < n; k++) values[k] = number(step, k);
        dlr_state_write(r->exec, (dlr_view){.type = &v->type, .offset = v->offset}, DL_F32, values);
    }
}

static bool open_stage(stage *s, const char *name, bool async, dl_error *err) {
    *s = (stage){.dir = {.lock = -1}};
    if (!dlr_rundir_open(arena, dl_format(arena, "%s/%s", folder, name), &s->dir, err))
        return false;
    dlr_exec *e = dlr_exec_open(plan, (dlr_exec_options){.threads = 1}, err);
    if (!e) return false;
    s->o = (dlr_train_options){.exec = e,
                               .dir = &s->dir,
                               .checkpoints = {.async = async, .sharded = sharded, .keep = 2},
                               .log = {.hyperparams = "a: 1\n"}};
    s->r = (dlr_run){.o = &s->o,
                     .arena = dl_arena_new(NULL),
                     .exec = e,
                     .at = {.best_loss = INFINITY},
                     .rate = {.o = &s->o.rate},
                     .stopper = {.o = &s->o.stop},
                     .logger = {.o = &s->o.log, .dir = &s->dir, .ranks = &s->o.ranks}};
    s->r.logger.arena = s->r.arena;
    dlr_best_begin(&s->r.best, &s->o.best, s->r.arena);
    s->r.checkpointer = (dlr_checkpointer){.o = &s->o.checkpoints,
                                           .dir = s->dir.checkpoints,
                                           .exec = e,
                                           .ranks = &s->o.ranks,
                                           .sinks = &s->r.logger.sinks,
                                           .arena = s->r.arena};
    dlr_metrics *metrics = dlr_metrics_open(s->dir.metrics, 0, NULL, err);
    if (metrics) dlr_sinks_add_metrics(s->r.arena, &s->r.logger.sinks, metrics);
    dlr_tensorboard *board = metrics ? dlr_tensorboard_open(s->dir.board, 0, err) : NULL;
    if (board) dlr_sinks_add_board(s->r.arena, &s->r.logger.sinks, board);
    return board && dlr_checkpointer_open(&s->r.checkpointer, err);
}

static void close_stage(stage *s) {
    dlr_checkpointer_close(&s->r.checkpointer);
    dl_error none = {0};
    dlr_logger_close(&s->r.logger, true, &none);
    dlr_exec_close(s->o.exec);
    dl_arena_free(s->r.arena);
    dlr_rundir_close(&s->dir);
}

static bool part_is_of(const dlr_checkpoint *c, const char *name, int64_t step) {
    dl_error err = {0};
    const dlr_st_file *f = dlr_checkpoint_part_file(c, name, &err);
    for (int i = 0; f && i < f->n; i++) {
        const dlr_st_tensor *t = &f->tensors[i];
        int64_t n = (int64_t)(t->bytes / dlr_st_dtype_size(t->dtype));
        float *values = DL_NEWS(arena, float, n + 1);
        if (t->dtype != DLR_ST_F32) continue; /* counts */
        if (!dlr_st_load_f32(f, t, values, &err)) return false;
        for (int64_t k = 0; k < n; k++)
            if (values[k] != number(step, k)) return false;
    }
    return f != NULL;
}

/* The step of the newest checkpoint of a run; 0: none, -1: it cannot be loaded, -2: it is torn. */
static int64_t newest(const char *name, int *warnings) {
    dl_error err = {0};
    dlr_checkpoint *c;
    const char *dir = dl_format(arena, "%s/%s/checkpoints", folder, name);
    dlr_checkpoint_outcome outcome = dlr_checkpoint_open(dir, "last", NULL, &c, &err);
    if (outcome != DLR_CHECKPOINT_LOADED) return outcome == DLR_CHECKPOINT_NONE ? 0 : -1;
    int64_t step = c->state.iteration;
    if (!part_is_of(c, "model", step) || !part_is_of(c, "optimizer", step)) step = -2;
    if (warnings) *warnings = c->n_warnings;
    dlr_checkpoint_close(c);
    return step;
}

/* Between steps, until the one under way is there or has failed. */
static bool go_on(dlr_run *r, dl_error *err) {
    while (r->checkpointer.saving) {
        while (dlr_background_busy(r->checkpointer.thread)) usleep(50);
        if (!dlr_checkpointer_check(&r->checkpointer, err)) return false;
    }
    return true;
}

/* The file has what was copied, whatever the run does meanwhile; and it waits for nothing but
 * that. */
static void test_copy(void) {
    dl_error err = {0};
    stage s;
    CHECK(open_stage(&s, "copy", true, &err) && dl_make_dirs(s.dir.checkpoints, 0755, &err), "%s",
          err.message);
    for (int64_t step = 1; step <= 20; step++) {
        make_step(&s.r, step);
        atomic_store(&fault.sleeps, true); /* nothing becomes durable */
        CHECK(dlr_run_save(&s.r, step == 3, &err), "%s", err.message);
        CHECK(newest("copy", NULL) == step - 1 && dlr_checkpointer_check(&s.r.checkpointer, &err) &&
              s.r.checkpointer.saving);
        make_step(&s.r, step + 100);
        s.r.steps.seconds = 17, s.r.at.best_loss = 3;
        atomic_store(&fault.sleeps, false);
        if (!sharded) /* the next save takes it in */
            while (step % 2 && dlr_background_busy(s.r.checkpointer.thread)) usleep(50);
        else if (step % 2)
            CHECK(go_on(&s.r, &err), "%s", err.message);
        if (step % 2 == 0) CHECK(dlr_checkpointer_wait(&s.r.checkpointer, &err), "%s", err.message);
        CHECK(newest("copy", NULL) == step);
    }
    CHECK(dlr_run_save(&s.r, false, &err) && dlr_checkpointer_wait(&s.r.checkpointer, &err) &&
          newest("copy", NULL) == 120);
    CHECK(s.r.checkpointer.n == 21 && s.r.checkpointer.wrote > 0 && s.r.checkpointer.copied > 0);
    close_stage(&s);
}

/* The same checkpoint, byte for byte, as one that the run waits for. */
static void test_same_files(void) {
    static const char *const whole[] = {"model.safetensors", "optimizer.safetensors", "state.json"};
    static const char *const parts[] = {"model-00001-of-00001.safetensors",
                                        "optimizer-00001-of-00001.safetensors", "state.json"};
    const char *const *files = sharded ? parts : whole;
    dl_error err = {0};
    for (int async = 0; async < 2; async++) {
        stage s;
        CHECK(open_stage(&s, async ? "after" : "at_once", async, &err), "%s", err.message);
        make_step(&s.r, 5);
        CHECK(dlr_run_save(&s.r, true, &err) && dlr_checkpointer_wait(&s.r.checkpointer, &err),
              "%s", err.message);
        close_stage(&s);
    }
    for (int i = 0; i < 3; i++) {
        size_t n[2] = {0};
        char *text[2];
        for (int async = 0; async < 2; async++)
            text[async] = dl_read_file(arena,
                                       dl_format(arena, "%s/%s/checkpoints/step-00000005/%s",
                                                 folder, async ? "after" : "at_once", files[i]),
                                       1 << 24, &n[async], &err);
        CHECK(text[0] && text[1] && n[0] == n[1] && memcmp(text[0], text[1], n[0]) == 0, "%s",
              files[i]);
    }
}

/* Every failing call of the writer: the loop is told between two steps, once, and the one before
 * stays. */
static int test_failures(fault_kind kind) {
    for (int k = 1;; k++) {
        dl_error err = {0};
        stage s;
        const char *name = dl_format(arena, "failing%d_%d", kind, k);
        CHECK(open_stage(&s, name, true, &err), "%s", err.message);
        make_step(&s.r, 1);
        CHECK(dlr_run_save(&s.r, false, &err) && dlr_checkpointer_wait(&s.r.checkpointer, &err),
              "%s", err.message);
        make_step(&s.r, 2);
        atomic_store(&fault.calls, 0);
        fault.at = k, fault.kind = kind;
        bool begun = dlr_run_save(&s.r, false,
                                  &err), /* the copy alone, or with it the folder for all */
            ok = begun && go_on(&s.r, &err);
        CHECK(begun || sharded, "%s", err.message);
        int calls = atomic_load(&fault.calls);
        fault.kind = NO_FAULT;
        CHECK(ok == (calls < k) && (ok || err.code == DL_IO), "call %d: %s", k, err.message);
        int64_t step = newest(name, NULL);
        CHECK(step == 2 || (!ok && step == 1), "call %d: step %lld loads", k, (long long)step);
        err = (dl_error){0};
        CHECK(dlr_checkpointer_wait(&s.r.checkpointer, &err), "told once");
        make_step(&s.r, 3);
        CHECK(dlr_run_save(&s.r, false, &err) && dlr_checkpointer_wait(&s.r.checkpointer, &err) &&
                  newest(name, NULL) == 3,
              "call %d: life goes on: %s", k, err.message);
        close_stage(&s);
        CHECK(dl_remove_tree(dl_format(arena, "%s/%s", folder, name), &err));
        if (calls < k) return k - 1;
    }
}

/* A run in a process of its own that saves after each step, until it is killed or done. */
static int *saved; /* steps whose checkpoint was written, as that process knew */

static pid_t start_child(const char *name, int64_t first, int64_t steps, int kill_at) {
    pid_t child = fork();
    if (child != 0) return child;
    dl_error err = {0};
    stage s;
    if (!open_stage(&s, name, true, &err)) _exit(1);
    atomic_store(&fault.calls, 0);
    fault.at = kill_at, fault.kind = kill_at ? KILL : NO_FAULT;
    for (int64_t step = first; step < first + steps; step++) {
        make_step(&s.r, step);
        if (!dlr_run_save(&s.r, false, &err)) _exit(2);
        *saved = (int)step - 1;
    }
    if (!dlr_checkpointer_wait(&s.r.checkpointer, &err)) _exit(3);
    *saved = (int)(first + steps - 1);
    close_stage(&s);
    _exit(0);
}

static void check_survival(const char *name, const char *what, int number, int64_t last) {
    int warnings = 0;
    int64_t step = newest(name, &warnings);
    CHECK(step >= *saved && step <= last, "%s %d: %d saved, step %lld loads", what, number, *saved,
          (long long)step);
}

/* Killed in front of the k-th system call of all threads, for every k; under sanitizers, which see
 * nothing of who is killed, for some. */
static int test_crash_points(int64_t steps) {
    for (int k = 1;; k++) {
        if (!dl_test_takes_cheap((unsigned)k)) continue;
        dl_error err = {0};
        const char *name = "crash";
        *saved = 0;
        int status = 0;
        pid_t child = start_child(name, 1, steps, k);
        CHECK(waitpid(child, &status, 0) == child);
        bool done = WIFEXITED(status);
        CHECK(!done || WEXITSTATUS(status) == 0, "exit %d", WEXITSTATUS(status));
        check_survival(name, "killed at call", k, steps);
        CHECK(dl_remove_tree(dl_format(arena, "%s/%s", folder, name), &err), "%s", err.message);
        if (done) return k - 1;
    }
}

/* Killed at any instant, again and again, each going on from where the one before was. */
static void test_random_kills(int kills) {
    dlr_rng random = dlr_rng_at((dlr_rng_place){.seed = 3, .stream = DLR_STREAM_NOISE});
    int64_t at = 0;
    int inside = 0; /* kills that came while it was at work */
    for (int i = 0; i < kills; i++) {
        int status = 0, before = *saved = (int)at;
        pid_t child = start_child("random", at + 1, 1 << 20, 0);
        double began = dl_clock_seconds(); /* let some begin, and some work */
        while (i % 2 && *(volatile int *)saved < before + 2 && dl_clock_seconds() - began < 60)
            usleep(100);
        usleep(dlr_rng_below(&random, 8000));
        kill(child, SIGKILL);
        CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status), "kill %d: status %d", i,
              status);
        inside += *saved > at;
        check_survival("random", "kill", i, INT64_MAX);
        int64_t now = newest("random", NULL);
        CHECK(now >= at, "kill %d: step %lld, %lld before", i, (long long)now, (long long)at);
        at = now;
    }
    CHECK(inside >= kills / 3, "%d of %d kills came while it saved", inside, kills);
}

static const dl_plan *compile_small(dl_error *err) {
    char *argv[] = {"test", "--model=tests/data/small.dl", "--data_size=8", "--local_batch_size=1",
                    NULL};
    dl_config *c = dl_config_open(arena, 4, argv, NULL, err);
    dl_session *s = c ? dl_session_open(arena, c, 1, NULL, err) : NULL;
    dl_compile_options opt;
    return s && dl_session_options(s, NULL, &opt, err) ? dl_session_compile(s, &opt, err) : NULL;
}

static void test_all(bool at_length) {
    test_copy();
    test_same_files();
    int points = test_failures(FAIL_ONCE) + test_failures(FAIL_ON);
    CHECK(points > 20);
    points += test_crash_points(at_length ? 40 : 4);
    printf("%d crash and failure points%s\n", points, sharded ? ", of several files" : "");
    test_random_kills(at_length ? 5000 : dl_test_share() == 1 ? 500 : dl_test_fast() ? 150 : 30);
}

int main(int argc, char **argv) {
    bool at_length = argc > 1 && strcmp(argv[1], "long") == 0;
    dl_error err = {0};
    arena = dl_arena_new(NULL);
    plan = compile_small(&err);
    CHECK(plan, "%s", err.message);
    /* Thousands of small directories: in memory where there is such a place. */
    char *root =
        dl_format(arena, "%s/dl_test_XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    CHECK(mkdtemp(root) != NULL);
    folder = root;
    saved = mmap(NULL, sizeof *saved, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (plan) {
        test_background();
        for (int i = 0; i < 2; i++) {
            sharded = i == 1;
            test_all(at_length);
            CHECK(dl_remove_tree(folder, &err) && dl_make_dirs(folder, 0755, &err), "%s",
                  err.message);
        }
    }
    CHECK(dl_remove_tree(folder, &err), "%s", err.message);
    munmap(saved, sizeof *saved);
    dl_arena_free(arena);
    return dl_test_end();
}

/* The parts of a run: the device's learning rate against the formula, what feeds it, its directory,
 * its signals, its pictures. Whole runs are tests/e2e/check_dlrun.py. */
#include "ir/base/dirs.h"
#include "ir/base/input.h"
#include "ir/base/output.h"
#include "tests/check.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/session.h"
#include "runtime/exec/exec.h"
#include "runtime/exec/state.h"
#include "runtime/report/figures.h"
#include "runtime/train/feed.h"
#include "runtime/train/run.h"
#include "runtime/train/state_values.h"
#include "tests/unit/plan_fixture.h"

static char folder[] = "/tmp/dl_train_XXXXXX";
static dl_arena *arena;

/* tests/data/small.dl, compiled; its executor. */
static dlr_exec *open_small(dl_error *err) {
    char *argv[] = {"test", "--model=tests/data/small.dl", "--data_size=8", "--local_batch_size=2",
                    NULL};
    dl_config *c = dl_config_open(arena, 4, argv, NULL, err);
    dl_session *s = c ? dl_session_open(arena, c, 1, NULL, err) : NULL;
    dl_compile_options opt;
    if (!s || !dl_session_options(s, NULL, &opt, err)) return NULL;
    opt.keep_gradients = true;
    dl_plan *p = dl_session_compile(s, &opt, err);
    return p ? dlr_exec_open(p, (dlr_exec_options){.threads = 2}, err) : NULL;
}

static void fill(float *at, size_t n, unsigned seed) {
    for (size_t i = 0; i < n; i++)
        at[i] = (float)((seed = seed * 1664525 + 1013904223) >> 8) / (float)(1 << 24) - 0.5f;
}

static bool open_feed(dlr_feed *feed, dlr_exec *e, dl_error *err) {
    dlr_arrays takes = {0};
    return dlr_feed_arrays(e, &takes, err) && dlr_feed_open(feed, e, &takes, err);
}

static void feed_noise(const dlr_feed *feed) {
    static float x[2 * 4 * 8 * 8 * 8], t[2 * 5 * 8 * 8 * 8];
    fill(x, sizeof x / sizeof *x, 1), fill(t, sizeof t / sizeof *t, 2);
    dlr_arrays arrays = {0};
    dl_error err = {0};
    CHECK(dlr_feed_arrays(feed->exec, &arrays, &err), "%s", err.message);
    dlr_feed_batch(feed, &(dlr_batch){.arrays = &arrays, .data = (void *[]){x, t}});
}

/* The rate as the plan works it out is the formula's, through warm-up and cosine; and the same
 * steps are run again after a new start. */
static void test_device_rate(dlr_exec *e) {
    dl_error err = {0};
    dlr_schedule schedule = {.start_lr = 1e-3,
                             .end_lr = 1e-5,
                             .scaling = "linear",
                             .warmup_steps = 4,
                             .global_batch = 8,
                             .base_batch = 4,
                             .steps = 12,
                             .epoch_steps = 12};
    dlr_rates rates;
    dlr_feed feed;
    int train = dlr_exec_program(e, "train");
    dlr_view rate = dlr_exec_result(e, train, DL_RESULT_METRIC, "Learning Rate");
    dlr_view loss = dlr_exec_result(e, train, DL_RESULT_LOSS, NULL);
    double losses[12];
    CHECK(dlr_schedule_rates(&schedule, &rates, &err) && open_feed(&feed, e, &err), "%s",
          err.message);
    for (int round = 0; round < 2; round++) {
        dlr_start_options o = {.seed = 3};
        CHECK(dlr_start_weights(e, &o, &err), "%s", err.message);
        dlr_start_hypers(e, &o, &rates);
        feed_noise(&feed);
        for (int i = 0; i < 12; i++) {
            dlr_exec_run(e, train, NULL);
            double want = dlr_schedule_rate(&rates, i + 1), got = dlr_scalar(e, rate);
            CHECK_NEAR(got, want, 1e-15);
            if (round == 0) losses[i] = dlr_scalar(e, loss);
            CHECK(dlr_scalar(e, loss) == losses[i], "step %d: %.17g, then %.17g", i, losses[i],
                  dlr_scalar(e, loss));
        }
    }
    CHECK(losses[11] < losses[0], "it learns: %g to %g", losses[0], losses[11]);
}

/* Tensors out to a file and back: the same bytes; a file of another model: every difference. */
static void test_tensors(dlr_exec *e) {
    dl_error err = {0};
    char path[64], odd[64];
    snprintf(path, sizeof path, "%s/w.safetensors", folder),
        snprintf(odd, sizeof odd, "%s/odd.safetensors", folder);
    dlr_tensors model = dlr_tensors_of_model(arena, e),
                optimizer = dlr_tensors_of_optimizer(arena, e);
    dlr_tensors gradients = dlr_tensors_of_gradients(arena, e, dlr_exec_program(e, "train"));
    CHECK(model.n == 4 && optimizer.n == 2 * 4 + 1 && gradients.n == 4, "%d %d %d", model.n,
          optimizer.n, gradients.n);
    dlr_st_content content = dlr_tensors_content(&model);
    CHECK(dlr_st_write(path, &content, NULL, &err), "%s", err.message);
    float before[8], after[8];
    dlr_view bias = dlr_exec_variable(e, "down.bias");
    dlr_state_read(e, bias, DL_F32, before);
    CHECK(before[0] != 0); /* it was trained */
    CHECK(dlr_state_init(e, 4, &err) && dlr_tensors_load_file(&model, path, &err), "%s",
          err.message);
    dlr_state_read(e, bias, DL_F32, after);
    CHECK(memcmp(before, after, sizeof before) == 0);

    dlr_st_tensor few[] = {
        {.name = "module.down.bias", .dtype = DLR_ST_F32, .rank = 1, .shape = {8}, .data = after},
        {.name = "stray", .dtype = DLR_ST_F32, .rank = 1, .shape = {1}, .data = after}};
    content = (dlr_st_content){.tensors = few, .n = 2};
    CHECK(dlr_st_write(odd, &content, NULL, &err) && !dlr_tensors_load_file(&model, odd, &err));
    CHECK(err.code == DL_INPUT && strstr(err.message, "up.weight") &&
              strstr(err.message, "stray") && !strstr(err.message, "down.bias"),
          "%s", err.message);
}

/* The plan's arrays and the data set's must be the same. */
static void test_feed(dlr_exec *e) {
    dl_error err = {0};
    dlr_arrays takes = {0};
    dlr_feed feed;
    CHECK(dlr_feed_arrays(e, &takes, &err) && takes.n == 2, "%s", err.message);
    CHECK_STR(takes.at[0].name, "x");
    CHECK_STR(dl_type_text(&takes.at[1].type), "f32[C=5, D=8, H=8, W=8]");
    CHECK(takes.at[1].is_target && dlr_feed_open(&feed, e, &takes, &err), "%s", err.message);
    CHECK(dlr_feed_first(&feed, DL_VAR_INPUT) == 0 && dlr_feed_first(&feed, DL_VAR_TARGET) == 1 &&
          dlr_feed_first(&feed, DL_VAR_PARAM) == -1);
    for (int i = 0; i < 4; i++) {
        dlr_arrays gives = takes;
        if (i == 0) gives.at[0].type.axis[1].size = 16;
        if (i == 1) gives.at[0].type.dtype = DL_I32;
        if (i == 2) gives.at[0].name = "z";
        if (i == 3) gives.n = 1;
        err = (dl_error){0};
        CHECK(!dlr_feed_open(&feed, e, &gives, &err) && err.code == DL_INPUT, "%d: %s", i,
              err.message);
    }
}

static void test_directory(void) {
    dl_error err = {0};
    const char *path = dl_format(arena, "%s/short/1GPU/07", folder);
    dlr_rundir dir, other;
    CHECK(dlr_rundir_open(arena, path, &dir, &err), "%s", err.message);
    CHECK(strcmp(dir.path + strlen(folder), "/short/1GPU/07") == 0, "%s", dir.path);
    CHECK(!dlr_rundir_open(arena, path, &other, &err) && err.code == DL_USAGE &&
              strstr(err.message, dir.path),
          "%s", err.message);
    err = (dl_error){0};
    const char *kept = "";
    CHECK(dlr_rundir_set_aside(arena, &dir, &kept, &err) && !kept);
    CHECK(dl_write_file(dir.log, "log", 3, &err));
    CHECK(dlr_rundir_set_aside(arena, &dir, &kept, &err) && !kept, "a log is no run");
    for (int i = 1; i <= 12; i++) { /* as often as one likes, and each run has what was its own */
        const char *number = dl_format(arena, "%d", i), *run = dl_format(arena, "07.%d", i);
        if (i == 5) CHECK(dl_remove_tree(dl_format(arena, "%s.2", dir.path), &err));
        CHECK(mkdir(dir.checkpoints, 0777) == 0);
        CHECK(
            dl_write_file(dl_format(arena, "%s/x", dir.checkpoints), number, strlen(number), &err));
        CHECK(i % 2 == 0 || dl_write_file(dir.metrics, number, strlen(number), &err));
        CHECK(dlr_rundir_set_aside(arena, &dir, &kept, &err) && kept, "%s", err.message);
        CHECK_STR(kept, run);
        CHECK(access(dir.checkpoints, F_OK) != 0 && access(dir.metrics, F_OK) != 0 &&
              access(dir.log, F_OK) == 0);
        for (int k = 1; k <= i; k++) {
            if (k == 2 && i >= 5) continue;
            size_t n;
            const char *was = dl_read_file(
                arena, dl_format(arena, "%s.%d/checkpoints/x", dir.path, k), 10, &n, &err);
            CHECK(was && atoi(was) == k, "run %d of %d: %s", k, i, err.message);
        }
    }
    CHECK(access(dl_format(arena, "%s.3/metrics.jsonl", dir.path), F_OK) == 0 &&
          access(dl_format(arena, "%s.4/metrics.jsonl", dir.path), F_OK) != 0);
    dlr_rundir_close(&dir);
    CHECK(dlr_rundir_open(arena, path, &dir, &err), "the lock is given back: %s", err.message);
    dlr_rundir_close(&dir);
}

/* The k-th rename fails; 0: none does. */
static int failing_rename;
int rename(const char *from, const char *to) {
    if (failing_rename > 0 && --failing_rename == 0) return errno = EIO, -1;
    return (int)syscall(SYS_rename, from, to);
}

/* A rerun that is stopped at any of its moves, which is where a crash can fall: every file of the
 * earlier run is somewhere, once, and the next rerun takes the rest. */
static void test_directory_stopped(void) {
    static const char *const names[] = {"checkpoints",  "metrics.jsonl",  "logs",
                                        "wandb",        "prediction.png", "hyperparams.yaml",
                                        "profile.json", "profile.txt",    "kernels"};
    enum { NAMES = sizeof names / sizeof *names };
    for (int k = 1; k <= NAMES + 1; k++) {
        dl_error err = {0};
        const char *path = dl_format(arena, "%s/stopped/1GPU/%d", folder, k);
        dlr_rundir dir;
        const char *kept;
        CHECK(dlr_rundir_open(arena, path, &dir, &err), "%s", err.message);
        for (int i = 0; i < NAMES; i++)
            CHECK(mkdir(dl_format(arena, "%s/%s", dir.path, names[i]), 0777) == 0);
        failing_rename = k;
        bool ok = dlr_rundir_set_aside(arena, &dir, &kept, &err);
        failing_rename = 0;
        CHECK(ok == (k > NAMES) && (ok || err.code == DL_IO), "%d: %s", k, err.message);
        for (int round = 0; round < 2; round++) {
            for (int i = 0; i < NAMES; i++) {
                int found = 0;
                static const char *const places[] = {"", ".1", ".2"};
                for (int p = 0; p < 3; p++)
                    found += access(dl_format(arena, "%s%s/%s", dir.path, places[p], names[i]),
                                    F_OK) == 0;
                CHECK(found == 1, "stopped at %d: %s is there %d times", k, names[i], found);
            }
            err = (dl_error){0};
            if (round == 0)
                CHECK(dlr_rundir_set_aside(arena, &dir, &kept, &err), "%s", err.message);
        }
        CHECK(access(dir.checkpoints, F_OK) != 0 && access(dir.hyperparams, F_OK) != 0);
        dlr_rundir_close(&dir);
    }
}

/* Each row has its panels; a row that is `like` another one has its colours: equal data, equal
 * pixels. */
static void test_figures(dlr_exec *e) {
    dl_error err = {0};
    static float x[2 * 4 * 8 * 8 * 8], t[2 * 5 * 8 * 8 * 8];
    fill(x, sizeof x / sizeof *x, 1), fill(t, sizeof t / sizeof *t, 2);
    const dl_type *input = dlr_exec_variable(e, "x").type, *target = dlr_exec_variable(e, "t").type;
    dl_type flat = dl_scalar(DL_F32);
    CHECK(dlr_figure_can_show(input) && !dlr_figure_can_show(&flat));
    dlr_figure_row rows[] = {{"input", input, x + dlr_figure_plane(input, 0), 8 * 8 * 8, -1},
                             {"", target, t + dlr_figure_plane(target, 0), 8 * 8 * 8, -1},
                             {"", target, t + dlr_figure_plane(target, 0), 8 * 8 * 8, 1}};
    dlr_image *image = dlr_figure_rows(arena, rows, 3, &err);
    CHECK(image && image->width > 5 * 100 && image->height > 3 * 100, "%s", err.message);

    const char *name;
    dlr_feed feed;
    int eval = dlr_exec_program(e, "eval");
    CHECK(open_feed(&feed, e, &err));
    feed_noise(&feed);
    dlr_exec_run(e, eval, NULL);
    image = dlr_figure_of_model(arena, e, eval, 0, &name, &err);
    CHECK(image && image->width > 2 * image->height - 64, "two panels side by side: %s",
          err.message);
    CHECK_STR(name, "temperature");
    CHECK(!dlr_figure_of_model(arena, e, eval, 1, &name, &err) && err.code == DL_OK,
          "and no second figure");
}

/* The K best of validations next to all of them sorted: of equal ones the later comes first, and
 * what is not finite is none. */
static void test_best(void) {
    enum { NOTED = 9 };
    static const double losses[NOTED] = {3, 1, NAN, 2, 1, INFINITY, 2, 1, 3};
    static const int64_t least[] = {8, 5, 2, 7, 4, 9, 1}, largest[] = {9, 1, 7, 4, 8, 5, 2};
    for (int most = 0; most < 2; most++)
        for (int keep = 1; keep <= NOTED; keep++) {
            dlr_best_options o = {.largest = most, .keep = keep};
            dlr_best b;
            dlr_best_begin(&b, &o, arena);
            for (int i = 0; i < NOTED; i++) dlr_best_note(&b, losses[i], NULL, i + 1);
            const int64_t *want = most ? largest : least;
            CHECK(b.n == (keep < 7 ? keep : 7) && dlr_best_is(&b, want[0]), "%d of %d", b.n, keep);
            for (int i = 0; i < b.n; i++)
                CHECK(b.list[i].step == want[i] && b.list[i].value == losses[want[i] - 1],
                      "place %d: step %lld, not %lld", i, (long long)b.list[i].step,
                      (long long)want[i]);
        }
}

/* How far a run by steps goes, next to counting its steps one by one from anywhere: epochs are as
 * long as the data, but the last; one that is resumed within ends where it would have ended. */
static void test_length(void) {
    for (int64_t steps = 1; steps <= 20; steps++)
        for (int64_t batches = 1; batches <= 6; batches++) {
            dlr_stopper_options o = {.steps = steps};
            int64_t epoch = 0, begin = 0, epochs = (steps + batches - 1) / batches;
            for (int64_t made = 0; made < steps; made++) {
                if (made - begin == batches) epoch++, begin = made;
                dlr_state at = {.epoch = epoch, .iteration = made, .position = made - begin};
                int64_t end = begin + batches < steps ? begin + batches : steps;
                CHECK(dlr_stopper_epoch_steps(&o, &at, batches) == end - begin,
                      "step %lld of %lld by %lld", (long long)made, (long long)steps,
                      (long long)batches);
                CHECK(dlr_stopper_epochs(&o, &at, batches) == epochs &&
                      !dlr_stopper_is_done(&o, &at));
            }
        }
}

/* A file's i64 for the model's i32: the ends of i32 are read, and the numbers next to them are
 * refused. */
static void test_whole_numbers(void) {
    static const int64_t held[][3] = {
        {INT32_MIN, 0, INT32_MAX}, {0, 0, INT32_MAX + 1LL}, {0, INT32_MIN - 1LL, 0}};
    dl_error err = {0};
    dl_plan *p = new_plan(64);
    add_var(p, DL_VAR_PARAM, "k", type_of(DL_I32, (dl_layout){0}, 1, (int64_t[]){3}),
            (dl_init){DL_INIT_CONST, 0, 0}, 0);
    dlr_exec *e = dlr_exec_open(p, (dlr_exec_options){.threads = 1}, &err);
    CHECK(e, "%s", err.message);
    if (!e) return;
    dlr_tensors model = dlr_tensors_of_model(arena, e);
    for (int k = 0; k < 3; k++) {
        const char *path = dl_format(arena, "%s/whole%d.safetensors", folder, k);
        dlr_st_tensor t = {
            .name = "k", .dtype = DLR_ST_I64, .rank = 1, .shape = {3}, .data = held[k]};
        dlr_st_content content = {.tensors = &t, .n = 1};
        int64_t got[3] = {1, 1, 1};
        CHECK(dlr_st_write(path, &content, NULL, &err), "%s", err.message);
        int n = 0;
        dlr_differences others = {0};
        bool taken = dlr_tensors_load_shared(arena, &model, path, &others, &n, &err) && n == 1;
        dlr_state_read(e, dlr_exec_variable(e, "k"), DL_I64, got);
        CHECK(k ? !taken && err.code == DL_INPUT && strstr(err.message, "'k' holds") &&
                      strstr(err.message, "which is no i32")
                : taken && memcmp(got, held[0], sizeof got) == 0,
              "%d: %s", k, err.message);
        err = (dl_error){0};
    }
    dlr_exec_close(e);
    dl_arena_free(p->arena);
}

/* A plateau's state goes through a checkpoint; with another first rate its reduced one is the same
 * part of that. */
static void test_plateau_state(void) {
    const dlr_plateau_options plateau = DLR_PLATEAU_DEFAULTS;
    const dlr_learning_rate_options o = {.plateau = &plateau};
    const dlr_learning_rate r = {.o = &o,
                                 .rates = {.init = 0.25},
                                 .plateau = {.best = 0.5, .bad = 3, .waiting = 2, .rate = 0.0625}};
    dlr_state_list list = {0};
    dlr_learning_rate_put_state(&r, arena, &list);
    const dlr_checkpoint c = {.state = {.values = list.at, .n_values = list.n}};
    for (double init = 0.25; init <= 0.5; init *= 2) {
        dlr_learning_rate back = {.o = &o, .rates = {.init = init}};
        dlr_learning_rate_restore(&back, &c);
        CHECK(back.plateau.best == 0.5 && back.plateau.bad == 3 && back.plateau.waiting == 2 &&
                  back.plateau.rate == init / 4,
              "from %g: %g, %lld bad, %lld to wait, rate %g", init, back.plateau.best,
              (long long)back.plateau.bad, (long long)back.plateau.waiting, back.plateau.rate);
    }
}

/* Means leave out steps that were skipped, keep their value when they are weighed anew, and go
 * through a checkpoint with the newest values. */
static void test_averages(void) {
    dlr_average terms[] = {{.name = "a", .sum = 6, .last = 1.5, .skipped = 1},
                           {.name = "b", .sum = 2, .last = 0.25}},
                others[2] = {{.name = "a"}, {.name = "b"}};
    dlr_averages a = {.terms = terms, .n = 2, .batches = 4}, back = {.terms = others, .n = 2};
    dlr_state_list list = {0};
    CHECK(dlr_averages_mean(&a, 0) == 2 && dlr_averages_mean(&a, 1) == 0.5, "%g, %g",
          dlr_averages_mean(&a, 0), dlr_averages_mean(&a, 1));
    dlr_averages_weigh(&a, 8);
    CHECK(dlr_averages_mean(&a, 0) == 2 && dlr_averages_mean(&a, 1) == 0.5 && a.batches == 8 &&
              terms[0].sum == 16 && terms[1].sum == 4,
          "%g of %g", terms[0].sum, a.batches);
    dlr_averages_put_state(&a, arena, &list);
    const dlr_checkpoint c = {.state = {.values = list.at, .n_values = list.n}};
    dlr_averages_restore(&back, &c);
    CHECK(back.batches == 8 && others[0].sum == 16 && others[1].sum == 4 && others[0].last == 1.5 &&
              others[1].last == 0.25,
          "%g of %g, %g", others[0].sum, back.batches, others[0].last);
}

int main(void) {
    dl_error err = {0};
    arena = dl_arena_new(NULL);
    CHECK(mkdtemp(folder) != NULL);
    dlr_exec *e = open_small(&err);
    CHECK(e != NULL, "%s", err.message);
    if (e) {
        test_device_rate(e);
        test_feed(e);
        test_tensors(e);
        test_figures(e);
    }
    dlr_exec_close(e);
    test_whole_numbers();
    test_plateau_state();
    test_averages();
    test_directory();
    test_directory_stopped();
    test_best();
    test_length();
    CHECK(dl_remove_tree(folder, &err), "%s", err.message);
    dl_arena_free(arena);
    return dl_test_end();
}

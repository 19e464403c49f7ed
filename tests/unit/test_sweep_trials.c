/* trials.jsonl: who takes which trial, what becomes of one that is handed back or left, names that
 * are taken, a line that a crash tore at any byte, lines that are no events, many processes at
 * once. */
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ir/base/dirs.h"
#include "ir/base/input.h"
#include "ir/base/output.h"
#include "ir/base/str.h"
#include "runtime/sweep/sweep_trials.h"
#include "tests/check.h"

static char dir[] = "/tmp/dl_trials_XXXXXX";
static dl_arena *arena;

/* Two trials of each name. */
static void make(const void *of, dl_arena *a, const dlr_trials *past, int64_t number,
                 const char *given, const char **name, const char **values) {
    (void)of, (void)past, (void)given;
    *name = dl_format(a, "a%lld", (long long)number / 2);
    *values = dl_format(a, "{\"a\": %lld}", (long long)number);
}
static const dlr_trial_maker maker = {.trials = 4, .make = make, .prefix = "base_"};

static const char *sweep(const char *name) {
    dl_error err = {0};
    const char *path = dl_format(arena, "%s/%s", dir, name);
    CHECK(dl_make_dirs(path, 0777, &err), "%s", err.message);
    return path;
}

/* Its number; the folder stays locked. */
static int64_t take(const char *of, dlr_trial *t, dlr_rundir *run) {
    dl_error err = {0};
    *run = (dlr_rundir){.lock = -1};
    CHECK(dlr_trials_take(arena, of, &maker, false, t, run, &err), "%s", err.message);
    return t->number;
}

static dlr_trials all_of(const char *of) {
    dl_error err = {0};
    dlr_trials all;
    CHECK(dlr_trials_read(arena, of, "loss", false, &all, &err), "%s", err.message);
    return all;
}

static void end(const char *of, const dlr_trial *t, dlr_rundir *run, int status) {
    dl_error err = {0};
    dlr_trial_result r = {.any = true, .last = 0.25, .best = 0.125, .best_epoch = 3, .epochs = 5};
    int64_t ended;
    CHECK(dlr_trials_end(of, t, status, false, status ? "why" : NULL, &r, &ended, &err), "%s",
          err.message);
    dlr_trials all = all_of(of);
    CHECK(ended == dlr_trials_ended(&all), "%lld", (long long)ended);
    dlr_rundir_close(run);
}

static void test_turns(void) {
    const char *s = sweep("turns");
    dlr_trial a, b, c, d, e;
    dlr_rundir ra, rb, rc, rd, re;
    dl_error err = {0};
    CHECK(all_of(s).list.n == 0 && access(dl_format(arena, "%s/trials.jsonl", s), F_OK) != 0,
          "reading made a file");
    CHECK(take(s, &a, &ra) == 0 && take(s, &b, &rb) == 1, " ");
    CHECK_STR(a.run, "base_a0");
    CHECK_STR(b.run, "base_a0_t1"); /* the name is taken */
    CHECK_STR(b.values, "{\"a\": 1}");
    end(s, &a, &ra, DL_REQUEUE);
    CHECK(dlr_trials_take(arena, s, &maker, true, &c, NULL, &err) && c.number == 0, "looking: %lld",
          (long long)c.number);
    CHECK(take(s, &c, &rc) == 0 && c.taken == 1 && c.lost == 0, "what is handed back comes first");
    CHECK_STR(c.run, "base_a0");
    end(s, &c, &rc, DL_OK);
    dlr_rundir_close(&rb); /* as the kernel does with who is killed */
    CHECK(take(s, &b, &rb) == 1 && b.lost == 1, " ");
    end(s, &b, &rb, DL_NUMERIC);
    CHECK(take(s, &d, &rd) == 2 && take(s, &e, &re) == 3 && take(s, &c, &rc) == -1,
          "two are held, no more are left");
    dlr_trials all = all_of(s);
    CHECK(all.list.n == 4 && all.list.at[0].state == DLR_TRIAL_DONE &&
              all.list.at[1].state == DLR_TRIAL_FAILED,
          " ");
    CHECK(all.list.at[1].status == DL_NUMERIC && strcmp(all.list.at[1].why, "why") == 0 &&
              !all.list.at[1].held,
          " ");
    CHECK(all.list.at[2].held && all.list.at[2].state == DLR_TRIAL_TAKEN &&
              all.list.at[0].taken == 2,
          " ");
    const dlr_trial_result *r = &all.list.at[0].result;
    CHECK(r->any && r->last == 0.25 && r->best == 0.125 && r->best_epoch == 3 && r->epochs == 5,
          " ");
    /* Lost again and again it comes last, and by an error that may not be its own it fails in the
     * end. */
    dlr_rundir_close(&rd);
    for (int i = 1; i < DLR_TRIAL_LOST; i++) {
        CHECK(take(s, &d, &rd) == 2, " ");
        dlr_rundir_close(&rd);
    }
    dlr_rundir_close(&re);
    CHECK(take(s, &e, &re) == 3, "one that was lost less often first");
    CHECK(take(s, &d, &rd) == 2 && d.lost == DLR_TRIAL_LOST, "%d", d.lost);
    end(s, &e, &re, DL_IO);
    CHECK(take(s, &e, &re) == 3, "handed back for another try");
    end(s, &e, &re, DL_IO);
    CHECK(all_of(s).list.at[3].state == DLR_TRIAL_FAILED, " ");
    end(s, &d, &rd, DL_OK);
    CHECK(take(s, &a, &ra) == -1, " ");
}

/* A trial that a program outside asked for is nobody's else; one that was added is the next. */
static void test_outside(void) {
    const char *s = sweep("outside");
    dlr_trial a, b, c;
    dlr_rundir run;
    dl_error err = {0};
    CHECK(dlr_trials_add(arena, s, &maker, DLR_TRIAL_ASKED, NULL, &a, &err) && a.number == 0, "%s",
          err.message);
    CHECK(dlr_trials_add(arena, s, &maker, DLR_TRIAL_RETURNED, NULL, &b, &err) && b.number == 1,
          "%s", err.message);
    dlr_trials all = all_of(s);
    CHECK(all.list.n == 2 && all.list.at[0].state == DLR_TRIAL_ASKED &&
              all.list.at[1].state == DLR_TRIAL_RETURNED && all.list.at[1].taken == 0,
          " ");
    CHECK(take(s, &c, &run) == 1 && c.lost == 0, "the added one, not the asked one");
    CHECK_STR(c.values, "{\"a\": 1}");
    end(s, &c, &run, DL_OK);
    dlr_trial_result r = {.any = true, .last = 0.5, .best = 0.5};
    int64_t ended;
    CHECK(dlr_trials_end(s, &a, DL_OK, true, NULL, &r, &ended, &err) && ended == 2, "%s",
          err.message);
    all = all_of(s);
    CHECK(all.list.at[0].state == DLR_TRIAL_STOPPED && all.list.at[0].result.best == 0.5, " ");
    CHECK(take(s, &c, &run) == 2, "one that is over is not taken again");
    dlr_rundir_close(&run);
    CHECK(dlr_trials_add(arena, s, &maker, DLR_TRIAL_ASKED, NULL, &a, &err) && a.number == 3, " ");
    CHECK(dlr_trials_add(arena, s, &maker, DLR_TRIAL_ASKED, NULL, &a, &err) && a.number == -1,
          "none is left");
}

/* A crash at any byte of an event: what was whole stays, and what is taken next is whole, too. */
static void test_torn(void) {
    const char *s = sweep("torn"), *path = dl_format(arena, "%s/trials.jsonl", s);
    dlr_trial t;
    dlr_rundir run;
    dl_error err = {0};
    size_t one, two;
    take(s, &t, &run), end(s, &t, &run, DL_OK);
    const char *whole = dl_read_file(arena, path, 1 << 20, &one, &err);
    take(s, &t, &run), end(s, &t, &run, DL_OK);
    whole = dl_read_file(arena, path, 1 << 20, &two, &err);
    size_t taken = (size_t)(strchr(whole + one, '\n') + 1 - whole);
    for (size_t cut = one; cut < two; cut++) {
        CHECK(dl_write_file(path, whole, cut, &err), "%s", err.message);
        CHECK(all_of(s).list.n == (cut < taken ? 1 : 2), "cut at %zu", cut);
        CHECK(take(s, &t, &run) == 1 && t.taken == (cut >= taken), "cut at %zu: %lld", cut,
              (long long)t.number);
        dlr_rundir_close(&run);
        dlr_trials all = all_of(s);
        CHECK(all.list.n == 2 && all.list.at[0].state == DLR_TRIAL_DONE &&
                  all.list.at[1].state == DLR_TRIAL_TAKEN,
              " ");
    }
    const char *faults[] = {"{\"trial\": 0}\n",
                            "no JSON\n",
                            "{\"trial\": 9, \"event\": \"done\"}\n",
                            "{\"trial\": -1, \"event\": \"taken\"}\n",
                            "\n",
                            ("{\"trial\": 5, \"event\": \"taken\", \"name\": \"a\", \"run\": "
                             "\"../a\", \"values\": {}}\n")};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const char *text = dl_format(arena, "%.*s%s", (int)one, whole, faults[i]);
        dlr_trials all;
        CHECK(dl_write_file(path, text, strlen(text), &err), "%s", err.message);
        CHECK(!dlr_trials_read(arena, s, NULL, false, &all, &err) && err.code == DL_INPUT &&
                  strstr(err.message, "trials.jsonl:3:1: error: this is no event of a trial"),
              "%s: %s", faults[i], err.message);
        err = (dl_error){0};
    }
    /* A line less, as that message proposes: the number that is missing is made again. */
    const char *second = strchr(strchr(whole, '\n') + 1, '\n') + 1;
    CHECK(dl_write_file(path, second, strlen(second), &err), "%s", err.message);
    CHECK(take(s, &t, &run) == 0, "%lld", (long long)t.number);
    dlr_rundir_close(&run);
}

static void make_many(const void *of, dl_arena *a, const dlr_trials *past, int64_t number,
                      const char *given, const char **name, const char **values) {
    make(of, a, past, 2 * number, given, name, values);
}

/* Processes that take and end as fast as they can, the first of whom makes the file: every trial
 * once. */
static void check_many(int round) {
    enum { PROCESSES = 6, TRIALS = 10 };
    const char *s = sweep(dl_format(arena, "many%d", round));
    const dlr_trial_maker many = {.trials = TRIALS, .make = make_many, .prefix = ""};
    for (int i = 0; i < PROCESSES; i++)
        if (fork() == 0) {
            for (;;) {
                dl_error err = {0};
                dlr_trial t;
                dlr_rundir run = {.lock = -1};
                dlr_trial_result r = {0};
                int64_t ended;
                if (!dlr_trials_take(arena, s, &many, false, &t, &run, &err)) _exit(1);
                if (t.number < 0) _exit(0);
                if (!dlr_trials_end(s, &t, DL_OK, false, NULL, &r, &ended, &err)) _exit(1);
                dlr_rundir_close(&run);
            }
        }
    for (int i = 0, status; i < PROCESSES; i++)
        CHECK(wait(&status) > 0 && status == 0, "%d", status);
    dlr_trials all = all_of(s);
    CHECK(all.list.n == TRIALS, "%d", all.list.n);
    for (int i = 0; i < all.list.n; i++)
        CHECK(all.list.at[i].state == DLR_TRIAL_DONE && all.list.at[i].taken == 1,
              "trial %d: %d times", i, all.list.at[i].taken);
}

static void test_measure(void) {
    const char *path = dl_format(arena, "%s/metrics.jsonl", dir);
    const char *text = "{\"epoch\": 0, \"loss\": 3}\n{\"epoch\": 1, \"loss\": 1.5}\n{\"epoch\": 2, "
                       "\"loss\": null}\n"
                       "{\"epoch\": 3, \"loss\": 2}\n{\"epo";
    dl_error err = {0};
    dlr_trial_result r;
    CHECK(dl_write_file(path, text, strlen(text), &err) &&
              dlr_trial_measure(path, "loss", false, &r, &err),
          " ");
    CHECK(r.any && r.last == 2 && r.best == 1.5 && r.best_epoch == 1 && r.epochs == 3, " ");
    CHECK(dlr_trial_measure(path, "loss", true, &r, &err) && r.best == 3 && r.best_epoch == 0, " ");
    CHECK(dlr_trial_measure(path, "none", true, &r, &err) && !r.any && r.epochs == 3, " ");
}

int main(void) {
    arena = dl_arena_new(NULL);
    if (!mkdtemp(dir)) return 1;
    test_turns();
    test_outside();
    test_torn();
    enum { ROUNDS = 8 };
    for (int i = 0; i < ROUNDS; i++) check_many(i);
    test_measure();
    dl_error err = {0};
    if (!dl_remove_tree(dir, &err)) printf("%s\n", err.message);
    dl_arena_free(arena);
    return dl_test_end();
}

/* The steps that verify judges: optimisers and schedules are in order under the compiler's own
 * pass; and one that was built by other options, begins with another number, or is tampered with,
 * is found and named. */
#include "tests/unit/judged.h"

static dl_verdict judge_updates(dl_arena *arena, const dl_step_options *built,
                                const dl_step_options *meant, way *w) {
    dl_verdict v = {0};
    dl_error err = {0};
    w->step_options = built;
    dl_verify_run run = {.passes = judged_passes, .user = w};
    CHECK(dl_verify_updates(arena, meant, &run, &v, &err), "%s", err.message);
    return v;
}

/* Options that shape a step, by bits. */
static dl_step_options options_of(int optimizer, int schedule, unsigned bits) {
    return (dl_step_options){.optimizer = (dl_optimizer)optimizer,
                             .schedule = (dl_schedule)(schedule % 6),
                             .phases = 0x54321, /* one of each kind */
                             .momentum = bits & 1,
                             .nesterov = bits & 1 && bits & 2,
                             .dampens = bits & 4,
                             .amsgrad = bits & 2,
                             .maximize = bits & 8,
                             .centered = bits & 2,
                             .decay = bits & 4,
                             .decay_vectors = bits & 8,
                             .clip = bits & 16,
                             .clip_value = (bits + (unsigned)optimizer) % 5 == 0,
                             .accumulator = bits & 1 ? 0.25 : 0,
                             .norms = bits & 16,
                             .ranges = 3,
                             .low = bits & 32 ? DL_F16 : DL_F32};
}

/* Every optimiser with every option that shapes it, and every schedule. */
static void test_updates(void) {
    int n = 0;
    for (int o = 0; o < DL_OPT_NONE; o++)
        for (unsigned bits = 0; bits < 64; bits++) {
            dl_arena *arena = dl_arena_new(NULL);
            dl_step_options r = options_of(o, n++, bits);
            way plain = {0};
            dl_verdict v = judge_updates(arena, &r, &r, &plain);
            CHECK(v.faults.n == 0 && v.judged.updates > 100, "%s, options %u: %s",
                  dl_optimizers[o].name, bits, v.faults.n ? v.faults.at[0] : "too few are judged");
            dl_arena_free(arena);
        }
}

/* Steps that were built by other options. */
static void test_recipes(void) {
    static const struct {
        dl_step_options built, meant;
        const char *what, *named;
    } cases[] = {
        {{.optimizer = DL_OPT_adam, .decay = true},
         {.optimizer = DL_OPT_adamw, .decay = true},
         "decay",
         "weight"},
        {{.optimizer = DL_OPT_sgd, .momentum = true},
         {.optimizer = DL_OPT_sgd, .momentum = true, .nesterov = true},
         "look ahead",
         "weight"},
        {{.optimizer = DL_OPT_sgd}, {.optimizer = DL_OPT_sgd, .clip = true}, "clipping", "weight"},
        {{.optimizer = DL_OPT_sgd, .decay = true},
         {.optimizer = DL_OPT_sgd, .decay = true, .decay_vectors = true},
         "decay of vectors",
         "bias"},
        {{.optimizer = DL_OPT_sgd, .schedule = DL_SCHEDULE_cosine},
         {.optimizer = DL_OPT_sgd, .schedule = DL_SCHEDULE_warmup_cosine},
         "the cosine's step",
         "Learning Rate"},
        {{.optimizer = DL_OPT_rmsprop},
         {.optimizer = DL_OPT_rmsprop, .centered = true},
         "centring",
         "grad_avg"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_arena *arena = dl_arena_new(NULL);
        way plain = {0};
        dl_verdict v = judge_updates(arena, &cases[i].built, &cases[i].meant, &plain);
        judged_found(&v, cases[i].what, cases[i].named);
        dl_arena_free(arena);
    }
}

/* Every number that a step begins with, off by a hundredth: named, whatever the optimiser and the
 * schedule, even if the steps do not depend on it. Only Rprop's first sizes are of no account. */
static void test_starts(void) {
    int found = 0;
    for (int o = 0; o < DL_OPT_NONE; o++)
        for (int skip = 0, more = true; more; skip++) {
            dl_arena *arena = dl_arena_new(NULL);
            dl_step_options r = options_of(o, o + skip, 63);
            way w = {.after = "lower,autodiff,optimizer", .starts = true, .skip = skip};
            dl_verdict v = judge_updates(arena, &r, &r, &w);
            more = w.applied;
            if (more && strncmp(w.altered, "step_size.", 10) != 0)
                judged_found(&v, w.altered, dl_format(arena, "'%s' begins as", w.altered)), found++;
            dl_arena_free(arena);
        }
    CHECK(found > 300, "%d numbers", found);
}

/* Every hyperparameter that a step reads as another number: each has an effect on the steps that
 * are compared. But for the end of the range of epochs that ends last: its factor stays. */
static void test_hypers(void) {
    int found = 0;
    for (int o = 0; o < DL_OPT_NONE; o++)
        for (unsigned schedule = 0; schedule < 6; schedule++)
            for (int skip = 0, more = true; more; skip++) {
                if (o && schedule != (unsigned)o % 6) break; /* each once */
                dl_arena *arena = dl_arena_new(NULL);
                dl_step_options r = options_of(o, (int)schedule, 61);
                r.clip_value = true;
                way w = {.after = "lower,autodiff,optimizer", .shifts = true, .skip = skip};
                dl_verdict v = judge_updates(arena, &r, &r, &w);
                more = w.applied;
                if (more && !strstr(w.altered, "lr.range.0.end"))
                    judged_found(&v, dl_format(arena, "%s: %s", dl_optimizers[o].name, w.altered),
                                 "' of step "),
                        found++;
                dl_arena_free(arena);
            }
    CHECK(found > 200, "%d hyperparameters", found);
}

/* A parameter whose norm is zero, or whose gradient is, has the factor 1: with 0 it would never
 * move. */
static bool tamper_factor(dl_graph *g, dl_node *n, bool dry) {
    const dl_node *one = n->op == DL_OP_select ? dl_made_by(n->in[2], DL_OP_const) : NULL;
    if (!one || dl_node_float(one, DL_ATTR_value) != 1) return false;
    if (!dry) dl_node_set(g, (dl_node *)one, dl_attr_float(DL_ATTR_value, 0));
    return true;
}
static void test_zero_norms(void) {
    static const dl_optimizer which[] = {DL_OPT_lamb, DL_OPT_lars};
    for (int i = 0; i < 2; i++) {
        int found = 0;
        bool more = true;
        for (int skip = 0; more; skip++) { /* of each parameter */
            dl_arena *arena = dl_arena_new(NULL);
            dl_step_options r = {.optimizer = which[i]};
            way w = {.after = "lower,autodiff,optimizer", .with = tamper_factor, .skip = skip};
            dl_verdict v = judge_updates(arena, &r, &r, &w);
            more = w.applied;
            found += more && v.faults.n > 0;
            dl_arena_free(arena);
        }
        CHECK(found >= 1, "%s: no zero norm is found", dl_optimizers[which[i]].name);
    }
}

void test_judged_steps(void) {
    test_updates();
    test_recipes();
    test_starts();
    test_hypers();
    test_zero_norms();
}

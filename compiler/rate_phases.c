#include "compiler/rate_phases.h"

#include <string.h>

#include "frontends/yaml/rate_options.h"

/* A course while its phases are added. */
typedef struct {
    dl_arena *arena;
    const dl_config *config;
    const dl_yaml *map; /* its options; NULL: their defaults */
    int course;
    dl_rate_count start; /* of the course, */
    dl_rate_count all;   /* and its length: the rest of the run, where none is given */
    dl_rate_phases *out;
    bool fits;
} course;

static const dl_rate_level first_rate = {1, DL_RATE_OF_START};

static const dl_yaml *option(const course *c, const char *name) {
    return dl_rate_option(c->arena, c->map, c->course, name);
}

static double number(const course *c, const char *name) { return option(c, name)->number; }
static bool is(const course *c, const char *name, const char *word) {
    return strcmp(option(c, name)->text, word) == 0;
}

static dl_rate_count times(dl_rate_count a, double k) {
    return (dl_rate_count){a.share * k, a.plus * k};
}

static dl_rate_count plus(dl_rate_count a, dl_rate_count b, double k) {
    return (dl_rate_count){a.share + k * b.share, a.plus + k * b.plus};
}

static dl_rate_count count(double n) { return (dl_rate_count){0, n}; }

/* A number of steps that an option gives; else `all`. */
static dl_rate_count steps(const course *c, const char *name, dl_rate_count all) {
    const dl_yaml *v = option(c, name);
    return v->kind == DL_YAML_NULL ? all : count(v->number);
}

/* A rate that an option gives; else `otherwise`. */
static dl_rate_level rate(const course *c, const char *name, dl_rate_level otherwise) {
    const dl_yaml *v = option(c, name);
    return v->kind == DL_YAML_NULL ? otherwise : (dl_rate_level){v->number, DL_RATE_SCALED};
}

/* A last rate: as it is, as end_lr, which is the default, is. */
static dl_rate_level least_rate(const course *c, const char *name) {
    const dl_yaml *v = name ? option(c, name) : NULL;
    double end = dl_config_float(c->config, DL_KEY_end_lr);
    return (dl_rate_level){v && v->kind != DL_YAML_NULL ? v->number : end, DL_RATE_PLAIN};
}

static dl_rate_level part(dl_rate_level level, double k) {
    return (dl_rate_level){level.value * k, level.unit};
}

/* Adds a phase that begins `after` the course's start. */
static void add(course *c, dl_rate_count after, dl_rate_phase phase) {
    dl_rate_phases *out = c->out;
    c->fits = c->fits && out->n < DL_MOST_RATE_PHASES;
    if (!c->fits) return;
    phase.start = plus(c->start, after, 1);
    out->phase[out->n++] = phase;
}

static void add_constant(course *c, dl_rate_count after, dl_rate_level level) {
    add(c, after,
        (dl_rate_phase){DL_RATE_PHASE_power, .length = count(1), .from = level, .to = level,
                        .by = 1});
}

/* From one rate to another, on a line or on half a cosine. */
static void add_way(course *c, dl_rate_count after, dl_rate_count length, dl_rate_level from,
                    dl_rate_level to) {
    bool line = is(c, "anneal_strategy", "linear");
    add(c, after,
        (dl_rate_phase){line ? DL_RATE_PHASE_power : DL_RATE_PHASE_cosine, .length = length,
                        .from = from, .to = to, .by = 1});
}

static void build_step(course *c) {
    add(c, count(0),
        (dl_rate_phase){DL_RATE_PHASE_steps, .length = count(number(c, "step_size")),
                        .from = first_rate, .by = number(c, "gamma")});
}

static void build_exponential(course *c) {
    add(c, count(0),
        (dl_rate_phase){DL_RATE_PHASE_steps, .length = count(1), .from = first_rate,
                        .by = number(c, "gamma")});
}

static void build_multistep(course *c) {
    const dl_yaml *at = option(c, "milestones");
    double share = 1;
    add_constant(c, count(0), first_rate);
    for (int i = 0; i < at->items.n; i++) {
        share *= number(c, "gamma");
        add_constant(c, count(at->items.at[i]->number), part(first_rate, share));
    }
}

static void build_polynomial(course *c) {
    add(c, count(0),
        (dl_rate_phase){DL_RATE_PHASE_power, .length = steps(c, "total_iters", c->all),
                        .from = first_rate, .to = part(first_rate, 0), .by = number(c, "power")});
}

static void build_linear(course *c) {
    add(c, count(0),
        (dl_rate_phase){DL_RATE_PHASE_power, .length = steps(c, "total_iters", c->all),
                        .from = part(first_rate, number(c, "start_factor")),
                        .to = part(first_rate, number(c, "end_factor")), .by = 1});
}

static void build_constant(course *c) {
    add_constant(c, count(0), part(first_rate, number(c, "factor")));
}

static void build_cosine(course *c) {
    add(c, count(0),
        (dl_rate_phase){DL_RATE_PHASE_cosine, .length = steps(c, "T_max", c->all),
                        .from = first_rate, .to = least_rate(c, "eta_min")});
}

/* As torch's class: the ways end one step before pct_start of the steps, and at the last step. */
static void build_onecycle(course *c) {
    dl_rate_count all = steps(c, "total_steps", c->all);
    dl_rate_count up = plus(times(all, number(c, "pct_start")), count(1), -1);
    dl_rate_count end = plus(all, count(1), -1);
    dl_rate_level most = rate(c, "max_lr", first_rate);
    dl_rate_level first = part(most, 1 / number(c, "div_factor")),
                  last = part(first, 1 / number(c, "final_div_factor"));
    dl_rate_count down = plus(times(all, 2 * number(c, "pct_start")), count(2), -1);
    bool three = is(c, "three_phase", "true");
    add_way(c, count(0), up, first, most);
    if (three) add_way(c, up, plus(down, up, -1), most, first);
    add_way(c, three ? down : up, plus(end, three ? down : up, -1), three ? first : most, last);
}

static void build_warm_restarts(course *c) {
    add(c, count(0),
        (dl_rate_phase){DL_RATE_PHASE_restarts, .length = count(number(c, "T_0")),
                        .from = first_rate, .to = least_rate(c, "eta_min"),
                        .by = number(c, "T_mult")});
}

static void build_cyclic(course *c) {
    dl_rate_level most = rate(c, "max_lr", first_rate);
    dl_rate_count up = count(number(c, "step_size_up"));
    bool exponential = is(c, "mode", "exp_range");
    add(c, count(0),
        (dl_rate_phase){DL_RATE_PHASE_cycle, .length = up,
                        .from = rate(c, "base_lr", part(most, 0.1)), .to = most,
                        .down = steps(c, "step_size_down", up).plus,
                        .fade = is(c, "mode", "triangular2") ? 0.5 : 1,
                        .by = exponential ? number(c, "gamma") : 1});
}

static void build_wsd(course *c) {
    dl_rate_count fall = steps(c, "decay_steps", times(c->all, 0.2));
    dl_rate_count at = plus(c->all, fall, -1);
    add_constant(c, count(0), first_rate);
    add_way(c, at, fall, first_rate, least_rate(c, NULL));
}

static void build_plateau(course *c) { (void)c; } /* the host's (runtime/train/plateau.h) */

static void (*const builders[])(course *c) = {
#define RATE_COURSE(id, ...) build_##id,
#include "ir/base/rate_phases.def"
};

/* The value of lr_schedule, where it counts. */
static const dl_yaml *schedule_of(const dl_config *c) {
    const dl_yaml *v = dl_config_value(c, DL_KEY_lr_schedule);
    return dl_config_is_null(c, DL_KEY_scheduler) ? v : NULL;
}

/* The only phase's options (or NULL) and its course; -1: it is none, or a list of several. */
static int find_only(const dl_yaml *v, const dl_yaml **map) {
    *map = v && dl_is_rate_phases(v) ? v->items.at[0] : NULL;
    if (*map) return v->items.n == 1 ? dl_rate_course_find(dl_yaml_get(*map, "name")->text) : -1;
    bool own = v && v->kind == DL_YAML_STRING && strcmp(v->text, "cosine") != 0;
    return own ? dl_rate_course_find(v->text) : -1;
}

static bool in_epochs(const dl_yaml *map, int which) {
    const dl_yaml *unit = map ? dl_yaml_get(map, "unit") : NULL;
    const char *text = unit && unit->kind == DL_YAML_STRING ? unit->text
                       : which >= 0                         ? dl_rate_course_unit(which)
                                                            : "step";
    return strcmp(text, "epoch") == 0;
}

bool dl_rate_phases_of(const dl_config *config, dl_rate_phases *phases, dl_error *err) {
    const dl_yaml *v = schedule_of(config), *map;
    int only = find_only(v, &map);
    dl_arena *arena = dl_arena_new(NULL);
    course c = {.arena = arena, .config = config, .out = phases, .fits = true};
    *phases = (dl_rate_phases){.epochs = in_epochs(map, only)};
    for (int i = 0; map ? i < v->items.n : i == 0 && only >= 0; i++) {
        c.map = map ? v->items.at[i] : NULL;
        c.course = map ? dl_rate_course_find(dl_yaml_get(c.map, "name")->text) : only;
        c.all = steps(&c, "length", plus((dl_rate_count){1, 0}, c.start, -1));
        builders[c.course](&c);
        c.start = plus(c.start, c.all, 1);
    }
    dl_arena_free(arena);
    return c.fits || dl_config_fail(config, DL_KEY_lr_schedule, err,
                                    "more than %d phases: a milestone is one, onecycle and wsd are "
                                    "two or three",
                                    DL_MOST_RATE_PHASES);
}

bool dl_rate_plateau_of(const dl_config *config, dl_rate_plateau *plateau) {
    const dl_yaml *map;
    course c = {.config = config};
    c.course = find_only(schedule_of(config), &map), c.map = map;
    if (c.course != DL_COURSE_plateau) return false;
    c.arena = dl_arena_new(NULL);
    *plateau = (dl_rate_plateau){.factor = number(&c, "factor"),
                                 .threshold = number(&c, "threshold"),
                                 .min_lr = number(&c, "min_lr"),
                                 .eps = number(&c, "eps"),
                                 .patience = (int64_t)number(&c, "patience"),
                                 .cooldown = (int64_t)number(&c, "cooldown")};
    dl_arena_free(c.arena);
    return true;
}

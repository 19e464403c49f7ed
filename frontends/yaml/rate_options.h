/* The learning rate's courses in a configuration (ir/base/rate_phases.def): `lr_schedule: NAME`,
 * `{name: NAME, gamma: 0.5}`, or a list of such maps, phases one after another, each but the last
 * of which has a `length`. */
#ifndef DL_RATE_OPTIONS_H
#define DL_RATE_OPTIONS_H
#include "frontends/yaml/yaml_tree.h"

typedef enum {
#define RATE_COURSE(id, ...) DL_COURSE_##id,
#include "ir/base/rate_phases.def"
    DL_N_COURSES
} dl_rate_course;

/* The course of this name in any case of letters, or -1; and its name. */
int dl_rate_course_find(const char *name);
const char *dl_rate_course_name(int course);
/* The unit of its numbers where none is given: "step" or "epoch". */
const char *dl_rate_course_unit(int course);

/* Whether v is a list of phases, which dl_rate_phases_check checks. Errors: located, with the
 * course's own options. */
bool dl_is_rate_phases(const dl_yaml *v);
bool dl_rate_phases_check(dl_arena *arena, const dl_yaml *list, dl_error *err);
/* A map of the section `lr_schedule` whose options of a course are folded into its `name`, as a
 * list of one phase; the map itself where it has none. */
const dl_yaml *dl_rate_fold_options(dl_arena *arena, const dl_yaml *map);

/* An option of a checked phase, or its default; map NULL: all are defaults. */
const dl_yaml *dl_rate_option(dl_arena *arena, const dl_yaml *map, int course, const char *name);
#endif

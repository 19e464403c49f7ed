#include "runtime/setup/array_reader.h"

/* ---- what holds for all arrays ---- */

static bool read_steps(const array_reader *section, dlr_array_dataset_options *o) {
    const dl_yaml *map = dl_yaml_get(section->map, "step");
    if (!map) return true;
    if (map->kind != DL_YAML_MAP)
        return array_refuse(section, "step", map, "a map of axes, as {H: 2, W: 2}");
    array_reader r = {section->arena, map, "data.step", section->err};
    const char **names = DL_NEWS(r.arena, const char *, map->entries.n);
    int64_t *steps = DL_NEWS(r.arena, int64_t, map->entries.n);
    for (int i = 0; i < map->entries.n; i++) {
        names[i] = map->entries.at[i].key;
        if (!array_read_whole(&r, names[i], 1, &steps[i])) return false;
    }
    o->step_axes = (dlr_array_dataset_names){names, map->entries.n}, o->steps = steps;
    return true;
}

static bool read_augmentation(const array_reader *section, dlr_array_dataset_options *o) {
    static const char *const known[] = {"flip", "rotate", "shift", NULL};
    static const char axes[] = "a list of axes of the model";
    const dl_yaml *map = dl_yaml_get(section->map, "augment");
    if (!map || map->kind == DL_YAML_NULL) return true;
    array_reader r = {section->arena, map, "data.augment", section->err};
    if (!array_check_keys(&r, known) || !array_read_names(&r, "flip", axes, &o->flip) ||
        !array_read_names(&r, "rotate", "a list of two or three axes of the model", &o->rotate) ||
        !array_read_names(&r, "shift", axes, &o->shift))
        return false;
    if (o->rotate.n && (o->rotate.n < 2 || o->rotate.n > 3))
        return array_refuse(&r, "rotate", dl_yaml_get(map, "rotate"),
                            "a list of two or three axes of the model");
    return true;
}

/* ---- the split ---- */

static const char *const parts[] = {[DLR_TRAIN] = "train", [DLR_VALID] = "valid"};

static bool is_range(const dl_yaml *v) {
    if (v->kind != DL_YAML_LIST || v->items.n != 2) return false;
    const dl_yaml *a = v->items.at[0], *b = v->items.at[1];
    return a->kind == DL_YAML_INT && b->kind == DL_YAML_INT && a->integer >= 0 &&
           b->integer > a->integer;
}

static bool read_part(const array_reader *r, dlr_split k, const dl_yaml *v,
                      dlr_array_dataset_split *s) {
    static const char allowed[] = "a fraction between 0 and 1, a range [first, end), "
                                  "or files (paths or patterns)";
    if (array_is_number(v) && v->number > 0 && v->number < 1) {
        s->kind = DLR_SPLIT_FRACTION, s->fraction[k] = v->number;
        return true;
    }
    if (is_range(v)) {
        s->kind = DLR_SPLIT_RANGE;
        s->range[k][0] = v->items.at[0]->integer, s->range[k][1] = v->items.at[1]->integer;
        return true;
    }
    s->kind = DLR_SPLIT_FILES;
    return (array_word(v) || v->kind == DL_YAML_LIST)
               ? array_read_names(r, parts[k], allowed, &s->files[k])
               : array_refuse(r, parts[k], v, allowed);
}

/* Which samples go together, and whether their order is drawn. */
static bool read_order(const array_reader *r, dlr_array_dataset_split *s) {
    const dl_yaml *shuffle = dl_yaml_get(r->map, "shuffle"), *gap = dl_yaml_get(r->map, "gap");
    if (shuffle && shuffle->kind != DL_YAML_BOOL &&
        (shuffle->kind != DL_YAML_INT || shuffle->integer < 0))
        return array_refuse(r, "shuffle", shuffle,
                            "true (by the run's seed), false, or a seed of its own, 0 or more");
    if (shuffle && shuffle->kind == DL_YAML_BOOL) s->shuffle = shuffle->truth;
    if (shuffle && shuffle->kind == DL_YAML_INT)
        s->shuffle = s->has_seed = true, s->seed = (uint64_t)shuffle->integer;
    if (!array_read_array(r, "group", &s->group) || !array_read_whole(r, "gap", 1, &s->gap))
        return false;
    const bool drawn = s->shuffle || s->group.files.n;
    const char *what = s->shuffle ? "shuffle" : "group";
    if (drawn && s->kind != DLR_SPLIT_FRACTION)
        return dl_yaml_fail(r->err, r->map->place,
                            "data.split.%s goes with fractions, as {valid: 0.1, %s: ...}", what,
                            what);
    if (gap && (drawn || s->kind == DLR_SPLIT_FILES))
        return dl_yaml_fail(
            r->err, gap->place, "data.split.gap lies between samples in their order: %s has none",
            drawn ? dl_format(r->arena, "with %s, a split", what) : "a split by files");
    return true;
}

static bool read_split(const array_reader *section, dlr_array_dataset_split *s) {
    static const char *const known[] = {"train", "valid", "axis", "shuffle", "group", "gap", NULL};
    const dl_yaml *map = dl_yaml_get(section->map, "split");
    if (!map)
        return dl_yaml_fail(
            section->err, section->map->place,
            "data.split is missing: {valid: 0.1} keeps the last tenth for validation; ranges and "
            "files: docs/guide/data.md");
    array_reader r = {section->arena, map, "data.split", section->err};
    if (!array_check_keys(&r, known)) return false;
    const dl_yaml *given[2] = {dl_yaml_get(map, "train"), dl_yaml_get(map, "valid")},
                  *axis = dl_yaml_get(map, "axis");
    if (!given[DLR_VALID]) return dl_yaml_fail(r.err, map->place, "data.split.valid is missing");
    dlr_array_dataset_split_kind kind[2];
    for (int k = 1; k >= 0; k--) {
        if (given[k] && !read_part(&r, (dlr_split)k, given[k], s)) return false;
        kind[k] = given[k] ? s->kind : kind[1];
    }
    if (kind[0] != kind[1])
        return dl_yaml_fail(
            r.err, map->place,
            "data.split: train and valid are of two kinds (fraction, range, files)");
    if (s->kind == DLR_SPLIT_RANGE && !given[0])
        return dl_yaml_fail(r.err, map->place, "data.split.train is missing: a range [first, end)");
    if (!given[0] && s->kind == DLR_SPLIT_FRACTION)
        s->fraction[DLR_TRAIN] = 1 - s->fraction[DLR_VALID];
    if (s->kind == DLR_SPLIT_FRACTION && s->fraction[0] + s->fraction[1] > 1 + 1e-9)
        return dl_yaml_fail(r.err, map->place,
                            "data.split: train %g and valid %g are more than all", s->fraction[0],
                            s->fraction[1]);
    const int64_t *t = s->range[DLR_TRAIN], *v = s->range[DLR_VALID];
    if (s->kind == DLR_SPLIT_RANGE && t[0] < v[1] && v[0] < t[1])
        return dl_yaml_fail(r.err, map->place,
                            "data.split: the ranges of train and valid have samples in common");
    if (axis && (!array_word(axis) || !*axis->text))
        return array_refuse(&r, "axis", axis, "the name of an axis");
    if (axis) s->axis = axis->text;
    return read_order(&r, s);
}

static bool read_trajectory(const array_reader *section, dlr_array_dataset_trajectory *t) {
    static const char *const known[] = {"sim", "time", "lead", "history", "stride", NULL};
    const dl_yaml *map = dl_yaml_get(section->map, "trajectory"), *lead;
    *t = (dlr_array_dataset_trajectory){.sim = -1, .lead = 1, .history = 1, .stride = 1};
    if (!map) return true;
    array_reader r = {section->arena, map, "data.trajectory", section->err};
    if (!array_check_keys(&r, known)) return false;
    int64_t axis[2] = {-1, -1};
    for (int k = 0; k < 2; k++) {
        const dl_yaml *v = dl_yaml_get(map, known[k]);
        if (v && (v->kind != DL_YAML_INT || v->integer < 0 || v->integer >= DLR_ARRAY_RANK))
            return array_refuse(&r, known[k], v, "the number of an axis of the arrays, from 0");
        if (v) axis[k] = v->integer;
    }
    if (axis[1] < 0)
        return dl_yaml_fail(r.err, map->place,
                            "data.trajectory.time is missing: the number of the axis of times");
    if (axis[0] == axis[1])
        return dl_yaml_fail(r.err, map->place, "data.trajectory: sim and time are one axis");
    lead = dl_yaml_get(map, "lead");
    if (lead && (lead->kind != DL_YAML_INT || lead->integer < 0 || lead->integer > INT32_MAX))
        return array_refuse(&r, "lead", lead, "an integer of at least 0");
    t->given = true, t->sim = (int)axis[0], t->time = (int)axis[1];
    if (lead) t->lead = lead->integer;
    return array_read_whole(&r, "history", 1, &t->history) &&
           array_read_whole(&r, "stride", 1, &t->stride);
}

static bool check_trajectory(const array_reader *r, const dlr_array_dataset_options *o, int n) {
    const dl_yaml *map = dl_yaml_get(r->map, "trajectory");
    if (!o->trajectory.given) return true;
    if (o->split.group.files.n)
        return dl_yaml_fail(r->err, map->place,
                            "data.trajectory: the simulations are the groups of data.split");
    if (o->split.axis || o->split.gap)
        return dl_yaml_fail(r->err, map->place,
                            "data.trajectory: data.split parts simulations, without axis and gap");
    for (int i = 0; i < n; i++)
        if (o->source[i].offset)
            return dl_yaml_fail(r->err, map->place,
                                "data.trajectory: lead says which time is whose target: %s.offset "
                                "goes without it",
                                o->source[i].key);
    return true;
}

bool dl_own_data_options(dl_arena *arena, const dl_yaml *section, const dlr_arrays *arrays,
                         dlr_array_dataset_options *out, dl_error *err) {
    static const char *const known[] = {"inputs", "targets", "split",      "crop",
                                        "step",   "augment", "trajectory", NULL};
    static const char *const crops[] = {"none", "origin", "center", "random"};
    array_reader r = {arena, section, "data", err};
    int crop = 0;
    *out = (dlr_array_dataset_options){0};
    if (!array_check_keys(&r, known) || !array_read_sources(arena, r.map, arrays, out, err))
        return false;
    if (!array_read_word(&r, "crop", "none, origin, center or random", crops, 4, &crop))
        return false;
    out->crop = (dlr_array_dataset_crop)crop;
    if (!read_steps(&r, out) || !read_augmentation(&r, out) || !read_split(&r, &out->split) ||
        !read_trajectory(&r, &out->trajectory) || !check_trajectory(&r, out, arrays->n))
        return false;
    for (int i = 0; i < arrays->n; i++)
        for (int k = 0; k < out->source[i].n_variables; k++)
            if (!out->source[i].variables[k].files.n && out->split.kind != DLR_SPLIT_FILES)
                return dl_yaml_fail(err, r.map->place,
                                    "%s.file is missing (only a split by files stands for it)",
                                    out->source[i].key);
    return true;
}

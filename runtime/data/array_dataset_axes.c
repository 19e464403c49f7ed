/* The axes that arrays share: which are cropped, strided and augmented. */
#include "runtime/data/array_dataset_private.h"

static int64_t step_of(const dlr_array_dataset_options *o, const char *name) {
    for (int i = 0; i < o->step_axes.n; i++)
        if (strcmp(o->step_axes.at[i], name) == 0) return o->steps[i];
    return 1;
}

/* Sets how a sample covers an axis of the files: all of it in its steps, or a crop. */
static bool fit_axis(const array_dataset *w, const dataset_variable *v, dataset_axis *x,
                     dl_error *err) {
    static const char remedy[] = "crop: random, center or origin takes a part";
    const char *name = v->of->to.name;
    const char *in_steps = x->step > 1 ? " in steps" : "";
    if (x->size < 1 || x->extent > INT32_MAX)
        return dataset_fail(v, NULL, err,
                            "%s=%lld of the model's '%s' cannot be taken of its %lld elements",
                            x->name, (long long)x->size, name, (long long)x->extent);
    if ((x->extent + x->step - 1) / x->step == x->size) return true;
    if (x->size > (x->extent + x->step - 1) / x->step)
        return dataset_fail(v, NULL, err,
                            "%s=%lld of the model's '%s' is more than its %lld elements%s", x->name,
                            (long long)x->size, name, (long long)x->extent, in_steps);
    if (w->o->crop == DLR_CROP_NONE)
        return dataset_fail(
            v, NULL, err, "%s=%lld of the model's '%s' is not its %lld elements%s: %s", x->name,
            (long long)x->size, name, (long long)x->extent, x->step > 1 ? " in steps" : "", remedy);
    x->crop = w->o->crop;
    return true;
}

/* Finds the axis among those that arrays share; adds a new one where name, size or extent
 * differ. */
static int share(array_dataset *w, dataset_axis x) {
    for (int i = 0; i < w->axes.n; i++) {
        const dataset_axis *y = &w->axes.at[i];
        if (strcmp(x.name, y->name) == 0 && x.size == y->size && x.extent == y->extent) return i;
    }
    dl_push(w->arena, &w->axes, x);
    return w->axes.n - 1;
}

static bool share_axes_of(array_dataset *w, dataset_array *a, const dataset_variable *v,
                          dl_error *err) {
    for (int j = 0; j < v->rank; j++) {
        int m = v->axis[j];
        if (m < 0 || j == v->channel) continue;
        const dl_axis *t = &a->to.type.axis[m];
        int64_t extent = v->files.at[0].dims[j];
        dataset_axis x = {.name = t->name,
                          .size = t->size,
                          .extent = extent,
                          .step = step_of(w->o, t->name),
                          .high = extent};
        if (!fit_axis(w, v, &x, err)) return false;
        int shared = share(w, x);
        if (a->shared[m] >= 0 && a->shared[m] != shared)
            return dataset_fail(v, NULL, err, "axis %s has %lld elements in '%.100s': not the same",
                                t->name, (long long)w->axes.at[a->shared[m]].extent,
                                a->variables.at[0].from.array);
        a->shared[m] = shared;
    }
    return true;
}

/* The shared axis of that name. There must be one for all arrays where samples are drawn along
 * it. */
static int find_shared(const array_dataset *w, const char *key, const char *name, dl_error *err) {
    int found = -1;
    dl_buf all = {0};
    for (int i = 0; i < w->axes.n; i++) {
        const dataset_axis *x = &w->axes.at[i];
        dl_putf(&all, "%s%s", i ? ", " : "", x->name);
        if (strcmp(x->name, name) != 0) continue;
        if (found >= 0) {
            const dataset_axis *y = &w->axes.at[found];
            dl_fail(err, DL_INPUT,
                    "%s: axis %.60s is %lld of %lld elements for one array and %lld of %lld for "
                    "another: "
                    "they cannot be "
                    "moved together",
                    key, name, (long long)y->size, (long long)y->extent, (long long)x->size,
                    (long long)x->extent);
            found = -2;
            break;
        }
        found = i;
    }
    if (found == -1)
        dl_fail(err, DL_INPUT, "%s: no array has an axis '%.60s'; there are: %s", key, name,
                all.at ? all.at : "none");
    dl_buf_free(&all);
    return found;
}

static bool read_moves(array_dataset *w, dl_error *err) {
    const dlr_array_dataset_options *o = w->o;
    for (int i = 0; i < o->flip.n; i++) {
        int k = find_shared(w, "data.augment.flip", o->flip.at[i], err);
        if (k < 0) return false;
        w->axes.at[k].flips = true;
    }
    for (int i = 0; i < o->shift.n; i++) {
        int k = find_shared(w, "data.augment.shift", o->shift.at[i], err);
        if (k < 0) return false;
        if (w->axes.at[k].step > 1)
            return dl_fail(
                err, DL_INPUT,
                "data.augment.shift: axis %s is taken in steps, and cannot be moved round",
                o->shift.at[i]);
        w->axes.at[k].shifts = true;
    }
    for (int i = 0; i < o->rotate.n; i++) {
        int k = find_shared(w, "data.augment.rotate", o->rotate.at[i], err);
        if (k < 0) return false;
        for (int before = 0; before < i; before++)
            if (w->rotated[before] == k)
                return dl_fail(err, DL_INPUT, "data.augment.rotate names %s twice",
                               o->rotate.at[i]);
        w->rotated[w->n_rotated++] = k;
    }
    for (int i = 0; i < o->step_axes.n; i++)
        if (find_shared(w, "data.step", o->step_axes.at[i], err) == -1) return false;
    for (int i = 0; i < w->axes.n; i++)
        if (w->axes.at[i].crop == DLR_CROP_RANDOM &&
            find_shared(w, "data.crop: random", w->axes.at[i].name, err) < 0)
            return false;
    return true;
}

/* Checks that an array with one of the rotated axes has all of them. */
static bool check_rotated(const array_dataset *w, dl_error *err) {
    for (int k = 0; k < w->n; k++) {
        int has = 0;
        for (int m = 0; m < w->at[k].to.type.rank; m++)
            for (int i = 0; i < w->n_rotated; i++) has += w->at[k].shared[m] == w->rotated[i];
        if (has != 0 && has != w->n_rotated)
            return dataset_fail(w->at[k].variables.at, NULL, err,
                                "data.augment.rotate turns axes of which it has only some");
    }
    return true;
}

/* Lists the rotations of the square or cube that these axes span and that keep a sample's shape:
 * signed permutations of determinant 1 that exchange axes of equal size only. */
static void list_rotations(array_dataset *w) {
    static const signed char orders[6][4] = {{0, 1, 2, 1},  {1, 2, 0, 1},  {2, 0, 1, 1},
                                             {1, 0, 2, -1}, {0, 2, 1, -1}, {2, 1, 0, -1}};
    int n = w->n_rotated;
    for (int p = 0; n > 0 && p < 6; p++)
        for (int flips = 0; flips < 1 << n; flips++) {
            dataset_rotation rotation = {{orders[p][0], orders[p][1], orders[p][2]},
                                         {flips & 1, flips >> 1 & 1, flips >> 2 & 1}};
            bool ok = n == 3 || orders[p][2] == 2; /* with two axes the third stays */
            int sign = orders[p][3];
            for (int i = 0; i < n; i++) {
                if (rotation.flip[i]) sign = -sign;
                ok = ok && w->axes.at[w->rotated[i]].size ==
                               w->axes.at[w->rotated[(int)rotation.source[i]]].size;
            }
            if (ok && sign > 0) dl_push(w->arena, &w->rotations, rotation);
        }
}

bool dataset_share_axes(array_dataset *w, dl_error *err) {
    for (int k = 0; k < w->n; k++) {
        dataset_array *a = &w->at[k];
        for (int m = 0; m < DL_MAX_RANK; m++) a->shared[m] = -1;
        for (int i = 0; i < a->variables.n; i++)
            if (!share_axes_of(w, a, &a->variables.at[i], err)) return false;
    }
    if (!read_moves(w, err) || !check_rotated(w, err)) return false;
    list_rotations(w);
    return true;
}

/* Reads the optimizer's and the scheduler's state in a PyTorch file, and checks them against a
 * model's parameters. */
#include "runtime/formats/torch_training.h"

#include "runtime/formats/stored_internal.h"

#include <math.h>
#include <stdlib.h>

typedef struct {
    dl_arena *arena;
    const dlr_st_file *file;
    const dl_optimizer_row *row;
    const dlr_st_tensor *params;
    int n;
    const dlr_torch_value *state, *groups; /* of optimizer_state_dict */
    int64_t *number;                       /* each parameter's number in the optimizer */
    dlr_torch_kept *kept;
    dlr_torch_training *to;
    dl_error *err;
} reader;

static bool fail(const reader *r, const char *what) {
    return dl_fail(r->err, DL_INPUT, "%s: %s", r->file->path, what);
}

/* ---- values ---- */

static const dlr_torch_value *get_number(const dlr_torch_value *dict, int64_t key) {
    for (int i = 0; dict && dict->kind == DLR_TORCH_DICT && i < dict->items->n; i += 2) {
        const dlr_torch_value *k = &dict->items->at[i];
        if (k->kind == DLR_TORCH_INT && k->integer == key) return k + 1;
    }
    return NULL;
}

static bool is_list(const dlr_torch_value *v) {
    return v && (v->kind == DLR_TORCH_LIST || v->kind == DLR_TORCH_TUPLE);
}

/* A number, possibly a tensor without axes, as steps and rates may be. */
static bool real_of(const reader *r, const dlr_torch_value *v, double *to) {
    if (!v) return false;
    dl_error ignored = {0};
    if (v->kind == DLR_TORCH_TENSOR && v->tensor->rank == 0 && v->tensor->dtype == DLR_ST_I64) {
        int64_t n; /* n_averaged */
        if (!dlr_st_load(r->file, v->tensor, &n, &ignored)) return false;
        return *to = (double)n, true;
    }
    if (v->kind == DLR_TORCH_TENSOR && v->tensor->rank == 0) {
        float f;
        if (!dlr_st_load_f32(r->file, v->tensor, &f, &ignored)) return false;
        return *to = (double)f, true;
    }
    if (v->kind == DLR_TORCH_REAL) return *to = v->real, true;
    if (v->kind == DLR_TORCH_BOOL) return *to = v->truth, true;
    return v->kind == DLR_TORCH_INT ? *to = (double)v->integer, true : false;
}

static double option(const reader *r, const dlr_torch_value *dict, const char *key) {
    double v = NAN;
    real_of(r, dlr_torch_get(dict, key), &v);
    return v;
}

static bool count_of(const reader *r, const dlr_torch_value *dict, const char *key, int64_t *to) {
    const dlr_torch_value *v = dlr_torch_get(dict, key);
    if (!v || v->kind != DLR_TORCH_INT || v->integer < 0 || v->integer > INT64_MAX / 2)
        return fail(r, dl_format(r->arena, "'%s' is no number of steps or epochs", key));
    *to = v->integer;
    return true;
}

/* ---- numbering of parameters ---- */

static int find_param(const reader *r, const char *name) {
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->params[i].name, dlr_st_bare_name(name)) == 0) return i;
    return -1;
}

static bool take_number(const reader *r, const dlr_torch_value *number, const char *name) {
    int i = find_param(r, name);
    if (number->kind != DLR_TORCH_INT || number->integer < 0)
        return fail(r, "the optimiser's 'params' are no list of numbers");
    if (i < 0)
        return fail(
            r, dl_format(r->arena, "the model has no parameter '%.200s' of the optimiser's", name));
    if (r->number[i] >= 0)
        return fail(r, dl_format(r->arena, "the optimiser has the parameter '%.200s' twice", name));
    r->number[i] = number->integer;
    return true;
}

/* The names of the file's tensors that are parameters: a model's state has them in the order of
 * model.parameters(), with its buffers between them. */
static const char *const *names_of_state(const reader *r, int *n) {
    const char **names = DL_NEWS(r->arena, const char *, r->file->n + 1);
    *n = 0;
    for (int i = 0; i < r->file->n; i++)
        if (find_param(r, r->file->tensors[i].name) >= 0) names[(*n)++] = r->file->tensors[i].name;
    return names;
}

static bool take_group(const reader *r, const dlr_torch_value *group) {
    const dlr_torch_value *numbers = dlr_torch_get(group, "params"),
                          *names = dlr_torch_get(group, "param_names");
    if (!is_list(numbers)) return fail(r, "a group of the optimiser has no list 'params'");
    if (is_list(names) && names->items->n == numbers->items->n) {
        for (int i = 0; i < names->items->n; i++) {
            const dlr_torch_value *name = &names->items->at[i];
            if (name->kind != DLR_TORCH_TEXT)
                return fail(r, "the optimiser's 'param_names' are no names");
            if (!take_number(r, &numbers->items->at[i], name->text)) return false;
        }
        return true;
    }
    if (r->groups->items->n != 1)
        return fail(
            r,
            "the optimiser has several groups of parameters without 'param_names', which would say "
            "which they are");
    int n;
    const char *const *own = names_of_state(r, &n);
    if (n != numbers->items->n)
        return fail(r, dl_format(r->arena, "the optimiser has %d parameters, the model's state %d",
                                 numbers->items->n, n));
    for (int i = 0; i < n; i++)
        if (!take_number(r, &numbers->items->at[i], own[i])) return false;
    return true;
}

/* Checks an option that must have this value in all groups of the file. */
static bool check_fixed(const reader *r, const dlr_torch_value *group, const char *entry,
                        double value) {
    double v = option(r, group, entry);
    return v != v || v == value ||
           fail(r, dl_format(r->arena, "its optimiser has %s = %g; this run's %s always has %g",
                             entry, v, r->row->of, value));
}

static bool take_groups(const reader *r) {
    double first = option(r, &r->groups->items->at[0], "lr");
    for (int i = 0; i < r->groups->items->n; i++) {
        const dlr_torch_value *group = &r->groups->items->at[i];
        const dl_fixed_option *fixed = r->row->fixed;
        if (!check_fixed(r, group, "maximize", 0)) return false;
        for (int k = 0; k < DL_MOST_FIXED && fixed[k].entry; k++)
            if (!check_fixed(r, group, fixed[k].entry, fixed[k].value)) return false;
        double rate = option(r, group, "lr");
        if (!isfinite(rate) || rate < 0)
            return fail(r, "a group of the optimiser has no rate 'lr'");
        if (rate != first)
            return fail(r, dl_format(r->arena,
                                     "the optimiser's groups have different rates: %g and %g",
                                     first, rate));
        if (!take_group(r, group)) return false;
    }
    for (int i = 0; i < r->n; i++)
        if (r->number[i] < 0)
            return fail(r, dl_format(r->arena, "the optimiser lacks the parameter '%.200s'",
                                     r->params[i].name));
    return true;
}

/* ---- optimizer state of a parameter ---- */

static bool same_shape(const dlr_st_tensor *a, const dlr_st_tensor *b) {
    bool same = a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++) same = a->shape[i] == b->shape[i];
    return same;
}

static bool keeps(const dl_optimizer_row *row, const char *name) {
    for (int k = 0; k < DL_MOST_KEPT && row->kept[k].name; k++)
        if (strcmp(row->kept[k].name, name) == 0) return true;
    return false;
}

/* Checks that a state has only tensors that this optimizer keeps. */
static bool check_kept(const reader *r, const dlr_torch_value *state) {
    for (int i = 0; i < DL_OPT_NONE; i++)
        for (int k = 0; k < DL_MOST_KEPT && dl_optimizers[i].kept[k].name; k++) {
            const char *name = dl_optimizers[i].kept[k].name;
            if (*dl_optimizers[i].of && !keeps(r->row, name) && dlr_torch_get(state, name))
                return fail(
                    r, dl_format(r->arena,
                                 "its optimiser keeps '%s', as PyTorch's %s does; this run's is %s",
                                 name, dl_optimizers[i].of, r->row->of));
        }
    return true;
}

/* A number that is equal for all parameters. */
static bool take_scalar(const reader *r, int i, const dlr_torch_value *state, int k) {
    const char *what = r->row->kept[k].name, *param = r->params[i].name;
    double v, *all = &r->to->scalar[k];
    if (!real_of(r, dlr_torch_get(state, what), &v) || !isfinite(v))
        return fail(
            r, dl_format(r->arena, "the optimiser's '%s' of '%.200s' is no number", what, param));
    if (isnan(*all)) *all = v;
    return *all == v ||
           fail(r, dl_format(r->arena,
                             "the optimiser's '%s' of '%.200s' is %g, but of others %g, which no "
                             "run of ours has",
                             what, param, v, *all));
}

static bool take_state(const reader *r, int i, const dlr_torch_value *state) {
    const dlr_st_tensor *p = &r->params[i];
    if (!check_kept(r, state)) return false;
    for (int k = 0; k < DL_MOST_KEPT && r->row->kept[k].name; k++) {
        const char *what = r->row->kept[k].name;
        if (r->row->kept[k].kind == DL_KEPT_SCALAR) {
            if (!take_scalar(r, i, state, k)) return false;
            continue;
        }
        const dlr_torch_value *v = dlr_torch_get(state, what);
        if (r->row->kept[k].may_lack && (!v || v->kind == DLR_TORCH_NONE)) continue;
        if (!v || v->kind != DLR_TORCH_TENSOR || !same_shape(v->tensor, p))
            return fail(r,
                        dl_format(r->arena, "the optimiser's '%s' of '%.200s' is %s", what, p->name,
                                  !v                            ? "not there"
                                  : v->kind == DLR_TORCH_TENSOR ? "of another shape"
                                                                : "no tensor"));
        r->kept[i].moment[k] = v->tensor;
    }
    return true;
}

/* Reads the parameter's step count, which must be equal for all. */
static bool take_steps(const reader *r, int i, const dlr_torch_value *state, int64_t *steps) {
    double v = 0;
    if (state && !real_of(r, dlr_torch_get(state, "step"), &v))
        return fail(
            r, dl_format(r->arena, "the optimiser has no 'step' of '%.200s'", r->params[i].name));
    if (!(v >= 0 && v < 0x1p53 && v == floor(v)))
        return fail(r, dl_format(r->arena, "the optimiser's 'step' of '%.200s' is no count: %g",
                                 r->params[i].name, v));
    if (i == 0) *steps = (int64_t)v;
    return *steps == (int64_t)v ||
           fail(r,
                dl_format(
                    r->arena,
                    "the optimiser stepped '%.200s' %lld times, but '%.200s' %lld times, which no "
                    "run of ours does",
                    r->params[0].name, (long long)*steps, r->params[i].name, (long long)v));
}

static bool take_states(const reader *r, dlr_torch_training *t) {
    t->steps = t->iters;
    for (int k = 0; k < DL_MOST_KEPT; k++) t->scalar[k] = NAN;
    for (int i = 0; i < r->n; i++) {
        const dlr_torch_value *state = get_number(r->state, r->number[i]);
        if (state && state->kind != DLR_TORCH_DICT)
            return fail(r, "the optimiser's 'state' is no dictionary");
        if (state && !take_state(r, i, state)) return false;
        if (r->row->counts && !take_steps(r, i, state, &t->steps)) return false;
    }
    return true;
}

/* ---- means of the weights ---- */

static const dlr_st_tensor *find_mean(const dlr_torch_value *ema, const char *name) {
    for (int i = 0; i < ema->items->n; i += 2) {
        const dlr_torch_value *k = &ema->items->at[i];
        if (k->kind == DLR_TORCH_TEXT && strcmp(dlr_st_bare_name(k->text), name) == 0)
            return k[1].kind == DLR_TORCH_TENSOR ? k[1].tensor : NULL;
    }
    return NULL;
}

/* Reads the state_dict of torch.optim.swa_utils.AveragedModel. */
static bool take_means(const reader *r, const dlr_torch_value *ema, dlr_torch_training *t) {
    const dlr_torch_value *n =
        ema && ema->kind == DLR_TORCH_DICT ? dlr_torch_get(ema, "n_averaged") : NULL;
    t->averaged = -1;
    if (!ema || ema->kind == DLR_TORCH_NONE) return true;
    double count = -1;
    if (!n || !real_of(r, n, &count) || !(count >= 0 && count < 0x1p53))
        return fail(r, "'model_ema' is no state of AveragedModel: it has no count 'n_averaged'");
    t->averaged = (int64_t)count;
    for (int i = 0; i < r->n; i++) {
        const dlr_st_tensor *p = &r->params[i], *mean = find_mean(ema, p->name);
        if (!mean || !same_shape(mean, p))
            return fail(r, dl_format(r->arena, "'model_ema' has '%.200s' %s", p->name,
                                     mean ? "of another shape" : "not as a tensor"));
        r->kept[i].mean = mean;
    }
    return true;
}

/* ---- interface ---- */

static void take_options(const reader *r, dlr_torch_training *t) {
    const dlr_torch_value *group = &r->groups->items->at[0];
    t->rate = option(r, group, "lr");
    for (int i = 0; i < DL_N_OPTIONS; i++) {
        const dl_option_row *row = &dl_optimizer_options[i];
        const dlr_torch_value *v = dlr_torch_get(group, row->entry);
        if (row->item >= 0)
            v = is_list(v) && row->item < v->items->n ? &v->items->at[row->item] : NULL;
        t->option[i] = NAN;
        real_of(r, v, &t->option[i]);
    }
}

static bool take_scheduler(const reader *r, const dlr_torch_value *s, dlr_torch_training *t) {
    t->has_plateau = dlr_torch_get(s, "num_bad_epochs") != NULL;
    if (!t->has_plateau) return true;
    t->best = option(r, s, "best");
    if (t->best != t->best) return fail(r, "the scheduler's 'best' is no number");
    if (dlr_torch_get(s, "cooldown_counter") &&
        !count_of(r, s, "cooldown_counter", &t->cooldown_counter))
        return false;
    return count_of(r, s, "num_bad_epochs", &t->bad_epochs);
}

int64_t dlr_torch_training_iters(const dlr_st_file *file) {
    const dlr_torch_value *v = dlr_torch_get(dlr_torch_root(file), "iters");
    return v && v->kind == DLR_TORCH_INT && v->integer >= 0 ? v->integer : -1;
}

bool dlr_torch_training_read(dl_arena *arena, const dlr_st_file *file, dl_optimizer optimizer,
                             const dlr_st_tensor *params, int n, dlr_torch_training *t,
                             dl_error *err) {
    const dlr_torch_value *root = dlr_torch_root(file),
                          *kept = dlr_torch_get(root, "optimizer_state_dict");
    reader r = {.arena = arena,
                .file = file,
                .row = &dl_optimizers[optimizer],
                .params = params,
                .n = n,
                .state = dlr_torch_get(kept, "state"),
                .groups = dlr_torch_get(kept, "param_groups"),
                .number = DL_NEWS(arena, int64_t, n + 1),
                .kept = DL_NEWS(arena, dlr_torch_kept, n + 1),
                .to = t,
                .err = err};
    *t = (dlr_torch_training){.kept = r.kept};
    for (int i = 0; i < n; i++) r.number[i] = -1;
    if (!root || !kept)
        return fail(&r, "no run to go on from: it has no 'optimizer_state_dict' (its weights can "
                        "be --init_weights)");
    if (!r.state || r.state->kind != DLR_TORCH_DICT || !is_list(r.groups) || r.groups->items->n < 1)
        return fail(&r, "'optimizer_state_dict' is not one of torch.optim's: it has no 'state' and "
                        "'param_groups'");
    if (!count_of(&r, root, "iters", &t->iters) || !count_of(&r, root, "epoch", &t->epoch))
        return false;
    if (!take_groups(&r) || !take_states(&r, t)) return false;
    if (!take_means(&r, dlr_torch_get(root, "model_ema"), t)) return false;
    take_options(&r, t);
    return take_scheduler(&r, dlr_torch_get(root, "scheduler_state_dict"), t);
}

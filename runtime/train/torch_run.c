/* Weights and the optimiser's state as PyTorch arranges them. */
#include "runtime/train/torch_run.h"

#include <math.h>

#include "ir/base/tags.h"
#include "runtime/checkpoint/tensors.h"
#include "runtime/exec/state.h"

typedef DL_ARRAY(dlr_torch_value) values;

typedef struct {
    dl_arena *arena;
    dlr_exec *exec;
    const dlr_torch_run *run;
    dlr_tensors all; /* the model's, then moments, then step counts, which have data, then means */
    int n_model;     /* of `all` */
    const dl_plan_var **param; /* the model's parameters */
    int n_params;
    float *step;
} writer;

/* ---- values ---- */

static dlr_torch_value none(void) { return (dlr_torch_value){.kind = DLR_TORCH_NONE}; }
static dlr_torch_value truth(bool v) {
    return (dlr_torch_value){.kind = DLR_TORCH_BOOL, .truth = v};
}
static dlr_torch_value whole(int64_t v) {
    return (dlr_torch_value){.kind = DLR_TORCH_INT, .integer = v};
}
static dlr_torch_value real(double v) {
    return (dlr_torch_value){.kind = DLR_TORCH_REAL, .real = v};
}
static dlr_torch_value text(const char *v) {
    return (dlr_torch_value){.kind = DLR_TORCH_TEXT, .text = v};
}
static dlr_torch_value tensor(const dlr_st_tensor *t) {
    return (dlr_torch_value){.kind = DLR_TORCH_TENSOR, .tensor = t};
}

static dlr_torch_value container(dl_arena *arena, dlr_torch_kind kind, values v, bool ordered) {
    dlr_torch_items *items = DL_NEW(arena, dlr_torch_items);
    *items = (dlr_torch_items){.at = v.at, .n = v.n, .ordered = ordered};
    return (dlr_torch_value){.kind = kind, .items = items};
}

static void put(dl_arena *arena, values *dict, const char *key, dlr_torch_value value) {
    dl_push(arena, dict, text(key));
    dl_push(arena, dict, value);
}

/* ---- the model ---- */

static dlr_torch_value model_state(writer *w) {
    values v = {0};
    for (int i = 0; i < w->n_model; i++)
        put(w->arena, &v, w->all.list[i].name, tensor(&w->all.list[i]));
    return container(w->arena, DLR_TORCH_DICT, v, true);
}

/* ---- the optimiser ---- */

static double hyper(const writer *w, const char *name) {
    dlr_view v = dlr_exec_variable(w->exec, name);
    return v.type ? dlr_scalar(w->exec, v) : 0;
}

/* A parameter's moment of this name; NULL: the optimiser keeps none of it. */
static const dlr_st_tensor *moment(writer *w, const char *what, const char *param) {
    const char *name = dl_format(w->arena, "%s.%s", what, param);
    dlr_view view = dlr_exec_state(w->exec, what, param);
    if (!view.type) return NULL;
    dlr_st_tensor *t = &w->all.list[w->all.n];
    *t = (dlr_st_tensor){
        .name = name, .dtype = dlr_tensors_dtype(view.type->dtype), .rank = view.type->rank};
    const dl_type all = dlr_state_whole(view);
    for (int i = 0; i < t->rank; i++) t->shape[i] = all.axis[i].size;
    w->all.views[w->all.n++] = view;
    return t;
}

/* A number of all parameters, such as how often they were stepped; each has a tensor of its own,
 * since PyTorch changes it in place. */
static const dlr_st_tensor *scalar(writer *w, const char *what, const float *data) {
    dlr_st_tensor *t = &w->all.list[w->all.n++];
    *t = (dlr_st_tensor){.name = what, .dtype = DLR_ST_F32, .rank = 0, .data = data};
    return t;
}

static const dlr_st_tensor *kept_scalar(writer *w, const char *what) {
    float *data = DL_NEW(w->arena, float);
    *data = (float)hyper(w, dl_format(w->arena, "optimizer.%s", what));
    return scalar(w, what, data);
}

static const dl_optimizer_row *row_of(const writer *w) {
    return &dl_optimizers[w->run->optimizer->which];
}

/* The optimiser's state of a parameter. */
static values param_state(writer *w, const char *param) {
    const dl_optimizer_row *row = row_of(w);
    values state = {0};
    if (*w->step <= 0 && !row->counts) return state;
    for (int k = 0; k < DL_MOST_KEPT && row->kept[k].name; k++) {
        const dl_kept *kept = &row->kept[k];
        const dlr_st_tensor *t = kept->kind != DL_KEPT_SCALAR ? moment(w, kept->name, param)
                                 : state.n                    ? kept_scalar(w, kept->name)
                                                              : NULL;
        if (t) put(w->arena, &state, kept->name, tensor(t));
    }
    if (state.n && row->counts) put(w->arena, &state, "step", tensor(scalar(w, "step", w->step)));
    return state;
}

static dlr_torch_value number(bool flag, double v) { return flag ? truth(v != 0) : real(v); }

/* Adds the optimiser's options: an entry each, or a tuple of neighbours that share one. */
static void put_options(writer *w, values *group, bool decays) {
    const dl_option_row *row = dl_optimizer_options, *end = row + DL_N_OPTIONS;
    values tuple = {0};
    for (int i = 0; i < DL_N_OPTIONS; i++, row++) {
        if (!(row_of(w)->takes >> i & 1)) continue;
        double v = i == DL_OPTION_weight_decay && !decays ? 0 : w->run->optimizer->option[i];
        bool last = row + 1 == end || strcmp(row[1].entry, row->entry) != 0;
        if (row->item < 0)
            put(w->arena, group, row->entry, number(row->kind == DL_OPTION_FLAG, v));
        else
            dl_push(w->arena, &tuple, number(row->kind == DL_OPTION_FLAG, v));
        if (row->item < 0 || !last) continue;
        put(w->arena, group, row->entry, container(w->arena, DLR_TORCH_TUPLE, tuple, false));
        tuple = (values){0};
    }
}

/* The entries of a group but its parameters, which torch.optim takes over as they stand: those of
 * all versions. */
static values options(writer *w, bool decays) {
    const dl_optimizer_row *row = row_of(w);
    dl_arena *a = w->arena;
    values g = {0};
    put(a, &g, "lr", real(w->run->rate));
    if (w->run->initial_rate == w->run->initial_rate)
        put(a, &g, "initial_lr", real(w->run->initial_rate));
    put_options(w, &g, decays);
    for (int k = 0; k < DL_MOST_FIXED && row->fixed[k].entry; k++)
        put(a, &g, row->fixed[k].entry, number(row->fixed[k].flag, row->fixed[k].value));
    put(a, &g, "foreach", none()), put(a, &g, "fused", none());
    put(a, &g, "differentiable", truth(false)), put(a, &g, "capturable", truth(false));
    return g;
}

/* Adds a group of the parameters that decay, or of those that do not, and their state. Parameters
 * are numbered as torch.optim does: group by group. */
static void put_group(writer *w, bool decays, values *groups, values *states, int *number) {
    dl_arena *a = w->arena;
    values numbers = {0}, names = {0};
    for (int i = 0; i < w->n_params; i++) {
        const dl_plan_var *p = w->param[i];
        if ((w->run->optimizer->decay_vectors || p->type.rank > 1) != decays) continue;
        values state = param_state(w, p->name);
        if (state.n) {
            dl_push(a, states, whole(*number));
            dl_push(a, states, container(a, DLR_TORCH_DICT, state, false));
        }
        dl_push(a, &numbers, whole((*number)++));
        dl_push(a, &names, text(p->name));
    }
    if (!numbers.n) return;
    values g = options(w, decays);
    put(a, &g, "params", container(a, DLR_TORCH_LIST, numbers, false));
    put(a, &g, "param_names", container(a, DLR_TORCH_LIST, names, false));
    dl_push(a, groups, container(a, DLR_TORCH_DICT, g, false));
}

static dlr_torch_value optimizer_state(writer *w, int *n_groups) {
    values groups = {0}, states = {0}, v = {0};
    int number = 0;
    put_group(w, true, &groups, &states, &number);
    put_group(w, false, &groups, &states, &number);
    *n_groups = groups.n;
    put(w->arena, &v, "state", container(w->arena, DLR_TORCH_DICT, states, false));
    put(w->arena, &v, "param_groups", container(w->arena, DLR_TORCH_LIST, groups, false));
    return container(w->arena, DLR_TORCH_DICT, v, false);
}

/* ---- the mean of the weights ---- */

/* How many steps' weights the mean is of; before it begins, it is the newest weights. */
static int64_t *count_averaged(writer *w) {
    const dlr_view from = dlr_exec_variable(w->exec, "optimizer.average.from");
    double at = hyper(w, "optimizer.step") + hyper(w, "optimizer.lr.passed"),
           begin = from.type ? dlr_scalar(w->exec, from) * hyper(w, "optimizer.lr.steps") : 0;
    int64_t *n = DL_NEW(w->arena, int64_t);
    *n = from.type ? (int64_t)(at > begin ? at - begin : 0) : (int64_t)*w->step;
    return n;
}

/* The state_dict of torch.optim.swa_utils.AveragedModel. */
static dlr_torch_value average_state(writer *w, const dlr_tensors *average) {
    dl_arena *a = w->arena;
    values v = {0};
    dlr_st_tensor *t = &w->all.list[w->all.n++];
    *t = (dlr_st_tensor){.name = "n_averaged", .dtype = DLR_ST_I64, .data = count_averaged(w)};
    put(a, &v, t->name, tensor(t));
    for (int i = 0; i < average->n; i++) {
        t = &w->all.list[w->all.n], w->all.views[w->all.n++] = average->views[i];
        *t = average->list[i];
        t->name = dl_format(a, "module.%s", t->name);
        put(a, &v, t->name, tensor(t));
    }
    return container(a, DLR_TORCH_DICT, v, true);
}

/* ---- the scheduler ---- */

/* A number for each group, all the same. */
static dlr_torch_value of_groups(dl_arena *arena, int n_groups, double v) {
    values list = {0};
    for (int i = 0; i < n_groups; i++) dl_push(arena, &list, real(v));
    return container(arena, DLR_TORCH_LIST, list, false);
}

/* The attributes of PyTorch's scheduler that load_state_dict sets: those of 1.13, which include all
 * that later versions need. */
static dlr_torch_value scheduler_state(writer *w, int n_groups) {
    const dlr_torch_scheduler *s = w->run->scheduler;
    dl_arena *a = w->arena;
    values v = {0};
    if (!s) return none();
    put(a, &v, "last_epoch", whole(s->epochs));
    put(a, &v, "_last_lr", of_groups(a, n_groups, w->run->rate));
    if (!s->plateau) {
        put(a, &v, "T_max", whole(s->total)), put(a, &v, "eta_min", real(s->least_rate));
        put(a, &v, "base_lrs", of_groups(a, n_groups, w->run->initial_rate));
        put(a, &v, "_step_count", whole(s->epochs + 1)); /* the first is its constructor's */
        put(a, &v, "_get_lr_called_within_step", truth(false));
        return container(a, DLR_TORCH_DICT, v, false);
    }
    put(a, &v, "factor", real(s->plateau->factor)),
        put(a, &v, "patience", whole(s->plateau->patience));
    put(a, &v, "threshold", real(s->plateau->threshold)), put(a, &v, "threshold_mode", text("rel"));
    put(a, &v, "mode", text("min")), put(a, &v, "mode_worse", real(INFINITY));
    put(a, &v, "min_lrs", of_groups(a, n_groups, s->plateau->least));
    put(a, &v, "eps", real(s->plateau->smallest));
    put(a, &v, "cooldown", whole(s->plateau->cooldown)),
        put(a, &v, "cooldown_counter", whole(s->at.waiting));
    put(a, &v, "best", real(s->at.best)), put(a, &v, "num_bad_epochs", whole(s->at.bad));
    return container(a, DLR_TORCH_DICT, v, false);
}

/* ---- the file ---- */

/* The model's tensors, with room for the optimiser's state of each parameter and its step, and for
 * their means. */
static void begin(writer *w) {
    const dl_plan *p = dlr_exec_plan(w->exec);
    dlr_tensors model = dlr_tensors_of_model(w->arena, w->exec);
    int room = 2 * model.n + (DL_MOST_KEPT + 1) * p->vars.n + 1;
    w->all = (dlr_tensors){w->exec, DL_NEWS(w->arena, dlr_st_tensor, room),
                           DL_NEWS(w->arena, dlr_view, room), model.n, NULL};
    w->n_model = model.n;
    if (model.n) {
        memcpy(w->all.list, model.list, (size_t)model.n * sizeof *model.list);
        memcpy(w->all.views, model.views, (size_t)model.n * sizeof *model.views);
    }
    w->param = DL_NEWS(w->arena, const dl_plan_var *, p->vars.n);
    for (int i = 0; i < p->vars.n; i++)
        if (p->vars.at[i].role == DL_VAR_PARAM) w->param[w->n_params++] = &p->vars.at[i];
    w->step = DL_NEW(w->arena, float);
    *w->step = (float)(hyper(w, "optimizer.step") - hyper(w, DL_SCALER_SKIPPED));
}

static bool check(const writer *w, dl_error *err) {
    const dl_plan *p = dlr_exec_plan(w->exec);
    const dl_kept *first =
        row_of(w)->kept; /* a plan that was compiled with it has this of some parameter */
    bool found = !first->name || first->may_lack;
    for (int i = 0; !found && i < p->vars.n; i++) {
        const dl_plan_var *v = &p->vars.at[i];
        found = v->of && dlr_exec_state(w->exec, first->name, v->of).type;
    }
    return (found && dlr_exec_variable(w->exec, "optimizer.step").type) ||
           dl_fail(err, DL_INTERNAL, "the plan's optimiser is not '%s'", row_of(w)->name);
}

bool dlr_torch_run_gather(dl_arena *arena, dlr_exec *exec, const dlr_torch_run *run,
                          dlr_torch_gathered *gathered, dl_error *err) {
    writer w = {.arena = arena, .exec = exec, .run = run};
    if (!check(&w, err)) return false;
    values top = {0};
    int n_groups;
    begin(&w);
    put(arena, &top, "iters", whole(run->iters)), put(arena, &top, "epoch", whole(run->epoch));
    put(arena, &top, "model_state", model_state(&w));
    put(arena, &top, "optimizer_state_dict", optimizer_state(&w, &n_groups));
    put(arena, &top, "scheduler_state_dict", scheduler_state(&w, n_groups));
    const dlr_tensors average = dlr_tensors_of_average(arena, exec);
    if (average.n) put(arena, &top, "model_ema", average_state(&w, &average));
    for (int i = 0; i < run->n_more; i++) dl_push(arena, &top, run->more[i]);
    *gathered =
        (dlr_torch_gathered){container(arena, DLR_TORCH_DICT, top, false), w.all, run->finite};
    return true;
}

bool dlr_torch_run_write(const char *path, const dlr_torch_gathered *g, dl_error *err) {
    dlr_st_content content = dlr_tensors_content(&g->tensors);
    content.finite = g->finite;
    return dlr_torch_write(path, &g->root, &content, NULL, err);
}

#include "runtime/checkpoint/tensors.h"

#include <stdlib.h>

#include "ir/base/philox.h"
#include "ir/base/tags.h"
#include "runtime/base/convert.h"
#include "runtime/exec/exec.h"
#include "runtime/exec/state.h"
#include "runtime/formats/weights.h"

dlr_st_dtype dlr_tensors_dtype(dl_dtype dtype) {
    static const dlr_st_dtype names[DL_NDTYPES] = {
        [DL_F32] = DLR_ST_F32,   [DL_F64] = DLR_ST_F64, [DL_F16] = DLR_ST_F16,
        [DL_BF16] = DLR_ST_BF16, [DL_I32] = DLR_ST_I32, [DL_I64] = DLR_ST_I64,
        [DL_BOOL] = DLR_ST_BOOL,
    };
    return names[dtype];
}

double dlr_scalar(const dlr_exec *exec, dlr_view view) {
    double value;
    dlr_convert(DL_F64, &value, view.type->dtype, dlr_exec_scalar(exec, view), 1);
    return value;
}

static void add(dlr_tensors *t, const char *name, dlr_view view) {
    dlr_st_tensor *s = &t->list[t->n];
    *s = (dlr_st_tensor){
        .name = name, .dtype = dlr_tensors_dtype(view.type->dtype), .rank = view.type->rank};
    const dl_type whole = dlr_state_whole(view);
    for (int i = 0; i < s->rank; i++) s->shape[i] = whole.axis[i].size;
    t->views[t->n++] = view;
}

static dlr_tensors room(dl_arena *arena, dlr_exec *exec, int n) {
    return (dlr_tensors){.exec = exec,
                         .list = DL_NEWS(arena, dlr_st_tensor, n + 1),
                         .views = DL_NEWS(arena, dlr_view, n + 1)};
}

/* A parameter's state is its moments and its counters, such as the step of random numbers. */
dlr_owner dlr_tensors_owner(const dl_plan_var *v) {
    bool counts = strncmp(v->name, "optimizer.", 10) == 0 || strcmp(v->name, DL_RANDOM_STEP) == 0;
    bool scales = strcmp(v->name, DL_SCALER_SCALE) == 0 || strcmp(v->name, DL_SCALER_GOOD) == 0 ||
                  strcmp(v->name, DL_SCALER_SKIPPED) == 0;
    if (v->role == DL_VAR_PARAM) return DLR_OF_PARAMETERS;
    bool sum = strncmp(v->name, DL_ACCUMULATED, strlen(DL_ACCUMULATED)) == 0; /* 0 between steps */
    if (v->role != DL_VAR_STATE || sum) return DLR_OF_NOBODY;
    if (strncmp(v->name, DL_AVERAGE, strlen(DL_AVERAGE)) == 0) return DLR_OF_AVERAGE;
    return v->of || counts ? DLR_OF_OPTIMIZER : scales ? DLR_OF_SCALER : DLR_OF_BUFFERS;
}

bool dlr_tensors_keeps(const dl_plan_var *v) { return dlr_tensors_owner(v) != DLR_OF_NOBODY; }

static dlr_tensors variables(dl_arena *arena, dlr_exec *exec, int owners) {
    const dl_plan *p = dlr_exec_plan(exec);
    dlr_tensors t = room(arena, exec, p->vars.n);
    for (int i = 0; i < p->vars.n; i++) {
        const dl_plan_var *v = &p->vars.at[i];
        if (dlr_tensors_owner(v) & owners) add(&t, v->name, dlr_exec_variable(exec, v->name));
    }
    return t;
}

dlr_tensors dlr_tensors_of_model(dl_arena *arena, dlr_exec *exec) {
    return variables(arena, exec, DLR_OF_PARAMETERS | DLR_OF_BUFFERS);
}

dlr_tensors dlr_tensors_of_buffers(dl_arena *arena, dlr_exec *exec) {
    return variables(arena, exec, DLR_OF_BUFFERS);
}

dlr_tensors dlr_tensors_of_optimizer(dl_arena *arena, dlr_exec *exec) {
    return variables(arena, exec, DLR_OF_OPTIMIZER);
}

dlr_tensors dlr_tensors_of_scaler(dl_arena *arena, dlr_exec *exec) {
    return variables(arena, exec, DLR_OF_SCALER);
}

/* The mean of a parameter; NULL type: there is none. */
static dlr_view average_of(const dlr_exec *exec, const char *name) {
    dl_buf b = {0};
    dl_putf(&b, DL_AVERAGE "%s", name);
    dlr_view view = dlr_exec_variable(exec, b.at);
    dl_buf_free(&b);
    return view;
}

dlr_tensors dlr_tensors_of_average(dl_arena *arena, dlr_exec *exec) {
    dlr_tensors t = dlr_tensors_of_model(arena, exec);
    bool any = false;
    for (int i = 0; i < t.n; i++) {
        dlr_view mean = average_of(exec, t.list[i].name);
        if (mean.type) t.views[i] = mean, any = true;
    }
    if (!any) t.n = 0;
    return t;
}

void dlr_tensors_begin_average(dlr_exec *exec) {
    const dl_plan *p = dlr_exec_plan(exec);
    double piece[1 << 9];
    for (int i = 0; i < p->vars.n; i++) {
        const dl_plan_var *v = &p->vars.at[i];
        dlr_view mean = v->role == DL_VAR_PARAM ? average_of(exec, v->name) : (dlr_view){0};
        int64_t all = mean.type ? dl_type_count(&v->type) : 0;
        int64_t most = sizeof piece / sizeof *piece;
        for (dlr_range r = {0}; r.first < all; r.first += r.n) {
            r.n = all - r.first < most ? all - r.first : most;
            dlr_state_read_range(exec, dlr_exec_variable(exec, v->name), r, DL_F64, piece);
            dlr_state_write_range(exec, mean, r, DL_F64, piece);
        }
    }
}

dlr_tensors dlr_tensors_of_gradients(dl_arena *arena, dlr_exec *exec, int program) {
    const dl_plan *p = dlr_exec_plan(exec);
    const dl_plan_program *g = &p->programs.at[program];
    dlr_tensors t = room(arena, exec, g->results.n);
    for (int i = 0; i < g->results.n; i++) {
        const dl_plan_result *r = &g->results.at[i];
        if (r->role != DL_RESULT_GRAD) continue;
        add(&t, p->vars.at[r->var].name, dlr_exec_result(exec, program, DL_RESULT_GRAD, r->name));
    }
    return t;
}

static bool read_tensor(void *ctx, int index, int64_t first, int64_t n, void *dst, dl_error *err) {
    const dlr_tensors *t = ctx;
    const dlr_view *v = &t->views[index];
    if (v->piece)
        return dl_fail(err, DL_INTERNAL,
                       "'%s' is one of several pieces, which only all ranks together can write",
                       t->list[index].name);
    if (t->first) first += t->first[index];
    dlr_state_read_range(t->exec, *v, (dlr_range){first, n}, v->type->dtype, dst);
    return dlr_exec_check(t->exec, err);
}

/* Undoes a sharding: *own, of *type, becomes the tensor that it was cut from. Works row by row and
 * part by part, in the order of a collective's pieces (ir/collective.h). */
static bool join(dl_arena *arena, const dlr_ranks *ranks, const char *name, const dl_var_cut *cut,
                 dl_type *type, char **own, dl_error *err) {
    const dlr_group *group = dlr_group_find(ranks, cut->group);
    if (!group || group->size != cut->ranks)
        return dl_fail(err, DL_INTERNAL, "'%s' is in pieces of a group that is not there", name);
    type->axis[cut->axis].size = cut->size;
    const dl_around around = dl_type_around(type, cut->axis);
    int64_t *counts = DL_NEWS(arena, int64_t, cut->ranks), part = cut->size / cut->parts;
    for (int r = 0; r < cut->ranks; r++)
        counts[r] = dl_share_of(part, cut->ranks, r).n * around.inner;
    char *from = *own;
    *own = DL_NEWS(arena, char, dl_type_count(type) * dl_dtype_bytes(type->dtype) + 1);
    return dlr_comm_all(ranks->comm,
                        &(dlr_collective){.kind = DLR_ALL_GATHER,
                                          .group = group->number,
                                          .type = type->dtype,
                                          .outer = around.outer * cut->parts,
                                          .counts = counts,
                                          .from = from,
                                          .to = *own,
                                          .what = dl_format(arena, "all_gather of %s", name)},
                        err);
}

static bool gather(dl_arena *arena, const dlr_tensors *t, int i, dl_error *err) {
    const dlr_view v = t->views[i];
    const dlr_ranks *ranks = dlr_exec_ranks(t->exec);
    dl_type type = *v.type;
    char *own = DL_NEWS(arena, char, dl_type_count(&type) * dl_dtype_bytes(type.dtype) + 1);
    dlr_state_read(t->exec, v, type.dtype, own);
    bool ok = dlr_exec_check(t->exec, err);
    for (int k = v.piece->n - 1; ok && k >= 0; k--)
        ok = join(arena, ranks, t->list[i].name, &v.piece->cut[k], &type, &own, err);
    t->list[i].data = own;
    return ok;
}

bool dlr_tensors_gather(dl_arena *arena, dlr_tensors *t, dl_error *err) {
    for (int i = 0; i < t->n; i++)
        if (t->views[i].piece && !gather(arena, t, i, err)) return false;
    return true;
}

bool dlr_tensors_help_gather(dlr_tensors *t, dl_error *err) {
    bool ok = true;
    for (int i = 0; ok && i < t->n; i++) {
        if (!t->views[i].piece) continue;
        dl_arena *arena = dl_arena_new(NULL);
        ok = gather(arena, t, i, err);
        t->list[i].data = NULL;
        dl_arena_free(arena);
    }
    return ok;
}

void dlr_tensors_borrow(const dlr_tensors *from, dlr_tensors *to) {
    for (int i = 0; i < to->n; i++)
        for (int k = 0; k < from->n && to->views[i].piece && !to->list[i].data; k++)
            if (from->views[k].offset == to->views[i].offset) to->list[i].data = from->list[k].data;
}

dlr_st_content dlr_tensors_content(const dlr_tensors *t) {
    return (dlr_st_content){
        .tensors = t->list, .n = t->n, .read = read_tensor, .ctx = (void *)(uintptr_t)t};
}

bool dlr_tensors_loads(dlr_st_dtype have, dl_dtype want) {
    bool whole = have == DLR_ST_I64 || have == DLR_ST_I32, wants = want == DL_I64 || want == DL_I32;
    return have == dlr_tensors_dtype(want) || (dlr_st_is_float(have) && dl_dtype_is_float(want)) ||
           (whole && wants);
}

/* Fails for whole numbers in the file that do not fit i32. */
static bool check_range(const dlr_st_file *file, const dlr_st_tensor *from, const int64_t *at,
                        int64_t n, dl_error *err) {
    for (int64_t i = 0; i < n; i++)
        if (at[i] < INT32_MIN || at[i] > INT32_MAX)
            return dl_fail(err, DL_INPUT, "%s: '%.200s' holds %lld, which is no i32", file->path,
                           from->name, (long long)at[i]);
    return true;
}

/* Loads elements `range` of the view, which are the elements from `from` on in a file. */
static bool load_range(dlr_exec *exec, dlr_view view, dlr_range range, dl_dtype dtype,
                       const dlr_st_file *file, const dlr_st_tensor *from, void *buffer,
                       dl_error *err) {
    bool as_it_is = from->dtype == dlr_tensors_dtype(dtype);
    int64_t most = DLR_ST_PIECE / dl_dtype_bytes(dtype);
    for (int64_t at = 0; at < range.n; at += most) {
        int64_t n = range.n - at < most ? range.n - at : most;
        dlr_st_tensor part = dlr_st_part(from, at, n);
        if (!(as_it_is ? dlr_st_load(file, &part, buffer, err)
                       : dlr_st_load_f32(file, &part, buffer, err)))
            return false;
        if (dtype == DL_I64 && view.type->dtype == DL_I32 &&
            !check_range(file, from, buffer, n, err))
            return false;
        dlr_state_write_range(exec, view, (dlr_range){range.first + at, n}, dtype, buffer);
    }
    return true;
}

/* Loads sharded tensors box by box, in sequence along the first axis. */
bool dlr_tensor_load(dlr_exec *exec, dlr_view view, const dlr_st_file *file,
                     const dlr_st_tensor *tensor, void *buffer, dl_error *err) {
    dl_dtype dtype = view.type->dtype;
    const dl_type *type = view.type;
    bool as_it_is = tensor->dtype == dlr_tensors_dtype(dtype);
    if (!dlr_tensors_loads(tensor->dtype, dtype))
        return dl_fail(err, DL_INPUT, "%s: '%.200s' is %s, where %s is wanted", file->path,
                       tensor->name, dlr_st_dtype_name(tensor->dtype), dl_dtype_name(dtype));
    if (!as_it_is)
        dtype = dlr_st_is_float(tensor->dtype) ? DL_F32
                : tensor->dtype == DLR_ST_I64  ? DL_I64
                                               : DL_I32;
    if (!view.piece)
        return load_range(exec, view, (dlr_range){0, dl_type_count(type)}, dtype, file, tensor,
                          buffer, err);
    const int64_t inner = dl_type_around(type, 0).inner, all = type->axis[0].size;
    for (int64_t row = 0, rows; row < all; row += rows) {
        dlr_st_slice slices[DL_MAX_RANK];
        dlr_st_tensor box[DL_MAX_RANK];
        rows = all - row;
        int64_t first = dl_piece_at(view.piece, 0, row, &rows);
        box[0] = dlr_st_cut(file, tensor, 0, first, rows, &slices[0]);
        for (int a = 1; a < type->rank; a++) {
            int64_t n = type->axis[a].size;
            first = dl_piece_at(view.piece, a, 0, &n);
            box[a] = dlr_st_cut(file, &box[a - 1], a, first, n, &slices[a]);
        }
        if (!load_range(exec, view, (dlr_range){row * inner, rows * inner}, dtype, file,
                        &box[type->rank - 1], buffer, err))
            return false;
    }
    return true;
}

bool dlr_tensors_load(const dlr_tensors *t, const dlr_st_file *file, dl_error *err) {
    if (!dlr_st_check(file, t->list, t->n, err)) return false;
    void *buffer = malloc(DLR_ST_PIECE);
    bool ok = buffer || dl_fail(err, DL_RESOURCE, "no memory to read %s", file->path);
    for (int i = 0; ok && i < t->n; i++)
        ok = dlr_tensor_load(t->exec, t->views[i], file, dlr_st_find(file, t->list[i].name), buffer,
                             err) &&
             dlr_exec_check(t->exec, err);
    free(buffer);
    return ok;
}

bool dlr_tensors_may_lack(const char *name) {
    static const char end[] = "num_batches_tracked";
    size_t n = strlen(name);
    return n >= sizeof end - 1 && strcmp(name + n - (sizeof end - 1), end) == 0;
}

bool dlr_tensors_load_model(const dlr_tensors *t, const dlr_st_file *file, dl_error *err) {
    dl_arena *arena = dl_arena_new(NULL);
    dlr_tensors there = {.exec = t->exec,
                         .list = DL_NEWS(arena, dlr_st_tensor, t->n),
                         .views = DL_NEWS(arena, dlr_view, t->n)};
    for (int i = 0; i < t->n; i++) {
        if (dlr_tensors_may_lack(t->list[i].name) && !dlr_st_find(file, t->list[i].name)) continue;
        there.list[there.n] = t->list[i], there.views[there.n++] = t->views[i];
    }
    bool ok = dlr_tensors_load(&there, file, err);
    dl_arena_free(arena);
    return ok;
}

bool dlr_tensors_load_file(const dlr_tensors *t, const char *path, dl_error *err) {
    dlr_weights weights;
    if (!dlr_weights_open(path, &weights, err)) return false;
    bool ok = dlr_tensors_load_model(t, weights.file, err);
    dlr_weights_close(&weights);
    return ok;
}

static bool is_shared(const dlr_st_tensor *want, const dlr_st_tensor *have, dl_dtype dtype) {
    return have && dlr_tensors_loads(have->dtype, dtype) && have->rank == want->rank &&
           memcmp(have->shape, want->shape, (size_t)want->rank * sizeof *want->shape) == 0;
}

bool dlr_tensors_load_shared(dl_arena *arena, const dlr_tensors *t, const char *path,
                             dlr_differences *others, int *taken, dl_error *err) {
    dlr_weights weights;
    *taken = 0;
    if (!dlr_weights_open(path, &weights, err)) return false;
    void *buffer = malloc(DLR_ST_PIECE);
    bool ok = buffer || dl_fail(err, DL_RESOURCE, "no memory to read %s", path);
    dlr_st_compare(arena, weights.file, t->list, t->n, others);
    for (int i = 0; ok && i < t->n; i++) {
        const dlr_st_tensor *have = dlr_st_find(weights.file, t->list[i].name);
        if (!is_shared(&t->list[i], have, t->views[i].type->dtype)) continue;
        ok = dlr_tensor_load(t->exec, t->views[i], weights.file, have, buffer, err) &&
             dlr_exec_check(t->exec, err);
        (*taken)++;
    }
    ok = ok &&
         (*taken || dl_fail(err, DL_INPUT,
                            "%.200s has no tensor of this model: nothing can begin with it", path));
    free(buffer);
    dlr_weights_close(&weights);
    return ok;
}

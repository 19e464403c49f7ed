#include "runtime/exec/not_finite.h"

#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdio.h>

#include "ir/base/str.h"
#include "runtime/comm/comm.h"
#include "runtime/exec/exec.h"
#include "runtime/exec/state.h"

enum { PIECE = 4096 /* elements that are checked together */ };

/* The number of the first element that is below `low`, or `high` or above, or NaN; -1: there is
 * none. */
static int64_t find_beyond(const dlr_exec *exec, dlr_view v, double low, double high,
                           double *value) {
    double values[PIECE];
    for (int64_t at = 0, count = dl_type_count(v.type); at < count; at += PIECE) {
        int64_t n = count - at < PIECE ? count - at : PIECE;
        dlr_state_read_range(exec, v, (dlr_range){at, n}, DL_F64, values);
        for (int64_t i = 0; i < n; i++)
            if (!(values[i] >= low && values[i] < high)) return *value = values[i], at + i;
    }
    return -1;
}

/* The index of the first element that is not finite, or -1. */
static int64_t find_element(const dlr_exec *exec, dlr_view v) {
    return dl_dtype_is_float(v.type->dtype) ? find_beyond(exec, v, -DBL_MAX, INFINITY, &(double){0})
                                            : -1;
}

/* Appends ", at [N=0, C=2]"; appends nothing for a scalar. */
static void put_place(dl_buf *b, const dl_type *t, int64_t number) {
    int64_t at[DL_MAX_RANK];
    for (int i = t->rank - 1; i >= 0; i--)
        at[i] = number % t->axis[i].size, number /= t->axis[i].size;
    for (int i = 0; i < t->rank; i++)
        dl_putf(b, "%s%s%s%lld", i ? ", " : ", at [", t->axis[i].name, *t->axis[i].name ? "=" : "",
                (long long)at[i]);
    if (t->rank) dl_puts(b, "]");
}

static const char *take(dl_arena *arena, dl_buf *b) {
    const char *text = dl_strdup(arena, b->at);
    dl_buf_free(b);
    return text;
}

const char *dlr_not_finite_variable(dl_arena *arena, const dlr_exec *exec, dl_var_role role) {
    const dl_plan *p = dlr_exec_plan(exec);
    for (int i = 0; i < p->vars.n; i++) {
        const dl_plan_var *v = &p->vars.at[i];
        int64_t at = v->role == role ? find_element(exec, dlr_exec_variable(exec, v->name)) : -1;
        if (at < 0) continue;
        dl_buf b = {0};
        dl_putf(&b, "'%.200s'", v->name);
        put_place(&b, &v->type, at);
        return take(arena, &b);
    }
    return NULL;
}

/* A finding, and its position in a step: batch and weights come before the launches. */
typedef struct {
    dl_arena *arena;
    dlr_exec *exec;
    const char *found; /* "'mul' (unet.dl:17), at [N=0, C=2]"; NULL: nothing */
    int64_t place;
} watch;

static const struct {
    dl_var_role role;
    const char *what;
} fed[] = {
    {DL_VAR_INPUT, "the input"}, {DL_VAR_TARGET, "the target"}, {DL_VAR_PARAM, "the weight"}};
enum { NFED = sizeof fed / sizeof *fed };

/* Checks the batch for a whole number that is no valid class or row of the model: "'k', at [N=2]:
 * 7, where the model takes 0 to 4". */
static void look_at_classes(watch *w) {
    const dlr_exec_options *o = dlr_exec_opened(w->exec);
    for (int i = 0; i < o->n_classes && !w->found; i++) {
        dlr_view v = dlr_exec_variable(w->exec, o->classes[i].name);
        double value;
        int64_t at = v.type ? find_beyond(w->exec, v, 0, (double)o->classes[i].count, &value) : -1;
        if (at < 0) continue;
        dl_buf b = {0};
        dl_putf(&b, "'%.200s'", o->classes[i].name);
        put_place(&b, v.type, at);
        dl_putf(&b, ": %.17g, where the model takes 0 to %lld", value,
                (long long)o->classes[i].count - 1);
        w->found = take(w->arena, &b), w->place = 0;
    }
}

/* Checks a launch's stored tensors for the first value that is not finite; an earlier finding is
 * kept. */
static void look(void *context, int program, int number) {
    watch *w = context;
    const dl_plan *p = dlr_exec_plan(w->exec);
    const dl_plan_launch *l = &p->programs.at[program].launches.at[number];
    const dl_plan_kernel *k = &p->kernels.at[l->kernel];
    for (int s = 0; s < k->stores.n && !w->found; s++) {
        const dl_plan_store *store = &k->stores.at[s];
        if (!*store->where) continue;
        int64_t at =
            find_element(w->exec, (dlr_view){.type = &store->type, .offset = l->args[store->arg]});
        if (at < 0) continue;
        dl_buf b = {0};
        dl_putf(&b, "'%s' (%.200s)", store->op, store->where);
        put_place(&b, &store->type, at);
        w->found = take(w->arena, &b), w->place = NFED + number;
    }
}

/* Gives all ranks the earliest finding of any rank (of the lowest such rank). A lost rank is
 * reported by the next call of the comm. */
static void agree(watch *w, dlr_comm *comm) {
    enum { SAID = 1024, WORDS = SAID / 4 };
    dlr_world world = dlr_comm_world(comm);
    char text[SAID] = "";
    int64_t key = w->found ? -(w->place * world.size + world.rank) : INT64_MIN, first;
    dlr_collective earliest = {.kind = DLR_ALL_REDUCE_MAX,
                               .type = DL_I64,
                               .outer = 1,
                               .count = 1,
                               .from = &key,
                               .to = &first,
                               .what = "all_reduce of where values are not finite"};
    if (!dlr_comm_all(comm, &earliest, &(dl_error){0}) || first == INT64_MIN) return;
    int rank = (int)(-first % world.size);
    snprintf(text, sizeof text, "%s", w->found && rank == world.rank ? w->found : "");
    dlr_collective said = {.kind = DLR_BROADCAST,
                           .type = DL_I32,
                           .outer = 1,
                           .count = WORDS,
                           .root = rank,
                           .from = text,
                           .to = text,
                           .what = "broadcast of where values are not finite"};
    if (!dlr_comm_all(comm, &said, &(dl_error){0})) return;
    w->found = dl_format(w->arena, "%s, on rank %d", text, rank), w->place = -first / world.size;
}

const char *dlr_start_checked(dl_arena *arena, dlr_exec *exec, int program) {
    watch w = {.arena = arena, .exec = exec}, classes = w;
    dlr_comm *comm = dlr_exec_ranks(exec)->comm;
    for (int i = 0; i < NFED && !w.found; i++)
        w.found = dlr_not_finite_variable(arena, exec, fed[i].role), w.place = i;
    look_at_classes(&classes);
    dlr_exec_observe(exec, look, &w);
    dlr_exec_start(exec, program);
    dlr_exec_observe(exec, NULL, NULL);
    if (comm) agree(&w, comm), agree(&classes, comm);
    if (!w.found) return NULL;
    if (classes.found && w.place >= NFED)
        return dl_format(arena,
                         "out of range is %s; the first value that is not finite is made by %s",
                         classes.found, w.found);
    return w.place < NFED
               ? dl_format(arena, "not finite is %s %s", fed[w.place].what, w.found)
               : dl_format(arena,
                           "the first value that is not finite is made by %s, or before it in the "
                           "same kernel (DLC_SKIP=fuse: each op is one)",
                           w.found);
}

const char *dlr_not_finite_text(dl_arena *arena, dlr_exec *exec, int program) {
    const char *found = dlr_start_checked(arena, exec, program);
    dlr_exec_wait_oldest(exec);
    return found ? dl_format(arena, ". %c%s", toupper((unsigned char)*found), found + 1) : "";
}

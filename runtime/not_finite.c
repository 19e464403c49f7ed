#include "runtime/not_finite.h"

#include <math.h>

#include "ir/base/str.h"
#include "runtime/state.h"

enum { PIECE = 4096 /* elements that are looked at together */ };

/* The number of the first element that is not finite, or -1. */
static int64_t find_element(const dlr_exec *exec, dlr_view v) {
    double values[PIECE];
    if (!dl_dtype_is_float(v.type->dtype)) return -1;
    for (int64_t at = 0, count = dl_type_count(v.type); at < count; at += PIECE) {
        int64_t n = count - at < PIECE ? count - at : PIECE;
        dlr_state_read_range(exec, v, (dlr_range){at, n}, DL_F64, values);
        for (int64_t i = 0; i < n; i++)
            if (!isfinite(values[i])) return at + i;
    }
    return -1;
}

/* ", at [N=0, C=2]"; nothing of a scalar. */
static void put_place(dl_buf *b, const dl_type *t, int64_t number) {
    int64_t at[DL_MAX_RANK];
    for (int i = t->rank - 1; i >= 0; i--) at[i] = number % t->axis[i].size, number /= t->axis[i].size;
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

/* The first value that a launch stored and that is not finite; what has been found stays. */
static void look(void *context, int program, int number) {
    dlr_finite_watch *w = context;
    const dl_plan *p = dlr_exec_plan(w->exec);
    const dl_plan_launch *l = &p->programs.at[program].launches.at[number];
    const dl_plan_kernel *k = &p->kernels.at[l->kernel];
    for (int s = 0; s < k->stores.n && !w->found; s++) {
        const dl_plan_store *store = &k->stores.at[s];
        if (!*store->where) continue;
        int64_t at = find_element(w->exec, (dlr_view){.type = &store->type, .offset = l->args[store->arg]});
        if (at < 0) continue;
        dl_buf b = {0};
        dl_putf(&b, "'%s' (%.200s)", store->op, store->where);
        put_place(&b, &store->type, at);
        w->found = take(w->arena, &b);
    }
}

void dlr_finite_begin(dlr_finite_watch *w, dl_arena *arena, dlr_exec *exec) {
    *w = (dlr_finite_watch){.arena = arena, .exec = exec};
    dlr_exec_observe(exec, look, w);
}

void dlr_finite_end(dlr_finite_watch *w) { dlr_exec_observe(w->exec, NULL, NULL); }

const char *dlr_not_finite_made(dl_arena *arena, dlr_exec *exec, int program) {
    dlr_finite_watch w;
    dlr_finite_begin(&w, arena, exec);
    dlr_exec_run(exec, program, NULL);
    dlr_finite_end(&w);
    return w.found;
}

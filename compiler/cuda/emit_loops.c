/* Shared by the loops of CUDA kernels: the order of axes, thread layouts, reductions, partial
 * results. */
#include "compiler/cuda/emit_loops.h"

#include <string.h>

int dl_cuda_power_of_two(int64_t n) {
    int power = 1;
    while (power < n) power *= 2;
    return power;
}

int64_t dl_cuda_share(int64_t n, int64_t unit, int64_t parts, int64_t *each) {
    *each = dl_at_least(unit, dl_round_up(dl_ceil_div(n, dl_at_least(1, parts)), unit));
    return dl_at_least(1, dl_ceil_div(n, *each));
}

/* ---- axes ---- */

/* The stride of an access along each space axis, in elements; 0: it does not depend on it. */
static void find_steps(const dl_emitter *e, const dl_kinstr *in, double step[DL_MAX_RANK]) {
    const dl_type *t = &e->k->params.at[in->param].type;
    int64_t stride[DL_MAX_RANK];
    for (int i = 0; i < DL_MAX_RANK; i++) step[i] = 0;
    if (t->layout.kind == DL_PANEL) return;
    dl_type_strides(t, stride);
    for (int i = 0; i < t->rank; i++) {
        const dl_index *at = &in->index[i];
        double each = (double)stride[i] / (double)(at->div > 1 ? at->div : 1);
        if (at->indirect) continue;
        if (!at->nterms && at->axis >= 0) step[at->axis] += each;
        for (int k = 0; k < at->nterms; k++)
            step[at->term[k].axis] += each * (double)at->term[k].mul / (double)at->term[k].div;
    }
}

static double distance(double step) { return step < 0 ? -step : step; }

dl_axis_list dl_cuda_order_axes(const dl_emitter *e, unsigned axes) {
    const dl_kernel *k = e->k;
    dl_axis_list l = {.points = 1};
    double lead[DL_MAX_RANK] = {0}, step[DL_MAX_RANK];
    int64_t most = 0;
    for (int i = e->now->run.n - 1; i >= 0;
         i--) { /* the access with most points; stores come last */
        const dl_kinstr *in = &k->instrs.at[e->now->run.at[i]];
        unsigned follows = 0;
        if (!dl_emit_is_access(in)) continue;
        find_steps(e, in, step);
        for (int a = 0; a < k->nspace; a++) follows |= step[a] != 0 ? 1u << a : 0;
        int64_t points = dl_axes_points(k->nspace, k->space, axes & follows);
        if ((axes & follows) && points > most) memcpy(lead, step, sizeof lead), most = points;
    }
    for (int a = 0; a < k->nspace; a++) {
        if (!(axes >> a & 1)) continue;
        int at = l.n++; /* axes that it does not depend on are outermost */
        for (; at > 0 && lead[l.axis[at - 1]] != 0 &&
               (lead[a] == 0 || distance(lead[l.axis[at - 1]]) < distance(lead[a]));
             at--)
            l.axis[at] = l.axis[at - 1];
        l.axis[at] = a, l.points *= k->space[a].size;
    }
    return l;
}

/* ---- reductions ---- */

dl_loop_type dl_cuda_accumulator_type(const dl_kinstr *in, int64_t terms) {
    if (!dl_dtype_is_float(in->type)) return DL_LOOP_LONG;
    bool few = dl_emit_is_float(in->type) && (in->op != DL_OP_sum || terms <= DL_SUM_TERMS);
    return few ? DL_LOOP_FLOAT : DL_LOOP_DOUBLE;
}

const char *dl_cuda_of_block(const dl_emitter *e, const char *name, const dl_kinstr *in) {
    return dl_format(e->arena, "%s<%s, %d>", name, dl_cuda_operator(in), DL_BLOCK);
}

void dl_cuda_reduce_few(dl_loops *l, int n, const int *numbers, const dl_expr *values, int lanes,
                        dl_expr *reduced) {
    const dl_emitter *e = l->e;
    const dl_kinstr *in = e->k->instrs.at;
    int *alike = DL_NEWS(e->arena, int, n + 1);
    for (int i = 0; i < n; i++) {
        int first = numbers[i], count = 0;
        dl_loop_type type = dl_loop_expr_type(values[first]);
        if (reduced[first]) continue;
        for (int j = i; j < n; j++)
            if (in[numbers[j]].op == in[first].op && dl_loop_expr_type(values[numbers[j]]) == type)
                alike[count++] = numbers[j];
        dl_expr all =
            dl_loop_array(l, type, DL_IN_THREAD, dl_format(e->arena, "$t%d$", first), count, NULL);
        for (int k = 0; k < count; k++) {
            reduced[alike[k]] = dl_loop_at(l, all, dl_loop_fixed(l, k));
            dl_loop_set(l, reduced[alike[k]], values[alike[k]]);
        }
        const dl_expr args[] = {all, dl_loop_number(l, lanes)};
        dl_loop_do(
            l, dl_loop_call(l, type, dl_cuda_of_block(e, "group_reduce_few", &in[first]), 2, args));
    }
}

/* ---- partial results ---- */

void dl_cuda_add_partial(dl_emitter *e, int number, const dl_axis_list *by, int64_t items,
                         dl_emitted *code) {
    e->partial[number] = (dl_partial){
        .by = *by, .count = by->points, .all = by->points, .base = code->workspace, .items = items};
    code->workspace += dl_plan_round(by->points * items * (int64_t)sizeof(double));
}

void dl_cuda_put_partial(dl_loops *l, int number, dl_expr at, dl_expr value, dl_expr test) {
    dl_loop_type type = dl_loop_partial_type(&l->e->k->instrs.at[number]);
    dl_expr all = dl_loop_workspace(l, type, l->e->partial[number].base);
    if (test) dl_loop_if(l, test);
    dl_loop_set(l, dl_loop_at(l, all, at), value);
    if (test) dl_loop_end(l);
}

bool dl_cuda_is_per_thread(const dl_emitter *e, int number) {
    return e->per_thread && e->k->instrs.at[number].kind == DL_K_REDUCE &&
           e->steps[number].over == e->per_thread;
}

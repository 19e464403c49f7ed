/* Shared by the loops of CUDA kernels: the order of axes, thread layouts, reductions, partial
 * results. */
#include "compiler/cuda/emit_loops.h"

#include <string.h>

int dl_cuda_power_of_two(int64_t n) {
    int power = 1;
    while (power < n) power *= 2;
    return power;
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
        if (in->kind != DL_K_LOAD && in->kind != DL_K_STORE) continue;
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

void dl_cuda_put_coordinates(dl_emitter *e, const char *number, const dl_axis_list *list) {
    dl_emit_delinearize(e, number, list->points, list->n, list->axis);
}

/* ---- threads ---- */

void dl_cuda_put_thread_layout(dl_emitter *e, const dl_thread_layout *t) {
    const char *index = e->dialect->index;
    int inner = t->strided ? t->groups : t->lanes;
    dl_putf(e->out, "    const %s %s = kd_thread() %% $/%d$, %s = kd_thread() / $/%d$;\n", index,
            t->strided ? "group" : "lane", inner, t->strided ? "lane" : "group", inner);
    dl_puts(e->out, "    (void)lane, (void)group;\n");
}

const char *dl_cuda_accumulator_type(const dl_kinstr *in, int64_t terms) {
    if (!dl_dtype_is_float(in->type)) return "long";
    return dl_emit_is_float(in->type) && (in->op != DL_OP_sum || terms <= DL_SUM_TERMS) ? "float"
                                                                                        : "double";
}

void dl_cuda_put_group_reduce(dl_emitter *e, const dl_kinstr *in, const dl_thread_layout *t) {
    dl_putf(e->out, "group_reduce<%s, %d, %d, %s>(", dl_cuda_operator(in), DL_BLOCK, t->lanes,
            t->strided ? "true" : "false");
}

void dl_cuda_put_block_reduce(dl_emitter *e, const dl_kinstr *in) {
    dl_putf(e->out, "block_reduce_one<%s, %d>(", dl_cuda_operator(in), DL_BLOCK);
}

void dl_cuda_reduce_few(dl_emitter *e, int n, const int *numbers, const char *const *types,
                        int lanes, const char **reduced) {
    for (int i = 0; i < n; i++) {
        int first = numbers[i], alike = 0;
        const char *by = dl_cuda_operator(&e->k->instrs.at[first]), *type = types[first];
        dl_buf values = {0};
        if (reduced[first]) continue;
        dl_puts(&values, "{");
        for (int j = i; j < n; j++) {
            int other = numbers[j];
            if (e->k->instrs.at[other].op != e->k->instrs.at[first].op ||
                strcmp(types[other], type) != 0)
                continue;
            dl_putf(&values, "%s$a%d$", alike ? ", " : "", other);
            reduced[other] = dl_format(e->arena, "$t%d$[%d]", first, alike++);
        }
        dl_putf(e->out, "    %s $t%d$[%d] = %s};\n    group_reduce_few<%s, %d>($t%d$, $%d$);\n",
                type, first, alike, values.at, by, DL_BLOCK, first, lanes);
        dl_buf_free(&values);
    }
}

/* ---- partial results ---- */

void dl_cuda_add_partial(dl_emitter *e, int number, const dl_axis_list *by, int64_t items,
                         dl_emitted *code) {
    dl_partial *p = &e->partial[number];
    *p = (dl_partial){.n = by->n,
                      .count = by->points,
                      .all = by->points,
                      .base = code->workspace,
                      .items = items};
    memcpy(p->axis, by->axis, sizeof p->axis);
    code->workspace += dl_plan_round(by->points * items * (int64_t)sizeof(double));
}

void dl_cuda_put_partials(dl_emitter *e, int number) {
    dl_putf(e->out, "(%s *)(workspace + $%lldL$)", dl_emit_partial_type(&e->k->instrs.at[number]),
            (long long)e->partial[number].base);
}

void dl_cuda_put_partial(dl_emitter *e, int number, const char *at, const char *value) {
    dl_puts(e->out, "("), dl_cuda_put_partials(e, number);
    dl_putf(e->out, ")[%s] = %s;\n", at, value);
}

bool dl_cuda_is_per_thread(const dl_emitter *e, int number) {
    return e->per_thread && e->k->instrs.at[number].kind == DL_K_REDUCE &&
           e->steps[number].over == e->per_thread;
}

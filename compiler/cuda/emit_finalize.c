/* Finalizes reductions over all of a sweep: combines the CTAs' partial results in fixed order,
 * in double; then runs the instructions that need them, and stores values that later sweeps
 * read. */
#include <string.h>

#include "compiler/cuda/emit_loops.h"

enum {
    THREAD_TERMS = 4, /* partial results that one thread sums, */
    WARP_TERMS = 256, /* that one warp sums; a CTA takes more */
    LOADS = 4,        /* in flight at a time, per thread */
};

/* The axes of partial results that a reduction does not keep: they are summed, too. */
static dl_axis_list rest_of(const dl_emitter *e, int number) {
    const dl_partial *p = &e->partial[number];
    dl_axis_list l = {.points = 1};
    for (int i = 0; i < p->n; i++)
        if (!(e->steps[number].axes >> p->axis[i] & 1))
            l.axis[l.n++] = p->axis[i], l.points *= e->k->space[p->axis[i]].size;
    return l;
}

/* Coordinates by division; axes that are collapsed elsewhere are not here. */
static void put_coordinates(dl_emitter *e, const char *number, const dl_axis_list *l) {
    int64_t count = l->points;
    for (int i = 0; i < l->n; i++) {
        int64_t size = e->k->space[l->axis[i]].size ? e->k->space[l->axis[i]].size : 1;
        count = count / size ? count / size : 1;
        dl_putf(e->out, "    const %s $x%d$ = %s / $/%lld%s$ %% $/%lld%s$;\n", e->dialect->index,
                l->axis[i], number, (long long)count, e->dialect->whole, (long long)size,
                e->dialect->whole);
    }
}

/* A loop in which a thread sums partial results of `n` reductions, by reduction. */
static void put_terms(dl_emitter *e, int n, const int *numbers, const dl_thread_layout *t) {
    dl_axis_list rest = rest_of(e, numbers[0]);
    const char *suffix = e->dialect->whole;
    for (int i = 0; i < n; i++) {
        const dl_kinstr *in = &e->k->instrs.at[numbers[i]];
        dl_putf(e->out, "    %s $t%d$ = %s;\n", dl_emit_partial_type(in), numbers[i],
                dl_emit_start(in));
    }
    dl_putf(e->out, "#pragma unroll %d\n    for (%s n = lane; n < $%lld%s$; n += $%d$) {\n",
            n < LOADS ? LOADS / n : 1, e->dialect->index,
            (long long)(e->partial[numbers[0]].items * rest.points), suffix, t->lanes);
    put_coordinates(e, "n", &rest);
    for (int i = 0; i < n; i++) {
        const dl_kinstr *in = &e->k->instrs.at[numbers[i]];
        const dl_partial *p = &e->partial[numbers[i]];
        dl_putf(e->out,
                "    $t%d$ = %s::of($t%d$, ((const %s *)(workspace + $%lldL$))[n / $/%lld%s$ * "
                "$%lld%s$ + ",
                numbers[i], dl_cuda_operator(in), numbers[i], dl_emit_partial_type(in),
                (long long)p->base, (long long)(rest.points ? rest.points : 1), suffix,
                (long long)p->count, suffix);
        dl_emit_linear_index(e, p->n, p->axis);
        dl_puts(e->out, "]);\n");
    }
    dl_puts(e->out, "    }\n");
}

static bool joins(const dl_emitter *e, int a, int b) {
    dl_axis_list p = rest_of(e, a), q = rest_of(e, b);
    return e->partial[a].items == e->partial[b].items && p.n == q.n &&
           memcmp(p.axis, q.axis, (size_t)p.n * sizeof *p.axis) == 0;
}

/* v<number>: the sum over the group's threads. */
static void put_value(dl_emitter *e, int number, const dl_thread_layout *t) {
    const dl_kinstr *in = &e->k->instrs.at[number];
    dl_cast c = dl_emit_rounding(DL_SINGLE, in->type, true);
    if (!*c.open) c = (dl_cast){dl_format(e->arena, "(%s)(", dl_emit_type(e, in->type)), ")"};
    dl_putf(e->out,
            "    const %s $v%d$ = %sgroup_reduce_by<%s, %d>($t%d$, $%d$)%s;\n    (void)$v%d$;\n",
            dl_emit_type(e, in->type), number, c.open, dl_cuda_operator(in), DL_BLOCK, number,
            t->lanes, c.close, number);
}

/* Reductions with equally many partial results share a loop, so that their loads overlap. */
static void put_combinations(dl_emitter *e, const dl_thread_layout *t) {
    const dl_loop_nest *s = e->now;
    int *numbers = DL_NEWS(e->arena, int, s->combined.n + 1);
    bool *done = DL_NEWS(e->arena, bool, s->combined.n + 1);
    for (int i = 0; i < s->combined.n; i++) {
        int n = 0;
        for (int j = i; j < s->combined.n; j++)
            if (!done[j] && !done[i] && joins(e, s->combined.at[i], s->combined.at[j]))
                numbers[n++] = s->combined.at[j];
        for (int j = i; j < s->combined.n; j++)
            for (int k = 0; k < n; k++) done[j] |= s->combined.at[j] == numbers[k];
        if (n) put_terms(e, n, numbers, t);
    }
    for (int i = 0; i < s->combined.n; i++) put_value(e, s->combined.at[i], t);
}

int64_t dl_cuda_finalize(dl_emitter *e) {
    const dl_loop_nest *s = e->now;
    dl_axis_list all = {.points = 1}, kept;
    int64_t terms = 1;
    for (int i = 0; i < e->k->nspace; i++) all.axis[all.n++] = i;
    kept = dl_emit_list_axes(e, &all, s->axes);
    for (int i = 0; i < s->combined.n; i++) {
        int64_t n = e->partial[s->combined.at[i]].items * rest_of(e, s->combined.at[i]).points;
        if (n > terms) terms = n;
    }
    int lanes = terms <= THREAD_TERMS ? 1 : terms <= WARP_TERMS ? DL_WARP : DL_BLOCK;
    dl_thread_layout t = {.lanes = lanes, .groups = DL_BLOCK / lanes};
    dl_cuda_put_thread_layout(e, &t);
    dl_putf(e->out, "    const %s number = item * $%d$ + group;\n", e->dialect->index, t.groups);
    dl_putf(e->out,
            "    const bool live = number < $%lld%s$;\n    const %s at = live ? number : 0;\n",
            (long long)kept.points, e->dialect->whole, e->dialect->index);
    put_coordinates(e, "at", &kept);
    put_combinations(e, &t);
    dl_puts(e->out, "    if (live && lane == 0) {\n");
    dl_emit_run_finalize(e);
    dl_puts(e->out, "    }\n");
    return dl_ceil_div(kept.points ? kept.points : 1, t.groups);
}

/* Scatter-add: kernels that add at indices which are values. Each destination searches the
 * points that may have its index, and sums them in order, in double. So no two threads add to
 * one destination, and the bits are always the same. A CTA searches for one destination, 256
 * points at a time; where there are few points, each thread has one element of the result. */
#include "compiler/cuda/emit_loops.h"

enum { FEW_POINTS = 32 /* that each thread searches alone */ };

typedef struct {
    dl_emitter *e;
    const dl_kinstr *store;
    int number, end; /* the instruction that computes the index; the store */
    dl_axis_list kept, added,
        rest;        /* axes that index and result have; that are summed; of whole rows */
    int64_t choices; /* elements along the indexed axis */
} scatter;

static scatter find_scatter(dl_emitter *e) {
    const dl_kernel *k = e->k;
    scatter s = {.e = e, .end = k->instrs.n - 1, .choices = 1};
    dl_axis_list all = {.points = 1};
    unsigned has = 0, wide = 0;
    s.store = &k->instrs.at[s.end];
    for (int i = 0; i < k->nspace; i++)
        all.axis[all.n++] = i, wide |= k->space[i].size != 1 ? 1u << i : 0;
    s.number = dl_kinstr_indirect(k, s.store);
    if (s.number < 0) return s;
    for (int i = 0; i < k->params.at[s.store->param].type.rank; i++) {
        const dl_index *at = &s.store->index[i];
        if (at->indirect)
            s.choices = k->params.at[s.store->param].type.axis[i].size;
        else if (at->axis >= 0)
            has |= 1u << at->axis;
    }
    unsigned told = e->steps[s.number].axes;
    s.kept = dl_cuda_list_axes(e, &all, wide & told & has);
    s.added = dl_cuda_list_axes(e, &all, wide & ~has);
    s.rest = dl_cuda_list_axes(e, &all, wide & ~told & has);
    return s;
}

static void put_axes(const scatter *s, const char *number, const dl_axis_list *l) {
    int64_t count = l->points;
    for (int i = 0; i < l->n; i++) {
        int64_t size = s->e->k->space[l->axis[i]].size ? s->e->k->space[l->axis[i]].size : 1;
        count = count / size ? count / size : 1;
        dl_putf(s->e->out, "    const %s $x%d$ = %s / $/%lld%s$ %% $/%lld%s$;\n",
                s->e->dialect->index, l->axis[i], number, (long long)count, s->e->dialect->whole,
                (long long)size, s->e->dialect->whole);
    }
}

static const char *sum_type(const scatter *s) {
    return dl_dtype_is_float(s->e->k->params.at[s->store->param].type.dtype) ? "double" : "long";
}

/* "{ ... }": computes a point's index, and sets `to` if it is this destination. */
static void put_test(const scatter *s, const char *to) {
    dl_emitter *e = s->e;
    dl_puts(e->out, "    {\n");
    for (int i = 0; i <= s->number; i++) dl_emit_instr(e, i);
    dl_putf(e->out, "    %s = $v%d$ == choice;\n    }\n", to, s->number);
}

static void put_addition(const scatter *s) {
    dl_emitter *e = s->e;
    for (int i = 0; i < s->end; i++) dl_emit_instr(e, i);
    dl_putf(e->out, "    sum += (%s)$v%d$;\n", sum_type(s), s->store->args[0]);
}

static void put_store(const scatter *s) {
    dl_emitter *e = s->e;
    int value = s->store->args[0];
    dl_dtype d = e->k->instrs.at[value].type;
    dl_cast c = dl_emit_rounding(DL_SINGLE, d, true);
    if (!*c.open) c = (dl_cast){dl_format(e->arena, "(%s)(", dl_emit_type(e, d)), ")"};
    dl_putf(e->out, "    const %s $v%d$ = %ssum%s;\n", dl_emit_type(e, d), value, c.open, c.close);
    if (value != s->number)
        dl_putf(e->out, "    const %s $v%d$ = choice;\n",
                dl_emit_type(e, e->k->instrs.at[s->number].type), s->number);
    dl_emit_instr(e, s->end);
}

/* One thread per element. */
static int64_t put_elements(const scatter *s) {
    dl_emitter *e = s->e;
    const char *index = e->dialect->index, *suffix = e->dialect->whole;
    int64_t rest = s->rest.points ? s->rest.points : 1, choices = s->choices ? s->choices : 1;
    int64_t all = s->kept.points * s->choices * s->rest.points;
    dl_putf(e->out,
            "    const %s element = item * $%d$ + kd_thread();\n    if (element < $%lld%s$) {\n",
            index, DL_BLOCK, (long long)all, suffix);
    dl_putf(e->out,
            "    const %s row = element %% $/%lld%s$, place = element / $/%lld%s$;\n    const %s "
            "choice "
            "= place %% "
            "$/%lld%s$, before = place / $/%lld%s$;\n    (void)row, (void)before;\n",
            index, (long long)rest, suffix, (long long)rest, suffix, index, (long long)choices,
            suffix, (long long)choices, suffix);
    put_axes(s, "before", &s->kept);
    put_axes(s, "row", &s->rest);
    dl_putf(e->out,
            "    %s sum = 0;\n#pragma unroll 1\n    for (int point = 0; point < %lld; point++) {\n "
            "   bool "
            "hit;\n",
            sum_type(s), (long long)s->added.points);
    put_axes(s, "point", &s->added);
    put_test(s, "hit");
    dl_puts(e->out, "    if (hit) {\n");
    put_addition(s);
    dl_puts(e->out, "    }\n    }\n");
    put_store(s);
    dl_puts(e->out, "    }\n");
    return dl_ceil_div(all > 0 ? all : 1, DL_BLOCK);
}

/* One CTA per destination and some of its elements. */
static int64_t put_places(const scatter *s) {
    dl_emitter *e = s->e;
    const char *index = e->dialect->index, *suffix = e->dialect->whole;
    int64_t rest = s->rest.points ? s->rest.points : 1, choices = s->choices ? s->choices : 1;
    int groups = dl_cuda_power_of_two(rest < DL_BLOCK ? rest : DL_BLOCK);
    dl_thread_layout t = {.lanes = DL_BLOCK / groups, .groups = groups, .strided = true};
    int64_t tiles = dl_ceil_div(rest, groups), places = s->kept.points * s->choices;
    dl_cuda_put_thread_layout(e, &t);
    dl_putf(e->out,
            "    const %s place = item / $:%lld%s$, element = item %% $:%lld%s$ * $%d$ + group;\n  "
            "  const "
            "%s choice "
            "= place "
            "%% $/%lld%s$, before = place / $/%lld%s$;\n    (void)before;\n",
            index, (long long)tiles, suffix, (long long)tiles, suffix, groups, index,
            (long long)choices, suffix, (long long)choices, suffix);
    dl_putf(
        e->out,
        "    const bool live = element < $%lld%s$ && place < $%lld%s$;\n    const %s row = live ? "
        "element : 0;\n"
        "    (void)row;\n",
        (long long)s->rest.points, suffix, (long long)places, suffix, index);
    put_axes(s, "before", &s->kept);
    put_axes(s, "row", &s->rest);
    dl_putf(
        e->out,
        "    __shared__ %s hits[%d];\n    __shared__ int counts[%d];\n    const int warp = "
        "kd_thread() / "
        "32;\n    %s sum = 0;\n#pragma unroll 1\n    for (%s first = 0; first < $%lld%s$; first "
        "+= $%d$) {\n",
        index, DL_BLOCK, DL_BLOCK / DL_WARP, sum_type(s), index, (long long)s->added.points, suffix,
        DL_BLOCK);
    dl_putf(e->out,
            "    const %s mine = first + kd_thread();\n    bool hit = false;\n    if (mine < "
            "$%lld%s$) {\n",
            index, (long long)s->added.points, suffix);
    put_axes(s, "mine", &s->added);
    put_test(s, "hit");
    dl_putf(e->out,
            "    }\n    const unsigned votes = __ballot_sync(0xffffffffu, hit);\n"
            "    if (threadIdx.x %% 32 == 0) counts[warp] = __popc(votes);\n    __syncthreads();\n"
            "    int found = 0, at = 0;\n    for (int w = 0; w < %d; w++) {\n        if (w == "
            "warp) at = found;\n"
            "        found += counts[w];\n    }\n"
            "    if (hit) hits[at + __popc(votes & ((1u << threadIdx.x %% 32) - 1))] = mine;\n"
            "    __syncthreads();\n#pragma unroll 1\n    for (int i = lane; live && i < found; i "
            "+= $%d$) {\n"
            "    const %s point = hits[i];\n",
            DL_BLOCK / DL_WARP, t.lanes, index);
    put_axes(s, "point", &s->added);
    put_addition(s);
    dl_putf(e->out,
            "    }\n    __syncthreads(); /* hits are read */\n    }\n    sum = "
            "group_reduce<by_sum, %d, %d, "
            "true>(sum);\n    if (live && lane == 0) {\n",
            DL_BLOCK, t.lanes);
    put_store(s);
    dl_puts(e->out, "    }\n");
    return tiles * (places ? places : 1);
}

bool dl_cuda_scatter(dl_emitter *e, dl_emitted *code, dl_error *err) {
    const dl_kernel *k = e->k;
    scatter s = find_scatter(e);
    bool unfused = s.number >= 0 && k->params.at[s.store->param].type.dtype != DL_BOOL;
    for (int i = 0; i < s.end; i++)
        unfused = unfused && k->instrs.at[i].kind != DL_K_STORE &&
                  e->steps[i].kind != DL_K_REDUCE && k->instrs.at[i].kind != DL_K_CONTRACT;
    if (!unfused)
        return dl_emit_refuse(k, &k->instrs.at[s.end], err,
                              "additions at numbered places stand alone in a kernel [DL-E0803]");
    dl_buf body = {0}, *out = e->out;
    e->out = &body, e->coordinates = 0, code->needs[DL_NEED_SWEEPS] = 1;
    int64_t items = s.added.points <= FEW_POINTS ? put_elements(&s) : put_places(&s);
    e->out = out;
    bool ok = dl_cuda_head(e, code, items, DL_BLOCK, 0, err);
    if (ok) {
        dl_putf(e->out, "    const %s item = kd_block();\n", e->dialect->index);
        unsigned named = 0;
        for (int i = 0; i < k->nspace; i++) named |= k->space[i].size != 1 ? 1u << i : 0;
        dl_cuda_put_point_axes(e, named);
        dl_putn(e->out, body.at, body.n);
        dl_cuda_foot(e, code, 1);
    }
    dl_buf_free(&body);
    return ok;
}

/* Loop nests over points. Without reductions a thread takes one point, or a vector of contiguous
 * ones. With reductions a lane group has a kept point and loops over its terms, a part of which
 * is a CTA's; its result is a partial result. */
#include "compiler/cuda/emit_loops.h"

enum {
    LEAST_TERMS = 8,         /* terms per thread, at least, before more CTAs share a sum */
    FEW_POINTS = 2048,       /* kept points: with fewer, each has a whole CTA */
    WARP_TERMS = 2048,       /* terms: too many for a warp */
    MOST_ROWS = 8,           /* that a thread loops over, without sums */
    SCALAR_POINTS = 1 << 13, /* without sums: with so few points, one thread for each is better */
    MOST_UNROLLED = 4,       /* unroll factor of a loop over terms, for overlapping loads, */
    UNROLL_REGISTERS = 24    /* as long as they fit into so many registers */
};

typedef struct {
    dl_emitter *e;
    dl_axis_list order, kept, summed;
    dl_thread_layout layout;
    dl_vectors vectors;
    bool vectors_kept;          /* along a kept axis: each of a vector's points has its own sums */
    bool sums;                  /* has reductions */
    int64_t points, terms;      /* in vectors */
    dl_axis_list around, along; /* without sums: the axes of a vector, and the axes around them; */
    int64_t rows,
        step;   /* a thread has several vectors, each so many points after the one before; 0: one */
    int unroll; /* terms that a thread takes at once */
    int64_t tiles, parts,
        each; /* CTAs by kept points, and by parts of the sums, `each` terms long */
} nest;

static const dl_kinstr *instr_of(const nest *s, int i) { return &s->e->k->instrs.at[i]; }
static bool is_reduction(const nest *s, int i) { return s->e->steps[i].kind == DL_K_REDUCE; }
/* Does it keep no axis while others do? Then it is reduced over all threads of the CTA. */
static bool is_of_block(const nest *s, int i) { return !s->e->steps[i].axes && s->kept.n; }

static void choose_layout(nest *s) {
    int lanes;
    if (s->vectors_kept || !s->summed.n) {
        s->layout.strided = true;
        int groups =
            s->points >= DL_WARP ? DL_WARP : dl_cuda_power_of_two(s->points ? s->points : 1);
        lanes = DL_BLOCK / groups;
        while (lanes > 1 && lanes / 2 >= s->terms) lanes /= 2;
        if (s->points >= (int64_t)DL_BLOCK * DL_BLOCKS_ENOUGH) lanes = 1;
    } else if (s->points <= FEW_POINTS || s->terms > WARP_TERMS) {
        lanes = s->terms > DL_WARP ? DL_BLOCK : dl_cuda_power_of_two(s->terms);
    } else {
        lanes = s->terms >= DL_WARP ? DL_WARP : dl_cuda_power_of_two(s->terms);
    }
    if (lanes < 1) lanes = 1;
    s->layout.lanes = lanes, s->layout.groups = DL_BLOCK / lanes;
}

static int64_t lcm(int64_t a, int64_t b) {
    int64_t x = a, y = b;
    while (y) {
        int64_t rest = x % y;
        x = y, y = rest;
    }
    return a / x * b;
}

/* Without sums: a thread takes several rows, so that loop-invariant values, such as a norm's
 * weight, are loaded and computed once; as many as leave enough CTAs. */
static void choose_rows(nest *s) {
    dl_emitter *e = s->e;
    bool invariant = false;
    int n = s->kept.n, first = n - 1;
    s->step = DL_BLOCK * s->vectors.width;
    if (s->sums || e->per_thread || s->vectors.other_axis || n < 2 || s->vectors.width == 1) return;
    while (first > 0 && dl_emit_collapses(e, s->kept.axis[first - 1], s->kept.axis[first])) first--;
    unsigned own = 0;
    for (int i = first; i < n; i++) own |= 1u << s->kept.axis[i];
    s->along = dl_emit_list_axes(e, &s->kept, own),
    s->around = dl_emit_list_axes(e, &s->kept, ~own);
    dl_vectors vectors = dl_cuda_find_vectors(e, &s->kept, e->now->axes & ~own);
    for (int i = 0; i < e->k->instrs.n; i++) invariant |= vectors.invariant[i];
    int64_t step = lcm(s->along.points, s->step), blocks = s->kept.points / s->step,
            rows = blocks / (2 * DL_BLOCKS_ENOUGH);
    if (rows > MOST_ROWS) rows = MOST_ROWS;
    if (rows < 1) rows = 1;
    if (!invariant || !s->around.n || !s->kept.points || step > s->kept.points / rows) return;
    s->vectors = vectors, s->rows = rows, s->step = step;
}

/* The number of terms whose loads a thread can have in flight. */
static int choose_unroll(const nest *s) {
    int64_t registers = 0, most = s->each / s->layout.lanes;
    int unroll = MOST_UNROLLED;
    for (int i = 0; i < s->e->now->run.n; i++) {
        int number = s->e->now->run.at[i];
        const dl_kinstr *in = instr_of(s, number);
        if (in->kind != DL_K_LOAD || s->vectors.invariant[number]) continue;
        int bytes =
            s->vectors.has[number] ? dl_dtype_bytes(s->e->k->params.at[in->param].type.dtype) : 4;
        registers += dl_ceil_div(bytes * s->vectors.width, 4);
    }
    while (unroll > 1 && (unroll * registers > UNROLL_REGISTERS || unroll > most)) unroll /= 2;
    return s->sums && !s->e->per_thread ? unroll : 1;
}

static nest plan_nest(dl_emitter *e) {
    static const dl_axis_list nothing = {.points = 1};
    nest s = {.e = e, .parts = 1};
    unsigned kept = 0;
    for (int i = 0; i < e->now->run.n; i++)
        if (is_reduction(&s, e->now->run.at[i]))
            s.sums = true, kept |= e->steps[e->now->run.at[i]].axes;
    if (!s.sums) kept = e->now->axes;
    s.order = dl_cuda_order_axes(e, e->now->axes);
    s.kept = dl_emit_list_axes(e, &s.order, kept);
    s.summed = dl_emit_list_axes(e, &s.order, e->now->axes & ~kept);
    int last = s.order.n ? s.order.axis[s.order.n - 1] : -1;
    s.vectors_kept = last >= 0 && kept >> last & 1;
    unsigned moving = s.sums && s.kept.points ? e->now->axes & ~kept : ~0u;
    bool scalar = !s.sums && s.kept.points <= SCALAR_POINTS;
    s.vectors = dl_cuda_find_vectors(e,
                                     scalar           ? &nothing
                                     : s.vectors_kept ? &s.kept
                                                      : &s.summed,
                                     moving);
    if (!scalar && (!s.sums || !s.vectors_kept))
        dl_cuda_choose_vector_axis(e, s.vectors_kept ? &s.kept : &s.summed, moving, &s.vectors);
    s.points = s.kept.points / (s.vectors_kept ? s.vectors.width : 1);
    s.terms = s.summed.points / (s.vectors_kept ? 1 : s.vectors.width);
    choose_rows(&s);
    choose_layout(&s);
    s.tiles = dl_ceil_div(s.points, s.layout.groups);
    if (s.tiles < 1) s.tiles = 1;
    int64_t parts = DL_BLOCKS_ENOUGH / s.tiles,
            most = dl_ceil_div(s.terms, s.layout.lanes * LEAST_TERMS);
    if (parts > most) parts = most;
    if (parts < 1) parts = 1;
    s.each = dl_ceil_div(dl_ceil_div(s.terms, parts), s.layout.lanes) * s.layout.lanes;
    if (s.each < 1) s.each = 1;
    s.parts = dl_ceil_div(s.terms, s.each);
    if (s.parts < 1) s.parts = 1;
    s.unroll = choose_unroll(&s);
    return s;
}

/* Accumulates one more value. A missing term is masked without a branch, since each unrolled
 * copy would have one. */
static void put_growth(dl_emitter *e, int number) {
    const nest *s = e->loop;
    const char *which = s->vectors_kept && s->vectors.width > 1 ? "[j]" : "";
    const dl_kinstr *in = instr_of(s, number);
    const char *type = s->unroll > 1 ? dl_cuda_accumulator_type(in, s->unroll)
                                     : dl_emit_partial_type(in),
               *own = dl_format(e->arena, "$%s%d$%s", s->unroll > 1 ? "t" : "a", number, which);
    dl_putf(e->out, "    %s = %s%s::of(%s, (%s)$v%d$)", own, s->unroll > 1 ? "in ? " : "",
            dl_cuda_operator(in), own, type, in->args[0]);
    if (s->unroll > 1) dl_putf(e->out, " : %s", own);
    dl_puts(e->out, ";\n");
}

static void put_program(nest *s, const bool *runs) {
    dl_emitter *e = s->e;
    dl_cuda_open_vectors(e, &s->vectors, runs);
    e->reduce = put_growth, e->loop = s;
    for (int i = 0; i < e->now->read.n; i++)
        if (!(e->steps[e->now->read.at[i]].axes & e->per_thread))
            dl_emit_read(e, e->now->read.at[i]);
    for (int i = 0; i < e->now->run.n; i++) {
        int number = e->now->run.at[i];
        if (e->steps[number].axes & e->per_thread) continue;
        if (s->unroll > 1 && instr_of(s, number)->kind == DL_K_STORE && !s->vectors.has[number])
            dl_puts(e->out, "    if (in)\n");
        if (dl_cuda_is_per_thread(e, number))
            dl_cuda_put_per_thread_value(e, number);
        else
            dl_emit_instr(e, number);
    }
    e->reduce = NULL, e->loop = NULL;
    dl_cuda_close_vectors(e, &s->vectors, runs, s->unroll > 1 ? "in" : NULL);
}

/* Without reductions. */
static void put_points(nest *s) {
    dl_emitter *e = s->e;
    dl_putf(e->out, "    const %s at = item * $%d$ + kd_thread();\n    if (at < $%lld%s$) {\n",
            e->dialect->index, DL_BLOCK, (long long)s->points, e->dialect->whole);
    dl_cuda_put_vector_coordinates(e, "at", &s->kept, &s->vectors);
    put_program(s, dl_cuda_find_runs(e));
    dl_puts(e->out, "    }\n");
}

/* The same for several rows, with CTAs of the same part of a row adjacent. */
static void put_rows(nest *s) {
    dl_emitter *e = s->e;
    const char *index = e->dialect->index, *suffix = e->dialect->whole;
    const bool *runs = dl_cuda_find_runs(e);
    int block = DL_BLOCK * s->vectors.width;
    long long row_parts = s->step / block;
    dl_putf(e->out,
            "    const %s first = item / $:%lld%s$ * $%lld%s$ + item %% $:%lld%s$ * $%d$ + "
            "kd_thread() * $%d$;\n",
            index, row_parts, suffix, (long long)(s->step * s->rows), suffix, row_parts, suffix,
            block, s->vectors.width);
    dl_putf(e->out, "    const %s own = first %% $/%lld%s$;\n", index, (long long)s->along.points,
            suffix);
    dl_cuda_put_coordinates(e, "own", &s->along);
    dl_cuda_load_invariant(e, &s->vectors, runs);
    dl_putf(e->out,
            "    const %s end = first + $%lld%s$ < $%lld%s$ ? first + $%lld%s$ : "
            "$%lld%s$;\n#pragma unroll 1\n"
            "    for (%s at = first; at < end; at += $%lld%s$) {\n    const %s line = at / "
            "$/%lld%s$;\n",
            index, (long long)(s->step * s->rows), suffix, (long long)s->kept.points, suffix,
            (long long)(s->step * s->rows), suffix, (long long)s->kept.points, suffix, index,
            (long long)s->step, suffix, index, (long long)s->along.points, suffix);
    dl_cuda_put_coordinates(e, "line", &s->around);
    put_program(s, runs);
    dl_puts(e->out, "    }\n");
}

/* Are its vector values reduced over the CTA's threads, and stored contiguously? */
static bool is_left(const nest *s, int number) {
    return is_reduction(s, number) && !is_of_block(s, number) && s->vectors_kept &&
           s->vectors.width > 1 && s->layout.groups > 1 && s->layout.lanes > 1;
}

static bool are_alike(const dl_kinstr *a, const dl_kinstr *b) {
    return a->op == b->op && dl_dtype_is_float(a->type) == dl_dtype_is_float(b->type);
}

/* Reductions of one kind, the first of them `number`, are stored as partial results in a loop,
 * so that their text exists once. In the workspace they have a constant distance. */
static void put_left(nest *s, int number, bool *left, dl_emitted *code) {
    dl_emitter *e = s->e;
    const dl_kinstr *in = instr_of(s, number);
    const char *all = dl_format(e->arena, "$a%d$", number);
    dl_buf chosen = {0};
    int64_t apart = 0;
    int n = 0;
    for (int i = 0; i < e->now->run.n; i++) {
        int other = e->now->run.at[i];
        if (left[other] || !is_left(s, other) || !are_alike(in, instr_of(s, other))) continue;
        dl_cuda_add_partial(e, other, &s->kept, s->parts, code);
        if (n) dl_putf(&chosen, "i == $%d$ ? $a%d$[j] : ", n, other);
        if (n == 1) apart = e->partial[other].base - e->partial[number].base;
        left[other] = true, n++;
    }
    if (n > 1) {
        dl_putf(e->out,
                "#pragma unroll 1\n    for (int i = 0; i < %d; i++) {\n    %s all[%d];\n#pragma "
                "unroll\n"
                "    for (int j = 0; j < %d; j++) all[j] = %s%s[j];\n",
                n, dl_emit_partial_type(in), s->vectors.width, s->vectors.width, chosen.at, all);
        all = "all";
    }
    dl_buf_free(&chosen);
    dl_putf(e->out, "    group_store<%s, %d>(%s, $%d$, ", dl_cuda_operator(in), DL_BLOCK, all,
            s->layout.groups);
    dl_cuda_put_partials(e, number);
    if (n > 1) dl_putf(e->out, " + i * $%lldL$", (long long)apart / (long long)sizeof(double));
    dl_putf(e->out, " + part * $%lldL$ + first, $%lld%s$ - first);\n", (long long)s->kept.points,
            (long long)s->kept.points, e->dialect->whole);
    if (n > 1) dl_puts(e->out, "    }\n");
}

/* Stores the vector sums of a thread, or of the CTA. */
static void put_vector(nest *s, int number) {
    dl_emitter *e = s->e;
    if (s->layout.groups == 1)
        dl_putf(e->out, "    block_reduce<%s, %d>($a%d$);\n", dl_cuda_operator(instr_of(s, number)),
                DL_BLOCK, number);
    dl_putf(e->out, "#pragma unroll\n    for (int j = 0; j < %d; j++)\n    if (live && lane == 0) ",
            s->vectors.width);
    dl_cuda_put_partial(e, number,
                        dl_format(e->arena, "part * $%lldL$ + at + j", (long long)s->kept.points),
                        dl_format(e->arena, "$a%d$[j]", number));
}

/* Stores a thread's sum, or one of its sums, as a partial result; `reduced`: the CTA's sum, or
 * NULL. */
static void put_result(nest *s, int number, const char *reduced) {
    dl_emitter *e = s->e;
    const dl_kinstr *in = &e->k->instrs.at[number];
    const char *type = dl_emit_partial_type(in);
    int width = s->vectors_kept ? s->vectors.width : 1;
    if (!is_of_block(s, number) && width > 1) {
        put_vector(s, number);
        return;
    }
    dl_puts(e->out, "    {\n");
    if (is_of_block(s, number)) {
        dl_putf(e->out, "    %s all = $a%d$%s;\n", type, number, width > 1 ? "[0]" : "");
        for (int j = 1; j < width; j++)
            dl_putf(e->out, "    all = %s::of(all, $a%d$[%d]);\n", dl_cuda_operator(in), number, j);
        dl_puts(e->out, "    all = "), dl_cuda_put_block_reduce(e, in), dl_puts(e->out, "all);\n");
        dl_puts(e->out, "    if (threadIdx.x == 0) ");
        dl_cuda_put_partial(e, number, "item", "all");
    } else {
        dl_putf(e->out, "    const %s all = ", type);
        if (reduced)
            dl_puts(e->out, reduced);
        else
            dl_cuda_put_group_reduce(e, in, &s->layout), dl_putf(e->out, "$a%d$)", number);
        dl_puts(e->out, ";\n    if (live && lane == 0) ");
        dl_cuda_put_partial(e, number,
                            dl_format(e->arena, "part * $%lldL$ + at", (long long)s->kept.points),
                            "all");
    }
    dl_puts(e->out, "    }\n");
}

/* By instruction, the CTA's result of each sum that is reduced over the whole CTA. */
static const char **reduce_blocks(nest *s) {
    dl_emitter *e = s->e;
    const char **reduced = DL_NEWS(e->arena, const char *, e->k->instrs.n + 1),
               **types = DL_NEWS(e->arena, const char *, e->k->instrs.n + 1);
    int n = 0, *numbers = DL_NEWS(e->arena, int, e->now->run.n + 1);
    for (int i = 0; i < e->now->run.n; i++) {
        int number = e->now->run.at[i];
        if (!is_reduction(s, number) || is_of_block(s, number)) continue;
        types[number] = dl_emit_partial_type(instr_of(s, number)), numbers[n++] = number;
    }
    if (!s->vectors_kept && s->layout.lanes == DL_BLOCK)
        dl_cuda_reduce_few(e, n, numbers, types, DL_BLOCK, reduced);
    return reduced;
}

/* "double a3[8]": a thread's accumulators, or "float t3[8]": those of one unrolled step. */
static void put_starts(nest *s, int width, bool at_once) {
    dl_emitter *e = s->e;
    for (int i = 0; i < e->now->run.n; i++) {
        int number = e->now->run.at[i];
        const dl_kinstr *in = instr_of(s, number);
        const char *type =
                       at_once ? dl_cuda_accumulator_type(in, s->unroll) : dl_emit_partial_type(in),
                   *start = dl_emit_start(in), *name = at_once ? "t" : "a";
        if (!is_reduction(s, number)) continue;
        if (width == 1) {
            dl_putf(e->out, "    %s $%s%d$ = %s;\n", type, name, number, start);
            continue;
        }
        dl_putf(e->out, "    %s $%s%d$[%d];\n#pragma unroll\n", type, name, number, width);
        dl_putf(e->out, "    for (int j = 0; j < %d; j++) $%s%d$[j] = %s;\n", width, name, number,
                start);
    }
}

/* One or several unrolled steps of the loop over terms, whose sums are separate floats first. */
static void put_unrolled(nest *s, const bool *runs, int width) {
    dl_emitter *e = s->e;
    const char *index = e->dialect->index, *term = "term";
    if (s->unroll > 1) {
        put_starts(s, width, true);
        dl_putf(e->out,
                "#pragma unroll\n    for (int turn = 0; turn < %d; turn++) {\n    const %s own = "
                "term + turn "
                "* $%d$;\n"
                "    const bool in = own < end && own < $%lld%s$;\n    const %s here = in ? own : "
                "term;\n",
                s->unroll, index, s->layout.lanes, (long long)s->terms, e->dialect->whole, index);
        term = "here";
    }
    if (s->vectors_kept)
        dl_cuda_put_coordinates(e, term, &s->summed);
    else
        dl_cuda_put_vector_coordinates(e, term, &s->summed, &s->vectors);
    put_program(s, runs);
    if (s->unroll == 1) return;
    dl_puts(e->out, "    }\n");
    for (int i = 0; i < e->now->run.n; i++) {
        int number = e->now->run.at[i];
        const dl_kinstr *in = instr_of(s, number);
        if (!is_reduction(s, number)) continue;
        if (width > 1)
            dl_putf(e->out, "#pragma unroll\n    for (int j = 0; j < %d; j++)\n    ", width);
        const char *which = width > 1 ? "[j]" : "";
        dl_putf(e->out, "    $a%d$%s = %s::of($a%d$%s, (%s)$t%d$%s);\n", number, which,
                dl_cuda_operator(in), number, which, dl_emit_partial_type(in), number, which);
    }
}

/* With reductions. */
static void put_sums(nest *s, dl_emitted *code) {
    static const dl_axis_list nothing = {.points = 1};
    dl_emitter *e = s->e;
    const char *index = e->dialect->index, *suffix = e->dialect->whole;
    const bool *runs = dl_cuda_find_runs(e);
    int width = s->vectors_kept ? s->vectors.width : 1;
    dl_cuda_put_thread_layout(e, &s->layout);
    dl_putf(e->out,
            "    const %s part = item %% $:%lld%s$, first = item / $:%lld%s$ * $%d$, at = first + "
            "group * "
            "$%d$;\n",
            index, (long long)s->parts, suffix, (long long)s->parts, suffix,
            s->layout.groups * width, width);
    dl_putf(e->out, "    const bool live = at < $%lld%s$;\n    const %s point = live ? at : 0;\n",
            (long long)s->kept.points, suffix, index);
    dl_cuda_put_coordinates(e, "point", &s->kept);
    put_starts(s, width, false);
    dl_cuda_load_invariant(e, &s->vectors, runs);
    dl_putf(e->out, "    const %s from = part * $%lld%s$, end = from + $%lld%s$;\n", index,
            (long long)s->each, suffix, (long long)s->each, suffix);
    dl_putf(
        e->out,
        "    for (%s term = from + lane; live && term < end && term < $%lld%s$; term += $%d$) {\n",
        index, (long long)s->terms, suffix, s->layout.lanes * s->unroll);
    put_unrolled(s, runs, width);
    dl_puts(e->out, "    }\n");
    const char **reduced = reduce_blocks(s);
    bool *left = DL_NEWS(e->arena, bool, e->k->instrs.n + 1);
    for (int i = 0; i < e->now->run.n; i++) {
        int number = e->now->run.at[i];
        if (is_left(s, number) && !left[number]) put_left(s, number, left, code);
        if (!is_reduction(s, number) || left[number]) continue;
        bool block = is_of_block(s, number);
        dl_cuda_add_partial(e, number, block ? &nothing : &s->kept,
                            block ? s->tiles * s->parts : s->parts, code);
        put_result(s, number, reduced[number]);
    }
}

int64_t dl_cuda_points(dl_emitter *e, dl_emitted *code) {
    nest s = plan_nest(e);
    if (s.sums)
        put_sums(&s, code);
    else if (s.rows)
        put_rows(&s);
    else
        put_points(&s);
    if (s.sums) return s.tiles * s.parts;
    return s.rows ? dl_ceil_div(s.kept.points, s.step * s.rows) *
                        (s.step / (DL_BLOCK * s.vectors.width))
                  : dl_ceil_div(s.points > 0 ? s.points : 1, DL_BLOCK);
}

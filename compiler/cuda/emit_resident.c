/* Resident reductions: a lane group takes one row at a time and loops over it in several passes,
 * between which the reductions over the row are complete. Values that a later pass needs are
 * stored in the CTA's shared memory, interleaved by thread, unless they are recomputed.
 *
 * Sums over more than the row: a CTA has several rows, one for each lane group in turn, and
 * stores a partial result. A sum that keeps the row's axes has one accumulator for each point of
 * the row, in shared memory, each thread's own. */
#include "compiler/codegen/emit_passes.h"
#include "compiler/cuda/emit_loops.h"

enum {
    FEW_ROWS = 1024,        /* each has a whole CTA, if they are long */
    WARP_VECTORS = 512,     /* vectors of a row: too many for a warp */
    MANY_ROWS = 1 << 15,    /* one thread for each is enough */
    SAVED_BYTES = 32 << 10, /* of shared memory, for saved values */
    SUMS_BYTES = 64 << 10,  /* and for sums */
    PASS_UNROLLED = 4,      /* unroll factor of a pass over the row */
    FEW_POINTS = 1 << 15 /* of all rows: vectors would leave threads idle where these are short */
};

typedef struct {
    dl_emitter *e;
    const dl_loop_nest *nest;
    dl_row_passes passes;
    dl_axis_list order, kept, outer,
        row; /* kept: axes around the row that sums keep; outer: the others */
    dl_thread_layout layout;
    dl_vectors vectors;
    bool vectors_row, few;     /* along the row; of so few points that unrolling is not needed */
    int64_t points, each_lane; /* vectors of the row; maximum per thread */
    int64_t parts, each;       /* CTAs that share the rows of a kept point, and their rows */
    int64_t *at; /* by instruction: place in shared memory of its saved value or its sums */
    const char **reduced; /* by instruction: the result over the lane group, or the CTA */
    int64_t shared;       /* bytes */
    int now;              /* the pass being written; -1: the end of the row */
} rows;

static const dl_kinstr *instr_of(const rows *r, int i) { return &r->e->k->instrs.at[i]; }
static bool reduces_row(const rows *r, int i) { return dl_emit_reduces_row(r->e, r->nest, i); }
static bool reduces_more(const rows *r, int i) { return dl_emit_reduces_more(r->e, r->nest, i); }
/* Is it a sum that keeps the row's axes? */
static bool keeps_row(const rows *r, int i) {
    return reduces_more(r, i) && (r->e->steps[i].axes & r->nest->row) != 0;
}

/* Terms that a thread sums for it, and its accumulator type. */
static int64_t sum_terms(const rows *r) { return dl_ceil_div(r->each, r->layout.groups); }
static const char *sum_type(const rows *r, int i) {
    return dl_cuda_accumulator_type(instr_of(r, i), sum_terms(r));
}
static int sum_bytes(const rows *r, int i) {
    const char *type = sum_type(r, i);
    return type[0] == 'f' ? 4 : 8;
}

/* The accumulator type of a thread's own reduction, where it has none in shared memory. */
static const char *thread_type(const rows *r, int i) {
    const dl_kinstr *in = instr_of(r, i);
    return reduces_row(r, i) ? dl_cuda_accumulator_type(in, r->each_lane * r->vectors.width)
                             : dl_emit_partial_type(in);
}

static int value_bytes(dl_dtype d) { return d == DL_F64 || d == DL_I64 ? 8 : 4; }

static void choose_layout(rows *r, int64_t count, bool sums) {
    int64_t n = r->points;
    int lanes;
    if (!r->vectors_row) {
        r->layout.strided = true;
        lanes = count >= MANY_ROWS || n <= 4 ? 1 : 8;
        while (lanes > 1 && lanes / 2 >= n) lanes /= 2;
    } else {
        lanes = n >= DL_WARP ? DL_WARP : dl_cuda_power_of_two(n ? n : 1);
        if (n > WARP_VECTORS || (n >= 4 * DL_WARP && count < FEW_ROWS)) lanes = DL_BLOCK;
    }
    (void)sums;
    r->layout.lanes = lanes, r->layout.groups = DL_BLOCK / lanes;
}

/* Allocates shared memory. False: there is not enough. */
static bool find_room(rows *r) {
    int64_t slots = r->each_lane * (r->vectors_row ? r->vectors.width : 1) * DL_BLOCK, sums = 0;
    r->shared = 0;
    for (int i = 0; i < r->e->k->instrs.n; i++) {
        if (!r->passes.saved[i]) continue;
        r->at[i] = r->shared;
        r->shared += slots * value_bytes(instr_of(r, i)->type);
    }
    if (r->shared > SAVED_BYTES) return false;
    for (int i = 0; i < r->nest->run.n; i++) {
        int number = r->nest->run.at[i];
        if (!keeps_row(r, number)) continue;
        r->at[number] = r->shared + sums;
        sums += slots * sum_bytes(r, number);
    }
    r->shared += sums;
    return sums <= SUMS_BYTES;
}

static bool plan_rows(dl_emitter *e, const dl_loop_nest *s, rows *r) {
    static const dl_axis_list nothing = {.points = 1};
    unsigned kept = 0, mine = s->axes | s->row;
    bool sums = false;
    *r =
        (rows){.e = e, .nest = s, .parts = 1, .at = DL_NEWS(e->arena, int64_t, e->k->instrs.n + 1)};
    r->reduced = DL_NEWS(e->arena, const char *, e->k->instrs.n + 1);
    e->now = s;
    for (int i = 0; i < s->run.n; i++) {
        int number = s->run.at[i];
        unsigned axes = e->steps[number].axes;
        if (!reduces_more(r, number)) continue;
        if ((axes & s->row) && (axes & s->row) != s->row) return false; /* a part of the row */
        sums = true, kept |= axes & s->axes;
    }
    r->order = dl_cuda_order_axes(e, mine);
    r->kept = dl_emit_list_axes(e, &r->order, kept);
    r->outer = dl_emit_list_axes(e, &r->order, s->axes & ~kept);
    r->row = dl_emit_list_axes(e, &r->order, s->row);
    int last = r->order.axis[r->order.n - 1];
    r->vectors_row = s->row >> last & 1;
    if (!r->vectors_row && kept >> last & 1) return false;
    r->few = r->order.points <= FEW_POINTS;
    bool scalar = !r->vectors_row || (r->few && r->row.points <= WARP_VECTORS);
    r->vectors = dl_cuda_find_vectors(e, scalar ? &nothing : &r->row, ~0u);
    r->points = r->row.points / r->vectors.width;
    choose_layout(r, r->kept.points * r->outer.points, sums);
    r->each_lane = dl_ceil_div(r->points, r->layout.lanes);
    r->each = r->layout.groups;
    if (sums) {
        int64_t most = dl_ceil_div(r->outer.points, r->layout.groups),
                parts = DL_BLOCKS_ENOUGH / (r->kept.points ? r->kept.points : 1);
        if (parts > most) parts = most;
        if (parts < 1) parts = 1;
        r->each =
            dl_ceil_div(dl_ceil_div(r->outer.points, parts), r->layout.groups) * r->layout.groups;
        if (r->each < 1) r->each = r->layout.groups;
    }
    r->parts = dl_ceil_div(r->outer.points, r->each);
    if (r->parts < 1) r->parts = 1;
    for (int saves = 1; saves >= 0; saves--) {
        r->passes = dl_emit_find_passes(e, s, saves, false);
        if (find_room(r)) return true;
    }
    return false;
}

bool dl_cuda_can_be_resident(dl_emitter *e, const dl_loop_nest *s) {
    rows r;
    return plan_rows(e, s, &r);
}

/* ---- text ---- */

/* "((float *)(kept_here + 1024))[(n * 4 + j) * 256 + kd_thread()]": the thread's own element. */
static void put_slot(const rows *r, int i, const char *type) {
    dl_putf(r->e->out, "((%s *)(own + $%lld$))[(n * $%d$ + j) * $%d$ + kd_thread()]", type,
            (long long)r->at[i], r->vectors.width, DL_BLOCK);
}

/* Accumulates one more value: over the row, or over more. */
static void put_growth(dl_emitter *e, int number) {
    const rows *r = e->loop;
    const dl_kinstr *in = instr_of(r, number);
    const char *by = dl_cuda_operator(in);
    if (reduces_row(r, number)) {
        dl_putf(e->out, "    $a%d$ = %s::of($a%d$, (%s)$v%d$);\n", number, by, number,
                thread_type(r, number), in->args[0]);
    } else if (keeps_row(r, number)) {
        const char *type = sum_type(r, number);
        dl_puts(e->out, "    if (live) "), put_slot(r, number, type);
        dl_putf(e->out, " = %s::of(", by), put_slot(r, number, type);
        dl_putf(e->out, ", (%s)$v%d$);\n", type, in->args[0]);
    } else {
        dl_putf(e->out, "    if (live%s) $a%d$ = %s::of($a%d$, (%s)$v%d$);\n",
                r->now < 0 ? " && lane == 0" : "", number, by, number, dl_emit_partial_type(in),
                in->args[0]);
    }
}

static void put_instr(const rows *r, int i) {
    if (instr_of(r, i)->kind == DL_K_STORE && !(r->now >= 0 && r->vectors.has[i]))
        dl_puts(r->e->out, r->now < 0 ? "    if (live && lane == 0)\n" : "    if (live)\n");
    dl_emit_instr(r->e, i);
}

/* Bytes that a thread loads for a vector. */
static int64_t count_bytes(const rows *r, const bool *made) {
    const dl_emitter *e = r->e;
    int64_t bytes = 0;
    for (int i = 0; i < e->k->instrs.n; i++)
        if (made[i] && instr_of(r, i)->kind == DL_K_LOAD)
            bytes += dl_dtype_bytes(e->k->params.at[instr_of(r, i)->param].type.dtype) *
                     r->vectors.width;
    return bytes;
}

/* The loop over a thread's vectors of the row, counted by `n`. It is unrolled where loads are
 * few and unconditional, so that several are in flight. */
static void put_row_loop(const rows *r, const bool *made) {
    int64_t bytes = count_bytes(r, made);
    if (r->each_lane > PASS_UNROLLED || r->points % r->layout.lanes || !bytes ||
        bytes >= DL_ENOUGH_BYTES)
        dl_puts(r->e->out, "#pragma unroll 1\n");
    dl_putf(r->e->out, "    for (int n = 0; n < %lld; n++) {\n", (long long)r->each_lane);
}

static void put_pass(rows *r, int pass) {
    dl_emitter *e = r->e;
    const dl_row_passes *p = &r->passes;
    const bool *made = p->made[pass];
    const char *index = e->dialect->index;
    r->now = pass;
    put_row_loop(r, made);
    dl_putf(e->out, "    const %s place = (%s)n * $%d$ + lane;\n", index, index, r->layout.lanes);
    if (r->points % r->layout.lanes)
        dl_putf(e->out, "    if (place >= $%lld%s$) break;\n", (long long)r->points,
                e->dialect->whole);
    dl_cuda_put_coordinates(
        e, r->vectors.width > 1 ? dl_format(e->arena, "(place * $%d$)", r->vectors.width) : "place",
        &r->row);
    dl_cuda_open_vectors(e, &r->vectors, made);
    e->reduce = put_growth, e->loop = r;
    for (int i = 0; i < e->k->instrs.n; i++) {
        const char *type =
            instr_of(r, i)->kind == DL_K_STORE ? NULL : dl_emit_type(e, instr_of(r, i)->type);
        bool saved = p->saved[i] && e->nests.level[i] < pass;
        if (saved && p->taken[pass][i] && !made[i])
            dl_putf(e->out, "    const %s $v%d$ = ", type, i), put_slot(r, i, type),
                dl_puts(e->out, ";\n");
        if (!made[i]) continue;
        if (p->read[i])
            dl_emit_read(e, i);
        else
            put_instr(r, i);
        if (p->saved[i] && e->nests.level[i] == pass)
            dl_puts(e->out, "    "), put_slot(r, i, type), dl_putf(e->out, " = $v%d$;\n", i);
    }
    e->reduce = NULL, e->loop = NULL;
    dl_cuda_close_vectors(e, &r->vectors, made, "live");
    dl_puts(e->out, "    }\n");
}

/* Reduces the threads' values in "a3" over `lanes` neighbours or the CTA. */
static void reduce_few(rows *r, int n, const int *numbers, int lanes) {
    const char **types = DL_NEWS(r->e->arena, const char *, r->e->k->instrs.n + 1);
    for (int i = 0; i < n; i++) types[numbers[i]] = thread_type(r, numbers[i]);
    dl_cuda_reduce_few(r->e, n, numbers, types, lanes, r->reduced);
}

/* "const float v3 = (float)(t2[1]);": the result of a reduction over the row. */
static void put_reduced(const rows *r, int number) {
    dl_emitter *e = r->e;
    const dl_kinstr *in = instr_of(r, number);
    dl_cast c = dl_emit_rounding(DL_SINGLE, in->type, thread_type(r, number)[0] != 'f');
    if (!*c.open) c = (dl_cast){dl_format(e->arena, "(%s)(", dl_emit_type(e, in->type)), ")"};
    dl_putf(e->out, "    const %s $v%d$ = %s", dl_emit_type(e, in->type), number, c.open);
    if (r->reduced[number])
        dl_puts(e->out, r->reduced[number]);
    else
        dl_cuda_put_group_reduce(e, in, &r->layout), dl_putf(e->out, "$a%d$)", number);
    dl_putf(e->out, "%s;\n    (void)$v%d$;\n", c.close, number);
}

/* The row's own values of a level, which the next pass may use. */
static void put_level(rows *r, int level) {
    dl_emitter *e = r->e;
    int *own = DL_NEWS(e->arena, int, r->nest->run.n + 1),
        *over = DL_NEWS(e->arena, int, r->nest->run.n + 1);
    int n = 0, nover = 0;
    for (int i = 0; i < r->nest->read.n && level == 0; i++)
        if (r->passes.shared[r->nest->read.at[i]]) dl_emit_read(e, r->nest->read.at[i]);
    for (int i = 0; i < r->nest->run.n; i++) {
        int number = r->nest->run.at[i];
        if (instr_of(r, number)->kind == DL_K_STORE || reduces_more(r, number)) continue;
        if (!r->passes.shared[number] || e->nests.level[number] != level) continue;
        own[n++] = number;
        if (reduces_row(r, number)) over[nover++] = number;
    }
    if (r->few && !r->layout.strided) reduce_few(r, nover, over, r->layout.lanes);
    for (int i = 0; i < n; i++) {
        if (reduces_row(r, own[i]))
            put_reduced(r, own[i]);
        else
            dl_emit_instr(e, own[i]);
    }
}

/* Stores and sums that run once per row. */
static void put_end(rows *r) {
    dl_emitter *e = r->e;
    bool waits = false;
    r->now = -1;
    e->reduce = put_growth, e->loop = r;
    for (int i = 0; i < r->nest->run.n; i++) {
        int number = r->nest->run.at[i];
        const dl_kinstr *in = instr_of(r, number);
        bool root = in->kind == DL_K_STORE || reduces_more(r, number);
        if (!root || dl_emit_root_axes(e, number) & r->nest->row) continue;
        if (in->kind == DL_K_STORE && e->k->params.at[in->param].alias >= 0 && !waits)
            dl_puts(e->out, "    __syncthreads(); /* the others have read what is there */\n"),
                waits = true;
        put_instr(r, number);
    }
    e->reduce = NULL, e->loop = NULL;
}

static void put_row(rows *r) {
    dl_emitter *e = r->e;
    int levels = 0;
    for (int i = 0; i < r->nest->run.n; i++) {
        int number = r->nest->run.at[i];
        if (e->nests.level[number] > levels) levels = e->nests.level[number];
        if (reduces_row(r, number))
            dl_putf(e->out, "    %s $a%d$ = %s;\n", thread_type(r, number), number,
                    dl_emit_start(instr_of(r, number)));
    }
    for (int level = 0; level <= levels || level < r->passes.n; level++) {
        put_level(r, level);
        if (level < r->passes.n) put_pass(r, level);
    }
    put_end(r);
}

/* Initial values of sums over more than the row, before the first row. */
static void put_starts(const rows *r) {
    dl_emitter *e = r->e;
    for (int i = 0; i < r->nest->run.n; i++) {
        int number = r->nest->run.at[i];
        const char *start = dl_emit_start(instr_of(r, number));
        if (!reduces_more(r, number)) continue;
        if (!keeps_row(r, number)) {
            dl_putf(e->out, "    %s $a%d$ = %s;\n", dl_emit_partial_type(instr_of(r, number)),
                    number, start);
            continue;
        }
        dl_putf(e->out,
                "#pragma unroll 1\n    for (int n = 0; n < %lld; n++)\n    for (int j = 0; j < %d; "
                "j++) ",
                (long long)r->each_lane, r->vectors.width);
        put_slot(r, number, sum_type(r, number)), dl_putf(e->out, " = %s;\n", start);
    }
}

/* After the last row: the CTA's partial results. */
static void put_results(rows *r, dl_emitted *code) {
    dl_emitter *e = r->e;
    const dl_thread_layout *t = &r->layout;
    bool waits = false;
    int n = 0, *over = DL_NEWS(e->arena, int, r->nest->run.n + 1);
    for (int i = 0; i < r->nest->run.n; i++) {
        int number = r->nest->run.at[i];
        if (reduces_more(r, number) && !keeps_row(r, number)) over[n++] = number;
    }
    reduce_few(r, n, over, DL_BLOCK);
    for (int i = 0; i < r->nest->run.n; i++) {
        int number = r->nest->run.at[i];
        const dl_kinstr *in = instr_of(r, number);
        const char *type = dl_emit_partial_type(in);
        dl_axis_list by = r->kept;
        if (!reduces_more(r, number)) continue;
        if (!keeps_row(r, number)) {
            dl_cuda_add_partial(e, number, &by, r->parts, code);
            dl_puts(e->out, "    if (threadIdx.x == 0) ");
            dl_cuda_put_partial(e, number,
                                dl_format(e->arena, "part * $%lldL$ + at", (long long)by.points),
                                r->reduced[number]);
            continue;
        }
        for (int a = 0; a < r->row.n; a++) by.axis[by.n++] = r->row.axis[a];
        by.points *= r->row.points;
        dl_cuda_add_partial(e, number, &by, r->parts, code);
        if (!waits) dl_puts(e->out, "    __syncthreads();\n");
        waits = true;
        dl_putf(
            e->out,
            "#pragma unroll 1\n    for (int point = kd_thread(); point < $%lld$; point += $%d$) {\n"
            "    const int place = point / $/%d$, j = point %% $/%d$, lane_of = place %% $/%d$, n "
            "= "
            "place / $/%d$;\n"
            "    %s all = %s;\n    for (int g = 0; g < %d; g++)\n"
            "        all = %s::of(all, (%s)((const %s *)(own + $%lld$))[(n * $%d$ + j) * $%d$ + "
            "%s]);\n    ",
            (long long)r->row.points, DL_BLOCK, r->vectors.width, r->vectors.width, t->lanes,
            t->lanes, type, dl_emit_start(in), t->groups, dl_cuda_operator(in), type,
            sum_type(r, number), (long long)r->at[number], r->vectors.width, DL_BLOCK,
            t->strided ? dl_format(e->arena, "lane_of * $%d$ + g", t->groups)
                       : dl_format(e->arena, "g * $%d$ + lane_of", t->lanes));
        dl_cuda_put_partial(e, number,
                            dl_format(e->arena, "part * $%lldL$ + at * $%lldL$ + point",
                                      (long long)by.points, (long long)r->row.points),
                            "all");
        dl_puts(e->out, "    }\n");
    }
}

int64_t dl_cuda_resident(dl_emitter *e, dl_emitted *code, int64_t *shared) {
    rows r;
    bool ok = plan_rows(e, e->now, &r);
    DL_CHECK(ok);
    const char *index = e->dialect->index, *suffix = e->dialect->whole;
    dl_cuda_put_thread_layout(e, &r.layout);
    if (r.shared) dl_puts(e->out, "    KD_SHARED(char, own);\n");
    dl_putf(e->out,
            "    const %s part = item %% $:%lld%s$, at = item / $:%lld%s$;\n    (void)part, "
            "(void)at;\n",
            index, (long long)r.parts, suffix, (long long)r.parts, suffix);
    dl_cuda_put_coordinates(e, "at", &r.kept);
    put_starts(&r);
    dl_putf(
        e->out,
        "    const %s from = part * $%lld%s$, end = from + $%lld%s$ < $%lld%s$ ? from + $%lld%s$ : "
        "$%lld%s$;\n",
        index, (long long)r.each, suffix, (long long)r.each, suffix, (long long)r.outer.points,
        suffix, (long long)r.each, suffix, (long long)r.outer.points, suffix);
    if (r.each > r.layout.groups)
        dl_putf(e->out,
                "#pragma unroll 1\n    for (%s first = from; first < end; first += $%d$) {\n",
                index, r.layout.groups);
    else
        dl_putf(e->out, "    const %s first = from;\n    if (first < end) {\n", index);
    dl_putf(e->out,
            "    const bool live = first + group < end;\n    const %s row = live ? first + group : "
            "first;\n",
            index);
    dl_cuda_put_coordinates(e, "row", &r.outer);
    put_row(&r);
    dl_puts(e->out, "    }\n");
    put_results(&r, code);
    *shared = r.shared;
    int64_t points = r.kept.points ? r.kept.points : 1;
    return points * r.parts;
}

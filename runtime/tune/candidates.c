/* A kernel's ways on the device: the same inputs for each, their results compared with those of the
 * first, and their times. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/jit/program.h"
#include "runtime/base/convert.h"
#include "runtime/base/debug.h"
#include "runtime/base/rng.h"
#include "runtime/tune/tune.h"

enum { PIECE = 2048 /* elements */, ROUNDS = 7, ALL = 2 /* rounds, in which none is left out */ };
static const double least_gain =
    0.02; /* below it, time is noise, and the cost model's choice stays */
static const double far_behind = 1.5; /* as much noise no launch has twice */

/* ---- inputs ---- */

typedef struct {
    dl_dtype dtype;
    char *to;
    int64_t n;
    dlr_rng_place place;
    float operand; /* of an operand the standard deviation; of others 0 */
} fill;

/* Terms of each sum, about; of a call's results, where it has no space. */
static double terms_of(const dl_kernel *k) {
    double sums = (double)dl_axes_points(k->nspace, k->space, ~0u);
    if (dl_kernel_call(k)) sums = 0;
    for (int i = k->nin; i < k->params.n && dl_kernel_call(k); i++)
        sums += (double)dl_type_count(&k->params.at[i].type);
    return fmax(1, (double)k->flops / (2 * fmax(1, sums)));
}

/* Operands of the sum are of either sign, so that a term too many or too few shows, and so small
 * that sums are about 1, as the optimiser's other state is; other floats are positive, as
 * second moments and counts are; and integers 1. */
static void fill_piece(void *context, int64_t item, int thread) {
    const fill *f = context;
    int64_t first = item * PIECE, n = f->n - first < PIECE ? f->n - first : PIECE;
    float numbers[PIECE];
    (void)thread;
    if (!dl_dtype_is_float(f->dtype))
        for (int64_t i = 0; i < n; i++) numbers[i] = 1;
    else if (f->operand > 0)
        dlr_normals(f->place, (uint64_t)first, (size_t)n, 0, f->operand, numbers);
    else
        dlr_uniforms(f->place, (uint64_t)first, (size_t)n, 0.5F, 1.5F, numbers);
    dlr_convert(f->dtype, f->to + first * dl_dtype_bytes(f->dtype), DL_F32, numbers, n);
}

/* A factor, of either sign. */
static bool is_operand(const dl_kernel *k, int param) {
    if (dl_kernel_call(k)) return true;
    const dl_kinstr *c = &k->instrs.at[dl_kernel_anchor(k)];
    bool any = false;
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < c->nparts[side]; i++) any |= c->parts[side][i] == param;
    return any;
}

static int64_t items_of(const dl_type *t) { return (dl_type_stored(t) + PIECE - 1) / PIECE; }
static dlr_view view_of(const dl_trial *trial, int param) {
    return (dlr_view){.type = &trial->kernel->params.at[param].type, .offset = trial->args[param]};
}

static void fill_inputs(const dl_tuning *t, dlr_exec *exec, const dl_trial *trial) {
    for (int i = 0; i < trial->kernel->nin; i++) {
        const dl_type *type = &trial->kernel->params.at[i].type;
        fill f = {.dtype = type->dtype,
                  .to = dlr_exec_host(exec, view_of(trial, i), DLR_WRITE),
                  .n = dl_type_stored(type),
                  .place = {.seed = t->seed, .stream = DLR_STREAM_NOISE, .item = (uint32_t)i},
                  .operand = is_operand(trial->kernel, i)
                                 ? (float)pow(terms_of(trial->kernel), -0.25)
                                 : 0};
        dlr_pool_run(dlr_exec_pool(exec), items_of(type), fill_piece, &f);
    }
}

/* ---- results ---- */

/* How far two orders of a sum may be apart, as a part of a result and of all results' root mean
 * square. */
typedef struct {
    double part;
    double discontinuous; /* the share of elements that may be further: those on the other side of a
                             step */
} tolerance;

static bool is_step(const dl_kinstr *in) {
    dl_curve curve = dl_op_curve(in->op);
    return in->kind == DL_K_ELEM &&
           (curve == DL_CURVE_STEP || curve == DL_CURVE_COMPARE || curve == DL_CURVE_UNKNOWN);
}

static double rounding_of(dl_dtype d) {
    return d == DL_BF16 ? 0x1p-7 : d == DL_F16 ? 0x1p-10 : 0x1p-15;
}

/* A sum's roundings are as many as its terms, of either sign: the square root of them remains, of
 * which four standard deviations are seen among so many sums. */
static tolerance tolerance_of(const dl_kernel *k) {
    tolerance t = {.part = fmax(rounding_of(DL_F32), 0x1p-22 * sqrt(terms_of(k)))};
    for (int i = 0; i < k->instrs.n; i++) {
        const dl_kinstr *in = &k->instrs.at[i];
        dl_dtype type = in->kind == DL_K_STORE ? k->params.at[in->param].type.dtype : in->type;
        if (is_step(in)) t.discontinuous = 1e-4, t.part = fmax(t.part, rounding_of(DL_BF16));
        if (in->kind != DL_K_LOAD) t.part = fmax(t.part, rounding_of(type));
    }
    return t;
}

typedef struct {
    dl_dtype dtype;
    const char *want, *got; /* got NULL: `squares` of want alone */
    int64_t n;
    double most, part; /* apart: most + part |want| */
    double *squares;   /* by item */
    int64_t *off, *first;
} comparison;

static bool is_off(const comparison *c, double want, double got) {
    if (isnan(want) || isnan(got)) return !isnan(want) != !isnan(got);
    return want != got && !(fabs(want - got) <= c->most + c->part * fabs(want));
}

static void compare_piece(void *context, int64_t item, int thread) {
    const comparison *c = context;
    int64_t from = item * PIECE, n = c->n - from < PIECE ? c->n - from : PIECE,
            bytes = dl_dtype_bytes(c->dtype);
    double want[PIECE], got[PIECE];
    (void)thread;
    dlr_convert(DL_F64, want, c->dtype, c->want + from * bytes, n);
    c->squares[item] = 0, c->off[item] = 0;
    for (int64_t i = 0; i < n; i++) c->squares[item] += isfinite(want[i]) ? want[i] * want[i] : 0;
    if (!c->got) return;
    dlr_convert(DL_F64, got, c->dtype, c->got + from * bytes, n);
    for (int64_t i = n - 1; i >= 0; i--)
        if (is_off(c, want[i], got[i])) c->off[item]++, c->first[item] = from + i;
}

/* The results of the first variant, by output, as the host keeps it. */
typedef struct {
    char **at;
    double *square; /* root of the mean square */
} reference;

static comparison comparison_of(dl_arena *arena, const dl_type *type, const char *want) {
    int64_t items = items_of(type);
    return (comparison){.dtype = type->dtype,
                        .want = want,
                        .n = dl_type_stored(type),
                        .squares = DL_NEWS(arena, double, items + 1),
                        .off = DL_NEWS(arena, int64_t, items + 1),
                        .first = DL_NEWS(arena, int64_t, items + 1)};
}

static void run(dlr_exec *exec, const dl_trial *trial, int way) {
    for (int i = trial->kernel->nin; i < trial->kernel->params.n; i++) {
        dlr_view v = view_of(trial, i); /* so that what is not written differs */
        memset(dlr_exec_host(exec, v, DLR_WRITE), 0xff, (size_t)dl_type_bytes(v.type));
    }
    dlr_exec_run_launch(exec, trial->first + way, 0);
}

static void keep(dl_arena *arena, dlr_exec *exec, const dl_trial *trial, reference *r) {
    const dl_kernel *k = trial->kernel;
    r->at = DL_NEWS(arena, char *, k->params.n), r->square = DL_NEWS(arena, double, k->params.n);
    for (int i = k->nin; i < k->params.n; i++) {
        dlr_view v = view_of(trial, i);
        size_t bytes = (size_t)dl_type_bytes(v.type);
        r->at[i] = dl_alloc(arena, bytes + 1);
        memcpy(r->at[i], dlr_exec_host(exec, v, DLR_READ), bytes);
        comparison c = comparison_of(arena, v.type, r->at[i]);
        double sum = 0;
        dlr_pool_run(dlr_exec_pool(exec), items_of(v.type), compare_piece, &c);
        for (int64_t u = 0; u < items_of(v.type); u++) sum += c.squares[u];
        r->square[i] = c.n ? sqrt(sum / (double)c.n) : 0;
    }
}

static void tell(const dl_tuning *t, const dl_trial *trial, int way, const char *what) {
    if (!t->out) return;
    const dl_kernel *k = trial->kernel;
    dl_buf b = {0};
    dl_putf(&b, "kernel '%s'", k->name);
    for (int i = 0; i < k->locs.n; i++) {
        dl_puts(&b, i ? " " : " (");
        dl_put_line(&b, k->locs.at[i]);
    }
    dl_putf(&b, "%s made as %s %s: it is not used", k->locs.n ? ")" : "", trial->names[way], what);
    dl_console_warning(t->out, b.at);
    dl_buf_free(&b);
}

/* Does the way that has just run agree with the first? Says what does not. */
static bool agrees(const dl_tuning *t, dl_arena *arena, dlr_exec *exec, const dl_trial *trial,
                   int way, const reference *r) {
    const dl_kernel *k = trial->kernel;
    tolerance may = tolerance_of(k);
    for (int i = k->nin; i < k->params.n; i++) {
        dlr_view v = view_of(trial, i);
        comparison c = comparison_of(arena, v.type, r->at[i]);
        c.got = dlr_exec_host(exec, v, DLR_READ), c.part = may.part,
        c.most = may.part * r->square[i];
        dlr_pool_run(dlr_exec_pool(exec), items_of(v.type), compare_piece, &c);
        int64_t off = 0, first = -1;
        for (int64_t u = 0; u < items_of(v.type); u++) {
            if (first < 0 && c.off[u]) first = c.first[u];
            off += c.off[u];
        }
        if ((double)off <= may.discontinuous * (double)c.n) continue;
        double two[2];
        int64_t at = first * dl_dtype_bytes(c.dtype);
        dlr_convert(DL_F64, &two[0], c.dtype, c.got + at, 1),
            dlr_convert(DL_F64, &two[1], c.dtype, c.want + at, 1);
        tell(t, trial, way,
             dl_format(arena,
                       "differs from %s in %lld of %lld elements of output %d, first in number "
                       "%lld, %g for %g",
                       trial->names[0], (long long)off, (long long)c.n, i - k->nin,
                       (long long)first, two[0], two[1]));
        return false;
    }
    return true;
}

/* ---- the fastest ---- */

/* DLR_DEBUG=tune: a line for each way, with the least time that it took. */
static void list(const dl_console *out, const dl_trial *trial, const bool *agree, const int64_t *ns,
                 int best) {
    const dl_kernel *k = trial->kernel;
    dl_buf b = {0};
    for (int v = 0; v < trial->nvariants; v++) {
        dl_putf(&b, "tune: %s", k->name);
        for (int i = 0; i < k->locs.n; i++) dl_puts(&b, " "), dl_put_line(&b, k->locs.at[i]);
        if (agree[v])
            dl_putf(&b, ": %.1f us", (double)ns[v] * 1e-3);
        else
            dl_puts(&b, ": differs");
        dl_putf(&b, " as %s%s\n", trial->names[v], v == best ? ", taken" : "");
    }
    dl_console_diagnostics(out, b.at);
    dl_buf_free(&b);
}

int dl_try(dl_tuning *t, dlr_exec *exec, const dl_trial *trial) {
    dl_arena *arena = dl_arena_new(NULL);
    bool agree[DL_MOST_TRIAL_VARIANTS];
    int64_t ns[DL_MOST_TRIAL_VARIANTS], one;
    int best = 0;
    reference r = {0};
    dl_error failed = {0};
    fill_inputs(t, exec, trial);
    for (int v = 0; v < trial->nvariants; v++) {
        run(exec, trial, v);
        if (v == 0) keep(arena, exec, trial, &r);
        agree[v] = v == 0 || agrees(t, arena, exec, trial, v, &r);
        ns[v] = INT64_MAX, t->rejected += !agree[v];
    }
    int64_t least = INT64_MAX;
    for (int round = 0; round < ROUNDS; round++)
        for (int v = 0; v < trial->nvariants; v++) {
            if (!agree[v] || (round >= ALL && (double)ns[v] > far_behind * (double)least)) continue;
            dlr_exec_run(exec, trial->first + v, &one);
            if (one < ns[v]) ns[v] = one;
            if (one < least) least = one;
        }
    for (int v = 1; v < trial->nvariants; v++)
        if (agree[v] && ns[v] < ns[best] && (double)ns[v] < (1 - least_gain) * (double)ns[0])
            best = v;
    t->tried++, t->changed += best != 0, t->called += best >= trial->nvariants - trial->noffers;
    if (dlr_debugs("tune")) list(t->out, trial, agree, ns, best);
    t->us_before += (double)ns[0] * 1e-3, t->us += (double)ns[best] * 1e-3;
    dl_arena_free(arena);
    return dlr_exec_check(exec, &failed) ? best : -1;
}

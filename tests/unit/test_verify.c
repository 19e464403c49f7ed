/* Faults that verify must not report, and those that it must: models whose values cancel, tie and
 * overflow are in order on every target; every fault that is put into a kernel or a plan is found.
 */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "compiler/compile.h"
#include "frontends/dl/front.h"
#include "ir/base/input.h"
#include "ir/interp/interp.h"
#include "runtime/base/rng.h"
#include "runtime/exec/state.h"
#include "tests/cache.h"
#include "tests/check.h"
#include "verify/verify.h"

/* ---- models and plans ---- */

static dl_module *build(dl_arena *arena, const char *name, const char *replace, const char *by) {
    dl_error err = {0};
    char *path = dl_format(arena, "tests/data/verify/%s.dl", name);
    size_t n;
    char *text = dl_read_file(arena, path, 1 << 20, &n, &err);
    CHECK(text != NULL, "%s", err.message);
    if (!text) return NULL;
    char *at = replace ? strstr(text, replace) : NULL;
    CHECK(!replace || at, "%s has no '%s'", path, replace);
    if (at) text = dl_format(arena, "%.*s%s%s", (int)(at - text), text, by, at + strlen(replace));
    const dl_source *s = dl_source_new(arena, path, text, strlen(text));
    dl_diags *d = dl_diags_new(arena, s);
    static const dl_axis_size sizes[] = {{"N", 2}};
    dl_model_config config = {.sizes = sizes, .nsizes = 1};
    dl_model *m = dl_model_parse(arena, s, d);
    dl_module *module = m ? dl_model_build(arena, m, &config, d) : NULL;
    CHECK(module != NULL, "%s: %s", path, d->list.n ? d->list.at[0]->message : "");
    return module;
}

/* A way to break a module after the last pass; false where there is nothing of its kind (left). */
typedef struct {
    const char *what;
    bool (*apply)(dl_module *m, int skip);
    int skip;
    bool applied;
} fault;

static void break_module(void *user, int number, const dl_pass *pass, const dl_module *m) {
    (void)number;
    fault *f = user;
    if (f && f->apply && pass && strcmp(pass->name, "plan_memory") == 0)
        f->applied = f->apply((dl_module *)m, f->skip); /* as if an emitter had erred */
}

static dl_plan *compile(dl_arena *arena, dl_module *m, const char *target, dl_optimizer optimizer,
                        fault *f) {
    dl_error err = {0};
    dl_compile_options opt = {.target = dl_target_find(arena, target, &err),
                              .step_options.optimizer = optimizer,
                              .keep_gradients = true,
                              .model = "M",
                              .batch = 2,
                              .observe = break_module,
                              .user = f,
                              .link = true};
    dl_compile_times times = {0};
    dl_plan *p = opt.target ? dl_compile(arena, m, &opt, &times, &err) : NULL;
    CHECK(p != NULL, "%s: %s", target, err.message);
    return p;
}

static bool fill(dlr_exec *exec, void *user, dl_error *err) {
    const dl_plan *p = dlr_exec_plan(exec);
    uint64_t seed = *(uint64_t *)user;
    if (!dlr_state_init(exec, seed, err)) return false;
    for (int i = 0; i < p->vars.n; i++) {
        const dl_plan_var *v = &p->vars.at[i];
        if (v->role != DL_VAR_INPUT && v->role != DL_VAR_TARGET) continue;
        size_t n = (size_t)dl_type_count(&v->type);
        float *noise = malloc((n ? n : 1) * sizeof *noise);
        if (!noise) return dl_fail(err, DL_RESOURCE, "no memory");
        dlr_rng_place place = {.seed = seed, .stream = DLR_STREAM_NOISE, .item = (uint32_t)i};
        dlr_normals(place, 0, n, 0, 1, noise);
        dlr_state_write(exec, dlr_exec_variable(exec, v->name), DL_F32, noise);
        free(noise);
    }
    return true;
}

/* Faults that verify finds in all programs of a plan. */
static dl_verdict verify(dl_arena *arena, const dl_module *m, const dl_plan *p, uint64_t seed) {
    dl_verdict v = {0};
    dl_error err = {0};
    dl_verify_run run = {{.threads = 2}, fill, NULL, &seed};
    for (int g = 0; g < m->graphs.n; g++)
        CHECK(dl_verify_kernels(arena, m->graphs.at[g], p, &run, &v, &err), "%s", err.message);
    return v;
}

/* ---- what is in order ---- */

static const char *const sound[] = {
    "cancelling_bias", "shift_by_maximum", "deviation", "constants", "kinks", "ends",
    "powers",          "seeded",           "drops",     "transforms"};
enum { NSOUND = sizeof sound / sizeof *sound, SEEDS = 3 };

static void test_sound(const char *target) {
    dl_error err = {0};
    if (!dl_target_find(NULL, target, &err)) {
        dl_test_skip("%s: %s", target, err.message);
        return;
    }
    static unsigned number;
    for (int i = 0; i < NSOUND; i++) {
        if (!dl_test_takes(number++)) continue;
        dl_arena *arena = dl_arena_new(NULL);
        dl_module *m = build(arena, sound[i], NULL, NULL),
                  *written = build(arena, sound[i], NULL, NULL);
        dl_plan *p = m ? compile(arena, m, target, DL_OPT_adam, NULL) : NULL;
        for (uint64_t seed = 1; p && seed <= SEEDS; seed++) {
            dl_verdict v = verify(arena, m, p, seed);
            CHECK(v.faults.n == 0, "%s, %s: %s", sound[i], target, v.faults.at[0]);
            CHECK(v.compared > 10 && v.worst <= 1, "%s: %d, %g", sound[i], v.compared, v.worst);
            if (v.worst > 0.5)
                printf("%s, %s: %s at %.2f\n", sound[i], target, v.worst_of, v.worst);
            dl_verify_run run = {{.threads = 2}, fill, NULL, &seed};
            dl_verdict meaning = {0};
            dl_verify_graphs eval = {dl_module_graph(written, "eval"), NULL,
                                     dl_module_graph(m, "eval")};
            double *float32 = DL_NEWS(arena, double, eval.written->results.n);
            CHECK(dl_verify_meaning(arena, &eval, p, &run, NULL, &meaning, float32, &err), "%s",
                  err.message);
            CHECK(meaning.faults.n == 0 && meaning.compared > 1, "%s: %s", sound[i],
                  meaning.faults.at[0]);
        }
        dl_arena_free(arena);
    }
}

/* ---- what is not: faults of one kernel ---- */

/* Calls `at` for instructions until one is broken; `skip` are passed over first. */
static bool each_instr(dl_module *m, int skip, bool at(dl_kernel *k, dl_kinstr *in)) {
    for (int g = 0; g < m->graphs.n; g++)
        for (int i = 0; i < m->graphs.at[g]->nodes.n; i++) {
            dl_kernel *k = (dl_kernel *)m->graphs.at[g]->nodes.at[i]->kernel;
            for (int j = 0; j < k->instrs.n; j++) {
                dl_kernel before = *k;
                dl_kparam *params = malloc(sizeof *params * (size_t)k->params.n);
                dl_kinstr *instrs = malloc(sizeof *instrs * (size_t)k->instrs.n);
                memcpy(params, k->params.at, sizeof *params * (size_t)k->params.n);
                memcpy(instrs, k->instrs.at, sizeof *instrs * (size_t)k->instrs.n);
                bool broken = at(k, &k->instrs.at[j]), wanted = broken && skip-- == 0;
                if (broken && !wanted) {
                    memcpy(k->params.at, params, sizeof *params * (size_t)k->params.n);
                    memcpy(k->instrs.at, instrs, sizeof *instrs * (size_t)k->instrs.n);
                    memcpy(k->space, before.space, sizeof before.space);
                }
                free(params), free(instrs);
                if (wanted) return true;
            }
        }
    return false;
}

static bool swap_operands(dl_kernel *k, dl_kinstr *in) {
    (void)k;
    if (in->kind != DL_K_ELEM || (in->op != DL_OP_sub && in->op != DL_OP_div)) return false;
    int first = in->args[0];
    in->args[0] = in->args[1], in->args[1] = first;
    return true;
}

static bool wrong_constant(dl_kernel *k, dl_kinstr *in) {
    bool scales = in->kind == DL_K_ELEM && in->op == DL_OP_mul;
    for (int i = 0; scales && i < 2; i++) {
        dl_kinstr *c = &k->instrs.at[in->args[i]];
        if (c->kind == DL_K_CONST && c->p != 0) return c->p *= 1.001, true;
    }
    if (in->kind != DL_K_ELEM || in->op != DL_OP_leaky_relu) return false;
    return in->p *= 1.001, true;
}

static bool wrong_offset(dl_kernel *k, dl_kinstr *in) {
    if (in->kind != DL_K_LOAD) return false;
    int last = k->params.at[in->param].type.rank - 1;
    if (last < 0 || in->index[last].axis < 0) return false;
    return in->index[last].offset++, true;
}

/* The last step of the innermost loop is left out: one element of a result, one term of a sum. */
static bool drop_last(dl_kernel *k, dl_kinstr *in) {
    if (in != k->instrs.at || dl_kernel_anchor(k) >= 0 || !k->nspace ||
        k->space[k->nspace - 1].size < 2)
        return false;
    return k->space[k->nspace - 1].size--, true;
}

static bool drop_taps(dl_kernel *k, dl_kinstr *in) {
    if (in->kind != DL_K_CONTRACT || dl_op_tensor(in->op, 1) != DL_TENSOR_W) return false;
    dl_type *w =
        &k->params.at[in->parts[1][0]].type; /* one panel: the last row of taps is its end */
    if (w->rank < 3 || w->axis[2].size < 2) return false;
    return w->axis[2].size--, true;
}

static bool wrong_reduction(dl_kernel *k, dl_kinstr *in) {
    if (in->kind != DL_K_REDUCE) return false;
    for (int a = 0; a < k->nspace; a++)
        for (int b = 0; b < k->nspace; b++) {
            if (!(in->over >> a & 1) || in->over >> b & 1 || k->space[a].size != k->space[b].size)
                continue;
            if (k->space[a].size < 2) continue;
            dl_arena *arena = dl_arena_new(NULL);
            dl_kinstr *old = DL_NEWS(arena, dl_kinstr, k->instrs.n);
            memcpy(old, k->instrs.at, sizeof *old * (size_t)k->instrs.n);
            const unsigned *axes = dl_kernel_axes(k, arena);
            unsigned *moved = DL_NEWS(arena, unsigned, k->instrs.n); /* dimensions, a bit each */
            for (int i = (int)(in - k->instrs.at); i < k->instrs.n;
                 i++) { /* and what goes along b alone */
                dl_kinstr *after = &k->instrs.at[i];
                if (after->kind == DL_K_REDUCE && after->over >> a & 1 && !(after->over >> b & 1))
                    after->over ^= 1u << a | 1u << b;
                bool memory = after->kind == DL_K_LOAD || after->kind == DL_K_STORE;
                int rank = memory ? k->params.at[after->param].type.rank : 0;
                for (int d = 0; d < rank && !(axes[i] >> a & 1); d++)
                    if (after->index[d].axis == b) after->index[d].axis = a, moved[i] |= 1u << d;
            }
            bool whole = !dl_kernel_fault(k, arena); /* where what is left fits together */
            for (int i = 0; i < k->instrs.n && !whole; i++) {
                k->instrs.at[i] = old[i];
                for (int d = 0; d < DL_MAX_RANK; d++)
                    if (moved[i] >> d & 1) old[i].index[d].axis = b;
            }
            dl_arena_free(arena);
            if (!whole) continue;
            return true;
        }
    return false;
}

static bool another_draw(dl_kernel *k, dl_kinstr *in) {
    (void)k;
    return in->kind == DL_K_RANDOM && (in->number++, true);
}

/* A call with another attribute; `to` makes it of what it was. */
static bool call_with(dl_kinstr *in, dl_attr_id id, int64_t to(int64_t)) {
    if (in->kind != DL_K_CALL) return false;
    const dl_node *n = in->call;
    static dl_node other[64];
    static dl_attr attrs[64][DL_MAX_ATTRS];
    static int next;
    int at = next++ % 64;
    memcpy(attrs[at], n->attrs, sizeof *n->attrs * (size_t)n->nattrs);
    other[at] = *n, other[at].attrs = attrs[at];
    in->call = &other[at];
    for (int i = 0; i < n->nattrs; i++)
        if (attrs[at][i].id == id) attrs[at][i].i = to(attrs[at][i].i);
    return true;
}
static int64_t one_more(int64_t v) { return v + 1; }
static int64_t twice(int64_t v) { return 2 * v; }
static int64_t opposite(int64_t v) { return !v; }
static bool another_number(dl_kernel *k, dl_kinstr *in) {
    (void)k;
    return in->kind == DL_K_CALL && dl_node_float(in->call, DL_ATTR_rate) > 0 &&
           call_with(in, DL_ATTR_number, one_more);
}
static bool more_heads(dl_kernel *k, dl_kinstr *in) {
    (void)k;
    return call_with(in, DL_ATTR_heads, twice);
}
static bool other_mask(dl_kernel *k, dl_kinstr *in) {
    (void)k;
    return call_with(in, DL_ATTR_causal, opposite);
}

static bool another_element(dl_kernel *k, dl_kinstr *in) {
    (void)k;
    return in->kind == DL_K_RANDOM && (in->first++, true);
}

#define EACH_INSTR(f)                                                                              \
    static bool any_##f(dl_module *m, int skip) { return each_instr(m, skip, f); }
EACH_INSTR(swap_operands)
EACH_INSTR(wrong_constant)
EACH_INSTR(wrong_offset)
EACH_INSTR(drop_last)
EACH_INSTR(drop_taps)
EACH_INSTR(wrong_reduction)
EACH_INSTR(another_draw)
EACH_INSTR(another_number)
EACH_INSTR(more_heads)
EACH_INSTR(other_mask)
EACH_INSTR(another_element)

/* A value is stored over one that is still to be read: a fault of the memory's plan. */
static bool overwrite(dl_module *m, int skip) {
    dl_graph *g = m->graphs.at[0];
    for (int i = 0; i < g->nodes.n; i++)
        for (int j = i + 1; j < g->nodes.n; j++)
            for (int r = j + 1; r < g->nodes.n; r++)
                for (int k = 0; k < g->nodes.at[r]->nin; k++) {
                    dl_value *old = &g->nodes.at[i]->out[0], *new = &g->nodes.at[j]->out[0];
                    bool fits = dl_type_bytes(&new->type) <= dl_type_bytes(&old->type) &&
                                new->offset != old->offset;
                    for (int o = 0; o < g->nodes.at[j]->nin; o++)
                        fits = fits && g->nodes.at[j]->in[o] != old;
                    if (g->nodes.at[r]->in[k] != old || !fits || skip-- > 0) continue;
                    new->offset = old->offset;
                    return true;
                }
    return false;
}

/* At least `least` faults of each kind, at most `most`; each in a plan of its own. */
static const struct {
    const char *what;
    bool (*apply)(dl_module *m, int skip);
    int least, most, step;
    const char *model;
} kinds[] = {
    {"operands swapped", any_swap_operands, 3, 6, 2, "seeded"},
    {"constant off by 1e-3", any_wrong_constant, 3, 6, 1, "seeded"},
    {"offset off by one", any_wrong_offset, 4, 6, 5, "seeded"},
    {"last element dropped", any_drop_last, 4, 40, 1, "seeded"},
    {"row of taps missing", any_drop_taps, 3, 6, 1, "seeded"},
    {"wrong axis reduced", any_wrong_reduction, 1, 3, 1, "seeded"},
    {"stored over a live value", overwrite, 2, 3, 4, "seeded"},
    {"another draw", any_another_draw, 3, 3, 1, "drops"},
    {"another element", any_another_element, 3, 3, 1, "drops"},
    {"another draw of attention", any_another_number, 2, 2, 1, "drops"},
    {"other heads of attention", any_more_heads, 3, 6, 1, "drops"},
    {"another mask of attention", any_other_mask, 3, 6, 1, "drops"},
};
enum { NKINDS = sizeof kinds / sizeof *kinds };

static void test_seeded(void) {
    int found = 0;
    unsigned number = 0;
    for (int i = 0; i < NKINDS; i++) {
        int n = 0;
        for (; n < kinds[i].most; n++) {
            if (n >= kinds[i].least && !dl_test_takes(number++)) continue;
            dl_arena *arena = dl_arena_new(NULL);
            fault f = {kinds[i].what, kinds[i].apply, n * kinds[i].step, false};
            bool moved =
                kinds[i].apply == overwrite; /* the graph says so too, and memory shows it */
            const char *model = kinds[i].model;
            dl_module *m = build(arena, model, NULL, NULL), *sane = build(arena, model, NULL, NULL);
            dl_plan *p = m && sane ? compile(arena, m, "cpu", DL_OPT_NONE, &f) : NULL;
            if (!moved && p) compile(arena, sane, "cpu", DL_OPT_NONE, NULL);
            if (f.applied && p) {
                dl_verdict v = verify(arena, moved ? m : sane, p, 1);
                CHECK(v.faults.n > 0, "%s (%d) passes", f.what, f.skip);
                found += v.faults.n > 0;
            }
            dl_arena_free(arena);
            if (!f.applied) break;
        }
        CHECK(n >= kinds[i].least, "%s: only %d", kinds[i].what, n);
    }
    printf("%d seeded faults found\n", found);
}

/* Operands given to a launch in another order, and a graph that means something else than what was
 * written. */
static void test_elsewhere(void) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    dl_module *m = build(arena, "seeded", NULL, NULL);
    dl_plan *p = m ? compile(arena, m, "cpu", DL_OPT_NONE, NULL) : NULL;
    if (!p) return;
    dl_plan_launch *l = &p->programs.at[0].launches.at[0];
    int64_t *out = &l->args[l->nargs - 1], kept = *out;
    *out = kept ? 0 : DL_PLAN_ALIGN; /* where another tensor lies */
    CHECK(verify(arena, m, p, 1).faults.n > 0);
    *out = kept;
    CHECK(verify(arena, m, p, 1).faults.n == 0);

    uint64_t seed = 1;
    dl_verify_run run = {{.threads = 1}, fill, NULL, &seed};
    static const struct {
        const char *from, *to;
        int off; /* results */
    } changes[] = {{"leaky_relu(0.1)", "leaky_relu(0.1001)", 4}, {"0.25 * t", "0.25025 * t", 4},
                   {"sum(v * v)", "sum(v * v) + 0.02", 1},       {"z[H=1:5]", "z[H=2:6]", 1},
                   {"over=W)", "over=H) as [N, C, H]", 1},       {NULL, NULL, 0}};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        dl_module *written = build(arena, "seeded", changes[i].from, changes[i].to);
        dl_verify_graphs eval = {dl_module_graph(written, "eval"), NULL,
                                 dl_module_graph(m, "eval")};
        double *float32 = DL_NEWS(arena, double, eval.written->results.n);
        dl_verdict v = {0};
        CHECK(dl_verify_meaning(arena, &eval, p, &run, NULL, &v, float32, &err), "%s", err.message);
        CHECK(v.faults.n >= changes[i].off && (v.faults.n == 0) == (changes[i].off == 0),
              "%s: %d faults", changes[i].to, v.faults.n);
    }
    dl_arena_free(arena);
}

/* ---- one tensor ---- */
static void test_tensor(void) {
    dl_arena *arena = dl_arena_new(NULL);
    static const struct {
        double got, want, low, high;
        bool off;
    } cases[] = {{1, 1, 1, 1, false},
                 {1.5, 1, 0, 2, false},
                 {2.5, 1, 0, 2, true},
                 {-0.5, 1, 0, 2, true},
                 {1.1, 1, 1, 1, true},
                 {NAN, 1, 0, 2, true},
                 {NAN, NAN, NAN, NAN, false},
                 {1, NAN, NAN, NAN, true},
                 {NAN, 1, -INFINITY, INFINITY, false},
                 {INFINITY, INFINITY, 1e38, INFINITY, false},
                 {INFINITY, 1, 0, 2, true},
                 {-INFINITY, INFINITY, 1e38, INFINITY, true},
                 {3e38, INFINITY, 1e38, INFINITY, false}};
    dl_type t = dl_scalar(DL_F32);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_verdict v = {0};
        dl_verify_tensor(arena, &v, "r", " (m.dl:1)", &t, &cases[i].got, &cases[i].want,
                         &cases[i].low, &cases[i].high);
        CHECK((v.faults.n == 1) == cases[i].off && v.compared == 1, "case %zu: %d", i, v.faults.n);
    }
    dl_type line = dl_scalar(DL_F32);
    dl_type_push(&line, "N", 2), dl_type_push(&line, "C", 3);
    double zero[6] = {0}, got[6] = {0, 0, 0, 0, 1, 3}, high[6] = {1, 1, 1, 1, 1, 1};
    dl_verdict v = {0};
    dl_verify_tensor(arena, &v, "@k result 0", " (m.dl:1)", &line, got, zero, zero, high);
    CHECK(v.faults.n == 1 && strstr(v.faults.at[0], "3 at [N=1, C=2]") &&
              strstr(v.faults.at[0], "1 of 6") && strstr(v.faults.at[0], "m.dl:1"),
          "%s", v.faults.n ? v.faults.at[0] : "");
    CHECK(v.worst == 3 && strcmp(v.worst_of, "@k result 0") == 0);
    dl_arena_free(arena);
}

int main(void) {
    char dir[] = "/tmp/dl_verify_XXXXXX";
    if (!test_cache(dir)) return 1;
    test_tensor();
    test_sound("cpu:avx512");
    test_sound("cpu:avx2");
    test_sound("cpu:generic");
    test_seeded();
    test_elsewhere();
    return dl_test_end();
}

#include "compiler/compile.h"

#include <unistd.h>

#include "compiler/cost.h"
#include "compiler/jit_cc.h"
#include "ir/base/clock.h"
#include "ir/base/foreign.h"
#include "ir/base/hash.h"
#include "ir/text.h"
#include "passes/memory.h"

/* Sources that are compiled at the same time: few, since each carries the preludes. */
enum { NSOURCES = 2 };

static const char *where_from(dl_arena *arena, const dl_kernel *k) {
    dl_buf b = {0};
    for (int i = 0; i < k->locs.n; i++) {
        dl_puts(&b, i ? " " : "");
        dl_put_foreign(&b, DL_IN_LINE, k->locs.at[i].file);
        dl_putf(&b, ":%d", k->locs.at[i].line);
    }
    const char *s = dl_strdup(arena, b.at ? b.at : "");
    dl_buf_free(&b);
    return s;
}

/* A kernel touches its parameters' own bytes, and no others. */
static int64_t *touched_bytes(dl_arena *arena, const dl_kernel *k) {
    int64_t *bytes = DL_NEWS(arena, int64_t, k->params.n);
    for (int i = 0; i < k->params.n; i++) bytes[i] = dl_type_bytes(&k->params.at[i].type);
    return bytes;
}

typedef struct {
    dl_buf text;
    dl_emitted needs; /* of all its kernels */
} source;

/* A kernel's text without what its code does not depend on: name, source lines, names of axes, and what the
 * nodes would have moved. */
static uint64_t hash_kernel(const dl_kernel *k) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_kernel bare = *k;
    bare.name = "k", bare.locs.n = 0, bare.bytes_unfused = 0;
    bare.params.at = DL_NEWS(arena, dl_kparam, k->params.n);
    bare.instrs.at = DL_NEWS(arena, dl_kinstr, k->instrs.n);
    for (int i = 0; i < k->nspace; i++) bare.space[i].name = "";
    for (int i = 0; i < k->params.n; i++) {
        bare.params.at[i] = k->params.at[i];
        for (int a = 0; a < bare.params.at[i].type.rank; a++) bare.params.at[i].type.axis[a].name = "";
    }
    for (int i = 0; i < k->instrs.n; i++) {
        bare.instrs.at[i] = k->instrs.at[i];
        for (int a = 0; a < bare.instrs.at[i].nsums; a++)
            bare.instrs.at[i].sum[a].name = dl_internf("s%d", a);
    }
    dl_buf text = {0};
    dl_print_kernel(&text, &bare, (dl_print_options){0});
    uint64_t hash = dl_hash(text.at, text.n, 0);
    dl_buf_free(&text);
    dl_arena_free(arena);
    return hash;
}

/* A kernel of the plan whose code serves this one, too: equal blocks of a model, and evaluation, which
 * repeats the forward half of training. -1: none. */
static int find_twin(const dl_plan *p, const uint64_t *hashes, uint64_t hash) {
    for (int i = 0; i < p->kernels.n; i++)
        if (hashes[i] == hash) return i;
    return -1;
}

/* Every kernel's code goes to the source that is shortest so far; what they need decides the preludes in
 * front. */
static bool emit_all(const dl_module *m, dl_plan *p, const dl_target *t, dl_error *err) {
    source sources[NSOURCES] = {0};
    bool ok = true;
    int all = 0;
    for (int g = 0; g < m->graphs.n; g++) all += m->graphs.at[g]->kernels.n;
    uint64_t *hashes = DL_NEWS(p->arena, uint64_t, all + 1);
    for (int g = 0; g < m->graphs.n && ok; g++)
        for (int i = 0; i < m->graphs.at[g]->kernels.n && ok; i++) {
            const dl_kernel *k = m->graphs.at[g]->kernels.at[i];
            uint64_t hash = hashes[p->kernels.n] = hash_kernel(k);
            int twin = find_twin(p, hashes, hash), s = 0;
            if (twin >= 0) {
                dl_plan_kernel same = p->kernels.at[twin];
                same.name = dl_strdup(p->arena, k->name), same.where = where_from(p->arena, k);
                same.arg_bytes = touched_bytes(p->arena, k);
                dl_push(p->arena, &p->kernels, same);
                continue;
            }
            for (int j = 1; j < NSOURCES; j++)
                if (sources[j].text.n < sources[s].text.n) s = j;
            dl_emitted code;
            ok = dl_emit_kernel(&sources[s].text, k, t, &code, err);
            sources[s].needs.contracts |= code.contracts, sources[s].needs.draws |= code.draws;
            sources[s].needs.attends |= code.attends;
            sources[s].needs.grad_rows |= code.grad_rows;
            const char *name = dl_strdup(p->arena, k->name);
            dl_plan_kernel pk = {.name = name,
                                 .symbol = name,
                                 .where = where_from(p->arena, k),
                                 .object = s,
                                 .phases = code.phases,
                                 .nargs = k->params.n,
                                 .arg_bytes = touched_bytes(p->arena, k),
                                 .workspace = code.workspace,
                                 .scratch = code.scratch,
                                 .flops = k->flops,
                                 .bytes = k->bytes,
                                 .predicted_us = dl_predict_us(k, t)};
            for (int j = 0; j < code.phases; j++) pk.units[j] = code.units[j];
            if (code.workspace > p->workspace_bytes) p->workspace_bytes = code.workspace;
            if (code.scratch > p->scratch_bytes) p->scratch_bytes = code.scratch;
            dl_push(p->arena, &p->kernels, pk);
        }
    for (int s = 0; s < NSOURCES; s++) {
        dl_buf whole = {0};
        dl_emit_prelude(&whole, t, &sources[s].needs);
        if (sources[s].text.n) dl_puts(&whole, sources[s].text.at);
        dl_push(p->arena, &p->objects, (dl_plan_object){.source = dl_strndup(p->arena, whole.at, whole.n)});
        dl_buf_free(&whole);
        dl_buf_free(&sources[s].text);
    }
    p->workspace_bytes = (p->workspace_bytes + 63) & ~63LL;
    p->scratch_bytes = (p->scratch_bytes + 63) & ~63LL;
    return ok;
}

static int add_var(dl_plan *p, const dl_var *v) {
    for (int i = 0; i < p->vars.n; i++)
        if (strcmp(p->vars.at[i].name, v->name) == 0) return i;
    dl_plan_var pv = {.name = dl_strdup(p->arena, v->name),
                      .of = v->of ? dl_strdup(p->arena, v->of) : NULL,
                      .role = v->role,
                      .type = v->value.type,
                      .init = v->init,
                      .offset = v->value.offset};
    for (int i = 0; i < v->numbers.n; i++) dl_push(p->arena, &pv.numbers, v->numbers.at[i]);
    dl_push(p->arena, &p->vars, pv);
    return p->vars.n - 1;
}

static void add_program(dl_plan *p, const dl_graph *g, int first_kernel) {
    dl_plan_program prog = {.name = dl_strdup(p->arena, g->name)};
    for (int i = 0; i < g->vars.n; i++) add_var(p, g->vars.at[i]);
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        int at = 0;
        while (g->kernels.at[at] != n->kernel) at++;
        dl_plan_launch launch = {.kernel = first_kernel + at, .nargs = n->nin + n->nout};
        launch.args = DL_NEWS(p->arena, int64_t, launch.nargs + 1);
        for (int k = 0; k < n->nin; k++) launch.args[k] = n->in[k]->offset;
        for (int k = 0; k < n->nout; k++) launch.args[n->nin + k] = n->out[k].offset;
        dl_push(p->arena, &prog.launches, launch);
    }
    for (int i = 0; i < g->results.n; i++) {
        const dl_result *r = &g->results.at[i];
        dl_plan_result pr = {.role = r->role,
                             .name = r->name ? dl_strdup(p->arena, r->name) : NULL,
                             .type = r->value->type,
                             .offset = r->value->offset,
                             .var = r->var ? add_var(p, r->var) : -1};
        dl_push(p->arena, &prog.results, pr);
    }
    dl_push(p->arena, &p->programs, prog);
}

dl_plan *dl_compile(dl_arena *parent, dl_module *m, const dl_compile_options *opt, dl_compile_times *times,
                    dl_error *err) {
    double start = dl_clock_ms();
    dl_arena *scratch = dl_arena_new(parent), *arena = dl_arena_new(parent);
    dl_pass_ctx ctx = {.arena = scratch,
                       .panel = opt->target->panel,
                       .keep_gradients = opt->keep_gradients,
                       .recipe = opt->recipe,
                       .err = err};
    dl_pass_options run = {
        .skip = opt->skip, .validate = opt->validate, .observe = opt->observe, .user = opt->user};
    bool ok = dl_run_passes(m, dl_pipeline, &ctx, run);
    times->passes_ms = dl_clock_ms() - start;

    dl_plan *p = DL_NEW(arena, dl_plan);
    *p = (dl_plan){.arena = arena,
                   .model = dl_strdup(arena, opt->model),
                   .target = opt->target->name,
                   .batch = opt->batch};
    start = dl_clock_ms();
    ok = ok && emit_all(m, p, opt->target, err);
    for (int g = 0, first = 0; ok && g < m->graphs.n; first += m->graphs.at[g++]->kernels.n)
        add_program(p, m->graphs.at[g], first);
    p->arena_bytes = dl_module_arena_bytes(m);
    times->emit_ms = dl_clock_ms() - start;
    start = dl_clock_ms();
    ok = ok && (!opt->link || dl_jit_compile(arena, p->objects.n, p->objects.at, opt->target, opt->warn,
                                             &times->compiled, err));
    times->cc_ms = dl_clock_ms() - start;
    for (int i = 0; i < p->objects.n; i++) p->key = dl_hash(&p->objects.at[i].key, sizeof(uint64_t), p->key);
    dl_arena_free(scratch);
    if (ok) return p;
    dl_arena_free(arena);
    return NULL;
}

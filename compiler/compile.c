#include "compiler/compile.h"

#include <unistd.h>

#include "compiler/program.h"
#include "ir/base/clock.h"
#include "ir/base/hash.h"
#include "ir/text.h"
#include "passes/memory.h"

static const char *where_from(dl_arena *arena, const dl_kernel *k) {
    dl_buf b = {0};
    for (int i = 0; i < k->locs.n; i++) {
        dl_puts(&b, i ? " " : "");
        dl_put_line(&b, k->locs.at[i]);
    }
    const char *s = dl_strdup(arena, b.at ? b.at : "");
    dl_buf_free(&b);
    return s;
}

static const char *name_of(const dl_kinstr *in) {
    bool has_op = in->kind == DL_K_ELEM || in->kind == DL_K_REDUCE || in->kind == DL_K_CONTRACT;
    return has_op ? dl_ops[in->op].name : in->kind == DL_K_LOAD ? "a move" : "a source";
}

/* What is stored, by parameter; a template stores all its results. */
static void add_stores(dl_plan *p, dl_plan_kernel *pk, const dl_kernel *k) {
    const dl_node *call = dl_kernel_call(k);
    for (int i = k->nin; i < k->params.n; i++) {
        const dl_kinstr *made = NULL;
        dl_loc loc = call ? call->loc : (dl_loc){0};
        for (int s = 0; s < k->instrs.n; s++)
            if (k->instrs.at[s].kind == DL_K_STORE && k->instrs.at[s].param == i)
                made = &k->instrs.at[k->instrs.at[s].args[0]], loc = made->loc;
        dl_buf where = {0};
        if (loc.line) dl_put_line(&where, loc);
        dl_push(p->arena, &pk->stores,
                (dl_plan_store){.arg = i,
                                .type = k->params.at[i].type,
                                .op = made ? name_of(made) : dl_ops[call->op].name,
                                .where = dl_strdup(p->arena, where.at ? where.at : "")});
        dl_buf_free(&where);
    }
}

/* A kernel touches its parameters' own bytes, and no others. */
static int64_t *touched_bytes(dl_arena *arena, const dl_kernel *k) {
    int64_t *bytes = DL_NEWS(arena, int64_t, k->params.n);
    for (int i = 0; i < k->params.n; i++) bytes[i] = dl_type_bytes(&k->params.at[i].type);
    return bytes;
}

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

static dl_plan_kernel describe(dl_plan *p, const dl_kernel *k, const dl_target *t, const dl_emitted *code) {
    const char *name = dl_strdup(p->arena, k->name);
    dl_plan_kernel pk = {.name = name,
                         .symbol = name,
                         .where = where_from(p->arena, k),
                         .phases = code->phases,
                         .nargs = k->params.n,
                         .arg_bytes = touched_bytes(p->arena, k),
                         .workspace = code->workspace,
                         .scratch = code->scratch,
                         .flops = k->flops,
                         .bytes = k->bytes,
                         .predicted_us = t->backend->predict(k, t)};
    add_stores(p, &pk, k);
    for (int j = 0; j < code->phases; j++)
        pk.units[j] = code->units[j], pk.threads[j] = code->threads[j], pk.shared[j] = code->shared[j];
    if (code->workspace > p->workspace_bytes) p->workspace_bytes = code->workspace;
    if (code->scratch > p->scratch_bytes) p->scratch_bytes = code->scratch;
    return pk;
}

static void put_sources(dl_plan *p, const dl_target *t, int n, dl_piece *pieces) {
    int nsources = t->backend->share(n, pieces);
    for (int s = 0; s < nsources; s++) {
        dl_buf whole = {0};
        dl_emitted needs = {0};
        for (int i = 0; i < n; i++)
            for (int k = 0; k < DL_NEEDS; k++)
                needs.needs[k] |= pieces[i].source == s ? pieces[i].code.needs[k] : 0;
        t->backend->open(&whole, t, &needs);
        for (int i = 0; i < n; i++)
            if (pieces[i].source == s && pieces[i].text.n)
                dl_putn(&whole, pieces[i].text.at, pieces[i].text.n);
        dl_push(p->arena, &p->objects, (dl_plan_object){.source = dl_strndup(p->arena, whole.at, whole.n)});
        dl_buf_free(&whole);
    }
}

/* Puts the kernels' code into sources, and says in which each kernel finds its own. */
static void link_code(dl_plan *p, const dl_target *t, int n, dl_piece *kernels, const int *from) {
    int functions = n;
    dl_piece *pieces = t->backend->fold ? t->backend->fold(p->arena, &functions, kernels) : kernels;
    put_sources(p, t, functions, pieces);
    for (int i = 0; i < n && pieces != kernels; i++)
        for (int j = 0; j < kernels[i].entries.n; j++) {
            dl_plan_entry *e = &kernels[i].entries.at[j];
            e->object = pieces[e->object].source;
        }
    for (int i = 0; i < p->kernels.n; i++) {
        dl_plan_kernel *k = &p->kernels.at[i];
        memcpy(&k->entries, &kernels[from[i]].entries, sizeof k->entries);
        k->object = k->entries.n ? k->entries.at[0].object : kernels[from[i]].source;
    }
    for (int i = 0; i < functions && pieces != kernels; i++) dl_buf_free(&pieces[i].text);
}

/* In a source of its own: it is the same for every model, and so compiled once. */
static void put_feed(dl_plan *p, const dl_module *m, const dl_target *t) {
    bool any = false;
    dl_buf b = {0};
    for (int i = 0; m->graphs.n && i < m->graphs.at[0]->vars.n; i++) {
        const dl_var *v = m->graphs.at[0]->vars.at[i];
        any |=
            (v->role == DL_VAR_INPUT || v->role == DL_VAR_TARGET) && dl_dtype_is_float(v->value.type.dtype);
    }
    if (!any || !t->backend->feed) return;
    t->backend->feed(&b, t);
    dl_push(p->arena, &p->objects, (dl_plan_object){.source = dl_strndup(p->arena, b.at, b.n)});
    dl_buf_free(&b);
}

static bool emit_all(const dl_module *m, dl_plan *p, const dl_target *t, dl_error *err) {
    bool ok = true;
    int all = 0, n = 0;
    for (int g = 0; g < m->graphs.n; g++) all += m->graphs.at[g]->kernels.n;
    uint64_t *hashes = DL_NEWS(p->arena, uint64_t, all + 1);
    dl_piece *pieces = DL_NEWS(p->arena, dl_piece, all + 1);
    int *from = DL_NEWS(p->arena, int, all + 1); /* by kernel: its piece */
    for (int g = 0; g < m->graphs.n && ok; g++)
        for (int i = 0; i < m->graphs.at[g]->kernels.n && ok; i++) {
            const dl_kernel *k = m->graphs.at[g]->kernels.at[i];
            int number = p->kernels.n, twin;
            hashes[number] = hash_kernel(k);
            if ((twin = find_twin(p, hashes, hashes[number])) >= 0) {
                dl_plan_kernel same = p->kernels.at[twin];
                same.name = dl_strdup(p->arena, k->name), same.where = where_from(p->arena, k);
                same.arg_bytes = touched_bytes(p->arena, k);
                memset(&same.stores, 0, sizeof same.stores);
                add_stores(p, &same, k);
                from[number] = from[twin];
                dl_push(p->arena, &p->kernels, same);
                continue;
            }
            dl_piece *own = &pieces[from[number] = n++];
            own->name = k->name;
            ok = t->backend->emit(&own->text, k, t, &own->code, err);
            dl_push(p->arena, &p->kernels, describe(p, k, t, &own->code));
        }
    if (ok) link_code(p, t, n, pieces, from);
    put_feed(p, m, t);
    for (int i = 0; i < n; i++) dl_buf_free(&pieces[i].text);
    p->workspace_bytes = (p->workspace_bytes + 63) & ~63LL;
    p->scratch_bytes = (p->scratch_bytes + 63) & ~63LL;
    return ok;
}

dl_plan *dl_compile(dl_arena *parent, dl_module *m, const dl_compile_options *opt, dl_compile_times *times,
                    dl_error *err) {
    double start = dl_clock_ms();
    dl_arena *scratch = dl_arena_new(parent), *arena = dl_arena_new(parent);
    dl_pass_ctx ctx = {.arena = scratch,
                       .weights = opt->target->weights,
                       .low_products = opt->target->low_products,
                       .written_out = opt->target->written_out,
                       .tf32 = opt->tf32 && opt->target->has_tf32,
                       .keep_gradients = opt->keep_gradients,
                       .recipe = opt->recipe,
                       .parallel = opt->parallel,
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
        dl_add_program(p, m->graphs.at[g], first);
    p->arena_bytes = dl_module_arena_bytes(m);
    times->emit_ms = dl_clock_ms() - start;
    start = dl_clock_ms();
    ok = ok && (!opt->link || opt->target->backend->build(arena, p->objects.n, p->objects.at, opt->target,
                                                          opt->warn, &times->compiled, err));
    times->cc_ms = dl_clock_ms() - start;
    for (int i = 0; i < p->objects.n; i++) p->key = dl_hash(&p->objects.at[i].key, sizeof(uint64_t), p->key);
    dl_arena_free(scratch);
    if (ok) return p;
    dl_arena_free(arena);
    return NULL;
}

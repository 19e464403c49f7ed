/* The kernels of a plan, and their code in as few sources as possible. */
#include "compiler/code.h"

#include "compiler/codegen/holes.h"
#include "compiler/jit/program.h"
#include "ir/base/cpus.h"
#include "ir/base/hash.h"
#include "ir/text/text.h"

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

/* Records the stored tensors by parameter; a template stores all its results. */
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

/* The bytes that a kernel reads or writes of each parameter: its parameters' own, and no others. */
static int64_t *touched_bytes(dl_arena *arena, const dl_kernel *k) {
    int64_t *bytes = DL_NEWS(arena, int64_t, k->params.n);
    for (int i = 0; i < k->params.n; i++) bytes[i] = dl_type_bytes(&k->params.at[i].type);
    return bytes;
}

uint64_t dl_kernel_hash(const dl_kernel *k) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_kernel bare = *k;
    bare.name = "k", bare.locs.n = 0, bare.bytes_unfused = 0;
    bare.params.at = DL_NEWS(arena, dl_kparam, k->params.n);
    bare.instrs.at = DL_NEWS(arena, dl_kinstr, k->instrs.n);
    for (int i = 0; i < k->nspace; i++) bare.space[i].name = "";
    for (int i = 0; i < k->params.n; i++) {
        bare.params.at[i] = k->params.at[i];
        for (int a = 0; a < bare.params.at[i].type.rank; a++)
            bare.params.at[i].type.axis[a].name = "";
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

/* The variant's name for people; "": there is one. */
static const char *variant_of(const dl_kernel *k, const dl_emitted *code) {
    if (code->calls) return dl_algorithm_name(&code->call.algorithm);
    return k->schedule.variant ? k->schedule.variant : "";
}

static dl_plan_kernel describe(dl_plan *p, const dl_kernel *k, const dl_target *t,
                               const dl_emitted *code) {
    const char *name = dl_strdup(p->arena, k->name);
    dl_plan_kernel pk = {.name = name,
                         .symbol = name,
                         .where = where_from(p->arena, k),
                         .variant = dl_strdup(p->arena, variant_of(k, code)),
                         .phases = code->phases,
                         .prepares = code->prepares,
                         .prepared = code->prepared,
                         .nargs = k->params.n,
                         .arg_bytes = touched_bytes(p->arena, k),
                         .workspace = code->workspace,
                         .scratch = code->scratch,
                         .flops = k->flops,
                         .bytes = k->bytes,
                         .predicted_us = t->backend->predict(k, t)};
    if (t->backend->serial) pk.serial_us = t->backend->serial(k, t);
    add_stores(p, &pk, k);
    if (code->calls) dl_push(p->arena, &pk.calls, code->call);
    for (int j = 0; j < code->phases; j++)
        pk.items[j] = code->items[j], pk.threads[j] = code->threads[j],
        pk.shared[j] = code->shared[j];
    if (code->workspace > p->workspace_bytes) p->workspace_bytes = code->workspace;
    if (code->scratch > p->scratch_bytes) p->scratch_bytes = code->scratch;
    return pk;
}

/* The kernel's text under a name that its contents determine. */
static dl_plan_text name_by_contents(dl_arena *arena, const dl_piece *from) {
    const char *text = from->code.nameless;
    const char *symbol =
        dl_format(arena, "kernel_%016llx", (unsigned long long)dl_hash_str(text, 0));
    dl_buf named = {0};
    dl_fill_holes(&named, text, symbol);
    dl_plan_text made = {.name = dl_strdup(arena, from->name),
                         .phases = from->code.phases,
                         .symbol = symbol,
                         .text = dl_strndup(arena, named.at, named.n)};
    dl_buf_free(&named);
    return made;
}

static void put_source(dl_plan *p, const dl_target *t, int n, const dl_piece *pieces, int source,
                       bool late) {
    const dl_backend *backend = t->backend;
    dl_buf whole = {0};
    dl_emitted needs = {0};
    for (int i = 0; i < n; i++)
        for (int k = 0; k < DL_NEEDS; k++)
            needs.needs[k] |= pieces[i].source == source ? pieces[i].code.needs[k] : 0;
    backend->open(&whole, t, &needs);
    dl_plan_object object = {.opening = dl_strndup(p->arena, whole.at, whole.n), .late = late};
    for (int i = 0; i < n; i++) {
        if (pieces[i].source != source || !pieces[i].text.n) continue;
        dl_putn(&whole, pieces[i].text.at, pieces[i].text.n);
        if (pieces[i].code.nameless)
            dl_push(p->arena, &object.texts, name_by_contents(p->arena, &pieces[i]));
    }
    object.source = dl_strndup(p->arena, whole.at, whole.n);
    if (backend->libraries)
        object.nlibraries = backend->libraries(p->arena, t, &needs, object.libraries);
    dl_push(p->arena, &p->objects, object);
    dl_buf_free(&whole);
}

/* The sources of the pieces that are late, or of the others; sets the pieces' sources. */
static void put_sources(dl_plan *p, const dl_target *t, int n, dl_piece *pieces, bool late,
                        int threads) {
    const int first = p->objects.n;
    dl_piece *some = DL_NEWS(p->arena, dl_piece, n + 1);
    int *of = DL_NEWS(p->arena, int, n + 1), m = 0, nsources = 1;
    for (int i = 0; i < n; i++)
        if (pieces[i].late == late) some[m] = pieces[i], of[m++] = i;
    if (!m && late) return;
    if (t->backend->assign) nsources = t->backend->assign(m, some, threads);
    for (int s = 0; s < nsources; s++) put_source(p, t, m, some, s, late);
    for (int i = 0; i < m; i++) pieces[of[i]].source = first + some[i].source;
}

/* Assigns the kernels' code to sources, and records for each kernel the source that holds it. */
static void link_code(dl_plan *p, const dl_target *t, int n, dl_piece *kernels, const int *from,
                      int threads) {
    int functions = n;
    dl_piece *pieces =
        t->backend->merge ? t->backend->merge(p->arena, &functions, kernels) : kernels;
    for (int i = 0; i < functions; i++) pieces[i].late = pieces != kernels;
    for (int i = 0; i < n && pieces != kernels; i++)
        for (int j = 0; j < kernels[i].entries.n; j++)
            pieces[kernels[i].entries.at[j].object].late &= kernels[i].late;
    if (!threads) threads = dl_cpus_allowed();
    put_sources(p, t, functions, pieces, false, threads);
    put_sources(p, t, functions, pieces, true, 0);
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

/* An earlier kernel whose code serves this one, too: equal blocks of a model, and evaluation,
 * which repeats training's forward pass. -1: none. */
static int find_twin(const uint64_t *hashes, int n) {
    for (int i = 0; i < n; i++)
        if (hashes[i] == hashes[n]) return i;
    return -1;
}

static void add_twin(dl_plan *p, const dl_kernel *k, int twin) {
    dl_plan_kernel same = p->kernels.at[twin];
    same.name = dl_strdup(p->arena, k->name), same.where = where_from(p->arena, k);
    same.arg_bytes = touched_bytes(p->arena, k);
    memset(&same.stores, 0, sizeof same.stores);
    add_stores(p, &same, k);
    dl_push(p->arena, &p->kernels, same);
}

bool dl_add_kernels(dl_plan *p, const dl_target *t, int n, dl_kernel *const *kernels,
                    const bool *late, int threads, dl_error *err) {
    bool ok = true;
    int made = 0;
    dl_arena *texts = dl_arena_new(NULL);
    uint64_t *hashes = DL_NEWS(p->arena, uint64_t, n + 1);
    dl_piece *pieces = DL_NEWS(p->arena, dl_piece, n + 1);
    int *from = DL_NEWS(p->arena, int, n + 1); /* by kernel: its piece */
    for (int i = 0; i < n && ok; i++) {
        const dl_kernel *k = kernels[i];
        hashes[i] = dl_kernel_hash(k);
        int twin = find_twin(hashes, i);
        if (twin >= 0) {
            from[i] = from[twin];
            pieces[from[i]].late &= late && late[i];
            add_twin(p, k, twin);
            continue;
        }
        dl_piece *own = &pieces[from[i] = made++];
        own->name = k->name, own->late = late && late[i];
        ok = t->backend->emit(texts, &own->text, k, t, &own->code, err);
        dl_push(p->arena, &p->kernels, describe(p, k, t, &own->code));
    }
    if (ok) link_code(p, t, made, pieces, from, threads);
    for (int i = 0; i < made; i++) dl_buf_free(&pieces[i].text);
    dl_arena_free(texts);
    p->workspace_bytes = (p->workspace_bytes + 63) & ~63LL;
    p->scratch_bytes = (p->scratch_bytes + 63) & ~63LL;
    return ok;
}

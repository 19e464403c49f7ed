/* Properties of a plan, and the check that it is consistent. plan_file.c reads and writes its
 * file. */
#include "ir/plan/plan.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>

#include "ir/collective.h"
#include "ir/infer.h"
#include "ir/plan/feed.h"

int64_t dl_plan_peak(const dl_plan *p, int threads) {
    return dl_plan_round(p->arena_bytes) + dl_plan_round(p->workspace_bytes) + dl_plan_staged(p) +
           threads * dl_plan_round(p->scratch_bytes);
}

int64_t dl_plan_staged(const dl_plan *p) {
    int64_t bytes = 0;
    if (!dl_target_is_gpu(p->target)) return 0;
    for (int i = 0; i < p->vars.n; i++)
        if (dl_plan_is_fed(&p->vars.at[i])) bytes += dl_feed_room(&p->vars.at[i].type);
    return bytes;
}

bool dl_target_is_emulated(const char *target) {
    static const char end[] = ":emulated";
    size_t n = strlen(target), k = sizeof end - 1;
    return n > k && strcmp(target + n - k, end) == 0;
}

bool dl_target_is_gpu(const char *target) { return strncmp(target, "cuda", 4) == 0; }

int64_t dl_plan_parameters(const dl_plan *p) {
    int64_t n = 0;
    for (int i = 0; i < p->vars.n; i++)
        if (p->vars.at[i].role == DL_VAR_PARAM) n += dl_type_count(&p->vars.at[i].type);
    return n;
}

dl_plan_entry dl_plan_entry_of(dl_arena *arena, const dl_plan_kernel *k, int phase) {
    if (k->entries.n) return k->entries.at[phase];
    dl_plan_entry e = {.symbol = dl_format(arena, "%s_%d", k->symbol, phase), .object = k->object};
    for (int i = 0; i < k->nargs; i++) dl_push(arena, &e.args, i);
    return e;
}

int dl_plan_entry_count(const dl_plan_entry *e) {
    return e->table.numbers ? 1 : e->maps.n + e->args.n + 1 + e->numbers.n;
}

int64_t dl_plan_entry_bytes(const dl_plan_entry *e) {
    if (e->table.numbers) return 8 * ((int64_t)e->table.numbers + e->table.pointers);
    return (int64_t)DL_MAP_BYTES * e->maps.n + 8 * ((int64_t)e->args.n + 1 + e->numbers.n);
}

dl_plan_program *dl_plan_program_find(const dl_plan *p, const char *name) {
    for (int i = 0; i < p->programs.n; i++)
        if (strcmp(p->programs.at[i].name, name) == 0) return &p->programs.at[i];
    return NULL;
}

int dl_plan_nsteps(const dl_plan_program *p) { return p->steps.n ? p->steps.n : p->launches.n; }

dl_plan_step dl_plan_step_at(const dl_plan_program *p, int i) {
    return p->steps.n ? p->steps.at[i] : (dl_plan_step){DL_STEP_LAUNCH, i};
}

int64_t dl_plan_elements_from(const dl_plan_collective *c) {
    bool piece = c->op == DL_OP_all_gather || c->op == DL_OP_shift;
    return c->outer * c->inner * (piece ? c->own : c->size);
}

int64_t dl_plan_elements_to(const dl_plan_collective *c) {
    return c->outer * c->inner *
           (c->op == DL_OP_reduce_scatter ? c->own
            : c->op == DL_OP_shift        ? c->come
                                          : c->size);
}

void dl_plan_put_of(dl_buf *b, const dl_plan_collective *c) {
    const char *first = c->members.n ? c->members.at[0].of : "";
    dl_puts(b, *first ? first : "values");
    if (c->members.n > 1) dl_putf(b, " and %d more", c->members.n - 1);
}

/* The most bytes or elements of a tensor, arena or file: sums and products of a few such numbers
 * do not overflow. */
static const int64_t most = (int64_t)1 << 47;

static bool check_name(const char *what, int i, const char *name, dl_error *err) {
    if (name && *name) return true;
    return dl_fail(err, DL_INPUT, "%s %d has no name", what, i);
}

static bool check_size(const char *what, int64_t n, dl_error *err) {
    if (n >= 0 && n <= most) return true;
    return dl_fail(err, DL_INPUT, "%s is %lld", what, (long long)n);
}

static bool bad_type(const char *what, const char *name, const char *why, dl_error *err) {
    return dl_fail(err, DL_INPUT, "%s '%s' has a bad type: %s", what, name, why);
}

static bool check_layout(const char *what, const char *name, const dl_type *t, dl_error *err) {
    dl_layout l = t->layout;
    if ((unsigned)l.kind > DL_PANEL) return bad_type(what, name, "unknown layout", err);
    if (l.steps < 0 || l.steps > DL_MAX_RANK ||
        (l.steps && (l.kind != DL_CL || t->rank <= dl_layout_channels(l))))
        return bad_type(what, name, "a layout's steps out of range", err);
    if (l.kind != DL_PANEL) return true;
    if (l.width < 1 || l.width > DL_MAX_PANEL)
        return bad_type(what, name, "panel width out of range", err);
    return t->rank >= 2 || bad_type(what, name, "panels need an output and an input axis", err);
}

static bool check_type(const char *what, const char *name, const dl_type *t, dl_error *err) {
    if ((unsigned)t->dtype >= DL_NDTYPES) return bad_type(what, name, "unknown element type", err);
    if (t->rank < 0 || t->rank > DL_MAX_RANK) return bad_type(what, name, "rank out of range", err);
    if (!check_layout(what, name, t, err)) return false;
    /* A size of 0 counts as 1 here, so that no partial product of the others overflows either. */
    for (int64_t i = 0, count = 1; i < t->rank; i++) {
        int64_t size = t->axis[i].size;
        if (!t->axis[i].name) return bad_type(what, name, "axis without a name", err);
        if (!*t->axis[i].name && size != 1)
            return bad_type(what, name, "an axis without a name must be 1", err);
        if (size < 0 || size > most) return bad_type(what, name, "size out of range", err);
        if (i == 0 && t->layout.kind == DL_PANEL) size += t->layout.width;
        if (__builtin_mul_overflow(count, size ? size : 1, &count) || count > most)
            return bad_type(what, name, "more than 2^47 elements", err);
    }
    return true;
}

/* [offset, offset + bytes) lies in the arena, aligned. */
static bool check_place(const dl_plan *p, const char *what, const char *name, int64_t offset,
                        int64_t bytes, dl_error *err) {
    if (offset >= 0 && offset % DL_PLAN_ALIGN == 0 && bytes <= p->arena_bytes &&
        offset <= p->arena_bytes - bytes)
        return true;
    return dl_fail(
        err, DL_INPUT,
        "%s '%s' has no place at %lld in an arena of %lld bytes (%lld bytes, aligned to %d)", what,
        name, (long long)offset, (long long)p->arena_bytes, (long long)bytes, DL_PLAN_ALIGN);
}

const dl_var_piece *dl_plan_piece(const dl_plan_var *v) { return v->piece.n ? &v->piece : NULL; }

static bool check_piece(const dl_plan_var *v, dl_error *err) {
    return dl_piece_fits(&v->type, &v->piece) ||
           dl_fail(err, DL_INPUT, "variable '%s' of %s is no such piece of a tensor", v->name,
                   dl_type_text(&v->type));
}

static bool check_var(const dl_plan *p, int i, dl_error *err) {
    const dl_plan_var *v = &p->vars.at[i];
    if (!check_name("variable", i, v->name, err) || !check_type("variable", v->name, &v->type, err))
        return false;
    if ((unsigned)v->role >= DL_NVAR_ROLES || (unsigned)v->init.kind >= DL_NINITS)
        return dl_fail(err, DL_INPUT, "variable '%s' has an unknown role or initialisation",
                       v->name);
    if (!check_piece(v, err)) return false;
    if (v->numbers.n != (v->role == DL_VAR_TABLE ? dl_type_count(&v->type) : 0))
        return dl_fail(err, DL_INPUT, "variable '%s' of %s has %d numbers", v->name,
                       dl_type_text(&v->type), v->numbers.n);
    return check_place(p, "variable", v->name, v->offset, dl_type_bytes(&v->type), err);
}

static int by_name(const void *a, const void *b) {
    const dl_plan_var *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static int by_place(const void *a, const void *b) {
    const dl_plan_var *const *x = a, *const *y = b;
    return ((*x)->offset > (*y)->offset) - ((*x)->offset < (*y)->offset);
}

/* Every variable occurs once, none overlaps another, and a state belongs to a variable. */
static bool check_vars_together(const dl_plan *p, dl_error *err) {
    const dl_plan_var **v = malloc((size_t)(p->vars.n + 1) * sizeof *v);
    if (!v) return dl_fail(err, DL_RESOURCE, "no memory for %d variables", p->vars.n);
    int n = p->vars.n;
    for (int i = 0; i < n; i++) v[i] = &p->vars.at[i];
    qsort(v, (size_t)n, sizeof *v, by_name);
    for (int i = 1; i < n; i++)
        if (strcmp(v[i - 1]->name, v[i]->name) == 0)
            dl_fail(err, DL_INPUT, "there are two variables '%s'", v[i]->name);
    for (int i = 0; i < n; i++) {
        const dl_plan_var wanted = {.name = p->vars.at[i].of}, *key = &wanted;
        if (wanted.name && !bsearch(&key, v, (size_t)n, sizeof *v, by_name))
            dl_fail(err, DL_INPUT, "variable '%s' belongs to '%s', which there is not",
                    p->vars.at[i].name, wanted.name);
    }
    int used = 0; /* those with elements */
    for (int i = 0; i < n; i++)
        if (dl_type_bytes(&p->vars.at[i].type)) v[used++] = &p->vars.at[i];
    qsort(v, (size_t)used, sizeof *v, by_place);
    for (int i = 1; i < used; i++)
        if (v[i - 1]->offset + dl_type_bytes(&v[i - 1]->type) > v[i]->offset)
            dl_fail(err, DL_INPUT, "variables '%s' and '%s' overlap", v[i - 1]->name, v[i]->name);
    free(v);
    return err->code == DL_OK;
}

static bool is_identifier(const char *s) {
    if (!s || !(isalpha((unsigned char)*s) || *s == '_')) return false;
    while (isalnum((unsigned char)*s) || *s == '_') s++;
    return !*s;
}

static bool check_store(const dl_plan_kernel *k, const dl_plan_store *s, dl_error *err) {
    if (!check_type("a result of kernel", k->name, &s->type, err)) return false;
    bool ok = s->op && s->where && s->arg >= 0 && s->arg < k->nargs &&
              dl_type_bytes(&s->type) <= k->arg_bytes[s->arg];
    return ok ||
           dl_fail(err, DL_INPUT, "kernel '%s' stores what is none of its parameters", k->name);
}

/* The table has room for its numbers and pointers; or there is no table. */
static bool check_table(const dl_plan_entry *e) {
    int numbers = e->table.numbers, pointers = e->table.pointers;
    if (!numbers && !pointers) return true;
    return numbers > 0 && numbers <= DL_ENTRY_MOST && pointers >= 0 && pointers <= DL_ENTRY_MOST &&
           !e->maps.n && e->numbers.n <= numbers && e->args.n <= pointers;
}

/* Only plans for GPUs have entries, one for each phase. */
static bool check_entries(const dl_plan *p, const dl_plan_kernel *k) {
    bool ok = !k->entries.n || (k->entries.n == k->phases && dl_target_is_gpu(p->target));
    for (int j = 0; ok && j < k->entries.n; j++) {
        const dl_plan_entry *e = &k->entries.at[j];
        ok = is_identifier(e->symbol) && e->object >= 0 && e->object < p->objects.n &&
             e->maps.n <= DL_MAP_MOST && e->args.n <= DL_ENTRY_MOST &&
             e->numbers.n <= DL_ENTRY_MOST && dl_plan_entry_bytes(e) <= 8 * (DL_ENTRY_MOST + 1) &&
             check_table(e);
        for (int a = 0; ok && a < e->args.n; a++)
            ok = e->args.at[a] >= 0 && e->args.at[a] < k->nargs;
        for (int m = 0; ok && m < e->maps.n; m++) {
            int param = e->maps.at[m].param;
            ok = param >= 0 && param < k->nargs &&
                 dl_tensor_map_fits(&e->maps.at[m], k->arg_bytes[param]);
        }
    }
    return ok;
}

/* Only plans for GPUs have library calls. */
static bool check_calls(const dl_plan *p, const dl_plan_kernel *k) {
    bool ok = !k->calls.n || dl_target_is_gpu(p->target);
    for (int i = 0; ok && i < k->calls.n; i++)
        ok = dl_call_fits(&k->calls.at[i], k->nargs, k->arg_bytes, k->workspace);
    return ok;
}

/* A block's threads and shared memory are within the limits of every CUDA device; on the CPU both
 * are 0. */
static bool check_blocks(const dl_plan *p, const dl_plan_kernel *k, dl_error *err) {
    enum { MOST_THREADS = 1024, MOST_SHARED = 256 << 10, WARP = 32 };
    bool gpu = dl_target_is_gpu(p->target), ok = !gpu || k->scratch == 0;
    for (int j = 0; ok && j < k->phases; j++) {
        int threads = k->threads[j], shared = k->shared[j];
        ok = gpu ? threads >= WARP && threads <= MOST_THREADS && threads % WARP == 0 &&
                       shared >= 0 && shared <= MOST_SHARED && k->items[j] <= INT32_MAX
                 : threads == 0 && shared == 0;
    }
    return ok || dl_fail(err, DL_INPUT,
                         "kernel '%s' has blocks, shared memory or scratch that %s has not",
                         k->name, p->target);
}

/* Phases that prepare read a parameter, and others follow them. */
static bool check_preparation(const dl_plan_kernel *k) {
    return !k->prepares || (k->prepares > 0 && k->prepares < k->phases && k->prepared >= 0 &&
                            k->prepared < k->nargs);
}

static bool check_kernel(const dl_plan *p, int i, dl_error *err) {
    const dl_plan_kernel *k = &p->kernels.at[i];
    if (!check_name("kernel", i, k->name, err)) return false;
    bool ok = is_identifier(k->symbol) && k->where && k->variant && k->object >= 0 &&
              k->object < p->objects.n && k->phases >= (k->calls.n ? 0 : 1) &&
              k->phases <= DL_MAX_PHASES && k->flops >= 0 && k->bytes >= 0 &&
              isfinite(k->predicted_us) && k->predicted_us >= 0 && isfinite(k->serial_us) &&
              k->serial_us >= 0 && k->workspace >= 0 && k->workspace <= p->workspace_bytes &&
              k->scratch >= 0 && k->scratch <= p->scratch_bytes && k->nargs >= 0 &&
              (k->arg_bytes || !k->nargs);
    for (int j = 0; ok && j < k->phases; j++) ok = k->items[j] >= 0;
    for (int j = 0; ok && j < k->nargs; j++) ok = k->arg_bytes[j] >= 0;
    ok = ok && check_preparation(k) && check_entries(p, k) && check_calls(p, k);
    for (int j = 0; ok && j < k->stores.n; j++)
        if (!check_store(k, &k->stores.at[j], err)) return false;
    if (ok) return check_blocks(p, k, err);
    return dl_fail(
        err, DL_INPUT,
        "kernel '%s' has a bad symbol, object, phase, preparation, entry, call, item, parameter, "
        "work or memory: something is out of range",
        k->name);
}

static bool check_object(const dl_plan *p, int i, dl_error *err) {
    const dl_plan_object *o = &p->objects.at[i];
    bool there = (o->image && o->bytes) || (p->late && o->late);
    return (o->source && there) || dl_fail(err, DL_INPUT, "object %d is empty", i);
}

/* An own workspace overlaps no variable, whose memory other programs and the host write. */
static bool check_own_workspace(const dl_plan *p, const dl_plan_launch *l, dl_error *err) {
    const dl_plan_kernel *k = &p->kernels.at[l->kernel];
    if (!l->own) return true;
    if (!k->prepares)
        return dl_fail(err, DL_INPUT, "kernel '%s' prepares nothing, and has its own workspace",
                       k->name);
    if (!check_place(p, "the own workspace of kernel", k->name, l->own, k->workspace, err))
        return false;
    for (int i = 0; i < p->vars.n; i++) {
        const dl_plan_var *v = &p->vars.at[i];
        if (v->offset < l->own + k->workspace && l->own < v->offset + dl_type_bytes(&v->type))
            return dl_fail(err, DL_INPUT, "the own workspace of kernel '%s' overlaps '%s'", k->name,
                           v->name);
    }
    return true;
}

static bool check_launch(const dl_plan *p, const dl_plan_program *g, int i, dl_error *err) {
    const dl_plan_launch *l = &g->launches.at[i];
    if (l->kernel < 0 || l->kernel >= p->kernels.n || l->nargs < 0 || (l->nargs && !l->args))
        return dl_fail(err, DL_INPUT, "launch %d of program '%s' runs no kernel", i, g->name);
    const dl_plan_kernel *k = &p->kernels.at[l->kernel];
    if (k->nargs != l->nargs)
        return dl_fail(err, DL_INPUT, "kernel '%s' takes %d arguments and is launched with %d",
                       k->name, k->nargs, l->nargs);
    for (int a = 0; a < l->nargs; a++)
        if (!check_place(p, "an argument of kernel", k->name, l->args[a], k->arg_bytes[a], err))
            return false;
    return check_own_workspace(p, l, err);
}

static bool check_collective(const dl_plan *p, const dl_plan_program *g, int i, dl_error *err) {
    const dl_plan_collective *c = &g->collectives.at[i];
    bool ok = (unsigned)c->op < DL_NOPS && dl_op_is_collective(c->op) && c->group && *c->group &&
              c->where && c->ranks >= 1 && (unsigned)c->dtype < DL_NDTYPES && c->own >= 0 &&
              c->own <= c->size && c->size <= most && c->come >= 0 && c->come <= c->size &&
              c->ring_step >= 0 && c->ring_step < c->ranks && c->outer >= 0 && c->inner >= 0;
    int64_t all = 0;
    ok = ok && !__builtin_mul_overflow(c->outer, c->inner, &all) &&
         !__builtin_mul_overflow(all, c->size, &all) && all <= most;
    ok = ok && (c->op != DL_OP_all_reduce || (c->outer == 1 && c->inner == 1 && c->own == c->size));
    ok = ok && c->members.n >= 1 && (c->members.n == 1 || c->op == DL_OP_all_reduce);
    for (int k = 0; ok && k < c->members.n; k++) {
        int64_t first = c->members.at[k].first;
        ok = c->members.at[k].of && first <= c->size &&
             (k ? first >= c->members.at[k - 1].first : !first);
    }
    if (!ok) return dl_fail(err, DL_INPUT, "collective %d of program '%s' is none", i, g->name);
    int64_t bytes = dl_dtype_bytes(c->dtype);
    return check_place(p, "what is read by a collective of program", g->name, c->from,
                       bytes * dl_plan_elements_from(c), err) &&
           check_place(p, "what is written by a collective of program", g->name, c->to,
                       bytes * dl_plan_elements_to(c), err);
}

/* Every launch occurs once, in order; every collective is started once, then waited for once. */
static bool check_steps(const dl_plan_program *g, dl_error *err) {
    int launches = 0, n = g->steps.n;
    if (!n && !g->collectives.n) return true;
    char *state = calloc((size_t)g->collectives.n + 1, 1);
    if (!state) return dl_fail(err, DL_RESOURCE, "no memory for %d collectives", g->collectives.n);
    bool ok = n == g->launches.n + 2 * g->collectives.n;
    for (int i = 0; ok && i < n; i++) {
        dl_plan_step s = g->steps.at[i];
        if (s.kind == DL_STEP_LAUNCH)
            ok = s.number == launches++;
        else
            ok = (s.kind == DL_STEP_START || s.kind == DL_STEP_WAIT) && s.number >= 0 &&
                 s.number < g->collectives.n && state[s.number]++ == (s.kind == DL_STEP_WAIT);
    }
    free(state);
    return ok || dl_fail(err, DL_INPUT,
                         "the steps of program '%s' are not its launches and collectives", g->name);
}

static bool check_result(const dl_plan *p, const dl_plan_program *g, int i, dl_error *err) {
    const dl_plan_result *r = &g->results.at[i];
    if (!check_name("result", i, r->name, err) || !check_type("result", r->name, &r->type, err))
        return false;
    bool of_var = r->role == DL_RESULT_GRAD || r->role == DL_RESULT_UPDATE;
    if ((unsigned)r->role >= DL_NRESULT_ROLES ||
        (of_var ? r->var < 0 || r->var >= p->vars.n : r->var != -1))
        return dl_fail(err, DL_INPUT, "result '%s' of program '%s' has an unknown role or variable",
                       r->name, g->name);
    return check_place(p, "result", r->name, r->offset, dl_type_bytes(&r->type), err);
}

static bool check_program(const dl_plan *p, int i, dl_error *err) {
    const dl_plan_program *g = &p->programs.at[i];
    if (!check_name("program", i, g->name, err)) return false;
    if (dl_plan_program_find(p, g->name) != g)
        return dl_fail(err, DL_INPUT, "there are two programs '%s'", g->name);
    for (int j = 0; j < g->launches.n; j++)
        if (!check_launch(p, g, j, err)) return false;
    for (int j = 0; j < g->collectives.n; j++)
        if (!check_collective(p, g, j, err)) return false;
    if (!check_steps(g, err)) return false;
    for (int j = 0; j < g->results.n; j++)
        if (!check_result(p, g, j, err)) return false;
    return true;
}

static bool are_whole(int n, const dl_plan_setting *settings) {
    bool ok = true;
    for (int i = 0; i < n; i++) ok = ok && settings[i].key && settings[i].is && settings[i].shown;
    return ok;
}

static bool check_origin(const dl_plan *p, dl_error *err) {
    const dl_plan_origin *o = &p->origin;
    bool none = !o->text && !o->program && !o->command && !o->path && !o->configuration;
    bool all = o->text && o->program && o->command && o->path && o->configuration;
    return ((none || all) && are_whole(o->settings.n, o->settings.at) &&
            are_whole(o->arguments.n, o->arguments.at)) ||
           dl_fail(err, DL_INPUT, "a part of the plan's origin is not there");
}

static bool check_one(const dl_plan *p, dl_error *err) {
    if (!p->model || !p->target)
        return dl_fail(err, DL_INPUT, "the plan names no model or no target");
    if (!check_size("the batch", p->batch, err) ||
        !check_size("the arena's size", p->arena_bytes, err) ||
        !check_size("the workspace's size", p->workspace_bytes, err) ||
        !check_size("the size of a thread's scratch", p->scratch_bytes, err))
        return false;
    if (!check_origin(p, err)) return false;
    for (int i = 0; i < p->vars.n; i++)
        if (!check_var(p, i, err)) return false;
    for (int i = 0; i < p->kernels.n; i++)
        if (!check_kernel(p, i, err)) return false;
    for (int i = 0; i < p->objects.n; i++)
        if (!check_object(p, i, err)) return false;
    if (!check_vars_together(p, err)) return false;
    for (int i = 0; i < p->programs.n; i++)
        if (!check_program(p, i, err)) return false;
    return true;
}

static bool check_prediction(const dl_plan *p, int i, dl_error *err) {
    const dl_plan *q = p->predictions.at[i];
    if (!check_one(q, err)) return false;
    if (q->predictions.n || strcmp(q->target, p->target) != 0 ||
        !dl_plan_program_find(q, "predict"))
        return dl_fail(err, DL_INPUT, "the plan's prediction is none, or of another target");
    return i == 0 || p->predictions.at[i - 1]->batch < q->batch ||
           dl_fail(err, DL_INPUT, "the plan's predictions are out of order");
}

bool dl_plan_check(const dl_plan *p, dl_error *err) {
    if (!check_one(p, err)) return false;
    if (p->predictions.n < 0 || p->predictions.n > DL_MAX_PREDICTIONS)
        return dl_fail(err, DL_INPUT, "the plan has %d predictions", p->predictions.n);
    for (int i = 0; i < p->predictions.n; i++)
        if (!check_prediction(p, i, err)) return false;
    return true;
}

dl_plan *dl_plan_prediction(const dl_plan *p, int64_t batch) {
    dl_plan *found = NULL;
    for (int i = 0; i < p->predictions.n; i++)
        if (p->predictions.at[i]->batch <= batch) found = p->predictions.at[i];
    return found;
}

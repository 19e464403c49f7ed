/* Without a minimum of CTAs per SM in __launch_bounds__, ptxas guesses an occupancy, and
 * sometimes spills to reach it; with the same number as an explicit bound it may not. Where
 * registers are truly too few, fewer CTAs leave more for each. */
#include "compiler/cuda/limits.h"

#include <stdlib.h>

#include "compiler/cuda/cuda.h"
#include "ir/plan/cubin.h"

enum {
    GRANTED = 8 /* allocation unit of registers, per thread */
};

/* A kernel of a source, and the results for its limits. */
typedef struct {
    const char *name;
    const char *at, *end; /* of its bounds in the source */
    int threads, resident /* CTAs; 0: no bound */;
    int least, best; /* fewest spilled bytes so far, and their number of CTAs */
} kernel;

typedef struct {
    dl_arena *arena;
    const char *source;
    const dl_target *target;
    DL_ARRAY(kernel) kernels;
} limits;

static void find_kernels(limits *l) {
    const char *at = l->source;
    while ((at = strstr(at, DL_CUDA_HEAD))) {
        char *after;
        kernel k = {.at = at += strlen(DL_CUDA_HEAD)};
        k.threads = (int)strtol(at, &after, 10);
        if (*after == ',') k.resident = (int)strtol(after + 1, &after, 10);
        if (after == at || after[0] != ')' || after[1] != ' ' || k.threads < 1) continue;
        k.end = after, at = after + 2;
        k.name = dl_strndup(l->arena, at, strcspn(at, "("));
        k.best = k.resident;
        dl_push(l->arena, &l->kernels, k);
    }
}

/* The source with each kernel's present bounds. */
static void put_source(dl_buf *out, const limits *l) {
    const char *from = l->source;
    for (int i = 0; i < l->kernels.n; i++) {
        const kernel *k = &l->kernels.at[i];
        dl_putn(out, from, (size_t)(k->at - from));
        dl_putf(out, "%d", k->threads);
        if (k->resident) dl_putf(out, ", %d", k->resident);
        from = k->end;
    }
    dl_puts(out, from);
}

/* The next bound for a kernel that spills with `registers`; 0: there is no more to try. */
static int next_resident(const limits *l, const kernel *k, int registers) {
    int granted = (registers + GRANTED - 1) / GRANTED * GRANTED,
        fit = l->target->registers / (granted * k->threads);
    return k->resident ? k->resident / 2 : fit ? fit : 1;
}

/* Records the compiled kernels' spills, and sets the bounds of those that spill. False: none is
 * left to try. */
static bool set_next(limits *l, const dl_buf *image, bool *known) {
    dl_cubin cubin;
    dl_error damaged = {0}; /* the caller finds it, too */
    bool any = false;
    if (!dl_cubin_read(l->arena, image->at, image->n, &cubin, &damaged)) return false;
    for (int i = 0; i < l->kernels.n; i++) {
        kernel *k = &l->kernels.at[i];
        const dl_cubin_kernel *found = dl_cubin_find(&cubin, k->name);
        int bytes = found ? found->spill_stores + found->spill_loads : 0, next;
        if (!*known || bytes < k->least) k->least = bytes, k->best = k->resident;
        if (!bytes || !(next = next_resident(l, k, found->registers))) continue;
        k->resident = next, any = true;
    }
    *known = true;
    return any;
}

static bool set_best(limits *l) {
    bool changed = false;
    for (int i = 0; i < l->kernels.n; i++) {
        kernel *k = &l->kernels.at[i];
        changed |= k->resident != k->best;
        k->resident = k->best;
    }
    return changed;
}

static bool recompile(const dl_nvrtc *n, const limits *l, dl_buf *cubin, dl_buf *log,
                      dl_error *err) {
    dl_buf text = {0};
    put_source(&text, l);
    cubin->n = 0;
    bool ok = dl_nvrtc_compile(n, text.at, l->target->arch, cubin, log, err);
    dl_buf_free(&text);
    return ok;
}

bool dl_cuda_compile(const dl_nvrtc *n, const char *source, const dl_target *t, dl_buf *cubin,
                     dl_buf *log, dl_error *err) {
    limits l = {.arena = dl_arena_new(NULL), .source = source, .target = t};
    bool known = false, ok = dl_nvrtc_compile(n, source, t->arch, cubin, log, err);
    if (ok) find_kernels(&l);
    while (ok && set_next(&l, cubin, &known)) ok = recompile(n, &l, cubin, log, err);
    if (ok && set_best(&l)) ok = recompile(n, &l, cubin, log, err);
    dl_arena_free(l.arena);
    return ok;
}

#include "runtime/device/guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLACE = 256 /* the alignment of parts */ };

/* ---- layout of the guarded memory ---- */

static int by_offset(const void *a, const void *b) {
    const dlr_guard_part *x = a, *y = b;
    if (x->offset != y->offset) return (x->offset > y->offset) - (x->offset < y->offset);
    return (x->arg > y->arg) - (x->arg < y->arg);
}

static bool stores(const dl_plan_kernel *k, int arg) {
    for (int i = 0; i < k->stores.n; i++)
        if (k->stores.at[i].arg == arg) return true;
    return k->stores.n == 0; /* without a list of stores, every argument may be written */
}

/* Arguments that overlap become one part. */
static int join(dlr_guard_part *parts, int n) {
    int kept = 0;
    for (int i = 0; i < n; i++) {
        dlr_guard_part *last = kept ? &parts[kept - 1] : NULL, *p = &parts[i];
        if (!last || p->offset >= last->offset + last->bytes) {
            parts[kept++] = *p;
            continue;
        }
        int64_t end = p->offset + p->bytes;
        if (end > last->offset + last->bytes) last->bytes = end - last->offset;
        last->written |= p->written;
    }
    return kept;
}

static int64_t place_parts(dlr_guard *g) {
    int64_t at = 0;
    for (int i = 0; i < g->n; i++) {
        at = (at + DLR_GUARD_BAND + PLACE - 1) & -(int64_t)PLACE;
        g->parts[i].place = at;
        at += g->parts[i].bytes;
    }
    return (at + DLR_GUARD_BAND + PLACE - 1) & -(int64_t)PLACE;
}

dlr_guard dlr_guard_of(dl_arena *arena, const dl_plan *plan, const dl_plan_launch *l) {
    const dl_plan_kernel *k = &plan->kernels.at[l->kernel];
    dlr_guard g = {.plan = plan,
                   .kernel = k,
                   .parts = DL_NEWS(arena, dlr_guard_part, l->nargs + 1),
                   .places = DL_NEWS(arena, int64_t, l->nargs + 1)};
    for (int a = 0; a < l->nargs; a++)
        g.parts[a] = (dlr_guard_part){
            .offset = l->args[a], .bytes = k->arg_bytes[a], .arg = a, .written = stores(k, a)};
    qsort(g.parts, (size_t)l->nargs, sizeof *g.parts, by_offset);
    g.n = join(g.parts, l->nargs);
    g.parts[g.n++] =
        (dlr_guard_part){.offset = -1, .bytes = k->workspace, .arg = l->nargs, .written = true};
    g.bytes = place_parts(&g);
    for (int a = 0; a < l->nargs; a++)
        for (int i = 0; i < g.n - 1; i++) {
            const dlr_guard_part *p = &g.parts[i];
            bool inside =
                l->args[a] >= p->offset && l->args[a] + k->arg_bytes[a] <= p->offset + p->bytes;
            if (inside) g.places[a] = p->place + (l->args[a] - p->offset);
        }
    g.places[l->nargs] = g.parts[g.n - 1].place;
    return g;
}

int64_t dlr_guard_most(const dl_plan *plan) {
    int64_t most = 0;
    dl_arena *arena = dl_arena_new(NULL);
    for (int i = 0; i < plan->programs.n; i++)
        for (int j = 0; j < plan->programs.at[i].launches.n; j++) {
            int64_t bytes = dlr_guard_of(arena, plan, &plan->programs.at[i].launches.at[j]).bytes;
            if (bytes > most) most = bytes;
        }
    dl_arena_free(arena);
    return most;
}

void dlr_guard_canary(const dlr_guard *g, int i, int64_t *from, int64_t *to) {
    *from = i ? g->parts[i - 1].place + g->parts[i - 1].bytes : 0;
    *to = i < g->n ? g->parts[i].place : g->bytes;
}

static const unsigned char pattern[2] = {0xa5, 0xff};

void dlr_guard_fill(void *to, int64_t bytes) {
    unsigned char *at = to;
    int64_t done = bytes < 2 ? bytes : 2;
    memcpy(at, pattern, (size_t)done);
    for (; done && done < bytes; done *= 2)
        memcpy(at + done, at, (size_t)(bytes - done < done ? bytes - done : done));
}

int64_t dlr_guard_differs(const void *canary, int64_t bytes) {
    const unsigned char *at = canary;
    if (bytes > 2 && memcmp(at, pattern, 2) == 0 && memcmp(at, at + 2, (size_t)bytes - 2) == 0)
        return -1;
    for (int64_t i = 0; i < bytes; i++)
        if (at[i] != pattern[i % 2]) return i;
    return -1;
}

/* ---- reports ---- */

static const char *variable_at(const dl_plan *p, int64_t offset) {
    for (int i = 0; i < p->vars.n; i++)
        if (p->vars.at[i].offset == offset && dl_type_bytes(&p->vars.at[i].type) > 0)
            return p->vars.at[i].name;
    return NULL;
}

static void put_part(dl_buf *b, const dlr_guard *g, const dlr_guard_part *p, int64_t at) {
    const dl_plan_store *stored = NULL;
    for (int i = 0; i < g->kernel->stores.n; i++)
        if (g->kernel->stores.at[i].arg == p->arg) stored = &g->kernel->stores.at[i];
    const char *variable = p->offset < 0 || stored ? NULL : variable_at(g->plan, p->offset);
    dl_putf(b, "byte %lld of ", (long long)at);
    if (p->offset < 0)
        dl_puts(b, "its workspace");
    else
        dl_putf(b, "argument %d", p->arg);
    if (variable) dl_putf(b, ", '%s'", variable);
    if (stored) dl_putf(b, ", what '%s' stores (%s)", stored->op, stored->where);
    dl_putf(b, ", of %lld bytes", (long long)p->bytes);
}

static void put_kernel(dl_buf *b, const dlr_guard *g) {
    const char *where = g->kernel->where;
    dl_putf(b, "kernel '%s'%s%s%s wrote ", g->kernel->name, *where ? " (" : "", where,
            *where ? ")" : "");
}

static void give(dl_buf *b, char *text, size_t size) {
    snprintf(text, size, "%s", b->at);
    dl_buf_free(b);
}

void dlr_guard_say_canary(const dlr_guard *g, int i, int64_t at, char *text, size_t size) {
    int64_t from, to;
    dl_buf b = {0};
    dlr_guard_canary(g, i, &from, &to);
    bool after = i == g->n || (i > 0 && at <= to - from - at);
    const dlr_guard_part *p = &g->parts[after ? i - 1 : i];
    put_kernel(&b, g);
    dl_puts(&b, "outside of its arguments, first at ");
    put_part(&b, g, p, from + at - p->place);
    give(&b, text, size);
}

void dlr_guard_say_scratch(const dlr_guard *g, int64_t at, char *text, size_t size) {
    dl_buf b = {0};
    put_kernel(&b, g);
    dl_putf(&b, "outside of its scratch, first at byte %lld, of %lld bytes", (long long)at,
            (long long)g->kernel->scratch);
    give(&b, text, size);
}

void dlr_guard_say_input(const dlr_guard *g, int part, int64_t at, char *text, size_t size) {
    dl_buf b = {0};
    put_kernel(&b, g);
    dl_puts(&b, "what it may only read, first at ");
    put_part(&b, g, &g->parts[part], at);
    give(&b, text, size);
}

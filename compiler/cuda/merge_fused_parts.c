/* Function merging of horizontally fused parts (emit_fused_parts.c). Parts that are equal except
 * for numbers are one kind, in whichever kernels they are, and all kinds that occur together in
 * kernels are one function. A CTA finds its part, and with it the kind, its numbers and its
 * pointers, in a table that the launch passes.
 *
 * The table's numbers: the number of parts; a word for each (kernels/loops.cu: fused_part_of);
 * then each part's own. Its pointers: each part's. */
#include <string.h>

#include "compiler/cuda/merge.h"

typedef struct {
    dl_merged *first;
    dl_hoisted *hoisted;
    int numbers; /* of each part, those that differ */
    int group;   /* another kind of its function, in the end the first (union-find) */
} kind;

typedef struct {
    dl_arena *arena;
    dl_piece *kernels;
    int *numbers; /* by kernel: numbers that its table has so far, with all its parts */
    int nkinds;
    kind *kinds;
    dl_plan_entry *entries; /* by kernel: the launch's arguments, while they are filled in */
    int *filled;            /* by kernel: parts */
    int64_t *items;         /* and their CTAs */
} merger;

static int pointers_of(const dl_merged *p) { return p->s.args.n; }

/* Enlarges kernels' tables to `more` numbers of the kind's parts. False: one has no room. */
static bool grow(merger *f, const kind *k, int more) {
    bool ok = true;
    for (const dl_merged *p = k->first; p; p = p->next)
        ok &= (f->numbers[p->kernel] += more) <= DL_TABLE_NUMBERS;
    return ok;
}

/* Does p fit with the parts of the kind? Then it joins them. */
static bool joins(merger *f, kind *k, dl_merged *p) {
    dl_merged *last = k->first->last;
    dl_hoisted *hoisted;
    if (!dl_merge_equal(k->first, p)) return false;
    last->next = p, k->first->last = p;
    int numbers = dl_merge_arguments(f->arena, k->first, &hoisted), more = numbers - k->numbers;
    f->numbers[p->kernel] += k->numbers;
    if (grow(f, k, more)) {
        k->hoisted = hoisted, k->numbers = numbers;
        return true;
    }
    grow(f, k, -more);
    f->numbers[p->kernel] -= k->numbers;
    last->next = NULL, k->first->last = last;
    return false;
}

static void add_part(merger *f, dl_merged *p) {
    int i = 0;
    while (i < f->nkinds && !joins(f, &f->kinds[i], p)) i++;
    p->number = i;
    if (i < f->nkinds) return;
    p->last = p, p->epilogues = 1;
    kind *k = &f->kinds[f->nkinds++];
    *k = (kind){.first = p, .group = i};
    dl_merge_arguments(f->arena, p, &k->hoisted);
}

/* ---- kinds that form one function ---- */

static int group_of(const merger *f, int i) {
    while (f->kinds[i].group != i) i = f->kinds[i].group;
    return i;
}

static void find_groups(merger *f, int n, dl_merged *const *fused_parts) {
    for (int i = 1; i < n; i++) {
        int a = group_of(f, fused_parts[i - 1]->number), b = group_of(f, fused_parts[i]->number);
        if (fused_parts[i - 1]->kernel == fused_parts[i]->kernel)
            f->kinds[a < b ? b : a].group = a < b ? a : b;
    }
    for (int i = 0; i < f->nkinds; i++) f->kinds[i].group = group_of(f, i);
}

/* The kind's index in its function. */
static int rank_of(const merger *f, int i) {
    int rank = 0;
    for (int j = 0; j < i; j++) rank += f->kinds[j].group == f->kinds[i].group;
    return rank;
}

/* ---- launch arguments ---- */

static void begin_entry(merger *f, int kernel) {
    int fused_parts = f->kernels[kernel].code.fused_parts;
    dl_push(f->arena, &f->entries[kernel].numbers, fused_parts);
    for (int i = 0; i < fused_parts; i++) dl_push(f->arena, &f->entries[kernel].numbers, 0);
}

/* The word, as fused_part_of reads it, and what it points at. */
static void add_to_entry(merger *f, const dl_merged *p) {
    enum { KIND = 32, NUMBERS = 44, POINTERS = 53, MOST_KINDS = 1 << (NUMBERS - KIND) };
    _Static_assert(DL_TABLE_NUMBERS < 1 << (POINTERS - NUMBERS) &&
                       DL_TABLE_POINTERS < 1 << (63 - POINTERS),
                   "places have their bits");
    const kind *k = &f->kinds[p->number];
    dl_plan_entry *e = &f->entries[p->kernel];
    int64_t *values = DL_NEWS(f->arena, int64_t, k->numbers + 1), which = rank_of(f, p->number);
    if (!e->numbers.n) begin_entry(f, p->kernel);
    DL_CHECK(which < MOST_KINDS);
    int fused_part = f->filled[p->kernel]++;
    e->numbers.at[1 + fused_part] = (int64_t)e->args.n << POINTERS |
                                    (int64_t)e->numbers.n << NUMBERS | which << KIND |
                                    f->items[p->kernel];
    f->items[p->kernel] += f->kernels[p->kernel].code.part_items[fused_part];
    for (int i = 0; i < p->s.parameters.n; i++)
        dl_merge_put_numbers(values, &k->hoisted[i], &p->s.parameters.at[i]);
    for (int i = 0; i < k->numbers; i++) dl_push(f->arena, &e->numbers, values[i]);
    for (int i = 0; i < pointers_of(p); i++) dl_push(f->arena, &e->args, p->s.args.at[i]);
}

/* ---- functions ---- */

static void put_kind(dl_buf *out, const kind *k, const char *name) {
    const dl_merged *p = k->first;
    dl_putf(out, "INLINE void %s(", name);
    for (int i = 0; i < pointers_of(p); i++) dl_merge_put_param(out, p, i, i);
    for (int i = 0; i < k->numbers; i++) dl_putf(out, "long number%d, ", i);
    dl_puts(out, "int block) {\n");
    dl_merge_put_text(out, p, k->hoisted, name, 0, strlen(p->s.text), 0, 0);
}

static void put_case(dl_buf *out, const kind *k, const char *name, int number) {
    const dl_merged *p = k->first;
    dl_putf(out, "    case %d:\n    %s(", number, name);
    for (int i = 0; i < pointers_of(p); i++)
        dl_putf(out, "(%s)table.pointer[own.pointers + %d], ", dl_merge_param(p, i).type, i);
    for (int i = 0; i < k->numbers; i++) dl_putf(out, "table.number[own.numbers + %d], ", i);
    dl_puts(out, "own.block);\n    break;\n");
}

/* The function of a group of kinds. */
static void put_function(const merger *f, dl_buf *out, int group, const char *symbol, int numbers,
                         int pointers) {
    dl_buf kinds = {0}, cases = {0};
    for (int i = group, number = 0; i < f->nkinds; i++) {
        const kind *k = &f->kinds[i];
        if (k->group != group) continue;
        const char *name = dl_format(f->arena, "%s_part%d", symbol, number);
        put_kind(&kinds, k, name), put_case(&cases, k, name, number++);
    }
    dl_putn(out, kinds.at, kinds.n);
    dl_putf(out, "%s%s) %s(KD_TABLE(%d, %d, table)) {\n", DL_CUDA_HEAD,
            f->kinds[group].first->text->bounds, symbol, numbers, pointers);
    dl_puts(
        out,
        "    const fused_part own = fused_part_of(table, kd_block());\n    switch (own.kind) {\n");
    dl_putn(out, cases.at, cases.n);
    dl_puts(out, "    }\n}\n");
    dl_buf_free(&kinds), dl_buf_free(&cases);
}

/* The group's function as piece number `made`, and the entries of its kernels. */
static void add_function(merger *f, int group, int n, dl_merged *const *fused_parts, dl_piece *to,
                         int made) {
    const dl_piece *of = &f->kernels[f->kinds[group].first->kernel];
    const char *symbol = dl_format(f->arena, "%s_0", of->name);
    int numbers = 0, pointers = 0;
    *to = (dl_piece){.name = of->name};
    memcpy(to->code.needs, of->code.needs, sizeof to->code.needs);
    for (int i = 0; i < f->nkinds; i++) to->code.phases += f->kinds[i].group == group;
    dl_puts(&to->text, "\n");
    for (int i = 0; i < n; i++) {
        const dl_plan_entry *e = &f->entries[fused_parts[i]->kernel];
        if (f->kinds[fused_parts[i]->number].group != group) continue;
        if (i == 0 || fused_parts[i - 1]->kernel != fused_parts[i]->kernel)
            dl_puts(&to->text, fused_parts[i]->text->title);
        if (e->numbers.n > numbers) numbers = e->numbers.n;
        if (e->args.n > pointers) pointers = e->args.n;
    }
    for (int i = 0; i < n; i++) {
        dl_plan_entry *e = &f->entries[fused_parts[i]->kernel];
        if (f->kinds[fused_parts[i]->number].group != group) continue;
        e->symbol = symbol, e->object = made, e->table.numbers = numbers,
        e->table.pointers = pointers;
        f->kernels[fused_parts[i]->kernel].entries.at[0] = *e;
    }
    put_function(f, &to->text, group, symbol, numbers, pointers);
}

int dl_merge_fused_parts(dl_arena *arena, int n, dl_piece *kernels, int nparts,
                         dl_merged *const *fused_parts, dl_piece *to, int made) {
    merger f = {.arena = arena,
                .kernels = kernels,
                .numbers = DL_NEWS(arena, int, n + 1),
                .kinds = DL_NEWS(arena, kind, nparts + 1),
                .entries = DL_NEWS(arena, dl_plan_entry, n + 1),
                .filled = DL_NEWS(arena, int, n + 1),
                .items = DL_NEWS(arena, int64_t, n + 1)};
    int functions = 0;
    for (int i = 0; i < n; i++) f.numbers[i] = 1 + kernels[i].code.fused_parts;
    for (int i = 0; i < nparts; i++) add_part(&f, fused_parts[i]);
    find_groups(&f, nparts, fused_parts);
    for (int i = 0; i < nparts; i++) add_to_entry(&f, fused_parts[i]);
    for (int i = 0; i < f.nkinds; i++) {
        if (f.kinds[i].group != i) continue;
        add_function(&f, i, nparts, fused_parts, to + functions, made + functions);
        functions++;
    }
    return functions;
}

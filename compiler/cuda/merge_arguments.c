/* Functions that several phases share: numbers in which these differ become arguments of the
 * text (merge.h). */
#include <stdlib.h>
#include <string.h>

#include "compiler/cuda/merge.h"

dl_pointer dl_merge_param(const dl_merged *p, int arg) {
    return p->text->params.at[p->s.args.at[arg]];
}

void dl_merge_put_param(dl_buf *out, const dl_merged *p, int arg, int number) {
    dl_pointer of = dl_merge_param(p, arg);
    dl_putf(out, "%s%sp%d, ", of.type, of.qualifier, number);
}

bool dl_merge_equal(const dl_merged *a, const dl_merged *b) {
    return a->hash == b->hash && a->s.epilogue_start == b->s.epilogue_start &&
           memcmp(a->s.text, b->s.text, a->s.epilogue_start) == 0 &&
           strcmp(a->signature, b->signature) == 0;
}

/* ---- numbers as arguments ---- */

const dl_merged *dl_merge_at_epilogue(const dl_merged *p, int end) {
    while (p && end != DL_ALL_EPILOGUES && p->epilogue != end) p = p->next;
    return p;
}

/* Among a function's phases with this epilogue: */
static bool varies(const dl_merged *p, int parameter, int end) {
    for (const dl_merged *q = p = dl_merge_at_epilogue(p, end); q;
         q = dl_merge_at_epilogue(q->next, end))
        if (q->s.parameters.at[parameter].value != p->s.parameters.at[parameter].value) return true;
    return false;
}

/* Powers of two become general divisors where the phases have both. */
static dl_template_kind kind_for_all(const dl_merged *p, int parameter, int end) {
    dl_template_kind kind = dl_merge_at_epilogue(p, end)->s.parameters.at[parameter].kind;
    for (p = dl_merge_at_epilogue(p, end); p; p = dl_merge_at_epilogue(p->next, end))
        if (p->s.parameters.at[parameter].kind == DL_TEMPLATE_DIVISOR) kind = DL_TEMPLATE_DIVISOR;
    return kind;
}

static bool vary_alike(const dl_merged *p, int a, int b, int end) {
    for (p = dl_merge_at_epilogue(p, end); p; p = dl_merge_at_epilogue(p->next, end))
        if (p->s.parameters.at[a].value != p->s.parameters.at[b].value) return false;
    return true;
}

/* The hoisted numbers of parameters [from, to), after *n arguments. */
static void add_hoisted(const dl_merged *p, int from, int to, int end, dl_hoisted *hoisted,
                        int *n) {
    for (int i = from; i < to; i++) {
        hoisted[i] = (dl_hoisted){-1, -1, kind_for_all(p, i, end)};
        if (!varies(p, i, end)) continue;
        for (int j = 0; j < i && hoisted[i].argument < 0; j++)
            if (hoisted[j].argument >= 0 && hoisted[j].kind == hoisted[i].kind &&
                vary_alike(p, i, j, end))
                hoisted[i] = hoisted[j];
        if (hoisted[i].argument >= 0) continue;
        hoisted[i].argument = (*n)++;
        if (hoisted[i].kind == DL_TEMPLATE_DIVISOR) hoisted[i].second = (*n)++;
    }
}

int dl_merge_arguments(dl_arena *arena, const dl_merged *p, dl_hoisted **hoisted) {
    int epilogue_start = p->s.epilogue_parameter, common = 0, most;
    dl_hoisted *first = DL_NEWS(arena, dl_hoisted, epilogue_start + 1);
    add_hoisted(p, 0, epilogue_start, DL_ALL_EPILOGUES, first, &common);
    most = common;
    for (int i = 0; i < p->epilogues; i++) {
        int n = common, parameters = dl_merge_at_epilogue(p, i)->s.parameters.n;
        hoisted[i] = DL_NEWS(arena, dl_hoisted, parameters + 1);
        if (epilogue_start) memcpy(hoisted[i], first, (size_t)epilogue_start * sizeof *first);
        add_hoisted(p, epilogue_start, parameters, i, hoisted[i], &n);
        if (n > most) most = n;
    }
    return most;
}

/* 2^l is d rounded up to a power of two, m is 2^(31 + l) / d rounded up (Granlund and
 * Montgomery, PLDI 1994, theorem 4.2). */
void dl_cuda_divisor(int64_t d, int64_t number[2]) {
    uint64_t m, of = (uint64_t)d;
    int l = 0;
    while ((uint64_t)1 << l < of) l++;
    m = (((uint64_t)1 << (31 + l)) + of - 1) / of;
    number[0] = (int64_t)(m << 32 | of), number[1] = 31 + l;
}

void dl_merge_put_numbers(int64_t *to, const dl_hoisted *s, const dl_template_parameter *h) {
    int64_t divisor[2];
    int l = 0;
    if (s->argument < 0) return;
    switch (s->kind) {
    case DL_TEMPLATE_SHIFT:
        while (h->value >> l > 1) l++;
        to[s->argument] = (h->value - 1) << 32 | l;
        return;
    case DL_TEMPLATE_DIVISOR:
        dl_cuda_divisor(h->value, divisor);
        to[s->argument] = divisor[0], to[s->second] = divisor[1];
        return;
    default: to[s->argument] = h->value;
    }
}

/* ---- text ---- */

static void put_parameter(dl_buf *out, const dl_hoisted *s, const dl_template_parameter *h) {
    int n = s->argument;
    if (n < 0) {
        dl_puts(out, h->spelled);
        return;
    }
    switch (s->kind) {
    case DL_TEMPLATE_INT: dl_putf(out, "((int)number%d)", n); return;
    case DL_TEMPLATE_UNSIGNED: dl_putf(out, "((unsigned)number%d)", n); return;
    case DL_TEMPLATE_LONG: dl_putf(out, "number%d", n); return;
    case DL_TEMPLATE_UNSIGNED_LONG: dl_putf(out, "((unsigned long)number%d)", n); return;
    case DL_TEMPLATE_FLOAT: dl_putf(out, "__int_as_float((int)number%d)", n); return;
    case DL_TEMPLATE_SHIFT: dl_putf(out, "kd_shift(number%d)", n); return;
    case DL_TEMPLATE_DIVISOR: dl_putf(out, "kd_divisor(number%d, number%d)", n, s->second);
    }
}

/* `before`, then each number that structs use, then `after`. */
static void put_members(dl_buf *out, const dl_merged *p, const dl_hoisted *hoisted,
                        const char *before, const char *middle, const char *after) {
    for (int i = 0; i < p->s.struct_parameters; i++)
        for (int second = 0; second < 2; second++) {
            int number = second ? hoisted[i].second : hoisted[i].argument;
            bool again = number < 0;
            for (int j = 0; j < i; j++) again |= hoisted[j].argument == hoisted[i].argument;
            if (again) continue;
            dl_putf(out, "%snumber%d", before, number);
            if (middle) dl_putf(out, "%snumber%d", middle, number);
            dl_puts(out, after);
        }
}

void dl_merge_put_text(dl_buf *out, const dl_merged *p, const dl_hoisted *hoisted,
                       const char *symbol, size_t from, size_t to, int parameter, int skipped) {
    const char *end = p->s.text + to;
    for (const char *at = p->s.text + from; at < end;) {
        size_t n = strcspn(at, DL_HOLES);
        if (n > (size_t)(end - at)) n = (size_t)(end - at);
        dl_putn(out, at, n);
        if ((at += n) == end) return;
        char hole = *at++, *after;
        long number;
        switch (hole) {
        case DL_HOLE_NUMBER:
            put_parameter(out, &hoisted[parameter], &p->s.parameters.at[parameter]);
            parameter++, at++;
            break;
        case DL_HOLE_PARAM:
            number = strtol(at + 1, &after, 10), at = after;
            dl_putf(out, "p%ld", number < p->s.epilogue_args ? number : number + skipped);
            break;
        case DL_HOLE_MEMBERS: put_members(out, p, hoisted, "    long ", NULL, ";\n"); break;
        case DL_HOLE_VALUES: put_members(out, p, hoisted, "    u.", " = ", ";\n"); break;
        default: dl_puts(out, symbol);
        }
    }
}

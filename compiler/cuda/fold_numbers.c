/* Functions that several phases share: numbers in which these differ become arguments of the
 * text (fold.h). */
#include <stdlib.h>
#include <string.h>

#include "compiler/cuda/fold.h"

const char *dl_fold_type(dl_arena *arena, const dl_phase *p, int arg) {
    const char *param = p->params.at[p->s.args.at[arg]], *name = strrchr(param, 'p');
    return dl_strndup(arena, param, (size_t)(name - param));
}

bool dl_fold_same(const dl_phase *a, const dl_phase *b) {
    return a->hash == b->hash && a->s.cut == b->s.cut &&
           memcmp(a->s.text, b->s.text, a->s.cut) == 0 && strcmp(a->signature, b->signature) == 0;
}

/* ---- numbers as arguments ---- */

const dl_phase *dl_fold_at_end(const dl_phase *p, int end) {
    while (p && end != DL_ALL_ENDS && p->end != end) p = p->next;
    return p;
}

/* Among a function's phases with this epilogue: */
static bool varies(const dl_phase *p, int hole, int end) {
    for (const dl_phase *q = p = dl_fold_at_end(p, end); q; q = dl_fold_at_end(q->next, end))
        if (q->s.holes.at[hole].value != p->s.holes.at[hole].value) return true;
    return false;
}

/* Powers of two become general divisors where the phases have both. */
static dl_hole_kind kind_for_all(const dl_phase *p, int hole, int end) {
    dl_hole_kind kind = dl_fold_at_end(p, end)->s.holes.at[hole].kind;
    for (p = dl_fold_at_end(p, end); p; p = dl_fold_at_end(p->next, end))
        if (p->s.holes.at[hole].kind == DL_HOLE_DIVISOR) kind = DL_HOLE_DIVISOR;
    return kind;
}

static bool vary_alike(const dl_phase *p, int a, int b, int end) {
    for (p = dl_fold_at_end(p, end); p; p = dl_fold_at_end(p->next, end))
        if (p->s.holes.at[a].value != p->s.holes.at[b].value) return false;
    return true;
}

/* The slots of holes [from, to), after *n arguments. */
static void add_slots(const dl_phase *p, int from, int to, int end, dl_slot *slots, int *n) {
    for (int i = from; i < to; i++) {
        slots[i] = (dl_slot){-1, -1, kind_for_all(p, i, end)};
        if (!varies(p, i, end)) continue;
        for (int j = 0; j < i && slots[i].lifted < 0; j++)
            if (slots[j].lifted >= 0 && slots[j].kind == slots[i].kind && vary_alike(p, i, j, end))
                slots[i] = slots[j];
        if (slots[i].lifted >= 0) continue;
        slots[i].lifted = (*n)++;
        if (slots[i].kind == DL_HOLE_DIVISOR) slots[i].second = (*n)++;
    }
}

int dl_fold_slots(dl_arena *arena, const dl_phase *p, dl_slot **slots) {
    int cut = p->s.cut_holes, common = 0, most;
    dl_slot *first = DL_NEWS(arena, dl_slot, cut + 1);
    add_slots(p, 0, cut, DL_ALL_ENDS, first, &common);
    most = common;
    for (int i = 0; i < p->ends; i++) {
        int n = common, holes = dl_fold_at_end(p, i)->s.holes.n;
        slots[i] = DL_NEWS(arena, dl_slot, holes + 1);
        if (cut) memcpy(slots[i], first, (size_t)cut * sizeof *first);
        add_slots(p, cut, holes, i, slots[i], &n);
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

void dl_fold_put_numbers(int64_t *to, const dl_slot *s, const dl_hole *h) {
    int64_t divisor[2];
    int l = 0;
    if (s->lifted < 0) return;
    switch (s->kind) {
    case DL_HOLE_SHIFT:
        while (h->value >> l > 1) l++;
        to[s->lifted] = (h->value - 1) << 32 | l;
        return;
    case DL_HOLE_DIVISOR:
        dl_cuda_divisor(h->value, divisor);
        to[s->lifted] = divisor[0], to[s->second] = divisor[1];
        return;
    default: to[s->lifted] = h->value;
    }
}

/* ---- text ---- */

static void put_hole(dl_buf *out, const dl_slot *s, const dl_hole *h) {
    static const struct {
        dl_hole_kind kind;
        const char *text;
    } forms[] = {{DL_HOLE_INT, "((int)number%d)"},
                 {DL_HOLE_UNSIGNED, "((unsigned)number%d)"},
                 {DL_HOLE_LONG, "number%d"},
                 {DL_HOLE_UNSIGNED_LONG, "((unsigned long)number%d)"},
                 {DL_HOLE_FLOAT, "__int_as_float((int)number%d)"},
                 {DL_HOLE_SHIFT, "kd_shift(number%d)"}};
    if (s->lifted < 0) {
        dl_puts(out, h->spelled);
        return;
    }
    if (s->kind == DL_HOLE_DIVISOR)
        dl_putf(out, "kd_divisor(number%d, number%d)", s->lifted, s->second);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (forms[i].kind == s->kind) {
            const char *at = strstr(forms[i].text, "%d");
            dl_putn(out, forms[i].text, (size_t)(at - forms[i].text));
            dl_putf(out, "%d%s", s->lifted, at + 2);
        }
}

/* `before`, then each number that structs use, then `after`. */
static void put_members(dl_buf *out, const dl_phase *p, const dl_slot *slots, const char *before,
                        const char *middle, const char *after) {
    for (int i = 0; i < p->s.struct_holes; i++)
        for (int second = 0; second < 2; second++) {
            int number = second ? slots[i].second : slots[i].lifted;
            bool again = number < 0;
            for (int j = 0; j < i; j++) again |= slots[j].lifted == slots[i].lifted;
            if (again) continue;
            dl_putf(out, "%snumber%d", before, number);
            if (middle) dl_putf(out, "%snumber%d", middle, number);
            dl_puts(out, after);
        }
}

void dl_fold_put_text(dl_buf *out, const dl_phase *p, const dl_slot *slots, const char *symbol,
                      size_t from, size_t to, int hole, int skipped) {
    const char *end = p->s.text + to;
    for (const char *at = p->s.text + from; at < end;) {
        static const char unit[] = "@_unit {\n", filled[] = "@_unit u;\n", derived[] = " : ";
        size_t n = strcspn(at, "\1\2@");
        if (n > (size_t)(end - at)) n = (size_t)(end - at);
        dl_putn(out, at, n);
        if ((at += n) == end) return;
        if (*at == DL_HOLE) {
            put_hole(out, &slots[hole], &p->s.holes.at[hole]), hole++, at += 2;
        } else if (*at == DL_PARAM) {
            char *after;
            long number = strtol(at + 2, &after, 10);
            dl_putf(out, "p%ld", number < p->s.cut_args ? number : number + skipped);
            at = after;
        } else if (strncmp(at, unit, sizeof unit - 1) == 0 && strncmp(at - 3, derived, 3) != 0) {
            dl_putf(out, "%s_unit {\n", symbol), at += sizeof unit - 1;
            put_members(out, p, slots, "    long ", NULL, ";\n");
        } else if (strncmp(at, filled, sizeof filled - 1) == 0) {
            dl_putf(out, "%s_unit u;\n", symbol), at += sizeof filled - 1;
            put_members(out, p, slots, "    u.", " = ", ";\n");
        } else {
            dl_puts(out, symbol), at++;
        }
    }
}

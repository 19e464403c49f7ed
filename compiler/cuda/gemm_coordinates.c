/* Coordinates of a GEMM as C text: gemm_coordinates.h. */
#include "compiler/cuda/gemm_coordinates.h"

#include <string.h>

/* The coordinates whose bits are set, at least one. `alone`: one thread divides, so the kind of
 * division does not matter. */
static void split(dl_emitter *e, const dl_mode *n, unsigned which, bool alone, const char *from) {
    const char *index = e->dialect->index, *natural = e->dialect->natural;
    int first = 0, last = n->n - 1;
    while (!(which >> first & 1)) first++;
    while (!(which >> last & 1)) last--;
    const char *rest = alone ? dl_format(e->arena, "%s_item", n->at[n->n - 1].variable)
                             : dl_format(e->arena, "%sr", n->at[last].variable);
    if (last > first) dl_putf(e->out, "        %s %s = (%s)(%s);\n", natural, rest, natural, from);
    for (int i = last; i > first; i--) {
        const dl_mode_axis *c = &n->at[i];
        if (!(which >> i & 1)) continue;
        const char *size =
            c->text ? dl_format(e->arena, "(%s)ct_some(%s)", natural, c->text)
                    : dl_format(e->arena, "$%c%lld%s$", alone ? ':' : '/',
                                (long long)(c->size ? c->size : 1), e->dialect->not_signed);
        dl_putf(e->out, "        const %s %s = (%s)(%s %% %s);\n        %s /= %s;\n", index,
                c->variable, index, rest, size, rest, size);
    }
    dl_putf(e->out, "        const %s %s = (%s)%s;\n", index, n->at[first].variable, index,
            last > first ? rest : dl_format(e->arena, "(%s)", from));
    for (int i = first; i <= last; i++)
        if (which >> i & 1) dl_putf(e->out, "        (void)%s;\n", n->at[i].variable);
}

static unsigned counting(const dl_mode *n) {
    unsigned which = 0;
    for (int i = 0; i < n->n; i++) which |= dl_mode_axis_is_point(&n->at[i]) ? 0 : 1u << i;
    return which;
}

void dl_gemm_delinearize(dl_emitter *e, const dl_mode *n, const char *from) {
    unsigned which = counting(n);
    if (which) split(e, n, which, false, from);
}

void dl_gemm_delinearize_all(dl_emitter *e, const dl_mode *n, const char *from) {
    split(e, n, (1u << n->n) - 1, true, from);
}

static bool reads(const dl_gemm_problem *p, int axis, const char *variable) {
    bool any = false;
    for (int i = 0; i < 2; i++)
        any |= p->reads[axis][i] && strcmp(p->reads[axis][i], variable) == 0;
    return any;
}

unsigned dl_gemm_used(const dl_gemm_problem *p, const dl_mode *n) {
    unsigned which = counting(n);
    for (int i = 0; i < n->n; i++)
        for (int axis = 0; axis < p->k->nspace; axis++)
            which |= reads(p, axis, n->at[i].variable) ? 1u << i : 0;
    return which;
}

void dl_gemm_delinearize_used(dl_emitter *e, const dl_gemm_problem *p, const dl_mode *n, bool once,
                              const char *from) {
    unsigned which = dl_gemm_used(p, n);
    if (which) split(e, n, which, once, from);
}

static const char *size_of(dl_emitter *e, const dl_mode_axis *c) {
    return c->text ? c->text
                   : dl_format(e->arena, "$%lld%s$", (long long)c->size, e->dialect->whole);
}

/* "2 * count * 4": a mode's extent. */
static void put_size(dl_emitter *e, const dl_mode *n) {
    if (!n->varies) {
        dl_putf(e->out, "$%lld%s$", (long long)n->size, e->dialect->whole);
        return;
    }
    for (int i = 0; i < n->n; i++) dl_putf(e->out, "%s%s", i ? " * " : "", size_of(e, &n->at[i]));
}

void dl_gemm_put_item(dl_emitter *e, const dl_gemm_problem *p) {
    static const struct {
        const char *name;
        dl_mode_kind kind;
    } numbers[] = {{"rows", DL_MODE_M}, {"columns", DL_MODE_N}, {"terms", DL_MODE_K}};
    const char *index = e->dialect->index;
    dl_puts(e->out, "struct $$_item {\n$members$    int q0, q1, q2;\n");
    for (int i = 0; i < p->mode[DL_MODE_BATCH].n; i++)
        if (!dl_mode_axis_is_point(&p->mode[DL_MODE_BATCH].at[i]))
            dl_putf(e->out, "    %s b%d;\n", index, i);
    for (int i = 0; i < 3; i++) {
        dl_putf(e->out, "    INLINE %s %s() const { return ", index, numbers[i].name);
        put_size(e, &p->mode[numbers[i].kind]);
        dl_puts(e->out, "; }\n");
    }
    dl_puts(e->out, "};\n");
}

/* `item` apart from tiles: batch, then stride phases, the outermost. */
void dl_gemm_item(dl_emitter *e, const dl_gemm_problem *p) {
    const dl_mode *b = &p->mode[DL_MODE_BATCH];
    dl_puts(e->out, "    $$_item u;\n$values$");
    for (int i = b->n - 1; i >= 0 && !p->direct; i--)
        if (!dl_mode_axis_is_point(&b->at[i]))
            dl_putf(e->out, "    u.b%d = (%s)(item %% $:%lldU$);\n    item /= $:%lldU$;\n", i,
                    e->dialect->index, (long long)(b->at[i].size ? b->at[i].size : 1),
                    (long long)(b->at[i].size ? b->at[i].size : 1));
    for (int i = 2; i >= 0; i--)
        if (p->stride_phases[i] > 1)
            dl_putf(e->out, "    u.q%d = (int)(item %% $:%lldU$);\n    item /= $:%lldU$;\n", i,
                    (long long)p->stride_phases[i], (long long)p->stride_phases[i]);
        else
            dl_putf(e->out, "    u.q%d = 0;\n", i);
}

int64_t dl_operand_taps(const dl_gemm_problem *p, const dl_operand *o) {
    int64_t taps = 1;
    for (int i = 0; i < 3 && o->is_image; i++) taps *= p->mode[o->taps].at[i].size;
    return taps;
}

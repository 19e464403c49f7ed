/* Scatter-add: kernels that add at indices which are values. First a counting sort orders the
 * points by their index (Knuth, The Art of Computer Programming 3, 5.2), in one work item and
 * two passes. Then each destination sums its own points in order, in double. So no two threads
 * add to one destination, and the bits do not depend on the number of threads. */
#include "compiler/cpu/emit_cpu.h"

#include <stdio.h>

typedef struct {
    const dl_kernel *k;
    const dl_kinstr *store;
    int number; /* the instruction that computes the index */
    int taken[DL_MAX_RANK],
        n; /* space axes that the index depends on: the points that are sorted */
    int kept[DL_MAX_RANK], nkept; /* of those, axes that the result has, too */
    int rest[DL_MAX_RANK], nrest; /* the others: whole rows are added */
    int64_t points, places, row,
        choices; /* products of their sizes; elements along the indexed axis */
} scatter;

static int64_t size_of(const scatter *s, int axis) { return s->k->space[axis].size; }

static scatter find_scatter(const dl_kernel *k) {
    scatter s = {.k = k, .points = 1, .places = 1, .row = 1};
    unsigned taken = 0, kept = 0;
    for (int i = 0; i < k->instrs.n; i++)
        if (k->instrs.at[i].kind == DL_K_STORE) s.store = &k->instrs.at[i];
    const dl_type *t = &k->params.at[s.store->param].type;
    for (int i = 0; i < t->rank; i++) {
        if (s.store->index[i].indirect)
            s.number = s.store->index[i].indirect - 1, s.choices = t->axis[i].size;
        if (s.store->index[i].axis >= 0) kept |= 1u << s.store->index[i].axis;
    }
    const dl_kinstr *number = &k->instrs.at[s.number];
    for (int i = 0; i < k->params.at[number->param].type.rank; i++)
        if (number->index[i].axis >= 0) taken |= 1u << number->index[i].axis;
    for (int i = 0; i < k->nspace; i++) {
        if (!(taken >> i & 1) && !(kept >> i & 1))
            taken |= 1u << i; /* added up at every destination */
        if (!(taken >> i & 1))
            s.rest[s.nrest++] = i, s.row *= size_of(&s, i);
        else
            s.taken[s.n++] = i, s.points *= size_of(&s, i);
        if (taken >> i & kept >> i & 1) s.kept[s.nkept++] = i, s.places *= size_of(&s, i);
    }
    s.places *= s.choices;
    return s;
}

/* Writes "const long x2 = number / 4 % 3;" for each axis; `c` is a prefix of the names. */
static void put_axes(dl_emitter *e, const scatter *s, int n, const int *axes, const char *number,
                     int64_t count) {
    for (int i = 0; i < n; i++) {
        int64_t size = size_of(s, axes[i]) ? size_of(s, axes[i]) : 1;
        count = count / size ? count / size : 1;
        dl_putf(e->out, "        const long x%d = %s / %lldL %% %lldL;\n", axes[i], number,
                (long long)count, (long long)size);
    }
}

static void put_function(dl_emitter *e, const scatter *s, const char *name, const char *type,
                         int end, int result) {
    dl_putf(e->out, "INLINE %s %s_%s(char *const *arg", type, e->k->name, name);
    for (int i = 0; i < s->k->nspace; i++) dl_putf(e->out, ", long x%d", i);
    dl_puts(e->out, ") {\n    (void)arg");
    for (int i = 0; i < s->k->nspace; i++) dl_putf(e->out, ", (void)x%d", i);
    dl_puts(e->out, ";\n");
    for (int i = 0; i < end; i++) dl_emit_instr(e, i);
    for (int i = 0; i < end; i++) dl_putf(e->out, "    (void)v%d;\n", i);
    dl_putf(e->out, "    return v%d;\n}\n", result);
}

static void put_call(dl_emitter *e, const scatter *s, const char *name) {
    dl_putf(e->out, "%s_%s(arg", e->k->name, name);
    for (int i = 0; i < s->k->nspace; i++) {
        bool there = false;
        for (int j = 0; j < s->n; j++) there |= s->taken[j] == i;
        for (int j = 0; j < s->nrest && name[0] == 'v'; j++) there |= s->rest[j] == i;
        dl_putf(e->out, there ? ", x%d" : ", 0", i);
    }
    dl_puts(e->out, ")");
}

static void put_sort(dl_emitter *e, const scatter *s) {
    dl_putf(
        e->out,
        "void %s_0(char *const *arg, long item, char *scratch, char *workspace) {\n    (void)item, "
        "(void)scratch;\n"
        "    long *end = (long *)workspace, *order = end + %lldL;\n"
        "    for (long i = 0; i < %lldL; i++) end[i] = 0;\n"
        "    for (int pass = 0; pass < 2; pass++) {\n    for (long p = 0; p < %lldL; p++) {\n",
        e->k->name, (long long)s->places + 1, (long long)s->places + 1, (long long)s->points);
    put_axes(e, s, s->n, s->taken, "p", s->points);
    dl_puts(e->out, "        const long v = ");
    put_call(e, s, "number");
    dl_putf(e->out,
            ";\n        if ((unsigned long)v >= %lldUL) continue;\n        long place = 0;\n",
            (long long)s->choices);
    for (int i = 0; i < s->nkept; i++)
        dl_putf(e->out, "        place = place * %lldL + x%d;\n", (long long)size_of(s, s->kept[i]),
                s->kept[i]);
    /* counts are stored one further, so that their prefix sums are begins; filling moves each to
     * its end */
    dl_putf(e->out,
            "        place = place * %lldL + v;\n        if (pass)\n            "
            "order[end[place]++] = p;\n   "
            "     else\n"
            "            end[place + 1]++;\n    }\n"
            "    for (long i = 0; !pass && i < %lldL; i++) end[i + 1] += end[i];\n    }\n}\n",
            (long long)s->choices, (long long)s->places);
}

/* `element`: its type in memory; `rounding`: rounds the sum to it. */
static void put_sums(dl_emitter *e, const scatter *s, int64_t each, const char *sum,
                     const char *element, dl_cast rounding) {
    enum { CHUNK = 64 };
    const dl_type *t = &s->k->params.at[s->store->param].type;
    int64_t inner = s->nrest ? size_of(s, s->rest[s->nrest - 1]) : 1;
    int64_t outer = inner ? s->row / inner : 0;
    dl_putf(e->out,
            "void %s_1(char *const *arg, long item, char *scratch, char *workspace) {\n    "
            "(void)scratch;\n"
            "    const long *end = (const long *)workspace, *order = end + %lldL;\n"
            "    for (long place = item * %lldL; place < (item + 1) * %lldL && place < %lldL; "
            "place++)\n"
            "    for (long row = 0; row < %lldL; row++)\n    for (long from = 0; from < %lldL; "
            "from += %d) {\n"
            "        const long n = %lldL - from < %d ? %lldL - from : %d;\n        %s sum[%d] = "
            "{0};\n",
            e->k->name, (long long)s->places + 1, (long long)each, (long long)each,
            (long long)s->places, (long long)outer, (long long)inner, CHUNK, (long long)inner,
            CHUNK, (long long)inner, CHUNK, sum, CHUNK);
    if (s->nrest) put_axes(e, s, s->nrest - 1, s->rest, "row", outer);
    dl_puts(
        e->out,
        "        for (long k = place ? end[place - 1] : 0; k < end[place]; k++) {\n        const "
        "long p = order[k];\n");
    put_axes(e, s, s->n, s->taken, "p", s->points);
    dl_puts(e->out, "        for (long i = 0; i < n; i++) {\n");
    if (s->nrest)
        dl_putf(e->out, "            const long x%d = from + i;\n", s->rest[s->nrest - 1]);
    dl_puts(e->out, "            sum[i] += ");
    put_call(e, s, "value");
    dl_puts(e->out, ";\n        }\n        }\n");
    dl_putf(e->out, "        const long v%d = place %% %lldL;\n", s->number,
            (long long)(s->choices ? s->choices : 1));
    int64_t before = s->places / (s->choices ? s->choices : 1);
    char number[48];
    snprintf(number, sizeof number, "place / %lldL", (long long)(s->choices ? s->choices : 1));
    put_axes(e, s, s->nkept, s->kept, number, before);
    dl_puts(e->out, "        for (long i = 0; i < n; i++) {\n");
    if (s->nrest)
        dl_putf(e->out, "            const long x%d = from + i;\n", s->rest[s->nrest - 1]);
    dl_putf(e->out, "            ((%s *)arg[%d])[", element, s->store->param);
    dl_emit_address(e, t, s->store->index);
    dl_putf(e->out, "] = %ssum[i]%s;\n        }\n    }\n}\n", rounding.open, rounding.close);
}

bool dl_emit_scatter(dl_emitter *e, dl_emitted *code, dl_error *err) {
    static const struct {
        const char *name;
        dl_cast rounding;
    } elements[DL_NDTYPES] = {[DL_F32] = {"float", {"(float)", ""}},
                              [DL_F64] = {"double", {"", ""}},
                              [DL_F16] = {"f16", {"s_narrow_f16(odd_float(", "))"}},
                              [DL_BF16] = {"bf16", {"s_narrow_bf16(odd_float(", "))"}},
                              [DL_I32] = {"int", {"(int)", ""}},
                              [DL_I64] = {"long", {"", ""}}};
    enum { ITEMS = 64 }; /* enough for all threads */
    const dl_kernel *k = e->k;
    scatter s = find_scatter(k);
    const dl_kparam *to = &k->params.at[s.store->param];
    int end = k->instrs.n - 1;
    if (&k->instrs.at[end] != s.store || k->instrs.at[s.number].kind != DL_K_LOAD ||
        !elements[to->type.dtype].name)
        return dl_emit_refuse(k, s.store, err,
                              "additions at numbered places stand alone in a kernel [DL-E0803]");
    e->mode = DL_SINGLE, e->flat = false, e->lane_axis = -1;
    put_function(e, &s, "number", "long", s.number + 1, s.number);
    put_function(e, &s, "value", dl_emit_type(e, k->instrs.at[s.store->args[0]].type), end,
                 s.store->args[0]);
    put_sort(e, &s);
    int64_t each = dl_ceil_div(s.places ? s.places : 1, ITEMS);
    put_sums(e, &s, each, dl_dtype_is_float(to->type.dtype) ? "double" : "long",
             elements[to->type.dtype].name, elements[to->type.dtype].rounding);
    code->phases = 2;
    code->items[0] = 1, code->items[1] = dl_ceil_div(s.places, each);
    code->workspace = (s.places + 1 + s.points) * (int64_t)sizeof(long);
    return true;
}

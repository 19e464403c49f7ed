/* The gather loader: gather_loader.h. */
#include "compiler/cuda/gather_loader.h"

/* K by chunks of channels: the data of one tap is reused at the next tap while it is in L1
 * (CUTLASS iterates over filters in that order). */
static void split_terms(dl_emitter *e, const dl_gemm_problem *p) {
    const dl_mode *terms = &p->mode[DL_MODE_K];
    int channel = terms->n - 1;
    const char *name = terms->at[channel].name;
    dl_mode n = {.size = terms->size, .varies = terms->varies};
    const char *chunk = dl_format(e->arena, "%sc", name),
               *per_thread = dl_format(e->arena, "%si", name);
    n.at[n.n++] = (dl_mode_axis){chunk, NULL, terms->at[channel].size / p->chunk, chunk};
    for (int i = 0; i < channel; i++) n.at[n.n++] = terms->at[i];
    n.at[n.n++] = (dl_mode_axis){per_thread, NULL, p->chunk, per_thread};
    dl_gemm_delinearize(e, &n, "i");
    dl_putf(e->out, "        const %s %s = %s * $%d$ + %s;\n", e->dialect->index, name, chunk,
            p->chunk, per_thread);
}

/* " + m1 * 12": the contributions of a mode's coordinates; of all of them, where all have
 * variables. */
static void put_steps(dl_emitter *e, const dl_mode *n, const int64_t *step, bool all) {
    for (int i = 0; i < n->n; i++) {
        if (!step[i] || (dl_mode_axis_is_point(&n->at[i]) && !all)) continue;
        dl_putf(e->out, " + %s", n->at[i].variable);
        if (step[i] != 1 || all)
            dl_putf(e->out, " * $%lld%s$", (long long)step[i], e->dialect->whole);
    }
}

/* The part that holds the channel. */
static void put_part(dl_emitter *e, const dl_gemm_problem *p, const dl_operand *o) {
    const dl_mode_axis *c = &p->mode[o->channels].at[o->channel];
    dl_puts(e->out, "        p.part = ");
    for (int i = 1; i < o->nparts; i++) {
        dl_putf(e->out, "%s", o->map >= 0 ? c->variable : c->name);
        if (!dl_mode_axis_is_point(&p->mode[DL_MODE_BATCH].at[0]))
            dl_putf(e->out, " + b0 * $%lld$", (long long)c->size);
        dl_putf(e->out, " < $%lld$ ? $%d$ : ", (long long)o->start[i], i - 1);
    }
    dl_putf(e->out, "$%d$;\n", o->nparts - 1);
}

/* Are an operand's elements in the order of a mode's linear index, `step` apart? Then the index
 * need not be split. */
static bool is_dense(const dl_operand *o, const dl_mode *n, dl_mode_kind kind, int part,
                     int64_t *step) {
    int64_t reach = 0; /* the expected stride of the next outer coordinate */
    for (int i = 0; i < 3; i++)
        for (int c = 0; c < n->n; c++)
            if (o->scale[i][kind][c]) return false;
    if (n->varies || (o->nparts > 1 && o->channels == kind)) return false;
    for (int c = n->n - 1; c >= 0; c--) {
        if (dl_mode_axis_is_point(&n->at[c])) continue;
        if (n->at[c].text || (reach && o->step[part][kind][c] != reach)) return false;
        if (!reach) *step = o->step[part][kind][c];
        if (!o->step[part][kind][c]) return false;
        reach = o->step[part][kind][c] * n->at[c].size;
    }
    return reach != 0;
}

static bool all_dense(const dl_operand *o, const dl_mode *n, dl_mode_kind kind, int64_t *step) {
    for (int i = 0; i < o->nparts; i++)
        if (!is_dense(o, n, kind, i, &step[i])) return false;
    return true;
}

/* For the row or K element `p` of the text. */
static void put_bits(dl_emitter *e, const dl_gemm_problem *p, const dl_operand *o,
                     dl_mode_kind kind, bool all) {
    dl_puts(e->out, "        p.taps = 0;\n");
    for (int i = 0; i < 3; i++) {
        const dl_mode_axis *taps = &p->mode[o->taps].at[i];
        if (!o->bounded[i]) continue;
        if (kind == DL_MODE_K)
            dl_putf(e->out, "        p.taps |= 1u << ($%d$ + %s);\n", o->bit[i],
                    all ? taps->variable : taps->name);
        else
            dl_putf(e->out, "        p.taps |= ct_taps(p.x[%d], $%lld$, $%lld$, $%lld$) << $%d$;\n",
                    i, (long long)o->scale[i][DL_MODE_K][i], (long long)taps->size,
                    (long long)o->limit[i], o->bit[i]);
    }
    dl_putf(e->out, "        if (!p.in) p.taps = %s;\n", kind == DL_MODE_K ? "~0u" : "0");
    if (kind != DL_MODE_K) dl_puts(e->out, "        kd_hold(p.taps);\n");
}

static void put_place(dl_emitter *e, const dl_gemm_problem *p, const dl_operand *o,
                      dl_mode_kind kind) {
    bool row = kind != DL_MODE_K, seldom = o->map >= 0;
    const dl_mode *n = &p->mode[kind];
    int64_t dense[4];
    bool chunks = kind == DL_MODE_K && p->chunk,
         is_line = !chunks && !seldom && all_dense(o, n, kind, dense);
    if (chunks)
        split_terms(e, p);
    else if (seldom)
        dl_gemm_delinearize_all(e, n, "i");
    else if (!is_line)
        dl_gemm_delinearize(e, n, "i");
    for (int i = 0; i < 3; i++) {
        dl_putf(e->out, "        p.x[%d] = (int)(%s", i,
                row && o->origin[i] ? o->origin[i] : "$0$");
        put_steps(e, n, o->scale[i][kind], seldom);
        dl_puts(e->out, ");\n");
        if (row && o->bounded[i] && !o->has_bits) dl_putf(e->out, "        kd_hold(p.x[%d]);\n", i);
    }
    if (o->has_bits) put_bits(e, p, o, kind, seldom);
    if (o->nparts > 1 && o->channels == kind)
        put_part(e, p, o);
    else
        dl_puts(e->out, "        p.part = 0;\n");
    for (int part = 0; part < o->nparts; part++) {
        dl_putf(e->out, "        p.at[%d] = $%lld%s$", part, (long long)(row ? o->base[part] : 0),
                e->dialect->whole);
        if (is_line)
            dl_putf(e->out, " + i * $%lld%s$", (long long)dense[part], e->dialect->whole);
        else
            put_steps(e, n, o->step[part][kind], seldom);
        if (row) put_steps(e, &p->mode[DL_MODE_BATCH], o->step[part][DL_MODE_BATCH], false);
        for (int i = 0; i < 3; i++)
            if (o->along[part][i])
                dl_putf(e->out, " + p.x[%d] * $%lld%s$", i, (long long)o->along[part][i],
                        e->dialect->whole);
        dl_puts(e->out, ";\n");
        if (row) dl_putf(e->out, "        kd_hold(p.at[%d]);\n", part);
    }
    dl_puts(e->out, "        return p;\n    }\n");
}

/* "c.part == 0 ? " before a choice for all parts but the last, " : " after it. */
static void put_test(dl_emitter *e, const dl_operand *o, int part) {
    if (part + 1 < o->nparts)
        dl_putf(e->out, "%s.part == $%d$ ? ", o->channels == DL_MODE_K ? "c" : "r", part);
}

static void put_else(dl_emitter *e, const dl_operand *o, int part) {
    if (part + 1 < o->nparts) dl_puts(e->out, " : ");
}

/* "p0[...]", for the channel's part. */
static void put_load(dl_emitter *e, const dl_gemm_problem *p, const dl_operand *o) {
    for (int i = 0; i < o->nparts; i++) {
        dl_dtype type = e->k->params.at[o->param[i]].type.dtype;
        const char *widen = type == o->dtype  ? p->direct && p->c->tf32 ? "kd_round_tf32" : ""
                            : type == DL_BF16 ? "kd_widen_bf16"
                                              : "kd_widen_f16";
        put_test(e, o, i);
        dl_putf(e->out, "%s(of%d[r.at[%d] + c.at[%d]])", widen, i, i, i);
        put_else(e, o, i);
    }
}

/* "p0 + ...", which may be any address where there is no such element: a copy of 0 bytes does
 * not read it. */
static void put_address(dl_emitter *e, const dl_operand *o) {
    static const char *const open[] = {"(const void *)((", ") + ((", ") + ("};
    if (o->channels != DL_MODE_K) {
        for (int i = 0; i < o->nparts; i++) {
            put_test(e, o, i);
            dl_putf(e->out, "(const void *)(of%d + (r.at[%d] + c.at[%d]))", i, i, i);
            put_else(e, o, i);
        }
        return;
    }
    for (int summand = 0; summand < 3;
         summand++) { /* a K element's part is the same for a tile's copies */
        dl_puts(e->out, open[summand]);
        for (int i = 0; i < o->nparts; i++) {
            put_test(e, o, i);
            if (summand == 0)
                dl_putf(e->out, "of%d", i);
            else
                dl_putf(e->out, "%s.at[%d]", summand == 1 ? "r" : "c", i);
            put_else(e, o, i);
        }
    }
    dl_puts(e->out, ")))");
}

void dl_gemm_put_head(dl_emitter *e, const dl_operand *o, const char *which) {
    dl_putf(e->out, "struct $$_%s : $$_item {\n    typedef %s word;\n    typedef %s index;\n",
            which, dl_emit_element_type(o->dtype), e->dialect->index);
}

void dl_gemm_put_gather(dl_emitter *e, const dl_gemm_problem *p, const dl_operand *o,
                        const char *which, const char *constants, int64_t line) {
    const char *index = e->dialect->index;
    dl_gemm_put_head(e, o, which);
    dl_putf(e->out, "    typedef ct_place<%s, %d> place;\n%s", index, o->nparts, constants);
    for (int i = 0; i < o->nparts; i++)
        dl_putf(e->out, "    const %s *of%d;\n",
                dl_emit_element_type(e->k->params.at[o->param[i]].type.dtype), i);
    dl_putf(e->out, "    INLINE place row(%s i) const {\n        place p;\n        p.in = i < %s()",
            index, o->is_left ? "rows" : "columns");
    if (line > 1) dl_putf(e->out, " / $/%lld$", (long long)line);
    dl_puts(e->out, ";\n");
    put_place(e, p, o, o->is_left ? DL_MODE_M : DL_MODE_N);
    dl_putf(
        e->out,
        "    INLINE place col(%s i, %s end) const {\n        place p;\n        p.in = i < end;\n",
        index, index);
    put_place(e, p, o, DL_MODE_K);
    dl_putf(e->out,
            "    INLINE bool inside(const place &r, const place &c) const {\n        return %s",
            o->has_bits ? "(r.taps & c.taps) == c.taps" : "r.in && c.in");
    for (int i = 0; i < 3; i++)
        if (o->bounded[i] && !o->has_bits)
            dl_putf(e->out, " && (unsigned)(r.x[%d] + c.x[%d]) < $%lldU$", i, i,
                    (long long)o->limit[i]);
    dl_puts(e->out, ";\n    }\n");
    if (o->bytes)
        dl_puts(
            e->out,
            "    INLINE const void *at(const place &r, const place &c) const {\n        return ");
    else
        dl_puts(e->out,
                "    INLINE word load(const place &r, const place &c) const {\n        return ");
    if (o->bytes)
        put_address(e, o);
    else
        put_load(e, p, o);
    dl_puts(e->out, ";\n    }\n};\n");
}

void dl_operand_put_reader(dl_emitter *e, const dl_operand *o, const char *which) {
    dl_putf(e->out, "    $$_%s %s;\n    ($$_item &)%s = u;\n", which, which, which);
    int n = o->map < 0 ? o->nparts : o->nmaps;
    for (int i = 0; i < n; i++)
        dl_putf(e->out,
                i && o->map >= 0 ? "    %s.of%d = kd_alias($&p%d$);\n" : "    %s.of%d = $p%d$;\n",
                which, i, o->param[i]);
}

/* An operand loaded by TMA has as many parts as maps, also when threads gather it in a NaN
 * fix-up. */
static void put(dl_emitter *e, const dl_gemm_problem *p, const dl_operand *own) {
    dl_operand of = *own, *o = &of;
    if (o->map >= 0) o->nparts = o->nmaps;
    const char *constants =
        dl_format(e->arena, "    enum { ALONG_K = %d, BYTES = %d, REUSED = %d };\n", o->along_k,
                  o->bytes, o->map < 0 && o->bytes == 16 && dl_operand_taps(p, o) > 1);
    dl_gemm_put_gather(e, p, o, dl_operand_words(o), constants, 1);
}

/* ---- the loader ---- */

enum { READ = 250 /* cost of copying or reading an element by itself, in products */ };

static const dl_tile_size halves[] = {{128, 128, 2, 4, 4, 2, 0.83}},
                          any[] = {{128, 64, 4, 2, 4, 2, 0.65}, {64, 128, 2, 4, 4, 2, 0.84},
                                   {64, 64, 2, 2, 4, 2, 0.65},  {128, 32, 4, 1, 4, 2, 0.32},
                                   {128, 8, 4, 1, 4, 2, 0.21},  {16, 128, 1, 4, 4, 2, 0.32}},
                          wgmma[] = {{128, 256, 8, 1, 5, 1, 1.90},
                                     {128, 128, 8, 1, 5, 2, 1.43},
                                     {128, 64, 8, 1, 6, 2, 1.13},
                                     {256, 128, 8, 1, 5, 1, 1.75},
                                     {256, 64, 8, 1, 5, 2, 1.20}},
                          direct[] = {{32, 32, 2, 4, 0, 2, 0.02}, {64, 32, 2, 4, 0, 2, 0.025}};

static bool serves(const dl_gemm_problem *p, dl_tiling *t) {
    (void)p, (void)t;
    return true;
}

static bool takes(const dl_gemm_problem *p, dl_tiling *t, int operand) {
    (void)p;
    t->loader[operand] = &dl_loader_gather;
    return true;
}

/* Takes elements of 16 bits only: the sums of others would take two registers each. */
static bool serves_halves(const dl_gemm_problem *p, dl_tiling *t) {
    (void)t;
    return p->word == 2;
}

double dl_operand_read_cost(const dl_gemm_problem *p, const dl_tiling *t, int operand) {
    int bytes = p->operand[operand].bytes, words = bytes ? bytes / p->word : 1;
    return bytes < 16 ? READ * dl_tiling_rows(t, operand) / words : 0;
}

#define SIZES(of) .n = sizeof(of) / sizeof *(of), .sizes = (of)
static const dl_loading loadings[] = {
    {.how = "", SIZES(halves), .serves = serves_halves},
    {.how = "", SIZES(any), .serves = serves},
    {.how = " by wgmma", .wgmma = true, SIZES(wgmma), .serves = serves},
    {.how = "", .direct = true, SIZES(direct), .serves = serves}};
const dl_loader dl_loader_gather = {.name = "gather",
                                    .comparable = true,
                                    .takes = takes,
                                    .cost = dl_operand_read_cost,
                                    .put = put,
                                    .put_reader = dl_operand_put_reader,
                                    .n = 4,
                                    .loadings = loadings};

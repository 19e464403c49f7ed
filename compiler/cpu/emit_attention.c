/* Calls of attention and its gradients: writes the shape as a struct, and the function of each
 * phase. The loops are in compiler/cpu/kernels/attention.c. */
#include "compiler/cpu/emit_cpu.h"
#include "compiler/cpu/operands.h"
#include "ir/attention.h"

/* Block sizes in tokens: QUERIES and KEYS of attention.c. */
enum { QUERIES = 64 };
static int64_t keys_of(const dl_target *t) { return 6 * t->lanes; }

typedef struct {
    dl_attention a;
    int64_t heads, queries, keys, width,
        chunks;   /* heads of all samples; tokens of a head, rounded up to blocks */
    bool by_head; /* a work item is a whole head */
    bool pairs;   /* bf16 pairs are multiplied (kernels/bf16_pairs.c) */
    /* The gradient of an addend: its samples and heads, and the parts of the sum over the others.
     */
    bool of_addend;
    int64_t samples_of, heads_of, parts;
} shape;

/* Where heads are few, work items are blocks of queries, and keys are split, so that all threads
 * have work. The choice depends on sizes alone, never on the number of threads. */
static shape find_shape(const dl_emitter *e, const dl_node *n) {
    enum { ITEMS = 32 };
    shape s = {.a = dl_attention_of(n)};
    s.heads = s.a.batch * s.a.heads;
    s.queries = dl_round_up(s.a.queries, QUERIES), s.keys = dl_round_up(s.a.keys, keys_of(e->t));
    s.of_addend = n->op == DL_OP_flash_attention_bias_grad;
    s.pairs = dl_cpu_pairs(e->k, e->t) && !s.of_addend;
    s.width = dl_round_up(s.a.size, s.pairs && e->t->tiles ? e->t->panel : e->t->lanes);
    s.chunks = 1, s.by_head = s.heads >= ITEMS;
    s.samples_of = s.heads_of = s.parts = 1;
    if (s.of_addend) {
        const dl_axis *own = n->out[0].type.axis;
        s.samples_of = own[0].size, s.heads_of = own[1].size;
        int64_t blocks = s.samples_of * s.heads_of * (s.queries / QUERIES) * s.keys / keys_of(e->t);
        int64_t terms = blocks ? s.heads / (s.samples_of * s.heads_of) : 1;
        while (blocks * s.parts < ITEMS && s.parts < terms) s.parts++;
        return s;
    }
    while (s.heads * s.chunks < ITEMS && s.chunks < s.keys / keys_of(e->t)) s.chunks++;
    return s;
}

static void put_shape(dl_emitter *e, const shape *s) {
    const dl_attention *a = &s->a;
    dl_putf(
        e->out,
        "static const struct attention %s_shape = {.batch = %lld, .queries = %lld, .keys = %lld, "
        ".heads = "
        "%lld, .size = %lld, .all_heads = %lld, .all_queries = %lld, .all_keys = %lld, .first = "
        "%lld, "
        ".query_offset = %lld, .width = %lld, .scale = %.9g, .threshold = %.9g, .kept = %.9g, "
        ".number = "
        "%d, .causal = %d, .drops = %d, .in_parts = %d, .type = %s, .pairs = %d, .chunks = "
        "%lld, .addend = %d, .addends = %d, .seed = %d, .stride = {{%lld, %lld, %lld}, {%lld, "
        "%lld, %lld}}, .samples_of = %lld, .heads_of = %lld, .parts = %lld};\n",
        DL_OWN_NAME, (long long)a->batch, (long long)a->queries, (long long)a->keys,
        (long long)a->heads, (long long)a->size, (long long)a->whole[DL_ATT_HEAD],
        (long long)a->whole[DL_ATT_QUERY], (long long)a->whole[DL_ATT_KEY],
        (long long)dl_attention_number(a, 0, 0, 0, 0), (long long)dl_attention_ahead(a),
        (long long)s->width, a->scale, a->threshold, a->kept, a->number, a->causal, a->rate > 0,
        a->in_parts, dl_emit_element(e->k->params.at[DL_ATT_Q].type.dtype), s->pairs,
        (long long)s->chunks, a->addend, a->addends, a->seed, (long long)a->stride[0].sample,
        (long long)a->stride[0].head, (long long)a->stride[0].query, (long long)a->stride[1].sample,
        (long long)a->stride[1].head, (long long)a->stride[1].query, (long long)s->samples_of,
        (long long)s->heads_of, (long long)s->parts);
}

static void put_phase(dl_emitter *e, dl_emitted *code, int64_t items, const char *calls) {
    const char *s = dl_format(e->arena, "const struct attention *s = &%s_shape;", DL_OWN_NAME);
    dl_emit_phase(e, code, items, dl_format(e->arena, "%s\n    %s", s, calls));
}

/* The phase that packs the operands of all heads, `keys` blocks of keys and then queries. */
static void put_packing(dl_emitter *e, dl_emitted *code, int64_t keys, int64_t queries) {
    put_phase(e, code, keys + queries,
              dl_format(e->arena,
                        "if (item < %lldL) pack_keys_item(s, arg, item, workspace, 1);\n    else "
                        "pack_queries_item(s, arg, item - %lldL, workspace);",
                        (long long)keys, (long long)keys));
}

/* Bytes of a head's packed operands, and of a work item's own scratch. */
static int64_t packed_bytes(const shape *s, bool back) {
    int64_t width = s->width;
    return 4 * (back ? 3 * s->keys * width + s->queries * ((2 + s->chunks) * width + 2)
                     : 2 * s->keys * width);
}
static int64_t block_bytes(const shape *s, int64_t keys, bool back) {
    int64_t scores = QUERIES * keys;
    return 4 * (back ? 2 * scores + 2 * keys * s->width + (s->pairs ? scores / 2 : 0)
                     : scores + 2 * QUERIES * s->width);
}

static void emit_by_head(dl_emitter *e, dl_emitted *code, const shape *s, bool back) {
    int64_t block = block_bytes(s, keys_of(e->t), back);
    put_phase(e, code, s->heads,
              dl_format(e->arena, "attend_head%s(s, arg, item, scratch, scratch + %lldL);",
                        back ? "_back" : "", (long long)block));
    code->scratch = block + packed_bytes(s, back);
}

static void emit_by_block(dl_emitter *e, dl_emitted *code, const shape *s, bool back) {
    int64_t keys = s->heads * s->keys / keys_of(e->t), queries = s->heads * s->queries / QUERIES;
    if (back) {
        put_packing(e, code, keys, queries);
        put_phase(e, code, s->heads * s->chunks,
                  "attend_back_item(s, arg, item, scratch, workspace);");
        put_phase(e, code, queries, "add_parts_item(s, arg, item, workspace);");
    } else {
        put_phase(e, code, keys, "pack_keys_item(s, arg, item, workspace, 0);");
        put_phase(e, code, queries, "attend_item(s, arg, item, scratch, workspace);");
    }
    code->workspace = s->heads * packed_bytes(s, back);
    code->scratch = block_bytes(s, keys_of(e->t), back);
}

/* The gradient of an addend: blocks of it sum over the samples and heads that share it. */
static void emit_addend_grad(dl_emitter *e, dl_emitted *code, const shape *s) {
    int64_t keys = s->keys / keys_of(e->t), queries = s->queries / QUERIES;
    int64_t own = s->samples_of * s->heads_of;
    put_packing(e, code, s->heads * keys, s->heads * queries);
    put_phase(e, code, own * s->parts * keys * queries,
              "sum_scores_item(s, arg, item, scratch, workspace);");
    if (s->parts > 1) put_phase(e, code, own, "add_sums_item(s, arg, item, workspace);");
    code->workspace = s->heads * packed_bytes(s, true);
    if (s->parts > 1) code->workspace += 4 * s->parts * own * s->a.queries * s->a.keys;
    code->scratch = 4 * 3 * QUERIES * keys_of(e->t);
}

bool dl_emit_attention(dl_emitter *e, dl_emitted *code, dl_error *err) {
    const dl_node *n = dl_kernel_call(e->k);
    if (!dl_emit_check_floats(e, "the CPU's kernels", err)) return false;
    shape s = find_shape(e, n);
    put_shape(e, &s);
    if (s.of_addend)
        emit_addend_grad(e, code, &s);
    else
        (s.by_head ? emit_by_head : emit_by_block)(e, code, &s, n->op != DL_OP_flash_attention);
    code->needs[DL_NEED_LOOPS] |= DL_LOOPS_ATTENTION;
    code->needs[DL_NEED_DRAWS] = s.a.rate > 0;
    return true;
}

#include "compiler/cpu/library.h"

#include "compiler/cpu/cpu.h"

/* The texts of compiler/cpu/kernels/, embedded at build time (scripts/embed.py). */
extern const char dl_kernels_prelude[], dl_kernels_elements[], dl_kernels_bf16_pairs[],
    dl_kernels_amx[], dl_kernels_random[], dl_kernels_instructions[],
    dl_kernels_instructions_emulated[], dl_kernels_contract[], dl_kernels_contract_interface[],
    dl_kernels_small_n[], dl_kernels_small_n_interface[], dl_kernels_winograd[],
    dl_kernels_winograd_interface[], dl_kernels_interleaved[], dl_kernels_interleaved_interface[],
    dl_kernels_grouped[], dl_kernels_grouped_interface[], dl_kernels_weight_tiles[],
    dl_kernels_weight_pairs[], dl_kernels_weight_amx[], dl_kernels_weight[],
    dl_kernels_weight_interface[], dl_kernels_weight_winograd[],
    dl_kernels_weight_winograd_interface[], dl_kernels_gemm[], dl_kernels_gemm_interface[],
    dl_kernels_attention_tiles[], dl_kernels_attention_pack[], dl_kernels_attention[],
    dl_kernels_attention_interface[], dl_kernels_fourier[], dl_kernels_fourier_interface[],
    dl_kernels_complex[], dl_kernels_complex_interface[], dl_kernels_recurrence[],
    dl_kernels_recurrence_interface[], dl_kernels_scan[], dl_kernels_scan_interface[],
    dl_kernels_sort[], dl_kernels_sort_interface[];

enum { CONVOLUTIONS = DL_LOOPS_CONTRACT | DL_LOOPS_WEIGHT | DL_LOOPS_GEMM };
_Static_assert(DL_LOOPS_SORT == 1 << (DL_MOST_LIBRARIES - 1), "a library for each family");

/* The contents of a text, in addition to what the target determines. */
typedef struct {
    unsigned families, whole;     /* their declarations, and of these the functions, too */
    unsigned halves;              /* types of 16 bits: f16 1, bf16 2 */
    bool draws, groups, separate; /* separate: declared functions are in libraries */
} contents;

/* In order: a text uses those before it. */
static const struct {
    unsigned family;
    enum {
        ONCE,
        WITH_GROUPS,
        BY_FLOAT,
        BY_NUMBER
    } how; /* WITH_GROUPS: only where there are groups; BY_FLOAT: once for f32 and f64; BY_NUMBER:
              for i32 and i64, too */
    const char *whole, *interface;
} texts[] = {
    {DL_LOOPS_ATTENTION, ONCE, dl_kernels_attention_tiles, dl_kernels_attention_tiles},
    {DL_LOOPS_ATTENTION, ONCE, dl_kernels_attention_pack, dl_kernels_attention_pack},
    {DL_LOOPS_ATTENTION, ONCE, dl_kernels_attention, dl_kernels_attention_interface},
    {DL_LOOPS_CONTRACT, ONCE, dl_kernels_contract, dl_kernels_contract_interface},
    {DL_LOOPS_CONTRACT, ONCE, dl_kernels_small_n, dl_kernels_small_n_interface},
    {DL_LOOPS_CONTRACT, ONCE, dl_kernels_winograd, dl_kernels_winograd_interface},
    {DL_LOOPS_WEIGHT, ONCE, dl_kernels_weight_tiles, dl_kernels_weight_tiles},
    {DL_LOOPS_WEIGHT, ONCE, dl_kernels_weight_pairs, dl_kernels_weight_pairs},
    {DL_LOOPS_WEIGHT, ONCE, dl_kernels_weight_amx, dl_kernels_weight_amx},
    {DL_LOOPS_WEIGHT, ONCE, dl_kernels_weight, dl_kernels_weight_interface},
    {DL_LOOPS_WEIGHT, ONCE, dl_kernels_weight_winograd, dl_kernels_weight_winograd_interface},
    {DL_LOOPS_CONTRACT, ONCE, dl_kernels_interleaved, dl_kernels_interleaved_interface},
    {DL_LOOPS_GEMM, ONCE, dl_kernels_gemm, dl_kernels_gemm_interface},
    {DL_LOOPS_CONTRACT, WITH_GROUPS, dl_kernels_grouped, dl_kernels_grouped_interface},
    {DL_LOOPS_FOURIER, BY_FLOAT, dl_kernels_fourier, dl_kernels_fourier_interface},
    {DL_LOOPS_COMPLEX, BY_FLOAT, dl_kernels_complex, dl_kernels_complex_interface},
    {DL_LOOPS_RECURRENCE, BY_FLOAT, dl_kernels_recurrence, dl_kernels_recurrence_interface},
    {DL_LOOPS_SCAN, BY_NUMBER, dl_kernels_scan, dl_kernels_scan_interface},
    {DL_LOOPS_SORT, BY_NUMBER, dl_kernels_sort, dl_kernels_sort_interface},
};

/* Indices of a shuffle of two vectors of n lanes: from, from + step, ..., or, where `in_turn`, each
 * of them of the first vector and of the second. */
static void put_lanes(dl_buf *out, const char *name, int n, int from, int step, bool in_turn) {
    dl_putf(out, "#define %s ", name);
    for (int i = 0; i < n; i++) {
        int lane = in_turn ? from + step * (i / 2) + i % 2 * n : from + step * i;
        dl_putf(out, "%s%d", i ? ", " : "", lane);
    }
    dl_puts(out, "\n");
}

/* Loops once for each of the first `types` element types. */
static void put_by_type(dl_buf *out, const dl_target *t, const char *text, int types) {
    static const char *const type[] = {"float", "double", "int", "long"},
                             *const suffix[] = {"f32", "f64", "i32", "i64"},
                             *const vector[] = {"vf", "vd", "vi", "vl"},
                             *const lanes[] = {"LANES", "LANES / 2"};
    for (int i = 0; i < types; i++) {
        int n = t->lanes >> i % 2;
        dl_putf(out,
                "#define FS %s\n#define FV %s\n#define FL (%s)\n#define F(name) name##_%s\n"
                "#define FOURIER_FLOATS %d\n",
                type[i], vector[i], lanes[i % 2], suffix[i], i == 0);
        put_lanes(out, "EVENS", n, 0, 2, false), put_lanes(out, "ODDS", n, 1, 2, false);
        put_lanes(out, "JOIN_LOW", n, 0, 1, true), put_lanes(out, "JOIN_HIGH", n, n / 2, 1, true);
        dl_puts(out, text);
        dl_puts(out, "#undef FS\n#undef FV\n#undef FL\n#undef F\n#undef FOURIER_FLOATS\n"
                     "#undef EVENS\n#undef ODDS\n#undef JOIN_LOW\n#undef JOIN_HIGH\n");
    }
}

static void put(dl_buf *out, const dl_target *t, const contents *c) {
    const bool pairs = (t->half_gemms >> DL_BF16 & 1) && c->halves & 2;
    const unsigned types =
        c->families & CONVOLUTIONS ? DL_LOOPS_CONTRACT : 0; /* which the others use */
    dl_putf(out, "#define LANES %d\n#define PANEL %d\n#define TILE_ROWS %d\n#define ROW_BLOCK %d\n",
            t->lanes, t->panel, t->rows, t->row_block);
    dl_putf(out, "#define GRAD_HEIGHT %d\n#define PACK_ROWS %d\n#define CHAIN %d\n", t->grad_rows,
            DL_PACK_ROWS, DL_CHAIN);
    dl_putf(out, "#define M_BLOCK %d\n#define DRAWS %d\n#define HALVES %u\n", DL_M_BLOCK, c->draws,
            c->halves);
    dl_putf(out, "#define HAS_PAIRS %d\n#define HAS_TILES %d\n#define HAS_GROUPS %d\n", pairs,
            pairs && t->tiles, c->groups);
    dl_putf(out, "#define SEPARATE %d\n", c->separate);
    dl_puts(out, dl_kernels_prelude);
    if (pairs)
        dl_puts(out, t->emulated ? dl_kernels_instructions_emulated : dl_kernels_instructions);
    if (c->halves || c->families) dl_puts(out, dl_kernels_elements);
    if (c->families) dl_puts(out, dl_kernels_bf16_pairs), dl_puts(out, dl_kernels_amx);
    if (c->draws) dl_puts(out, dl_kernels_random);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (!((c->families | types) & texts[i].family)) continue;
        const char *text = c->whole & texts[i].family ? texts[i].whole : texts[i].interface;
        if (texts[i].how == BY_FLOAT || texts[i].how == BY_NUMBER)
            put_by_type(out, t, text, texts[i].how == BY_FLOAT ? 2 : 4);
        else if (texts[i].how == ONCE || c->groups)
            dl_puts(out, text);
    }
}

/* The contents of a source of kernels with these needs. */
static contents needed(const dl_emitted *code) {
    return (contents){.families = code->needs[DL_NEED_LOOPS],
                      .halves = code->needs[DL_NEED_HALVES],
                      .draws = code->needs[DL_NEED_DRAWS],
                      .groups = code->needs[DL_NEED_GROUPS]};
}

void dl_cpu_open(dl_buf *out, const dl_target *t, const dl_emitted *needs) {
    contents c = needed(needs);
    c.separate = true;
    put(out, t, &c);
}

void dl_cpu_open_whole(dl_buf *out, const dl_target *t, const dl_emitted *needs) {
    contents c = needed(needs);
    c.whole = c.families;
    put(out, t, &c);
}

int dl_cpu_libraries(dl_arena *arena, const dl_target *t, const dl_emitted *needs,
                     const char *sources[DL_MOST_LIBRARIES]) {
    const contents all = needed(needs);
    int n = 0;
    for (unsigned family = 1; family <= DL_LOOPS_SORT; family *= 2) {
        if (!(all.families & family)) continue;
        const contents c = {.families = family,
                            .whole = family,
                            .halves = all.halves,
                            .draws = all.draws && family == DL_LOOPS_ATTENTION,
                            .groups = all.groups && family & CONVOLUTIONS,
                            .separate = true};
        dl_buf text = {0};
        put(&text, t, &c);
        sources[n++] = dl_strndup(arena, text.at, text.n);
        dl_buf_free(&text);
    }
    return n;
}

int dl_cpu_common_needs(dl_emitted needs[DL_CPU_COMMON_NEEDS]) {
    for (unsigned i = 0; i < DL_CPU_COMMON_NEEDS; i++)
        needs[i] = (dl_emitted){.needs = {[DL_NEED_LOOPS] = 2 * DL_LOOPS_SORT - 1,
                                          [DL_NEED_HALVES] = i & 2,
                                          [DL_NEED_GROUPS] = i & 1,
                                          [DL_NEED_DRAWS] = i >> 2 & 1}};
    return DL_CPU_COMMON_NEEDS;
}

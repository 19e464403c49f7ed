/* After the prelude: bf16 instructions that no C expression compiles to, one function or macro
 * each. instructions_emulated.c has the same names for CPUs without them. HAS_PAIRS: the target
 * has AVX512_BF16, or Arm's FEAT_BF16; HAS_TILES: AMX_BF16 too; and the source uses bf16. */
typedef unsigned short v_panel __attribute__((vector_size(PANEL * 2)));

#if defined(__aarch64__)
/* Rounded to nearest even; denormals are numbers here, so that has_denormals finds none. */
INLINE vh narrow_normal(vf v) {
    vh h;
    __asm__("bfcvtn %0.4h, %1.4s" : "=w"(h) : "w"(v));
    return h;
}
INLINE int has_denormals(vf v) {
    (void)v;
    return 0;
}

/* c + (lower x * lower y + upper x * upper y); denormals count as zero. The sum of the products
 * and the addition round to odd, unless the CPU has FEAT_EBF16 and is told otherwise (Arm
 * Architecture Reference Manual, BFDOT). */
INLINE vf dot_pairs(vf c, vf x, vf y) {
    __asm__("bfdot %0.4s, %1.8h, %2.8h" : "+w"(c) : "w"(x), "w"(y));
    return c;
}

/* The first n elements, then zeros; nothing after them is read. */
INLINE v_panel ld_panel_part(const bf16 *p, long n) {
    v_panel v = {0};
    __builtin_memcpy(&v, p, (unsigned long)(n < PANEL ? n : PANEL) * 2);
    return v;
}
#else

/* Rounded to nearest even; denormals count as zero. */
INLINE vh narrow_normal(vf v) {
    vh h;
    __asm__("vcvtneps2bf16 %1, %0" : "=v"(h) : "v"(v));
    return h;
}
INLINE int has_denormals(vf v) {
    return __builtin_ia32_fpclassps512_mask(v, 0x20, (unsigned short)-1) != 0;
}

/* c + lower x * lower y + upper x * upper y, each addition rounded; denormals count as zero. */
INLINE vf dot_pairs(vf c, vf x, vf y) {
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(c) : "v"(x), "v"(y));
    return c;
}

/* The first n elements, then zeros; nothing after them is read. */
typedef short v_masked __attribute__((vector_size(PANEL * 2)));
INLINE v_panel ld_panel_part(const bf16 *p, long n) {
    return (v_panel)__builtin_ia32_loaddquhi512_mask((const void *)p, (v_masked){0},
                                                     n < PANEL ? (1u << n) - 1 : ~0u);
}

#if HAS_TILES
static const struct {
    unsigned char palette, start, none[14];
    unsigned short row_bytes[16];
    unsigned char rows[16];
} tile_shapes __attribute__((aligned(64))) = {
    1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
/* Brackets the use of AMX: tile state in use costs each context switch 8 KiB. */
INLINE void begin_tiles(void) { __asm__ volatile("ldtilecfg %0" : : "m"(tile_shapes)); }
INLINE void end_tiles(void) { __asm__ volatile("tilerelease"); }

#define LOAD_TILE(tile, from)                                                                      \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile : : "r"(from), "r"(apart) : "memory")
/* The same for streamed operands: does not evict operands that stay in L1. */
#define STREAM_TILE(tile, from)                                                                    \
    __asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm" #tile : : "r"(from), "r"(apart) : "memory")
#define STORE_TILE(tile, to)                                                                       \
    __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" : : "r"(to), "r"(apart) : "memory")
#define ZERO_TILE(tile) __asm__ volatile("tilezero %%tmm" #tile : :)
/* sums += left x right. Operand order is that of AT&T syntax: the last one is the accumulator.
 * Denormals count as zero. */
#define ADD_TILES(sums, left, right)                                                               \
    __asm__ volatile("tdpbf16ps %%tmm" #right ", %%tmm" #left ", %%tmm" #sums : :)
#endif
#endif

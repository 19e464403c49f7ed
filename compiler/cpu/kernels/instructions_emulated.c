/* The functions and macros of instructions.c in plain C, in its place: tests run the kernels of
 * CPUs with AVX512_BF16 and AMX_BF16 on any x86-64. Source: Intel 64 and IA-32 Architectures
 * Software Developer's Manual, VCVTNEPS2BF16, VDPBF16PS, TDPBF16PS: rounding to nearest even,
 * denormals read and written as zero. */
typedef unsigned short v_panel __attribute__((vector_size(PANEL * 2)));

/* Flushes denormals to zeros of their sign. */
INLINE vf normal(vf v) {
    vw u = (vw)v, denormal = (vw)((u & 0x7f800000) == 0);
    return (vf)(u & ~(denormal & 0x7fffffff));
}
INLINE vh narrow_normal(vf v) {
    vw u = (vw)normal(v), number = (vw)(v == v), last = u >> 16 & 1;
    return __builtin_convertvector(
        (((u + 0x7fff + last) & number) | ((u | 0x400000) & ~number)) >> 16, vh);
}
INLINE int has_denormals(vf v) {
    vw u = (vw)v;
    vi denormal = ((u & 0x7f800000) == 0) & ((u & 0x7fffffff) != 0);
    int any = 0;
    for (int i = 0; i < LANES; i++) any |= denormal[i];
    return any != 0;
}

/* Adds one product after the other: the upper halves first. A product of two bf16 is exact in
 * f32. */
INLINE vf add_pair(vf c, vf x, vf y) { return normal(normal(c) + normal(normal(x) * normal(y))); }
INLINE vf dot_pairs(vf c, vf x, vf y) {
    vf upper_x = (vf)((vw)x & 0xffff0000), upper_y = (vf)((vw)y & 0xffff0000);
    return add_pair(add_pair(c, upper_x, upper_y), (vf)((vw)x << 16), (vf)((vw)y << 16));
}

INLINE v_panel ld_panel_part(const bf16 *p, long n) {
    v_panel v = {0};
    for (long i = 0; i < n && i < PANEL; i++) v[i] = p[i];
    return v;
}

#if HAS_TILES
/* A thread's eight tile registers, initially zero. */
static __thread vf tiles[8][16];
INLINE void begin_tiles(void) { __builtin_memset(tiles, 0, sizeof tiles); }
INLINE void end_tiles(void) {
    /* reads after the release then give NaN */
    for (int i = 0; i < 8 * 16; i++) tiles[i / 16][i % 16] = splat(__builtin_nanf(""));
}
INLINE void load_tile(vf *tile, const void *from, long apart) {
    for (int i = 0; i < 16; i++) tile[i] = ld((const float *)((const char *)from + i * apart));
}
INLINE void store_tile(const vf *tile, void *to, long apart) {
    for (int i = 0; i < 16; i++) st((float *)((char *)to + i * apart), tile[i]);
}
#define LOAD_TILE(tile, from)   load_tile(tiles[tile], from, apart)
#define STREAM_TILE(tile, from) load_tile(tiles[tile], from, apart)
#define STORE_TILE(tile, to)    store_tile(tiles[tile], to, apart)
#define ZERO_TILE(tile)         __builtin_memset(tiles[tile], 0, sizeof tiles[tile])
/* sums[i] += pair k of row i of the left operand times row k of the right one. */
INLINE void add_tiles(vf *sums, const vf *left, const vf *right) {
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < 16; k++) sums[i] = dot_pairs(sums[i], splat(left[i][k]), right[k]);
}
#define ADD_TILES(sums, left, right) add_tiles(tiles[sums], tiles[left], tiles[right])
#endif

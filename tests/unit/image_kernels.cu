/* Convolutions by wgmma whose image comes by a tensor map, for test_cuda_windows.c, along H and W: forward, whose rows
 * are 128 positions a block; by the weight, whose columns are 256 of the weight's a block. */
enum { IMAGES = 6, C = 64, O = 24, OUT_H = 5, OUT_W = 6, TAPS_H = 3, TAPS_W = 2 };
enum { POSITIONS = IMAGES * OUT_H * OUT_W, OF_WEIGHT = TAPS_H * TAPS_W * C };

template <bool ALONG> struct image {
    typedef bf16 word;
    typedef int index;
    enum { ALONG_K = ALONG, BYTES = CT_TMA_IM2COL, WINDOWS = 2 };
    const kd_map *map;
    INLINE const kd_map *map_of(int) const { return map; }
    INLINE int count() const { return ALONG ? (int)POSITIONS : (int)OF_WEIGHT; }
    INLINE ct_window position(int i) const {
        ct_window w = {};
        w.at = i / (OUT_W * OUT_H);
        w.x[0] = i % OUT_W - 1, w.x[1] = i / OUT_W % OUT_H * 2 - 1;
        return w;
    }
    INLINE ct_window tap(int i) const {
        ct_window w = {};
        w.at = i % C;
        w.x[0] = i / C % TAPS_W * 2, w.x[1] = i / C / TAPS_W;
        return w;
    }
};

/* LINES lines of SIZE elements, along the terms or along the rows. */
template <int LINES, int SIZE, bool ALONG> struct matrix {
    typedef bf16 word;
    typedef int index;
    typedef ct_place<int, 1> place;
    enum { ALONG_K = ALONG, BYTES = 16, REUSED = 1 };
    const bf16 *data;
    INLINE place row(int i) const {
        place p;
        p.in = i < (ALONG ? LINES : SIZE), p.at[0] = ALONG ? i * SIZE : i;
        return p;
    }
    INLINE place col(int k, int end) const {
        place p;
        p.in = k < end, p.at[0] = ALONG ? k : k * SIZE;
        return p;
    }
    INLINE bool inside(const place &r, const place &c) const { return r.in && c.in; }
    INLINE const void *at(const place &r, const place &c) const {
        return data + r.at[0] + c.at[0];
    }
};

extern "C" __global__ void __launch_bounds__(256) images_0(KD_MAP(x), const bf16 *w, float *y, char *) {
    KD_SHARED(unsigned char, shared);
    image<true> left = {KD_MAP_OF(x)};
    matrix<O, OF_WEIGHT, true> right = {w};
    const int m = (int)blockIdx.x * 128;
    const float *sums = ct_tile<CT_BF16_WGMMA, 128, 64, 8, 1, 6>(left, right, m, 0, 0, OF_WEIGHT, shared);
    for (int i = (int)threadIdx.x; i < 128 * O; i += 256)
        if (m + i / O < POSITIONS) y[m * O + i] = sums[i / O * 72 + i % O];
}
extern "C" __global__ void __launch_bounds__(256) images_1(KD_MAP(x), const bf16 *dy, float *dw, char *) {
    KD_SHARED(unsigned char, shared);
    matrix<POSITIONS, O, false> left = {dy};
    image<false> right = {KD_MAP_OF(x)};
    const int n = (int)blockIdx.x * 256;
    const float *sums = ct_tile<CT_BF16_WGMMA, 128, 256, 8, 1, 5>(left, right, 0, n, 0, POSITIONS, shared);
    for (int i = (int)threadIdx.x; i < O * 256; i += 256)
        if (n + i % 256 < OF_WEIGHT) dw[i / 256 * OF_WEIGHT + n + i % 256] = sums[i / 256 * 264 + i % 256];
}

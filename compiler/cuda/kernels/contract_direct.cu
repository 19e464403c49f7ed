/* Contractions by FMA without tensor cores, after contract.cu: direct kernels for small groups,
 * and the NaN fix-up of tiles. Out-of-bounds elements are skipped here, not multiplied as zeros. */
enum { CT_CHAIN = 32 /* products of one chain of floats */ };

/* An operand's element, rounded as ct_tile does. */
template <int ARITHMETIC, class S>
INLINE float ct_factor(const S &s, const typename S::place &r, const typename S::place &c) {
    typename S::word w;
    if constexpr (S::BYTES == 0)
        w = s.load(r, c);
    else
        w = *(const typename S::word *)s.at(r, c);
    if constexpr (ARITHMETIC == CT_BF16) return kd_widen_bf16(w);
    if constexpr (ARITHMETIC == CT_F16) return kd_widen_f16(w);
    if constexpr (ARITHMETIC == CT_TF32) return kd_round_tf32(w);
    return (float)w;
}

/* Adds the products of K elements [from, to) of ROWS rows by a column. The address of a K
 * element and its element of the right operand are computed once for all rows, and the left
 * operand's loads overlap. */
template <int ARITHMETIC, int ROWS, class SA, class SB>
INLINE void ct_chain(float (&sum)[ROWS], const SA &a, const SB &b,
                     const typename SA::place (&r)[ROWS], const typename SB::place &column,
                     typename SA::index from, typename SA::index to) {
    float part[ROWS] = {};
    CT_LOOP for (typename SA::index i = from; i < to; i++) {
        typename SA::place x = a.col(i, to);
        typename SB::place y = b.col(i, to);
        bool in = b.inside(column, y), has[ROWS];
        float right = in ? ct_factor<ARITHMETIC>(b, column, y) : 0, left[ROWS];
        CT_UNROLL for (int j = 0; j < ROWS; j++) {
            has[j] = in && a.inside(r[j], x);
            left[j] = has[j] ? ct_factor<ARITHMETIC>(a, r[j], x) : 0;
        }
        CT_UNROLL for (int j = 0; j < ROWS; j++)
            if (has[j]) part[j] += left[j] * right;
    }
    CT_UNROLL for (int j = 0; j < ROWS; j++) sum[j] += part[j];
}

/* ct_tile without tensor cores: columns are those of all groups, `all` of them, and the operands
 * get the group as b0. A thread has several neighbouring rows of a column. */
template <int BM, int BN, int THREADS, class SA, class SB>
INLINE const float *ct_direct(SA a, SB b, typename SA::index m, typename SA::index n,
                             typename SA::index k, typename SA::index end, typename SA::index all,
                             unsigned char *shared) {
    typedef typename SA::index index;
    enum { ROWS = BM * BN / THREADS };
    float *sums = (float *)shared;
    int column = kd_thread() % BN, row = kd_thread() / BN * ROWS;
    a.b0 = b.b0 = (n + column) / b.columns();
    typename SB::place c = b.row((n + column) % b.columns());
    typename SA::place r[ROWS];
    float sum[ROWS] = {};
    CT_UNROLL for (int j = 0; j < ROWS; j++) r[j] = a.row(m + row + j);
    if (n + column >= all || !r[0].in) end = k;
    CT_LOOP for (index from = k; from < end; from += CT_CHAIN)
        ct_chain<CT_F32>(sum, a, b, r, c, from, from + CT_CHAIN < end ? from + CT_CHAIN : end);
    CT_UNROLL for (int j = 0; j < ROWS; j++) sums[(row + j) * (BN + 8) + column] = sum[j];
    __syncthreads();
    return sums;
}

/* Recomputes a tile's sums that are NaN. It is a function of its own, since inlined code after
 * the loop over tiles changes ptxas's code for the loop. */
template <int ARITHMETIC, int BM, int BN, int THREADS, class SA, class SB>
__attribute__((noinline)) void ct_recompute(const SA *a, const SB *b, typename SA::index m,
                                        typename SA::index n, typename SA::index k,
                                        typename SA::index end, float *sums) {
    typedef typename SA::index index;
    CT_LOOP for (int i = kd_thread(); i < BM * BN; i += THREADS) {
        float *at = sums + i / BN * (BN + 8) + i % BN;
        typename SA::place row[1] = {a->row(m + i / BN)};
        typename SB::place column = b->row(n + i % BN);
        if (*at == *at || !row[0].in || !column.in) continue;
        float sum[1] = {};
        CT_LOOP for (index from = k; from < end && sum[0] == sum[0]; from += CT_CHAIN)
            ct_chain<ARITHMETIC>(sum, *a, *b, row, column, from,
                                 from + CT_CHAIN < end ? from + CT_CHAIN : end);
        *at = sum[0];
    }
}

/* NaN fix-up after ct_tile. Tiles have zeros for out-of-bounds elements, where there are any
 * (`padded`), which turn the other operand's infinity or NaN into a NaN. Sums that are finite or
 * infinite contain no such product. */
template <int ARITHMETIC, int BM, int BN, int THREADS, class SA, class SB>
INLINE void ct_fix_nans(const SA &a, const SB &b, bool padded, typename SA::index m,
                    typename SA::index n, typename SA::index k, typename SA::index end,
                    unsigned char *shared) {
    if (!padded) return;
    float *sums = (float *)shared;
    bool any = false;
    CT_LOOP for (int i = kd_thread() * 4; i < BM * BN; i += THREADS * 4) {
        kd_words four = kd_load16(sums + i / BN * (BN + 8) + i % BN);
        CT_UNROLL for (int j = 0; j < 4; j++) any |=
            __uint_as_float(four.w[j]) != __uint_as_float(four.w[j]);
    }
    if (!__syncthreads_or(any)) return;
    const SA left = a;
    const SB right = b; /* the call takes their addresses: a and b stay in registers */
    ct_recompute<ARITHMETIC, BM, BN, THREADS>(&left, &right, m, n, k, end, sums);
    __syncthreads();
}

/* The strip loader for images of few channels; after contract.cu. The image's positions are in
 * lines along W, its taps in lines of taps along W with their channels. The data of a line of
 * positions at a line of taps is contiguous in memory: a strip. A tile has a strip for each pair
 * of such lines, copied unchanged, with zeros out of the image; threads assemble their operands
 * from it, two elements each. The operand is
 *     BYTES              CT_STRIP
 *     POSITIONS          are its rows positions, and its K elements taps? Otherwise the reverse.
 *     ROW_LINE, ROW_LINES, TERM_LINE, TERM_LINES
 *                        items of a line along its rows, along K, and a tile's number of lines
 *     PIECE, PITCH       bytes of a copy; of a strip
 *     WIDTH              bytes of a line of the image
 *     PAIR_STEP          bytes from each even K element to the next one; 0: they differ
 *     PAIRED             are they two elements at a multiple of their size?
 *     ENDS               may a tile have K elements beyond the last?
 *     row(i), col(k, end), inside, at    as for other operands, for lines: at W = 0 of the image
 *     row_byte(j), term_byte(j)          contribution of item j of a line; a tap's is not negative
 */
template <class S, int ROWS> struct ct_strip {
    enum {
        ALONG_K = 1,
        STRIPS = 1,
        TMA = 0,
        WORD = sizeof(typename S::word),
        DEPTH = CT_LINE / WORD,
        STEP = S::ROW_LINES * S::PITCH, /* distance between lines of K elements */
        /* after the strips: the offset of each K element relative to its row */
        TERMS = S::TERM_LINES * STEP,
        /* a multiple of wgmma's swizzle, since another operand's tile may follow */
        BYTES_OF_TILE = (TERMS + DEPTH * 4 + 8 * CT_BLOCK - 1) / (8 * CT_BLOCK) * (8 * CT_BLOCK)
    };
    /* The offset of each row. */
    static INLINE int *table() {
        __shared__ int t[ROWS];
        return t;
    }
    /* The aligned byte from which a line of positions is copied, for its first position. */
    static INLINE int start(int byte) { return byte & -S::PIECE; }
    static INLINE unsigned element(const unsigned char *at, bool in) {
        return in ? *(const unsigned short *)at : 0;
    }
    /* Two neighbouring K elements of the row at `row`, in one word. */
    static INLINE unsigned two(const unsigned char *row, const int *terms) {
        const unsigned char *first = row + terms[0];
        bool in = !S::ENDS || terms[0] >= 0, both = !S::ENDS || terms[1] >= 0;
        if constexpr (S::PAIRED) return both ? *(const unsigned *)first : element(first, in);
        return element(first, in) |
               element(S::PAIR_STEP ? first + S::PAIR_STEP : row + terms[1], both) << 16;
    }
};

template <class S, int ROWS, int THREADS>
struct ct_feed<S, ROWS, THREADS, false, CT_STRIP> : ct_strip<S, ROWS> {
    typedef ct_strip<S, ROWS> lines;
    typedef typename S::index index;
    typedef typename S::place place;
    enum {
        PIECES = S::PITCH / S::PIECE,
        ALL = S::ROW_LINES * PIECES, /* of one line of K elements */
        COUNT = (ALL + THREADS - 1) / THREADS
    };
    place held[COUNT]; /* the lines of the thread's pieces */
    int x[COUNT];      /* bytes along them */
    int term;          /* offset of the thread's K element, of the tile that it loads */

    static INLINE bool has(int i) { return ALL % THREADS == 0 || kd_thread() + i * THREADS < ALL; }

    INLINE void begin(const S &s, index from) {
        index first = from / S::ROW_LINE;
        int offset = (int)(from - first * S::ROW_LINE),
            start = S::POSITIONS ? lines::start(s.row_byte(offset)) : 0;
        /* start of all lines but the first */
        int others = S::POSITIONS ? lines::start(s.row_byte(0)) : 0;
        CT_UNROLL for (int i = 0; i < COUNT; i++) {
            int piece = kd_thread() + i * THREADS, line = piece / PIECES;
            held[i] = s.row(first + line);
            x[i] = piece % PIECES * S::PIECE + (line ? others : start);
            kd_hold(x[i]);
        }
        CT_LOOP for (int i = kd_thread(); i < ROWS; i += THREADS) {
            int line = (offset + i) / S::ROW_LINE;
            int at =
                line * S::PITCH + s.row_byte((offset + i) % S::ROW_LINE) - (line ? others : start);
            lines::table()[i] = line < S::ROW_LINES ? at : 0; /* beyond the last row: any */
        }
    }
    INLINE void fetch(const S &s, kd_saddr tile, index k, index end, kd_saddr) {
        index first = k / S::TERM_LINE, last = (end + S::TERM_LINE - 1) / S::TERM_LINE;
        int offset = (int)(k - first * S::TERM_LINE),
            start = S::POSITIONS ? 0 : lines::start(s.term_byte(offset));
        int others = S::POSITIONS ? 0 : lines::start(s.term_byte(0));
        CT_UNROLL for (int line = 0; line < S::TERM_LINES; line++) {
            if (line && line * S::TERM_LINE >= offset + lines::DEPTH) break;
            place c = s.col(first + line, last);
            CT_UNROLL for (int i = 0; i < COUNT; i++) {
                if (!has(i)) break;
                int at = x[i] + (line ? others : start);
                bool in = s.inside(held[i], c) && (unsigned)at < (unsigned)S::WIDTH;
                kd_saddr to =
                    tile + (unsigned)(line * lines::STEP + (kd_thread() + i * THREADS) * S::PIECE);
                const void *from = (const unsigned char *)s.at(held[i], c) + at;
                if constexpr (S::PIECE == 16) kd_copy16_cached(to, from, in ? 16 : 0);
                if constexpr (S::PIECE == 8) kd_copy8(to, from, in ? 8 : 0);
                if constexpr (S::PIECE == 4) kd_copy4(to, from, in ? 4 : 0);
            }
        }
        int own = offset + kd_thread() % lines::DEPTH, line = own / S::TERM_LINE;
        term = line * lines::STEP + s.term_byte(own % S::TERM_LINE) - (line ? others : start);
        if (S::ENDS && k + kd_thread() % lines::DEPTH >= end) term = -1;
    }
    INLINE void put(unsigned char *tile) const {
        if (kd_thread() < lines::DEPTH) kd_put((int *)(tile + lines::TERMS) + kd_thread(), term);
    }
};

/* The operands of a strip, in the order that ct_reader has for other tiles. */
template <class F, bool LEFT, int ROWS> struct ct_reader<F, LEFT, ROWS, true> {
    enum { EIGHTS = (ROWS + 7) / 8 };
    int at[EIGHTS];

    INLINE void begin(int row) {
        CT_UNROLL for (int i = 0; i < EIGHTS; i++) {
            at[i] = F::table()[row + i * 8 + kd_thread() % 32 / 4];
            kd_hold(at[i]);
        }
    }
    INLINE void read(unsigned (&r)[4], const unsigned char *tile, int p, int s) const {
        const int *terms = (const int *)(tile + F::TERMS) + s * 16 + kd_thread() % 4 * 2;
        CT_UNROLL for (int b = 0; b < (ROWS == 8 ? 2 : 4); b++) {
            int half = ROWS == 8 ? 0
                       : LEFT    ? b & 1
                                 : b >> 1,
                deep = ROWS == 8 ? b
                       : LEFT    ? b >> 1
                                 : b & 1;
            r[b] = F::two(tile + at[p * 2 + half], terms + deep * 8);
        }
    }
};

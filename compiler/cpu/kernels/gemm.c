/* GEMM: contractions by axis names, around the tile of contract.c. The right operand is packed
 * into panels once per launch, [column of panels][K][PANEL], so that the tile streams it. The
 * left one is read in place where its K elements are contiguous floats. Otherwise it is packed:
 * per block, or, where many work items share a block, once per launch, after the panels. The
 * emitter writes `at` functions from batch, row (or column) and K index to an operand's offset.
 *
 * With bf16 pairs (bf16_pairs.c) the left operand is read in place, unless its odd last K element
 * needs a zero. Of the right one, either K or columns must be contiguous. */
typedef long offset_fn(long batch, long row, long term);
/* The epilogue at `rows` rows from `row` on: `acc` has the sums of `n` columns from `column` on,
 * PANEL per row, with panels `step` apart; `sums`: partial results of epilogue reductions. Or a
 * prefetch of all memory that the epilogue accesses, called before the sums; 0: none. */
typedef void gemm_epilogue_fn(char *const *arg, const float *acc, long batch, long row, long rows,
                              long column, long n, long step, double *sums);
struct gemm_problem {
    long batch, rows, columns, terms;
    int pairs;      /* does `terms` count pairs? */
    long elements;  /* K in elements; the rest of the last pair is zero */
    int whole_rows; /* does the epilogue take all panels of a row together, in the order of memory?
                     */
    struct part left, right; /* arguments; channels: none */
    int direct;              /* is the left one read in place? */
    long left_packed; /* offset in floats from the panels to the left one, packed once per launch;
                         0: it is not */
    long left_step, right_step; /* stride of K, */
    long row_step,
        column_step; /* strides of rows and columns, where constant; 0: call the `at` function */
    offset_fn *left_at, *right_at;
    gemm_epilogue_fn *prefetch;
    long item_rows, item_panels; /* rows, at most ROW_BLOCK, by panels of a work item */
    int by_rows; /* is the panel the outer axis of the work items' order? It is where all panels
                    stay in cache; otherwise a row block is read again for each group of panels */
};

INLINE long panels_of(const struct gemm_problem *s) { return (s->columns + PANEL - 1) / PANEL; }

#if HAS_PAIRS
/* to[word][lane] = LANES pairs of LANES columns, which are `step` elements apart. */
HOT void transpose_pairs(const bf16 *from, long step, float *to) {
#define WORDS_IN(k)  vf r##k = (vf)ld_panel(from + k * step);
#define WORDS_OUT(k) st(to + k * PANEL, r##k);
    BLOCK_ROWS(WORDS_IN)
    TRANSPOSE_ALL
    BLOCK_ROWS(WORDS_OUT)
}
/* One panel of pairs. */
UNUSED void pair_right(const struct gemm_problem *s, const bf16 *from, long batch, long column,
                       long m, float *to) {
    long k = 0;
    if (m == PANEL && s->right_step == 1 && s->column_step > 1)
        for (; 2 * (k + LANES) <= s->elements; k += LANES)
            for (long i = 0; i < PANEL; i += LANES)
                transpose_pairs(from + s->right_at(batch, column + i, 2 * k), s->column_step,
                                to + k * PANEL + i);
    for (; k < s->terms; k++) {
        int both = 2 * k + 1 < s->elements;
        if (s->column_step == 1) {
            const bf16 *a = from + s->right_at(batch, column, 2 * k),
                       *b = both ? from + s->right_at(batch, column, 2 * k + 1) : no_elements;
            pair_rows(ld_panel_part(a, m), ld_panel_part(b, m), to + k * PANEL);
            continue;
        }
        for (long i = 0; i < PANEL; i++) { /* K is contiguous */
            bf16 word[2] = {0};
            if (i < m)
                __builtin_memcpy(word, from + s->right_at(batch, column + i, 2 * k),
                                 both ? sizeof word : 2);
            __builtin_memcpy(to + k * PANEL + i, word, sizeof word);
        }
    }
}
#endif

/* One panel of the right operand: to[k][lane]; lanes after the last column are zero. */
ENTRY void pack_right(const struct gemm_problem *s, char *const *arg, long item, float *packed) {
    long panels = panels_of(s), batch = item / panels, column = item % panels * PANEL;
    long m = s->columns - column < PANEL ? s->columns - column : PANEL;
    struct array from = PART_OF(arg, s->right);
    float *to = packed + item * s->terms * PANEL;
    long k = 0;
    IF_PAIRS(s->pairs, {
        pair_right(s, from.at, batch, column, m, to);
        return;
    })
    /* K is contiguous: blocks are transposed */
    if (m == PANEL && s->right_step == 1 && s->column_step > 1)
        for (; k + LANES <= s->terms; k += LANES)
            for (long i = 0; i < PANEL; i += LANES)
                transpose_block(from, s->right_at(batch, column + i, k), s->column_step,
                                to + k * PANEL + i, PANEL);
    if (s->column_step == 1)
        for (; k < s->terms; k++) {
            long row = s->right_at(batch, column, k);
            for (long i = 0; i < PANEL; i += LANES)
                st(to + k * PANEL + i, m - i >= LANES ? load(from, row + i)
                                       : m > i        ? load_part(from, row + i, m - i)
                                                      : (vf){0});
        }
    long starts[PANEL];
    for (long i = 0; i < m; i++) starts[i] = s->right_at(batch, column + i, 0);
    for (; k < s->terms; k++) {
        const long at = s->right_at(0, 0, k);
        for (long i = 0; i < PANEL; i++)
            to[k * PANEL + i] = i < m ? element(from, starts[i] + at) : 0;
    }
}

struct gemm_scratch {
    float acc[TILE_ROWS * PANEL], left[];
};

/* Rows [row, row + n) of the left operand: left[row][k]. */
UNUSED void pack_left(const struct gemm_problem *s, struct array from, long batch, long row, long n,
                      float *left) {
    IF_PAIRS(s->pairs, {
        for (long i = 0; i < n; i++)
            copy_words(from_element(from, s->left_at(batch, row + i, 0)).at, s->elements,
                       left + i * s->terms);
        return;
    })
    if (HALVES && s->left_step == 1) { /* K is contiguous */
        for (long i = 0; i < n; i++)
            widen(from_element(from, s->left_at(batch, row + i, 0)), s->terms, left + i * s->terms);
        return;
    }
    long starts[ROW_BLOCK], k = 0, i = 0;
    if (s->row_step == 1 && s->left_step) /* rows are contiguous: blocks are transposed */
        for (; k + LANES <= s->terms; k += LANES) {
            const long at = s->left_at(batch, row, k);
            for (i = 0; i + LANES <= n; i += LANES)
                transpose_block(from, at + i, s->left_step, left + i * s->terms + k, s->terms);
        }
    const long blocks = i, whole = k; /* rows and K elements of blocks */
    for (i = 0; i < n; i++) starts[i] = s->left_at(batch, row + i, 0);
    for (k = 0; k < s->terms; k++) {
        const long at = s->left_at(0, 0, k);
        for (i = k < whole ? blocks : 0; i < n; i++)
            left[i * s->terms + k] = element(from, starts[i] + at);
    }
}

/* Packs all rows: work items after the panels', one block each. */
ENTRY void pack_left_block(const struct gemm_problem *s, char *const *arg, long item,
                           float *packed) {
    long blocks = (s->rows + ROW_BLOCK - 1) / ROW_BLOCK, batch = item / blocks,
         row = item % blocks * ROW_BLOCK;
    long n = s->rows - row < ROW_BLOCK ? s->rows - row : ROW_BLOCK;
    pack_left(s, PART_OF(arg, s->left), batch, row, n,
              packed + s->left_packed + (batch * s->rows + row) * s->terms);
}

#if HAS_TILES
/* Packs operands whose rows and columns are contiguous (a weight gradient's): the pairs of some
 * K elements, for all panels and all strips, [block of pairs][AMX_ROWS][TILE_WORDS] each. Reads
 * memory contiguously, row by row. */
ENTRY void pack_terms(const struct gemm_problem *s, char *const *arg, long item, float *packed) {
    long blocks = s->terms / TILE_WORDS, batch = item / blocks, k = item % blocks * TILE_WORDS;
    long panels = panels_of(s), strips = (s->rows + AMX_ROWS - 1) / AMX_ROWS;
    const bf16 *left = PART_OF(arg, s->left).at, *right = PART_OF(arg, s->right).at,
               *from[2 * TILE_WORDS];
    for (long i = 0; i < 2 * TILE_WORDS; i++)
        from[i] = 2 * k + i < s->elements ? right + s->right_at(batch, 0, 2 * k + i) : 0;
    for (long p = 0; p < panels; p++) {
        long column = p * PANEL, m = s->columns - column < PANEL ? s->columns - column : PANEL;
        float *to = packed + ((batch * panels + p) * s->terms + k) * PANEL;
        for (long i = 0; i < 2 * TILE_WORDS; i += 2, to += PANEL) {
            const bf16 *a = from[i] ? from[i] + column : no_elements,
                       *b = from[i + 1] ? from[i + 1] + column : no_elements;
            pair_rows(ld_panel_part(a, m), ld_panel_part(b, m), to);
        }
    }
    for (long i = 0; i < 2 * TILE_WORDS; i++)
        from[i] = 2 * k + i < s->elements ? left + s->left_at(batch, 0, 2 * k + i) : 0;
    for (long row = 0; row < strips * AMX_ROWS; row += TILE_WORDS) {
        float *to = packed + s->left_packed +
                    ((batch * strips + row / AMX_ROWS) * s->terms + k) * AMX_ROWS +
                    row % AMX_ROWS * TILE_WORDS;
        const bf16 *at[2 * TILE_WORDS];
        for (long i = 0; i < 2 * TILE_WORDS; i++) at[i] = from[i] ? from[i] + row : no_elements;
        if (row + TILE_WORDS <= s->rows) {
            transpose_terms(at, to);
            continue;
        }
        for (long i = 0; i < TILE_WORDS * TILE_WORDS; i += LANES) st(to + i, (vf){0});
        for (long i = 0; i < s->rows - row; i++)
            for (long j = 0; j < TILE_WORDS; j++)
                __builtin_memcpy(to + i * TILE_WORDS + j,
                                 &(bf16[2]){at[2 * j][i], at[2 * j + 1][i]}, sizeof *to);
    }
}

/* Rows [row, row + n) by panels [first, last) of one batch, by AMX strips. Scratch: a chain's
 * pairs, sums of all panels, [panel][AMX_ROWS][PANEL]. */
HOT void gemm_amx(const struct gemm_problem *s, char *const *arg, const float *packed, long batch,
                  long row, long n, long first, long last, float *words, gemm_epilogue_fn *epilogue,
                  double *sums) {
    struct array from = PART_OF(arg, s->left);
    const float *right = packed + batch * panels_of(s) * s->terms * PANEL;
    float *acc = words + CHAIN * AMX_ROWS;
    long chain = s->terms ? whole_blocks(even_chain(s->terms)) : 1;
    begin_tiles();
    for (long r = 0; r < n; r += AMX_ROWS) {
        long rows = n - r < AMX_ROWS ? n - r : AMX_ROWS,
             strips = (s->rows + AMX_ROWS - 1) / AMX_ROWS;
        const float *strip = packed + s->left_packed +
                             (batch * strips + (row + r) / AMX_ROWS) * s->terms * AMX_ROWS,
                    *left = from_element(from, s->left_at(batch, row + r, 0)).at;
        for (long k = 0; k == 0 || k < s->terms; k += chain) {
            long some = s->terms - k < chain ? s->terms - k : chain,
                 elements = s->elements - 2 * k < 2 * some ? s->elements - 2 * k : 2 * some;
            int as_it_lies = rows == AMX_ROWS && s->row_step % 2 == 0 && s->row_step &&
                             elements % (2 * TILE_WORDS) == 0;
            for (long i = 0; i < rows && !as_it_lies && !s->left_packed; i++)
                pack_words(from_element(from, s->left_at(batch, row + r + i, 2 * k)).at, elements,
                           words + i * TILE_WORDS);
            for (long p = first; p < last; p++) {
                float *own = acc + (p - first) * AMX_ROWS * PANEL;
                const float *b = right + (p * s->terms + k) * PANEL;
                begin_strip(own, PANEL, k > 0);
                if (s->left_packed)
                    add_rows(strip + k * AMX_ROWS, BLOCK_FLOATS, TILE_WORDS, b, some);
                else if (as_it_lies)
                    add_rows(left + k, TILE_WORDS, s->row_step / 2, b, some);
                else
                    add_blocks(words, b, some);
                end_strip(own, PANEL);
            }
        }
        long panels = s->whole_rows ? last - first : 1; /* at once */
        for (long p = first; p < last; p += panels) {
            long column = p * PANEL, m = s->columns - column, most = panels * PANEL;
            epilogue(arg, acc + (p - first) * AMX_ROWS * PANEL, batch, row + r, rows, column,
                     m < most ? m : most, AMX_ROWS * PANEL, sums);
        }
    }
    end_tiles();
}
#endif

/* A block of rows by some panels. */
ENTRY void gemm_item(const struct gemm_problem *s, char *const *arg, const float *packed, long item,
                     char *scratch, gemm_epilogue_fn *epilogue, double *sums) {
    struct gemm_scratch *t = (void *)scratch;
    long panels = panels_of(s), groups = (panels + s->item_panels - 1) / s->item_panels;
    long blocks = (s->rows + s->item_rows - 1) / s->item_rows;
    long batch = item / (groups * blocks), in = item % (groups * blocks);
    long group = s->by_rows ? in % groups : in / blocks,
         row = (s->by_rows ? in / groups : in % blocks) * s->item_rows;
    long n = s->rows - row < s->item_rows ? s->rows - row : s->item_rows;
    long last = (group + 1) * s->item_panels < panels ? (group + 1) * s->item_panels : panels;
    IF_TILES(s->pairs, {
        gemm_amx(s, arg, packed, batch, row, n, group * s->item_panels, last, (float *)scratch,
                 epilogue, sums);
        return;
    })
    struct array from = PART_OF(arg, s->left);
    const float *rows[ROW_BLOCK + TILE_ROWS];
    long chain = s->terms ? even_chain(s->terms) : 1;
    const float *left = t->left;
    if (HALVES && s->left_packed)
        left = packed + s->left_packed + (batch * s->rows + row) * s->terms;
    else if (!s->direct)
        pack_left(s, from, batch, row, n, t->left);
    for (long i = 0; i < n; i++)
        rows[i] =
            s->direct ? from_element(from, s->left_at(batch, row + i, 0)).at : left + i * s->terms;
    for (long i = n; i % TILE_ROWS; i++)
        rows[i] = rows[n - 1]; /* padding rows: computed and ignored */
    for (long p = group * s->item_panels; p < last; p++) {
        const float *right = packed + (batch * panels + p) * s->terms * PANEL;
        long column = p * PANEL, m = s->columns - column < PANEL ? s->columns - column : PANEL;
        for (long r = 0; r < n; r += TILE_ROWS) {
            long some = n - r < TILE_ROWS ? n - r : TILE_ROWS;
            if (s->prefetch) s->prefetch(arg, t->acc, batch, row + r, some, column, m, 0, sums);
            for (long k = 0; k == 0 || k < s->terms; k += chain) {
                struct stretch one = {.b = right + k * PANEL,
                                      .n = s->terms - k < chain ? s->terms - k : chain};
                for (long i = 0; i < TILE_ROWS; i++) one.a[i] = rows[r + i] + k;
                tile(s->pairs, &one, 1, 0, m, t->acc, k > 0);
            }
            epilogue(arg, t->acc, batch, row + r, some, column, m, 0, sums);
        }
    }
}

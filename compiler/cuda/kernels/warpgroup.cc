/* The functions of warpgroup.cu on the CPU. Tiles are read, and sums computed, as late as their
 * wait allows; until then sums are NaN. It detects: sums used or tiles overwritten before the
 * wait, a thread that ends without one, sums that are accumulated without kd_wgmma_begin;
 * copies, stored words and rounded floats without a fence; lanes with different tiles, and tiles
 * at addresses where the hardware would swizzle differently. TMA boxes are NaN from their copy
 * to the wait, and arrive then. It detects: other bytes than a barrier expects, barriers that
 * are not initialised, fenced or arrived at, barriers overwritten by anything else, and a CTA
 * that ends before its boxes have arrived. Sums of several CTAs are added as late as their wait
 * allows; it detects: turns out of order or that end before their sums, sums without a fence or a
 * wait, threads that miss a barrier of the first, more registers than an SM has. Not detected:
 * other writes into a tile without a fence, and warps of a warpgroup with different tiles. */
} /* namespace */
namespace emulated {
typedef unsigned long tile;
enum { MOST_SUMS = 128, MOST_PRODUCTS = 32, MOST_SETS = 4 };

struct product {
    tile a, b;
    int group, line;
    bool left_rows, right_rows;
    int word; /* bytes: of each operand 32 a row */
    float (*value)(const void *word);
    /* held: of the left operand, rows g and g + 8 of the lane's warp, in its registers */
    bool alone, held;
    float left[2][16];
    int set;
};
template <float (*WIDEN)(unsigned short)> float value_of_half(const void *word) {
    unsigned short v;
    __builtin_memcpy(&v, word, sizeof v);
    return WIDEN(v);
}
static inline float value_of_tf32(const void *word) {
    unsigned v;
    __builtin_memcpy(&v, word, sizeof v);
    return bits_as<float>(v & 0xffffe000);
}
/* A thread's products in flight. */
struct sums {
    float *sum, before[MOST_SUMS]; /* the thread's, and their values so far */
    int nsums, coming;             /* products in flight */
};
struct products {
    product at[MOST_PRODUCTS];
    sums sets[MOST_SETS];
    int groups;
    bool begun;
};
static products under_way[THREADS];

/* The layout of a tile, in bytes of shared memory: the arguments of kd_tile_of. */
struct lying {
    int start, leading, stride, width; /* width: of swizzling, or 0 */
};
static inline lying lying_of(tile t) {
    return {(int)(t & 0x3fff) << 4, (int)(t >> 16 & 0x3fff) << 4, (int)(t >> 32 & 0x3fff) << 4,
            t >> 62 == 1 ? 128 : t >> 62 == 2 ? 64 : 0};
}
/* Checks that the words that threads have stored into `n` rows or columns of a tile are fenced. */
static inline void check_put(const product *p, tile t, bool rows, int n) {
    lying l = lying_of(t);
    if (!l.width) return; /* element_of reports it */
    int start = l.start - l.start % (8 * l.width);
    int bytes =
        rows ? ((n * p->word + l.width - 1) / l.width - 1) * l.leading + 4 / p->word * l.stride
             : n / 8 * l.stride;
    for (int at = start; at < start + bytes && at < (int)now.dynamic_bytes; at += 2)
        if (is_unfenced(&marks[at / 2]))
            fail("line %d: what thread %d has put there is not fenced", p->line,
                 marks[at / 2].thread);
}
struct product_of_lane {
    product *p;
    int nsums;
    const unsigned *left; /* words of a left operand in the lane's registers; or NULL */
};
/* All 16 K elements of the lane's two rows, of a left operand in registers. */
static inline void gather_left(product_of_lane *const *lane, int i) {
    for (int k = 0; k < 16; k++)
        for (int h = 0; h < 2; h++) {
            unsigned word = lane[i / 4 * 4 + k % 8 / 2]->left[h + k / 8 * 2];
            unsigned short half = (unsigned short)(word >> k % 2 * 16);
            lane[i]->p->left[h][k] = lane[i]->p->value(&half);
        }
}
static inline void same_tiles(void *const *lane, unsigned) {
    const product_of_lane *all = (const product_of_lane *)lane[0];
    const product *first = all->p;
    for (int i = 0; i < WARP && all->left; i++) gather_left((product_of_lane *const *)lane, i);
    for (int i = 1; i < WARP; i++) {
        const product *own = ((const product_of_lane *)lane[i])->p;
        if (own->a != first->a || own->b != first->b)
            fail("line %d: lane %d multiplies other tiles than lane 0", own->line, i);
    }
    if (!now.puts) return;
    if (!all->left) check_put(first, first->a, first->left_rows, 64);
    check_put(first, first->b, first->right_rows, 2 * all->nsums);
}

/* Row or column r, and K element k of a tile, by the address of its word. */
static inline float element_of(const product *p, tile t, bool rows, int r, int k) {
    lying l = lying_of(t);
    int word = p->word, width = l.width;
    if (!width || l.start % (8 * width) >= width)
        fail("line %d: a tile that begins within its eight lines", p->line);
    int at = l.start + (rows ? r * word / width * l.leading + r * word % width + k / 8 * l.stride +
                                   k % 8 * width
                             : r / 8 * l.stride + r % 8 * width + k * word);
    at ^= (at >> 7 & (width / 16 - 1)) << 4;
    return p->value(shared((unsigned long)now.dynamic + at, word, "a tile", p->line));
}

static inline void multiply_tiles(sums *all, const product *p) {
    int lane = now.thread.x % WARP, row = now.thread.x / WARP % 4 * 16 + lane / 4,
        terms = 32 / p->word;
    float a[2][16];
    for (int h = 0; h < 2; h++)
        for (int k = 0; k < terms; k++)
            a[h][k] = p->held ? p->left[h][k] : element_of(p, p->a, p->left_rows, row + 8 * h, k);
    if (p->alone) __builtin_memset(all->before, 0, sizeof all->before);
    for (int i = 0; i < all->nsums; i += 4)
        for (int e = 0; e < 2; e++) {
            float two[2] = {0, 0};
            for (int k = 0; k < terms; k++) {
                float b = element_of(p, p->b, p->right_rows, i * 2 + lane % 4 * 2 + e, k);
                two[0] += a[0][k] * b, two[1] += a[1][k] * b;
            }
            all->before[i + e] += two[0], all->before[i + 2 + e] += two[1];
        }
}

/* The set of these sums: one in flight, or a new one. */
static inline int set_of(products *all, float *sum, int nsums, int line) {
    int free = -1;
    for (int i = 0; i < MOST_SETS; i++) {
        sums *s = &all->sets[i];
        if (!s->coming)
            free = i;
        else if (s->sum == sum && s->nsums == nsums)
            return i;
        else if (sum < s->sum + s->nsums && s->sum < sum + nsums)
            fail("line %d: other sums than those under way", line);
    }
    if (free < 0) fail("line %d: more sums under way than are emulated", line);
    if (!all->begun) fail("line %d: sums without kd_wgmma_begin", line);
    sums *s = &all->sets[free];
    s->sum = sum, s->nsums = nsums;
    __builtin_memcpy(s->before, sum, sizeof(float) * nsums);
    __builtin_memset(sum, 0xff, sizeof(float) * nsums);
    return free;
}
static inline void multiply_begin(float *sum, int nsums, product p,
                                  const unsigned *left = nullptr) {
    int thread = now.thread.x;
    products *all = &under_way[thread];
    product_of_lane own = {&p, nsums, left};
    p.held = left;
    if (thread / (4 * WARP) * (4 * WARP) + 4 * WARP > now.n)
        fail("line %d: the block has no whole groups of four warps", p.line);
    wait_warp(same_tiles, 0xffffffffu, &own, p.line);
    if (!now.products[thread]) {
        all->groups = 0;
        for (int i = 0; i < MOST_SETS; i++) all->sets[i].coming = 0;
    }
    if (now.products[thread] == MOST_PRODUCTS)
        fail("line %d: more products under way than are emulated", p.line);
    p.set = set_of(all, sum, nsums, p.line), p.group = all->groups;
    all->sets[p.set].coming++;
    all->at[now.products[thread]++] = p;
}

static inline void multiply_end(int left) {
    int thread = now.thread.x, kept = 0;
    products *all = &under_way[thread];
    if (!now.products[thread]) return;
    for (int i = 0; i < now.products[thread]; i++) {
        sums *s = &all->sets[all->at[i].set];
        if (all->at[i].group >= all->groups - left) {
            all->at[kept++] = all->at[i];
            continue;
        }
        multiply_tiles(s, &all->at[i]);
        if (--s->coming) continue;
        __builtin_memcpy(s->sum, s->before, sizeof(float) * s->nsums), all->begun = false;
    }
    now.products[thread] = kept;
}

/* ---- TMA ---- */

enum { MOST_BOXES = 16, MAP_MARK = 0x706d };
struct box {
    unsigned char *to;
    const map *from;
    int at[5], by[3]; /* by: of images */
};
/* A phase of a barrier ends when all have arrived, and as many bytes as they expected. */
struct barrier_of_copies {
    int count, missing, expected, phase, begun_by, nboxes, nwaiting;
    long coming; /* bytes of boxes in flight */
    bool fenced;
    box boxes[MOST_BOXES];
    fibre *waiting[THREADS];
};
static barrier_of_copies barriers[MOST_BARRIERS];

static inline barrier_of_copies *barrier_at(unsigned long at, int line) {
    check_barriers();
    for (int i = 0; i < now.barriers; i++)
        if (now.barrier_at[i] == (unsigned char *)at) return &barriers[i];
    fail("line %d: a barrier that has not begun", line);
    return nullptr;
}
static inline void barrier_begin(unsigned long at, int count, int line) {
    unsigned char *p = shared(at, 8, "a barrier", line);
    for (int i = 0; i < now.barriers; i++)
        if (now.barrier_at[i] == p) fail("line %d: a barrier begins twice", line);
    if (now.barriers == MOST_BARRIERS) fail("line %d: more barriers than are emulated", line);
    barrier_of_copies *b = &barriers[now.barriers];
    now.barrier_at[now.barriers++] = p, __builtin_memcpy(p, &BARRIER, sizeof BARRIER);
    b->count = b->missing = count, b->begun_by = now.thread.x, b->fenced = false;
    b->expected = b->phase = b->nboxes = b->nwaiting = 0, b->coming = 0;
}
static inline void wake_waiting(barrier_of_copies *b) {
    for (int i = 0; i < b->nwaiting; i++) wake(b->waiting[i]);
    now.barred -= b->nwaiting, b->nwaiting = 0;
}
static inline void barrier_expect(unsigned long at, int bytes, int line) {
    barrier_of_copies *b = barrier_at(at, line);
    if (!b->missing) fail("line %d: more arrive at a barrier than it counts", line);
    b->expected += bytes, b->missing--;
    if (!b->missing) wake_waiting(b);
}
static inline void copy_box(unsigned long to, const map *from, const int (&at)[5],
                            const int (&by)[3], int windows, unsigned long barrier, int line) {
    barrier_of_copies *b = barrier_at(barrier, line);
    if (!b->fenced) fail("line %d: nobody has fenced the barrier's beginning", line);
    if ((unsigned long)from % 64 || from->mark != MAP_MARK) fail("line %d: no tensor map", line);
    if (from->windows != windows) fail("line %d: a map of %d windows", line, from->windows);
    if (from->box[0] * from->word != from->swizzle)
        fail("line %d: boxes whose lines are no %d bytes are not emulated", line, from->swizzle);
    long bytes = (long)from->box[0] * from->box[1] * from->box[2] * from->word;
    unsigned char *p = shared(to, 1, "a box", line);
    if (!is_shared(p, bytes)) fail("line %d: a box outside of the block's shared memory", line);
    if ((to - (unsigned long)now.dynamic) % 128) fail("line %d: a box at no multiple of 128", line);
    if (b->nboxes == MOST_BOXES) fail("line %d: more boxes under way than are emulated", line);
    __builtin_memset(p, 0xff, bytes);
    box *own = &b->boxes[b->nboxes++];
    own->to = p, own->from = from;
    __builtin_memcpy(own->at, at, sizeof at), __builtin_memcpy(own->by, by, sizeof by);
    b->coming += bytes, now.boxes++;
}
/* A line of it, `from` bytes after the begin of dynamic memory: elements from c on. Pieces are
 * swizzled by bits of their address; zeros outside of the tensor. */
static inline void bring_line(const map *m, long from, const long (&c)[5]) {
    int axes = m->windows ? m->windows + 2 : 3;
    bool in = true;
    const char *line = (const char *)m->address;
    for (int i = 1; i < axes; i++)
        in = in && c[i] >= 0 && c[i] < m->size[i], line += c[i] * m->step[i - 1];
    for (int x = 0; x < m->box[0]; x++) {
        long at = from + (long)x * m->word;
        at ^= (at >> 7 & (m->swizzle / 16 - 1)) << 4;
        if (in && c[0] + x >= 0 && c[0] + x < m->size[0])
            __builtin_memcpy(now.dynamic + at, line + (c[0] + x) * m->word, m->word);
        else
            __builtin_memset(now.dynamic + at, 0, m->word);
    }
}
/* Pixels of images, along W; after the last of a line comes the first of the next. */
static inline void bring_pixels(const box *b) {
    const map *m = b->from;
    long at[5];
    for (int i = 0; i < 5; i++) at[i] = b->at[i];
    for (int pixel = 0; pixel < m->box[1]; pixel++) {
        long c[5];
        for (int i = 0; i < 5; i++) c[i] = at[i] + (i >= 1 && i <= m->windows ? b->by[i - 1] : 0);
        bring_line(m, b->to - now.dynamic + (long)pixel * m->swizzle, c);
        int i = 0;
        for (; i < m->windows; i++) {
            at[1 + i] += m->traversal[i];
            if (at[1 + i] <= m->size[1 + i] - 1 + m->upper[i]) break;
            at[1 + i] = m->lower[i];
        }
        if (i == m->windows) at[1 + i]++;
    }
}
static inline void bring_box(const box *b) {
    const map *m = b->from;
    long from = b->to - now.dynamic;
    if (m->windows) return bring_pixels(b);
    for (int z = 0; z < m->box[2]; z++)
        for (int y = 0; y < m->box[1]; y++, from += m->swizzle)
            bring_line(m, from, {b->at[0], (long)b->at[1] + y, (long)b->at[2] + z, 0, 0});
}
static inline void check_image(const map *m, const int (&x)[3], const int (&by)[3], int windows,
                               int line) {
    for (int i = 0; i < windows && m->windows == windows; i++) {
        long first = m->lower[i], last = m->size[1 + i] - 1 + m->upper[i];
        if (x[i] < first || x[i] > last || (x[i] - first) % m->traversal[i])
            fail("line %d: pixel %d of axis %d is none that the map tells", line, x[i], i);
        if (by[i] < 0 || by[i] >= 1 << 16 / windows)
            fail("line %d: pixels %d away along axis %d", line, by[i], i);
    }
}
/* Boxes arrive as late as their wait allows. */
static inline void barrier_wait(unsigned long at, int parity, int line) {
    barrier_of_copies *b = barrier_at(at, line);
    while ((b->phase & 1) == parity) {
        if (b->missing) {
            b->waiting[b->nwaiting++] = now.running;
            now.barred++, now.barred_at = line;
            go_on(false);
            continue;
        }
        if (b->coming != b->expected)
            fail("line %d: a barrier expects %d bytes, and %ld are on their way", line, b->expected,
                 b->coming);
        for (int i = 0; i < b->nboxes; i++) bring_box(&b->boxes[i]);
        now.boxes -= b->nboxes;
        b->phase++, b->missing = b->count, b->expected = b->nboxes = 0, b->coming = 0;
        wake_waiting(b);
    }
}
static inline void barrier_arrive(unsigned long at, int line) {
    barrier_of_copies *b = barrier_at(at, line);
    if (!b->missing) fail("line %d: more arrive at a barrier than it counts", line);
    if (!--b->missing) wake_waiting(b);
}

/* ---- sums of several CTAs: added as late as their wait allows ---- */
enum { MOST_ADDED = 8 };
struct added {
    float *to;
    const float *from;
    int n, line;
};
static added adding[MOST_ADDED]; /* of the only thread that adds */
static int nadding, adds;
static inline void add_begin(float *to, unsigned long from, int bytes, int line) {
    const unsigned char *p = shared(from, 16, "sums", line);
    check_aligned(to, 16, line), check_aligned((const void *)(unsigned long)bytes, 16, line);
    if (!is_shared(p, bytes)) fail("line %d: sums outside of the block's shared memory", line);
    for (long at = p - now.dynamic; at < p - now.dynamic + bytes; at += 2)
        if (now.puts && is_unfenced(&marks[at / 2]))
            fail("line %d: what thread %d has put there is not fenced", line, marks[at / 2].thread);
    if (!now.adding) nadding = 0, adds = (int)now.thread.x;
    if (adds != (int)now.thread.x) fail("line %d: a second thread that adds", line);
    if (nadding == MOST_ADDED) fail("line %d: more sums under way than are emulated", line);
    adding[nadding++] = {to, (const float *)p, bytes / 4, line}, now.adding = nadding;
}
static inline void add_end(int left) {
    int done = now.adding - left;
    if (done <= 0) return;
    for (int i = 0; i < done; i++)
        for (int j = 0; j < adding[i].n; j++) adding[i].to[j] += adding[i].from[j];
    for (int i = done; i < nadding; i++) adding[i - done] = adding[i];
    now.adding = nadding = left;
}
static inline void turn_wait(const int *at, int turn, int line) {
    if (*at != turn)
        fail("line %d: it waits for turn %d of a block that has not begun, at %d", line, turn, *at);
}
static inline void turn_end(int *at, int turn, int line) {
    if (now.adding > 1) fail("line %d: a turn ends before its sums are there", line);
    *at = turn;
}
static inline void registers(int count, int line) {
    if (count % 8 || count < 24 || count > 256) fail("line %d: %d registers", line, count);
    if (now.thread.x % (4 * WARP) == 0) now.registers += 4 * WARP * count;
    if (now.registers > 64 << 10) fail("line %d: more registers than an SM has", line);
}
static inline void fence() {
    now.fences[now.thread.x]++;
    for (int i = 0; i < now.barriers; i++)
        if (barriers[i].begun_by == (int)now.thread.x) barriers[i].fenced = true;
}
} /* namespace emulated */

namespace {
typedef emulated::tile kd_tile;
template <int SWIZZLE> KD_INLINE kd_tile kd_tile_of(kd_saddr at, int leading, int stride) {
    unsigned long from = at - (unsigned long)emulated::now.dynamic;
    return (from >> 4 & 0x3fff) | (kd_tile)(leading >> 4) << 16 | (kd_tile)(stride >> 4) << 32 |
           (kd_tile)(SWIZZLE == 128 ? 1 : 2) << 62;
}
KD_INLINE kd_tile kd_tile_advance(kd_tile t, int bytes) { return t + (kd_tile)(bytes >> 4); }
KD_INLINE void kd_async_fence() { emulated::fence(); }
KD_INLINE void kd_wgmma_begin() { emulated::under_way[threadIdx.x].begun = true; }
KD_INLINE void kd_wgmma_commit() { emulated::under_way[threadIdx.x].groups++; }
template <int LEFT> void kd_wgmma_wait() { emulated::multiply_end(LEFT); }
template <int N> void kd_wgmma_sums(float (&)[N]) {}
template <bool LEFT_ROWS, bool RIGHT_ROWS, bool OVERWRITE = false, int N>
void kd_wgmma_bf16(float (&sum)[N], kd_tile a, kd_tile b, int line = __builtin_LINE()) {
    emulated::multiply_begin(sum, N,
                             {a, b, 0, line, LEFT_ROWS, RIGHT_ROWS, 2,
                              emulated::value_of_half<kd_widen_bf16>, OVERWRITE});
}
template <bool LEFT_ROWS, bool RIGHT_ROWS, bool OVERWRITE = false, int N>
void kd_wgmma_f16(float (&sum)[N], kd_tile a, kd_tile b, int line = __builtin_LINE()) {
    emulated::multiply_begin(sum, N,
                             {a, b, 0, line, LEFT_ROWS, RIGHT_ROWS, 2,
                              emulated::value_of_half<kd_widen_f16>, OVERWRITE});
}
template <bool RIGHT_ROWS, bool OVERWRITE, int N>
void kd_wgmma_left_bf16(float (&sum)[N], const unsigned (&a)[4], kd_tile b,
                        int line = __builtin_LINE()) {
    emulated::multiply_begin(
        sum, N,
        {0, b, 0, line, false, RIGHT_ROWS, 2, emulated::value_of_half<kd_widen_bf16>, OVERWRITE},
        a);
}
template <bool RIGHT_ROWS, bool OVERWRITE, int N>
void kd_wgmma_left_f16(float (&sum)[N], const unsigned (&a)[4], kd_tile b,
                       int line = __builtin_LINE()) {
    emulated::multiply_begin(
        sum, N,
        {0, b, 0, line, false, RIGHT_ROWS, 2, emulated::value_of_half<kd_widen_f16>, OVERWRITE}, a);
}
template <int N>
void kd_wgmma_tf32(float (&sum)[N], kd_tile a, kd_tile b, int line = __builtin_LINE()) {
    emulated::multiply_begin(sum, N,
                             {a, b, 0, line, false, false, 4, emulated::value_of_tf32, false});
}
template <int BYTES> void kd_round_tf32_at(kd_saddr at, int line = __builtin_LINE()) {
    emulated::check_aligned((const void *)at, BYTES, line);
    float *v = (float *)emulated::shared(at, BYTES, "floats to be rounded", line);
    for (int i = 0; i < BYTES / 4; i++) v[i] = kd_round_tf32(v[i]);
    emulated::put_mark((const unsigned char *)at, BYTES);
}

typedef emulated::map kd_map;
#define KD_MAP(name)    const kd_map *name
#define KD_MAP_OF(name) kd_map_at(name)
KD_INLINE const kd_map *kd_map_at(const kd_map *map) { return map; }
inline void kd_barrier_begin(kd_saddr at, int count, int line = __builtin_LINE()) {
    emulated::barrier_begin(at, count, line);
}
inline void kd_barrier_expect(kd_saddr at, int bytes, int line = __builtin_LINE()) {
    emulated::barrier_expect(at, bytes, line);
}
inline void kd_barrier_wait(kd_saddr at, int parity, int line = __builtin_LINE()) {
    emulated::barrier_wait(at, parity, line);
}
inline void kd_barrier_arrive(kd_saddr at, int line = __builtin_LINE()) {
    emulated::barrier_arrive(at, line);
}
template <int COUNT> void kd_fewer_registers(int line = __builtin_LINE()) {
    emulated::registers(COUNT, line);
}
template <int COUNT> void kd_more_registers(int line = __builtin_LINE()) {
    emulated::registers(COUNT, line);
}
template <int ID, int THREADS> void kd_sync_first(int line = __builtin_LINE()) {
    emulated::wait_first(ID, THREADS, line);
}
inline int kd_ticket(int *counter) { return (*counter)++; }
inline void kd_turn_wait(const int *at, int turn, int line = __builtin_LINE()) {
    emulated::turn_wait(at, turn, line);
}
inline void kd_turn_end(int *at, int turn, int line = __builtin_LINE()) {
    emulated::turn_end(at, turn, line);
}
inline void kd_add_bulk(float *to, kd_saddr from, int bytes, int line = __builtin_LINE()) {
    emulated::add_begin(to, from, bytes, line);
}
template <int LEFT> void kd_bulk_wait() { emulated::add_end(LEFT); }
inline void kd_copy_tile(kd_saddr to, const kd_map *from, int x, int y, int z, kd_saddr barrier,
                        int line = __builtin_LINE()) {
    emulated::copy_box(to, from, {x, y, z, 0, 0}, {0, 0, 0}, 0, barrier, line);
}
template <int WINDOWS>
void kd_copy_im2col(kd_saddr to, const kd_map *from, int channel, const int (&x)[3], int n,
                   const int (&by)[3], kd_saddr barrier, int line = __builtin_LINE()) {
    int at[5] = {channel, x[0], WINDOWS > 1 ? x[1] : n, WINDOWS > 2 ? x[2] : n, n};
    emulated::check_image(from, x, by, WINDOWS, line);
    emulated::copy_box(to, from, at, by, WINDOWS, barrier, line);
}

/* Launches of emulated kernels, after fibres.cc: the table of a source's kernels, what threads wait
 * for, the CTAs of a launch, and the functions that a host calls. */
namespace emulated {
/* A tensor map (ir/kernel/tensor_map.h: dl_emulated_map). */
struct map {
    unsigned long address;
    int mark, word, swizzle, box[3];
    long size[5], step[4];
    short lower[3], upper[3];
    unsigned char traversal[3], windows;
};

/* The kernels of the source, an unnamed one last: compiler/cuda/emulate.c appends this. */
struct entry {
    const char *name;
    void (*run)();
    /* the first arguments are tensor maps, then pointers; the rest are longs */
    int nargs, pointers, maps;
    /* numbers and pointers of a table that is the only argument; else 0 */
    int table[2];
};
/* A kernel's only argument, by value. */
template <int NUMBERS, int POINTERS> struct table {
    long number[NUMBERS];
    char *pointer[POINTERS];
};
template <typename... T> constexpr int arity(void (*)(T...)) { return sizeof...(T); }
template <class T> struct is_pointer {
    enum { value = 0 };
};
template <class T> struct is_pointer<T *> {
    enum { value = 1 };
};
template <> struct is_pointer<const map *> {
    enum { value = 0 };
};
template <class T> struct is_map {
    enum { value = 0 };
};
template <> struct is_map<const map *> {
    enum { value = 1 };
};
template <class... T> constexpr int pointers_of(void (*)(T...)) {
    return (0 + ... + is_pointer<T>::value);
}
template <class... T> constexpr int maps_of(void (*)(T...)) { return (0 + ... + is_map<T>::value); }
template <int WHICH, class... T> constexpr int table_of(void (*)(T...)) { return 0; }
template <int WHICH, int NUMBERS, int POINTERS>
constexpr int table_of(void (*)(const table<NUMBERS, POINTERS> &)) {
    return WHICH ? POINTERS : NUMBERS;
}
extern const entry kernels[];

/* A kernel takes pointers (also to tensor maps and a table) and longs, which are passed alike.
 * Surplus arguments do no harm: the caller pops the stack on every system that this runs on. */
#define P4     void *, void *, void *, void *
#define P8     P4, P4
#define P32    P8, P8, P8, P8
#define A4(i)  a[i], a[i + 1], a[i + 2], a[i + 3]
#define A8(i)  A4(i), A4(i + 4)
#define A32(i) A8(i), A8(i + 8), A8(i + 16), A8(i + 24)
static void call() {
    void *const *a = now.args;
    if (now.nargs <= 4)
        ((void (*)(P4))now.kernel)(a[0], a[1], a[2], a[3]);
    else if (now.nargs <= 8)
        ((void (*)(P8))now.kernel)(A8(0));
    else if (now.nargs <= 32)
        ((void (*)(P32))now.kernel)(A32(0));
    else if (now.nargs <= 128)
        ((void (*)(P32, P32, P32, P32))now.kernel)(A32(0), A32(32), A32(64), A32(96));
    else
        ((void (*)(P32, P32, P32, P32, P32, P32, P32, P32, P32, P32, P32, P32, P32, P32, P32,
                   P32))now.kernel)(A32(0), A32(32), A32(64), A32(96), A32(128), A32(160), A32(192),
                                    A32(224), A32(256), A32(288), A32(320), A32(352), A32(384),
                                    A32(416), A32(448), A32(480));
}
#undef P4
#undef P8
#undef P32
#undef A4
#undef A8
#undef A32
enum { MOST_ARGS = 512 };

static void check_barriers() {
    for (int i = 0; i < now.barriers; i++)
        if (__builtin_memcmp(now.barrier_at[i], &BARRIER, sizeof BARRIER))
            fail("barrier %d of copies, in the order of their beginnings, was written to", i);
}

static void body() {
    for (;;) {
        call();
        if (now.products[now.thread.x]) fail("it ends before its products are there");
        now.copying[now.thread.x].n = now.copying[now.thread.x].groups = 0;
        now.ended++, now.fences[now.thread.x]++;
        if (now.ended == now.n && now.boxes) fail("the block ends before its copies are there");
        if (now.ended == now.n && now.adding) fail("the block ends before its sums are there");
        if (now.ended == now.n) check_barriers();
        go_on(true);
    }
}

/* ---- waiting ---- */

static __attribute__((noinline)) int wait_all(int line, int counts) {
    barrier *b = &now.all;
    if (!b->arrived)
        b->line = line, b->count = 0;
    else if (b->line != line)
        fail("a divergent barrier: other threads of the block wait in line %d, this one in line %d",
             b->line, line);
    b->count += counts;
    if (b->arrived + 1 < now.n) {
        b->waiting[b->arrived++] = now.running;
        go_on(false);
    } else {
        for (int i = 0; i < b->arrived; i++) wake(b->waiting[i]);
        b->arrived = 0, b->result = b->count;
    }
    /* nobody reaches the next barrier before all have read it: they are counted */
    return b->result;
}

/* A barrier of the first `n` threads. */
static __attribute__((noinline)) void wait_first(int id, int n, int line) {
    barrier *b = &now.first;
    if (id < 1 || id > 15 || n % WARP || n > now.n) fail("line %d: no barrier of a CTA's", line);
    if ((int)now.thread.x >= n) fail("line %d: a thread that its barrier does not count", line);
    if (!b->arrived)
        b->line = line, b->count = n;
    else if (b->line != line || b->count != n)
        fail("a divergent barrier: others of the first wait in line %d, this one in line %d",
             b->line, line);
    if (b->arrived + 1 < n) {
        b->waiting[b->arrived++] = now.running;
        go_on(false);
        return;
    }
    for (int i = 0; i < b->arrived; i++) wake(b->waiting[i]);
    b->arrived = 0;
}

/* All lanes of `mask` bring an operand each; the last to arrive does the operation for all. */
static __attribute__((noinline)) void wait_warp(void (*all)(void *const *, unsigned), unsigned mask,
                                                void *mine, int line) {
    int lane = now.thread.x % WARP;
    warp *w = &now.warps[now.thread.x / WARP];
    if (!(mask >> lane & 1)) fail("line %d: a lane that is not in its own mask", line);
    if (!w->arrived)
        w->all = all, w->mask = mask, w->line = line;
    else if (w->line != line || w->all != all)
        fail("a divergent warp: other lanes wait in line %d, this one in line %d", w->line, line);
    else if (w->mask != mask)
        fail("line %d: lanes of a warp name different masks, %08x and %08x", line, w->mask, mask);
    w->lane[lane] = mine;
    if (++w->arrived < __builtin_popcount(mask)) {
        w->waiting[w->nwaiting++] = now.running;
        go_on(false);
        return;
    }
    all(w->lane, mask);
    for (int i = 0; i < w->nwaiting; i++) wake(w->waiting[i]);
    w->arrived = w->nwaiting = 0;
}

static bool is_shared(const unsigned char *p, size_t bytes) {
    bool dynamic = p >= now.dynamic && p + bytes <= now.dynamic + now.dynamic_bytes;
    return dynamic || (p >= __start_kd_shared && p + bytes <= __stop_kd_shared);
}

static unsigned char *shared(unsigned long address, int bytes, const char *what, int line) {
    unsigned char *p = (unsigned char *)address;
    if (!is_shared(p, bytes)) fail("line %d: %s outside of the block's shared memory", line, what);
    if (address % bytes)
        fail("line %d: %s at an address that is no multiple of %d", line, what, bytes);
    return p;
}

/* ---- launches ---- */

static void run_block() {
    for (int w = 0; w < now.n / WARP; w++)
        now.warps[w].arrived = now.warps[w].nwaiting = now.warps[w].nready = 0;
    /* NaN in every type */
    __builtin_memset(__start_kd_shared, 0xff, __stop_kd_shared - __start_kd_shared);
    __builtin_memset(now.dynamic, 0xff, now.dynamic_bytes);
    __builtin_memset(now.products, 0, sizeof now.products);
    now.started = now.ended = now.all.arrived = now.first.arrived = 0, now.ready = 0;
    now.adding = now.registers = 0;
    now.barriers = now.boxes = now.barred = 0, now.puts = false;
    now.running = new_fibre();
    run(now.order[now.started++]);
    kd_switch(&now.host, now.running->top);
}

static void shuffle(int *at, int n) {
    for (int i = n - 1; i > 0; i--) {
        int j = (int)draw(i + 1), other = at[i];
        at[i] = at[j], at[j] = other;
    }
}

static void draw_order(unsigned seed) {
    now.by_warp = seed % 2 == 0;
    for (int i = 0; i < WARPS; i++) now.warp_at[i] = i;
    if (seed) shuffle(now.warp_at, now.n / WARP);
    for (int i = 0; i < WARPS; i++) now.rank[now.warp_at[i]] = i;
    for (int i = 0; i < now.n; i++) now.order[i] = now.warp_at[i / WARP] * WARP + i % WARP;
    if (!now.by_warp) shuffle(now.order, now.n);
    for (int i = 0; i < now.n && seed && now.by_warp; i += WARP) shuffle(now.order + i, WARP);
}

static bool begin(unsigned seed) {
    void *dynamic = nullptr;
    if (!now.stacks) {
        void *at =
            mmap(nullptr, (size_t)THREADS * (GUARD + STACK), NO_ACCESS, PRIVATE_ANONYMOUS, -1, 0);
        if (at == (void *)-1) return false;
        now.stacks = (unsigned char *)at;
    }
    if (posix_memalign(&dynamic, 1024, now.dynamic_bytes ? now.dynamic_bytes : 1) != 0)
        return false;
    now.dynamic = (unsigned char *)dynamic;
    now.random = seed * 2654435761u + 1;
    if (!now.random) now.random = 1;
    draw_order(seed);
    return true;
}

/* Resets fibres that were suspended anywhere when a launch failed. */
static void forget_fibres() {
    for (int i = 0; i < now.nfibres; i++) {
        unsigned char *end = now.stacks + (size_t)(i + 1) * (GUARD + STACK);
        if (__asan_unpoison_memory_region) __asan_unpoison_memory_region(end - STACK, STACK);
        now.fibres[i].top = first_frame(stack_end(i), body);
        now.unused[i] = &now.fibres[i];
    }
    now.nunused = now.nfibres;
    for (int i = 0; i < THREADS; i++) now.copying[i].n = now.copying[i].groups = 0, now.fences[i]++;
}

__attribute__((destructor)) static void release() {
    if (now.stacks) munmap(now.stacks, (size_t)THREADS * (GUARD + STACK));
    for (int i = 0; i < THREADS; i++) __builtin_free(now.copying[i].at);
}

static bool refuse(char *error, size_t size, const char *name, const char *why) {
    __builtin_snprintf(error, size, "kernel %s: %s", name, why);
    return false;
}

static bool launch(void *const *args, unsigned seed) {
    void *all[MOST_ARGS] = {nullptr};
    for (int i = 0; i < now.nargs; i++)
        all[i] = i < now.by_place ? args[i] : *(void *const *)args[i];
    now.args = all;
    if (!begin(seed)) return refuse(now.error, now.error_size, now.name, "no memory to emulate it");
    for (unsigned i = 0; i < now.blocks.x && !now.failed; i++) {
        now.block.x = seed / 2 % 2 ? now.blocks.x - 1 - i : i;
        run_block();
    }
    if (now.failed) forget_fibres();
    __builtin_free(now.dynamic);
    return !now.failed;
}
} /* namespace emulated */

/* Returns the number of a kernel's arguments, and of them the tensor maps, the first ones, and
 * the pointers after them; table: room for numbers and pointers if its only argument is a table,
 * else 0. -1: there is no such kernel. */
extern "C" __global__ int dl_emulated_arguments(const char *kernel, int *maps, int *pointers,
                                                int table[2]) {
    for (const emulated::entry *e = emulated::kernels; e->name; e++) {
        if (__builtin_strcmp(e->name, kernel) != 0) continue;
        *maps = e->maps, *pointers = e->pointers, table[0] = e->table[0], table[1] = e->table[1];
        return e->nargs;
    }
    return -1;
}

/* Runs a kernel of this object on `nargs` arguments, each a tensor map, a pointer or a long;
 * args[i] is its address, as for cuLaunchKernel. `grid` CTAs of `block` threads with `shared`
 * bytes of dynamic shared memory. `seed` draws the order of threads and CTAs; 0: by number.
 * Returns 0, or 1 with a message in error[size]. One launch of an object at a time. */
extern "C" __global__ int dl_emulated_launch(const char *kernel, int nargs, void *const *args,
                                             unsigned grid, unsigned block, unsigned shared,
                                             unsigned seed, char *error, size_t size) {
    using namespace emulated;
    const entry *found = kernels;
    while (found->name && __builtin_strcmp(found->name, kernel) != 0) found++;
    if (!found->name) return !refuse(error, size, kernel, "its object has none of that name");
    if (!block || block > THREADS || block % WARP)
        return !refuse(error, size, kernel, "a block has a multiple of 32 threads, at most 1024");
    if (shared > 227 << 10)
        return !refuse(error, size, kernel, "more than 227 KiB of shared memory");
    if (nargs > MOST_ARGS) return !refuse(error, size, kernel, "more than 512 arguments");
    if (grid == 0 && nargs < 0) return 0;
    if (nargs != found->nargs) {
        char said[100];
        __builtin_snprintf(said, sizeof said, "it takes %d arguments, and was given %d",
                           found->nargs, nargs);
        return !refuse(error, size, kernel, said);
    }
    if (grid == 0) return 0;
    if (__atomic_exchange_n(&now.busy, true, __ATOMIC_ACQUIRE))
        return !refuse(error, size, kernel, "another kernel of its object is running");
    now.kernel = found->run, now.name = kernel, now.nargs = nargs,
    now.by_place = found->table[0] ? 1 : found->maps;
    now.blocks = {grid, 1, 1}, now.threads = {block, 1, 1}, now.n = (int)block;
    now.dynamic_bytes = shared, now.error = error, now.error_size = size, now.failed = false;
    bool ok = launch(args, seed);
    __atomic_store_n(&now.busy, false, __ATOMIC_RELEASE);
    return !ok;
}

/* The prelude of an emulated CUDA source, in place of device.cu, with emulated.cc after it, for
 * the system's C++ compiler: the result is a shared object that runs the same kernels on the
 * CPU. This file runs launches. CTAs run one after the other, a CTA's threads as fibres: each
 * runs until it waits for others, and only then needs a stack of its own. dl_emulated_launch, at
 * the end, is the host's entry point.
 *
 * Errors that a device shows now and then occur here each time. Shared memory is NaN before
 * every CTA, and so is the destination of kd_copy* until the wait. Threads start and continue in
 * an order drawn from a seed. A barrier or a shuffle that some threads miss, an address outside
 * of shared memory and a misaligned one are errors with the kernel's name and the line. With
 * -fsanitize=address, accesses outside of arrays are found, too. Not detected: bank conflicts,
 * timing, races between CTAs.
 *
 * There is no #include, so a source compiles in a fraction of the time. */
#define __global__ __attribute__((visibility("default")))
#define __device__
#define __host__
#define __constant__    static const
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__    __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__   static __attribute__((section("kd_shared")))
#define KD_INLINE    inline __attribute__((always_inline))
typedef unsigned short f16, bf16;
typedef __SIZE_TYPE__ size_t;

extern "C" {
void *mmap(void *, size_t, int, int, int, long);
int mprotect(void *, size_t, int);
int munmap(void *, size_t);
void *memcpy(void *, const void *, size_t);
void *memset(void *, int, size_t);
int posix_memalign(void **, size_t, size_t);
float expf(float), exp2f(float), logf(float), log2f(float), expm1f(float), log1pf(float),
    sqrtf(float), tanhf(float), erff(float), erfcf(float), sinf(float), cosf(float), floorf(float),
    ceilf(float), rintf(float), fabsf(float), powf(float, float), fmaxf(float, float),
    fminf(float, float), fmaf(float, float, float);
double exp(double), exp2(double), log(double), log2(double), expm1(double), log1p(double),
    sqrt(double), tanh(double), erf(double), erfc(double), sin(double), cos(double), floor(double),
    ceil(double), rint(double), fabs(double), pow(double, double), fmax(double, double),
    fmin(double, double), fma(double, double, double);
/* Accesses outside of shared memory; defined only in objects with -fsanitize=address. */
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void *, size_t);
extern unsigned char __start_kd_shared[] __attribute__((weak, visibility("hidden")));
extern unsigned char __stop_kd_shared[] __attribute__((weak, visibility("hidden")));
}

struct uint3 {
    unsigned x, y, z;
};
#define VECTORS(T, name)                                                                           \
    struct __align__(2 * sizeof(T)) name##2 {                                                      \
        T x, y;                                                                                    \
    };                                                                                             \
    struct __align__(4 * sizeof(T) > 16 ? 16 : 4 * sizeof(T)) name##4 {                            \
        T x, y, z, w;                                                                              \
    };                                                                                             \
    KD_INLINE name##2 make_##name##2(T x, T y) { return {x, y}; }                                  \
    KD_INLINE name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
VECTORS(float, float)
VECTORS(double, double)
VECTORS(int, int)
VECTORS(unsigned, uint)
VECTORS(unsigned short, ushort)
#undef VECTORS

namespace emulated {
enum {
    THREADS = 1024,
    WARP = 32,
    WARPS = THREADS / WARP,
    STACK = 256 << 10,
    GUARD = 64 << 10,
    NO_ACCESS = 0,
    READ_WRITE = 3
};
enum { PRIVATE_ANONYMOUS = 0x22 };

struct fibre {
    void *top; /* of its stack, while another runs */
    int thread;
};

/* A copy to shared memory that was started. */
struct copy {
    unsigned char *to;
    const void *from;
    int size, bytes, group;
};

struct copies {
    copy *at;
    int n, room, groups; /* groups: committed */
};

/* Lanes that have reached a collective operation of their warp. */
struct warp {
    void (*all)(void *const *lane, unsigned mask);
    void *lane[WARP];
    fibre *waiting[WARP];
    unsigned mask;
    int arrived, nwaiting, line;
    fibre *ready[WARP]; /* can continue */
    int nready;
};

struct barrier {
    fibre *waiting[THREADS];
    int arrived, line, count; /* count: of threads with a true argument (__syncthreads_count) */
    int result;
};

/* Memory of an mbarrier, once it is initialised: nobody else may read or write it. */
enum { MOST_BARRIERS = 16 };
static const unsigned long BARRIER = 0x7ff5bad0ba221e75;

struct state {
    uint3 thread, block, threads, blocks; /* threadIdx, blockIdx, blockDim, gridDim */
    fibre *running;
    unsigned char *dynamic;
    unsigned dynamic_bytes;
    /* the launch */
    void (*kernel)();
    void *const *args;
    int nargs, by_place, n; /* by_place: the first ones, which are no words; n: threads of a CTA */
    const char *name;
    bool by_warp;                                    /* see go_on */
    /* threads in starting order; warps and their ranks */
    int order[THREADS], rank[WARPS], warp_at[WARPS];
    /* the CTA */
    int started, ended;
    warp warps[WARPS];
    fibre *unused[THREADS];
    int nunused;
    unsigned ready; /* warps with fibres that can continue, a bit each, at their rank */
    barrier all;
    copies copying[THREADS];
    bool unfenced[THREADS];   /* written for wgmma without a fence: warpgroup.cc must check */
    unsigned fences[THREADS]; /* number of fences; or the thread has ended */
    bool puts;                /* words are stored one by one (kd_put) */
    /* for warpgroup.cc: barriers that are initialised; copies that are not waited for */
    int barriers, boxes;
    unsigned char *barrier_at[MOST_BARRIERS];
    /* threads that wait for copies which have not started; a line of one */
    int barred, barred_at;
    int products[THREADS];    /* for warpgroup.cc, not waited for */
    unsigned random;
    /* the process */
    fibre fibres[THREADS];
    unsigned char *stacks;
    int nfibres; /* that have a stack */
    void *host;  /* the caller's stack */
    char *error;
    size_t error_size;
    bool failed, busy;
};
static state now;

/* ---- fibres ---- */

/* Saves the callee-saved registers on this stack and its end in *from, and switches to another. */
#if defined(__x86_64__)
extern "C" void kd_switch(void **from, void *to) __attribute__((visibility("hidden")));
asm(".text\n.hidden kd_switch\n.type kd_switch, @function\nkd_switch:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
    ".size kd_switch, . - kd_switch\n");
static void *first_frame(unsigned char *end, void (*body)()) {
    void **top = (void **)end; /* a multiple of 16 */
    *--top = nullptr;          /* where body would return to */
    *--top = (void *)body;
    for (int i = 0; i < 6; i++) *--top = nullptr;
    return top;
}
#elif defined(__aarch64__)
extern "C" void kd_switch(void **from, void *to) __attribute__((visibility("hidden")));
asm(".text\n.hidden kd_switch\n.type kd_switch, %function\nkd_switch:\n"
    "sub sp, sp, #160\n"
    "stp x19, x20, [sp]\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\nstp x25, x26, [sp, "
    "#48]\n"
    "stp x27, x28, [sp, #64]\nstp x29, x30, [sp, #80]\n"
    "stp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\nstp d12, d13, [sp, #128]\nstp d14, d15, [sp, "
    "#144]\n"
    "mov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
    "ldp x19, x20, [sp]\nldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\nldp x25, x26, [sp, "
    "#48]\n"
    "ldp x27, x28, [sp, #64]\nldp x29, x30, [sp, #80]\n"
    "ldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\nldp d12, d13, [sp, #128]\nldp d14, d15, [sp, "
    "#144]\n"
    "add sp, sp, #160\nret\n.size kd_switch, . - kd_switch\n");
static void *first_frame(unsigned char *end, void (*body)()) {
    void **top = (void **)(end - 160);
    for (int i = 0; i < 20; i++) top[i] = nullptr;
    top[11] = (void *)body; /* x30 */
    return top;
}
#else
} /* namespace emulated */
#include <ucontext.h>
namespace emulated {
static void kd_switch(void **from, void *to) {
    ucontext_t here; /* on the stack that is left */
    *from = &here;
    swapcontext(&here, (ucontext_t *)to);
}
static void *first_frame(unsigned char *end, void (*body)()) {
    enum { SIZE = STACK / 2 };
    ucontext_t *c = (ucontext_t *)(end - (sizeof *c + 63) / 64 * 64);
    getcontext(c);
    c->uc_stack.ss_sp = (unsigned char *)c - SIZE, c->uc_stack.ss_size = SIZE, c->uc_link = nullptr;
    makecontext(c, body, 0);
    return c;
}
#endif

/* xorshift (Marsaglia, Journal of Statistical Software 8(14), 2003) */
static unsigned draw(unsigned below) {
    unsigned r = now.random;
    r ^= r << 13, r ^= r >> 17, r ^= r << 5;
    now.random = r;
    return (unsigned)((unsigned long)r * below >> 32);
}

/* Ends the launch; does not return. */
static void fail(const char *format, ...) {
    __builtin_va_list args;
    int n = __builtin_snprintf(now.error, now.error_size,
                               "kernel %s, block %u of %u, thread %u: ", now.name, now.block.x,
                               now.blocks.x, now.thread.x);
    __builtin_va_start(args, format);
    if (n >= 0 && (size_t)n < now.error_size)
        __builtin_vsnprintf(now.error + n, now.error_size - n, format, args);
    __builtin_va_end(args);
    now.failed = true;
    kd_switch(&now.running->top, now.host);
}

static void body();

/* The end of a fibre's stack. Stacks have different offsets in a page, to spread them over cache
 * sets. */
static unsigned char *stack_end(int fibre) {
    return now.stacks + (size_t)(fibre + 1) * (GUARD + STACK) - fibre * 704 % (32 << 10) / 64 * 64;
}

static fibre *new_fibre() {
    if (now.nunused) return now.unused[--now.nunused];
    fibre *f = &now.fibres[now.nfibres];
    unsigned char *stack = now.stacks + (size_t)now.nfibres * (GUARD + STACK) + GUARD;
    if (mprotect(stack, STACK, READ_WRITE) != 0) fail("no memory for the stacks of its threads");
    f->top = first_frame(stack_end(now.nfibres++), body);
    return f;
}

static void deadlock() {
    for (int w = 0; w < now.n / WARP; w++)
        if (now.warps[w].arrived)
            return fail("deadlock: %d of the %d lanes of warp %d wait in line %d for the others "
                        "(%d threads "
                        "of the block have ended)",
                        now.warps[w].arrived, __builtin_popcount(now.warps[w].mask), w,
                        now.warps[w].line, now.ended);
    if (now.barred)
        fail("deadlock: %d threads wait in line %d for copies that nobody begins", now.barred,
             now.barred_at);
    fail("deadlock: %d of %d threads wait at the barrier in line %d, %d have ended",
         now.all.arrived, now.n, now.all.line, now.ended);
}

static void run(int thread) {
    now.thread.x = thread;
    now.running->thread = thread;
}

static void wake(fibre *f) {
    int w = f->thread / WARP;
    now.warps[w].ready[now.warps[w].nready++] = f;
    now.ready |= 1u << now.rank[w];
}

/* One that can continue: any of the warp at a rank. */
static fibre *take(int rank) {
    warp *w = &now.warps[now.warp_at[rank]];
    int i = (int)draw(w->nready);
    fibre *f = w->ready[i];
    w->ready[i] = w->ready[--w->nready];
    if (!w->nready) now.ready &= ~(1u << rank);
    return f;
}

/* Switches to another thread, which has not started or can continue. Two orders find different
 * mistakes: threads of the first warp that can continue, so that it runs ahead of the others
 * until it must wait; or any threads. `own`: this fibre's thread has ended, so a thread that
 * starts may have the fibre. */
static void go_on(bool own) {
    fibre *self = now.running;
    int fresh = now.n - now.started, rank = now.ready ? __builtin_ctz(now.ready) : WARPS;
    if (!fresh && !now.ready) {
        if (now.ended < now.n) deadlock();
        now.unused[now.nunused++] = self;
        kd_switch(&self->top, now.host);
        return; /* the next CTA */
    }
    if (now.ready && !now.by_warp) {
        unsigned by = draw(WARPS), swizzled = now.ready >> by | now.ready << (WARPS - by) % WARPS;
        rank = (__builtin_ctz(swizzled) + by) % WARPS;
    }
    if (fresh && (!now.ready || (now.by_warp ? now.started / WARP <= rank : draw(2)))) {
        if (!own) now.running = new_fibre();
        run(now.order[now.started++]);
    } else {
        if (own) now.unused[now.nunused++] = self;
        now.running = take(rank);
        now.thread.x = now.running->thread;
    }
    if (now.running != self) kd_switch(&self->top, now.running->top);
}

/* A tensor map (ir/kernel/tensor_map.h: dl_emulated_map). */
struct map {
    unsigned long address;
    int mark, word, swizzle, box[3];
    long size[5], step[4];
    short low[3], high[3];
    unsigned char hop[3], windows;
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
    __builtin_memset(now.unfenced, 0, sizeof now.unfenced);
    __builtin_memset(now.products, 0, sizeof now.products);
    now.started = now.ended = now.all.arrived = 0, now.ready = 0;
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

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
    ceilf(float), rintf(float), fabsf(float), powf(float, float), atan2f(float, float), fmaxf(float, float),
    fminf(float, float), fmaf(float, float, float);
double exp(double), exp2(double), log(double), log2(double), expm1(double), log1p(double),
    sqrt(double), tanh(double), erf(double), erfc(double), sin(double), cos(double), floor(double),
    ceil(double), rint(double), fabs(double), pow(double, double), atan2(double, double), fmax(double, double),
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
    barrier all, first; /* first: of the first threads alone */
    copies copying[THREADS];
    unsigned fences[THREADS]; /* number of fences; or the thread has ended */
    bool puts;                /* words are stored one by one (kd_put) */
    /* for warpgroup.cc: barriers that are initialised; copies and sums that are not waited for;
     * registers that warpgroups ask for */
    int barriers, boxes, adding, registers;
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
    if (now.first.arrived)
        fail("deadlock: %d threads wait at the barrier of the first in line %d, %d have ended",
             now.first.arrived, now.first.line, now.ended);
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
} /* namespace emulated */

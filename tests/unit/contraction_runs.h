/* Graphs whose contractions are CUDA kernels, emulated, each by itself compared with the
 * interpreter, on the same operands: what tests of such kernels share. */
#ifndef DL_CONTRACTION_RUNS_H
#define DL_CONTRACTION_RUNS_H
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "compiler/cuda/cuda.h"
#include "compiler/cuda/emulate.h"
#include "ir/interp/interp.h"
#include "ir/kernel/tensor_map.h"
#include "runtime/base/convert.h"
#include "tests/cache.h"
#include "tests/check.h"
#include "tests/unit/cuda_text.h"

typedef int launch_fn(const char *kernel, int nargs, void *const *args, unsigned grid,
                      unsigned block, unsigned shared, unsigned seed, char *error, size_t size);

typedef struct {
    const char *what;
    dl_interp *in;
    launch_fn *launch;
    double most;                     /* relative distance */
    int kernels, boxed;              /* operands that tensor maps bring */
    int64_t numbers, infinite, nans; /* elements in the interpreter */
} run;

/* The element at each logical index, row by row, in memory as its type has it. */
static void move(const dl_type *t, void *memory, double *numbers, bool to_memory) {
    int64_t at[DL_MAX_RANK] = {0};
    int bytes = dl_dtype_bytes(t->dtype);
    for (int64_t i = 0; i < dl_type_count(t); i++) {
        char *p = (char *)memory + dl_type_offset(t, at) * bytes;
        if (to_memory)
            dlr_convert(t->dtype, p, DL_F64, &numbers[i], 1);
        else
            dlr_convert(DL_F64, &numbers[i], t->dtype, p, 1);
        for (int k = t->rank - 1; k >= 0 && ++at[k] == t->axis[k].size; k--) at[k] = 0;
    }
}

static void *aligned(int64_t bytes) {
    void *p = NULL;
    if (posix_memalign(&p, 256, (size_t)(bytes + !bytes))) abort();
    memset(p, 0xff, (size_t)bytes);
    return p;
}

/* One node: interpreted, and by its kernel. */
static void check_node(run *r, const dl_node *n, const dl_emitted *code) {
    const dl_kernel *k = n->kernel;
    dl_error err = {0};
    void *memory[64], *args[64 + DL_MAP_MOST], **after = args + code->nmaps;
    union {
        _Alignas(DL_MAP_ALIGN) char bytes[DL_MAP_BYTES];
        dl_emulated_map map;
    } maps[DL_MAP_MOST];
    DL_CHECK(k->params.n + 1 < 64);
    for (int i = 0; i < k->params.n; i++) {
        const dl_type *t = &k->params.at[i].type;
        memory[i] = aligned(dl_type_bytes(t)), after[i] = &memory[i];
        if (i < k->nin) move(t, memory[i], dl_interp_data(r->in, n->in[i]), true);
    }
    memory[k->params.n] = aligned(code->workspace), after[k->params.n] = &memory[k->params.n];
    for (int i = 0; i < code->nmaps; i++) {
        const dl_tensor_map *m = &code->maps[i];
        maps[i].map = dl_tensor_map_emulated(m, (uint64_t)(uintptr_t)memory[m->param]),
        args[i] = &maps[i];
        CHECK(dl_tensor_map_fits(m, dl_type_bytes(&k->params.at[m->param].type)), "%s", r->what);
    }
    r->boxed += code->nmaps;
    bool ok = true;
    for (int phase = 0; phase < code->phases && ok; phase++) {
        char name[128], error[512] = "";
        snprintf(name, sizeof name, "%s_%d", k->name, phase);
        int front = phase ? 0 : code->nmaps;
        ok = !r->launch(name, front + k->params.n + 1, phase ? after : args,
                        (unsigned)code->items[phase], (unsigned)code->threads[phase],
                        (unsigned)code->shared[phase], (unsigned)(phase + 1), error, sizeof error);
        CHECK(ok, "%s, %s: %s", r->what, name, error);
    }
    CHECK(dl_interp_node(r->in, n, &err), "%s", err.message);
    for (int i = k->nin; i < k->params.n && ok; i++) {
        const dl_type *t = &k->params.at[i].type;
        int64_t count = dl_type_count(t);
        double *got = malloc((size_t)(count + 1) * sizeof *got), off = 0, all = 1e-30;
        const double *want = dl_interp_data(r->in, &n->out[i - k->nin]);
        move(t, memory[i], got, false);
        for (int64_t j = 0; j < count; j++) {
            r->numbers += isfinite(want[j]), r->infinite += isinf(want[j]),
                r->nans += isnan(want[j]);
            if ((isinf(want[j]) && got[j] == want[j]) || (isnan(want[j]) && isnan(got[j])))
                continue;
            off += (got[j] - want[j]) * (got[j] - want[j]), all += want[j] * want[j];
        }
        CHECK(sqrt(off / all) <= r->most, "%s, %s, output %d of %s: %.2e", r->what, k->name,
              i - k->nin, dl_type_text(t), sqrt(off / all));
        free(got);
    }
    for (int i = 0; i <= k->params.n; i++) free(memory[i]);
    r->kernels++;
}

static bool has_contraction(const dl_node *n) {
    return n->kernel && dl_kernel_anchor(n->kernel) >= 0;
}

/* The kernel's variant whose name begins so, if it is not the first; or NULL. */
static const char *variant_of(const dl_kernel *k, const dl_target *t, const char *begins) {
    const char *names[DL_MOST_VARIANTS];
    int n = dl_cuda_variants(k, t, names), found = -1;
    for (int i = n - 1; i >= 0; i--)
        if (strncmp(names[i], begins, strlen(begins)) == 0) found = i;
    return found > 0 ? names[found] : NULL;
}

/* The graph's contractions, each as the variant whose name begins so where it has one (NULL: the
 * model's choice). `code`: by node; all that they need goes to `needs`. */
static bool emit_graph(const char *what, const dl_graph *g, const dl_target *t, const char *variant,
                       dl_buf *text, dl_emitted *code, dl_emitted *needs) {
    dl_error err = {0};
    bool ok = true;
    for (int i = 0; i < g->nodes.n && ok; i++) {
        const dl_kernel *k = g->nodes.at[i]->kernel;
        if (!has_contraction(g->nodes.at[i])) continue;
        const char *name = variant ? variant_of(k, t, variant) : NULL;
        ok = emit_cuda_text(text, k, t, name, &code[i], &err);
        CHECK(ok, "%s: %s", what, err.message);
        for (int n = 0; n < DL_NEEDS; n++) needs->needs[n] |= code[i].needs[n];
    }
    return ok;
}

/* An object of what emit_graph wrote, maybe for several graphs; NULL: it is no such one. */
static void *open_text(const char *what, dl_arena *arena, const dl_target *t, const dl_buf *text,
                       const dl_emitted *needs) {
    dl_error err = {0};
    dl_buf whole = {0};
    dl_cuda_open(&whole, t, needs);
    dl_putn(&whole, text->at, text->n);
    dl_plan_object object = {.source = whole.at};
    int compiled = 0;
    void *library = NULL;
    bool ok = dl_cuda_emulate(arena, 1, &object, NULL, &compiled, &err);
    CHECK(ok, "%s: %s", what, err.message);
    if (ok) {
        char path[] = "/tmp/dl_tiles_XXXXXX";
        int fd = mkstemp(path);
        CHECK(fd >= 0 && write(fd, object.image, object.bytes) == (ssize_t)object.bytes, "%s",
              path);
        close(fd);
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        CHECK(library, "%s", dlerror());
        unlink(path);
    }
    dl_buf_free(&whole);
    return library;
}

/* Runs a graph of an object; r->in knows its variables. */
static void run_graph(run *r, void *library, const dl_graph *g, const dl_emitted *code) {
    dl_error err = {0};
    *(void **)&r->launch = dlsym(library, "dl_emulated_launch");
    for (int i = 0; i < g->nodes.n; i++)
        if (has_contraction(g->nodes.at[i]))
            check_node(r, g->nodes.at[i], &code[i]);
        else
            CHECK(dl_interp_node(r->in, g->nodes.at[i], &err), "%s", err.message);
}

/* The emulated device, and a cache (tests/cache.h); NULL, and says so, where there is no such
 * target. */
static const dl_target *begin(char *dir) {
    dl_error err = {0};
    const dl_target *t = dl_target_find(NULL, "cuda:sm_90a:emulated", &err);
    if (!t)
        dl_test_skip("%s", err.message);
    else if (!test_cache(dir))
        abort();
    return t;
}
#endif

/* A convolution whose input has more than 2^31 positions, and its weight's gradient: a plan's
 * launches run here on memory that nobody has to have, since what is only read and never written is
 * the system's one page of zeros. On CPUs: it calls the objects' functions itself. */
#include <sys/mman.h>

#include "ir/base/object.h"
#include "tests/unit/compiled.h"

enum {
    N = 3,
    C = 32,
    O = 16,
    SIDE = 32769,
    STRIDE = 64
};                                             /* the last place of a line is one that is read */
static const int64_t large = (int64_t)1 << 33; /* bytes */

static const char text[] =
    "graph @train {\n  param $w = %0 : f32[O=16, C=32, kH=1, kW=1] init zero\n"
    "  input $x = %1 : f32[N=3, C=32, H=32769, W=32769]\n"
    "  %2 = conv $x, $w {stride=[64, 64], pad_lo=[0, 0], pad_hi=[0, 0]} : f32[N=3, C=16, H=513, "
    "W=513]\n"
    "  %3 = sum %2 {over=[N, C, H, W]} : f32[]\n  loss \"loss\" = %3\n}\n";

/* All items of a launch, one after the other. */
static void run_launch(const dl_plan *p, const dl_plan_launch *l, char *arena, char *scratch) {
    const dl_plan_kernel *k = &p->kernels.at[l->kernel];
    const dl_plan_object *o = &p->objects.at[k->object];
    dl_error err = {0};
    dl_object object;
    char *arg[16];
    CHECK(k->nargs <= 16 && dl_object_load(&object, o->image, o->bytes, &err), "%s", err.message);
    for (int i = 0; i < k->nargs; i++) arg[i] = arena + l->args[i];
    for (int phase = 0; phase < k->phases; phase++) {
        void *address = dl_object_find(&object, dl_format(p->arena, "%s_%d", k->symbol, phase));
        void (*item)(char *const *, int64_t, char *, char *);
        CHECK(address != NULL, "%s", k->symbol);
        if (!address) break;
        memcpy(&item, &address, sizeof item);
        for (int64_t u = 0; u < k->items[phase]; u++)
            item(arg, u, scratch, scratch + dl_plan_round(p->scratch_bytes));
    }
    dl_object_unload(&object);
}

/* Runs what reads the input's copy by channels, whose last place of all holds a 3 in each; not the
 * copying. */
static void run_program(const dl_plan *p, const dl_plan_program *program, char *arena,
                        char *scratch) {
    for (int i = 0; i < program->launches.n; i++) {
        const dl_plan_launch *l = &program->launches.at[i];
        const dl_plan_kernel *k = &p->kernels.at[l->kernel];
        int some = 0, which = 0;
        for (int a = 0; a < k->nargs; a++)
            if (k->arg_bytes[a] > large) some++, which = a;
        if (some > 1) continue;
        float *last = (float *)(arena + l->args[which] + k->arg_bytes[which]) - C;
        for (int c = 0; some && c < C; c++) last[c] = 3;
        run_launch(p, l, arena, scratch);
    }
}

static void check_numbers(const dl_plan *p, const dl_plan_program *program, const char *arena) {
    int gradients = 0;
    for (int i = 0; i < program->results.n; i++) {
        const dl_plan_result *r = &program->results.at[i];
        const float *v = (const float *)(arena + r->offset);
        if (r->role == DL_RESULT_LOSS)
            CHECK(*v == 3 * C * O, "%s: the loss is %g", p->target, (double)*v);
        if (r->role != DL_RESULT_GRAD) continue;
        gradients++;
        for (int64_t at[DL_MAX_RANK] = {0}; at[0] < O; at[0]++)
            for (at[1] = 0; at[1] < C; at[1]++) {
                float g = v[dl_type_offset(&r->type, at)];
                CHECK(g == 3, "%s: gradient %g", p->target, (double)g);
            }
    }
    CHECK(gradients == 1, "%d gradients", gradients);
}

static void test_target(const char *target) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_plan *p = compile_text(arena, text, target, NULL);
    if (p) {
        size_t bytes = (size_t)p->arena_bytes,
               more = (size_t)(dl_plan_round(p->scratch_bytes) + p->workspace_bytes);
        CHECK((int64_t)bytes > 4 * (int64_t)N * C * SIDE * SIDE, "%zu bytes", bytes);
        char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        char *scratch =
            aligned_alloc(DL_PLAN_ALIGN, (more + DL_PLAN_ALIGN) / DL_PLAN_ALIGN * DL_PLAN_ALIGN);
        if (memory != MAP_FAILED) {
            const dl_plan_program *program = dl_plan_program_find(p, "train");
            madvise(memory, bytes, MADV_NOHUGEPAGE);
            for (int i = 0; i < p->vars.n; i++)
                for (int64_t n = 0;
                     p->vars.at[i].role == DL_VAR_PARAM && n < dl_type_stored(&p->vars.at[i].type);
                     n++)
                    ((float *)(memory + p->vars.at[i].offset))[n] = 1;
            run_program(p, program, memory, scratch);
            check_numbers(p, program, memory);
            munmap(memory, bytes);
        } else {
            dl_test_skip("%s: this machine does not lend addresses for %zu bytes", target, bytes);
        }
        free(scratch);
    }
    dl_arena_free(arena);
}

int main(void) {
    char dir[] = "/tmp/dl_large_XXXXXX";
    if (!test_cache(dir)) return 1;
    for (int i = 0; i < COMPILED_CPUS; i++) test_target(compiled_targets[i]);
    return dl_test_end();
}

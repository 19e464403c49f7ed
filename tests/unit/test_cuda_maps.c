/* Products whose operands come by tensor maps, as plans of their own: described in the plan,
 * through its file, made when it is loaded, launched in captured graphs over the emulated driver;
 * compared with the interpreter, at random sizes. What is refused: maps that no driver makes, a
 * driver that makes none, code that takes other arguments. */
#include "compiler/cuda/nvrtc.h"
#include "ir/plan/cubin.h"
#include "tests/emulator/cuda_emulator.h"
#include "tests/unit/mapped.h"

/* y = x v, for each of a batch of `b`; which of them lie along the terms. `shared`: v is one for
 * all. */
typedef struct {
    dl_dtype type; /* f32: in TF32 */
    int b, m, n, k;
    bool along[2], shared;
    const char *last; /* of %2 */
} product;

static const char *operand_text(dl_arena *arena, const product *p, int o) {
    int size = o ? p->n : p->m;
    char name = "MN"[o];
    const char *lies = p->along[o] ? dl_format(arena, "%c=%d, K=%d", name, size, p->k)
                                   : dl_format(arena, "K=%d, %c=%d", p->k, name, size);
    return o && p->shared ? lies : dl_format(arena, "B=%d, %s", p->b, lies);
}

static const char *text_of(dl_arena *arena, const product *p) {
    const char *type = dl_dtype_name(p->type),
               *y = dl_format(arena, "%s[B=%d, M=%d, N=%d]", type, p->b, p->m, p->n);
    return dl_format(
        arena,
        "graph @predict {\n  input $x = %%0 : %s[%s]\n  input $v = %%1 : %s[%s]\n"
        "  %%2 = contract $x, $v {over=[K]} : %s\n  %%3 = %s : %s\n  output \"y\" = %%3\n}\n",
        type, operand_text(arena, p, 0), type, operand_text(arena, p, 1), y, p->last, y);
}

static dl_plan *plan_of(dl_arena *arena, const product *p, const dl_target *t, bool link) {
    return mapped_plan(arena, text_of(arena, p), t, link);
}

static void check_product(const char *dir, const product *p, const dl_target *t, int most_maps) {
    dl_arena *arena = dl_arena_new(NULL);
    mapped_check(dir, text_of(arena, p), t, most_maps);
    dl_arena_free(arena);
}

static void test_random(const char *dir, const dl_target *t) {
    rng r = {3};
    for (int i = 0; i < 14; i++) {
        static const dl_dtype types[] = {DL_BF16, DL_F16, DL_F32};
        product p = {
            .type = types[i % 3], .b = pick(&r, 1, 3), .last = i % 2 ? "relu %2" : "add %2, %2"};
        bool floats = p.type == DL_F32;
        int piece = 16 / dl_dtype_bytes(p.type);
        for (int o = 0; o < 2; o++) p.along[o] = floats || pick(&r, 0, 1);
        p.shared = pick(&r, 0, 2) == 0;
        p.k = pick(&r, 1, 40) * piece, p.m = pick(&r, 1, 24) * piece, p.n = pick(&r, 1, 36) * piece;
        if (dl_test_takes((unsigned)i)) check_product(dir, &p, t, 2);
    }
    /* one operand alone can: lines of 17 halves, floats along their rows */
    check_product(dir, &(product){DL_BF16, 1, 40, 17, 64, {true, false}, false, "relu %2"}, t, 1);
    check_product(dir, &(product){DL_F32, 2, 40, 24, 68, {false, true}, false, "relu %2"}, t, 1);
    /* long sums, which blocks share */
    check_product(dir, &(product){DL_BF16, 1, 16, 24, 4096, {true, true}, false, "relu %2"}, t, 2);
}

/* ---- what is refused ---- */

static const product square = {DL_BF16, 1, 128, 64, 64, {true, true}, false, "relu %2"};

static void test_damaged(const dl_target *t) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_plan *p = plan_of(arena, &square, t, true);
    dl_plan_entry *e = entry_with_maps(p);
    CHECK(e && dl_plan_check(p, &(dl_error){0}));
    dl_tensor_map good = e ? e->maps.at[0] : (dl_tensor_map){0};
    for (int i = 0; e && i < 10; i++) {
        dl_error err = {0};
        dl_tensor_map *m = &e->maps.at[0];
        *m = good;
        if (i == 0) m->param = p->kernels.at[0].nargs;
        if (i == 1) m->offset = 8;
        if (i == 2) m->step[0] += 8;
        if (i == 3) m->size[1]++;
        if (i == 4) m->size[2]++;
        if (i == 5) m->box[1] = 257;
        if (i == 6) m->box[0] *= 2;
        if (i == 7) m->swizzle = 32;
        if (i == 8) m->dtype = DL_I32;
        if (i == 9) m->step[1] = (int64_t)1 << 40;
        CHECK(!dl_plan_check(p, &err) && strstr(err.message, "entry"), "%d: %s", i, err.message);
    }
    if (e) {
        dl_error err = {0};
        e->maps.at[0] = good, e->maps.n--;
        CHECK(!dl_plan_check_code(p, &err) && strstr(err.message, "arguments"), "a map less: %s",
              err.message);
        e->maps.n++;
        CHECK(dl_plan_check_code(p, &(dl_error){0}));
    }
    dl_arena_free(arena);
}

/* A driver without the function: nothing is compiled for it, and no plan that needs it is opened.
 */
static void test_old_driver(const dl_target *t) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    dl_plan *p = plan_of(arena, &square, t, true);
    emulator()->set((cuda_emulator_options){.no_maps = true});
    dlr_exec *exec = p ? dlr_exec_open(p, (dlr_exec_options){.threads = 1}, &err) : NULL;
    CHECK(!exec && err.code == DL_RESOURCE && strstr(err.message, "cuTensorMapEncodeTiled"), "%s",
          err.message);
    dlr_exec_close(exec);
    emulator()->set((cuda_emulator_options){0});
    dl_target without = *t;
    without.has_maps = false;
    p = plan_of(arena, &square, &without, true);
    CHECK(p && !entry_with_maps(p));
    dl_arena_free(arena);
}

/* ---- the operand's demands ---- */

static void test_demands(const dl_target *t) {
    static const struct {
        product p;
        int maps;
    } of[] = {
        {{DL_BF16, 1, 128, 64, 64, {true, true}, false, "relu %2"}, 2},
        {{DL_BF16, 1, 128, 64, 60, {true, true}, false, "relu %2"}, 0}, /* lines of 120 bytes */
        {{DL_BF16, 1, 128, 60, 64, {true, false}, false, "relu %2"}, 1},
        {{DL_BF16, 3, 128, 64, 64, {true, true}, true, "relu %2"}, 2},
        {{DL_F32, 1, 128, 64, 64, {true, false}, false, "relu %2"}, 1}, /* no map turns floats */
        {{DL_F32, 1, 128, 64, 64, {false, false}, false, "relu %2"}, 0}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        dl_arena *arena = dl_arena_new(NULL);
        const dl_plan *p = plan_of(arena, &of[i].p, t, false);
        const dl_plan_entry *e = entry_with_maps(p);
        CHECK(p && (e ? e->maps.n : 0) == of[i].maps, "%zu: %d maps", i, e ? e->maps.n : 0);
        dl_arena_free(arena);
    }
}

/* ---- machine code ---- */

/* The five models by tensor maps, wherever operands can come so: nothing spills, and code and
 * launches agree. */
static void test_models(void) {
    static const char *const models[][6] = {
        {"--model=models/unet.dl", "--config=base", "--local_batch_size=64", "--amp_mode=bf16"},
        {"--model=models/vit.dl", "--config=base", "--local_batch_size=16", "--amp_mode=bf16"},
        {"--model=models/resnet.dl", "--n_classes=100", "--input_shape=[224,224,3]",
         "--local_batch_size=256", "--amp_mode=bf16"},
        {"--model=models/cnn_regressor.dl", "--config=test"},
        {"--model=models/cnn_classifier.dl", "--input_shape=[32,32,3]", "--local_batch_size=64"}};
    int all = 0, all_images = 0;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        dl_arena *arena = dl_arena_new(NULL);
        dl_error err = {0};
        char *argv[8] = {"test"};
        int argc = 1, maps = 0, images = 0;
        for (; models[i][argc - 1]; argc++) argv[argc] = (char *)(uintptr_t)models[i][argc - 1];
        dl_config *config = dl_config_open(arena, argc, argv, NULL, &err);
        dl_session *session = config ? dl_session_open(arena, config, 1, NULL, &err) : NULL;
        dl_compile_options opt;
        bool ok = session && dl_session_options(session, "cuda:sm_90a", &opt, &err);
        dl_tuner tuner = {.choose = choose_maps, .user = ok ? (void *)(uintptr_t)opt.target : NULL};
        opt.tuner = &tuner;
        dl_plan *p = ok ? dl_session_compile(session, &opt, &err) : NULL;
        dl_resources *of = p ? DL_NEWS(arena, dl_resources, p->kernels.n + 1) : NULL;
        ok = p && dl_plan_check(p, &err) && dl_plan_check_code(p, &err) &&
             opt.target->backend->resources(arena, p, of, &err);
        CHECK(ok, "%s: %s", models[i][0], err.message);
        for (int k = 0; ok && k < p->kernels.n; k++) {
            const dl_plan_kernel *of_plan = &p->kernels.at[k];
            for (int e = 0; e < of_plan->entries.n; e++) {
                const dl_plan_entry *entry = &of_plan->entries.at[e];
                maps += entry->maps.n;
                for (int m = 0; m < entry->maps.n; m++) images += entry->maps.at[m].windows > 0;
            }
            CHECK(of[k].spill_bytes == 0, "%s: %s (%s) spills", models[i][0], of_plan->name,
                  of_plan->variant);
        }
        if (getenv("DL_TEST_SHOW"))
            printf("%s: %d maps, %d of images\n", models[i][0], maps, images);
        all += maps, all_images += images;
        dl_session_close(session);
        dl_arena_free(arena);
    }
    CHECK(all >= 100 && all_images >= 30, "%d tensor maps in all, %d of images", all, all_images);
}

/* Maps of 128 bytes stand in front, as the cubin says; nothing spills. */
static void test_machine_code(void) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_nvrtc nvrtc;
    dl_error err = {0};
    const dl_target *t = dl_target_find(NULL, "cuda:sm_90a", &err);
    if (!t || !dl_nvrtc_find(arena, &nvrtc, &err)) {
        dl_test_skip("%s", err.message);
        dl_arena_free(arena);
        return;
    }
    dl_plan *p = plan_of(arena, &square, t, true);
    dl_plan_entry *e = entry_with_maps(p);
    dl_cubin cubin;
    CHECK(e && dl_plan_check_code(p, &err), "%s", err.message);
    bool ok = e && dl_cubin_read(arena, p->objects.at[e->object].image,
                                 p->objects.at[e->object].bytes, &cubin, &err);
    const dl_cubin_kernel *k = ok ? dl_cubin_find(&cubin, e->symbol) : NULL;
    CHECK(k && k->params[0].bytes == 128 && k->params[1].offset == k->params[0].offset + 128 &&
              k->params[1].bytes == 128 && k->params[2].offset == k->params[0].offset + 256 &&
              !k->spill_loads && !k->spill_stores,
          "%s", err.message);
    if (e) e->maps.n--;
    CHECK(!dl_plan_check_code(p, &err) && strstr(err.message, "tensor maps"), "%s", err.message);
    test_models();
    dl_arena_free(arena);
}

int main(void) {
    char dir[] = "/tmp/dl_maps_XXXXXX";
    dl_error err = {0};
    if (!test_cache(dir)) return 1;
    const dl_target *t = mapped_target(&err);
    test_machine_code();
    if (!t) {
        dl_test_skip("%s", err.message);
        return 77;
    }
    test_demands(t);
    test_random(dir, t);
    test_damaged(t);
    test_old_driver(t);
    return dl_test_end();
}

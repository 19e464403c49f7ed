/* Evaluation's kernels are compiled after those of training, in a thread of their own: the plan is
 * the one that is compiled at once, and the cache gets it when it is whole. Needs NVRTC, no GPU. */
#include <stdlib.h>

#include "compiler/cuda/nvrtc.h"
#include "compiler/jit/cache.h"
#include "compiler/session.h"
#include "compiler/target/backend.h"
#include "ir/base/dirs.h"
#include "tests/check.h"

/* A plan for sm_90a of a small model, by the cache or compiled; *cached: by the cache. */
static dl_plan *plan_of(dl_arena *arena, const char *target, bool late, bool *cached,
                        dl_error *err) {
    char *argv[] = {"test", "--model=tests/data/small.dl", "--data_size=8", "--local_batch_size=2",
                    NULL};
    dl_config *c = dl_config_open(arena, 4, argv, NULL, err);
    dl_session *s = c ? dl_session_open(arena, c, 1, NULL, err) : NULL;
    dl_compile_options opt;
    dl_plan *p = NULL;
    if (s && dl_session_options(s, target, &opt, err)) {
        opt.late = late;
        p = dl_session_plan(s, &opt, cached, err);
        if (p) dl_arena_move(p->arena, arena);
    }
    dl_session_close(s);
    return p;
}

/* Objects without an image. */
static int missing(const dl_plan *p) {
    int n = 0;
    for (int i = 0; i < p->objects.n; i++) n += !p->objects.at[i].image;
    return n;
}

/* Whether an object has code of the program. */
static bool serves(dl_arena *arena, const dl_plan *p, const char *program, int object) {
    const dl_plan_program *g = dl_plan_program_find(p, program);
    bool any = false;
    for (int i = 0; i < g->launches.n; i++) {
        const dl_plan_kernel *k = &p->kernels.at[g->launches.at[i].kernel];
        for (int phase = 0; phase < k->phases; phase++)
            any |= dl_plan_entry_of(arena, k, phase).object == object;
    }
    return any;
}

static void test_plan(const char *dir) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    bool cached = true;
    dl_plan *p = plan_of(arena, "cuda:sm_90a", true, &cached, &err);
    CHECK(p && !cached && p->late, "%s", err.message);
    if (!p || !p->late) return;
    CHECK(missing(p) > 0 && missing(p) < p->objects.n, "%d of %d", missing(p), p->objects.n);
    for (int i = 0; i < p->objects.n; i++)
        CHECK(p->objects.at[i].image || !serves(arena, p, "train", i), "train needs object %d", i);
    CHECK(dl_plan_check_code(p, &err), "%s", err.message);
    CHECK(p->late->finish(p->late, &err) && p->late->finish(p->late, &err), "%s", err.message);
    CHECK(missing(p) == 0 && dl_plan_check_code(p, &err), "%s", err.message);
    p->late->end(p->late);
    dl_plan *again = plan_of(arena, "cuda:sm_90a", true, &cached, &err);
    CHECK(again && cached && !again->late && missing(again) == 0, "whole in the cache: %s",
          err.message);
    /* compiled at once, in an empty cache, it is the same */
    CHECK(dl_remove_tree(dir, &err), "%s", err.message);
    dl_plan *once = plan_of(arena, "cuda:sm_90a", false, &cached, &err);
    CHECK(once && !cached && !once->late && missing(once) == 0 && once->objects.n == p->objects.n,
          "%s", err.message);
    for (int i = 0; once && i < once->objects.n; i++)
        CHECK(
            once->objects.at[i].key == p->objects.at[i].key &&
                once->objects.at[i].bytes == p->objects.at[i].bytes &&
                !memcmp(once->objects.at[i].image, p->objects.at[i].image, p->objects.at[i].bytes),
            "object %d", i);
    dl_arena_free(arena);
}

/* The end of a run that has not evaluated waits for the thread, and needs no more. */
static void test_end(const char *dir) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    bool cached;
    CHECK(dl_remove_tree(dir, &err), "%s", err.message);
    dl_plan *p = plan_of(arena, "cuda:sm_90a", true, &cached, &err);
    CHECK(p && p->late, "%s", err.message);
    if (p && p->late) p->late->end(p->late), p->late->end(p->late);
    dl_arena_free(arena);
}

/* A CPU's plan has one source, and nothing that is late. */
static void test_cpu(void) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    bool cached;
    dl_plan *p = plan_of(arena, "cpu", true, &cached, &err);
    CHECK(p && !p->late && missing(p) == 0, "%s", err.message);
    dl_arena_free(arena);
}

int main(void) {
    char dir[] = "/tmp/dl_late_XXXXXX";
    dl_arena *arena = dl_arena_new(NULL);
    dl_nvrtc nvrtc;
    dl_error err = {0};
    if (!mkdtemp(dir) || setenv("DLR_CACHE_DIR", dl_format(arena, "%s/c", dir), 1)) return 1;
    const char *cache = dl_strdup(arena, getenv("DLR_CACHE_DIR"));
    test_cpu();
    if (dl_nvrtc_find(arena, &nvrtc, &err)) {
        test_plan(cache);
        test_end(cache);
    } else
        dl_test_skip("%s", err.message);
    dl_remove_tree(dir, &err);
    dl_arena_free(arena);
    return dl_test_end();
}

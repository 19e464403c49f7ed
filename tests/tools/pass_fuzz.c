/* Do passes keep the meaning? Random graphs, before against behind, on the interpreter.
 *   pass_fuzz PASSES SEEDS [BASE]     BASE: passes that both run first, "" or "autodiff" for gradients
 * for example: pass_fuzz simplify,layout,fuse 1000 autodiff */
#include "passes/pass.h"
#include "tests/check.h"
#include "tests/unit/random_compare.h"

static dl_module *make(uint64_t seed, const char *const *passes, int n, dl_error *err) {
    dl_module *m = dl_module_new(NULL);
    random_graph(m, "train", seed, 30);
    dl_pass_ctx ctx = {.arena = m->arena, .panel = 16, .recipe.optimizer = DL_OPT_NONE, .err = err};
    for (int i = 0; i < n && err->code == DL_OK; i++)
        dl_run_passes(m, passes[i], &ctx, (dl_pass_options){.validate = true});
    return m;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: pass_fuzz PASSES SEEDS [BASE]\n");
        return DL_USAGE;
    }
    const char *const passes[] = {argc > 3 ? argv[3] : "", argv[1]};
    int seeds = atoi(argv[2]);
    for (int seed = 1; seed <= seeds; seed++) {
        dl_error err = {0};
        dl_module *before = make((uint64_t)seed, passes, 1, &err),
                  *behind = make((uint64_t)seed, passes, 2, &err);
        int64_t wrong = err.code == DL_OK ? count_differences(before->graphs.at[0], behind->graphs.at[0],
                                                              (uint64_t)seed, &err)
                                          : 1;
        CHECK(wrong == 0, "seed %d: %s", seed, err.message);
        dl_arena_free(before->arena), dl_arena_free(behind->arena);
    }
    return dl_test_end();
}

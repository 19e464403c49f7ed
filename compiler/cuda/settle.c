/* Ways of a plan's contractions that few functions serve. The cost model tells a kernel's tiles by its sizes
 * alone; where a way that hardly takes longer has the loop over tiles of other kernels, NVRTC need not
 * compile one more. */
#include "compiler/cuda/cuda.h"
#include "compiler/cuda/emit_tiles.h"
#include "ir/base/hash.h"

static const double near = 1.06; /* times what the first way takes, of all ways that are looked at */

/* A contraction of the plan, and the functions that its near ways would be of. */
typedef struct {
    dl_coded *kernel;
    int n, way;
    uint64_t function[DL_MOST_VARIANTS];
} choice;

/* Has function `own` no kernel that must stay with it, and for each another function that stays? With `move`,
 * they go there. */
static bool can_do_without(uint64_t own, int n, choice *choices, bool move) {
    for (int i = 0; i < n; i++) {
        choice *c = &choices[i];
        bool found = false;
        if (c->function[c->way] != own) continue;
        for (int w = 0; w < c->n && !found; w++)
            for (int k = 0; k < n && !found && c->function[w] != own; k++)
                if ((found = choices[k].function[choices[k].way] == c->function[w]) && move) c->way = w;
        if (!found) return false;
    }
    return true;
}

void dl_cuda_settle(dl_arena *arena, int n, dl_coded *kernels, const dl_target *t) {
    choice *choices = DL_NEWS(arena, choice, n + 1);
    int contractions = 0;
    for (int i = 0; i < n; i++) {
        choice c = {.kernel = &kernels[i]};
        c.n = dl_cuda_near(kernels[i].kernel, t, near, c.function);
        if (c.n) choices[contractions++] = c;
    }
    for (int i = 0; i < contractions; i++) {
        uint64_t own = choices[i].function[choices[i].way];
        if (can_do_without(own, contractions, choices, false))
            can_do_without(own, contractions, choices, true);
    }
    for (int i = 0; i < contractions; i++) choices[i].kernel->way.variant = choices[i].way;
}

/* All ranks of a job in one process, compared with one rank that does all of it. */
#ifndef DL_SIMULATE_RANKS_H
#define DL_SIMULATE_RANKS_H
#include "compiler/session.h"

typedef struct {
    int ranks, steps;
    int64_t collectives, bytes; /* of a rank in a training step: how many; what they carry */
    double worst_loss;          /* relative difference, of any rank and step */
    double worst_gradient; /* relative L2 difference of a parameter's gradient in the first step;
                              relative to 1e-4 of all gradients together where its own is smaller */
    const char *gradient;  /* whose that is */
    double most; /* beyond which either says that the ranks do not do what one rank does */
} dl_rank_simulation;

/* The ranks' model: open, for the first plan, and how it is opened again for each further plan that
 * is compiled of it (NULL with an error). */
typedef struct {
    dl_session *first;
    dl_session *(*again)(void *context, dl_error *err);
    void *context;
} dl_sessions;

/* Compiles the model of session `one` for one rank and that of `each` for the ranks that share its
 * work, gives all of them the same weights, moments and batch, and runs training steps: every
 * rank's first step of the plan, then every rank's second, and so on. Errors: those of compiling;
 * DL_PEER where a collective does not find its partners, naming it; DL_RESOURCE. */
bool dl_simulate_ranks(dl_arena *arena, dl_session *one, const dl_sessions *each,
                       dl_rank_simulation *found, dl_error *err);
#endif

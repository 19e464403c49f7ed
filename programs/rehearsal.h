/* All ranks of a job in one process, beside one rank that does all of it. */
#ifndef DL_REHEARSAL_H
#define DL_REHEARSAL_H
#include "compiler/session.h"

typedef struct {
    int ranks, steps;
    int64_t collectives, bytes; /* of a rank in a training step: how many; what they carry */
    double worst_loss;          /* relative difference, of any rank and step */
    double worst_gradient;      /* relative L2 difference of a parameter's gradient in the first step */
    const char *gradient;       /* whose that is */
} dl_rehearsal;

/* Compiles the model of session `one` for one rank and that of each[i] for those that share its work
 * (each[0]'s `ranks`): one session a plan, which differ by tensor parallel rank, the faster, and context
 * parallel rank. Gives all of them the same weights, moments and batch, and runs training steps, all ranks
 * side by side. Errors: those of compiling; DL_PEER where a collective does not find its partners, naming it;
 * DL_RESOURCE. */
bool dl_rehearse(dl_arena *arena, dl_session *one, dl_session *const *each, dl_rehearsal *found,
                 dl_error *err);
#endif

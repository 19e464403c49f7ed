/* For test_shard.c's sources: the models that are cut, how a rank's graph is built, and checks. */
#ifndef DL_SHARD_MODELS_H
#define DL_SHARD_MODELS_H
#include "passes/pass.h"

typedef struct {
    const char *text, *name;
    dl_dtype low;
    bool steps; /* the optimiser, with clipped gradients and norms */
    bool drops;
} model;

extern const char mlp[];
extern const char vit[];
extern const char other[];
extern const char fused[];
extern const char back[];
dl_graph *pass(dl_arena *arena, const model *of, int64_t batch, dl_parallel parallel,
               const char *which, const char *passes, dl_error *err);

/* The collectives of a rank's training step, as Megatron has them: with tensor parallelism two sums
 * a block forward (after proj and fc2) and two backward (in front of q, k and v together, and of
 * fc1); with context parallelism keys and values gathered, and the tokens once at the end, whose
 * gradients are scattered and sliced. */
void check_counts(const model *of, int tp, int cp, int reduced, int gathered, int scattered);

/* Round a ring nothing of attention is gathered: of each block's keys and values all turns but the
 * last are given on, there and back, and their gradients in each. The way back has rounds of its
 * own. */
void check_ring(const model *of, int cp);

/* Who looks back does nothing in a turn in which it sees no key, but to give on. Of 11 and 7 tokens
 * a rank has the first 6 and 4: of itself it sees those; of the other length 4 tokens and, by the
 * last two of its own, 3 more; or 6. The other sees all turns. */
void check_looks(const model *of);

/* The ring's forward pass where a rank's first steps all see the last of its queries only. */
void check_ring_of_all_queries(void);
void check_faults(void);

/* A rank's variables say of what they are the piece, in the text of the IR too, and so do the
 * optimiser's. */
void check_text(const model *of);

/* The pieces of what one product makes together: a share of each of its parts; head by head one
 * share. */
void check_parts(const model *of);

/* Members of a bucket that stand in another order on one rank are found, though their types are
 * alike. */
void check_members(void);
#endif

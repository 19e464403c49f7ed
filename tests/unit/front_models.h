/* For test_front.c's sources: building a model. */
#ifndef DL_FRONT_MODELS_H
#define DL_FRONT_MODELS_H
#include "ir/validate/validate.h"

char *read_model(dl_arena *arena, const char *name, size_t *n);
void test_hostile(void);
extern uint64_t mutation_state;
void test_mutations(long count);
#endif

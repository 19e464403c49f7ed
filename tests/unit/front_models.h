/* For test_front.c's sources: building a model. */
#ifndef DL_FRONT_MODELS_H
#define DL_FRONT_MODELS_H
#include "frontends/dl/front.h"
#include "ir/validate/validate.h"

typedef struct {
    dl_arena *arena;
    dl_diags *diags;
    dl_model *model;
    dl_module *module; /* NULL: it does not build */
} built;

extern const dl_axis_size cube[4]; /* N=2, and 64 along D, H and W */
built build_text(const char *name, const char *text, size_t n, const dl_argument *args, int nargs,
                 const dl_axis_size *sizes, int nsizes);
void check_type(const dl_graph *g, const char *name, const char *type);
void test_results(void);
char *read_model(dl_arena *arena, const char *name, size_t *n);
void test_hostile(void);
extern uint64_t mutation_state;
void test_mutations(long count);
#endif

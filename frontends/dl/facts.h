/* Facts of a model for its reader: which tensor each expression has made, and which parameters each
 * layer. An editor shows them next to the text. */
#ifndef DL_FACTS_H
#define DL_FACTS_H
#include "frontends/dl/front.h"

/* An expression or a declared name, and its value in words: "f32[N=2, C=8]"; or a layer's call, and
 * one of its parameters: "stem.weight: f32[O=8, C=3]". */
typedef struct {
    dl_span where;
    const char *text;
} dl_fact;

struct dl_facts {
    dl_arena *arena;
    DL_ARRAY(dl_fact) values, parameters;
};

/* Adds a fact; those beyond a limit are dropped, as a loop may make a million. */
void dl_facts_value(dl_facts *f, dl_span where, const char *text);
void dl_facts_parameter(dl_facts *f, dl_span where, const char *name, const dl_type *type);
/* The facts of the smallest place that contains byte `at`, without doubles, up to `most` of them;
 * *n is their number in all, *where the place. */
int dl_facts_values_at(const dl_facts *f, uint32_t at, int most, const char **texts, int *n,
                       dl_span *where);
/* The same of the parameters made within a place. */
int dl_facts_parameters_in(const dl_facts *f, dl_span where, int most, const char **texts, int *n);
#endif

/* The table that passes ask about a target's contractions: the layout that each tensor must have,
 * and what a kernel may do with the sums. A backend's answers are a row of its targets; without a
 * target, passes take the answers that every backend can keep. */
#ifndef DL_CONTRACTION_RULES_H
#define DL_CONTRACTION_RULES_H
#include "ir/relation.h"

/* The layout that a contraction needs of a tensor. */
typedef enum {
    DL_LAYOUT_STRIDED, /* any but panels */
    DL_LAYOUT_CL,      /* channels last */
    DL_LAYOUT_WEIGHTS  /* the target's layout of weights */
} dl_layout_need;

typedef struct dl_contraction_rules {
    /* The layout of the tensor at a place of the relation. */
    dl_layout_need (*layout_needs)(dl_op contraction, int place);
    /* Can this reduction of its sums be an epilogue reduction, where each work item leaves a
     * partial result? type: of the reduction's result; kept: the contraction's axes that it keeps,
     * a bit each. */
    bool (*epilogue_takes)(dl_op contraction, dl_op reduction, dl_dtype type, unsigned kept);
    /* Does its kernel run through the result in memory order? Then other tensors of the kernel must
     * have the result's layout, and are not read by coordinates. */
    bool (*in_memory_order)(dl_op contraction);
} dl_contraction_rules;

/* The rules that every backend keeps. */
extern const dl_contraction_rules dl_common_contraction_rules;
/* A target's rules; NULL: there is no target. */
static inline const dl_contraction_rules *dl_contraction_rules_of(const dl_contraction_rules *r) {
    return r ? r : &dl_common_contraction_rules;
}
#endif

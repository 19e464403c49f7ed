/* Partial results of a loop nest's reductions. Each work item stores its own in the workspace, and
 * the finalizing loop nest combines them in the order of work items; results that later loop nests
 * read stay there. Also writes the head of a loop nest's function. */
#ifndef DL_CPU_PARTIALS_H
#define DL_CPU_PARTIALS_H
#include "compiler/codegen/emit_program.h"

/* Points of a work item: some 20 us, independent of the number of threads. */
enum { DL_ITEM_POINTS = 16384 };

/* The head of the function e->name. */
void dl_emit_nest_head(dl_emitter *e);
/* Places the present loop nest's partial results, with axes in the order of `order`; returns their
 * number per work item. */
int64_t dl_emit_find_partial(dl_emitter *e, const dl_axis_list *order);
/* `items`, or fewer where each has so many partial results: many small ones cost more than they
 * gain, so that a reduction into a large result has few work items. */
int64_t dl_emit_limit_items(int64_t items, int64_t partial);
/* Partial results of a work item, for all reductions of the present loop nest. */
int64_t dl_emit_count_sums(const dl_emitter *e);
/* Work items that share partial results, each for its own part of their axis: `item` is the
 * index among `items` such results, [from, to) the part, as C expressions. */
typedef struct {
    int64_t items;
    const char *item, *from, *to; /* from and to NULL: all, not shared */
} dl_sharing;
/* `sums`: a work item's partial results, set to their initial values. They come after the
 * kernel's other data in the workspace, which is enlarged for those of all work items. */
void dl_emit_sums(dl_emitter *e, const dl_sharing *s, dl_emitted *code);
/* The same where no work items share. */
void dl_emit_item_sums(dl_emitter *e, int64_t items, dl_emitted *code);
#endif

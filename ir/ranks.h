/* The mesh of a job's ranks. A rank has three coordinates: data parallel (dp), tensor parallel
 * (tp) and context parallel (cp); the first of the order varies fastest. A group consists of the
 * ranks that differ only in its coordinates: "tp", "cp", "dp", and of two coordinates "tp-cp" and
 * "dp-cp". */
#ifndef DL_RANKS_H
#define DL_RANKS_H
#include "ir/base/status.h"

typedef enum { DL_RANKS_TP, DL_RANKS_CP, DL_RANKS_DP, DL_NRANK_PARTS } dl_rank_part;
extern const char *const dl_rank_parts[DL_NRANK_PARTS]; /* "tp", "cp", "dp" */
enum { DL_NRANK_GROUPS = 5 };
extern const char *const dl_rank_groups[DL_NRANK_GROUPS]; /* all groups */

typedef struct {
    int size[DL_NRANK_PARTS];
    dl_rank_part order[DL_NRANK_PARTS]; /* the fastest first */
} dl_ranks;

/* The mesh of `world` ranks, of which tp (0 counts as 1) times cp work on one sample; `order` is
 * like "tp-cp-dp". Errors: DL_USAGE, naming tensor_parallel, context_parallel or parallel_order. */
bool dl_ranks_of(dl_ranks *r, int world, int tp, int cp, const char *order, dl_error *err);
int dl_ranks_world(const dl_ranks *r);
/* A rank's coordinates, and the rank with given coordinates. */
void dl_ranks_place(const dl_ranks *r, int rank, int at[DL_NRANK_PARTS]);
int dl_ranks_at(const dl_ranks *r, const int at[DL_NRANK_PARTS]);
/* The number of the group's members; 0: there is no group of this name. */
int dl_ranks_count(const dl_ranks *r, const char *group);
/* The members of the group that `rank` belongs to, ascending; dl_ranks_count says how many. In a
 * group of one coordinate a rank's index is that coordinate. */
void dl_ranks_members(const dl_ranks *r, const char *group, int rank, int *members);
#endif

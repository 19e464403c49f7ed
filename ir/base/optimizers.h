/* The optimisers and what torch.optim has of each (optimizers.def). Passes build their steps, configurations
 * name them and their options, and the runtime keeps their state in PyTorch's files: all by this table. */
#ifndef DL_OPTIMIZERS_H
#define DL_OPTIMIZERS_H
#include <stdbool.h>

typedef enum {
#define OPTIMIZER(id, ...) DL_OPT_##id,
#include "ir/base/optimizers.def"
    DL_OPT_NONE /* gradients only */
} dl_optimizer;

typedef enum {
#define OPTION(id, ...) DL_OPTION_##id,
#include "ir/base/optimizers.def"
    DL_N_OPTIONS
} dl_optimizer_option;

typedef struct {
    const char *name; /* "optimizer.NAME" in a plan */
    const char *key;
    const char *entry; /* in a file of PyTorch's, and */
    int item;          /* of its list; -1: it is none */
    bool flag;
} dl_option_row;
extern const dl_option_row dl_optimizer_options[DL_N_OPTIONS];

typedef enum {
    DL_KEPT_MEAN,   /* of either sign */
    DL_KEPT_SQUARE, /* not below 0 */
} dl_kept_kind;

/* What is kept of a parameter P: the variable NAME.P. */
typedef struct {
    const char *name; /* NULL: none */
    dl_kept_kind kind;
    bool may_lack; /* with some options it is not kept */
} dl_kept;

/* An option of PyTorch's that has one value here. */
typedef struct {
    const char *entry; /* NULL: none */
    double value;
    bool flag;
} dl_fixed_option;

enum { DL_MOST_KEPT = 3, DL_MOST_FIXED = 2 };
typedef struct {
    const char *name, *of; /* as configurations and as torch.optim have it */
    dl_kept kept[DL_MOST_KEPT];
    bool counts;    /* PyTorch keeps each parameter's number of steps */
    unsigned takes; /* 1 << dl_optimizer_option */
    dl_fixed_option fixed[DL_MOST_FIXED];
    const char *help;
} dl_optimizer_row;
extern const dl_optimizer_row dl_optimizers[DL_OPT_NONE];

/* The row of this name, or -1. */
int dl_optimizer_find(const char *name);
/* What the variable `name` of the parameter `of` is to whichever optimiser keeps it; NULL: to none. */
const dl_kept *dl_optimizer_kept(const char *name, const char *of);
#endif

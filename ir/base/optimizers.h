/* The optimisers and their names in torch.optim (optimizers.def). By this table passes build their
 * steps, configurations name them and their options, and the runtime keeps their state in PyTorch's
 * files. */
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

typedef enum {
    DL_OPTION_NUMBER, /* the plan's variable "optimizer.NAME" */
    DL_OPTION_FLAG,   /* the number 0 or 1; shapes the plan */
    DL_OPTION_START,  /* the initial value of kept state; shapes the plan */
} dl_option_kind;

typedef struct {
    const char *name;
    const char *key;
    const char *entry; /* in a file of PyTorch's, and */
    int item;          /* of its list; -1: it is none */
    dl_option_kind kind;
} dl_option_row;
extern const dl_option_row dl_optimizer_options[DL_N_OPTIONS];

typedef enum {
    DL_KEPT_MEAN,   /* of either sign */
    DL_KEPT_CENTRE, /* a mean whose square is below the same parameter's SQUARE */
    DL_KEPT_SQUARE, /* not below 0 */
    DL_KEPT_SCALAR, /* one number of all parameters; PyTorch keeps it of each */
} dl_kept_kind;

/* The state that is kept of a parameter P: the variable NAME.P of P's type; a SCALAR is the
 * variable "optimizer.NAME" of type f64. */
typedef struct {
    const char *name; /* NULL: none */
    dl_kept_kind kind;
    bool may_lack; /* with some options it is not kept */
} dl_kept;

/* The library whose default an option has. */
typedef enum { DL_OF_TORCH, DL_OF_KERAS } dl_optimizer_source;
typedef struct {
    const char *option; /* its name; NULL: none */
    double value[DL_OF_KERAS + 1];
} dl_own_option;

/* An option of PyTorch's that has one value here. */
typedef struct {
    const char *entry; /* NULL: none */
    double value;
    bool flag;
} dl_fixed_option;

enum { DL_MOST_KEPT = 3, DL_MOST_OWN = 3, DL_MOST_FIXED = 2 };
typedef struct {
    const char *name, *of; /* as configurations and as torch.optim have it; of may be "" */
    dl_kept kept[DL_MOST_KEPT];
    bool counts;    /* PyTorch keeps each parameter's number of steps */
    unsigned takes; /* 1 << dl_optimizer_option */
    dl_own_option own[DL_MOST_OWN];
    dl_fixed_option fixed[DL_MOST_FIXED];
    const char *help;
} dl_optimizer_row;
extern const dl_optimizer_row dl_optimizers[DL_OPT_NONE];

/* The row of this name, or -1. */
int dl_optimizer_find(const char *name);
/* The default of an option; NaN: all optimisers share one default. */
double dl_optimizer_own(dl_optimizer optimizer, dl_optimizer_option option,
                        dl_optimizer_source source);
/* The kind of state that the variable `name` of the parameter `of` is; NULL: no optimiser keeps
 * it. */
const dl_kept *dl_optimizer_kept(const char *name, const char *of);
#endif

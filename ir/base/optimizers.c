#include "ir/base/optimizers.h"

#include <math.h>
#include <string.h>

const dl_option_row dl_optimizer_options[DL_N_OPTIONS] = {
#define WHOLE                              -1
#define NUMBER                             DL_OPTION_NUMBER
#define FLAG                               DL_OPTION_FLAG
#define START                              DL_OPTION_START
#define OPTION(id, key, entry, item, kind) [DL_OPTION_##id] = {#id, #key, entry, item, kind},
#include "ir/base/optimizers.def"
};

/* The macros of the rows. */
#define KEEPS(...)                                                                                 \
    { __VA_ARGS__ }
#define MEAN(name)                                                                                 \
    { name, DL_KEPT_MEAN, false }
#define MAY_MEAN(name)                                                                             \
    { name, DL_KEPT_MEAN, true }
#define MAY_CENTRE(name)                                                                           \
    { name, DL_KEPT_CENTRE, true }
#define SCALAR(name)                                                                               \
    { name, DL_KEPT_SCALAR, false }
#define MAY_SQUARE(name)                                                                           \
    { name, DL_KEPT_SQUARE, true }
#define SQUARE(name)                                                                               \
    { name, DL_KEPT_SQUARE, false }
#define COUNTED   true
#define UNCOUNTED false
#define TAKES(id) 1u << DL_OPTION_##id
#define OWN(...)                                                                                   \
    { __VA_ARGS__ }
#define FIXED(...)                                                                                 \
    { __VA_ARGS__ }

const dl_optimizer_row dl_optimizers[DL_OPT_NONE] = {
#define OPTIMIZER(id, of, keeps, counts, takes, own, fixed, help)                                  \
    [DL_OPT_##id] = {#id, of, keeps, counts, takes, own, fixed, help},
#include "ir/base/optimizers.def"
};

int dl_optimizer_find(const char *name) {
    for (int i = 0; i < DL_OPT_NONE; i++)
        if (strcmp(dl_optimizers[i].name, name) == 0) return i;
    return -1;
}

double dl_optimizer_own(dl_optimizer optimizer, dl_optimizer_option option,
                        dl_optimizer_source source) {
    const dl_own_option *own = dl_optimizers[optimizer].own;
    for (int k = 0; k < DL_MOST_OWN && own[k].option; k++)
        if (strcmp(own[k].option, dl_optimizer_options[option].name) == 0)
            return own[k].value[source];
    return NAN;
}

const dl_kept *dl_optimizer_kept(const char *name, const char *of) {
    for (int i = 0; i < DL_OPT_NONE; i++)
        for (int k = 0; k < DL_MOST_KEPT && dl_optimizers[i].kept[k].name; k++) {
            const dl_kept *kept = &dl_optimizers[i].kept[k];
            size_t n = strlen(kept->name);
            if (strncmp(name, kept->name, n) == 0 && name[n] == '.' &&
                strcmp(name + n + 1, of) == 0)
                return kept;
        }
    return NULL;
}

/* The directory of a configuration's run, and other names that are built from the same words
 * (run_dir, names of runs in Weights & Biases). */
#ifndef DLC_RUN_DIR_H
#define DLC_RUN_DIR_H
#include "frontends/yaml/config.h"

/* The value of the key run_dir with the words in braces replaced: {expdir}, {config} (the
 * configuration's name), {model} (the model file's name without its ending), {name} (MODEL-CONFIG;
 * CONFIG where both names are equal, and for the default model), {ranks} and {run_num}. In the
 * arena. NULL: DL_USAGE or DL_INPUT for another word in braces, an open brace, a name that cannot
 * be a folder's, or an environment variable that is not set. */
const char *dl_run_dir(dl_arena *arena, const dl_config *c, int ranks, dl_error *err);

/* The directory that the run had before the default of run_dir told models apart; NULL: the same,
 * or run_dir is given. */
const char *dl_run_dir_former(dl_arena *arena, const dl_config *c, int ranks);

/* The value of another key with the same words filled in; errors likewise. The key is not null. */
const char *dl_run_fill(dl_arena *arena, const dl_config *c, dl_key key, int ranks, dl_error *err);

/* The directories that the same run has, or would have, with other numbers of ranks, as far as
 * folders of such names are there; none where the key does not say {ranks}. */
typedef DL_ARRAY(const char *) dl_run_dirs;
dl_run_dirs dl_other_run_dirs(dl_arena *arena, const dl_config *c, int ranks);
#endif

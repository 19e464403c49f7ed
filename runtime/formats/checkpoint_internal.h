/* Shared by the writer and the reader of checkpoints: names, and state.json. */
#ifndef DLR_CHECKPOINT_INTERNAL_H
#define DLR_CHECKPOINT_INTERNAL_H
#include "ir/base/str.h"
#include "runtime/formats/checkpoint.h"

enum { DLR_STATE_VERSION = 1, DLR_STATE_MAX_BYTES = 64 << 20 };

/* A file that state.json lists: NAME.safetensors, or the name itself if it ends with .json. */
typedef dlr_checkpoint_file dlr_state_part;
#define DLR_CHECKPOINT_INDEX "model.safetensors.index.json"
char *dlr_checkpoint_path(dl_arena *arena, const char *checkpoint, const char *name);
/* Whether this is a valid name. For one of several files: the part as the first `n` bytes of the
 * name, its number and the number of files; otherwise `of` is 0. */
bool dlr_checkpoint_parse_name(const char *name, size_t *n, int *number, int *of);

/* Prints state.json, with its own checksum at the end. */
void dlr_checkpoint_state_print(dl_buf *b, const dlr_state *state, const dlr_state_part *parts,
                                int n_parts);
/* Parses state.json; *sum: the checksum of its text. Errors: DL_INPUT naming the file and the
 * fault. */
bool dlr_checkpoint_state_read(dl_arena *arena, const char *path, dlr_state *state,
                               dlr_state_part **parts, int *n_parts, uint64_t *sum, dl_error *err);

/* An entry of the directory of checkpoints. */
typedef struct {
    const char *name;
    int64_t step;
    bool aside; /* step-N.old: moved aside for another checkpoint of the same step, and not removed
                   because of a crash */
} dlr_checkpoint_entry;
typedef DL_ARRAY(dlr_checkpoint_entry) dlr_checkpoint_list;

/* Lists the checkpoints in `dir`, newest first, and unfinished ones (.tmp) in `dead` if it is not
 * NULL. Returns false with errno when the directory cannot be read. */
bool dlr_checkpoint_scan(dl_arena *arena, const char *dir, dlr_checkpoint_list *list,
                         dlr_checkpoint_list *dead);
/* The step of a name step-N, or -1. With `aside` not NULL step-N.old is allowed, too, and *aside is
 * set. */
int64_t dlr_checkpoint_step(const char *name, bool *aside);
/* The target of the link dir/which, or NULL. */
const char *dlr_checkpoint_target(dl_arena *arena, const char *dir, const char *which);
#endif

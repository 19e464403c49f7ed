/* For test_checkpoint.c's sources: checkpoints whose every value says of which step it is. */
#ifndef DL_CHECKPOINT_STORY_H
#define DL_CHECKPOINT_STORY_H
#include "runtime/formats/checkpoint.h"

extern const char *dir;
extern dl_arena *arena;
int count_files(void);
const char *file_of(const char *step, int i);
extern const char *const shard_files[];

/* A checkpoint whose every value says of which step and version it is. */
bool save(int step, int version, bool best, int keep, dl_error *err);

/* Whether everything in it agrees about which checkpoint it is. */
bool is_whole(const dlr_checkpoint *c);
void clear(void);

/* Each rank reads through its share alone; what one finds damaged both pass over, and the file is
 * named. */
void test_two_readers(void);
#endif

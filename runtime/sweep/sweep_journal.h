/* The journal of a sweep's trials, trials.jsonl, for the files that read and append its events. */
#ifndef DLR_SWEEP_JOURNAL_H
#define DLR_SWEEP_JOURNAL_H
#include "runtime/formats/json.h"
#include "runtime/sweep/sweep_trials.h"

/* trials.jsonl, open and locked. */
typedef struct {
    const char *path;
    int fd;
    int64_t end; /* of its last whole line */
} dlr_journal;

/* Opens the file of a sweep's directory, and waits until no other process has locked it. To read,
 * one that is not there yet is empty, and has no descriptor. Errors: DL_IO. */
bool dlr_journal_open(dl_arena *arena, const char *dir, bool appends, dlr_journal *j,
                      dl_error *err);
void dlr_journal_close(dlr_journal *j);
/* Reads all events. Errors: those of dlr_trials_parse; DL_IO. */
bool dlr_journal_read(dl_arena *arena, dlr_journal *j, dlr_trials *all, dl_error *err);
/* Appends an event, after cutting off what a killed writer has left without an end. Errors:
 * DL_IO. */
bool dlr_journal_append(dlr_journal *j, const dl_buf *line, dl_error *err);

/* The begin of every event, a key with a text (NULL: nothing), and the end. */
void dlr_journal_put(dl_buf *b, int64_t number, dlr_trial_state state);
void dlr_journal_put_string(dl_buf *b, const char *key, const char *text);
void dlr_journal_put_end(dl_buf *b);
#endif

/* The record log of Weights & Biases' .wandb files: a header of seven bytes, then LevelDB's log
 * format (its doc/log_format.md) with zlib's CRC-32 in place of the masked CRC-32C.
 *
 * The file is cut into blocks of 32 KiB, counted from its first byte, header included. A record is
 * one chunk or several, none across a block's end: u32le CRC of type and data, u16le length, u8
 * type (whole, first, middle, last), data. Fewer than seven bytes at a block's end are zeros. A
 * record is written at once, so that a viewer sees it and a killed run loses none. */
#ifndef DLR_WANDB_LOG_H
#define DLR_WANDB_LOG_H
#include "ir/base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef struct dlr_wandb_log dlr_wandb_log;

/* Begins a file, which must not be there yet. Errors: DL_IO with path and cause; NULL. */
dlr_wandb_log *dlr_wandb_log_new(const char *path, dl_error *err);

/* What is asked of each record of a file that is gone on with: whether the file stays up to its end
 * at least. */
typedef bool dlr_wandb_stays(void *context, const void *record, size_t n);
/* Opens a file to go on behind the last record that stays: what follows is cut off, a torn end and
 * all behind a damaged chunk with it. Errors: DL_IO; DL_INPUT for what is no such file, or larger
 * than 1 GiB; NULL. */
dlr_wandb_log *dlr_wandb_log_open(const char *path, dlr_wandb_stays *stays, void *context,
                                  dl_error *err);

/* Records that the file holds. */
int64_t dlr_wandb_log_records(const dlr_wandb_log *log);
/* Appends one record. Errors: DL_IO; the file is then as it was before. */
bool dlr_wandb_log_put(dlr_wandb_log *log, const void *record, size_t n, dl_error *err);
/* Makes all so far durable (fdatasync). Errors: DL_IO. */
bool dlr_wandb_log_flush(const dlr_wandb_log *log, dl_error *err);
void dlr_wandb_log_close(dlr_wandb_log *log); /* NULL is fine */
#endif

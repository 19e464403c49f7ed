/* The record log of Weights & Biases' .wandb files: a header of seven bytes, then LevelDB's log
 * format (its doc/log_format.md) with zlib's CRC-32 in place of the masked CRC-32C.
 *
 * The file is divided into blocks of 32 KiB, counted from its first byte, header included. A record
 * is one chunk or several; no chunk crosses a block's end. A chunk is u32le CRC of type and data,
 * u16le length, u8 type (whole, first, middle, last), data. Fewer than seven bytes at a block's end
 * are zeros. A record is written at once, so that viewers see it and a killed run loses none. */
#ifndef DLR_WANDB_LOG_H
#define DLR_WANDB_LOG_H
#include "ir/base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef struct dlr_wandb_log dlr_wandb_log;

/* Creates a file, which must not exist. Errors: DL_IO with path and cause; NULL. */
dlr_wandb_log *dlr_wandb_log_new(const char *path, dl_error *err);

/* Called for each record of a file that is continued: whether the file is kept at least up to the
 * record's end. */
typedef bool dlr_wandb_stays(void *context, const void *record, size_t n);
/* Opens a file to continue it after the last kept record. The rest is cut off, including an
 * incomplete end, a damaged chunk and all that follows it. Errors: DL_IO; DL_INPUT for other files,
 * or one larger than 1 GiB; NULL. */
dlr_wandb_log *dlr_wandb_log_open(const char *path, dlr_wandb_stays *stays, void *context,
                                  dl_error *err);

/* The number of records in the file. */
int64_t dlr_wandb_log_records(const dlr_wandb_log *log);
/* Appends one record. Errors: DL_IO; the file is then unchanged. */
bool dlr_wandb_log_put(dlr_wandb_log *log, const void *record, size_t n, dl_error *err);
/* Makes all records so far durable (fdatasync). Errors: DL_IO. */
bool dlr_wandb_log_flush(const dlr_wandb_log *log, dl_error *err);
void dlr_wandb_log_close(dlr_wandb_log *log); /* NULL is fine */
#endif

/* Files that are read. A file is opened without waiting and looked at before it is read, so that a
 * FIFO, a device or a directory of its name is refused and never hangs a program.
 *
 * Inputs that the user names are remembered by device and inode: no output of this process replaces
 * them (ir/base/output.h), whatever link or spelling leads to them. Thread-safe. */
#ifndef DL_INPUT_H
#define DL_INPUT_H
#include "ir/base/arena.h"
#include <stddef.h>
#include <sys/stat.h>

/* A regular file, open for reading: its descriptor, or -1. Errors: DL_USAGE for an empty name;
 * DL_IO with path and cause; DL_INPUT for anything but a regular file. */
int dl_file_open(const char *path, dl_error *err);
/* The same, and the file's status in `st`. */
int dl_file_open_stat(const char *path, struct stat *st, dl_error *err);
/* The same for an input of the user's, which is remembered. */
int dl_input_open(const char *path, dl_error *err);

/* A whole file in the arena (`size` bytes and a NUL); at most `limit` bytes. A pipe that was open
 * before us (/dev/stdin, /dev/fd/N: a shell's pipe or process substitution) is read to its end.
 * Errors: those of dl_file_open; DL_INPUT when larger than the limit. */
char *dl_read_file(dl_arena *arena, const char *path, size_t limit, size_t *size, dl_error *err);
/* The same for an input of the user's, which is remembered. */
char *dl_read_input(dl_arena *arena, const char *path, size_t limit, size_t *size, dl_error *err);
/* Reads exactly n bytes at an offset. Errors: DL_IO with path and cause, a file that ends too early
 * among them. */
bool dl_read_at(int fd, const char *path, void *dst, size_t n, int64_t offset, dl_error *err);

/* Whether n more files may be open at once, in front of a library that would report their lack as a
 * damaged file: DL_RESOURCE naming `path`, which is to be read. */
bool dl_check_descriptors(int n, const char *path, dl_error *err);

/* Remembers an input that another reader opens (a library, a child). Ignores anything but a regular
 * file. */
void dl_input_remember(const char *path);
/* The name of the input that is this file, as long as it is still found under that name; or
 * NULL. */
const char *dl_input_name(const struct stat *st);
/* Forgets all inputs: for a process that begins another job. */
void dl_input_forget(void);
#endif

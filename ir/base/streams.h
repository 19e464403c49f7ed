/* A program's standard streams, from its first line to its last. */
#ifndef DL_STREAMS_H
#define DL_STREAMS_H

/* First in main. Standard streams that the caller closed are opened on /dev/null, so that no file
 * of ours takes their numbers. A write that a limit or a reader who left makes fail says EFBIG or
 * EPIPE instead of ending the process; programs that we start see these signals as ever. */
void dl_streams_start(void);

/* Last in main: flushes standard output. Returns `code`, or DL_IO, with a line on standard error
 * that begins with the program's name, when any of the output was lost and `code` is 0. */
int dl_streams_end(const char *program, int code);
#endif

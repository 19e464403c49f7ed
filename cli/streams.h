/* A program's standard streams, from its first line to its last. */
#ifndef CLI_STREAMS_H
#define CLI_STREAMS_H

/* First in main. Standard streams that the caller closed are opened on /dev/null, so that no file
 * of ours takes their numbers. A write that a limit or a reader who left makes fail says EFBIG or
 * EPIPE instead of ending the process; programs that we start see these signals as ever. */
void cli_streams_start(void);

/* Last in main: flushes standard output. Returns `code`, or DL_IO, with a line on standard error
 * that begins with the program's name, when any of the output was lost and `code` is 0. */
int cli_streams_end(const char *program, int code);
#endif

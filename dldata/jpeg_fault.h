/* Error handling for libjpeg, whose default handler would end the program. */
#ifndef DLDATA_JPEG_FAULT_H
#define DLDATA_JPEG_FAULT_H
#include <setjmp.h>
#include <stdio.h> /* must precede jpeglib.h */
#include <stdlib.h>

#include <jpeglib.h>

typedef struct {
    struct jpeg_error_mgr base; /* the first member: libjpeg knows only this part */
    jmp_buf away;
    char message[JMSG_LENGTH_MAX];
} jpeg_fault;

/* An error_exit function: fills `message` and jumps to `away`. */
static inline void jpeg_leave(j_common_ptr c) {
    jpeg_fault *f = (jpeg_fault *)c->err;
    c->err->format_message(c, f->message);
    longjmp(f->away, 1);
}
#endif

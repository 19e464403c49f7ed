/* For test_calls.c's sources: compiling with a tuner that takes what it is asked for. */
#ifndef DL_CALLS_H
#define DL_CALLS_H
#include "compiler/session.h"

/* ---- a tuner that takes what it is told ---- */

typedef struct {
    int number; /* case */
    dl_library library;
    dl_form form;
    int algorithm;      /* of those that are offered for it */
    bool looks;         /* at which forms there are */
    int kernels, calls; /* with contractions; with such a call */
} wish;

extern dl_arena *test_arena;
extern const dl_target *target;
dl_plan *compile(wish *w, bool tf32, dl_module **m, dl_error *err);
void verify(const char *what, const dl_module *m, const dl_plan *p);
void test_matmul_refused(const char *dir);
void test_convolution_refused(const char *dir);
void test_text(void);
#endif

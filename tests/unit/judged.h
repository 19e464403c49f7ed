/* Shared by the parts of test_judged: ways to tamper with the results of passes. */
#ifndef TEST_JUDGED_H
#define TEST_JUDGED_H
#include "compiler/compile.h"
#include "ir/builder.h"
#include "ir/walk.h"
#include "tests/check.h"
#include "verify/verify.h"

/* Whether a node is of a kind; and changes it, but if `dry`. */
typedef bool tamper(dl_graph *g, dl_node *n, bool dry);
typedef struct {
    const dl_step_options *step_options;
    tamper *with;
    const char *after; /* only where these passes ran */
    int skip, applied;
    bool starts;         /* variable `skip` of a step begins as another number */
    bool shifts;         /* hyperparameter `skip` is read as another number */
    const char *altered; /* its name */
} way;

/* The compiler's passes, tampered with as `user` (a way *) says: the function of a dl_verify_run.
 */
bool judged_passes(dl_module *m, const char *names, void *user, dl_error *err);
/* The message is among the faults, or the check fails. */
void judged_found(const dl_verdict *v, const char *what, const char *named);
/* test_judged_steps.c */
void test_judged_steps(void);
#endif

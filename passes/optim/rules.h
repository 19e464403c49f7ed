/* Parts of update rules that both files of rules share. */
#ifndef DL_OPTIM_RULES_H
#define DL_OPTIM_RULES_H
#include "passes/optim/optimizer.h"

/* The next value of a variable of the state, which stays where the step is skipped. */
void dl_rule_update(dl_optimization *o, dl_var *var, dl_value *next);
/* The parameter's next value, likewise. */
void dl_rule_update_param(dl_optimization *o, dl_trained *t, dl_value *next);
/* A shared number in the parameter's element type. */
dl_value *dl_rule_as(dl_optimization *o, dl_value *scalar, const dl_trained *t);
/* A number of the parameter's group; the parameter's weight decay. */
dl_value *dl_rule_of_group(dl_optimization *o, const dl_trained *t, const char *what,
                           double fallback);
dl_value *dl_rule_decay(dl_optimization *o, const dl_trained *t);
/* An option whose default differs between optimisers. */
dl_value *dl_rule_own(dl_optimization *o, const char *name, dl_optimizer_option option);
dl_value *dl_rule_beta1(dl_optimization *o);
/* The decays of means. */
dl_value *dl_rule_beta2(dl_optimization *o);
dl_value *dl_rule_root(dl_optimization *o, dl_value *x);
dl_value *dl_rule_square(dl_optimization *o, dl_value *x);
/* 1 - share */
dl_value *dl_rule_rest(dl_optimization *o, dl_value *share);
/* The gradient, plus decay p where the parameter decays. */
dl_value *dl_rule_gradient(dl_optimization *o, const dl_trained *t, bool decays);
/* keep old + (1 - keep) fresh */
dl_value *dl_rule_average(dl_optimization *o, const dl_trained *t, dl_value *keep, dl_value *old,
                          dl_value *fresh);
/* The next value of an average that is kept under this name. */
dl_value *dl_rule_kept_average(dl_optimization *o, const dl_trained *t, const char *what,
                               dl_value *keep, dl_value *fresh);
/* sqrt(v / c2) + eps */
dl_value *dl_rule_unbiased(dl_optimization *o, const dl_trained *t, dl_value *v, dl_value *b2);
/* 1 - beta^taken */
dl_value *dl_rule_filled(dl_optimization *o, dl_value *beta);
/* p (1 - rate decay) where the parameter decays. */
dl_value *dl_rule_shrunk(dl_optimization *o, const dl_trained *t, bool decays);
/* b <- momentum b + x, kept; x without momentum. */
dl_value *dl_rule_with_momentum(dl_optimization *o, const dl_trained *t, dl_value *x, bool ahead);
/* p <- p - rate x */
void dl_rule_descend(dl_optimization *o, dl_trained *t, dl_value *rate, dl_value *x);
#endif

/* Rules of losses, which a network may compute by itself. */
#include "imports/dl/rules.h"

static const char *const reductions[] = {", reduction=\"none\"", "", ", reduction=\"sum\""};

/* The node's reduction; -1: it has none of the language's. */
static int reduction_of(const dl_in_ctx *c) {
    int64_t r = dl_foreign_int(c->n, "reduction", 1);
    return r < 0 || r > 2 ? -1 : (int)r;
}

/* detail: the function, and its number besides */
bool dl_in_loss(dl_in_ctx *c) {
    const char *space = strchr(c->detail, ' ');
    const char *function = dl_strndup(c->w->arena, c->detail, strcspn(c->detail, " "));
    dl_in_value *a = dl_operand(c, "self"), *b = dl_operand(c, "target");
    int reduction = reduction_of(c);
    double k = space ? dl_foreign_real(c->n, space + 1, 1) : 1;
    if (!a || !b || reduction < 0 || dl_foreign_operand(c->n, "weight") ||
        dl_foreign_operand(c->n, "pos_weight") || dl_foreign_int(c->n, "log_target", 0))
        return false;
    dl_name_all(c, a);
    dl_in_value *made = dl_match(c, a, b);
    if (made->n != a->n || made->n != b->n) return false;
    int s = dl_call_function(c, function, a, ", %v", b);
    if (k != 1) dl_say_more(c, ", %s=%r", space + 1, space + 1, k);
    dl_say_more(c, "%s", reductions[reduction]);
    if (reduction == 0) return dl_done(c, made, s);
    dl_set(c, 0, dl_new_value(c, s, c->n->results[0]));
    return true;
}

/* Scores [N, C, ...] and the numbers of classes, [N, ...]. */
bool dl_in_loss_of_classes(dl_in_ctx *c) {
    dl_in_value *x = dl_operand(c, "self"), *given = dl_operand(c, "target"),
                *weight = dl_operand(c, "weight");
    int reduction = reduction_of(c);
    int64_t ignored = dl_foreign_int(c->n, "ignore_index", -100);
    double smoothing = dl_foreign_real(c->n, "label_smoothing", 0);
    if (!x || !given || reduction < 0 || x->rank < 2 || given->rank != x->rank - 1 ||
        given->class != DL_FOREIGN_INT)
        return false;
    dl_in_value *classes = dl_copy_value(c, given), *made = dl_copy_value(c, given);
    dl_ordered(c, x, true), dl_ordered(c, classes, true);
    const char *names[DL_FOREIGN_RANK];
    for (int a = 0; a < classes->n; a++) names[a] = x->axis[a + (a > 0)].name;
    dl_rename(c, classes, names);
    if (weight) {
        weight = dl_copy_value(c, weight);
        if (weight->rank != 1) return false;
        dl_rename(c, weight, &x->axis[1].name);
    }
    int s = dl_call_function(c, "cross_entropy", x, ", %v", classes);
    if (weight) dl_say_more(c, ", weight=%v", weight);
    if (smoothing != 0) dl_say_more(c, ", label_smoothing=%r", "smoothing", smoothing);
    if (ignored != -100) dl_say_more(c, ", ignore_index=%i", "ignored", ignored);
    dl_say_more(c, "%s, over=%s", reductions[reduction], x->axis[1].name);
    if (reduction) {
        dl_set(c, 0, dl_new_value(c, s, c->n->results[0]));
        return true;
    }
    *made = *classes;
    return dl_done(c, made, s);
}

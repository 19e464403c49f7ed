#include "runtime/train/best.h"

#include <math.h>

#include "runtime/formats/log.h"

static int keep(const dlr_best *b) { return b->o->keep > 1 ? b->o->keep : 1; }

void dlr_best_begin(dlr_best *b, const dlr_best_options *o, dl_arena *arena) {
    *b = (dlr_best){.o = o, .arena = arena};
    b->list = DL_NEWS(arena, dlr_best_entry, keep(b) + 1);
}

/* Whether x goes before y, which came earlier. */
static bool is_before(const dlr_best *b, double x, double y) {
    return b->o->largest ? x >= y : x <= y;
}

static void insert(dlr_best *b, dlr_best_entry e) {
    int at = 0;
    while (at < b->n && !is_before(b, e.value, b->list[at].value)) at++;
    for (int i = b->n; i > at; i--) b->list[i] = b->list[i - 1];
    b->list[at] = e;
    if (b->n < keep(b)) b->n++;
}

void dlr_best_note(dlr_best *b, double loss, const dlr_averages *metrics, int64_t step) {
    double value = b->o->metric ? NAN : loss;
    for (int i = 0; b->o->metric && i < metrics->n; i++)
        if (strcmp(metrics->terms[i].name, b->o->metric) == 0)
            value = dlr_averages_mean(metrics, i);
    if (isfinite(value)) insert(b, (dlr_best_entry){value, step});
}

bool dlr_best_is(const dlr_best *b, int64_t step) { return b->n && b->list[0].step == step; }

void dlr_best_take_loss(dlr_best *b, double least) {
    b->n = 0;
    if (!b->o->metric && !b->o->largest && isfinite(least))
        b->list[b->n++] = (dlr_best_entry){least, 0};
}

/* ---- in a checkpoint ---- */

static const char *measure(const dlr_best *b, dl_arena *arena) {
    return dl_format(arena, "%s of %s", b->o->largest ? "maximum" : "minimum",
                     b->o->metric ? b->o->metric : "the loss");
}

void dlr_best_put_state(const dlr_best *b, dl_arena *arena, dlr_state_list *list) {
    dlr_state_put_text(arena, list, "best_measure", measure(b, arena));
    double *values = dlr_state_put_reals(arena, list, "best_checkpoints", 2 * b->n);
    for (int i = 0; i < b->n; i++)
        values[2 * i] = b->list[i].value, values[2 * i + 1] = (double)b->list[i].step;
}

void dlr_best_restore(dlr_best *b, const dlr_checkpoint *c) {
    const char *then = dlr_state_text(c, "best_measure"), *now = measure(b, b->arena);
    const dlr_state_value *v = dlr_checkpoint_value(c, "best_checkpoints");
    b->n = 0;
    if (then && strcmp(then, now) != 0) {
        dlr_log_info("best was the %s in the checkpoint, and is the %s now: it is looked for from "
                     "here on",
                     then, now);
        return;
    }
    if (v && v->kind == DLR_STATE_REALS)
        for (int i = 0; i + 1 < v->n_reals && i < 2 * keep(b); i += 2)
            b->list[b->n++] = (dlr_best_entry){v->reals[i], (int64_t)v->reals[i + 1]};
    else
        dlr_best_take_loss(b, c->state.best_loss);
}

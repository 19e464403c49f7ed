/* The flight recorder: a rank's last collectives, to find the cause of a hang or a lost rank. */
#include <stdio.h>
#include <string.h>

#include "ir/base/clock.h"
#include "ir/base/str.h"
#include "runtime/comm/engine.h"

void dlr_flight_note(dlr_engine *e, const dlr_op *op) {
    dlr_flight *f = &e->recorder[op->ticket % REMEMBERED];
    *f = (dlr_flight){.ticket = op->ticket,
                      .number = op->number,
                      .asked = op->asked,
                      .begun = op->begun,
                      .ended = op->ended,
                      .bytes = dlr_bytes_from(&op->c, op->group->n, op->group->me),
                      .group = op->c.group,
                      .hash = op->hash};
    memcpy(f->what, op->what, sizeof f->what);
}

enum { SHOWN = 8 /* lines on standard error, which all ranks share */ };

static void put(const dlr_engine *e, dl_buf *b, int most) {
    int64_t now = dl_clock_ns(), end = e->next_begun, first = end > most ? end - most : 0;
    dl_putf(b, "rank %d: its last collectives (bytes; seconds ago: started, begun, done)\n",
            e->rank);
    for (int64_t t = first; t < end; t++) {
        const dlr_flight *f = &e->recorder[t % REMEMBERED];
        double ago = 1e-9 * (double)(now - f->asked), begun = 1e-9 * (double)(now - f->begun);
        char done[32] = "not done";
        if (f->ended) snprintf(done, sizeof done, "%.3f", 1e-9 * (double)(now - f->ended));
        dl_putf(b, "rank %d: %lld: group %d, its %lld, %016llx: %lld %.3f %.3f %s %s\n", e->rank,
                (long long)f->ticket, f->group, (long long)f->number, (unsigned long long)f->hash,
                (long long)f->bytes, ago, begun, done, f->what);
    }
    dlr_hooks_flight(e->comm, e->rank, b);
}

/* Written by one call, since the program's own thread and other ranks write at the same time. */
void dlr_flight_dump(const dlr_engine *e) {
    const char *path = e->comm->flight;
    FILE *f = path ? fopen(path, "we") : NULL;
    dl_buf b = {0};
    put(e, &b, f ? REMEMBERED : SHOWN);
    fwrite(b.at, 1, b.n, f ? f : stderr);
    if (f) fclose(f);
    dl_buf_free(&b);
}

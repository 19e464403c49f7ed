/* The flight recorder: a rank's last collectives, for who looks for the reason why one was the last. */
#include <stdio.h>
#include <string.h>

#include "ir/base/clock.h"
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

static void print(const dlr_engine *e, FILE *to) {
    int64_t now = dl_clock_ns(), end = e->next_begun, first = end > REMEMBERED ? end - REMEMBERED : 0;
    fprintf(to, "rank %d: its last collectives (seconds ago: started, begun, done)\n", e->rank);
    for (int64_t t = first; t < end; t++) {
        const dlr_flight *f = &e->recorder[t % REMEMBERED];
        double ago = 1e-9 * (double)(now - f->asked), begun = 1e-9 * (double)(now - f->begun);
        fprintf(to, "rank %d: %lld group %d number %lld %016llx %lld bytes %.3f %.3f ", e->rank,
                (long long)f->ticket, f->group, (long long)f->number, (unsigned long long)f->hash,
                (long long)f->bytes, ago, begun);
        if (f->ended)
            fprintf(to, "%.3f %s\n", 1e-9 * (double)(now - f->ended), f->what);
        else
            fprintf(to, "not done %s\n", f->what);
    }
}

void dlr_flight_dump(const dlr_engine *e) {
    const char *path = e->comm->flight;
    FILE *f = path ? fopen(path, "we") : NULL;
    if (!f) {
        print(e, stderr);
        return;
    }
    print(e, f);
    fclose(f);
}

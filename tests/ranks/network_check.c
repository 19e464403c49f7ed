/* The network's two numbers out of times: exact ones give them back, and one that is disturbed does
 * not move them. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "runtime/analyze/network.h"
#include "tests/check.h"

static bool near(double a, double b, double bound) { return fabs(a - b) <= bound * fabs(b); }

static dl_network_measured made(int ranks, double latency, double bandwidth) {
    dl_network_measured m = {.ranks = ranks};
    int64_t bytes = 16384;
    for (int i = 0; i < DL_NETWORK_SIZES; i++, bytes *= 3) {
        double sent = (double)bytes * (ranks - 1) / ranks;
        m.points[i] =
            (dl_network_point){bytes, 2 * ((ranks - 1) * latency + sent / (bandwidth * 1e3)), 0};
    }
    return m;
}

static void test_exact(void) {
    for (int ranks = 2; ranks <= 64; ranks *= 2) {
        dl_network_measured m = made(ranks, 17, 3.5);
        dl_network_fit(&m);
        CHECK(near(m.network.latency_us, 17, 1e-6) && near(m.network.bandwidth_gbs, 3.5, 1e-6),
              "%d: %g %g", ranks, m.network.latency_us, m.network.bandwidth_gbs);
        for (int i = 0; i < DL_NETWORK_SIZES; i++)
            CHECK(near(m.points[i].model_us, m.points[i].us, 1e-6), "%d", i);
        /* the model of collectives says the same */
        dl_plan_collective c = {.op = DL_OP_all_reduce,
                                .dtype = DL_F32,
                                .outer = 1,
                                .inner = 1,
                                .ranks = ranks,
                                .size = m.points[5].bytes / 4};
        CHECK(near(dl_collective_us(&c, &m.network), m.points[5].us, 1e-6), "%d", ranks);
    }
}

static void test_disturbed(void) {
    for (int i = 0; i < DL_NETWORK_SIZES; i++) {
        dl_network_measured m = made(2, 20, 1);
        m.points[i].us *= 3;
        dl_network_fit(&m);
        CHECK(m.network.latency_us > 0 && m.network.latency_us < 60 &&
                  near(m.network.bandwidth_gbs, 1, 0.7),
              "%d: %g %g", i, m.network.latency_us, m.network.bandwidth_gbs);
    }
    dl_network_measured m = made(2, 20, 1);
    for (int i = 0; i < DL_NETWORK_SIZES; i++) m.points[i].us = 5; /* times that say nothing */
    dl_network_fit(&m);
    CHECK(m.network.latency_us > 0 && isfinite(m.network.bandwidth_gbs) &&
              m.network.bandwidth_gbs > 0,
          "%g %g", m.network.latency_us, m.network.bandwidth_gbs);
}

static void *measure(void *of) {
    dl_error err = {0};
    dl_network_measured *m = calloc(1, sizeof *m);
    if (!dl_network_measure(of, m, &err)) m->ranks = 0;
    return m;
}

/* Threads in place of ranks: all come to the same two numbers. */
static void test_measured(void) {
    dlr_comm **comms = dlr_comm_local(2, true);
    pthread_t thread;
    void *other = NULL;
    CHECK(pthread_create(&thread, NULL, measure, comms[1]) == 0, "a thread");
    dl_network_measured *m = measure(comms[0]), *o;
    pthread_join(thread, &other);
    o = other;
    CHECK(m->ranks == 2 && m->network.latency_us == o->network.latency_us &&
              m->network.bandwidth_gbs == o->network.bandwidth_gbs,
          "%g %g, %g %g", m->network.latency_us, o->network.latency_us, m->network.bandwidth_gbs,
          o->network.bandwidth_gbs);
    CHECK(m->points[7].us > m->points[0].us && m->points[0].us > 0, "%g %g", m->points[0].us,
          m->points[7].us);
    free(m), free(o);
    for (int i = 0; i < 2; i++) dlr_comm_close(comms[i], NULL);
    free(comms);
}

int main(void) {
    test_exact();
    test_disturbed();
    test_measured();
    return dl_test_end();
}

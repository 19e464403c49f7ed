/* Models in threads of their own have the bits that they have alone; under ThreadSanitizer as well
 * (scripts/test --long). */
#include <pthread.h>

#include "tests/library/fixture.h"

enum { STEPS = 20, BATCH = 8, THREADS = 3 };

static const char NET[] = "model Net(width=16):\n"
                          "    input x: f32[N, C=2, H=8, W=8]\n"
                          "    target t: f32[N, C=1, H=8, W=8]\n"
                          "    h = x |> conv(width, 3, pad=1) @a |> relu\n"
                          "    y = h |> conv(1, 3, pad=1) @b\n"
                          "    output y\n"
                          "    loss = mean((y - t)**2)\n";

typedef struct {
    const char *path;
    int threads; /* of the model */
    unsigned seed;
    bool ok;
    double losses[STEPS];
    float y[BATCH * 64];
} work;

static void *run(void *of) {
    work *w = of;
    dlc_options o = fixture_options(BATCH, 1);
    dlc_status s;
    static _Thread_local float x[BATCH * 128], t[BATCH * 64];
    o.threads = w->threads;
    unsigned r = w->seed;
    for (int i = 0; i < BATCH * 128; i++)
        r = r * 1664525 + 1013904223, x[i] = (float)(r >> 8) / (1 << 23) - 1;
    for (int i = 0; i < BATCH * 64; i++) t[i] = x[i / 64 * 128 + i % 64] * .5f;
    const void *all[] = {x, t};
    dlc_model *m = dlc_open(w->path, &o, &s);
    w->ok = m != NULL;
    for (int i = 0; w->ok && i < STEPS; i++)
        w->ok = dlc_train_step(m, BATCH, all, &w->losses[i], &s);
    w->ok = w->ok && dlc_predict(m, BATCH, all, (void *[]){w->y}, &s);
    if (!w->ok) printf("%d %s\n", s.code, s.message);
    dlc_close(m);
    return NULL;
}

static bool same(const work *a, const work *b) {
    return memcmp(a->losses, b->losses, sizeof a->losses) == 0 &&
           memcmp(a->y, b->y, sizeof a->y) == 0;
}

int main(void) {
    static work alone[THREADS], together[THREADS];
    pthread_t thread[THREADS];
    CHECK(fixture_begin(), "a folder");
    const char *paths[] = {fixture_file("net.dl", NET), fixture_file("linear.dl", NET)};
    for (int i = 0; i < THREADS; i++) {
        alone[i] = together[i] =
            (work){.path = paths[i % 2], .threads = 1 + i % 2, .seed = 7 * (unsigned)i + 1};
        run(&alone[i]);
        CHECK(alone[i].ok && alone[i].losses[STEPS - 1] < alone[i].losses[0], "it learns");
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], NULL, run, &together[i]) == 0, "a thread");
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < THREADS; i++)
        CHECK(together[i].ok && same(&alone[i], &together[i]), "model %d: the bits of it alone", i);
    CHECK(!same(&alone[0], &alone[1]), "different models differ");
    return fixture_end();
}

/* Shared by the library's tests: models in a temporary folder, calls that must fail. */
#ifndef DL_LIBRARY_FIXTURE_H
#define DL_LIBRARY_FIXTURE_H
#include "include/dlc.h"
#include "tests/cache.h"
#include "tests/check.h"

static char fixture_dir[] = "/tmp/dlc_library_XXXXXX";

/* y = W x + b, of which a test knows every number. */
static const char LINEAR[] = "model Linear():\n"
                             "    input x: f32[N, C=3]\n"
                             "    target t: f32[N, C=2]\n"
                             "    y = x |> linear(2) @l\n"
                             "    output y\n"
                             "    loss = mean((y - t)**2)\n"
                             "    metric mae = mean(abs(y - t))\n"
                             "    metric mse = mean((y - t)**2)\n";

static inline bool fixture_begin(void) { return test_cache(fixture_dir); }

static inline int fixture_end(void) {
    char command[200];
    snprintf(command, sizeof command, "rm -rf %s", fixture_dir);
    CHECK(system(command) == 0, "the folder goes");
    return dl_test_end();
}

static inline const char *fixture_path(const char *name) {
    static char path[8][200];
    static int next;
    char *to = path[next++ % 8];
    snprintf(to, sizeof path[0], "%s/%s", fixture_dir, name);
    return to;
}

/* The path of a file with that text. */
static inline const char *fixture_file(const char *name, const char *text) {
    const char *path = fixture_path(name);
    FILE *f = fopen(path, "w");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0, "%s", path);
    return path;
}

static const char *const SGD[] = {"optimizer=sgd", "lr=0.1", "lr_schedule=none", NULL};

static inline dlc_options fixture_options(int64_t batch, int train) {
    return (dlc_options){.size = sizeof(dlc_options),
                         .device = "cpu",
                         .threads = 1,
                         .batch = batch,
                         .settings = SGD,
                         .train = train};
}

/* Opens what must open. */
static inline dlc_model *fixture_open(const char *path, const dlc_options *o) {
    dlc_status s = {.code = 99, .message = "not written"};
    dlc_model *m = dlc_open(path, o, &s);
    CHECK(m && s.code == 0 && !*s.message, "%s: %d %s", path, s.code, s.message);
    return m;
}

/* A call's outcome was a failure, with that code and a sentence that holds `part`. */
#define FAILS(call, status, want, part)                                                            \
    do {                                                                                           \
        (status) = (dlc_status){0};                                                                \
        long long fails_got = (long long)(call);                                                   \
        CHECK(!fails_got && (status).code == (want) && strstr((status).message, part),             \
              "%s: %d %s", #call, (status).code, (status).message);                                \
    } while (0)
#endif

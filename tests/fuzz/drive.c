/* Runs a target without libFuzzer:
 *
 *     fuzz_NAME RUNS PATH...       every file of the paths (files or directories; what does not
 * exist is passed over) as it is, then RUNS changed ones
 *     fuzz_NAME --one FILE         one input, as a crash left it
 *
 * The changed ones are the same each time of one DLC_TEST_DRAW, and a fourth of RUNS where
 * DLC_TEST_SHARE asks for a part (tests/check.h).
 *
 * The input under test is kept in a file that is named when the process dies, so that a crash can
 * be run again. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/fuzz/fuzz.h"

enum { MOST = 1 << 16, MOST_SEEDS = 4096 };

typedef struct {
    uint8_t *data;
    size_t n;
} input;

static input seeds[MOST_SEEDS];
static int n_seeds;
static uint8_t current[MOST];
static size_t current_n;
static char crash_path[64];

/* Keeps the input that killed us; only what may be called in a signal's handler. */
static void keep_crash(int sig) {
    int fd = mkstemp(crash_path);
    if (fd >= 0 && write(fd, current, current_n) == (ssize_t)current_n) {
        static const char says[] = "the input is kept in ";
        if (write(2, says, sizeof says - 1) + write(2, crash_path, strlen(crash_path)) +
                write(2, "\n", 1) <
            0)
            _exit(70);
    }
    signal(sig, SIG_DFL);
    raise(sig);
}

static void add_file(const char *name) {
    FILE *f = fopen(name, "rb");
    if (!f) return;
    static uint8_t buffer[MOST];
    size_t n = fread(buffer, 1, sizeof buffer, f);
    fclose(f);
    if (n_seeds == MOST_SEEDS) return;
    seeds[n_seeds].data = malloc(n + 1);
    if (!seeds[n_seeds].data) exit(5);
    memcpy(seeds[n_seeds].data, buffer, n);
    seeds[n_seeds++].n = n;
}

static int is_named(const struct dirent *e) { return e->d_name[0] != '.'; }

static void add_path(const char *name) {
    struct stat st;
    if (stat(name, &st) != 0) return;
    if (!S_ISDIR(st.st_mode)) {
        add_file(name);
        return;
    }
    struct dirent **entries;
    int n = scandir(name, &entries, is_named, alphasort);
    for (int i = 0; i < n; i++) {
        char file[4096];
        snprintf(file, sizeof file, "%s/%s", name, entries[i]->d_name);
        if (stat(file, &st) == 0 && S_ISREG(st.st_mode)) add_file(file);
        free(entries[i]);
    }
    if (n >= 0) free(entries);
}

static void run(void) {
    uint8_t *exact = malloc(current_n ? current_n : 1); /* so that a read after the end is seen */
    if (!exact) exit(5);
    memcpy(exact, current, current_n);
    LLVMFuzzerTestOneInput(exact, current_n);
    free(exact);
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: %s RUNS PATH... | --one FILE\n", argv[0]);
        return 2;
    }
    snprintf(crash_path, sizeof crash_path, "/tmp/dlc-crash-XXXXXX");
    signal(SIGABRT, keep_crash);
    signal(SIGSEGV, keep_crash);
    signal(SIGFPE, keep_crash);
    long runs = strcmp(argv[1], "--one") ? atol(argv[1]) : 0;
    for (int i = 2; i < argc; i++) add_path(argv[i]);
    for (int i = 0; i < n_seeds; i++) {
        memcpy(current, seeds[i].data, current_n = seeds[i].n);
        run();
    }
    if (dl_test_share() > 1) runs = (runs + 3) / 4;
    fuzz_random r = {1 + UINT64_C(1000003) * dl_test_draw()};
    for (long i = 0; i < runs && n_seeds; i++) {
        const input *seed = &seeds[fuzz_below(&r, (size_t)n_seeds)];
        memcpy(current, seed->data, current_n = seed->n);
        for (size_t times = 1 + fuzz_below(&r, 3); times > 0; times--)
            current_n = LLVMFuzzerCustomMutator(current, current_n, MOST, (unsigned)fuzz_next(&r));
        run();
    }
    printf("%ld passed, %d failed\n", n_seeds + runs, n_seeds == 0);
    for (int i = 0; i < n_seeds; i++) free(seeds[i].data);
    return n_seeds == 0;
}

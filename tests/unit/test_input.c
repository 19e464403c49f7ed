/* Files that are read: what is refused without waiting, pipes, limits, few descriptors. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ir/base/dirs.h"
#include "ir/base/input.h"
#include "ir/base/output.h"
#include "tests/check.h"

static dl_arena *arena;
static char dir[] = "/tmp/dl_input_XXXXXX";

static const char *in_dir(const char *name) { return dl_format(arena, "%s/%s", dir, name); }

/* Refused with this code and this word, by each way of opening. */
static bool refused(const char *path, dl_code code, const char *word) {
    dl_error e[4] = {0};
    size_t n;
    bool any = dl_file_open(path, &e[0]) >= 0;
    any |= dl_input_open(path, &e[1]) >= 0;
    any |= dl_read_file(arena, path, 100, &n, &e[2]) != NULL;
    any |= dl_read_input(arena, path, 100, &n, &e[3]) != NULL;
    for (int i = 0; i < 4; i++) {
        any |= e[i].code != code || !strstr(e[i].message, word) || !strstr(e[i].message, path);
        if (any) printf("%d: %s\n", (int)e[i].code, e[i].message);
    }
    return !any;
}

static void test_kinds(void) {
    CHECK(mkfifo(in_dir("fifo"), 0644) == 0 && refused(in_dir("fifo"), DL_INPUT, "a FIFO"));
    CHECK(symlink("fifo", in_dir("link")) == 0 && refused(in_dir("link"), DL_INPUT, "a FIFO"));
    CHECK(refused(dir, DL_INPUT, "a directory"));
    CHECK(refused("/dev/zero", DL_INPUT, "a device"));
    CHECK(refused("/dev/null", DL_INPUT, "a device"));
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(name.sun_path, sizeof name.sun_path, "%s/socket", dir);
    CHECK(bind(listener, (struct sockaddr *)&name, sizeof name) == 0 &&
          refused(name.sun_path, DL_INPUT, "a socket"));
    close(listener);
    CHECK(refused("", DL_USAGE, "empty name"));
    CHECK(refused(in_dir("none"), DL_IO, "cannot open"));
    CHECK(symlink("loop", in_dir("loop")) == 0 && refused(in_dir("loop"), DL_IO, "symbolic links"));
    /* A FIFO with a writer is no better: it may stay open for ever. */
    int both = open(in_dir("fifo"), O_RDWR);
    CHECK(both >= 0 && write(both, "x", 1) == 1 && refused(in_dir("fifo"), DL_INPUT, "a FIFO"));
    close(both);
}

static void test_limit(void) {
    dl_error err = {0};
    size_t n = 7;
    CHECK(dl_write_file(in_dir("f"), "12345", 5, &err), "%s", err.message);
    const char *text = dl_read_file(arena, in_dir("f"), 5, &n, &err);
    CHECK(text && n == 5 && strcmp(text, "12345") == 0);
    CHECK(!dl_read_file(arena, in_dir("f"), 4, &n, &err) && err.code == DL_INPUT &&
          strstr(err.message, "larger"));
    err = (dl_error){0};
    CHECK(dl_write_file(in_dir("empty"), "", 0, &err));
    text = dl_read_file(arena, in_dir("empty"), 4, &n, &err);
    CHECK(text && n == 0 && *text == 0);
    char got[4] = "";
    int fd = dl_file_open(in_dir("f"), &err);
    CHECK(dl_read_at(fd, "f", got, 3, 1, &err) && strcmp(got, "234") == 0);
    CHECK(!dl_read_at(fd, "f", got, 3, 3, &err) && err.code == DL_IO &&
              strstr(err.message, "byte 5"),
          "%s", err.message);
    close(fd);
}

/* A shell's pipe is read to its end. */
static void test_pipes(void) {
    int ends[2];
    CHECK(pipe(ends) == 0 && write(ends[1], "model", 5) == 5 && close(ends[1]) == 0);
    dl_error err = {0};
    size_t n = 0;
    const char *text = dl_read_input(arena, dl_format(arena, "/dev/fd/%d", ends[0]), 100, &n, &err);
    CHECK(text && n == 5 && strcmp(text, "model") == 0, "%s", err.message);
    close(ends[0]);
    CHECK(pipe(ends) == 0 && write(ends[1], "model", 5) == 5 && close(ends[1]) == 0);
    CHECK(!dl_read_input(arena, dl_format(arena, "/proc/self/fd/%d", ends[0]), 4, &n, &err) &&
          err.code == DL_INPUT);
    close(ends[0]);
    err = (dl_error){0};
    CHECK(!dl_read_input(arena, "/dev/fd/999", 100, &n, &err) && err.code == DL_IO);
    err = (dl_error){0};
    CHECK(!dl_read_input(arena, "/dev/fd/", 100, &n, &err) && err.code == DL_INPUT);
}

static void test_descriptors(void) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit none = {3, 3};
        dl_error err = {0};
        setrlimit(RLIMIT_NOFILE, &none);
        bool told = dl_file_open(in_dir("f"), &err) < 0 && err.code == DL_RESOURCE &&
                    strstr(err.message, "ulimit -n");
        err = (dl_error){0};
        told &= !dl_check_descriptors(1, "data.h5", &err) && err.code == DL_RESOURCE &&
                strstr(err.message, "data.h5") && strstr(err.message, "ulimit -n");
        _exit(!told);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(status == 0);
    dl_error err = {0};
    int before = open("/dev/null", O_RDONLY);
    close(before);
    CHECK(dl_check_descriptors(16, "data.h5", &err), "%s", err.message);
    int after = open("/dev/null", O_RDONLY); /* none is kept */
    CHECK(before == after && close(after) == 0);
}

int main(void) {
    arena = dl_arena_new(NULL);
    CHECK(mkdtemp(dir) != NULL);
    test_kinds();
    test_limit();
    test_pipes();
    test_descriptors();
    dl_error err = {0};
    CHECK(dl_remove_tree(dir, &err), "%s", err.message);
    dl_arena_free(arena);
    return dl_test_end();
}

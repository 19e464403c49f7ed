/* The one writer: what outputs may replace, and what they leave. Parts need root (device
 * nodes). */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ir/base/dirs.h"
#include "ir/base/input.h"
#include "ir/base/output.h"
#include "ir/base/str.h"
#include "tests/check.h"

static dl_arena *arena;
static char dir[] = "/tmp/dl_output_XXXXXX";

static const char *in_dir(const char *name) { return dl_format(arena, "%s/%s", dir, name); }

static bool put(const char *path, const char *text, dl_error *err) {
    *err = (dl_error){0};
    return dl_write_file(path, text, strlen(text), err);
}

static bool holds(const char *path, const char *text) {
    dl_error err = {0};
    size_t n = 0;
    const char *got = dl_read_file(arena, path, 1 << 20, &n, &err);
    return got && n == strlen(text) && memcmp(got, text, n) == 0;
}

/* Names in a directory that begin with a dot; removes nothing. */
static int hidden(const char *path) {
    DIR *d = opendir(path);
    int n = 0;
    for (const struct dirent *e; d && (e = readdir(d));) n += strncmp(e->d_name, ".dlc-", 5) == 0;
    if (d) closedir(d);
    return n;
}

static mode_t mode_of(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 ? st.st_mode & 07777 : 0;
}

static void test_replace(void) {
    dl_error err;
    const char *path = in_dir("f");
    mode_t before = umask(022);
    CHECK(put(path, "one", &err) && holds(path, "one"), "%s", err.message);
    CHECK(mode_of(path) == 0644, "%o", mode_of(path));
    CHECK(chmod(path, 0660) == 0 && put(path, "two", &err) && holds(path, "two"), "%s",
          err.message);
    CHECK(mode_of(path) == 0660, "%o", mode_of(path));
    umask(077);
    CHECK(put(in_dir("g"), "x", &err) && mode_of(in_dir("g")) == 0600, "%o", mode_of(in_dir("g")));
    umask(0); /* code that others could change would be refused when it is loaded */
    CHECK(put(in_dir("h"), "x", &err) && mode_of(in_dir("h")) == 0644, "%o", mode_of(in_dir("h")));
    umask(before);
    char name[256];
    memset(name, 'n', 255), name[255] = 0;
    CHECK(put(in_dir(name), "long", &err) && holds(in_dir(name), "long"), "%s", err.message);
    CHECK(hidden(dir) == 0);
}

static void test_links(void) {
    dl_error err;
    struct stat st;
    CHECK(mkdir(in_dir("sub"), 0755) == 0 && symlink("sub/real", in_dir("link")) == 0 &&
          symlink("link", in_dir("twice")) == 0);
    CHECK(put(in_dir("twice"), "dangling", &err), "%s", err.message);
    CHECK(holds(in_dir("sub/real"), "dangling"));
    CHECK(put(in_dir("link"), "there", &err) && holds(in_dir("sub/real"), "there"), "%s",
          err.message);
    CHECK(lstat(in_dir("link"), &st) == 0 && S_ISLNK(st.st_mode));
    CHECK(lstat(in_dir("twice"), &st) == 0 && S_ISLNK(st.st_mode));
    CHECK(symlink("b", in_dir("a")) == 0 && symlink("a", in_dir("b")) == 0);
    CHECK(!put(in_dir("a"), "x", &err) && err.code == DL_IO &&
              strstr(err.message, "symbolic links"),
          "%s", err.message);
    CHECK(symlink("nowhere/x", in_dir("far")) == 0 && !put(in_dir("far"), "x", &err) &&
          err.code == DL_IO);
    CHECK(hidden(dir) == 0 && hidden(in_dir("sub")) == 0);
}

static void test_own_input(void) {
    dl_error err;
    const char *model = in_dir("model"), *hard = in_dir("hard"), *soft = in_dir("soft");
    CHECK(put(model, "precious", &err) && link(model, hard) == 0 && symlink("model", soft) == 0);
    CHECK(dl_read_input(arena, model, 100, NULL, &err) != NULL);
    const char *spelt[] = {model, hard, soft, in_dir("../././//model"), in_dir("sub/../model")};
    spelt[3] = dl_format(arena, "%s/../%s/model", dir, strrchr(dir, '/') + 1);
    for (int i = 0; i < 5; i++) {
        CHECK(!put(spelt[i], "gone", &err) && err.code == DL_USAGE &&
                  strstr(err.message, spelt[i]) && strstr(err.message, "reads"),
              "%s: %s", spelt[i], err.message);
        CHECK(dl_append_open(spelt[i], DL_APPEND, &err) < 0);
    }
    CHECK(holds(model, "precious"));
    /* An input that comes to stand under the name while the output is written. */
    const char *late = in_dir("late");
    dl_output *o = dl_output_open(late, &err);
    err = (dl_error){0};
    CHECK(o && link(model, late) == 0 && !dl_output_commit(o, &err) && err.code == DL_USAGE, "%s",
          err.message);
    CHECK(holds(late, "precious") && unlink(late) == 0);
    /* Files of our own are no inputs; and a number that another file gets later protects nothing.
     */
    CHECK(put(in_dir("own"), "1", &err) && dl_read_file(arena, in_dir("own"), 9, NULL, &err) &&
              put(in_dir("own"), "2", &err),
          "%s", err.message);
    CHECK(unlink(model) == 0 && put(hard, "free", &err), "%s", err.message);
    CHECK(put(model, "again", &err) && dl_read_input(arena, model, 9, NULL, &err) != NULL);
    dl_input_forget();
    CHECK(put(model, "forgotten", &err), "%s", err.message);
    CHECK(hidden(dir) == 0);
}

static void test_directories(void) {
    dl_error err;
    CHECK(!put("", "x", &err) && err.code == DL_USAGE);
    CHECK(!put(dir, "x", &err) && err.code == DL_IO && strstr(err.message, "directory"), "%s",
          err.message);
    CHECK(!put(in_dir("new/"), "x", &err) && err.code == DL_IO && strstr(err.message, "directory"),
          "%s", err.message);
    CHECK(!put(in_dir("f/x"), "x", &err) && err.code == DL_IO);
    char *longest = dl_alloc(arena, 5000);
    memset(longest, 'x', 4999);
    CHECK(!put(longest, "x", &err) && err.code == DL_IO && strstr(err.message, "long"), "%s",
          err.message);
    for (int i = 0; i < 3000; i += 200) longest[i] = '/';
    longest[3000] = 0; /* the cause is told after it all the same */
    CHECK(!put(longest, "x", &err) && err.code == DL_IO && strstr(err.message, "No such file"),
          "%s", err.message);
}

/* As another user, where root would be let through. Runs in a child, whose failures are its status.
 */
static void test_permissions(void) {
    dl_error err;
    CHECK(mkdir(in_dir("locked"), 0755) == 0 && put(in_dir("locked/f"), "old", &err));
    CHECK(put(in_dir("readonly"), "old", &err) && chmod(in_dir("readonly"), 0444) == 0);
    CHECK(chmod(dir, 0777) == 0 && chmod(in_dir("locked"), 0555) == 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(9);
        bool refused = !put(in_dir("readonly"), "x", &err) && err.code == DL_IO;
        refused &= !put(in_dir("locked/f"), "x", &err) && err.code == DL_IO;
        refused &= !put(in_dir("locked/new"), "x", &err) && err.code == DL_IO;
        _exit(refused ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(status == 0, "status %d", status);
    CHECK(holds(in_dir("readonly"), "old") && holds(in_dir("locked/f"), "old"));
    CHECK(chmod(in_dir("locked"), 0755) == 0);
}

static void test_devices(void) {
    dl_error err;
    struct stat st;
    /* Root takes nodes of its own: a fault here shall not replace the system's. */
    const char *full = "/dev/full", *null = "/dev/null";
    if (geteuid() == 0) {
        full = in_dir("full_node"), null = in_dir("null_node");
        if (mknod(full, S_IFCHR | 0666, makedev(1, 7)) != 0 ||
            mknod(null, S_IFCHR | 0666, makedev(1, 3)) != 0) {
            dl_test_skip("devices: no nodes can be made here");
            return;
        }
    }
    CHECK(!put(full, "x", &err) && err.code == DL_IO && strstr(err.message, "space"), "%s",
          err.message);
    CHECK(put(null, "x", &err), "%s", err.message);
    CHECK(stat(full, &st) == 0 && S_ISCHR(st.st_mode) && stat(null, &st) == 0 &&
          S_ISCHR(st.st_mode));
    int fd = dl_append_open(null, DL_APPEND, &err);
    CHECK(fd >= 0 && close(fd) == 0, "%s", err.message);
    dl_output *o = dl_output_open(null, &err);
    CHECK(o && dl_output_write_at(o, 0, "ab", 2, &err) && dl_output_write_at(o, 2, "cd", 2, &err));
    CHECK(o && !dl_output_write_at(o, 0, "ab", 2, &err) && err.code == DL_IO);
    dl_output_discard(o);
}

static void test_fifos(void) {
    dl_error err;
    struct stat st;
    const char *fifo = in_dir("fifo");
    CHECK(mkfifo(fifo, 0644) == 0);
    CHECK(!put(fifo, "x", &err) && err.code == DL_IO && strstr(err.message, "nobody reads"), "%s",
          err.message);
    int reader = open(fifo, O_RDONLY | O_NONBLOCK);
    char got[8] = "";
    CHECK(put(fifo, "through", &err), "%s", err.message);
    CHECK(read(reader, got, 7) == 7 && strcmp(got, "through") == 0);
    close(reader);
    CHECK(stat(fifo, &st) == 0 && S_ISFIFO(st.st_mode));
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(name.sun_path, sizeof name.sun_path, "%s/socket", dir);
    CHECK(bind(listener, (struct sockaddr *)&name, sizeof name) == 0);
    CHECK(!put(name.sun_path, "x", &err) && err.code == DL_IO && stat(name.sun_path, &st) == 0 &&
          S_ISSOCK(st.st_mode));
    close(listener);
    /* A file that becomes a FIFO while the output is written stays one. */
    const char *late = in_dir("late");
    err = (dl_error){0};
    dl_output *o = dl_output_open(late, &err);
    CHECK(o && mkfifo(late, 0600) == 0 && !dl_output_commit(o, &err) && err.code == DL_IO);
    CHECK(stat(late, &st) == 0 && S_ISFIFO(st.st_mode) && unlink(late) == 0);
}

/* A pipe that is full makes the writer wait, not fail: a large output through a slow reader. */
static void test_slow_pipe(void) {
    enum { N = 1 << 20 };
    int ends[2];
    CHECK(pipe(ends) == 0);
    char *data = dl_alloc(arena, N);
    for (int i = 0; i < N; i++) data[i] = (char)(i * 7);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        dl_error err = {0};
        close(ends[0]);
        _exit(!dl_write_file(dl_format(arena, "/dev/fd/%d", ends[1]), data, N, &err));
    }
    close(ends[1]);
    char chunk[4096];
    int have = 0, wrong = 0, status = 0;
    for (ssize_t n; (n = read(ends[0], chunk, sizeof chunk)) > 0; have += (int)n)
        wrong |= have + n > N || memcmp(chunk, data + have, (size_t)n) != 0;
    close(ends[0]);
    waitpid(child, &status, 0);
    CHECK(have == N && !wrong && status == 0, "%d bytes, status %d", have, status);
}

/* -o with the name of the file that standard output goes to: both stay, in order. */
static void test_standard_stream(void) {
    const char *path = in_dir("stdout");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        dl_error err = {0};
        if (!freopen(path, "w", stdout)) _exit(9);
        printf("before ");
        bool ok =
            dl_write_file("/dev/stdout", "plan ", 5, &err) && dl_write_file(path, "plan ", 5, &err);
        printf("after");
        fflush(stdout);
        _exit(!ok);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(status == 0 && holds(path, "before plan plan after"));
}

static void test_ranges(void) {
    dl_error err = {0};
    const char *path = in_dir("ranges");
    dl_output *o = dl_output_open(path, &err);
    CHECK(o && dl_output_fd(o) >= 0 && dl_output_write(o, "abc", 3, &err) &&
              dl_output_write_at(o, 6, "gh", 2, &err) && dl_output_write_at(o, 3, "def", 3, &err) &&
              dl_output_write(o, "i", 1, &err),
          "%s", err.message);
    CHECK(access(path, F_OK) != 0 && hidden(dir) == 1);
    CHECK(o && dl_output_commit(o, &err) && holds(path, "abcdefghi"), "%s", err.message);
    o = dl_output_open(path, &err);
    CHECK(o && dl_output_write(o, "half", 4, &err));
    dl_output_discard(o);
    dl_output_discard(NULL);
    CHECK(holds(path, "abcdefghi") && hidden(dir) == 0);
}

/* A limit on the size of files stands for a full disk. */
static void test_no_space(void) {
    dl_error err = {0};
    const char *path = in_dir("full");
    CHECK(put(path, "old", &err));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGXFSZ, SIG_IGN);
        struct rlimit small = {1000, 1000};
        setrlimit(RLIMIT_FSIZE, &small);
        dl_output *o = dl_output_open(path, &err);
        char *data = dl_alloc(arena, 3000);
        bool as_it_should = o && dl_output_write(o, data, 900, &err) &&
                            !dl_output_write(o, data, 900, &err) && err.code == DL_IO &&
                            strstr(err.message, path);
        dl_error second = {0};
        as_it_should &=
            o && !dl_output_commit(o, &second) && second.code == DL_IO; /* never half a file */
        int64_t end = 0;
        dl_error third = {0};
        int fd = dl_append_open(in_dir("grows"), DL_APPEND, &third);
        as_it_should &= dl_append(fd, "grows", data, 900, &end, &third) &&
                        !dl_append(fd, "grows", data, 900, &end, &third) && end == 900;
        _exit(!as_it_should);
    }
    int status = 0;
    struct stat st;
    waitpid(child, &status, 0);
    CHECK(status == 0, "status %d", status);
    CHECK(holds(path, "old") && hidden(dir) == 0);
    CHECK(stat(in_dir("grows"), &st) == 0 && st.st_size == 900, "%lld bytes",
          (long long)st.st_size);
}

/* The files that a killed process leaves are hidden, and go with the next write into its directory;
 * what a living one is writing stays. */
static void test_leftovers(void) {
    const char *place = in_dir("left");
    CHECK(mkdir(place, 0755) == 0);
    int ready[2], go[2];
    CHECK(pipe(ready) == 0 && pipe(go) == 0);
    fflush(stdout);
    pid_t children[2];
    for (int i = 0; i < 2; i++) {
        if ((children[i] = fork())) continue;
        dl_error err = {0};
        char c = 'x';
        const char *path = dl_format(arena, "%s/%d", place, i);
        dl_output *o = dl_output_open(path, &err);
        dl_output_dir *d = dl_output_dir_open(dl_format(arena, "%s/dir%d", place, i), &err);
        bool ok =
            o && d && dl_output_write(o, "text", 4, &err) &&
            dl_write_file(dl_format(arena, "%s/part", dl_output_dir_path(d)), "part", 4, &err);
        if (write(ready[1], &c, 1) != 1 || read(go[0], &c, 1) != 1) _exit(9);
        _exit(!(ok && dl_output_commit(o, &err) && dl_output_dir_commit(d, &err)));
    }
    char c;
    int status[2];
    CHECK(read(ready[0], &c, 1) == 1 && read(ready[0], &c, 1) == 1 && hidden(place) == 4,
          "%d hidden", hidden(place));
    kill(children[0], SIGKILL);
    waitpid(children[0], &status[0], 0);
    dl_error err;
    CHECK(symlink("/etc/passwd", dl_format(arena, "%s/.dlc-00000000-000000000000", place)) == 0);
    CHECK(hidden(place) == 5 && put(dl_format(arena, "%s/next", place), "x", &err));
    CHECK(hidden(place) == 3, "%d hidden", hidden(place));
    CHECK(write(go[1], "x", 1) == 1);
    waitpid(children[1], &status[1], 0);
    CHECK(status[1] == 0 && holds(dl_format(arena, "%s/1", place), "text") &&
          holds(dl_format(arena, "%s/dir1/part", place), "part"));
    CHECK(hidden(place) == 1 && access(dl_format(arena, "%s/0", place), F_OK) != 0 &&
          access(dl_format(arena, "%s/dir0", place), F_OK) != 0);
    for (int i = 0; i < 2; i++) close(ready[i]), close(go[i]);
}

static void test_output_dirs(void) {
    dl_error err = {0};
    const char *path = in_dir("step"), *inside;
    dl_output_dir *d = dl_output_dir_open(path, &err);
    CHECK(d && access(path, F_OK) != 0);
    inside = d ? dl_format(arena, "%s/f", dl_output_dir_path(d)) : path;
    CHECK(put(inside, "x", &err) && dl_output_dir_commit(d, &err) && holds(in_dir("step/f"), "x"),
          "%s", err.message);
    d = dl_output_dir_open(path, &err);
    CHECK(d && !dl_output_dir_commit(d, &err) && err.code == DL_IO &&
          holds(in_dir("step/f"), "x")); /* taken */
    err = (dl_error){0};
    d = dl_output_dir_open(in_dir("other"), &err);
    CHECK(d && put(dl_format(arena, "%s/f", dl_output_dir_path(d)), "x", &err));
    dl_output_dir_discard(d);
    dl_output_dir_discard(NULL);
    CHECK(access(in_dir("other"), F_OK) != 0 && hidden(dir) == 0);
    CHECK(!dl_output_dir_open("", &err) && err.code == DL_USAGE);
    err = (dl_error){0};
    CHECK(!dl_output_dir_open(in_dir("no/where"), &err) && err.code == DL_IO);
}

static void test_append(void) {
    dl_error err = {0};
    const char *path = in_dir("log");
    int fd = dl_append_open(path, DL_APPEND_NEW, &err);
    int64_t end = 0;
    CHECK(fd >= 0 && dl_append(fd, path, "one\n", 4, &end, &err) && end == 4 && close(fd) == 0);
    CHECK(dl_append_open(path, DL_APPEND_NEW, &err) < 0 && err.code == DL_IO);
    err = (dl_error){0};
    fd = dl_append_open(path, DL_APPEND, &err);
    CHECK(fd >= 0 && dl_append(fd, path, "two\n", 4, &end, &err) && close(fd) == 0);
    CHECK(holds(path, "one\ntwo\n"));
    CHECK(dl_append_open(dir, DL_APPEND, &err) < 0 && err.code == DL_IO);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    arena = dl_arena_new(NULL);
    CHECK(mkdtemp(dir) != NULL);
    test_replace();
    test_links();
    test_own_input();
    test_directories();
    test_permissions();
    test_devices();
    test_fifos();
    test_slow_pipe();
    test_standard_stream();
    test_ranges();
    test_no_space();
    test_leftovers();
    test_output_dirs();
    test_append();
    dl_error err = {0};
    CHECK(dl_remove_tree(dir, &err) && access(dir, F_OK) != 0, "%s", err.message);
    dl_arena_free(arena);
    return dl_test_end();
}

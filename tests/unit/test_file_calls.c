/* Calls of file systems are counted: call by call, by how many threads, in children, and a
 * library's reads by the kernel. */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "ir/base/file_calls.h"
#include "ir/base/input.h"
#include "ir/base/sandbox.h"
#include "tests/check.h"

static char dir[] = "/tmp/dl_calls_XXXXXX", path[100];
static int choose_all(const struct dirent *e) { return e->d_name[0] == 'n'; }

static bool same(const dl_file_calls *c, dl_file_calls want) {
    bool ok = memcmp(c, &want, sizeof want) == 0;
    if (!ok)
        printf(
            "opens %lld stats %lld listings %lld entries %lld reads %lld bytes %lld unknown %lld\n",
            (long long)c->opens, (long long)c->stats, (long long)c->listings, (long long)c->entries,
            (long long)c->reads, (long long)c->bytes, (long long)c->unknown);
    return ok;
}

static void test_each(void) {
    struct stat st;
    dl_error err = {0};
    char some[10];
    dl_file_calls before = dl_file_calls_so_far();
    CHECK(dl_stat(path, &st) == 0 && dl_lstat(path, &st) == 0 && dl_access(path, F_OK) == 0);
    int fd = dl_input_open(path, &err), folder = open(dir, O_RDONLY | O_DIRECTORY);
    CHECK(dl_fstat(fd, &st) == 0 && dl_fstatat(folder, "numbers", &st) == 0);
    CHECK(dl_stat("/nowhere", &st) < 0 && dl_file_open("/nowhere", &err) < 0);
    CHECK(dl_read_at(fd, path, some, sizeof some, 5, &err));
    close(fd), close(folder);
    dl_file_calls c = dl_file_calls_since(&before);
    CHECK(same(&c, (dl_file_calls){.opens = 1, .stats = 7, .reads = 1, .bytes = 10}));
    CHECK(dl_file_calls_metadata(&c) == 9, "an open file is closed, too");
    before = dl_file_calls_so_far();
    struct dirent **list;
    int n = dl_scandir(dir, &list, choose_all, NULL);
    CHECK(n == 1);
    for (int i = 0; i < n; i++) free(list[i]);
    free(list);
    DIR *at = dl_opendir(dir);
    while (dl_readdir(at)) {
    }
    closedir(at);
    c = dl_file_calls_since(&before);
    CHECK(same(&c, (dl_file_calls){.listings = 2, .entries = 4}), "all names, chosen or not");
    dl_file_calls sum = {.opens = 1};
    dl_file_calls_sum(&sum, &c, 2.5);
    CHECK(same(&sum, (dl_file_calls){.opens = 1, .listings = 5, .entries = 10}));
}

static void *look_often(void *unused) {
    struct stat st;
    for (int i = 0; i < 10000; i++) dl_stat("/", &st);
    return unused;
}

static void test_threads(void) {
    pthread_t thread[4];
    dl_file_calls before = dl_file_calls_so_far();
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&thread[i], NULL, look_often, NULL) == 0);
    for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    dl_file_calls c = dl_file_calls_since(&before);
    CHECK(same(&c, (dl_file_calls){.stats = 40000}));
}

/* As a library reads: past all of our calls. */
static void read_as_library(void) {
    char some[16];
    int fd = open(path, O_RDONLY);
    for (int i = 0; i < 3; i++) CHECK(pread(fd, some, sizeof some, 4 * i) == 16);
    CHECK(pread(fd, some, sizeof some, 95) == 5);
    close(fd);
}

static bool read_in_child(void *context, dl_sandbox_result *out, dl_error *err) {
    struct stat st;
    (void)context, (void)out, (void)err;
    dl_stat(path, &st);
    read_as_library();
    return true;
}

static void test_library(void) {
    dl_error err = {0};
    dl_sandbox_result r;
    dl_file_calls begin = dl_file_calls_kernel(), nothing = dl_file_calls_of_library(&begin);
    CHECK(same(&nothing, (dl_file_calls){0}), "to ask is not counted");
    begin = dl_file_calls_kernel();
    read_as_library();
    dl_file_calls c = dl_file_calls_of_library(&begin);
    CHECK(same(&c, (dl_file_calls){.reads = 4, .bytes = 53}));
    begin = (dl_file_calls){.unknown = 1};
    c = dl_file_calls_of_library(&begin);
    CHECK(same(&c, (dl_file_calls){.unknown = 1}), "what the kernel did not count");
    dl_file_calls before = dl_file_calls_so_far();
    CHECK(dl_sandbox_run(path, 5, read_in_child, NULL, &r, &err), "%s", err.message);
    c = dl_file_calls_since(&before);
    CHECK(same(&c, (dl_file_calls){.stats = 1, .reads = 4, .bytes = 53}),
          "a child's are its parent's");
    dl_buf_free(&r.text), dl_buf_free(&r.bytes);
}

int main(void) {
    CHECK(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/numbers", dir);
    FILE *f = fopen(path, "w");
    for (int i = 0; f && i < 100; i++) putc(i, f);
    if (f) fclose(f);
    char other[120];
    snprintf(other, sizeof other, "%s/other", dir);
    CHECK(symlink("numbers", other) == 0);
    test_each();
    test_threads();
    test_library();
    unlink(path), unlink(other), rmdir(dir);
    return dl_test_end();
}

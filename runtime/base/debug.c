#include "runtime/base/debug.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool dlr_debugs(const char *word) {
    const char *all = getenv("DLR_DEBUG");
    size_t n = strlen(word);
    for (const char *at = all; at && (at = strstr(at, word)); at += n)
        if ((at == all || at[-1] == ',') && (!at[n] || at[n] == ',')) return true;
    return false;
}

/* Opens the file and moves one byte; a call that a signal interrupted is repeated. */
static bool pass_byte(const char *path, int flags) {
    char byte = 0;
    int fd;
    ssize_t n = -1;
    while ((fd = open(path, flags | O_CLOEXEC)) < 0 && errno == EINTR) {
    }
    if (fd < 0) return false;
    do n = flags == O_WRONLY ? write(fd, &byte, 1) : read(fd, &byte, 1);
    while (n < 0 && errno == EINTR);
    close(fd);
    return n == 1;
}

void dlr_gate(const char *point, int64_t number) {
    const char *all = getenv("DLR_DEBUG");
    char word[80], path[PATH_MAX], go[PATH_MAX + 4];
    if (!all ||
        snprintf(word, sizeof word, "gate:%s:%lld:", point, (long long)number) >= (int)sizeof word)
        return;
    const char *at = strstr(all, word);
    if (!at || (at != all && at[-1] != ',')) return;
    at += strlen(word);
    size_t n = strcspn(at, ",");
    if (n >= sizeof path) return;
    memcpy(path, at, n), path[n] = 0;
    snprintf(go, sizeof go, "%s.go", path);
    if (pass_byte(path, O_WRONLY)) pass_byte(go, O_RDONLY);
}

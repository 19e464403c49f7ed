#include "runtime/comm/process_info.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/base/hash.h"

dlr_process_info dlr_process_own(void) {
    dlr_process_info p = {.pid = getpid()};
    char boot[64] = "";
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    sched_getaffinity(0, sizeof cpus, &cpus);
    p.cpus = dl_hash(&cpus, sizeof cpus, 0);
    struct stat space = {0};
    if (gethostname(p.host, sizeof p.host - 1)) p.host[0] = 0;
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (f) {
        if (!fgets(boot, sizeof boot, f)) boot[0] = 0;
        fclose(f);
    }
    /* containers of one machine do not see each other's processes */
    stat("/proc/self/ns/pid", &space);
    p.where =
        dl_hash(&space.st_ino, sizeof space.st_ino, dl_hash_str(boot, dl_hash_str(p.host, 0)));
    return p;
}

char dlr_process_state(const dlr_process_info *of, const dlr_process_info *own) {
    char path[64], text[400];
    if (of->where != own->where) return '?';
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)of->pid);
    FILE *f = fopen(path, "re");
    /* true only if there is no such process, and not for want of file descriptors */
    if (!f) return errno == ENOENT || errno == ESRCH ? 0 : '?';
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    const char *end = strrchr(text, ')'); /* after the name, which may contain any character */
    return end && end[1] == ' ' ? end[2] : '?';
}

bool dlr_process_ended(char state) { return state == 0 || state == 'Z' || state == 'X'; }

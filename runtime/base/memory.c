#include "runtime/base/memory.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "ir/base/memory.h"

enum { HUGE_PAGE = 2 << 20, PART = 16 << 20 /* bytes that one thread touches at a time */ };

static void touch(void *context, int64_t item, int thread) {
    (void)thread;
    const dlr_memory *m = context;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), begin = (size_t)item * PART;
    size_t end = m->bytes - begin < PART ? m->bytes : begin + PART;
    for (size_t at = begin; at < end; at += page) *(volatile char *)(m->base + at) = 0;
}

static bool refuse(size_t bytes, int64_t available, dl_error *err) {
    const double mib = 1 << 20;
    return dl_fail(err, DL_RESOURCE,
                   "this run needs %.1f MiB of memory and %.1f MiB are free: take a smaller batch "
                   "or crop, or free "
                   "memory",
                   (double)bytes / mib, (double)available / mib);
}

bool dlr_memory_map(dlr_memory *m, size_t bytes, dlr_pool *pool, dl_error *err) {
    *m = (dlr_memory){0};
    if (bytes == 0) bytes = 1; /* one page, so that every tensor has an address */
    int64_t available = dl_memory_available();
    if (available >= 0 && bytes > (uint64_t)available) return refuse(bytes, available, err);
    /* One huge page more than asked for, so that the mapping can begin at a huge page's
     * boundary. */
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page,
           more = whole + HUGE_PAGE;
    char *at = mmap(NULL, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return refuse(bytes, available < 0 ? 0 : available, err);
    size_t before = (size_t)(-(uintptr_t)at & (HUGE_PAGE - 1));
    if (before) munmap(at, before);
    munmap(at + before + whole, more - before - whole);
    *m = (dlr_memory){at + before, bytes};
    madvise(m->base, whole, MADV_HUGEPAGE); /* advice: without it the run is slower, not wrong */
    dlr_pool_run(pool, (int64_t)((bytes + PART - 1) / PART), touch, m);
    return true;
}

void dlr_memory_unmap(dlr_memory *m) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (m->base) munmap(m->base, (m->bytes + page - 1) / page * page);
    *m = (dlr_memory){0};
}

dlr_memory_use dlr_memory_used(void) {
    dlr_memory_use use = {0};
    struct rusage all;
    long pages;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f && fscanf(f, "%*s %ld", &pages) == 1)
        use.now = (double)pages * (double)sysconf(_SC_PAGESIZE);
    if (f) fclose(f);
    if (getrusage(RUSAGE_SELF, &all) == 0) use.most = (double)all.ru_maxrss * 1024;
    return use;
}

/* Memory: how much can be had, and what happens when there is none.
 *
 * Small allocations (arenas, buffers, tables) never fail for their caller: without memory the
 * program ends, in the way that it chose at its start. Large memory whose size a user chose (a
 * plan's arena, a volume) is asked for with malloc or mmap and an error, not from here. */
#ifndef DL_BASE_MEMORY_H
#define DL_BASE_MEMORY_H
#include <pthread.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

/* Ends the program; `bytes` were asked for in vain (0: unknown). It must not allocate and not
 * return. */
typedef void dl_no_memory_fn(size_t bytes);
/* Chooses how the program ends without memory; to be called once, before threads are started.
 * Without a choice the program aborts. */
void dl_on_no_memory(dl_no_memory_fn *leave);
/* Writes the message "out of memory: ... bytes were asked for, and ... MiB are free" to `to` and
 * returns it. Allocates nothing. */
const char *dl_no_memory_text(char *to, size_t room, size_t bytes);
_Noreturn void dl_no_memory(size_t bytes);

/* A library must not end its host: while a thread has a guard, a lack of memory in this thread
 * jumps to it instead. Arenas and tables are whole then; what the jump passes over and is in no
 * arena (buffers, open files) is not freed, which a process without memory can bear.
 *
 *     dl_memory_guard guard = {0};
 *     if (setjmp(guard.jump) == 0) dl_guard_memory(&guard), ok = work();
 *     dl_guard_memory(NULL);
 */
typedef struct {
    jmp_buf jump;
    size_t bytes; /* that were asked for */
    pthread_mutex_t *held;
} dl_memory_guard;
void dl_guard_memory(dl_memory_guard *guard); /* NULL: the thread has none again */
/* A lock of the process within which memory is asked for: the jump lets go of it. Not nested. */
void dl_lock_guarded(pthread_mutex_t *lock);
void dl_unlock_guarded(pthread_mutex_t *lock);

/* As malloc, calloc and realloc, but never NULL. Free with free. */
void *dl_malloc(size_t bytes);
void *dl_calloc(size_t n, size_t bytes);
void *dl_realloc(void *at, size_t bytes);

/* Asks for huge pages for the next so many bytes of the heap, and keeps them when they are freed.
 * A compiler allocates many small pieces for a short time, and the first touch of a page costs as
 * much as some hundred allocations. For a program that does little else, before it starts threads.
 * No effect where memory is short or the system has no huge pages. */
void dl_heap_of_huge_pages(size_t bytes);

/* Bytes that this process can still get: what the system has without swapping (MemAvailable), and
 * no more than ulimit (-v, -d) and its control groups (versions 1 and 2) leave it. -1 when none of
 * them says. */
int64_t dl_memory_available(void);
/* The same with other places for /proc and /sys/fs/cgroup, for tests. */
int64_t dl_memory_available_in(const char *proc, const char *cgroup);
#endif

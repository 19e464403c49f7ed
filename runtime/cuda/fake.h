/* The driver's fake from inside: its state, which the files fake*.c share. */
#ifndef DLR_CUDA_FAKE_H
#define DLR_CUDA_FAKE_H
#include <stdlib.h>

#include "ir/base/arena.h"
#include "ir/base/object.h"
#include "runtime/driver/driver.h"

/* Added to addresses of device memory: none is the host's. */
static const uint64_t bias = (uint64_t)1 << 62;

typedef struct {
    char *at; /* in this process */
    size_t bytes;
    bool theirs; /* pinned, but not the fake's to free */
} block;

/* What every emulated object exports (ir/plan/plan.h). */
typedef int emulated_launch(const char *kernel, int nargs, void *const *args, unsigned grid,
                            unsigned block, unsigned shared, unsigned seed, char *error,
                            size_t size);

struct CUevent_st {
    int64_t records, done; /* how often it was put into a queue; of these, how often it happened */
    struct CUstream_st *stream; /* of the last */
    bool times;
    int64_t at; /* when it was, in nanoseconds; 0: it never was */
    struct CUgraph_st
        *graph; /* that it was captured into last; NULL: it was recorded since, or never */
    int node;   /* which of it it is */
};
/* How many arguments a kernel takes, and how many of them are tensor maps, the first ones, and
 * pointers, those behind them; numbers and pointers of its only one, where that is a table. All of
 * an object without it are pointers. */
typedef int emulated_arguments(const char *kernel, int *maps, int *pointers, int table[2]);

struct CUmod_st {
    dl_object object;
    emulated_arguments *arguments;
    size_t bytes;
    emulated_launch *launch;
    DL_ARRAY(struct CUfunc_st *) functions; /* which go with it */
};
struct CUfunc_st {
    emulated_launch *launch;
    int shared;                /* most dynamic bytes */
    int maps, pointers, nargs; /* its first arguments; those behind them; all, or -1 */
    int table[2];              /* numbers and pointers of the only one, or 0 */
    char name[];
};

enum { MOST_ARGS = 512 };
typedef enum { LAUNCH, TO_DEVICE, TO_HOST, WITHIN, FILL, RECORD, WAIT, GRAPH, HOST } kind;
typedef struct {
    kind kind;
    dlr_cu_function function;
    unsigned grid, block, shared;
    size_t bytes_of_args;
    uint64_t *args; /* its own */
    char *to;
    const char *from;
    size_t bytes;
    size_t rows, to_pitch, from_pitch; /* WITHIN: so many pieces of `bytes` */
    int value;
    dlr_cu_event event;
    int64_t record; /* that a wait is for */
    struct CUgraph_st *graph;
    dlr_cu_host_fn *call;
    void *data;
    int lane, target; /* captured: of which stream; the node that a wait is for */
} work;

/* What several streams did between a capture's begin and end: lane 0 is that of the stream that
 * began it. */
struct CUgraph_st {
    DL_ARRAY(work) list;
    int users; /* itself, and what was made of it */
    int lanes;
    bool invalid; /* the capture */
    bool *ran;    /* of a run: by node */
    int *at;      /* and by lane the next one */
};
struct CUgraphExec_st {
    struct CUgraph_st *graph;
};
struct CUstream_st {
    DL_ARRAY(work) queue;
    int done; /* of the queue */
    struct CUgraph_st *capture;
    int lane; /* in it */
};

typedef struct {
    dlr_fake_options options;
    bool running;
    DL_ARRAY(block) device, pinned;
    size_t used, code;   /* bytes of blocks; of modules and graphs */
    int contexts, lives; /* users of the context; how often there was a new one */
    int lost;            /* what a context held when its last user released it */
    int64_t copies;
    int64_t clock; /* of events, in nanoseconds, where options.launch_ns says what launches take */
    char journal[512];
    size_t told; /* of it */
    dlr_cu_result fault;
    char detail[512];
    DL_ARRAY(struct CUstream_st *) streams;
    DL_ARRAY(struct CUevent_st *) events; /* these are kept for a context's reset */
    DL_ARRAY(struct CUmod_st *) modules;
    DL_ARRAY(struct CUgraphExec_st *) execs;
} dlr_fake;
extern dlr_fake dlr_the_fake;
#define fake dlr_the_fake

/* Lists of the fake's own live on the heap: nothing of it is a run's. */
#define PUSH(list, item)                                                                           \
    do {                                                                                           \
        if ((list)->n == (list)->cap) {                                                            \
            (list)->cap = 2 * (list)->cap + 16;                                                    \
            (list)->at = realloc((list)->at, (size_t)(list)->cap * sizeof *(list)->at);            \
            DL_CHECK((list)->at);                                                                  \
        }                                                                                          \
        (list)->at[(list)->n++] = (item);                                                          \
    } while (0)

#define REMOVE(list, item)                                                                         \
    do {                                                                                           \
        for (int i_ = 0; i_ < (list)->n; i_++)                                                     \
            if ((list)->at[i_] == (item)) (list)->at[i_--] = (list)->at[--(list)->n];              \
    } while (0)

/* fake_state.c */
/* The device's first fault stays; returns it. */
dlr_cu_result dlr_fake_break(dlr_cu_result result, const char *detail);
/* The device's fault, or what a driver says to a thread that has not made the context its own. */
dlr_cu_result dlr_fake_ready(void);
/* The same of what allocates, waits or, with `frees`, lets go of something, which a device that has
 * failed does, too: no stream may capture. */
dlr_cu_result dlr_fake_outside(bool frees);
/* The block of a list that an address lies in, or at the end of; that of a device's address;
 * whether it has so many bytes from there on. */
const block *dlr_fake_find(const block *list, int n, const char *at);
const block *dlr_fake_find_device(uint64_t address);
bool dlr_fake_has(const block *b, const char *at, size_t bytes);
/* Whether a stream captures; what asks may not be done then, and the capture is invalid. */
bool dlr_fake_captures(void);
/* The context becomes this thread's own, or it has none. */
void dlr_fake_take_context(bool any);
/* One user of a graph less. */
void dlr_fake_unuse(struct CUgraph_st *g);

/* fake_stream.c: does what is queued, until an event has happened as often as `record` says (NULL:
 * all), and what that waits for in other streams; of all streams. */
dlr_cu_result dlr_fake_drain(struct CUstream_st *s, dlr_cu_event until, int64_t record);
void dlr_fake_drain_all(void);
/* Queues work, or adds it to what is captured. */
dlr_cu_result dlr_fake_add(struct CUstream_st *s, work w);
void dlr_fake_drop_streams(void);
void dlr_fake_streams(dlr_driver *table);
/* fake_code.c */
void dlr_fake_drop_code(void);
void dlr_fake_code(dlr_driver *table);
#endif

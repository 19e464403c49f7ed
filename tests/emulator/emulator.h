/* The emulated driver's state, shared by the files emulator*.c. */
#ifndef DLR_CUDA_FAKE_H
#define DLR_CUDA_FAKE_H
#include <stdlib.h>

#include "ir/base/arena.h"
#include "ir/base/object.h"
#include "tests/emulator/cuda_emulator.h"

/* Added to addresses of device memory: no host address is that large. */
static const uint64_t bias = (uint64_t)1 << 62;

typedef struct {
    char *at; /* its address in this process */
    size_t bytes;
    bool theirs; /* pinned, but not the emulated driver's to free */
} block;

/* The function that every emulated object exports (ir/plan/plan.h). */
typedef int emulated_launch(const char *kernel, int nargs, void *const *args, unsigned grid,
                            unsigned block, unsigned shared, unsigned seed, char *error,
                            size_t size);

struct CUevent_st {
    int64_t records, done;      /* how often it was queued, and how often it happened */
    struct CUstream_st *stream; /* the stream of the last record */
    bool times;
    int64_t at;               /* the time when it happened, in nanoseconds; 0: never */
    struct CUgraph_st *graph; /* the graph that it was last captured into; NULL: it was recorded
                                 since, or never captured */
    int node;                 /* its node in that graph */
    int stream_priority;      /* of the stream that it was captured in */
};
/* The number of a kernel's arguments; how many of the first are tensor maps, and how many of the
 * next are pointers. For a kernel whose only argument is a table: the table's numbers and pointers.
 * All arguments of an object without this function are pointers. */
typedef int emulated_arguments(const char *kernel, int *maps, int *pointers, int table[2]);

struct CUmod_st {
    dl_object object;
    emulated_arguments *arguments;
    size_t bytes;
    emulated_launch *launch;
    DL_ARRAY(struct CUfunc_st *) functions; /* the module's functions */
};
struct CUfunc_st {
    emulated_launch *launch;
    int shared;                /* most dynamic bytes */
    int maps, pointers, nargs; /* tensor maps, the first arguments; pointers, which follow them; all
                                  arguments, or -1 */
    int table[2];              /* numbers and pointers of a table argument, or 0 */
    char name[];
};

enum { MOST_ARGS = 512 };
typedef enum { LAUNCH, TO_DEVICE, TO_HOST, WITHIN, FILL, RECORD, WAIT, GRAPH, HOST } kind;
typedef struct {
    kind kind;
    dlr_cu_function function;
    unsigned grid, block, shared;
    size_t bytes_of_args;
    uint64_t *args; /* a copy of the arguments */
    char *to;
    const char *from;
    size_t bytes;
    size_t rows, to_pitch, from_pitch; /* WITHIN: so many pieces of `bytes` */
    int value;
    dlr_cu_event event;
    int64_t record; /* the record that a wait waits for */
    struct CUgraph_st *graph;
    dlr_cu_host_fn *call;
    void *data;
    int lane, target; /* captured: the lane (stream); the node that a wait waits for */
} work;

/* The work of several streams between a capture's begin and end: lane 0 is the stream that began
 * it. */
struct CUgraph_st {
    DL_ARRAY(work) list;
    int users; /* the graph itself, and its executables */
    int lanes;
    bool invalid; /* the capture has failed */
    bool ranked;  /* its streams have priorities that differ */
    bool *ran;    /* in a run: whether each node ran */
    int *at;      /* and the next node of each lane */
};
struct CUgraphExec_st {
    struct CUgraph_st *graph;
};
struct CUstream_st {
    DL_ARRAY(work) queue;
    int done; /* finished entries of the queue */
    struct CUgraph_st *capture;
    int lane;     /* its lane in the capture */
    int priority; /* 0, or below: it goes before others */
};

typedef struct {
    cuda_emulator_options options;
    bool running;
    DL_ARRAY(block) device, pinned;
    size_t used, code;   /* bytes of blocks; of modules and graphs */
    int contexts, lives; /* users of the context; the number of contexts so far */
    int lost;            /* resources that a context held when its last user released it */
    int64_t copies;
    int64_t clock; /* the clock of events, in nanoseconds, where options.launch_ns sets the time of
                      launches */
    char journal[512];
    size_t told; /* bytes written to the journal */
    dlr_cu_result fault;
    char detail[512];
    DL_ARRAY(struct CUstream_st *) streams;
    DL_ARRAY(struct CUevent_st *) events; /* kept for the reset of a context */
    DL_ARRAY(struct CUmod_st *) modules;
    DL_ARRAY(struct CUgraphExec_st *) execs;
} emulated_gpu;
extern emulated_gpu gpu;
/* Bytes of shared memory that a block of the device may have. */
static inline int emulator_shared(void) {
    return (gpu.options.shared ? gpu.options.shared : 227) << 10;
}

/* The emulated driver's own lists are on the heap and no part of a run's memory. */
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

/* emulator_state.c */
/* The address in this process of so many bytes of device memory, or NULL. */
void *emulator_memory(dlr_cu_memory at, size_t bytes);
/* Sets the device's fault, of which the first stays; returns it. */
dlr_cu_result emulator_break(dlr_cu_result result, const char *detail);
/* The device's fault, or a driver's error for a thread without the current context. */
dlr_cu_result emulator_ready(void);
/* The same for calls that allocate, wait or, with `frees`, free something (which a failed device
 * allows, too): no stream may capture. */
dlr_cu_result emulator_outside(bool frees);
/* The block of a list that contains an address or ends at it; the block of a device address;
 * whether that block has so many bytes from there on. */
const block *emulator_find(const block *list, int n, const char *at);
const block *emulator_find_device(uint64_t address);
bool emulator_has(const block *b, const char *at, size_t bytes);
/* Whether a stream captures. The calling function is then not allowed, and the capture fails. */
bool emulator_captures(void);
/* Makes the context current in this thread, or takes it away. */
void emulator_take_context(bool any);
/* Drops one user of a graph. */
void emulator_unuse(struct CUgraph_st *g);

/* emulator_stream.c: runs queued work until an event has happened as often as `record` says (NULL:
 * all of it), and the work in other streams that this waits for; the second runs all streams. */
dlr_cu_result emulator_drain(struct CUstream_st *s, dlr_cu_event until, int64_t record);
void emulator_drain_all(void);
/* Queues work, or adds it to the captured graph. */
dlr_cu_result emulator_add(struct CUstream_st *s, work w);
int emulator_priority(const struct CUstream_st *s);
void emulator_drop_streams(void);
void emulator_streams(dlr_driver *table);
/* emulator_code.c */
void emulator_drop_code(void);
void emulator_code(dlr_driver *table);
#endif

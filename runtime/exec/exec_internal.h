/* The executor's struct, shared by exec.c, which opens and runs it, and exec_tensors.c. */
#ifndef DLR_EXEC_INTERNAL_H
#define DLR_EXEC_INTERNAL_H
#include "runtime/exec/exec.h"

/* A parameter, and its copy in another type. */
typedef struct {
    dlr_view from, to;
    bool stale; /* the host has written the parameter */
} dlr_exec_copy;

struct dlr_exec {
    const dl_plan *plan;
    dlr_exec_options options;
    dl_arena *arena; /* holds the tables below */
    dlr_pool *pool;
    dlr_device *device;
    DL_ARRAY(dlr_exec_copy) copies;
    DL_ARRAY(int64_t) fed; /* the places of inputs and targets */
    dlr_time *times;       /* a buffer for the times of a run's launches */
    dlr_timeline timeline;
};
#endif

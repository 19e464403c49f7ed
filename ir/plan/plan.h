/* The plan: all work of one step, as data. The compiler writes it, the runtime replays it; a .dlp
 * file holds it.
 *
 * A plan has programs ("train" and "eval", or "predict"): lists of steps over one arena of fixed
 * offsets, which launch kernels and, between several ranks, begin collectives and wait for them.
 * Variables keep their offsets from program to program; the rest of the arena is scratch between
 * programs. The plan carries its kernels as compiled objects, so that a machine without a compiler
 * can run it.
 *
 * Kernel ABI. For each phase p of a kernel the object exports
 *     void <symbol>_<p>(char *const *arg, int64_t item, char *scratch, char *workspace);
 * arg: one pointer a kernel parameter (inputs, then outputs). item: 0 .. items[p]-1; items of a
 * phase are independent and may run in any order on any thread, with the same bits; phases run one
 * after the other. scratch: private to the calling thread, kernel->scratch bytes, contents
 * undefined. workspace: shared by all items of a launch, kernel->workspace bytes, passed from phase
 * to phase. All are aligned to 64 bytes.
 *
 * Preparation. The first `prepares` phases of a kernel read parameter `prepared` alone, and write
 * parts of the workspace that later phases only read: packed or transformed weights. A launch
 * whose argument there is constant while its program runs, and from run to run, may have a
 * workspace of its own in the arena, which no launch of another (kernel, argument) writes in that
 * program. Its preparation is then valid until the host writes the argument or another program
 * runs, and until then these phases may be left out; a device may also run them each time.
 *
 * On CUDA (targets cuda:*) a phase is
 *     extern "C" __global__ void <symbol>_<p>(T0 *p0, T1 *p1, ..., char *workspace);
 * with one typed pointer a parameter. Where a kernel has entries, a phase is instead the function
 * that its entry names, which phases of several kernels may share (function merging): it takes the
 * entry's tensor maps (ir/kernel/tensor_map.h), DL_MAP_BYTES each, then the pointers of the
 * parameters that the entry lists, then the workspace, then the entry's numbers, each as a long:
 * the sizes, strides and constants' bits in which these kernels differ. Every argument after the
 * maps has 8 bytes. Or it takes one argument, a table by value: the numbers, then the pointers; the
 * entry gives the room for each, and unused room is zero. An item is a block (blockIdx.x) of
 * threads[p] threads and shared[p] bytes of dynamic shared memory; there is no scratch. A kernel
 * may call a library of the device before its phases (ir/call.h), or in place of all of them.
 * Objects are cubins of that architecture. For a target that ends with :emulated they are shared
 * objects that run the same text's blocks on the CPU; they export int dl_emulated_launch(const char
 * *kernel, int nargs, void *const *args, unsigned grid, unsigned block, unsigned shared, unsigned
 * seed, char *error, size_t size); args: the address of each argument, as cuLaunchKernel takes
 * them. 0: done; else `error` has the reason, such as a wrong number of arguments. A grid of 0 runs
 * nothing, and with nargs -1 asks only whether there is such a kernel. */
#ifndef DL_PLAN_H
#define DL_PLAN_H
#include "ir/align.h"
#include "ir/call.h"
#include "ir/collective.h"
#include "ir/graph.h"
#include "ir/kernel/tensor_map.h"

enum { DL_PLAN_VERSION = 24, DL_MAX_PHASES = 24 };

typedef struct {
    const char *name, *of; /* as dl_var */
    dl_var_role role;
    dl_type type; /* with its layout */
    dl_init init;
    dl_var_piece piece;       /* as dl_var */
    DL_ARRAY(double) numbers; /* as dl_var */
    int64_t offset;           /* bytes from the arena's start */
} dl_plan_var;

typedef struct {
    dl_result_role role;
    const char *name;
    dl_type type;
    int64_t offset;
    int var; /* GRAD, UPDATE: index into vars; -1 otherwise */
} dl_plan_result;

/* A tensor that a kernel stores, and its origin; runtime/exec/not_finite.h reports it. */
typedef struct {
    int arg;           /* the parameter */
    dl_type type;      /* with its layout */
    const char *op;    /* the op that made the value: "mul" */
    const char *where; /* its source line, "unet.dl:3"; "": none */
} dl_plan_store;

/* The code of a phase that kernels share. */
enum {
    DL_ENTRY_MOST = 500
}; /* arguments of 8 bytes, in addition to the workspace: 4 KiB hold
      512 */
typedef struct {
    const char *symbol; /* the function's whole name */
    int object;
    DL_ARRAY(dl_tensor_map) maps; /* at most DL_MAP_MOST */
    DL_ARRAY(int)
    args; /* parameters of the kernel, in the order in which the function takes
             them */
    DL_ARRAY(int64_t) numbers;
    struct {
        int numbers, pointers;
    } table; /* room in the function's only argument; 0: it takes numbers and pointers one by one */
} dl_plan_entry;

typedef struct {
    const char *name, *symbol;
    const char *where;   /* source lines: "unet.dl:2 unet.dl:3" */
    const char *variant; /* the variant of its code (compiler/target/backend.h); "": there is one */
    int object;          /* index into objects */
    int phases;          /* may be none, where there are calls */
    int prepares, prepared; /* leading phases, and the parameter that they read; 0 phases: none */
    int64_t items[DL_MAX_PHASES];
    int threads[DL_MAX_PHASES], shared[DL_MAX_PHASES]; /* of an item, a block of CUDA: threads, a
                                                          multiple of 32, and dynamic shared bytes;
                                                          0 on the CPU */
    DL_ARRAY(dl_call) calls;                           /* before the phases, in order; CUDA only */
    DL_ARRAY(dl_plan_entry)
    entries; /* by phase; none: functions <symbol>_<p> of all parameters, as
                above */
    int nargs;
    int64_t *arg_bytes; /* by parameter: the bytes that it touches of an argument, from its begin */
    DL_ARRAY(dl_plan_store) stores;
    int64_t workspace, scratch; /* bytes */
    int64_t flops, bytes;       /* of one run */
    double predicted_us;
    double serial_us; /* of one thread, without the launch; 0: unknown, or a GPU */
} dl_plan_kernel;

typedef struct {
    int kernel;
    int nargs;     /* as many as the kernel has parameters */
    int64_t *args; /* offsets into the arena */
    int64_t own;   /* the offset of its own workspace; 0: it has the plan's, as others do */
} dl_plan_launch;

/* The tensors that a collective carries, in sequence: a bucket has several. */
typedef struct {
    const char *of; /* its name: "blocks.2.mlp.fc1.weight"; "": unknown */
    int64_t first;  /* the collective's element at which it begins */
} dl_plan_member;

/* A collective of a group's ranks, between two parts of the arena.
 *   all_reduce      sums `size` elements, in place where `from` is `to`
 *   all_gather      from this rank's pieces to whole blocks
 *   reduce_scatter  from whole blocks to this rank's pieces
 *   shift           sends `own` times `inner` elements of each block to the next rank, and receives
 *                   `come` times `inner`
 * The last three work on `outer` blocks, each by itself. A block is the sequence of the ranks'
 * pieces: `size` times `inner` elements, of which this rank's piece has `own` times `inner`. */
typedef struct {
    dl_op op;          /* all_reduce, all_gather, reduce_scatter, shift */
    const char *group; /* dp, tp, cp, tp-cp, dp-cp */
    int ranks;         /* of the group */
    dl_dtype dtype;
    int64_t outer, size, inner, own, come;
    int ring_step;                    /* shift: how many times the ring has passed the pieces on */
    int64_t from, to;                 /* offsets into the arena */
    const char *where;                /* source line, "vit.dl:14"; "": none */
    DL_ARRAY(dl_plan_member) members; /* in order; one or more */
} dl_plan_collective;

/* Elements at `from` and at `to`. */
int64_t dl_plan_elements_from(const dl_plan_collective *c);
int64_t dl_plan_elements_to(const dl_plan_collective *c);
/* The members' names for a message: "conv1.weight", "conv1.weight and 3 more", "values". */
void dl_plan_put_of(dl_buf *b, const dl_plan_collective *c);

typedef enum {
    DL_STEP_LAUNCH, /* a kernel */
    DL_STEP_START,  /* starts a collective: no step accesses its memory until the wait */
    DL_STEP_WAIT,
    DL_NSTEP_KINDS
} dl_step_kind;
typedef struct {
    dl_step_kind kind;
    int number; /* of the launch, of the collective */
} dl_plan_step;

typedef struct {
    const char *name;
    DL_ARRAY(dl_plan_launch) launches;
    DL_ARRAY(dl_plan_collective) collectives;
    DL_ARRAY(dl_plan_step)
    steps; /* all launches in their order, and each collective's start and wait once; empty where
              there are no collectives: then the steps are the launches */
    DL_ARRAY(dl_plan_result) results;
} dl_plan_program;

/* A kernel of an object while that is compiled: the cache keeps it by its text, under a name that
 * is the same in every plan. */
typedef struct {
    const char *name;   /* its functions are <name>_0, <name>_1, ... in the object */
    int phases;         /* their number */
    const char *symbol; /* in its place in the text: determined by the text */
    const char *text;
} dl_plan_text;

enum { DL_MOST_LIBRARIES = 9 };
typedef struct {
    uint64_t key;       /* of source, flags, compiler, CPU features and build: the name in the
                           cache */
    const char *source; /* the text it was made from, for inspection */
    int nlibraries;     /* and the sources of the libraries that were linked into it */
    const char *libraries[DL_MOST_LIBRARIES];
    const char *opening;          /* the text before the kernels, while it is compiled */
    DL_ARRAY(dl_plan_text) texts; /* NULL, none: the source is compiled as a whole */
    bool late;                    /* while it is compiled: no program "train" needs it */
    size_t bytes;
    const unsigned char *image; /* a shared object, or a cubin; NULL: not compiled yet (late) */
} dl_plan_object;

/* One setting or argument of the model that determined the programs. */
typedef struct {
    const char *key;   /* of the configuration: "amp_mode"; or the argument's name */
    const char *is;    /* its effect on the programs: equal where they are the same */
    const char *shown; /* its text in the configuration, for messages */
} dl_plan_setting;

/* Where a plan comes from, so that `dlrun FILE.dlp` can train without the model's file and without
 * a compiler, and refuse what the programs are not for (compiler/origin.h). The texts are all there
 * or none. */
typedef struct {
    const char *program;       /* the version of the program that compiled it */
    const char *command;       /* its command line, without the outputs: "dlc compile net.dl" */
    const char *path, *text;   /* the model's file, and what it held */
    const char *configuration; /* as the text of a YAML file */
    uint64_t graphs;           /* hash of the graphs, as the front end built them */
    DL_ARRAY(dl_plan_setting) settings, arguments;
} dl_plan_origin;

typedef struct dl_plan {
    dl_arena *arena;
    const char *model;  /* name of the model: "UNet" */
    const char *target; /* "cpu:avx512", "cpu:generic", "cuda:sm_90a", "cuda:sm_90a:emulated" */
    uint64_t key;       /* of everything the plan was made from: model text, sizes, target, build */
    int64_t batch;      /* size of axis N */
    int64_t arena_bytes, workspace_bytes, scratch_bytes; /* scratch: a thread */
    DL_ARRAY(dl_plan_var) vars;
    DL_ARRAY(dl_plan_kernel) kernels;
    DL_ARRAY(dl_plan_object) objects;
    DL_ARRAY(dl_plan_program) programs;
    dl_plan_origin origin; /* all zero (text NULL): a plan that only the cache's users read */
    /* At most DL_MAX_PREDICTIONS plans of "predict" and, where losses and metrics are each
     * sample's, "eval": of one sample, and of a batch, in ascending order. Their origins are the
     * graphs, settings and arguments that determined them. They have no predictions themselves */
    DL_ARRAY(struct dl_plan *) predictions;
    struct dl_plan_late *late; /* NULL: every object has its image */
} dl_plan;

/* Objects that programs other than "train" need alone, which are still being compiled
 * (compiler/late.h): they have no image. */
typedef struct dl_plan_late {
    /* Waits until they are compiled, and fills in their images. The caller is the only one that
     * uses the plan. Errors: as dl_compile, and those of dl_plan_check_code; the same each time. */
    bool (*finish)(struct dl_plan_late *late, dl_error *err);
    /* Nothing compiles them any more when this returns; they need not be there. */
    void (*end)(struct dl_plan_late *late);
} dl_plan_late;

enum { DL_MAX_PREDICTIONS = 2 };
/* The prediction of the most samples at once, `batch` or fewer; NULL: there is none. */
dl_plan *dl_plan_prediction(const dl_plan *p, int64_t batch);

/* Does the host write this variable once a batch: an input or a target? */
static inline bool dl_plan_is_fed(const dl_plan_var *v) {
    return v->role == DL_VAR_INPUT || v->role == DL_VAR_TARGET;
}
/* Bytes of a device's staging buffer, into which the next batch is copied while a step runs
 * (dl_feed_room of each input); 0 on a CPU, where the host writes the inputs. */
int64_t dl_plan_staged(const dl_plan *p);
/* Bytes that a run with this many threads holds: arena, workspace, staging buffer and each thread's
 * scratch, each rounded up. */
int64_t dl_plan_peak(const dl_plan *p, int threads);
/* Does a target's name end with ":emulated": the same code on the CPU? */
bool dl_target_is_emulated(const char *target);
/* Is it a GPU's? Also of a device's name: "cuda", "cuda:1", "cuda:emulated", "cpu". */
bool dl_target_is_gpu(const char *target);
/* The number of a program's steps, also where it lists none. */
int dl_plan_nsteps(const dl_plan_program *p);
dl_plan_step dl_plan_step_at(const dl_plan_program *p, int i);
/* A phase's code: its entry, or the equivalent entry where there are none (its lists are in the
 * arena). */
dl_plan_entry dl_plan_entry_of(dl_arena *arena, const dl_plan_kernel *k, int phase);
/* Its arguments' number, and their bytes. */
int dl_plan_entry_count(const dl_plan_entry *e);
int64_t dl_plan_entry_bytes(const dl_plan_entry *e);
/* The piece of a whole tensor that the variable is; NULL: the whole. */
const dl_var_piece *dl_plan_piece(const dl_plan_var *v);
/* Elements of all variables of role PARAM. */
int64_t dl_plan_parameters(const dl_plan *p);
dl_plan_program *dl_plan_program_find(const dl_plan *p, const char *name);

/* Checks that a plan is consistent, whether it was read or made in memory: names and types; every
 * offset, size, count and index in range; no variable overlaps another; every launch has as many
 * arguments as its kernel has parameters, and all bytes that the kernel accesses are inside the
 * arena. Errors: DL_INPUT naming the fault. */
bool dl_plan_check(const dl_plan *p, dl_error *err);
/* Checks a plan for CUDA: every phase of every kernel is in its object, and takes the arguments
 * and threads of its launches. The cubin's ELF file (or the emulated object) has the number, sizes
 * and offsets of arguments. Late objects are left out. Errors: DL_INPUT naming the kernel, DL_IO
 * (emulated: no code can be loaded). */
bool dl_plan_check_code(const dl_plan *p, dl_error *err);
/* Writes the file whole or not at all. Errors: DL_IO. */
bool dl_plan_write(const dl_plan *p, const char *path, dl_error *err);
/* Reads and validates: magic, version, checksum, and dl_plan_check. A damaged or foreign file is
 * DL_INPUT naming the fault. A file that other users may write is DL_TRUST, since it holds code.
 * The plan lives in a new arena under `parent`. */
dl_plan *dl_plan_read(dl_arena *parent, const char *path, dl_error *err);
#endif

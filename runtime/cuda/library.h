/* Libraries that do in place of kernels what a plan calls them for (ir/call.h): a table each, found
 * at run time. All of them work in the context that is current, and in the stream that they are
 * given. */
#ifndef DLR_LIBRARY_H
#define DLR_LIBRARY_H
#include "ir/plan/plan.h"
#include "runtime/base/functions.h"
#include "runtime/driver/driver.h"

typedef struct {
    const char *override; /* the environment variable that names its file */
    const char *file;     /* what it is called: "libcublasLt.so" */
    /* Loads it, once: its version. 0: errors DL_RESOURCE (not found, too old). */
    int64_t (*find)(const char **path, dl_error *err);
    /* Begins with it in the current context. NULL: DL_RESOURCE. */
    void *(*open)(dl_error *err);
    void (*close)(void *opened);
    /* The algorithms that it would take for a call, the one that it believes in first; how many, at
     * most `most`. All of them give the same bits each time, with sums in f32. */
    int (*offer)(void *opened, const dl_call *call, int most, dl_algorithm *to);
    /* Makes a call ready. NULL: DL_RESOURCE (it does not know the algorithm, or not on this
     * device). */
    void *(*prepare)(void *opened, const dl_call *call, dl_error *err);
    void (*release)(void *prepared);
    /* Puts a call that is ready into a stream, to run or to be captured. `places`: of the kernel's
     * parameters. Nothing is allocated. NULL, or what it says went wrong. */
    const char *(*put)(void *prepared, const uint64_t *places, uint64_t workspace,
                       dlr_cu_stream stream);
} dlr_library;
extern const dlr_library *const dlr_libraries[DL_NLIBRARIES];
extern const dlr_library dlr_library_cublaslt, dlr_library_cudnn;

/* Why a library of that version will not do, or NULL. */
static inline const char *dlr_library_too_old(dl_arena *arena, int64_t version, int64_t least) {
    if (version >= least) return NULL;
    return dl_format(arena, "its version is %s, and %s is needed",
                     dl_library_version(arena, version), dl_library_version(arena, least));
}

/* Where in memory the room for a call's algorithm begins, of a kernel with that workspace. */
static inline uint64_t dlr_call_room(const dl_call *c, uint64_t workspace) {
    return (workspace + (uint64_t)c->workspace + DL_CALL_ALIGN - 1) & -(uint64_t)DL_CALL_ALIGN;
}
/* Where an operand or result begins, and a multiple of which that is: parameters and workspaces
 * begin at such of 64. */
static inline uint64_t dlr_call_place(int param, int64_t offset, const uint64_t *places,
                                      uint64_t workspace) {
    return (param < 0 ? workspace : places[param]) + (uint64_t)offset;
}
static inline int64_t dlr_call_alignment(int64_t offset) {
    int64_t bits = 64 | offset;
    return bits & -bits;
}

/* "cuBLASLt 13.1.0 (/usr/lib/libcublasLt.so.13)", or "no cuBLASLt (libcublasLt.so)", a line each,
 * for
 * --version. */
const char *dlr_libraries_text(dl_arena *arena);

/* Whether the library is to be used where it is found: always but on the driver's fake, where only
 * one that the environment names can stand in for it. Its version, or 0: there is none, without an
 * error unless the environment names it. */
int64_t dlr_library_find(dl_library library, bool emulated, dl_error *err);

/* Libraries on a device without a plan, for who asks what they offer. */
typedef struct {
    const dlr_driver *driver;
    dlr_cu_device device;
    bool there;                  /* the context */
    void *opened[DL_NLIBRARIES]; /* NULL: not asked for, or it does not begin here */
    dl_error why[DL_NLIBRARIES]; /* it does not */
} dlr_libraries_here;
/* Begins with those in `which`, a bit each. Errors: DL_RESOURCE (no such device, no context). What
 * was begun is to be ended in any case. */
bool dlr_libraries_begin(dlr_libraries_here *h, const dlr_driver *driver, int ordinal,
                         unsigned which, dl_error *err);
void dlr_libraries_end(dlr_libraries_here *h);
#endif

/* Libraries that a plan calls in place of kernels (ir/call.h): one table each, loaded at run time.
 * All of them work in the current context, and in the stream that they are given. */
#ifndef DLR_LIBRARY_H
#define DLR_LIBRARY_H
#include "ir/plan/plan.h"
#include "runtime/base/functions.h"
#include "runtime/driver/driver.h"

typedef struct {
    const char *override; /* the environment variable that names its file */
    const char *file;     /* its file name: "libcublasLt.so" */
    /* Loads the library, once, and returns its version. 0: errors DL_RESOURCE (not found, too
     * old). */
    int64_t (*find)(const char **path, dl_error *err);
    /* Opens the library in the current context. NULL: DL_RESOURCE. */
    void *(*open)(dl_error *err);
    void (*close)(void *opened);
    /* The algorithms that the library proposes for a call, best first; returns their number, at
     * most `most`. All of them give the same bits each time, with sums in f32. */
    int (*offer)(void *opened, const dl_call *call, int most, dl_algorithm *to);
    /* Prepares a call. NULL: DL_RESOURCE (the library does not know the algorithm, or not on this
     * device). */
    void *(*prepare)(void *opened, const dl_call *call, dl_error *err);
    void (*release)(void *prepared);
    /* Adds a prepared call to a stream, to run or to be captured. `places`: addresses of the
     * kernel's parameters. Nothing is allocated. Returns NULL, or the library's error. */
    const char *(*put)(void *prepared, const uint64_t *places, uint64_t workspace,
                       dlr_cu_stream stream);
} dlr_library;
extern const dlr_library *const dlr_libraries[DL_NLIBRARIES];
extern const dlr_library dlr_library_cublaslt, dlr_library_cudnn;

/* Why a library of that version is refused, or NULL. */
static inline const char *dlr_library_too_old(dl_arena *arena, int64_t version, int64_t least) {
    if (version >= least) return NULL;
    return dl_format(arena, "its version is %s, and %s is needed",
                     dl_library_version(arena, version), dl_library_version(arena, least));
}

/* The address of the workspace of a call's algorithm, in a kernel with that workspace. */
static inline uint64_t dlr_call_room(const dl_call *c, uint64_t workspace) {
    return (workspace + (uint64_t)c->workspace + DL_CALL_ALIGN - 1) & -(uint64_t)DL_CALL_ALIGN;
}
/* The address of an operand or result, and its alignment: parameters and workspaces are aligned to
 * 64. */
static inline uint64_t dlr_call_place(int param, int64_t offset, const uint64_t *places,
                                      uint64_t workspace) {
    return (param < 0 ? workspace : places[param]) + (uint64_t)offset;
}
static inline int64_t dlr_call_alignment(int64_t offset) {
    int64_t bits = 64 | offset;
    return bits & -bits;
}

/* The libraries, a line each, for --version: "cuBLASLt 13.1.0 (/usr/lib/libcublasLt.so.13)", or "no
 * cuBLASLt (libcublasLt.so)". */
const char *dlr_libraries_text(dl_arena *arena);

/* The version of the library if it is to be used, or 0. On real devices a library is used where it
 * is found. On the emulated driver only a library that the environment names is used. 0 has an
 * error only if the environment names the library. */
int64_t dlr_library_find(dl_library library, bool emulated, dl_error *err);

/* Libraries on a device without a plan, to query their algorithms. */
typedef struct {
    const dlr_driver *driver;
    dlr_cu_device device;
    bool there;                  /* the context exists */
    void *opened[DL_NLIBRARIES]; /* NULL: not requested, or not available here */
    dl_error why[DL_NLIBRARIES]; /* the reason of the latter */
} dlr_libraries_here;
/* Opens the libraries in `which`, a bit mask. Errors: DL_RESOURCE (no such device, no context). The
 * caller must end `h` in any case. */
bool dlr_libraries_begin(dlr_libraries_here *h, const dlr_driver *driver, int ordinal,
                         unsigned which, dl_error *err);
void dlr_libraries_end(dlr_libraries_here *h);
#endif

/* Library calls of a plan: finds the libraries, checks their versions against the plan's, and calls
 * them. */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/cuda/cuda.h"

const dlr_library *const dlr_libraries[DL_NLIBRARIES] = {
    [DL_LIBRARY_CUBLASLT] = &dlr_library_cublaslt, [DL_LIBRARY_CUDNN] = &dlr_library_cudnn};

/* ---- available libraries ---- */

int64_t dlr_library_find(dl_library library, bool emulated, dl_error *err) {
    const char *named = getenv(dlr_libraries[library]->override), *path;
    dl_error why = {0};
    if (emulated && !(named && *named)) return 0;
    int64_t version = dlr_libraries[library]->find(&path, &why);
    if (!version && named && *named) dl_fail(err, why.code, "%s", why.message);
    return version;
}

const char *dlr_libraries_text(dl_arena *arena) {
    const char *text = "";
    for (int i = 0; i < DL_NLIBRARIES; i++) {
        dl_error why = {0};
        const char *path, *name = dl_library_names[i];
        int64_t version = dlr_libraries[i]->find(&path, &why);
        text = version ? dl_format(arena, "%s%s %s (%s)\n", text, name,
                                   dl_library_version(arena, version), path)
                       : dl_format(arena, "%sno %s (%s)\n", text, name, dlr_libraries[i]->file);
    }
    return text;
}

bool dlr_libraries_begin(dlr_libraries_here *h, const dlr_driver *driver, int ordinal,
                         unsigned which, dl_error *err) {
    dlr_cu_context context;
    char said[700];
    *h = (dlr_libraries_here){.driver = driver};
    dlr_cu_result r = driver->DeviceGet(&h->device, ordinal);
    if (r == 0) r = driver->DevicePrimaryCtxRetain(&context, h->device);
    h->there = r == 0;
    if (r == 0) r = driver->CtxSetCurrent(context);
    if (r != 0) {
        dlr_driver_say(driver, r, said, sizeof said);
        return dl_fail(err, DL_RESOURCE, "CUDA device %d: no context: %s", ordinal, said);
    }
    for (int i = 0; i < DL_NLIBRARIES; i++)
        if (which >> i & 1) h->opened[i] = dlr_libraries[i]->open(&h->why[i]);
    return true;
}

void dlr_libraries_end(dlr_libraries_here *h) {
    for (int i = 0; i < DL_NLIBRARIES; i++)
        if (h->opened[i]) dlr_libraries[i]->close(h->opened[i]);
    if (h->there) h->driver->DevicePrimaryCtxRelease(h->device);
    *h = (dlr_libraries_here){0};
}

/* ---- calls of a plan ---- */

static bool refuse(const dl_plan_kernel *k, const dl_algorithm *a, const char *why, dl_error *err) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_fail(err, DL_RESOURCE,
            "kernel '%s' (%s) is made by %s %s, as --tune=true has chosen, and %s: compile the "
            "model again, or "
            "set %s to that library's path",
            k->name, k->where, dl_library_names[a->library], dl_library_version(arena, a->version),
            why, dlr_libraries[a->library]->override);
    dl_arena_free(arena);
    return false;
}

static bool open_library(dlr_cuda *c, const dl_plan_kernel *k, const dl_algorithm *a,
                         dl_error *err) {
    char text[1000];
    dl_error why = {0};
    const char *path;
    const dlr_library *l = dlr_libraries[a->library];
    int64_t version = l->find(&path, &why);
    if (!version) return refuse(k, a, why.message, err);
    if (version != a->version) {
        dl_arena *arena = dl_arena_new(NULL);
        snprintf(text, sizeof text, "%s is of version %s", path,
                 dl_library_version(arena, version));
        dl_arena_free(arena);
        return refuse(k, a, text, err);
    }
    if (!c->libraries[a->library]) c->libraries[a->library] = l->open(&why);
    return c->libraries[a->library] || refuse(k, a, why.message, err);
}

bool dlr_cuda_begin_calls(dlr_cuda *c, dl_error *err) {
    const dl_plan *p = c->base.plan;
    for (int i = 0; i < p->kernels.n; i++) {
        const dl_plan_kernel *k = &p->kernels.at[i];
        for (int j = 0; j < k->calls.n; j++) {
            const dl_call *call = &k->calls.at[j];
            const dl_algorithm *a = &call->algorithm;
            dl_error why = {0};
            if (!open_library(c, k, a, err)) return false;
            c->calls[i][j] =
                dlr_libraries[a->library]->prepare(c->libraries[a->library], call, &why);
            if (!c->calls[i][j]) return refuse(k, a, why.message, err);
        }
    }
    return true;
}

void dlr_cuda_end_calls(dlr_cuda *c) {
    const dl_plan *p = c->base.plan;
    for (int i = 0; i < p->kernels.n; i++)
        for (int j = 0; j < p->kernels.at[i].calls.n; j++)
            if (c->calls[i][j])
                dlr_libraries[p->kernels.at[i].calls.at[j].algorithm.library]->release(
                    c->calls[i][j]);
    for (int i = 0; i < DL_NLIBRARIES; i++)
        if (c->libraries[i]) dlr_libraries[i]->close(c->libraries[i]);
}

dlr_cu_result dlr_cuda_put_calls(dlr_cuda *c, const dlr_cuda_launch *l) {
    const dl_plan_kernel *k = l->kernel;
    for (int i = 0; i < k->calls.n; i++) {
        const dlr_library *library = dlr_libraries[k->calls.at[i].algorithm.library];
        const char *why = library->put(l->calls[i], l->places, l->places[k->nargs], c->stream);
        if (!why) continue;
        if (dlr_cuda_alive(c))
            dl_fail(&c->base.fault, DL_RESOURCE, "the device (%s) failed in kernel '%s' (%s): %s",
                    c->name, k->name, k->where, why);
        return DLR_CU_LAUNCH_FAILED;
    }
    return 0;
}

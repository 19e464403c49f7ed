/* Compares the launches of a CUDA plan with the code that they run: with parameters in cubins, or
 * with emulated objects. */
#include <string.h>

#include "ir/base/object.h"
#include "ir/plan/cubin.h"
#include "ir/plan/plan.h"

/* Checks phase `phase` of a kernel; `found` has the parameters of its function. */
static bool check_cubin_phase(const dl_plan_kernel *k, const dl_plan_entry *e, int phase,
                              const dl_cubin_kernel *found, dl_error *err) {
    int n = dl_plan_entry_count(e), bytes = (int)dl_plan_entry_bytes(e),
        word = e->table.numbers ? bytes : 8;
    int at = n && found->nparams == n ? found->params[0].offset : 0;
    /* Maps are aligned on the device: padding before the arguments in memory precedes the maps. */
    bool ok = found->nparams == n && (e->maps.n ? at < DL_MAP_ALIGN : at == 0) &&
              found->param_bytes == at + bytes;
    for (int i = 0; ok && i < found->nparams; i++) {
        int size = i < e->maps.n ? DL_MAP_BYTES : word;
        ok = found->params[i].bytes == size && found->params[i].offset == at;
        at += size;
    }
    if (!ok)
        return dl_fail(err, DL_INPUT,
                       "kernel '%s': %s takes %d arguments, %d bytes in all, and its launches give "
                       "%d tensor maps, %d "
                       "pointers and %d numbers, %d bytes: the plan was made by another build; "
                       "compile the model again",
                       k->name, found->name, found->nparams, found->param_bytes, e->maps.n,
                       e->args.n + 1, e->numbers.n, bytes);
    return found->max_threads == 0 || k->threads[phase] <= found->max_threads ||
           dl_fail(err, DL_INPUT,
                   "kernel '%s': %s is made for %d threads a block, and is launched with %d",
                   k->name, found->name, found->max_threads, k->threads[phase]);
}

static bool missing(const dl_plan_kernel *k, const dl_plan_entry *e, dl_error *err) {
    return dl_fail(
        err, DL_INPUT,
        "the plan's object %d holds no function %s for kernel '%s': the plan was made by another "
        "build; compile the model again",
        e->object, e->symbol, k->name);
}

static bool check_cubin(dl_arena *arena, const dl_plan *p, int object, dl_error *err) {
    dl_cubin cubin;
    dl_error why = {0};
    const dl_plan_object *o = &p->objects.at[object];
    if (!dl_cubin_read(arena, o->image, o->bytes, &cubin, &why))
        return dl_fail(err, why.code, "the plan's object %d: %s", object, why.message);
    const dl_cubin_kernel *feed = dl_cubin_find(&cubin, "dl_feed_0");
    if (feed && (feed->nparams != 3 || feed->param_bytes != 24))
        return dl_fail(
            err, DL_INPUT,
            "dl_feed_0 takes %d arguments, and is given 3 pointers: the plan was made by another "
            "build; compile the model again",
            feed->nparams);
    for (int i = 0; i < p->kernels.n; i++) {
        const dl_plan_kernel *k = &p->kernels.at[i];
        for (int phase = 0; phase < k->phases; phase++) {
            const dl_plan_entry e = dl_plan_entry_of(arena, k, phase);
            if (e.object != object) continue;
            const dl_cubin_kernel *found = dl_cubin_find(&cubin, e.symbol);
            if (!found) return missing(k, &e, err);
            if (!check_cubin_phase(k, &e, phase, found, err)) return false;
        }
    }
    return true;
}

typedef int emulated_launch(const char *kernel, int nargs, void *const *args, unsigned grid,
                            unsigned block, unsigned shared, unsigned seed, char *error,
                            size_t size);

static bool check_launches(dl_arena *arena, const dl_plan *p, int object, emulated_launch *launch,
                           dl_error *err) {
    char said[400];
    for (int i = 0; i < p->kernels.n; i++) {
        const dl_plan_kernel *k = &p->kernels.at[i];
        for (int phase = 0; phase < k->phases; phase++) {
            const dl_plan_entry e = dl_plan_entry_of(arena, k, phase);
            if (e.object != object) continue;
            if (launch(e.symbol, -1, NULL, 0, 32, 0, 0, said, sizeof said) != 0)
                return missing(k, &e, err);
            if (launch(e.symbol, dl_plan_entry_count(&e), NULL, 0, 32, 0, 0, said, sizeof said) !=
                0)
                return dl_fail(
                    err, DL_INPUT,
                    "kernel '%s': %s: the plan was made by another build; compile the model again",
                    k->name, said);
        }
    }
    return true;
}

static bool check_emulated(dl_arena *arena, const dl_plan *p, int object, dl_error *err) {
    dl_object loaded;
    dl_error why = {0};
    const dl_plan_object *o = &p->objects.at[object];
    if (!dl_object_load(&loaded, o->image, o->bytes, &why))
        return dl_fail(err, why.code, "the plan's object %d: %s", object, why.message);
    void *address = dl_object_find(&loaded, "dl_emulated_launch");
    emulated_launch *launch;
    memcpy(&launch, &address, sizeof launch);
    bool ok =
        address
            ? check_launches(arena, p, object, launch, err)
            : dl_fail(
                  err, DL_INPUT,
                  "the plan's object %d: the emulated code launches nothing; set CXX to another "
                  "C++ compiler",
                  object);
    dl_object_unload(&loaded);
    return ok;
}

bool dl_plan_check_code(const dl_plan *p, dl_error *err) {
    dl_arena *arena = dl_arena_new(NULL);
    bool ok = true, emulated = dl_target_is_emulated(p->target);
    for (int i = 0; ok && i < p->objects.n; i++)
        if (p->objects.at[i].image || !p->late)
            ok = emulated ? check_emulated(arena, p, i, err) : check_cubin(arena, p, i, err);
    dl_arena_free(arena);
    return ok;
}

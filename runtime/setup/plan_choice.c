#include "runtime/setup/plan_choice.h"

#include <unistd.h>

#include "compiler/origin.h"
#include "ir/base/input.h"
#include "ir/plan/plan_kept.h"

/* Fails with the command that compiles the plan for this target. */
static bool fail_target(dl_arena *arena, const dl_plan *p, const char *path, dl_code code,
                        const char *why, const char *target, dl_error *err) {
    const char *words = dl_format(arena, "--target=%s", target);
    return dl_fail(err, code, "%.200s is compiled for %s, and %s; compile one for it: %s", path,
                   p->target, why, dl_origin_command(arena, p, words, path));
}

/* Whether this machine's CPU, where the plan is for one, is the plan's. */
static bool check_target(dl_arena *arena, const dl_plan *p, const char *path, dl_error *err) {
    dl_error why = {0};
    if (dl_target_find(arena, p->target, &why)) return true;
    const dl_target *best = dl_target_find(arena, NULL, err);
    return best && fail_target(arena, p, path, DL_RESOURCE,
                               why.code == DL_USAGE ? "this program has no such target"
                                                    : "this CPU cannot run that",
                               best->name, err);
}

dl_plan *dl_plan_choice_read(dl_arena *arena, const char *path, dl_error *err) {
    dl_input_remember(path);
    dl_plan *p = dl_plan_read(arena, path, err);
    if (!p) return NULL;
    if (!p->origin.text)
        return dl_fail(err, DL_INPUT,
                       "%.200s is a plan without its model, of the cache: `dlc compile -o` writes "
                       "plans that dlrun takes",
                       path),
               NULL;
    return check_target(arena, p, path, err) ? p : NULL;
}

dl_plan *dl_plan_choice_kept(dl_arena *arena, const char *run, const char *target,
                             const char **path, dl_error *err) {
    *path = dl_plan_kept_path(arena, run, target);
    return access(*path, R_OK) == 0 ? dl_plan_choice_read(arena, *path, err) : NULL;
}

/* "cuda:sm_90" without the letter: what is compiled for either runs on the same devices. */
static size_t family(const char *target) {
    size_t n = strlen(target);
    return n && target[n - 1] == 'a' ? n - 1 : n;
}

static bool is_like(const char *target, const char *own) {
    if (dl_target_is_gpu(target) && dl_target_is_emulated(target) && dl_target_is_emulated(own))
        return dl_target_is_gpu(own);
    size_t n = family(target);
    return strcmp(target, own) == 0 ||
           (dl_target_is_gpu(target) && n == family(own) && strncmp(target, own, n) == 0);
}

bool dl_plan_choice_device(dl_arena *arena, const dl_plan *p, const char *path, const char *word,
                           dl_device_choice *choice, dl_error *err) {
    if (strcmp(word, "auto") == 0) word = dl_device_of_target(arena, p->target);
    if (!dl_device_choose(arena, word, NULL, choice, err)) return false;
    const char *own = choice->target; /* NULL: any CPU's */
    if (own ? !is_like(p->target, own) : dl_target_is_gpu(p->target))
        return fail_target(arena, p, path, DL_INPUT, dl_format(arena, "device is %s", word),
                           own ? own : "cpu", err);
    choice->target = p->target;
    return true;
}

/* A session's plan: from the cache, or compiled and kept there. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/jit/cache_prune.h"
#include "compiler/late.h"
#include "compiler/objectives.h"
#include "compiler/param_rules.h"
#include "compiler/session.h"
#include "ir/base/hash.h"
#include "ir/base/install.h"
#include "ir/text/text.h"

/* A key of everything that the plan depends on: the graphs as built (with the model's text,
 * arguments and sizes), the options, the C compiler, and the program that compiles. */
static uint64_t plan_key(const dl_session *s, const dl_compile_options *opt, uint64_t toolchain,
                         const char *program) {
    dl_buf text = {0};
    dl_print_module(&text, s->module, (dl_print_options){.locations = true});
    uint64_t h = dl_hash(text.at, text.n, DL_PLAN_VERSION);
    dl_buf_free(&text);
    h = dl_hash(&toolchain, sizeof toolchain, h); /* the target is part of it */
    h = dl_hash_str(opt->skip ? opt->skip : "", h);
    h = dl_hash(&opt->keep_gradients, sizeof opt->keep_gradients, h);
    h = dl_hash(&opt->tf32, sizeof opt->tf32, h);
    h = dl_hash(&opt->memory, sizeof opt->memory, h);
    h = dl_hash(&opt->target->winograd, sizeof opt->target->winograd, h);
    h = dl_hash(&opt->step_options, sizeof opt->step_options, h);
    h = dl_param_rules_hash(opt->params, h);
    h = dl_objectives_hash(opt->objectives, opt->nobjectives, h);
    h = opt->tuner ? dl_hash(&opt->tuner->key, sizeof opt->tuner->key, h) : h;
    /* data-parallel ranks share a plan, except for their shards */
    dl_parallel parallel = opt->parallel;
    parallel.dp_rank = 0;
    h = dl_hash(&parallel, sizeof parallel, h);
    struct stat st = {0};
    stat(program, &st);
    h = dl_hash(&st.st_size, sizeof st.st_size, h);
    return dl_hash(&st.st_mtim, sizeof st.st_mtim, dl_hash_str(DL_VERSION, h));
}

/* ---- plans in the cache ---- */

/* Taken before the passes change the graphs. */
typedef struct {
    uint64_t plan, without_compiler; /* under the latter stands the former, of the plan that was
                                        compiled last, whichever compiler was there */
    const char *name;                /* the plan's file */
} plan_keys;

/* The program that runs plans, where it lies next to this one: `dlc compile` prepares it. */
static const char *runner(dl_arena *arena) {
    char dir[PATH_MAX];
    const char *path =
        dl_install_own_dir(dir, sizeof dir) ? dl_format(arena, "%s/dlrun", dir) : NULL;
    return path && access(path, X_OK) == 0 ? path : "/proc/self/exe";
}

/* plan: 0 when there is no compiler, and no plan of another process either. A compiler that the
 * user names is not done without. */
static plan_keys find_keys(const dl_session *s, const dl_compile_options *opt,
                           const dl_cache *cache, dl_error *why) {
    uint64_t toolchain;
    size_t n = 0;
    const char *named = getenv("CC");
    plan_keys k = {.without_compiler = plan_key(
                       s, opt, dl_hash_str(opt->target->name, dl_hash_str("no compiler", 0)),
                       runner(s->arena))};
    const void *kept = NULL;
    if (opt->target->backend->toolchain(s->arena, opt->target, &toolchain, why))
        k.plan = plan_key(s, opt, toolchain, "/proc/self/exe");
    else if (why->code == DL_RESOURCE && !(named && *named))
        kept = dl_cache_find(s->arena, cache, k.without_compiler, &n);
    if (kept && n == sizeof k.plan) memcpy(&k.plan, kept, n);
    k.name = dl_format(s->arena, "%016llx.dlp", (unsigned long long)k.plan);
    return k;
}

/* The plan of these keys; NULL when there is none. A damaged or foreign one is a warning. */
static dl_plan *find_plan(dl_session *s, const dl_compile_options *opt, const dl_cache *cache,
                          const plan_keys *k) {
    dl_error unusable = {0};
    const char *path = k->plan ? dl_cache_find_file(s->arena, cache, k->name) : NULL;
    dl_plan *p = path ? dl_plan_read(s->arena, path, &unusable) : NULL;
    if (p && p->key == k->plan && opt->target->backend->check(p, &unusable)) return p;
    if (unusable.code && opt->out)
        dl_console_warning(
            opt->out,
            dl_format(s->arena, "the plan in the cache is compiled anew: %s", unusable.message));
    return NULL;
}

/* A plan that the cache cannot take is compiled by the next run. */
static bool keep_plan(dl_arena *arena, const dl_console *out, const dl_cache *cache,
                      const dl_plan *p, const plan_keys *k, dl_error *err) {
    dl_error why = {0};
    if (!cache->own) return true;
    dl_plan_write(p, dl_format(arena, "%s/%s", cache->own, k->name), &why);
    if (!dl_cache_is_kept(&why, out)) return dl_fail(err, why.code, "%s", why.message);
    if (!why.code && !dl_cache_keep(cache, k->without_compiler, &k->plan, sizeof k->plan, out, err))
        return false;
    dl_cache_prune_to_bound(cache, NULL);
    return true;
}

dl_plan *dl_session_prepare(dl_session *s, const dl_compile_options *opt, dl_error *err) {
    dl_error no_compiler = {0};
    const dl_cache *cache = dl_cache_open(s->arena, opt->out, err);
    if (!cache) return NULL;
    const plan_keys keys = find_keys(s, opt, cache, &no_compiler);
    dl_plan *p = dl_session_compile(s, opt, err);
    if (!p || !keys.plan || dl_cache_find_file(s->arena, cache, keys.name)) return p;
    const uint64_t own = p->key;
    p->key = keys.plan;
    bool kept = opt->target->backend->check(p, &no_compiler) /* a GPU's without a driver is not */
                    ? keep_plan(s->arena, opt->out, cache, p, &keys, err)
                    : true;
    p->key = own; /* a file of the user's has the same bytes by every build */
    return kept ? p : NULL;
}

/* A plan that is whole only after a run has begun, when the session is closed. A cache that cannot
 * take it is no fault. */
static void keep_whole(void *of, const dl_plan *whole) {
    const plan_keys *keys = of;
    dl_arena *arena = dl_arena_new(NULL);
    dl_error ignored = {0};
    const dl_cache *cache = dl_cache_open(arena, NULL, &ignored);
    if (cache) keep_plan(arena, NULL, cache, whole, keys, &ignored);
    dl_arena_free(arena);
}

static void begin_late(dl_plan *p, const plan_keys *keys) {
    plan_keys *own = DL_NEW(p->arena, plan_keys);
    *own = *keys;
    own->name = dl_strdup(p->arena, keys->name);
    dl_late_begin(p, keep_whole, own);
}

dl_plan *dl_session_plan(dl_session *s, const dl_compile_options *opt, bool *cached,
                         dl_error *err) {
    dl_error no_compiler = {0};
    const dl_cache *cache = dl_cache_open(s->arena, opt->out, err);
    if (!cache) return NULL;
    const plan_keys keys = find_keys(s, opt, cache, &no_compiler);
    dl_plan *p = find_plan(s, opt, cache, &keys);
    *cached = p;
    if (p) return p;
    if (no_compiler.code) return dl_fail(err, no_compiler.code, "%s", no_compiler.message), NULL;
    p = dl_session_compile(s, opt, err);
    if (!p) return NULL;
    p->key = keys.plan;
    if (!opt->target->backend->check(p, err)) return NULL;
    if (p->late) return begin_late(p, &keys), p;
    return keep_plan(s->arena, opt->out, cache, p, &keys, err) ? p : NULL;
}

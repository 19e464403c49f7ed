#include "compiler/late.h"

#include <string.h>

#include "compiler/jit/thread.h"
#include "compiler/target/backend.h"

typedef struct {
    dl_plan_late base;
    dl_plan *plan;
    const dl_target *target;
    dl_arena *arena; /* of the thread */
    dl_plan whole;   /* the plan, whose objects are a list of their own */
    dl_late_whole_fn *then;
    void *context;
    pthread_t thread;
    bool runs, done, ok;
    dl_error err;
} late_build;

/* Compiles the objects that are late, or the others. */
static bool build(dl_arena *arena, int n, dl_plan_object *objects, bool late, const dl_target *t,
                  const dl_console *out, int *compiled, dl_error *err) {
    dl_plan_object *some = DL_NEWS(arena, dl_plan_object, n + 1);
    int *of = DL_NEWS(arena, int, n + 1), m = 0;
    for (int i = 0; i < n; i++)
        if (objects[i].late == late) some[m] = objects[i], of[m++] = i;
    bool ok = t->backend->build(arena, m, some, t, out, compiled, err);
    for (int i = 0; i < m; i++) objects[of[i]] = some[i];
    return ok;
}

static void *compile(void *of) {
    late_build *b = of;
    int compiled;
    b->ok = build(b->arena, b->whole.objects.n, b->whole.objects.at, true, b->target, NULL,
                  &compiled, &b->err);
    if (b->ok && b->then) b->then(b->context, &b->whole);
    return NULL;
}

static void join(late_build *b) {
    if (b->runs) pthread_join(b->thread, NULL);
    b->runs = false;
}

static void end(dl_plan_late *late) {
    late_build *b = (late_build *)late;
    join(b);
    if (b->done) return;
    dl_arena_free(b->arena);
    b->done = true, b->ok = false;
    dl_fail(&b->err, DL_RESOURCE, "the plan is closed: its other kernels were not taken");
}

static bool finish(dl_plan_late *late, dl_error *err) {
    late_build *b = (late_build *)late;
    if (!b->done) {
        b->done = true;
        if (b->runs)
            join(b);
        else
            compile(b);
        for (int i = 0; b->ok && i < b->plan->objects.n; i++)
            if (b->plan->objects.at[i].late) b->plan->objects.at[i] = b->whole.objects.at[i];
        dl_arena_move(b->arena, b->plan->arena);
        b->ok = b->ok && b->target->backend->check(b->plan, &b->err);
    }
    return b->ok || dl_fail(err, b->err.code, "%s", b->err.message);
}

bool dl_build_plan(dl_plan *p, const dl_compile_options *opt, int *compiled, dl_error *err) {
    bool any = false;
    for (int i = 0; i < p->objects.n; i++) any |= p->objects.at[i].late;
    if (!any || !opt->late)
        return opt->target->backend->build(p->arena, p->objects.n, p->objects.at, opt->target,
                                           opt->out, compiled, err);
    late_build *b = DL_NEW(p->arena, late_build);
    dl_target *own = DL_NEW(p->arena, dl_target); /* the plan outlives who found the target */
    *own = *opt->target, own->name = p->target;
    *b = (late_build){.base = {finish, end}, .plan = p, .target = own};
    p->late = &b->base;
    return build(p->arena, p->objects.n, p->objects.at, false, opt->target, opt->out, compiled,
                 err);
}

void dl_late_begin(dl_plan *p, dl_late_whole_fn *whole, void *context) {
    late_build *b = (late_build *)p->late;
    b->arena = dl_arena_new(NULL);
    b->then = whole, b->context = context;
    b->whole = *p, b->whole.late = NULL;
    b->whole.objects.at = DL_NEWS(b->arena, dl_plan_object, p->objects.n + 1);
    memcpy(b->whole.objects.at, p->objects.at, (size_t)p->objects.n * sizeof *p->objects.at);
    b->runs = dl_start_compiler(&b->thread, compile, b);
}

/* Programs whose code is compiled after the first step: the device waits for it where a program
 * needs it, and not before. */
#include "tests/unit/cuda_device.h"

#include <string.h>

#include "runtime/exec/exec.h"
#include "tests/check.h"
#include "tests/unit/plan_fixture.h"

/* The objects that the compiler's thread would give. */
typedef struct {
    dl_plan_late base;
    dl_plan *plan;
    dl_plan_object whole;
    int finished;
    bool fails;
} pending;

static bool finish(dl_plan_late *late, dl_error *err) {
    pending *l = (pending *)late;
    l->finished++;
    if (l->fails) return dl_fail(err, DL_RESOURCE, "no compiler is left");
    l->plan->objects.at[1] = l->whole;
    return true;
}
static void end(dl_plan_late *late) { (void)late; }

/* The plan with another object, of the same code, which its second program alone needs. */
static dl_plan plan_with(const dl_plan *p, pending *late) {
    dl_plan q = *p;
    dl_arena *arena = p->arena;
    memset(&q.objects, 0, sizeof q.objects), memset(&q.kernels, 0, sizeof q.kernels);
    memset(&q.programs, 0, sizeof q.programs);
    *late = (pending){.base = {finish, end}, .whole = p->objects.at[0]};
    dl_push(arena, &q.objects, p->objects.at[0]);
    dl_push(arena, &q.objects, ((dl_plan_object){.source = late->whole.source, .late = true}));
    for (int i = 0; i < p->kernels.n; i++) dl_push(arena, &q.kernels, p->kernels.at[i]);
    dl_push(arena, &q.kernels, p->kernels.at[0]);
    q.kernels.at[p->kernels.n].object = 1;
    for (int i = 0; i < p->programs.n; i++) dl_push(arena, &q.programs, p->programs.at[i]);
    memset(&q.programs.at[1].launches, 0, sizeof q.programs.at[1].launches);
    add_launch(&q, &q.programs.at[1], p->kernels.n, (int64_t[]){X, Y});
    q.late = &late->base;
    return q;
}

static float first_of(dlr_exec *e, const char *name) {
    float got[N];
    dlr_state_read(e, dlr_exec_variable(e, name), DL_F32, got);
    return got[0];
}

void test_late(const dl_plan *p) {
    pending late;
    dl_plan q = plan_with(p, &late);
    late.plan = &q;
    dl_error err = {0};
    dlr_exec *e = open_exec(&q);
    if (!e) return;
    put(e, 3);
    dlr_exec_run(e, 0, NULL);
    CHECK(first_of(e, "y") == 7 && late.finished == 0, "a step waits for evaluation's code");
    put(e, 5);
    for (int i = 0; i < 2; i++) dlr_exec_run(e, 1, NULL);
    CHECK(first_of(e, "y") == 11 && late.finished == 1, "%g, %d times", (double)first_of(e, "y"),
          late.finished);
    CHECK(dlr_exec_check(e, &err), "%s", err.message);
    dlr_exec_close(e);

    q = plan_with(p, &late), late.plan = &q; /* launch by launch */
    if ((e = open_exec(&q))) {
        put(e, 4);
        dlr_exec_run_launch(e, 1, 0);
        CHECK(first_of(e, "y") == 9 && late.finished == 1 && dlr_exec_check(e, &err), "%s",
              err.message);
        dlr_exec_close(e);
    }

    q = plan_with(p, &late), late.plan = &q, late.fails = true;
    if ((e = open_exec(&q))) {
        put(e, 4);
        dlr_exec_run(e, 0, NULL);
        CHECK(dlr_exec_check(e, &err), "%s", err.message);
        dlr_exec_run(e, 1, NULL);
        CHECK(!dlr_exec_check(e, &err) && err.code == DL_RESOURCE &&
                  strstr(err.message, "no compiler is left"),
              "%s", err.message);
        dlr_exec_close(e);
    }
}

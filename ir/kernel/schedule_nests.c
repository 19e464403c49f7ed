/* The loop nests of a schedule, and its name. */
#include "ir/kernel/schedule.h"

static const char *const names[DL_NBYS] = {
    [DL_BY_POINTS] = "points", [DL_BY_ROWS] = "rows",       [DL_BY_THREAD] = "per_thread",
    [DL_BY_TILES] = "tiles",   [DL_BY_SCATTER] = "scatter", [DL_BY_CALL] = "call"};

const char *dl_schedule_name(dl_loop_kind kind) { return names[kind]; }

const dl_step *dl_schedule_steps(dl_arena *arena, int n, const dl_step *steps, dl_loop_schedule s) {
    if (s.kind != DL_BY_THREAD) return steps;
    dl_step *own = DL_NEWS(arena, dl_step, n + 1);
    for (int i = 0; i < n; i++) {
        own[i] = steps[i];
        if (own[i].kind == DL_K_REDUCE && own[i].over == s.axes) own[i].kind = DL_K_ELEM;
    }
    return own;
}

dl_loop_nests dl_schedule_nests(dl_arena *arena, int n, const dl_step *steps,
                                dl_loop_schedule schedule) {
    return dl_find_loop_nests(arena, n, dl_schedule_steps(arena, n, steps, schedule),
                              schedule.kind == DL_BY_ROWS ? schedule.axes : 0);
}

#include "runtime/runs/run_cost.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "ir/base/input.h"
#include "passes/memory/memory.h"
#include "runtime/setup/saved_model.h"

enum { MOST_PROFILE = 16 << 20 };

/* ---- kernels ---- */

static dl_run_kernel *kernel_of(dl_run_cost *c, const char *name) {
    for (int i = 0; i < c->kernels.n; i++)
        if (!strcmp(c->kernels.at[i].name, name)) return &c->kernels.at[i];
    return NULL;
}

static void take_kernels(dl_arena *arena, const dl_plan *p, dl_run_cost *c) {
    const dl_plan_program *train = &p->programs.at[0];
    for (int i = 0; i < train->launches.n; i++) {
        const dl_plan_kernel *k = &p->kernels.at[train->launches.at[i].kernel];
        dl_run_kernel *of = kernel_of(c, k->name);
        if (of) {
            of->calls++, of->predicted_us += k->predicted_us;
            continue;
        }
        dl_push(arena, &c->kernels,
                (dl_run_kernel){dl_strdup(arena, k->name), dl_strdup(arena, k->where), 1,
                                (double)k->flops, (double)k->bytes, k->predicted_us, NAN});
    }
}

/* The run's own profile.txt: its ceilings, and what its kernels took. A profile of other kernels
 * (another version or target) gives nothing. */
static bool take_profile(dl_arena *arena, const dl_run_facts *r, dl_run_cost *c, dl_error *err) {
    const char *path = dl_format(arena, "%s/profile.txt", r->dir);
    size_t n;
    if (access(path, F_OK)) return true;
    char *text = dl_read_file(arena, path, MOST_PROFILE, &n, err);
    if (!text) return false;
    for (char *line = text, *end; line && *line; line = end) {
        end = strchr(line, '\n');
        if (end) *end++ = 0;
        char name[128];
        int calls;
        double ms, gflops, gbytes;
        const char *colon = strncmp(line, "ceilings measured", 17) ? NULL : strchr(line, ':');
        if (colon && sscanf(colon + 1, "%lf GFLOP/s and %lf GB/s", &gflops, &gbytes) == 2)
            c->peak_gflops = gflops, c->peak_gbytes = gbytes;
        if (sscanf(line, "@%127s %d %lf", name, &calls, &ms) != 3) continue;
        dl_run_kernel *k = kernel_of(c, name);
        if (k && k->calls == calls) k->measured_us = ms * 1e3;
    }
    return true;
}

/* ---- memory ---- */

static bool take_memory(dl_arena *arena, const dl_graph *g, dl_run_cost *c, dl_error *err) {
    dl_liveness live;
    if (!dl_find_liveness(g, arena, &live, err)) return false;
    double *memory = DL_NEWS(arena, double, g->nodes.n + 1);
    for (int i = 0; i < g->vars.n; i++) c->variables += dl_type_bytes(&g->vars.at[i]->value.type);
    for (int i = 0; i < g->nodes.n; i++) memory[i] = (double)c->variables;
    for (int s = 0; s < live.n; s++)
        for (int i = live.at[s].first; i <= live.at[s].last && i < g->nodes.n; i++)
            memory[i] += (double)live.at[s].bytes;
    c->memory = memory, c->n = g->nodes.n;
    return true;
}

/* ---- all of it ---- */

static bool plan(dl_arena *arena, dl_saved_model *net, dl_run_cost *c, dl_error *err) {
    dl_session *s = net->session;
    dl_compile_options opt;
    if (!dl_session_options(s, NULL, &opt, err)) return false;
    opt.link = false;
    dl_plan *p = dl_session_compile(s, &opt, err);
    if (!p) return false;
    c->target = dl_strdup(arena, p->target), c->model = dl_strdup(arena, s->model_name);
    c->text = dl_strndup(arena, s->source->text, s->source->n);
    take_kernels(arena, p, c);
    return take_memory(arena, s->module->graphs.at[0], c, err);
}

bool dl_run_cost_find(dl_arena *arena, const dl_run_facts *r, const dl_console *out, dl_run_cost *c,
                      dl_error *err) {
    dl_saved_model net = {0};
    dl_saved_model_options o = {.arena = arena, .path = r->dir, .as_trained = true, .console = out};
    *c = (dl_run_cost){0};
    bool ok = dl_saved_model_find(&net, &o, err) && dl_saved_model_open(&net, err);
    if (ok) c->data = net.data;
    ok = ok && plan(arena, &net, c, err) && take_profile(arena, r, c, err);
    dl_saved_model_close(&net);
    return ok;
}

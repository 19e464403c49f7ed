/* interp_run FILE.dlir DIR [PASSES]: the first graph of a module on the reference interpreter,
 * after the passes (lower).
 *
 * Reads DIR/<variable>.f64 (raw doubles, row-major) for every variable that has such a file, runs
 * one step, and writes DIR/out.<number>.f64 for every result, in the graph's order. Checks every
 * node's type first. Prints the seconds. */
#include <stdio.h>
#include <time.h>

#include "ir/base/input.h"
#include "ir/base/output.h"
#include "ir/infer.h"
#include "ir/interp/interp.h"
#include "ir/text/text.h"
#include "ir/validate/validate.h"
#include "passes/pass.h"

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool check_types(const dl_graph *g, dl_error *err) {
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        dl_type t[DL_MAX_RESULTS];
        dl_shape_fault fault = {0};
        if (n->op == DL_OP_fused) continue;
        if (!dl_infer(n, t, &fault)) return dl_fail(err, DL_INPUT, "%s", fault.message);
        if (!dl_type_same(&t[0], &n->out[0].type))
            return dl_fail(err, DL_INPUT, "%%%u must be %s", n->out[0].id, dl_type_text(&t[0]));
    }
    return true;
}

static bool read_var(dl_interp *in, dl_arena *arena, const dl_var *v, const char *dir,
                     dl_error *err) {
    const char *path = dl_format(arena, "%s/%s.f64", dir, v->name);
    size_t want = sizeof(double) * (size_t)dl_type_count(&v->value.type), n;
    FILE *f = fopen(path, "rb");
    if (!f) return true;
    n = fread(dl_interp_data(in, &v->value), 1, want, f);
    bool whole = n == want && fgetc(f) == EOF;
    fclose(f);
    return whole || dl_fail(err, DL_INPUT, "%s must hold %zu bytes", path, want);
}

static bool run(const char *path, const char *dir, const char *passes, dl_arena *arena,
                dl_error *err) {
    size_t n;
    char *text = dl_read_file(arena, path, 16 << 20, &n, err);
    dl_module *m = text ? dl_read_module(arena, text, n, path, err) : NULL;
    if (!m || !check_types(m->graphs.at[0], err)) return false;
    dl_pass_ctx ctx = {.arena = arena, .err = err};
    if (!dl_run_passes(m, passes, &ctx, (dl_pass_options){.validate = DL_VALIDATE_PASSES}))
        return false;
    const dl_graph *g = m->graphs.at[0];
    dl_interp *in = dl_interp_new(g, false);
    dl_interp_release(in);
    bool ok = true;
    for (int i = 0; i < g->vars.n && ok; i++) ok = read_var(in, arena, g->vars.at[i], dir, err);
    double start = now();
    ok = ok && dl_interp_run(in, err);
    if (ok) printf("%.3f\n", now() - start);
    for (int i = 0; i < g->results.n && ok; i++) {
        const dl_value *v = g->results.at[i].value;
        ok = dl_write_file(dl_format(arena, "%s/out.%d.f64", dir, i), dl_interp_data(in, v),
                           sizeof(double) * (size_t)dl_type_count(&v->type), err);
    }
    dl_interp_free(in);
    return ok;
}

int main(int argc, char **argv) {
    if (argc != 3 && argc != 4) {
        fprintf(stderr, "usage: interp_run FILE.dlir DIR [PASSES]\n");
        return DL_USAGE;
    }
    dl_error err = {0};
    dl_arena *arena = dl_arena_new(NULL);
    /* composites have no meaning but what they consist of */
    bool ok = run(argv[1], argv[2], argc == 4 ? argv[3] : "lower", arena, &err);
    dl_arena_free(arena);
    if (!ok) fprintf(stderr, "interp_run: %s\n", err.message);
    return ok ? 0 : (int)err.code;
}

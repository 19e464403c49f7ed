/* DLR_DEBUG=guard: kernels that write where they may not, on the CPU and on the emulated device,
 * are named with their line and the byte; those that do right make what they make without it. */
#include "tests/check.h"

#include <math.h>

#include "runtime/exec/exec.h"
#include "runtime/exec/state.h"
#include "tests/unit/plan_fixture.h"

/* Every kernel: x (read), y (stored); 256 numbers each; an item is 64 of them. */
static const char source[] =
    "#include <stdio.h>\n"
    "int strcmp(const char *, const char *);\n"
    "#define KERNEL(name, also) void name##_0(char *const *arg, long item, char *scratch, char "
    "*workspace) "
    "{\\\n"
    "    float *x = (float *)arg[0], *y = (float *)arg[1], *w = (float *)workspace; "
    "(void)scratch;\\\n"
    "    for (int i = (int)item * 64; i < (int)item * 64 + 64; i++) y[i] = 2 * x[i] + 1, w[i] = "
    "y[i];\\\n"
    "    also; (void)w; }\n"
    "KERNEL(right, )\n"
    "KERNEL(after, if (item == 3) y[256] = 7)\n"
    "KERNEL(far, if (item == 3) ((char *)y)[1024 + 999] = 7)\n"
    "KERNEL(before, if (item == 0) y[-2] = 7)\n"
    "KERNEL(input, if (item == 1) x[70] = 7)\n"
    "KERNEL(beyond_workspace, if (item == 2) w[256] = 7)\n"
    "KERNEL(reader, if (item == 3) y[255] = x[256])\n"
    "KERNEL(uninitialised, if (item == 0) y[0] = w[255])\n"
    "static const struct { const char *name; void (*run)(char *const *, long, char *, char *); } "
    "all[] = "
    "{{\"right_0\", right_0},\n"
    "    {\"behind_0\", behind_0}, {\"far_0\", far_0}, {\"before_0\", before_0}, {\"input_0\", "
    "input_0}, "
    "{\"reader_0\", reader_0},\n"
    "    {\"beyond_workspace_0\", beyond_workspace_0}, {\"uninitialised_0\", uninitialised_0}};\n"
    "int dl_emulated_launch(const char *name, int nargs, void *const *args, unsigned grid, "
    "unsigned n, "
    "unsigned shared,\n"
    "                       unsigned seed, char *error, unsigned long size) {\n"
    "    char *arg[3]; int k = 0;\n"
    "    (void)n, (void)shared, (void)seed, (void)error, (void)size;\n"
    "    while (k < 8 && strcmp(all[k].name, name)) k++;\n"
    "    if (k == 8 || (nargs >= 0 && nargs != 3)) return 1;\n"
    "    for (unsigned item = 0; item < grid; item++) {\n"
    "        for (int i = 0; i < 3; i++) arg[i] = *(char **)args[i];\n"
    "        all[k].run(arg, item, 0, arg[2]);\n"
    "    }\n"
    "    return 0;\n"
    "}\n";

enum { N = 256, BYTES = 4 * N, X = BYTES, Y = 3 * BYTES, ARENA = 5 * BYTES };

static const struct {
    const char *kernel, *found; /* what is said; NULL: nothing is wrong */
} cases[] = {
    {"right", NULL},
    {"after",
     "kernel 'after' (m.dl:1) wrote outside of its arguments, first at byte 1024 of argument 1, "
     "what 'add' stores "
     "(m.dl:3), of 1024 bytes"},
    {"far",
     "kernel 'far' (m.dl:1) wrote outside of its arguments, first at byte 2023 of argument 1, "},
    {"before",
     "kernel 'before' (m.dl:1) wrote outside of its arguments, first at byte -8 of argument 1, "},
    {"input", "kernel 'input' (m.dl:1) wrote what it may only read, first at byte 282 of argument "
              "0, 'x', of "
              "1024 bytes"},
    {"beyond_workspace",
     "wrote outside of its arguments, first at byte 1024 of its workspace, of 1024 bytes"},
    {"reader", NULL},
    {"uninitialised", NULL},
};
enum { NCASES = sizeof cases / sizeof *cases };

static bool make_plan(dl_plan **out) {
    dl_plan *p = *out = new_plan_of(ARENA, source);
    if (!p) return false;
    add_var(p, DL_VAR_INPUT, "x", vector(N), (dl_init){0}, X);
    add_var(p, DL_VAR_STATE, "y", vector(N), (dl_init){0}, Y);
    for (int i = 0; i < NCASES; i++) {
        add_kernel(p, cases[i].kernel, 1, 4, 0, BYTES, 0, 2, (int64_t[]){BYTES, BYTES});
        dl_push(p->arena, &p->kernels.at[i].stores,
                ((dl_plan_store){1, vector(N), "add", "m.dl:3"}));
        add_launch(p, add_program(p, cases[i].kernel), i, (int64_t[]){X, Y});
    }
    add_launch(p, add_program(p, "in_place"), 0, (int64_t[]){Y, Y}); /* one part, which is stored */
    return true;
}

/* Runs a program on x = 0, 1, 2, ... and leaves y; whether the device is well, and what it says
 * else. */
static bool run(const dl_plan *p, int program, bool guarded, float y[N], dl_error *err) {
    float x[N];
    for (int i = 0; i < N; i++) x[i] = y[i] = (float)i;
    if (guarded) setenv("DLR_DEBUG", "guard", 1);
    dlr_exec *e = dlr_exec_open(p, (dlr_exec_options){.threads = 2}, err);
    unsetenv("DLR_DEBUG");
    CHECK(e, "%s", err->message);
    if (!e) return false;
    dlr_state_write(e, dlr_exec_variable(e, "x"), DL_F32, x);
    dlr_state_write(e, dlr_exec_variable(e, "y"), DL_F32, y);
    dlr_exec_run(e, program, NULL);
    dlr_state_read(e, dlr_exec_variable(e, "y"), DL_F32, y);
    bool well = dlr_exec_check(e, err);
    dlr_exec_close(e);
    return well;
}

static void test_cases(const dl_plan *p) {
    float y[N];
    for (int i = 0; i < NCASES; i++) {
        dl_error err = {0};
        CHECK(run(p, i, false, y, &err), "%s, %s: nobody looks, and nothing is found: %s",
              p->target, cases[i].kernel, err.message);
        bool well = run(p, i, true, y, &err);
        CHECK(well == !cases[i].found, "%s, %s: '%s'", p->target, cases[i].kernel, err.message);
        if (cases[i].found)
            CHECK(err.code == DL_INTERNAL && strstr(err.message, "DLR_DEBUG=guard") &&
                      strstr(err.message, cases[i].found),
                  "want '%s', got '%s'", cases[i].found, err.message);
        else
            CHECK(y[7] == 15 && y[100] == 201, "%s, %s: %g %g", p->target, cases[i].kernel,
                  (double)y[7], (double)y[100]);
        /* what lies around it, and what a workspace holds at first, is no number */
        if (strcmp(cases[i].kernel, "reader") == 0) CHECK(isnan(y[255]), "%g", (double)y[255]);
        if (strcmp(cases[i].kernel, "uninitialised") == 0) CHECK(isnan(y[0]), "%g", (double)y[0]);
    }
    dl_error err = {0};
    CHECK(run(p, NCASES, true, y, &err) && y[200] == 401, "%s: %g %s", p->target, (double)y[200],
          err.message);
}

int main(void) {
    dl_plan *p;
    if (!make_plan(&p)) return 77;
    test_cases(p);
    p->target = "cuda:sm_90a:emulated";
    for (int i = 0; i < NCASES; i++) p->kernels.at[i].threads[0] = 32;
    test_cases(p);
    dl_arena_free(p->arena);
    return dl_test_end();
}

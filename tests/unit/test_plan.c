/* Plans and their files: what is written is read back; what is damaged is refused, and never loaded
 * as code. */
#include "ir/base/input.h"
#include "tests/check.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include "ir/base/hash.h"
#include "tests/unit/plan_fixture.h"

enum { HEADER = 32, TABLE = 6 * 24, CHECKSUM_AT = 24 };

static dl_plan *make_plan(void) {
    dl_plan *p = new_plan(1 << 20);
    add_var(p, DL_VAR_INPUT, "x", type_of(DL_F32, (dl_layout){0}, 5, (int64_t[]){2, 3, 4, 4, 4}),
            (dl_init){0}, 0);
    add_var(
        p, DL_VAR_PARAM, "conv.weight",
        type_of(DL_F32, (dl_layout){.kind = DL_PANEL, .width = 16}, 5, (int64_t[]){20, 3, 3, 3, 3}),
        (dl_init){DL_INIT_NORMAL, 0, 0.02}, 1536);
    add_var(p, DL_VAR_STATE, "m", vector(7), (dl_init){DL_INIT_CONST, 1, 0}, 65536);
    p->vars.at[2].of = "conv.weight";
    add_var(p, DL_VAR_HYPER, "lr", dl_scalar(DL_F64), (dl_init){DL_INIT_CONST, 1e-3, 0}, 65600);
    add_var(p, DL_VAR_STATE, "none", vector(0), (dl_init){0},
            65600); /* no elements: overlaps nothing */
    add_var(p, DL_VAR_TABLE, "list 1", vector(3), (dl_init){0}, 65664);
    for (int i = 0; i < 3; i++) dl_push(p->arena, &p->vars.at[5].numbers, 0.1 - i);
    add_kernel(p, "k0", 2, 8, 1, 256, 128, 3, (int64_t[]){1536, 32 * 81 * 4, 4});
    p->kernels.at[0].serial_us = 2.5, p->kernels.at[0].prepares = p->kernels.at[0].prepared = 1;
    add_kernel(p, "k1", 1, 0, 0, 0, 0, 0, NULL);
    dl_push(p->arena, &p->kernels.at[0].stores,
            ((dl_plan_store){2, dl_scalar(DL_F32), "mul", "m.dl:3"}));
    dl_push(p->arena, &p->objects,
            ((dl_plan_object){.key = 99,
                              .source = "int x;\n",
                              .bytes = 11,
                              .image = (const unsigned char *)"not code..."}));
    dl_plan_program *train = add_program(p, "train");
    add_launch(p, train, 0, (int64_t[]){0, 1536, 128000});
    add_launch(p, train, 1, NULL);
    train->launches.at[0].own = 131072;
    dl_push(p->arena, &train->results,
            (dl_plan_result){DL_RESULT_LOSS, "loss", dl_scalar(DL_F32), 128000, -1});
    dl_push(p->arena, &train->results,
            (dl_plan_result){DL_RESULT_UPDATE, "conv.weight", p->vars.at[1].type, 1536, 1});
    add_program(p, "eval");
    p->origin = (dl_plan_origin){.program = "0.1",
                                 .command = "dlc compile m.dl",
                                 .path = "m.dl",
                                 .text = "model M():\n",
                                 .configuration = "base:\n",
                                 .graphs = 77};
    dl_push(p->arena, &p->origin.settings, ((dl_plan_setting){"optimizer", "0", "adam"}));
    dl_push(p->arena, &p->origin.settings, ((dl_plan_setting){"DLC_SKIP", "", "nothing"}));
    dl_push(p->arena, &p->origin.arguments, ((dl_plan_setting){"c", "8", "8"}));
    return p;
}

static bool same_text(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

static void test_round_trip(const dl_plan *p, const char *path) {
    dl_error err = {0};
    CHECK(dl_plan_write(p, path, &err), "%s", err.message);
    dl_arena *arena = dl_arena_new(NULL);
    dl_plan *q = dl_plan_read(arena, path, &err);
    CHECK(q, "%s", err.message);
    if (!q) return;
    CHECK(same_text(q->model, "M") && same_text(q->target, "cpu:generic") && q->key == 42 &&
          q->batch == 2);
    CHECK(q->arena_bytes == p->arena_bytes && q->workspace_bytes == 256 && q->scratch_bytes == 128);
    CHECK(q->vars.n == p->vars.n && q->kernels.n == 2 && q->objects.n == 1 && q->programs.n == 2);
    for (int i = 0; i < p->vars.n; i++) {
        const dl_plan_var *a = &p->vars.at[i], *b = &q->vars.at[i];
        CHECK(same_text(a->name, b->name) && same_text(a->of, b->of) && a->role == b->role &&
              a->offset == b->offset);
        CHECK(dl_type_same(&a->type, &b->type) && dl_layout_same(a->type.layout, b->type.layout));
        CHECK(a->numbers.n == b->numbers.n &&
              (!a->numbers.n ||
               !memcmp(a->numbers.at, b->numbers.at, sizeof(double) * (size_t)a->numbers.n)));
        CHECK(a->init.kind == b->init.kind && a->init.a == b->init.a && a->init.b == b->init.b);
    }
    const dl_plan_kernel *k = &q->kernels.at[0];
    CHECK(same_text(k->name, "k0") && same_text(k->symbol, "k0") && same_text(k->where, "m.dl:1") &&
          same_text(k->variant, "tall") && k->object == 0);
    CHECK(k->phases == 2 && k->items[0] == 8 && k->items[1] == 1 && k->workspace == 256 &&
          k->scratch == 128);
    CHECK(k->prepares == 1 && k->prepared == 1);
    CHECK(k->nargs == 3 && k->arg_bytes[0] == 1536 && k->arg_bytes[1] == 32 * 81 * 4 &&
          k->arg_bytes[2] == 4);
    CHECK(k->stores.n == 1 && k->stores.at[0].arg == 2 && same_text(k->stores.at[0].op, "mul") &&
          same_text(k->stores.at[0].where, "m.dl:3") && k->stores.at[0].type.dtype == DL_F32);
    CHECK(k->flops == 10 && k->bytes == 20 && k->predicted_us == 1.5 && k->serial_us == 2.5);
    CHECK(q->objects.at[0].key == 99 && same_text(q->objects.at[0].source, "int x;\n"));
    CHECK(q->objects.at[0].bytes == 11 && memcmp(q->objects.at[0].image, "not code...", 11) == 0);
    const dl_plan_program *g = dl_plan_program_find(q, "train");
    CHECK(g && g->launches.n == 2 && g->launches.at[0].nargs == 3 &&
          g->launches.at[0].args[2] == 128000 && g->launches.at[0].own == 131072 &&
          g->launches.at[1].own == 0);
    CHECK(g->results.n == 2 && g->results.at[0].var == -1 && g->results.at[1].var == 1);
    CHECK(same_text(g->results.at[1].name, "conv.weight") &&
          g->results.at[1].role == DL_RESULT_UPDATE);
    CHECK(dl_plan_program_find(q, "eval") && !dl_plan_program_find(q, "test"));
    const dl_plan_origin *o = &q->origin;
    CHECK(same_text(o->program, "0.1") && same_text(o->command, "dlc compile m.dl") &&
          same_text(o->path, "m.dl") && same_text(o->text, "model M():\n") &&
          same_text(o->configuration, "base:\n") && o->graphs == 77);
    CHECK(o->settings.n == 2 && same_text(o->settings.at[0].shown, "adam") &&
          same_text(o->settings.at[1].key, "DLC_SKIP") && same_text(o->settings.at[1].is, "") &&
          o->arguments.n == 1 && same_text(o->arguments.at[0].key, "c"));
    CHECK(dl_plan_parameters(q) == 20 * 81);
    CHECK(dl_plan_peak(q, 3) == (1 << 20) + 256 + 3 * 128);

    size_t n, m;
    char *first = dl_read_file(arena, path, 1 << 20, &n, &err);
    CHECK(dl_plan_write(q, path, &err), "%s", err.message);
    char *again = dl_read_file(arena, path, 1 << 20, &m, &err);
    CHECK(n == m && memcmp(first, again, n) == 0);
    dl_arena_free(arena);
}

static void seal(char *file, size_t n) {
    uint64_t sum = dl_hash(file + HEADER, n - HEADER, 0);
    memcpy(file + CHECKSUM_AT, &sum, sizeof sum);
}

static bool put_file(const char *path, const char *data, size_t n) {
    FILE *f = fopen(path, "wb");
    return f && fwrite(data, 1, n, f) == n && fclose(f) == 0;
}

/* A file in memory: forty thousand damaged ones are no work for a disk. */
static int memory_file = -1;
static const char *memory_path(dl_arena *arena) {
    memory_file = memfd_create("plan", MFD_CLOEXEC);
    fchmod(memory_file, 0600);
    return dl_format(arena, "/proc/self/fd/%d", memory_file);
}

/* Reads damaged bytes: an error with a message, or a plan that holds together. */
static int refused, accepted;
static void try_read(const char *path, const char *file, size_t n) {
    dl_error err = {0};
    if (ftruncate(memory_file, (off_t)n) != 0 || pwrite(memory_file, file, n, 0) != (ssize_t)n)
        CHECK(false, "cannot write %s", path);
    dl_plan *p = dl_plan_read(NULL, path, &err);
    if (!p) {
        refused++;
        if (err.code != DL_INPUT || !strstr(err.message, path))
            CHECK(false, "%d %s", err.code, err.message);
        return;
    }
    accepted++;
    if (!dl_plan_check(p, &err)) CHECK(false, "%s", err.message);
    (void)dl_plan_parameters(p);
    dl_arena_free(p->arena);
}

static void test_mutations(const dl_plan *p, const char *file_path) {
    dl_error err = {0};
    dl_arena *arena = dl_arena_new(NULL);
    size_t n;
    CHECK(dl_plan_write(p, file_path, &err), "%s", err.message);
    char *good = dl_read_file(arena, file_path, 1 << 20, &n, &err), *file = dl_alloc(arena, n + 64);
    const char *path = memory_path(arena);

    /* Any one byte changed is found, by the checksum at the latest. */
    static const unsigned char flips[] = {0x01, 0x80, 0xff};
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < 3; k++) {
            memcpy(file, good, n);
            file[i] ^= (char)flips[k];
            try_read(path, file, n);
        }
    CHECK(accepted == 0 && refused == (int)(3 * n), "%d accepted, %d refused", accepted, refused);

    /* An adversary makes the checksum fit: every value in the table of sections, some in every byte
     * after it. */
    for (size_t i = HEADER; i < n; i++)
        for (int v = 0; v < 256; v += i < HEADER + TABLE ? 1 : 51) {
            memcpy(file, good, n);
            file[i] = (char)v;
            seal(file, n);
            try_read(path, file, n);
        }
    unsigned random = 12345;
    for (int trial = 0; trial < 4000; trial++) {
        memcpy(file, good, n);
        for (int k = 0; k <= trial % 4; k++) {
            random = random * 1664525u + 1013904223u;
            size_t at = HEADER + (random >> 8) % (n - HEADER - 8);
            random = random * 1664525u + 1013904223u;
            int64_t v = (int64_t[]){-1, (int64_t)1 << 62, random, INT64_MIN,
                                    0x7fffffff}[(random >> 20) % 5];
            memcpy(file + at, &v, (random >> 28) % 2 ? 8 : 4);
        }
        seal(file, n);
        try_read(path, file, n);
    }
    CHECK(accepted > 0, "no sealed change was harmless, such as one of a number of FLOPs");
    for (size_t cut = 0; cut < n; cut += 7) {
        memcpy(file, good, cut);
        uint64_t bytes = cut;
        if (cut >= HEADER) memcpy(file + 16, &bytes, sizeof bytes), seal(file, cut);
        try_read(path, file, cut);
    }
    printf("damaged plans: %d refused, %d still well-formed\n", refused, accepted);
    close(memory_file);
    dl_arena_free(arena);
}

static void expect_read_error(const char *path, dl_code code, const char *text) {
    dl_error err = {0};
    dl_plan *p = dl_plan_read(NULL, path, &err);
    CHECK(!p && err.code == code && strstr(err.message, text), "%d %s", err.code, err.message);
    if (p) dl_arena_free(p->arena);
}

static void test_files(const dl_plan *p, const char *path) {
    dl_error err = {0};
    dl_arena *arena = dl_arena_new(NULL);
    CHECK(dl_plan_write(p, path, &err));
    chmod(path, 0664);
    expect_read_error(path, DL_TRUST, "chmod go-w");
    chmod(path, 0646);
    expect_read_error(path, DL_TRUST, "chmod go-w");
    if (geteuid() == 0 && chown(path, 12345, 0) == 0 && chmod(path, 0600) == 0) {
        expect_read_error(path, DL_TRUST, "another user");
        CHECK(chown(path, 0, 0) == 0);
    }
    chmod(path, 0600);
    size_t n;
    char *file = dl_read_file(arena, path, 1 << 20, &n, &err);
    file[8] = 99;
    put_file(path, file, n);
    expect_read_error(path, DL_INPUT, "version 99");
    put_file(path, "%PDF-1.4 and so on", 18);
    expect_read_error(path, DL_INPUT, "is not a plan");
    unlink(path);
    expect_read_error(path, DL_IO, "cannot open");
    CHECK(mkfifo(path, 0600) == 0);
    expect_read_error(path, DL_INPUT, "not a file");
    unlink(path);
    CHECK(!dl_plan_write(p, "/nonexistent/plan.dlp", &err) && err.code == DL_IO);
    dl_arena_free(arena);
}

/* Each fault by itself, set and undone. */
static void expect_fault(const dl_plan *p, const char *field, const char *text) {
    dl_error err = {0};
    CHECK(!dl_plan_check(p, &err) && err.code == DL_INPUT && strstr(err.message, text),
          "%s: want '%s', got %d '%s'", field, text, err.code, err.message);
}
#define FAULT(field, value, text)                                                                  \
    do {                                                                                           \
        __typeof__(field) kept = (field);                                                          \
        (field) = (value);                                                                         \
        expect_fault(p, #field, text);                                                             \
        (field) = kept;                                                                            \
    } while (0)

static void test_check(dl_plan *p) {
    dl_plan_var *x = &p->vars.at[0], *w = &p->vars.at[1];
    dl_plan_launch *l = &p->programs.at[0].launches.at[0];
    dl_plan_result *r = &p->programs.at[0].results.at[0];
    dl_plan_kernel *k = &p->kernels.at[0];
    FAULT(p->arena_bytes, -1, "arena's size");
    FAULT(p->origin.text, NULL, "origin");
    FAULT(p->origin.configuration, NULL, "origin");
    FAULT(p->origin.settings.at[1].is, NULL, "origin");
    FAULT(p->origin.arguments.at[0].key, NULL, "origin");
    FAULT(p->scratch_bytes, INT64_MAX, "scratch");
    FAULT(x->name, NULL, "variable 0 has no name");
    FAULT(x->name, "conv.weight", "two variables");
    FAULT(x->offset, 32, "no place");
    FAULT(x->offset, -64, "no place");
    FAULT(x->offset, (1 << 20) - 64, "no place");
    FAULT(x->offset, 1600, "overlap");
    FAULT(x->role, (dl_var_role)17, "role");
    FAULT(x->type.dtype, (dl_dtype)-1, "element type");
    FAULT(x->type.rank, 9, "rank");
    FAULT(x->type.axis[0].size, -1, "size out of range");
    FAULT(x->type.axis[0].size, (int64_t)1 << 46, "2^47");
    FAULT(x->type.axis[0].name, dl_intern(""), "must be 1");
    FAULT(w->type.layout.width, 0, "panel width");
    FAULT(w->type.rank, 1, "panels need");
    FAULT(p->vars.at[2].of, "nobody", "'nobody'");
    FAULT(p->vars.at[5].numbers.n, 2, "variable 'list 1' of f32[N=3] has 2 numbers");
    FAULT(p->vars.at[5].role, DL_VAR_STATE, "variable 'list 1' of f32[N=3] has 3 numbers");
    FAULT(w->role, DL_VAR_TABLE, "has 0 numbers");
    FAULT(p->kernels.at[0].symbol, "a b", "kernel 'k0'");
    FAULT(p->kernels.at[0].object, 1, "kernel 'k0'");
    FAULT(p->kernels.at[0].phases, DL_MAX_PHASES + 1, "kernel 'k0'");
    FAULT(p->kernels.at[0].items[1], -1, "kernel 'k0'");
    FAULT(p->kernels.at[0].threads[0], 32, "kernel 'k0' has blocks");
    FAULT(p->kernels.at[0].shared[1], 16, "kernel 'k0' has blocks");
    FAULT(p->kernels.at[0].workspace, 257, "kernel 'k0'");
    FAULT(p->kernels.at[0].predicted_us, (double)NAN, "kernel 'k0'");
    FAULT(p->kernels.at[0].serial_us, -1.0, "kernel 'k0'");
    FAULT(p->kernels.at[0].arg_bytes[2], -4, "kernel 'k0'");
    FAULT(p->kernels.at[0].nargs, -1, "kernel 'k0'");
    FAULT(p->kernels.at[0].stores.at[0].arg, 3, "kernel 'k0'");
    FAULT(p->kernels.at[0].stores.at[0].type.dtype, DL_F64, "kernel 'k0'");
    FAULT(p->kernels.at[0].stores.at[0].type.rank, -1, "kernel 'k0'");
    FAULT(p->kernels.at[0].stores.at[0].where, NULL, "kernel 'k0'");
    FAULT(p->objects.at[0].bytes, 0, "object 0 is empty");
    FAULT(l->kernel, 2, "runs no kernel");
    FAULT(p->programs.at[0].launches.at[1].kernel, 0, "takes 3 arguments and is launched with 0");
    FAULT(l->args[1], 1537, "no place");
    FAULT(l->args[1], (1 << 20) + 64, "no place");
    /* Begins inside the arena, and what the kernel touches from there does not. */
    FAULT(l->args[1], (1 << 20) - 64, "no place");
    FAULT(l->args[1], ((1 << 20) - 32 * 81 * 4) / 64 * 64 + 64, "no place");
    FAULT(l->args[2], 1 << 20, "no place");
    FAULT(k->prepares, 2, "kernel 'k0' has a bad");
    FAULT(k->prepares, -1, "kernel 'k0' has a bad");
    FAULT(k->prepared, 3, "kernel 'k0' has a bad");
    FAULT(k->prepared, -1, "kernel 'k0' has a bad");
    FAULT(k->prepares, 0, "kernel 'k0' prepares nothing");
    FAULT(l->own, 131072 + 32, "no place");
    FAULT(l->own, (1 << 20) - 192, "no place");
    FAULT(l->own, 65536, "overlaps 'm'");
    FAULT(p->kernels.at[0].arg_bytes[2], (1 << 20) - 128000 + 1, "no place");
    FAULT(p->kernels.at[0].arg_bytes[2], INT64_MAX, "no place");
    FAULT(r->var, 0, "result 'loss'");
    FAULT(p->programs.at[0].results.at[1].var, 99, "result 'conv.weight'");
    FAULT(r->offset, 1 << 20, "no place");
    FAULT(p->programs.at[1].name, "train", "two programs");
    dl_error err = {0};
    CHECK(dl_plan_check(p, &err), "%s", err.message);
}

/* The same plan for a device: blocks are in the file, and must be ones that a device takes. */
static void test_blocks(dl_plan *p, const char *path) {
    dl_error err = {0};
    p->target = "cuda:sm_90a";
    for (int i = 0; i < p->kernels.n; i++) {
        dl_plan_kernel *k = &p->kernels.at[i];
        k->scratch = 0;
        for (int j = 0; j < k->phases; j++) k->threads[j] = 32 * (1 + j), k->shared[j] = 4096 * j;
    }
    dl_plan_kernel *k = &p->kernels.at[0];
    FAULT(k->threads[0], 0, "blocks");
    FAULT(k->threads[0], 33, "blocks");
    FAULT(k->threads[1], 1056, "blocks");
    FAULT(k->shared[0], -1, "blocks");
    FAULT(k->shared[1], (256 << 10) + 1, "blocks");
    FAULT(k->items[0], (int64_t)1 << 31, "blocks");
    FAULT(k->scratch, 64, "blocks");
    CHECK(dl_plan_write(p, path, &err), "%s", err.message);
    dl_plan *q = dl_plan_read(p->arena, path, &err);
    CHECK(q, "%s", err.message);
    if (q)
        CHECK(q->kernels.at[0].threads[1] == 64 && q->kernels.at[0].shared[1] == 4096 &&
              q->kernels.at[0].threads[2] == 0);
    unlink(path);
}

/* The kind of device by a target's name, or a device's. */
static void test_targets(void) {
    static const char *const cpus[] = {"cpu", "cpu:avx2", "cpu:avx512:emulated"},
                             *const gpus[] = {"cuda", "cuda:1", "cuda:sm_90a", "cuda:emulated"};
    for (size_t i = 0; i < sizeof cpus / sizeof *cpus; i++)
        CHECK(!dl_target_is_gpu(cpus[i]), "%s", cpus[i]);
    for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++)
        CHECK(dl_target_is_gpu(gpus[i]), "%s", gpus[i]);
}

int main(void) {
    dl_plan *p = make_plan();
    char *directory = temp_directory(p->arena), *path = dl_format(p->arena, "%s/m.dlp", directory);
    test_round_trip(p, path);
    test_mutations(p, path);
    test_files(p, path);
    test_check(p);
    test_blocks(p, path);
    test_targets();
    CHECK(rmdir(directory) == 0);
    dl_arena_free(p->arena);
    return dl_test_end();
}

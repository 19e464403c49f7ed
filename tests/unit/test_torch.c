/* PyTorch's files: round trips, views, and hostile files. */
#include "tests/unit/torch_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/check.h"

static char dir[] = "/tmp/dl_test_XXXXXX";
dl_arena *arena;

const char *in_dir(const char *name) { return dl_format(arena, "%s/%s", dir, name); }

static bool fill(void *ctx, int index, int64_t first, int64_t n, void *dst, dl_error *err) {
    (void)err, (void)ctx;
    for (int64_t i = 0; i < n; i++) ((float *)dst)[i] = (float)(10 * index + first + i);
    return true;
}

static dlr_torch_value text(const char *s) {
    return (dlr_torch_value){.kind = DLR_TORCH_TEXT, .text = s};
}
dlr_torch_value tensor(const dlr_st_tensor *t) {
    return (dlr_torch_value){.kind = DLR_TORCH_TENSOR, .tensor = t};
}
static dlr_torch_value whole(int64_t n) {
    return (dlr_torch_value){.kind = DLR_TORCH_INT, .integer = n};
}

static void test_round_trip(void) {
    static const unsigned char odd[3] = {1, 0, 1};
    static const int64_t count = -7;
    dlr_st_tensor tensors[] = {
        {.name = "module.flags", .dtype = DLR_ST_BOOL, .rank = 1, .shape = {3}, .data = odd},
        {.name = "conv.weight", .dtype = DLR_ST_F32, .rank = 2, .shape = {2, 3}},
        {.name = "count", .dtype = DLR_ST_I64, .rank = 0, .data = &count},
        {.name = "empty \"\xc3\xa9\"", .dtype = DLR_ST_F16, .rank = 3, .shape = {4, 0, 5}},
    };
    dlr_st_content content = {.tensors = tensors, .n = 4, .read = fill, .finite = true};
    dlr_st_written written = {0};
    dl_error err = {0};
    const char *const names[] = {"a.pt", "a.pth", "a.tar"};
    for (int i = 0; i < 3; i++) {
        const char *path = in_dir(names[i]);
        CHECK(dlr_st_write(path, &content, &written, &err), "%s", err.message);
        struct stat st;
        CHECK(stat(path, &st) == 0 && (uint64_t)st.st_size == written.bytes);
        dlr_st_file *f = dlr_st_open(path, DLR_ST_STRIP, &err);
        CHECK(f && f->n == 4 && dlr_torch_root(f), "%s", err.message);
        if (!f) return;
        const dlr_st_tensor *w = dlr_st_find(f, "conv.weight"), *c = dlr_st_find(f, "count");
        float values[6];
        int64_t got = 0;
        CHECK(dlr_st_find(f, "flags") && dlr_st_find(f, "empty \"\xc3\xa9\"") &&
              !dlr_st_find(f, "none"));
        CHECK(w && w->rank == 2 && !w->view && dlr_st_load_f32(f, w, values, &err) &&
              values[0] == 10 && values[5] == 15);
        CHECK(c && dlr_st_load(f, c, &got, &err) && got == -7);
        CHECK(((uintptr_t)w->data & 63) == 0, "aligned as PyTorch does it");
        dlr_st_close(f);
    }
    dlr_st_file *f = dlr_st_open(in_dir("a.pt"), DLR_ST_PLAIN, &err);
    CHECK(f && dlr_st_find(f, "module.flags") && dlr_st_check(f, tensors, 4, &err), "%s",
          err.message);
    dlr_st_close(f);
}

static void test_refused_writing(void) {
    static const float bad[2] = {1, NAN};
    dlr_st_tensor t[] = {{.name = "a", .dtype = DLR_ST_F32, .rank = 1, .shape = {2}, .data = bad},
                         {.name = "a", .dtype = DLR_ST_F32, .rank = 1, .shape = {2}, .data = bad}};
    const char *path = in_dir("refused.pt");
    dl_error err = {0};
    dlr_st_content content = {.tensors = t, .n = 1, .finite = true};
    CHECK(!dlr_st_write(path, &content, NULL, &err) && err.code == DL_NUMERIC &&
          strstr(err.message, "nan at [1]"));
    content = (dlr_st_content){.tensors = t, .n = 2};
    err = (dl_error){0};
    CHECK(!dlr_st_write(path, &content, NULL, &err) && strstr(err.message, "'a' is there twice"),
          "%s", err.message);
    t[1].name = "\xff", err = (dl_error){0};
    CHECK(!dlr_st_write(path, &content, NULL, &err) && strstr(err.message, "UTF-8"), "%s",
          err.message);
    t[1].name = "b", t[1].dtype = DLR_ST_U16, err = (dl_error){0};
    CHECK(!dlr_st_write(path, &content, NULL, &err) && strstr(err.message, "U16"), "%s",
          err.message);
    t[1].dtype = DLR_ST_F32, t[1].shape[0] = -1, err = (dl_error){0};
    CHECK(!dlr_st_write(path, &content, NULL, &err) && strstr(err.message, "no valid shape"), "%s",
          err.message);
    content.n = 1, content.n_metadata = 1, err = (dl_error){0};
    CHECK(!dlr_st_write(path, &content, NULL, &err) && strstr(err.message, "metadata"), "%s",
          err.message);
    CHECK(access(path, F_OK) != 0, "nothing was left");
}

/* A tree that holds what its own kinds are for. */
static void test_tree(void) {
    static const float x[2] = {1, 2};
    dlr_st_tensor t = {.name = "w", .dtype = DLR_ST_F32, .rank = 1, .shape = {2}, .data = x};
    dlr_st_content content = {.tensors = &t, .n = 1};
    dlr_torch_value state[] = {text("w"), tensor(&t)},
                    list[] = {whole(-1), whole(1LL << 40), whole(70000)};
    dlr_torch_items state_items = {state, 2, true}, list_items = {list, 3, false};
    dlr_torch_value top[] = {text("model_state"),
                             {.kind = DLR_TORCH_DICT, .items = &state_items},
                             whole(7),
                             {.kind = DLR_TORCH_TUPLE, .items = &list_items},
                             text("lr"),
                             {.kind = DLR_TORCH_REAL, .real = 0.1}};
    dlr_torch_items items = {top, 6, false};
    dlr_torch_value root = {.kind = DLR_TORCH_DICT, .items = &items};
    dl_error err = {0};
    CHECK(dlr_torch_write(in_dir("tree.tar"), &root, &content, NULL, &err), "%s", err.message);
    dlr_st_file *f = dlr_st_open(in_dir("tree.tar"), DLR_ST_PLAIN, &err);
    CHECK(f && f->n == 1 && dlr_st_find(f, "w"), "%s", err.message);
    const dlr_torch_value *r = f ? dlr_torch_root(f) : NULL, *lr = dlr_torch_get(r, "lr");
    CHECK(lr && lr->kind == DLR_TORCH_REAL && lr->real == 0.1 && !dlr_torch_get(r, "x") &&
          !dlr_torch_get(lr, "x"));
    CHECK(r && r->items->at[3].items->at[1].integer == 1LL << 40 &&
          r->items->at[3].items->at[0].integer == -1);
    CHECK(dlr_torch_get(r, "model_state")->items->ordered);
    dlr_st_close(f);
    top[2] = text("lr");
    CHECK(!dlr_torch_write(in_dir("tree.tar"), &root, &content, NULL, &err) &&
          strstr(err.message, "'lr' is there twice"));
}

int main(void) {
    if (!mkdtemp(dir)) return 1;
    arena = dl_arena_new(NULL);
    test_round_trip();
    test_refused_writing();
    test_tree();
    test_views();
    test_far_views();
    test_hostile_pickles();
    test_floods();
    load_good();
    test_damaged_zip();
    test_hostile_zip();
    test_unsummed_zip();
    test_zip64();
    test_foreign_archives();
    static const char *const left[] = {"a.pt", "a.pth", "a.tar", "hand.pt", "zip.pt", "tree.tar"};
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) unlink(in_dir(left[i]));
    CHECK(rmdir(dir) == 0);
    dl_arena_free(arena);
    return dl_test_end();
}

/* Library calls that a plan's file states wrongly are refused; what a plan prints of its calls. */
#include "tests/unit/calls.h"

#include "tests/check.h"

#include "verify/verify.h"

/* ---- what is refused ---- */

static void expect_refused(const dl_plan *p, const char *says) {
    dl_error err = {0};
    dlr_exec *e =
        dlr_exec_open(p, (dlr_exec_options){.threads = 1, .device = "cuda:emulated"}, &err);
    CHECK(!e && err.code == DL_RESOURCE && strstr(err.message, says), "%s, not: %s", err.message,
          says);
    if (e) dlr_exec_close(e);
}

#define FAULT(place, value)                                                                        \
    do {                                                                                           \
        dl_error err_ = {0};                                                                       \
        __typeof__(place) kept_ = (place);                                                         \
        (place) = (value);                                                                         \
        CHECK(!dl_plan_check(p, &err_) && strstr(err_.message, "call"), #place ": %s",             \
              err_.message);                                                                       \
        (place) = kept_;                                                                           \
    } while (0)

void test_matmul_refused(const char *dir) {
    wish w = {.form = DL_FORM_WHOLE, .algorithm = 1};
    dl_error err = {0};
    dl_module *m;
    dl_plan *p = compile(&w, false, &m, &err);
    CHECK(p && w.calls == 1, "%s", err.message);
    if (!p) return;
    dl_plan_kernel *k = &p->kernels.at[0];
    dl_call *c = &k->calls.at[0];
    CHECK(k->phases == 0 && k->workspace >= c->algorithm.workspace &&
              p->workspace_bytes >= k->workspace,
          "%d phases, workspace %lld", k->phases, (long long)k->workspace);
    CHECK(strncmp(k->variant, "cuBLASLt 13.1.0, algorithm ", 27) == 0, "%s", k->variant);

    const char *path = dl_format(test_arena, "%s/calls.dlp", dir);
    CHECK(dl_plan_write(p, path, &err), "%s", err.message);
    dl_plan *back = dl_plan_read(test_arena, path, &err);
    CHECK(back && dl_algorithm_is_same(&back->kernels.at[0].calls.at[0].algorithm, &c->algorithm) &&
              memcmp(&back->kernels.at[0].calls.at[0].matmul, &c->matmul, sizeof c->matmul) == 0,
          "%s", err.message);
    if (back) verify("read again", m, back);

    FAULT(k->phases, -1);
    FAULT(k->workspace, c->algorithm.workspace);
    FAULT(c->algorithm.library, DL_NLIBRARIES);
    FAULT(c->algorithm.workspace, c->algorithm.workspace + 64);
    FAULT(c->workspace, -64);
    FAULT(c->matmul.rows, 142);
    FAULT(c->matmul.columns, 25);
    FAULT(c->matmul.terms, 0);
    FAULT(c->matmul.batch, 2);
    FAULT(c->matmul.left.line, 39);
    FAULT(c->matmul.left.line, INT64_MAX);
    FAULT(c->matmul.right.next, INT64_MAX);
    FAULT(c->matmul.result.param, 4);
    FAULT(c->matmul.result.param, DL_IN_WORKSPACE);
    FAULT(c->matmul.result.offset, 4);
    FAULT(c->matmul.left.dtype, DL_I32);
    FAULT(c->matmul.bias, 4);
    FAULT(c->matmul.bias_type, DL_F64);
    FAULT(p->target, "cpu:avx2");

    c->algorithm.version += 100;
    expect_refused(p, "made by cuBLASLt 13.2.0, as --tune=true has chosen, and ");
    c->algorithm.version -= 100;
    c->algorithm.words[1] ^= 1;
    expect_refused(p, "does not know the plan's algorithm here");
    c->algorithm.words[1] ^= 1;
}

void test_convolution_refused(const char *dir) {
    enum { STRIDES = 10 }; /* with bias and sums by channel */
    wish w = {.number = STRIDES, .library = DL_LIBRARY_CUDNN, .form = DL_FORM_SUMS, .algorithm = 1};
    dl_error err = {0};
    dl_module *m;
    dl_plan *p = compile(&w, true, &m, &err);
    dl_plan_kernel *k = NULL;
    for (int i = 0; p && i < p->kernels.n; i++)
        if (p->kernels.at[i].calls.n) k = &p->kernels.at[i];
    CHECK(k && w.calls == 1, "%s", err.message);
    if (!k) return;
    dl_call *c = &k->calls.at[0];
    dl_convolution *v = &c->convolution;
    CHECK(c->what == DL_CALLED_CONVOLUTION && v->of[DL_TENSOR_Y].param == DL_IN_WORKSPACE &&
              strncmp(k->variant, "cuDNN 9.26.0, algorithm ", 24) == 0 &&
              strstr(k->variant, ", sums alone"),
          "%s", k->variant);

    const char *path = dl_format(test_arena, "%s/convolutions.dlp", dir);
    CHECK(dl_plan_write(p, path, &err), "%s", err.message);
    dl_plan *back = dl_plan_read(test_arena, path, &err);
    const dl_call *read = back ? &back->kernels.at[k - p->kernels.at].calls.at[0] : NULL;
    CHECK(read && dl_algorithm_is_same(&read->algorithm, &c->algorithm) && read->what == c->what &&
              memcmp(&read->convolution, v, sizeof *v) == 0,
          "%s", err.message);
    if (back) verify("read again", m, back);

    FAULT(c->what, DL_CALLED_MATMUL);
    FAULT(c->algorithm.library, DL_LIBRARY_CUBLASLT);
    FAULT(v->makes, DL_TENSOR_NONE);
    FAULT(v->makes, DL_TENSOR_W);
    FAULT(v->size.samples, 3);
    FAULT(v->size.groups, 0);
    FAULT(v->size.groups, INT64_MAX);
    FAULT(v->size.c, 13);
    FAULT(v->size.o, 24);
    FAULT(v->size.in[2], 12);
    FAULT(v->size.tap[1], 6);
    FAULT(v->size.out[2], 6);
    FAULT(v->size.stride[1], 0);
    FAULT(v->size.dilation[2], INT64_MAX);
    FAULT(v->size.pad_lo[1], -1);
    FAULT(v->size.pad_hi[2], 7);
    FAULT(v->of[DL_TENSOR_X].param, 9);
    FAULT(v->of[DL_TENSOR_X].param, DL_IN_WORKSPACE);
    FAULT(v->of[DL_TENSOR_X].offset, 4);
    FAULT(v->of[DL_TENSOR_W].step[0], INT64_MAX);
    FAULT(v->of[DL_TENSOR_W].dtype, DL_F64);
    FAULT(v->of[DL_TENSOR_W].dtype, DL_BF16);
    FAULT(v->of[DL_TENSOR_Y].step[1], 0);
    FAULT(v->of[DL_TENSOR_Y].step[3], 1);
    FAULT(c->workspace, 256);

    c->algorithm.version += 100;
    expect_refused(p, "made by cuDNN 9.27.0, as --tune=true has chosen, and ");
    c->algorithm.version -= 100;
    c->algorithm.words[1] ^= 8;
    expect_refused(p, "does not know the plan's algorithm here");
    c->algorithm.words[1] ^= 8;
}

void test_text(void) {
    dl_algorithm back, a = {.version = 130100,
                            .form = DL_FORM_SUMS,
                            .words = {1, UINT64_MAX, 0, 7, 8, 9, 10, 11},
                            .workspace = 77};
    const char *text = dl_algorithm_text(test_arena, &a);
    CHECK(dl_algorithm_parse(text, strlen(text), &back) && dl_algorithm_is_same(&a, &back), "%s",
          text);
    for (size_t n = 0; n < strlen(text); n++)
        CHECK(!dl_algorithm_parse(text, n, &back) || n > strlen(text) - 16,
              "a part of %zu characters parses", n);
    CHECK(!dl_algorithm_parse("64x64, terms in 8", 17, &back), "a tiling parses");
    CHECK(strstr(dl_algorithm_name(&a), "cuBLASLt 13.1.0, algorithm ") &&
              strstr(dl_algorithm_name(&a), ", sums alone"),
          "%s", dl_algorithm_name(&a));
}

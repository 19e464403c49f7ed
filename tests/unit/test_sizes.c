/* Sizes up to 2^47 in every layer and function, by number: a model of them is compiled, or refused
 * with a code and a place. Nothing aborts: no fault of the IR's builder, which passes call, is
 * reachable from a model.
 *
 * test_sizes [FIRST [COUNT]]: other models. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "compiler/check.h"
#include "tests/check.h"
#include "tests/unit/random_numbers.h"

static char text[4096];

static void say_text(int sig) {
    (void)!write(2, text, strlen(text));
    signal(sig, SIG_DFL);
    raise(sig);
}

static int64_t any_size(rng *r) {
    static const int64_t odd[] = {
        480000,       1 << 20,          (1 << 24) + 1,    INT32_MAX,        (int64_t)1 << 31,
        3000000000LL, (int64_t)1 << 40, (int64_t)1 << 46, (int64_t)1 << 47, ((int64_t)1 << 47) + 1};
    static const int64_t small[] = {0, 1, 1, 2, 3, 4, 5, 7, 8, 16, 64, 100, 1000, 65535};
    return uniform(r, 0, 1) < 0.3 ? odd[(int)uniform(r, 0, 10)] : small[(int)uniform(r, 0, 14)];
}

static int whole(rng *r, int least, int above) { return least + below(r, above - least); }

/* `$` a size, `#` a small number, `@` an axis of x, `&` another one. */
static const char *const images[] = {
    "v |> conv($, #) @c",
    "v |> conv(#, $) @c",
    "v |> conv(#, #, stride=$, pad=#, dilation=#) @c",
    "v |> conv(#, #, dilation=$, pad=$) @c",
    "v |> conv_transpose(#, #, stride=$) @c",
    "v |> conv_transpose($, $, pad=#, out_pad=#) @c",
    "v |> conv_transpose(#, #, dilation=$) @c",
    "v |> conv(v.C, #, groups=v.C) @c",
    "v |> conv(v.C, 1) @c |> batch_norm @b",
    "v |> max_pool($)",
    "v |> max_pool($, stride=#)",
    "v |> max_pool($, stride=$, pad=#, dilation=#, ceil_mode=true)",
    "v |> max_pool(#, stride=#, dilation=$)",
    "v |> avg_pool($)",
    "v |> avg_pool($, stride=#)",
    "v |> avg_pool($, stride=$, pad=#, count_include_pad=false, ceil_mode=true)",
    "v |> avg_pool(#, stride=$, pad=$)",
    "v |> adaptive_avg_pool($)",
    "v |> adaptive_avg_pool(#)",
    "v |> upsample(size=$)",
    "v |> upsample(scale_factor=$, mode=\"linear\")",
    "v |> upsample(scale_factor=#)",
    "v |> upsample(size=$, mode=\"linear\", align_corners=true)",
    "v |> max_pool(v.@)",
    "v |> avg_pool(v.@)",
    "v |> instance_norm",
    "v |> group_norm(#) @g"};
static const char *const others[] = {
    "v |> linear($) @l",
    "k |> embedding($, #)",
    "k |> embedding(#, $) @e",
    "v |> batch_norm @b",
    "v |> layer_norm @l",
    "v |> layer_norm(over=@) @l",
    "v |> dropout(0.5)",
    "v |> drop_path(0.5)",
    "attention(v, v, v, #)",
    "attention(v, v, v, #, causal=true)",
    "softmax(v, over=@)",
    "log_softmax(v, over=@)",
    "cumsum(v, over=@)",
    "argmax(v, over=@) * q",
    "top_k(v, #, over=@) * q",
    "top_k(v, $, over=@) * q",
    "gather(v, top_k(v, #, over=@), over=@)",
    "sum(v, over=@)",
    "mean(v, over=[@, &])",
    "prod(v, over=@)",
    "max(v, over=@)",
    "min(v, over=[@, &])",
    "var(v, over=@)",
    "std(v)",
    "norm(v, over=@)",
    "cross_entropy(v, argmax(v, over=@), over=@, reduction=\"none\")",
    "cross_entropy(v, argmax(v, over=@), over=@, label_smoothing=0.1, ignore_index=#)",
    "cross_entropy(v, softmax(v, over=@), over=@)",
    "bce_with_logits(v, 0.5)",
    "relative_l2_loss(v, v + 1)",
    "huber_loss(v, 1)",
    "in_top_k(v, argmax(v, over=@), #) * q",
    "cat(v, v, over=@)",
    "cat(v, v, v, over=@)",
    "gather(v, k, over=@)",
    "pad(v, $, over=@)",
    "pad(v, $, mode=\"circular\", over=@)",
    "pad(v, #, mode=\"reflect\", over=[@, &])",
    "pad(v, $, mode=\"replicate\", over=@)",
    "roll(v, $, over=@)",
    "flip(v, over=[@, &])",
    "expand(v, Z=$)",
    "expand(q, Z=$, Y=$)",
    "unsqueeze(v, over=Z)",
    "one_hot(k, Z=$) * q",
    "v[@=0]",
    "v[@=:#]",
    "v[@=::$]",
    "where(v > 0, q, linspace(0, 1, over=Z=#))",
    "v * linspace(0, 1, over=[@])",
    "v + expand(q, Z=$)",
    "v as [@] * 1",
    "clamp(v, min=0)",
    "v**2",
    "v / norm(v)",
    "max(v, linspace(0, 1, over=@))",
    "v |> rearrange(\"a b -> (a b)\") as [Z]",
    "v |> rearrange(\"a (b c) -> a b c\", b=#) as [X, Y, Z]",
    "v |> rearrange(\"a b c -> c (a b)\") as [Y, Z]",
    "sum(v * (v as [@, &]), over=@)",
    "elu(v)",
    "gelu(v)",
    "(v > 0) as i64 * q",
    "any(v > 0) * q"};

static void put_form(dl_buf *b, rng *r, const char *form, const char *axes, int rank) {
    for (const char *c = form; *c; c++) {
        if (*c == '$')
            dl_putf(b, "%lld", (long long)any_size(r));
        else if (*c == '#')
            dl_putf(b, "%d", whole(r, 1, 6));
        else if (*c == '@' && (c[1] == ')' || c[1] == ',' || c[1] == ']' || c[1] == '='))
            dl_putf(b, "%c", axes[whole(r, 0, rank)]);
        else if (*c == '&')
            dl_putf(b, "%c", axes[whole(r, 0, rank)]);
        else
            dl_putn(b, c, 1);
    }
}

static void write_model(rng *r) {
    static const char *const types[] = {"f32", "f32", "f32", "f64", "f16", "bf16"};
    bool image = uniform(r, 0, 1) < 0.5;
    int rank = image ? whole(r, 3, 6) : whole(r, 1, 9);
    const char *axes = image ? rank == 3 ? "NCW" : rank == 4 ? "NCHW" : "NCDHW" : "NCHWDEFG";
    dl_buf b = {0};
    dl_puts(&b, "model M():\n    input x: ");
    dl_putf(&b, "%s[", types[whole(r, 0, 6)]);
    for (int i = 0; i < rank; i++)
        dl_putf(&b, "%s%c=%lld", i ? ", " : "", axes[i], (long long)any_size(r));
    dl_puts(&b, "]\n    input k: i32[N, ");
    dl_putf(&b, "%s=%lld]\n    param p: [1] = 1\n", uniform(r, 0, 1) < 0.5 ? "J" : "L",
            (long long)any_size(r));
    dl_puts(&b, "    q = p |> rearrange(\"1 ->\")\n    v = x * q\n    y = ");
    put_form(&b, r,
             image ? images[whole(r, 0, sizeof images / sizeof *images)]
                   : others[whole(r, 0, sizeof others / sizeof *others)],
             axes, rank);
    dl_puts(&b, "\n    output y\n    loss = mean(y) * q\n    metric n = sum(k)\n");
    snprintf(text, sizeof text, "%s", b.at);
    dl_buf_free(&b);
}

/* 1: compiled; 0: refused. */
static int check_model(const dl_target *target) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    dl_source *s = dl_source_new(arena, "m.dl", text, strlen(text));
    dl_diags *d = dl_diags_new(arena, s);
    bool said = dl_check_file(arena, s, target, d, &err);
    CHECK(said, "no place and code: %s\n%s", err.message, text);
    int ok = said && !d->errors;
    dl_arena_free(arena);
    return ok;
}

int main(int argc, char **argv) {
    int64_t first = argc > 1 ? atoll(argv[1]) : 1, count = argc > 2 ? atoll(argv[2]) : 3000;
    dl_error err = {0};
    const dl_target *targets[] = {dl_target_find(NULL, "cpu:generic", &err),
                                  dl_target_find(NULL, "cuda:sm_90", &err)};
    int compiled = 0;
    signal(SIGABRT, say_text);
    for (int64_t i = first; i < first + count; i++) {
        rng r = {(uint64_t)i * 7919};
        write_model(&r);
        const dl_target *t = targets[i % 2] ? targets[i % 2] : targets[0];
        compiled += check_model(t);
    }
    CHECK(compiled > count / 20 && compiled < count, "%d of %lld compile", compiled,
          (long long)count);
    printf("note: %d of %lld models compile, the others are refused\n", compiled, (long long)count);
    return dl_test_end();
}

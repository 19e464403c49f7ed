/* Shape rules: every op's result type, and every fault with its code, the operand it points at and its words.
 *
 * Types are written "f32 N=2 C=4" ("=1": an axis without a name), attributes "stride=2,2 axis=C". */
#include <stdlib.h>

#include "ir/builder.h"
#include "tests/check.h"

static dl_module *module;
static dl_graph *graph;

static dl_type type_of(const char *text) {
    dl_type t = {0};
    char copy[400], *save = NULL;
    snprintf(copy, sizeof copy, "%s", text);
    DL_CHECK(dl_dtype_parse(strtok_r(copy, " ", &save), &t.dtype));
    for (char *word; (word = strtok_r(NULL, " ", &save));) {
        char *size = strchr(word, '=');
        *size++ = 0;
        dl_type_push(&t, word, strtoll(size, NULL, 10));
    }
    return t;
}

static dl_attr attr_of(char *word) {
    static const char *texts[1];
    char *value = strchr(word, '='), *save = NULL;
    *value++ = 0;
    dl_attr a = {.id = (dl_attr_id)dl_attr_find(word)};
    switch (dl_attrs[a.id].kind) {
    case DL_KIND_INT: a.i = strtoll(value, NULL, 10); break;
    case DL_KIND_FLOAT: a.f = strtod(value, NULL); break;
    case DL_KIND_NAME: a.s = dl_intern(value); break;
    case DL_KIND_STR: a.s = dl_intern(value); break;
    case DL_KIND_INTS:
        for (char *p = strtok_r(value, ",", &save); p; p = strtok_r(NULL, ",", &save))
            a.ints[a.n++] = strtoll(p, NULL, 10);
        break;
    case DL_KIND_TEXTS: texts[0] = dl_intern(value), a.n = 1, a.texts = texts; break;
    case DL_KIND_NAMES:
        for (char *p = strtok_r(value, ",", &save); p; p = strtok_r(NULL, ",", &save))
            a.names[a.n++] = dl_intern(p);
        break;
    }
    return a;
}

static int attrs_of(const char *text, dl_attr *attrs) {
    char copy[400], *save = NULL;
    int n = 0;
    snprintf(copy, sizeof copy, "%s", text ? text : "");
    for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save))
        attrs[n++] = attr_of(word);
    return n;
}

enum { MAX_OPERANDS = 9 };
typedef struct {
    const char *op, *in[MAX_OPERANDS], *attrs, *given;
    const char *want;                  /* the results' types; or, for a fault: */
    const char *code, *message, *help; /* its code, and what its words contain */
    int operand;
} shape_case;

static const char *run(const shape_case *c, dl_shape_fault *fault) {
    dl_builder b = {.graph = graph};
    dl_value *in[MAX_OPERANDS];
    dl_attr attrs[DL_MAX_ATTRS];
    dl_type given;
    int nin = 0;
    for (; nin < MAX_OPERANDS && c->in[nin]; nin++) {
        char name[40];
        snprintf(name, sizeof name, "v%u", graph->next_id);
        in[nin] =
            &dl_graph_var(graph, DL_VAR_INPUT, name, type_of(c->in[nin]), (dl_init){0}, (dl_loc){0})->value;
    }
    if (c->given) given = type_of(c->given);
    const dl_value *v = dl_build_try(&b, (dl_op)dl_op_find(c->op), nin, in, attrs_of(c->attrs, attrs), attrs,
                                     c->given ? &given : NULL, fault);
    const char *types = v ? dl_type_text(&v->type) : NULL;
    for (int i = 1; v && i < v->def->nout; i++)
        types = dl_internf("%s, %s", types, dl_type_text(&v->def->out[i].type));
    return types;
}

static void check_good(const shape_case *c) {
    dl_shape_fault fault = {0};
    const char *got = run(c, &fault);
    CHECK(got && strcmp(got, c->want) == 0, "%s: got '%s' (%s), want '%s'", c->op, got ? got : "a fault",
          fault.message, c->want);
}

static void check_fault(const shape_case *c) {
    dl_shape_fault fault = {0};
    const char *got = run(c, &fault);
    CHECK(!got, "%s: no fault, but %s (want %s: %s)", c->op, got, c->code, c->message);
    if (got) return;
    CHECK(strcmp(fault.code, c->code) == 0, "%s: code %s, want %s (%s)", c->op, fault.code, c->code,
          fault.message);
    CHECK(strstr(fault.message, c->message), "%s: '%s' should contain '%s'", c->op, fault.message,
          c->message);
    CHECK(fault.operand == c->operand, "%s: points at %d, want %d (%s)", c->op, fault.operand, c->operand,
          fault.message);
    CHECK(!c->help || strstr(fault.help, c->help), "%s: help '%s' should contain '%s'", c->op, fault.help,
          c->help ? c->help : "");
}

#define GOOD(op, in, attrs, given, want) {op, in, attrs, given, want, NULL, NULL, NULL, 0},
#define BAD(op, in, attrs, given, operand, code, message, help)                                              \
    {op, in, attrs, given, NULL, code, message, help, operand},
#define IN(...)                                                                                              \
    { __VA_ARGS__ }
#define X2          "f32 N=2 C=4 H=8 W=10"
#define W2          "f32 O=6 C=4 kH=3 kW=5"
#define DY2         "f32 N=2 C=6 H=4 W=5"
#define WIN         "stride=2,2 pad_lo=1,2 pad_hi=1,2"
#define QKV         "f32 N=2 T=5 E=12"
#define KEYS        "f32 N=2 S=7 E=12"
#define FLASH(rate) "rate=" rate " number=3 heads=4 causal=0"

/* clang-format off */ /* a line a case */
static const shape_case cases[] = {
    /* sources */
    GOOD("enter", IN("f32 N=2 C=3"), "group=tp ranks=4", NULL, "f32[N=2, C=3]")
    GOOD("scale_gradient", IN("bf16 N=2"), "value=0.5", NULL, "bf16[N=2]")
    GOOD("all_reduce", IN("f32 N=2 C=3"), "group=dp ranks=4", NULL, "f32[N=2, C=3]")
    GOOD("all_reduce", IN("f64"), "group=dp ranks=1 of=w", NULL, "f64[]")
    BAD("all_reduce", IN("i32 N=2"), "group=dp ranks=4", NULL, 0, "type_mismatch", "all_reduce", NULL)
    BAD("all_reduce", IN("f32 N=2"), "group=dp ranks=0", NULL, -1, "bad_range", "0 ranks", NULL)
    GOOD("all_gather", IN("f32 N=2 T=20 E=4"), "axis=T size=77 group=cp ranks=4 rank=0", NULL, "f32[N=2, T=77, E=4]")
    GOOD("all_gather", IN("f32 N=2 T=19 E=4"), "axis=T size=77 group=cp ranks=4 rank=3", NULL, "f32[N=2, T=77, E=4]")
    BAD("all_gather", IN("f32 N=2 T=19"), "axis=T size=77 group=cp ranks=4 rank=0", NULL, 0, "axis_mismatch", "has 20, not 19", NULL)
    BAD("all_gather", IN("f32 N=2"), "axis=T size=77 group=cp ranks=4 rank=0", NULL, 0, "missing_axis", "T", NULL)
    GOOD("reduce_scatter", IN("f32 N=2 T=77"), "axis=T group=cp ranks=4 rank=0", NULL, "f32[N=2, T=20]")
    GOOD("reduce_scatter", IN("f32 N=2 T=77"), "axis=T group=cp ranks=4 rank=3", NULL, "f32[N=2, T=19]")
    GOOD("shift", IN("f32 N=2 T=20"), "axis=T size=77 group=cp ranks=4 rank=0 turn=0", NULL, "f32[N=2, T=19]")
    BAD("shift", {0}, "axis=T size=77 group=cp ranks=4 rank=0 turn=0", NULL, -1, "wrong_arity", "takes one operand or more", NULL)
    GOOD("shift", IN("f32 N=2 T=19", "f32 N=2", "i64"), "axis=T size=77 group=cp ranks=4 rank=0 turn=3", NULL, "f32[N=2, T=20]")
    BAD("shift", IN("f32 N=2 T=20"), "axis=T size=77 group=cp ranks=4 rank=1 turn=2", NULL, 0, "axis_mismatch", "rank 1 has 19 in turn 2, not 20", NULL)
    BAD("shift", IN("f32 N=2 T=20"), "axis=T size=77 group=cp ranks=4 rank=0 turn=4", NULL, -1, "bad_range", "a turn below 4", NULL)
    BAD("reduce_scatter", IN("f32 N=2 T=77"), "axis=T group=cp ranks=4 rank=4", NULL, -1, "bad_range", "no rank 4", NULL)
    GOOD("const", IN(NULL), "value=2", "f32", "f32[]")
    GOOD("const", IN(NULL), "value=1", "bool", "bool[]")
    BAD("const", IN(NULL), "value=2", "f32 N=2", -1, "rank_mismatch", "a constant is a scalar, not f32[N=2]", NULL)
    GOOD("iota", IN(NULL), "axis=H", "f32 H=7", "f32[H=7]")
    GOOD("iota", IN(NULL), "axis=H", "f32 H=0", "f32[H=0]")
    BAD("iota", IN(NULL), "axis=H", "f32 H=7 W=2", -1, "rank_mismatch", "iota has the one axis H", NULL)
    BAD("iota", IN(NULL), "axis=H", "f32 W=7", -1, "missing_axis", "f32[W=7]", NULL)
    BAD("iota", IN(NULL), "axis=H", "bool H=7", -1, "type_mismatch", "bool[H=7]", NULL)
    GOOD("random", IN("i64", "i64"), "number=16777215", "f32 H=7 =1 W=2", "f32[H=7, 1, W=2]")
    GOOD("random", IN("i64", "i64"), "number=0", "f64", "f64[]")
    GOOD("random", IN("i64", "i64", "i64"), "number=1", "f32 H=7", "f32[H=7]")
    BAD("random", IN("i64", "i64", "f32"), "number=0", "f32 H=7", 2, "type_mismatch", "as a part is, but", NULL)
    BAD("random", IN("i64", "i64", "i64", "i64"), "number=0", "f32 H=7", -1, "wrong_arity", "not 4 operands", NULL)
    BAD("random", IN("i64"), "number=0", "f32 H=7", -1, "wrong_arity", "not 1 operand", NULL)
    BAD("random", IN("i64", "i32"), "number=0", "f32 H=7", 1, "type_mismatch", "i32[]", NULL)
    BAD("random", IN("i64 N=2", "i64"), "number=0", "f32 H=7", 0, "type_mismatch", "i64[N=2]", NULL)
    BAD("random", IN("i64", "i64"), "number=16777216", "f32 H=7", -1, "bad_range", "number 16777216", NULL)
    BAD("random", IN("i64", "i64"), "number=0", "i32 H=7", -1, "type_mismatch", "not i32[H=7]", NULL)
    /* pointwise */
    GOOD("neg", IN("i32 N=2 =1 C=3"), NULL, NULL, "i32[N=2, 1, C=3]")
    GOOD( "exp", IN("bf16 N=2"), NULL, NULL, "bf16[N=2]")
    GOOD("gather", IN("f32 V=10 E=4", "i32 N=2 T=3"), "axis=V", NULL, "f32[N=2, T=3, E=4]")
    GOOD("gather", IN("f32 N=2 C=4", "i64 N=2 C=3"), "axis=C", NULL, "f32[N=2, C=3]")
    BAD("gather", IN("f32 V=10 E=4", "f32 N=2"), "axis=V", NULL, 1, "type_mismatch", "whole numbers", "cast it to i32")
    BAD("gather", IN("f32 N=3 C=4", "i32 N=2"), "axis=C", NULL, 1, "axis_mismatch", "N is 3", NULL)
    GOOD("scatter_add", IN("f32 N=2 E=4", "i32 N=2"), "axis=V", "f32 V=7 E=4", "f32[V=7, E=4]")
    BAD("scatter_add", IN("f32 N=2 E=4", "i32 N=2"), "axis=V", "f32 E=4", -1, "missing_axis", "lacks", NULL)
    BAD("scatter_add", IN("f32 N=2 E=4", "i32 N=3"), "axis=V", "f32 V=7 E=4", 0, "axis_mismatch", "not of", NULL)
    GOOD("expm1", IN("f32 N=2"), NULL, NULL, "f32[N=2]")
    GOOD("log1p", IN("f64 N=0"), NULL, NULL, "f64[N=0]")
    BAD("rsqrt", IN("i32 N=2"), NULL, NULL, 0, "type_mismatch", "rsqrt", NULL)
    GOOD("elu", IN("f32 N=2"), "alpha=1", NULL, "f32[N=2]")
    GOOD("gelu_tanh", IN("f32 N=2"), NULL, NULL, "f32[N=2]")
    GOOD("silu", IN("f32 N=2"), NULL, NULL, "f32[N=2]")
    GOOD("softplus", IN("f32 N=2"), "beta=1 threshold=20", NULL, "f32[N=2]")
    GOOD("clamp", IN("i32 N=2"), "low=0 high=6", NULL, "i32[N=2]")
    GOOD("clamp", IN("f32 N=2"), "high=6", NULL, "f32[N=2]")
    GOOD("batch_mean", IN("f32 N=2 C=3 H=4"), "over=N,H correction=1", NULL, "f32[C=3]")
    BAD("batch_mean", IN("i32 N=2 C=3"), "over=N correction=0", NULL, 0, "type_mismatch", "i32[N=2, C=3]", "cast")
    BAD("batch_mean", IN("f32 N=2 C=3"), "over=H correction=0", NULL, 0, "missing_axis", "batch_mean goes over axis H", NULL)
    BAD("batch_mean", IN("f32 N=2 C=3"), "over=N correction=-1", NULL, -1, "bad_range", "correction is -1", NULL)
    GOOD("prod", IN("f32 N=2 C=3"), "over=C", NULL, "f32[N=2]")
    BAD("prod", IN("bool N=2 C=3"), "over=C", NULL, 0, "type_mismatch", "prod works on numbers", "cast it to f32")
    GOOD("cumsum", IN("i64 N=2 C=3"), "axis=C", NULL, "i64[N=2, C=3]")
    BAD("cumsum", IN("f32 N=2 C=3"), "axis=H", NULL, 0, "missing_axis", "H", NULL)
    GOOD("log_softmax", IN("f32 N=2 C=3"), "axis=C", NULL, "f32[N=2, C=3]")
    GOOD("leaky_relu", IN("f32 N=2"), "slope=0.01", NULL, "f32[N=2]")
    GOOD("cast", IN("bool N=2"), NULL, "f32 N=2", "f32[N=2]")
    GOOD("add", IN("f32 N=2 C=3", "f32 C=3 H=4"), NULL, NULL, "f32[N=2, C=3, H=4]")
    GOOD( "add", IN("f32 C=3", "f32 N=2 C=3"), NULL, NULL, "f32[N=2, C=3]")
    GOOD("add", IN("f32 =1 T=5", "f32 N=2 T=5"), NULL, NULL, "f32[N=2, T=5]")
    GOOD("add", IN("f32 C=3 N=2", "f32 N=2 C=3"), NULL, NULL, "f32[C=3, N=2]")
    GOOD("sub", IN("f32 C=3 T=5", "f32 N=2 C=3"), NULL, NULL, "f32[C=3, T=5, N=2]")
    GOOD("select", IN("bool H=4", "f32 W=5 N=2", "f32 N=2 H=4 W=5"), NULL, NULL, "f32[N=2, H=4, W=5]")
    GOOD("select", IN("bool H=4", "f32 N=2 H=4 W=5", "f32 W=5 N=2"), NULL, NULL, "f32[N=2, H=4, W=5]")
    GOOD("select", IN("bool N=2 H=4 W=5", "f32 W=5 N=2", "f32"), NULL, NULL, "f32[N=2, H=4, W=5]")
    GOOD("select", IN("bool N=2 H=4 W=5", "f32 W=5 H=4 N=2", "f32"), NULL, NULL, "f32[N=2, H=4, W=5]")
    GOOD("select", IN("bool H=4", "f32 W=5 N=2", "f32 N=2 =1 H=4 W=5"), NULL, NULL, "f32[N=2, H=4, W=5]")
    GOOD("add", IN("f32", "f32"), NULL, NULL, "f32[]")
    GOOD( "add", IN("f32 N=0", "f32"), NULL, NULL, "f32[N=0]")
    GOOD("lt", IN("i32 N=2", "i32"), NULL, NULL, "bool[N=2]")
    GOOD("eq", IN("bool N=2", "bool N=2"), NULL, NULL, "bool[N=2]")
    GOOD( "not", IN("bool N=2"), NULL, NULL, "bool[N=2]")
    GOOD("and", IN("bool N=2", "bool C=3"), NULL, NULL, "bool[N=2, C=3]")
    GOOD("select", IN("bool N=2", "f16 C=3", "f16"), NULL, NULL, "f16[N=2, C=3]")
    BAD( "add", IN("f32 N=2 H=8", "f32 H=9"), NULL, NULL, 1, "axis_mismatch", "H is 8 in the first operand (f32[N=2, H=8]) and 9 in the second operand (f32[H=9])", "rename")
    BAD("select", IN("bool N=2", "f32 H=1", "f32 N=3"), NULL, NULL, 2, "axis_mismatch", "3 in the third operand", NULL)
    BAD("add", IN("f32 A=1 B=1 C=1 D=1 E=1", "f32 F=1 G=1 H=1 I=1"), NULL, NULL, 1, "rank_mismatch", "more than 8 axes: I", NULL)
    BAD("add", IN("f32 A=16777216", "f32 B=16777216"), NULL, NULL, -1, "too_large", "more than 2^47 elements (reached at axis B=16777216)", NULL)
    BAD("add", IN("f32 N=2", "bf16 N=2"), NULL, NULL, 1, "type_mismatch", "f32[N=2] as the first operand and bf16[N=2] as the second", "cast")
    BAD("add", IN("f32 N=2", "bool N=2"), NULL, NULL, 1, "type_mismatch", "the second operand is bool[N=2]", "cast")
    BAD("exp", IN("i32 N=2"), NULL, NULL, 0, "type_mismatch", "exp needs floating-point numbers", "cast")
    BAD("div", IN("f32", "i32"), NULL, NULL, 1, "type_mismatch", "the second operand is i32[]", "cast")
    BAD("lt", IN("i32 N=2", "f32"), NULL, NULL, 1, "type_mismatch", "i32[N=2]", "cast")
    BAD("and", IN("bool", "f32"), NULL, NULL, 1, "type_mismatch", "and needs the second operand to be true or false", "compare")
    BAD("not", IN("f32"), NULL, NULL, 0, "type_mismatch", "f32[]", NULL)
    BAD("select", IN("f32", "f32", "f32"), NULL, NULL, 0, "type_mismatch", "the first operand", NULL)
    BAD("select", IN("bool", "f32", "i32"), NULL, NULL, 2, "type_mismatch", "between f32[] and i32[]", "cast")
    BAD("cast", IN("f32 N=2"), NULL, "bf16 N=3", 0, "axis_mismatch", "bf16[N=3] of f32[N=2]", NULL)
    /* reductions */
    GOOD("sum", IN("f32 N=2 C=3 H=4"), "over=H,N", NULL, "f32[C=3]")
    GOOD("sum", IN("i64 N=2"), "over=N", NULL, "i64[]")
    GOOD("mean", IN("f32 N=2 =1 C=3"), "over=C", NULL, "f32[N=2, 1]")
    GOOD("mean", IN("f32 N=2"), "over=", NULL, "f32[N=2]")
    GOOD("reduce_max", IN("bool N=2 C=3"), "over=C", NULL, "bool[N=2]")
    GOOD("first_max", IN("f32 N=2 C=3"), "over=C", NULL, "f32[N=2]")
    BAD("sum", IN("f32 N=2 C=3"), "over=H", NULL, 0, "missing_axis", "sum goes over axis H, which f32[N=2, C=3] does not have", "f32[N=2, C=3]")
    BAD("sum", IN("f32 N=2 C=3"), "over=C,C", NULL, -1, "duplicate_axis", "names the axis C twice", "once")
    BAD("sum", IN("bool N=2"), "over=N", NULL, 0, "type_mismatch", "bool[N=2]", "cast")
    BAD("mean", IN("bool N=2"), "over=N", NULL, 0, "type_mismatch", "bool[N=2]", "cast")
    BAD("mean", IN("i32 N=2"), "over=N", NULL, 0, "type_mismatch", "i32[N=2]", "cast")
    /* moves */
    GOOD("broadcast", IN("f32 C=3"), NULL, "f32 N=2 C=3 H=4", "f32[N=2, C=3, H=4]")
    GOOD( "broadcast", IN("f32 =1 C=3"), NULL, "f32 N=2 C=3", "f32[N=2, C=3]")
    BAD("broadcast", IN("f32 C=3"), NULL, "f32 N=2", 0, "missing_axis", "loses the axis C=3", NULL)
    BAD("broadcast", IN("f32 C=3"), NULL, "f32 C=4", 0, "axis_mismatch", "C is 3 in its operand", NULL)
    BAD("broadcast", IN("f32 C=3"), NULL, "f64 C=3", 0, "type_mismatch", "f64[C=3] of f32[C=3]", NULL)
    BAD("broadcast", IN("f32"), NULL, "f32 C=3 C=3", -1, "duplicate_axis", "names the axis C twice", NULL)
    BAD("broadcast", IN("f32"), NULL, "f32 =3", -1, "missing_axis", "axis 1 has no name", "name")
    BAD("broadcast", IN("f32"), NULL, "f32 N=-3", -1, "bad_range", "axis N has size -3", NULL)
    BAD("broadcast", IN("f32"), NULL, "f32 N=0 C=140737488355329", -1, "too_large", "axis C=140737488355329", NULL)
    GOOD("broadcast", IN("f32"), NULL, "f32 C=140737488355328", "f32[C=140737488355328]")
    GOOD("slice", IN("f32 N=2 C=5"), "axis=C start=1 stop=4", NULL, "f32[N=2, C=3]")
    GOOD("slice", IN("f32 N=2 C=5"), "axis=C start=5 stop=5", NULL, "f32[N=2, C=0]")
    BAD("slice", IN("f32 C=5"), "axis=C start=1 stop=6", NULL, 0, "bad_range", "C from 1 up to 6, but C has size 5", "<= 5")
    BAD("slice", IN("f32 C=5"), "axis=C start=3 stop=2", NULL, 0, "bad_range", "C from 3 up to 2", NULL)
    BAD("slice", IN("f32 C=5"), "axis=C start=-1 stop=2", NULL, 0, "bad_range", "C from -1", NULL)
    BAD("slice", IN("f32 C=5"), "axis=H start=0 stop=1", NULL, 0, "missing_axis", "along axis H", "f32[C=5]")
    BAD("slice", IN("f32 =1"), "axis= start=0 stop=1", NULL, -1, "missing_axis", "must be named", NULL)
    GOOD("pad", IN("f32 N=2 C=5"), "axis=C pad_lo=1 pad_hi=2", NULL, "f32[N=2, C=8]")
    BAD("pad", IN("f32 C=5"), "axis=C pad_lo=-1 pad_hi=2", NULL, -1, "bad_range", "neither may be negative", "slice")
    BAD("pad", IN("f32 C=5"), "axis=C pad_lo=1,1 pad_hi=2", NULL, -1, "bad_range", "pad_lo has 2 entries", NULL)
    BAD("pad", IN("f32 C=5"), "axis=C pad_lo=9223372036854775807 pad_hi=2", NULL, -1, "too_large", "axis C", NULL)
    BAD("pad", IN("f32 C=5"), "axis=H pad_lo=1 pad_hi=2", NULL, 0, "missing_axis", "axis H", NULL)
    GOOD("cat", IN("f32 N=2 C=3 H=4", "f32 N=2 C=5 H=4", "f32 N=2 C=0 H=4"), "axis=C", NULL, "f32[N=2, C=8, H=4]")
    GOOD("cat", IN("f32 N=2"), "axis=N", NULL, "f32[N=2]")
    BAD( "cat", IN("f32 C=3 H=8", "f32 C=5 H=9"), "axis=C", NULL, 1, "axis_mismatch", "cat along C: H is 8 in the first operand (f32[C=3, H=8]) and 9 in the second operand (f32[C=5, H=9])", "all axes but C")
    BAD("cat", IN("f32 C=3 H=8", "f32 C=5 H=8", "f32 C=5 H=8", "f32 C=5 H=7"), "axis=C", NULL, 3, "axis_mismatch", "7 in operand 4", NULL)
    BAD("cat", IN("f32 C=3 H=8", "f32 H=8 C=5"), "axis=C", NULL, 1, "rank_mismatch", "same order", NULL)
    BAD("cat", IN("f32 C=3", "f32 C=3 H=8"), "axis=C", NULL, 1, "rank_mismatch", "the second operand", NULL)
    BAD("cat", IN("f32 C=3", "f64 C=3"), "axis=C", NULL, 1, "type_mismatch", "f64[C=3]", "cast")
    BAD("cat", IN("f32 C=3", "f32 C=3"), "axis=H", NULL, 0, "missing_axis", "along axis H", NULL)
    BAD("cat", IN("f32 C=140737488355328", "f32 C=1"), "axis=C", NULL, -1, "too_large", "axis C=140737488355329", NULL)
    GOOD("squeeze", IN("f32 N=2 C=1 H=4"), "axis=C", NULL, "f32[N=2, H=4]")
    BAD("squeeze", IN("f32 N=2 C=3"), "axis=C", NULL, 0, "bad_range", "C has size 3", "take one element")
    BAD("squeeze", IN("f32 N=2"), "axis=C", NULL, 0, "missing_axis", "axis C", NULL)
    GOOD("unsqueeze", IN("f32 N=2 H=4"), "axis=C index=1", NULL, "f32[N=2, C=1, H=4]")
    GOOD("unsqueeze", IN("f32 N=2"), "axis=C index=1", NULL, "f32[N=2, C=1]")
    GOOD("unsqueeze", IN("f32"), "axis=C index=0", NULL, "f32[C=1]")
    BAD("unsqueeze", IN("f32 N=2"), "axis=N index=0", NULL, 0, "duplicate_axis", "an axis N, which f32[N=2] already has", NULL)
    BAD("unsqueeze", IN("f32 N=2"), "axis=C index=2", NULL, -1, "bad_range", "places 0 to 1", NULL)
    BAD("unsqueeze", IN("f32 N=2"), "axis=C index=-1", NULL, -1, "bad_range", "places 0 to 1", NULL)
    BAD("unsqueeze", IN("f32 N=2"), "axis= index=0", NULL, -1, "missing_axis", "must be named", NULL)
    BAD("unsqueeze", IN("f32 A=1 B=1 C=1 D=1 E=1 F=1 G=1 H=1"), "axis=I index=0", NULL, 0, "rank_mismatch", "8 axes", NULL)
    GOOD("rename", IN("f32 N=2 C=3"), NULL, "f32 M=2 O=3", "f32[M=2, O=3]")
    BAD("rename", IN("f32 N=2 C=3"), NULL, "f32 M=3 O=2", 0, "axis_mismatch", "f32[M=3, O=2] of f32[N=2, C=3]", NULL)
    BAD("rename", IN("f32 N=2 C=3"), NULL, "f32 M=2", 0, "axis_mismatch", "f32[M=2]", NULL)
    GOOD("relayout", IN("f32 N=2 C=3"), NULL, "f32 N=2 C=3", "f32[N=2, C=3]")
    BAD("relayout", IN("f32 N=2 C=3"), NULL, "f32 C=3 N=2", 0, "axis_mismatch", "f32[C=3, N=2] of f32[N=2, C=3]", NULL)
    /* contractions */
    GOOD("conv", IN(X2, W2), WIN, NULL, "f32[N=2, C=6, H=4, W=5]")
    GOOD( "conv", IN("bf16 N=2 C=4 D=64 H=64 W=64", "bf16 O=64 C=4 kD=4 kH=4 kW=4"), "stride=2,2,2 pad_lo=1,1,1 pad_hi=1,1,1", NULL, "bf16[N=2, C=64, D=32, H=32, W=32]")
    GOOD("conv", IN("f32 =1 C=4 T=7", "f32 A=5 B=4 K=7"), "stride=3 pad_lo=0 pad_hi=0", NULL, "f32[1, C=5, T=1]")
    GOOD("conv", IN("f32 N=0 C=4 T=7", "f32 A=5 B=4 K=2"), "stride=3 pad_lo=0 pad_hi=0", NULL, "f32[N=0, C=5, T=2]")
    GOOD("conv", IN("f32 N=1 C=4 T=7", "f32 A=5 B=4 K=2"), "stride=1 pad_lo=0 pad_hi=1", NULL, "f32[N=1, C=5, T=7]")
    BAD("conv", IN(X2, "f32 O=6 C=8 kH=3 kW=5"), WIN, NULL, 0, "channel_mismatch", "conv weight expects 8 input channels (C), but the input has C=4", "with 4 input channels")
    BAD("conv", IN("f32 N=2 C=4 H=2 W=10", W2), "stride=2,2 pad_lo=0,0 pad_hi=0,0", NULL, 0, "bad_window", "the window of 3 is longer than H=2 with its padding (0 + 2 + 0 = 2)", "H must reach 3")
    BAD("conv", IN("f32 N=2 C=4 H=8 W=0", W2), WIN, NULL, 0, "bad_window", "along W=0", NULL)
    BAD("conv", IN(X2, "f32 O=6 C=4 kH=3 kW=0"), WIN, NULL, -1, "bad_window", "a window of 0 along W=10", NULL)
    BAD("conv", IN(X2, "f32 O=6 C=4 kH=3"), WIN, NULL, 1, "rank_mismatch", "a weight [O, C, k...] of 4 axes", NULL)
    BAD("conv", IN("f32 N=2 C=4", "f32 O=6 C=4"), "stride= pad_lo= pad_hi=", NULL, 0, "rank_mismatch", "one to three spatial axes", NULL)
    BAD("conv", IN("f32 N=2 C=4 A=1 B=1 D=1 E=1", "f32 O=6 C=4 A=1 B=1 D=1 E=1"), "stride=1,1,1,1 pad_lo=0,0,0,0 pad_hi=0,0,0,0", NULL, 0, "rank_mismatch", "one to three spatial axes", NULL)
    BAD("conv", IN("f32 N=2 C=4 =1", "f32 O=6 C=4 k=1"), "stride=1 pad_lo=0 pad_hi=0", NULL, 0, "missing_axis", "a name for axis 3", NULL)
    BAD("conv", IN(X2, W2), "stride=0,2 pad_lo=1,1 pad_hi=1,1", NULL, -1, "bad_stride", "entry 1 of 'stride' is 0", NULL)
    BAD("conv", IN(X2, W2), "stride=2 pad_lo=1,1 pad_hi=1,1", NULL, -1, "bad_stride", "2 spatial axes, but 'stride' has 1", NULL)
    BAD("conv", IN(X2, W2), "stride=2,2 pad_lo=1,-1 pad_hi=1,1", NULL, -1, "bad_window", "entry 2 of 'pad_lo' is -1", NULL)
    BAD("conv", IN(X2, W2), "stride=2,2 pad_lo=1,1 pad_hi=1,9223372036854775807", NULL, -1, "bad_window", "at most 2^47", NULL)
    BAD("conv", IN("f32 N=2 C=0 H=8 W=10", "f32 O=6 C=0 kH=3 kW=5"), WIN, NULL, 1, "channel_mismatch", "C=0", NULL)
    GOOD("conv", IN(X2, "bf16 O=6 C=4 kH=3 kW=5"), WIN, NULL, "bf16[N=2, C=6, H=4, W=5]")
    BAD("conv", IN(X2, "f64 O=6 C=4 kH=3 kW=5"), WIN, NULL, 1, "type_mismatch", "f64", "cast")
    BAD("conv", IN("f16 N=2 C=4 H=8", "bf16 O=6 C=4 kH=3"), "stride=1 pad_lo=1 pad_hi=1", NULL, 1, "type_mismatch", "bf16", "cast")
    BAD("conv", IN("i32 N=2 C=4 H=8 W=10", "i32 O=6 C=4 kH=3 kW=5"), WIN, NULL, 0, "type_mismatch", "i32", "cast")
    GOOD("conv_grad_input", IN(DY2, W2), WIN " size=8,10", NULL, "f32[N=2, C=4, H=8, W=10]")
    GOOD("conv_grad_input", IN(DY2, W2), WIN " size=7,9", NULL, "f32[N=2, C=4, H=7, W=9]")
    BAD("conv_grad_input", IN(DY2, W2), WIN " size=9,10", NULL, 0, "axis_mismatch", "windows of 3 over H=9 with stride 2 make H=5, but the first operand has H=4", "one convolution")
    BAD("conv_grad_input", IN(DY2, W2), WIN " size=8", NULL, -1, "bad_window", "'size' has 1 entries", NULL)
    BAD("conv_grad_input", IN(DY2, W2), WIN " size=8,0", NULL, -1, "bad_window", "entry 2 of 'size' is 0", NULL)
    BAD("conv_grad_input", IN(X2, W2), WIN " size=8,10", NULL, 0, "channel_mismatch", "expects 6 channels (C), but its first operand has C=4", NULL)
    BAD("conv_grad_input", IN(DY2, "f32 O=6 C=4 k=3"), WIN " size=8,10", NULL, 1, "rank_mismatch", "4 axes", NULL)
    GOOD("conv_grad_weight", IN(X2, DY2), WIN " kernel=3,5", NULL, "f32[O=6, C=4, kH=3, kW=5]")
    BAD("conv_grad_weight", IN(X2, DY2), WIN " kernel=5,5", NULL, 1, "axis_mismatch", "make H=3, but the second operand has H=4", NULL)
    BAD("conv_grad_weight", IN(X2, DY2), WIN " kernel=0,5", NULL, -1, "bad_window", "entry 1 of 'kernel' is 0", NULL)
    BAD("conv_grad_weight", IN(X2, "f32 N=3 C=6 H=4 W=5"), WIN " kernel=3,5", NULL, 1, "axis_mismatch", "N is 2 in the first operand", NULL)
    BAD("conv_grad_weight", IN(X2, "f32 N=2 C=6 W=4 H=5"), WIN " kernel=3,5", NULL, 1, "axis_mismatch", "same order", NULL)
    BAD("conv_grad_weight", IN(X2, "f32 N=2 C=6 H=4"), WIN " kernel=3,5", NULL, 1, "rank_mismatch", "differ in rank", NULL)
    GOOD("conv", IN(X2, W2), WIN " dilation=2,1", NULL, "f32[N=2, C=6, H=3, W=5]")
    GOOD("conv", IN(X2, "f32 O=6 C=2 kH=3 kW=5"), WIN " groups=2", NULL, "f32[N=2, C=6, H=4, W=5]")
    GOOD("conv", IN(X2, "f32 O=8 C=1 kH=3 kW=5"), WIN " dilation=1,2 groups=4", NULL, "f32[N=2, C=8, H=4, W=3]")
    GOOD("conv_grad_input", IN(DY2, "f32 O=6 C=2 kH=3 kW=5"), WIN " size=8,10 groups=3", NULL, "f32[N=2, C=6, H=8, W=10]")
    GOOD("conv_grad_weight", IN(X2, DY2), WIN " kernel=3,5 groups=2", NULL, "f32[O=6, C=2, kH=3, kW=5]")
    GOOD("conv_grad_weight", IN("f32 N=2 O=4 H=8 W=10", "f32 N=2 O=6 H=4 W=5"), WIN " kernel=3,5", NULL, "f32[O=6, I=4, kH=3, kW=5]")
    GOOD("conv_grad_weight", IN("f32 N=2 kW=4 H=8 W=10", "f32 N=2 kW=6 H=4 W=5"), WIN " kernel=3,5", NULL, "f32[O=6, I=4, kH=3, kW=5]")
    BAD("conv", IN(X2, W2), WIN " dilation=0,1", NULL, -1, "bad_window", "entry 1 of 'dilation' is 0", NULL)
    BAD("conv", IN(X2, W2), WIN " dilation=2", NULL, -1, "bad_window", "'dilation' has 1", NULL)
    BAD("conv", IN(X2, W2), WIN " dilation=5,1", NULL, 0, "bad_window", "the window of 3 with dilation 5, which reaches over 11, is longer than H=8 with its padding (1 + 8 + 1 = 10)", "H must reach 9")
    BAD("conv", IN(X2, W2), WIN " dilation=140737488355328,1", NULL, 0, "bad_window", "more than 140737488355328", NULL)
    BAD("conv", IN(X2, W2), WIN " groups=0", NULL, -1, "bad_window", "'groups' is 0", NULL)
    BAD("conv", IN(X2, W2), WIN " groups=2", NULL, 0, "channel_mismatch", "expects 8 input channels (C), but the input has C=4", "2 input channels")
    BAD("conv", IN(X2, "f32 O=6 C=1 kH=3 kW=5"), WIN " groups=4", NULL, -1, "channel_mismatch", "O=6 does not divide into 4 groups", "multiples of the groups")
    BAD("conv_grad_input", IN(DY2, "f32 O=6 C=2 kH=3 kW=5"), WIN " size=8,10 groups=4", NULL, -1, "channel_mismatch", "C=6 does not divide into 4 groups", NULL)
    BAD("conv_grad_weight", IN(X2, DY2), WIN " kernel=3,5 groups=4", NULL, -1, "channel_mismatch", "C=6 does not divide", NULL)
    BAD("conv_grad_weight", IN(X2, DY2), WIN " kernel=3,5 dilation=2,1", NULL, 1, "axis_mismatch", "make H=3, but the second operand has H=4", NULL)
    /* composites */
    GOOD("linear", IN("f32 N=2 T=5 E=12", "f32 O=7 E=12"), NULL, NULL, "f32[N=2, T=5, E=7]")
    GOOD( "linear", IN("f32 N=2 E=12 T=5", "f32 O=7 E=12"), NULL, NULL, "f32[N=2, E=7, T=5]")
    GOOD("linear", IN("f32 N=2 C=12", "f32 O=7 I=12"), NULL, NULL, "f32[N=2, C=7]")
    BAD("linear", IN("f32 N=2 E=12", "f32 O=7 E=8"), NULL, NULL, 0, "channel_mismatch", "linear weight expects 8 input features (E), but the input has E=12", NULL)
    BAD("linear", IN("f32 N=2 E=12", "f32 E=12"), NULL, NULL, 1, "rank_mismatch", "a weight [O, E]", NULL)
    BAD("linear", IN("f32", "f32 O=7 E=12"), NULL, NULL, 0, "rank_mismatch", "feature axis", NULL)
    GOOD("gelu", IN("f32 N=2"), NULL, NULL, "f32[N=2]")
    BAD("gelu", IN("i32 N=2"), NULL, NULL, 0, "type_mismatch", "gelu", "cast")
    GOOD("softmax", IN("f32 N=2 C=3"), "axis=C", NULL, "f32[N=2, C=3]")
    BAD("softmax", IN("f32 N=2 C=3"), "axis=T", NULL, 0, "missing_axis", "along axis T", NULL)
    BAD("softmax", IN("i32 N=2 C=3"), "axis=C", NULL, 0, "type_mismatch", "softmax", NULL)
    GOOD("layer_norm", IN(QKV, "f32 E=12", "f32 E=12"), "eps=1e-6", NULL, "f32[N=2, T=5, E=12]")
    BAD("layer_norm", IN(QKV, "f32 E=12", "f32 E=11"), "eps=1e-6", NULL, 2, "channel_mismatch", "12 elements (as E)", NULL)
    BAD("layer_norm", IN(QKV, "f32 N=2 E=6", "f32 E=12"), "eps=1e-6", NULL, 1, "rank_mismatch", "12 elements (as E)", NULL)
    BAD("layer_norm", IN("f32", "f32 E=1", "f32 E=1"), "eps=1e-6", NULL, 0, "rank_mismatch", "scalar", NULL)
    BAD("layer_norm", IN(QKV, "f32 E=12", "f32 E=12"), "eps=-1", NULL, -1, "bad_range", "eps is -1", NULL)
    GOOD("batch_norm", IN(X2, "f32 C=4", "f32 C=4", "f32 C=4", "f32 C=4"), "eps=1e-5 momentum=0.9 training=1", NULL, "f32[N=2, C=4, H=8, W=10]")
    GOOD("batch_norm", IN(X2, "f32 C=4", "f32 C=4", "f32 C=4", "f32 C=4"), "eps=1e-5 momentum=0.9 training=0", NULL, "f32[N=2, C=4, H=8, W=10]")
    BAD("batch_norm", IN(X2, "f32 C=4", "f32 C=4", "f32 C=4", "f32 C=4"), "eps=1e-5 momentum=0.9 training=2", NULL, -1, "bad_attribute", "not 2", NULL)
    BAD("batch_norm", IN(X2, "f32 C=4", "f32 C=4", "f32 C=4", "f32 C=5"), "eps=1e-5 momentum=0.9 training=1", NULL, 4, "channel_mismatch", "operand 5", NULL)
    BAD("batch_norm", IN("f32 N=2", "f32 C=4", "f32 C=4", "f32 C=4", "f32 C=4"), "eps=1e-5 momentum=0.9 training=1", NULL, 0, "rank_mismatch", "channel axis", NULL)
    BAD("batch_norm", IN(X2, "f32 C=4", "f32 C=4", "f32 C=4", "f32 C=4"), "eps=1e-5 momentum=1.5 training=1", NULL, -1, "bad_range", "share of 1.5", NULL)
    BAD("batch_norm", IN(X2, "f32 C=4", "f32 C=4", "f32 C=4", "f32 C=4"), "eps=nan momentum=0.5 training=1", NULL, -1, "bad_range", "eps is", NULL)
    GOOD("dropout", IN(QKV), "rate=0.5", NULL, "f32[N=2, T=5, E=12]")
    BAD("dropout", IN(QKV), "rate=1.5", NULL, -1, "bad_range", "share of 1.5", NULL)
    GOOD("drop_path", IN(QKV), "rate=0", NULL, "f32[N=2, T=5, E=12]")
    BAD("drop_path", IN(QKV), "rate=-0.5", NULL, -1, "bad_range", "share of -0.5", NULL)
    GOOD("max_pool", IN(X2), "stride=2,2 pad_lo=1,1 pad_hi=1,1 kernel=3,3 dilation=1,1", NULL, "f32[N=2, C=4, H=4, W=5]")
    GOOD("max_pool", IN(X2), "stride=1,2 pad_lo=1,0 pad_hi=1,0 kernel=3,3 dilation=2,3", NULL, "f32[N=2, C=4, H=6, W=2]")
    GOOD("max_pool", IN(X2), "stride=1,1 pad_lo=0,0 pad_hi=1,1 kernel=2,2 dilation=1,1", NULL, "f32[N=2, C=4, H=8, W=10]")
    BAD("max_pool", IN(X2), "stride=2,2 pad_lo=1,1 pad_hi=1,2 kernel=3,3 dilation=1,1", NULL, -1, "bad_window", "pads W by 1 and 2, more than half its window of 3", "pad by 1 at most")
    BAD("max_pool", IN(X2), "stride=2,2 pad_lo=0,0 pad_hi=0,0 kernel=9,3 dilation=1,1", NULL, 0, "bad_window", "longer than H=8", NULL)
    BAD("max_pool", IN(X2), "stride=2,2 pad_lo=0,0 pad_hi=0,0 kernel=5,3 dilation=2,1", NULL, 0, "bad_window", "the window of 5 with dilation 2, which reaches over 9, is longer than H=8", NULL)
    BAD("max_pool", IN(X2), "stride=2,2 pad_lo=0,0 pad_hi=0,0 kernel=2 dilation=1,1", NULL, -1, "bad_window", "'kernel' has 1", NULL)
    BAD("max_pool", IN(X2), "stride=2,2 pad_lo=0,0 pad_hi=0,0 kernel=2,2 dilation=0,1", NULL, -1, "bad_window", "entry 1 of 'dilation' is 0", NULL)
    BAD("max_pool", IN("f32 N=2 C=3"), "stride= pad_lo= pad_hi= kernel= dilation=", NULL, 0, "rank_mismatch", "spatial", NULL)
    GOOD("avg_pool", IN(X2), "stride=2,2 pad_lo=1,1 pad_hi=1,1 kernel=3,3 counts_pad=1", NULL, "f32[N=2, C=4, H=4, W=5]")
    /* the last window reaches beyond the padding, and begins neither in it nor behind it; none fits but one */
    GOOD("max_pool", IN(X2), "stride=3,4 pad_lo=1,0 pad_hi=1,0 kernel=3,3 dilation=1,1 ceil=1", NULL, "f32[N=2, C=4, H=3, W=3]")
    GOOD("avg_pool", IN(X2), "stride=2,2 pad_lo=1,1 pad_hi=1,1 kernel=2,2 counts_pad=1 ceil=1", NULL, "f32[N=2, C=4, H=5, W=6]")
    GOOD("max_pool", IN(X2), "stride=4,4 pad_lo=0,0 pad_hi=0,0 kernel=11,13 dilation=1,1 ceil=1", NULL, "f32[N=2, C=4, H=1, W=1]")
    BAD("max_pool", IN(X2), "stride=4,4 pad_lo=0,0 pad_hi=0,0 kernel=12,13 dilation=1,1 ceil=1", NULL, 0, "bad_window", "longer than H=8", NULL)
    BAD("avg_pool", IN(X2), "stride=0,2 pad_lo=1,1 pad_hi=1,1 kernel=3,3 counts_pad=1", NULL, -1, "bad_stride", "entry 1", NULL)
    GOOD("adaptive_avg_pool", IN(X2), "size=3,20", NULL, "f32[N=2, C=4, H=3, W=20]")
    BAD("adaptive_avg_pool", IN(X2), "size=3,0", NULL, -1, "bad_window", "entry 2 of 'size' is 0", NULL)
    GOOD("upsample", IN(X2), "size=3,20 mode=linear corners=0", NULL, "f32[N=2, C=4, H=3, W=20]")
    BAD("upsample", IN(X2), "size=3,20 mode=cubic corners=0", NULL, -1, "bad_range", "not 'cubic'", NULL)
    BAD("upsample", IN("f32 N=2 C=3 H=0"), "size=3 mode=linear corners=0", NULL, 0, "bad_window", "no element along H", NULL)
    GOOD("affine", IN("f32 N=2 H=8"), "stride=2,1 start=-1 along=H,kH div=1 outside=lowest", "f32 N=2 H=4 kH=3", "f32[N=2, H=4, kH=3]")
    GOOD("affine", IN("f32 N=2 H=8 kH=3"), "stride=1,-1 start=1 along=H,kH div=2 outside=exact", "f32 N=2 H=16 kH=3", "f32[N=2, H=16, kH=3]")
    GOOD("affine", IN("bool H=8"), "stride=-1 start=7 along=H div=1 outside=wrap", "bool H=8", "bool[H=8]")
    BAD("affine", IN("f32 N=2 H=8"), "stride=1 start=0 along=W div=1 outside=zero", "f32 N=2 H=8", 0, "missing_axis", "goes along W", NULL)
    BAD("affine", IN("f32 N=2 H=8"), "stride=1,1 start=0 along=H,H div=1 outside=zero", "f32 N=2 H=8", -1, "bad_range", "of one name", NULL)
    BAD("affine", IN("f32 N=2 H=8"), "stride=1,1 start=0 along=H div=1 outside=zero", "f32 N=2 H=8", -1, "bad_range", "2 strides", NULL)
    BAD("affine", IN("f32 N=2 H=8"), "stride=0 start=0 along=H div=1 outside=zero", "f32 N=2 H=8", -1, "bad_stride", "a stride of 0", NULL)
    BAD("affine", IN("f32 N=2 H=8"), "stride=1 start=0 along=H div=0 outside=zero", "f32 N=2 H=8", -1, "bad_range", "divides by 0", NULL)
    BAD("affine", IN("f32 N=2 H=8"), "stride=1 start=0 along=H div=1 outside=zero", "f32 N=3 H=8", 0, "axis_mismatch", "makes f32[N=3, H=8]", NULL)
    BAD("affine", IN("f32 N=2 H=8"), "stride=1,1 start=0 along=H,k div=1 outside=zero", "f32 N=2 k=3 H=8", 0, "axis_mismatch", "k=3", NULL)
    BAD("affine", IN("f32 N=2 H=8"), "stride=1 start=0 along=H div=1 outside=far", "f32 N=2 H=8", -1, "bad_range", "'far'", NULL)
    BAD("affine", IN("i32 N=2 H=8"), "stride=1 start=0 along=H div=1 outside=lowest", "i32 N=2 H=8", 0, "type_mismatch", "no lowest", NULL)
    BAD("affine", IN("f32 N=2 H=0"), "stride=1 start=0 along=H div=1 outside=edge", "f32 N=2 H=8", 0, "bad_range", "no element along H", NULL)
    GOOD("group_norm", IN("f32 N=2 C=6 H=3", "f32 C=6", "f32 C=6"), "eps=1e-5 groups=3", NULL, "f32[N=2, C=6, H=3]")
    BAD("group_norm", IN("f32 N=2 C=6 H=3", "f32 C=6", "f32 C=6"), "eps=1e-5 groups=4", NULL, 0, "bad_range", "splits C=6 into 4 groups", "divides 6")
    BAD("group_norm", IN("f32 N=2 C=6 H=3", "f32 C=6", "f32 C=5"), "eps=1e-5 groups=3", NULL, 2, "channel_mismatch", "6 elements", NULL)
    BAD("group_norm", IN("f32 C=6", "f32 C=6", "f32 C=6"), "eps=1e-5 groups=3", NULL, 0, "rank_mismatch", "channel axis", NULL)
    BAD("group_norm", IN("f32 N=2 C=6", "f32 C=6", "f32 C=6"), "eps=-1 groups=3", NULL, -1, "bad_range", "eps", NULL)
    GOOD("attention", IN(QKV, QKV, QKV), "rate=0 heads=4", NULL, "f32[N=2, T=5, E=12]")
    GOOD("attention", IN(QKV, "f32 N=2 S=7 E=12", "f32 N=2 S=7 E=12"), "rate=0 heads=4 causal=1", NULL, "f32[N=2, T=5, E=12]")
    BAD("attention", IN(QKV, "f32 N=2 T=7 E=12", "f32 N=2 T=7 E=12"), "rate=0 heads=4", NULL, 1, "axis_mismatch", "in their second axis alone", NULL)
    BAD("attention", IN(QKV, "f32 N=2 S=7 E=6", "f32 N=2 S=7 E=6"), "rate=0 heads=2", NULL, 1, "axis_mismatch", "in their second axis alone", NULL)
    BAD("attention", IN(QKV, "f32 N=2 S=0 E=12", "f32 N=2 S=0 E=12"), "rate=0 heads=2", NULL, 1, "bad_range", "a key to look at", NULL)
    BAD("attention", IN(QKV, QKV, QKV), "rate=0 heads=4 causal=2", NULL, -1, "bad_attribute", "causal (1) or not (0)", NULL)
    GOOD("flash_attention", IN(QKV, QKV, QKV), FLASH("0"), NULL, "f32[N=2, T=5, E=12], f32[N=2, head=4, T=5]")
    GOOD("flash_attention", IN("f32 N=2 head=5 E=12", KEYS, KEYS, "i64", "i64"), FLASH("0.5"), NULL, "f32[N=2, head=5, E=12], f32[N=2, head_=4, head=5]")
    GOOD("flash_attention", IN(QKV, QKV, QKV, "i64", "i64", "i64"), FLASH("0.5"), NULL, "f32[N=2, T=5, E=12], f32[N=2, head=4, T=5]")
    BAD("flash_attention", IN(QKV, QKV, QKV, "i64", "i64", "i32"), FLASH("0.5"), NULL, 5, "axis_mismatch", "expects the part i64[]", NULL)
    BAD("flash_attention", IN(QKV, QKV, QKV, "i64", "i64", "i64", "i64"), FLASH("0.5"), NULL, -1, "wrong_arity", "or a part behind them, not 7", NULL)
    GOOD("flash_attention", IN(QKV, "f32 N=2 T=7 E=12", "f32 N=2 T=7 E=12"), FLASH("0"), NULL, "f32[N=2, T=5, E=12], f32[N=2, head=4, T=5]")
    GOOD("flash_attention", IN(QKV, KEYS, KEYS), FLASH("0") " first=0,3,2 whole=8,10,9", NULL, "f32[N=2, T=5, E=12], f32[N=2, head=4, T=5]")
    BAD("flash_attention", IN(QKV, KEYS, KEYS), FLASH("0") " first=0,3,2", NULL, -1, "bad_attribute", "wants `first` and `whole`", NULL)
    BAD("flash_attention", IN(QKV, KEYS, KEYS), FLASH("0") " first=0,3 whole=8,10", NULL, -1, "bad_attribute", "wants `first` and `whole`", NULL)
    BAD("flash_attention", IN(QKV, KEYS, KEYS), FLASH("0") " first=5,3,2 whole=8,10,9", NULL, -1, "bad_range", "has 4 heads from 5 on of 8", NULL)
    BAD("flash_attention", IN(QKV, KEYS, KEYS), FLASH("0") " first=0,3,3 whole=8,10,9", NULL, -1, "bad_range", "has 7 keys from 3 on of 9", NULL)
    BAD("flash_attention", IN(QKV, KEYS, KEYS), FLASH("0") " first=0,-1,2 whole=8,10,9", NULL, -1, "bad_range", "has 5 queries from -1 on of 10", NULL)
    BAD("flash_attention", IN(QKV, KEYS, KEYS), "rate=0 number=3 heads=4 causal=1 first=0,1,2 whole=8,10,9", NULL, -1, "bad_range", "has queries in front of all its keys", NULL)
    GOOD("flash_attention", IN(QKV, KEYS, KEYS), FLASH("0") " first=0,4,0 whole=4,9,13 group=cp ranks=2 rank=0", NULL, "f32[N=2, T=5, E=12], f32[N=2, head=4, T=5]")
    BAD("flash_attention", IN(QKV, KEYS, KEYS), FLASH("0") " group=cp ranks=2 rank=0", NULL, -1, "bad_attribute", "round a ring wants", NULL)
    BAD("flash_attention", IN(QKV, KEYS, KEYS), FLASH("0") " first=0,0,0 whole=4,9,13 group=cp ranks=2 rank=2", NULL, -1, "bad_range", "no rank 2 of 2", NULL)
    BAD("flash_attention", IN(QKV, KEYS, KEYS), FLASH("0") " first=0,0,0 whole=4,9,13 group=cp ranks=2 rank=1", NULL, 1, "axis_mismatch", "of 13 keys rank 1 of 2 has 6, not 7", NULL)
    BAD("flash_attention", IN(QKV, QKV), FLASH("0"), NULL, -1, "wrong_arity", "takes queries, keys and values", NULL)
    BAD("flash_attention", IN(QKV, QKV, QKV), FLASH("0.5"), NULL, -1, "wrong_arity", "with dropout takes 5 operands", NULL)
    BAD("flash_attention", IN(QKV, QKV, QKV, "i64", "i64"), FLASH("0"), NULL, -1, "wrong_arity", "without dropout takes 3 operands", NULL)
    BAD("flash_attention", IN(QKV, QKV, QKV, "i64", "f32"), FLASH("0.5"), NULL, 4, "axis_mismatch", "expects the step i64[]", NULL)
    BAD("flash_attention", IN(QKV, QKV, QKV), "rate=0 number=16777216 heads=4 causal=0", NULL, -1, "bad_range", "random op 16777216", NULL)
    GOOD("flash_attention_grad", IN(QKV, KEYS, KEYS, QKV, "f32 N=2 head=4 T=5", QKV), FLASH("0"), NULL, "f32[N=2, T=5, E=12], f32[N=2, S=7, E=12], f32[N=2, S=7, E=12]")
    GOOD("flash_attention_grad", IN(QKV, KEYS, KEYS, QKV, "f32 N=2 head=4 T=5", QKV, "i64", "i64", "i64"), FLASH("0.5"), NULL, "f32[N=2, T=5, E=12], f32[N=2, S=7, E=12], f32[N=2, S=7, E=12]")
    BAD("flash_attention_grad", IN(QKV, KEYS, KEYS, QKV, "f32 N=2 head=3 T=5", QKV), FLASH("0"), NULL, 4, "axis_mismatch", "expects logarithms f32[N=2, head=4, T=5]", NULL)
    BAD("flash_attention_grad", IN(QKV, KEYS, KEYS, KEYS, "f32 N=2 head=4 T=5", QKV), FLASH("0"), NULL, 3, "axis_mismatch", "expects the result f32[N=2, T=5, E=12]", NULL)
    BAD("flash_attention_grad", IN(QKV, KEYS, KEYS), FLASH("0"), NULL, -1, "wrong_arity", "takes q, k, v, y", NULL)
    BAD("attention", IN(QKV, QKV, QKV), "rate=0 heads=5", NULL, 0, "bad_range", "E=12 into 5 heads", "divides 12")
    BAD("attention", IN(QKV, QKV, QKV), "rate=0 heads=0", NULL, 0, "bad_range", "into 0 heads", NULL)
    BAD("attention", IN(QKV, QKV, QKV), "rate=2 heads=4", NULL, -1, "bad_range", "share of 2", NULL)
    BAD("attention", IN( QKV, QKV, "f32 N=2 T=6 E=12"), "rate=0 heads=4", NULL, 2, "axis_mismatch", "f32[N=2, T=6, E=12]", NULL)
    BAD("attention", IN("f32 N=2 E=12", "f32 N=2 E=12", "f32 N=2 E=12"), "rate=0 heads=4", NULL, 0, "rank_mismatch", "queries [N, T, E]", NULL)
    GOOD("rearrange", IN("f32 N=2 C=6"), "pattern=x", "f32 M=12", "f32[M=12]")
    GOOD("cross_entropy", IN("f32 N=2 C=10", "i32 N=2"), "axis=C", NULL, "f32[N=2]")
    GOOD("cross_entropy", IN("f32 N=2 C=10 H=3", "i64 H=3 N=2"), "axis=C", NULL, "f32[N=2, H=3]")
    GOOD("cross_entropy", IN("f32 N=2 C=10", "f32 C=10"), "axis=C", NULL, "f32[N=2]")
    GOOD("cross_entropy", IN("f64 C=10", "f64"), "axis=C", NULL, "f64[]")
    BAD("cross_entropy", IN("f32 N=2 C=10", "f64 N=2"), "axis=C", NULL, 1, "type_mismatch", "class numbers", NULL)
    BAD("cross_entropy", IN("f32 N=2 C=10", "i32 N=3"), "axis=C", NULL, 1, "axis_mismatch", "one class for each row", NULL)
    BAD("cross_entropy", IN("f32 N=2", "i32 N=2"), "axis=C", NULL, 0, "missing_axis", "along axis C", NULL)
    BAD("cross_entropy", IN("f32 N=2 C=10", "i32 N=2 C=10"), "axis=C", NULL, 1, "axis_mismatch", "one class for each row", NULL)
    BAD("cross_entropy", IN("f32 N=2 C=10", "f32 N=2 K=10"), "axis=C", NULL, 1, "axis_mismatch", "shares of the classes", NULL)
    GOOD("argmax", IN("f32 N=2 C=10"), "axis=C", NULL, "i32[N=2]")
    BAD("argmax", IN("f32 N=2 C=10"), "axis=H", NULL, 0, "missing_axis", "along axis H", NULL)
    BAD("argmax", IN("f32 N=2 C=0"), "axis=C", NULL, 0, "bad_range", "at least one element", NULL)
    GOOD("in_top_k", IN("f32 N=2 C=10", "i64 N=2"), "k=5", NULL, "bool[N=2]")
    BAD("in_top_k", IN("f32 N=2 C=10", "i32 N=2"), "k=11", NULL, 0, "bad_range", "the 11 best of C=10", "1 to 10")
    BAD("in_top_k", IN("f32 N=2 C=10", "i32 N=2"), "k=0", NULL, 0, "bad_range", "the 0 best", NULL)
    GOOD( "fused", IN("f32 N=2"), NULL, "f32 C=3", "f32[C=3]")
    GOOD("reshape", IN("f32 N=2 C=6"), NULL, "f32 T=4 H=3", "f32[T=4, H=3]")
    BAD("reshape", IN("f32 N=2 C=6"), NULL, "f32 T=5", 0, "axis_mismatch", "another number of elements", "")
    BAD("reshape", IN("f32 N=2"), NULL, "i32 N=2", 0, "type_mismatch", "keeps the element type", "")
    GOOD("contract", IN("f32 N=2 T=3 K=4", "f32 O=5 K=4"), "over=K", NULL, "f32[N=2, T=3, O=5]")
    GOOD("contract", IN("f32 N=2 K=4", "f32 K=4 N=2 O=5"), "over=K", NULL, "f32[N=2, O=5]")
    GOOD("contract", IN("f32 N=2 K=4", "f32 K=4 N=2"), "over=K,N", NULL, "f32[]")
    BAD("contract", IN("f32 N=2 K=4", "f32 O=5 E=4"), "over=K", NULL, 1, "missing_axis", "sums over axis 'K', which the second operand (f32[O=5, E=4]) does not have", "")
    BAD("contract", IN("f32 N=2 K=4", "f32 O=5 K=3"), "over=K", NULL, 1, "axis_mismatch", "K is 4 in the first operand", "")
    BAD("contract", IN("f32 K=4", "f32 K=4"), "over=K,K", NULL, -1, "duplicate_axis", "twice", "")
    BAD("contract", IN("i32 K=4", "i32 K=4"), "over=K", NULL, 0, "type_mismatch", "", "")
};
/* clang-format on */
enum { NCASES = sizeof cases / sizeof cases[0] };

static bool has_good_case(dl_op op) {
    for (int i = 0; i < NCASES; i++)
        if (cases[i].want && strcmp(cases[i].op, dl_ops[op].name) == 0) return true;
    return false;
}

/* Ops of one rule and one form need no case each: they must do as their sibling does. */
static void test_siblings(void) {
    for (int op = 0; op < DL_NOPS; op++) {
        if (has_good_case((dl_op)op)) continue;
        shape_case c = {.op = dl_ops[op].name, .in = {"f32 N=2", NULL}, .want = "f32[N=2]"};
        CHECK(dl_ops[op].class == DL_CLASS_ELEM || dl_ops[op].class == DL_CLASS_REDUCE, "%s has no good case",
              c.op);
        if (dl_ops[op].class == DL_CLASS_REDUCE) c.attrs = "over=N", c.want = "f32[]";
        if (op >= DL_OP_eq && op <= DL_OP_or) c.want = "bool[N=2]";
        if (op == DL_OP_or) c.in[0] = "bool N=2";
        if (dl_ops[op].arity == 2) c.in[1] = c.in[0];
        check_good(&c);
        if (op == DL_OP_stop_gradient) continue; /* takes all */
        c.in[0] = op == DL_OP_or ? "f32 N=2" : dl_ops[op].arity == 2 ? "f64 N=2" : "bool N=2";
        if (op == DL_OP_reduce_min) c.in[0] = "f32 C=2";
        dl_shape_fault fault = {0};
        CHECK(!run(&c, &fault), "%s takes %s", c.op, c.in[0]);
    }
}

/* For every op: one operand too many, one attribute missing, one too many. */
static void test_form(void) {
    for (int op = 0; op < DL_NOPS; op++) {
        const dl_op_info *info = &dl_ops[op];
        dl_type type = dl_scalar(DL_F32), inferred[DL_MAX_RESULTS];
        dl_value *in[MAX_OPERANDS],
            *x = &dl_graph_var(graph, DL_VAR_INPUT, info->name, type, (dl_init){0}, (dl_loc){0})->value;
        for (int i = 0; i < MAX_OPERANDS; i++) in[i] = x;
        dl_attr attrs[DL_MAX_ATTRS] = {0}, more = {.id = DL_ATTR_pattern};
        for (int i = 0; i < info->nattrs; i++) {
            attrs[i].id = info->attrs[i];
            CHECK(i == 0 || attrs[i - 1].id < attrs[i].id, "%s: attributes stand out of order", info->name);
            if (dl_attrs[attrs[i].id].kind == DL_KIND_NAME) attrs[i].s = dl_intern("N");
        }
        dl_builder b = {.graph = graph};
        dl_shape_fault fault = {0};
        int before = graph->nodes.n;
        if (info->class != DL_CLASS_FUSED) {
            int wrong = info->arity < 0 ? 0 : info->arity + 1;
            CHECK(!dl_build_try(&b, (dl_op)op, wrong, in, info->nattrs, attrs, &type, &fault), "%s",
                  info->name);
            CHECK_STR(fault.code, "wrong_arity");
        }
        int right = info->arity < 0 ? 1 : info->arity;
        int needed = info->nattrs - info->noptional;
        if (needed) {
            CHECK(!dl_build_try(&b, (dl_op)op, right, in, needed - 1, attrs, &type, &fault), "%s",
                  info->name);
            CHECK_STR(fault.code, "bad_attribute");
        }
        if (op == DL_OP_rearrange) more.id = DL_ATTR_k;
        dl_node *n = dl_node_new(graph, (dl_op)op, right, in, 1, &type, (dl_loc){0});
        for (int i = 0; i < info->nattrs; i++) dl_node_set(graph, n, attrs[i]);
        dl_node_set(graph, n, more);
        CHECK(!dl_infer(n, inferred, &fault), "%s", info->name);
        CHECK_STR(fault.code, "bad_attribute");
        CHECK(graph->nodes.n == before, "a refused node is in the graph");
    }
}

static void test_layouts(void) {
    dl_shape_fault fault = {0};
    dl_type x = type_of("f32 N=2 C=3 H=4"), r;
    x.layout.kind = DL_CL;
    CHECK(dl_infer_type(&x, &fault));
    dl_builder b = {.graph = graph};
    dl_value *v = &dl_graph_var(graph, DL_VAR_INPUT, "cl", x, (dl_init){0}, (dl_loc){0})->value;
    CHECK_STR(dl_type_text(&dl_build1(&b, DL_OP_neg, v)->type), "f32[N=2, C=3, H=4]");
    dl_type panel = type_of("f32 N=2 C=3 H=4");
    panel.layout = (dl_layout){DL_PANEL, 32};
    CHECK_STR(dl_type_text(&dl_build_as(&b, DL_OP_relayout, 1, &v, 0, NULL, panel)->type),
              "f32[N=2, C=3, H=4] @panel32");
    panel.layout.width = 0;
    CHECK(!dl_build_try(&b, DL_OP_relayout, 1, &v, 0, NULL, &panel, &fault) &&
          strcmp(fault.code, "bad_range") == 0);
    r = type_of("f32 N=2");
    r.layout.kind = DL_CL;
    CHECK(!dl_infer_type(&r, &fault));
    r = (dl_type){.dtype = DL_F32, .rank = 9};
    CHECK(!dl_infer_type(&r, &fault) && strcmp(fault.code, "rank_mismatch") == 0);
    r = (dl_type){.dtype = DL_NDTYPES};
    CHECK(!dl_infer_type(&r, &fault) && strcmp(fault.code, "type_mismatch") == 0);
}

int main(void) {
    module = dl_module_new(NULL);
    graph = dl_graph_new(module, "test");
    for (int i = 0; i < NCASES; i++) (cases[i].want ? check_good : check_fault)(&cases[i]);
    test_siblings();
    test_form();
    test_layouts();
    dl_arena_free(module->arena);
    return dl_test_end();
}

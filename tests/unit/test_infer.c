/* Shape rules: every op's result type, and every fault with its code, the operand it points at and
 * its words.
 *
 * Types are written "f32 N=2 C=4" ("=1": an axis without a name), attributes "stride=2,2 axis=C".
 */
#include <stdlib.h>

#include "ir/builder.h"
#include "tests/check.h"
#include "tests/unit/sibling_ops.h"

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
            &dl_graph_var(graph, DL_VAR_INPUT, name, type_of(c->in[nin]), (dl_init){0}, (dl_loc){0})
                 ->value;
    }
    if (c->given) given = type_of(c->given);
    const dl_value *v =
        dl_build_try(&b, (dl_op)dl_op_find(c->op), nin, in, attrs_of(c->attrs, attrs), attrs,
                     c->given ? &given : NULL, fault);
    const char *types = v ? dl_type_text(&v->type) : NULL;
    for (int i = 1; v && i < v->def->nout; i++)
        types = dl_internf("%s, %s", types, dl_type_text(&v->def->out[i].type));
    return types;
}

static void check_good(const shape_case *c) {
    dl_shape_fault fault = {0};
    const char *got = run(c, &fault);
    CHECK(got && strcmp(got, c->want) == 0, "%s: got '%s' (%s), want '%s'", c->op,
          got ? got : "a fault", fault.message, c->want);
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
    CHECK(fault.operand == c->operand, "%s: points at %d, want %d (%s)", c->op, fault.operand,
          c->operand, fault.message);
    CHECK(!c->help || strstr(fault.help, c->help), "%s: help '%s' should contain '%s'", c->op,
          fault.help, c->help ? c->help : "");
}

#define GOOD(op, in, attrs, given, want) {op, in, attrs, given, want, NULL, NULL, NULL, 0},
#define BAD(op, in, attrs, given, operand, code, message, help)                                    \
    {op, in, attrs, given, NULL, code, message, help, operand},
#define IN(...)                                                                                    \
    { __VA_ARGS__ }
#define X2          "f32 N=2 C=4 H=8 W=10"
#define W2          "f32 O=6 C=4 kH=3 kW=5"
#define DY2         "f32 N=2 C=6 H=4 W=5"
#define WIN         "stride=2,2 pad_lo=1,2 pad_hi=1,2"
#define QKV         "f32 N=2 T=5 E=12"
#define KEYS        "f32 N=2 S=7 E=12"
#define FLASH(rate) "rate=" rate " number=3 heads=4 causal=0"

static const shape_case cases[] = {
#include "tests/unit/infer_cases.def"
};
enum { NCASES = sizeof cases / sizeof cases[0] };

static bool has_good_case(dl_op op) {
    for (int i = 0; i < NCASES; i++)
        if (cases[i].want && strcmp(cases[i].op, dl_ops[op].name) == 0) return true;
    return false;
}

/* Is there another op of the same rule, operands and attributes? Runs its good cases with this one
 * in its place. */
static bool does_as_sibling(dl_op op) {
    bool any = false;
    for (int i = 0; i < NCASES; i++) {
        int other = dl_op_find(cases[i].op);
        if (!cases[i].want || other < 0 || !are_siblings((dl_op)other, op)) continue;
        shape_case c = cases[i];
        c.op = dl_ops[op].name, any = true;
        check_good(&c);
    }
    return any && dl_ops[op].class == DL_CLASS_TEMPLATE;
}

/* Ops of one rule and one form need no case each: they must do as their sibling does. */
static void test_siblings(void) {
    for (int op = 0; op < DL_NOPS; op++) {
        if (has_good_case((dl_op)op) || does_as_sibling((dl_op)op)) continue;
        if (dl_op_has_body((dl_op)op)) continue; /* test_body.c */
        shape_case c = {.op = dl_ops[op].name, .in = {"f32 N=2", NULL}, .want = "f32[N=2]"};
        CHECK(dl_ops[op].class == DL_CLASS_ELEM || dl_ops[op].class == DL_CLASS_REDUCE,
              "%s has no good case", c.op);
        if (dl_ops[op].class == DL_CLASS_REDUCE) c.attrs = "over=N", c.want = "f32[]";
        if (op >= DL_OP_eq && op <= DL_OP_or) c.want = "bool[N=2]";
        if (op == DL_OP_or) c.in[0] = "bool N=2";
        if (dl_ops[op].arity == 2) c.in[1] = c.in[0];
        check_good(&c);
        if (op == DL_OP_stop_gradient || op == DL_OP_updated) continue; /* take all */
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
            *x = &dl_graph_var(graph, DL_VAR_INPUT, info->name, type, (dl_init){0}, (dl_loc){0})
                      ->value;
        for (int i = 0; i < MAX_OPERANDS; i++) in[i] = x;
        dl_attr attrs[DL_MAX_ATTRS] = {0}, more = {.id = DL_ATTR_pattern};
        for (int i = 0; i < info->nattrs; i++) {
            attrs[i].id = info->attrs[i];
            CHECK(i == 0 || attrs[i - 1].id < attrs[i].id, "%s: attributes stand out of order",
                  info->name);
            if (dl_attrs[attrs[i].id].kind == DL_KIND_NAME) attrs[i].s = dl_intern("N");
        }
        dl_builder b = {.graph = graph};
        dl_shape_fault fault = {0};
        int before = graph->nodes.n;
        if (info->class != DL_CLASS_FUSED && info->class != DL_CLASS_BODY) {
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
    panel.layout = (dl_layout){.kind = DL_PANEL, .width = 32};
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

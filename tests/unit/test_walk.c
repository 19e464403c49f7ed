/* Uses, replacement, dead code, order. */
#include "ir/builder.h"
#include "ir/walk.h"
#include "tests/check.h"

typedef struct {
    dl_module *m;
    dl_graph *g;
    dl_builder b;
    dl_value *x, *w;
} fixture;

static fixture set_up(void) {
    fixture f = {.m = dl_module_new(NULL)};
    f.g = dl_graph_new(f.m, "train");
    f.b = (dl_builder){.graph = f.g};
    dl_type t = dl_scalar(DL_F32);
    dl_type_push(&t, "N", 4);
    f.x = &dl_graph_var(f.g, DL_VAR_INPUT, "x", t, (dl_init){0}, (dl_loc){0})->value;
    f.w = &dl_graph_var(f.g, DL_VAR_PARAM, "w", t, (dl_init){0}, (dl_loc){0})->value;
    return f;
}

static void test_uses(void) {
    fixture f = set_up();
    dl_value *a = dl_build2(&f.b, DL_OP_mul, f.x, f.x), *b = dl_build2(&f.b, DL_OP_add, a, f.x);
    dl_graph_result(f.g, DL_RESULT_OUTPUT, "y", b, NULL);
    dl_graph_result(f.g, DL_RESULT_OUTPUT, "z", b, NULL);
    const dl_uses *u = dl_graph_uses(f.g, f.m->arena);
    CHECK(u[f.x->id].n == 3 && u[f.x->id].readers[0] == a->def && u[f.x->id].readers[1] == a->def &&
          u[f.x->id].readers[2] == b->def);
    CHECK(u[a->id].n == 1 && u[a->id].readers[0] == b->def && u[a->id].results == 0);
    CHECK(u[b->id].n == 0 && u[b->id].results == 2 && u[f.w->id].n == 0 && u[f.w->id].results == 0);
    dl_arena_free(f.m->arena);
}

static void test_replace(void) {
    fixture f = set_up();
    dl_value *a = dl_build1(&f.b, DL_OP_neg, f.x), *b = dl_build2(&f.b, DL_OP_add, a, a);
    dl_graph_result(f.g, DL_RESULT_OUTPUT, "y", a, NULL);
    dl_replace_value(f.g, a, f.w);
    CHECK(b->def->in[0] == f.w && b->def->in[1] == f.w && f.g->results.at[0].value == f.w);
    CHECK(a->def->in[0] == f.x);
    dl_arena_free(f.m->arena);
}

static void test_sweep(void) {
    fixture f = set_up();
    dl_value *a = dl_build1(&f.b, DL_OP_neg, f.x), *dead = dl_build1(&f.b, DL_OP_exp, a);
    dl_build1(&f.b, DL_OP_log, dead);
    dl_value *b = dl_build1(&f.b, DL_OP_abs, a);
    dl_graph_result(f.g, DL_RESULT_OUTPUT, "y", b, NULL);
    CHECK(dl_graph_sweep(f.g));
    CHECK(f.g->nodes.n == 2 && f.g->nodes.at[0] == a->def && f.g->nodes.at[1] == b->def &&
          f.g->vars.n == 2);
    CHECK(!dl_graph_sweep(f.g) && f.g->nodes.n == 2);
    dl_arena_free(f.m->arena);
}

static void test_sort(void) {
    fixture f = set_up();
    enum { COUNT = 200 };
    dl_value *v[COUNT];
    unsigned random = 1;
    for (int i = 0; i < COUNT; i++) {
        random = random * 1664525u + 1013904223u;
        v[i] = dl_build2(&f.b, DL_OP_add, i ? v[random % (unsigned)i] : f.x,
                         i > 5 ? v[(random >> 8) % (unsigned)i] : f.w);
    }
    dl_node *sorted[COUNT];
    memcpy(sorted, f.g->nodes.at, sizeof sorted);
    CHECK(dl_graph_sort(f.g), "a graph without a cycle");
    CHECK(memcmp(sorted, f.g->nodes.at, sizeof sorted) == 0,
          "an order that is right already changed");

    for (int i = COUNT - 1; i > 0; i--) {
        random = random * 1664525u + 1013904223u;
        unsigned j = (random >> 8) % (unsigned)(i + 1);
        dl_node *t = f.g->nodes.at[i];
        f.g->nodes.at[i] = f.g->nodes.at[j], f.g->nodes.at[j] = t;
    }
    /* The definition, slowly: of the nodes whose operands are placed, the one that stood first. */
    dl_node *before[COUNT];
    memcpy(before, f.g->nodes.at, sizeof before);
    bool placed[1000] = {0};
    placed[f.x->id] = placed[f.w->id] = true;
    for (int i = 0; i < COUNT; i++)
        for (int j = 0; j < COUNT; j++) {
            dl_node *n = before[j];
            if (placed[n->out[0].id] || !placed[n->in[0]->id] || !placed[n->in[1]->id]) continue;
            placed[n->out[0].id] = true;
            sorted[i] = n;
            break;
        }
    CHECK(dl_graph_sort(f.g), "a graph without a cycle");
    CHECK(f.g->nodes.n == COUNT && memcmp(sorted, f.g->nodes.at, sizeof sorted) == 0);
    dl_arena_free(f.m->arena);

    f = set_up();
    CHECK(dl_graph_sort(f.g), "a graph without a cycle");
    CHECK(f.g->nodes.n == 0);
    dl_value *first = dl_build2(&f.b, DL_OP_add, f.x, f.w),
             *second = dl_build2(&f.b, DL_OP_add, first, f.w);
    first->def->in[0] = second;
    CHECK(!dl_graph_sort(f.g), "a cycle has no order");
    CHECK(f.g->nodes.at[0] == first->def && f.g->nodes.at[1] == second->def, "all are there");
    dl_arena_free(f.m->arena);
}

int main(void) {
    test_uses();
    test_replace();
    test_sweep();
    test_sort();
    return dl_test_end();
}

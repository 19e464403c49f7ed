/* Makes a failing graph small: one edit at a time, kept where the failure stays. */
#include <stdio.h>

#include "ir/builder.h"
#include "ir/text/text.h"
#include "ir/walk.h"
#include "tests/tools/fuzz.h"

enum { MOST_TRIES = 400 };

/* Edits of a graph, numbered: each result dropped, then each node's value replaced, the last node
 * first, by a new input, a constant, or one of its operands. */
enum { CHOICES = 2 + 6 };
static int count_edits(const dl_graph *g) { return g->results.n + g->nodes.n * CHOICES; }

static bool edit(dl_graph *g, int number) {
    if (number < g->results.n) {
        for (int i = number; i + 1 < g->results.n; i++) g->results.at[i] = g->results.at[i + 1];
        return --g->results.n > 0;
    }
    number -= g->results.n;
    const dl_node *n = g->nodes.at[g->nodes.n - 1 - number / CHOICES];
    int choice = number % CHOICES;
    dl_value *old = &n->out[0], *new = NULL;
    if (choice == 0) {
        char name[24];
        int k = 0;
        do snprintf(name, sizeof name, "cut%d", k++);
        while (dl_graph_find_var(g, dl_intern(name)));
        if (n->op != DL_OP_const)
            new = &dl_graph_var(g, DL_VAR_INPUT, dl_intern(name), old->type, (dl_init){0}, n->loc)
                       ->value;
    } else if (choice == 1) {
        if (old->type.rank || n->op == DL_OP_const || old->type.dtype == DL_BOOL) return false;
        dl_builder b = {.graph = g};
        new = dl_build_const(&b, old->type.dtype, 0.5 * dl_dtype_is_float(old->type.dtype) + 0.5);
        memmove(&g->nodes.at[1], &g->nodes.at[0], sizeof *g->nodes.at * (size_t)(g->nodes.n - 1));
        g->nodes.at[0] = new->def;
    } else if (choice - 2 < n->nin && dl_type_same(&n->in[choice - 2]->type, &old->type)) {
        new = n->in[choice - 2];
    }
    if (new) dl_replace_value(g, old, new);
    return new != NULL;
}

static void drop_unused_variables(dl_graph *g, dl_arena *arena) {
    const dl_uses *uses = dl_graph_uses(g, arena);
    int kept = 0;
    for (int i = 0; i < g->vars.n; i++)
        if (uses[g->vars.at[i]->value.id].n || uses[g->vars.at[i]->value.id].results)
            g->vars.at[kept++] = g->vars.at[i];
    g->vars.n = kept;
}

/* The text after edit `number`, or NULL where there is nothing to edit; *more says whether there
 * are further ones. */
static const char *try_edit(dl_arena *arena, const char *text, int number, bool *more) {
    dl_error err = {0};
    dl_module *m = dl_parse_module(arena, text, strlen(text), "reduced", &err);
    const char *result = NULL;
    dl_graph *g = m->graphs.at[0];
    *more = number < count_edits(g);
    if (*more && edit(g, number)) {
        dl_graph_sweep(g);
        drop_unused_variables(g, arena);
        dl_buf b = {0};
        dl_print_module(&b, m, (dl_print_options){0});
        result = dl_strdup(arena, b.at);
        dl_buf_free(&b);
    }
    return result;
}

static bool still_fails(const char *text, const fuzz_case *of, const fuzz_way *way,
                        fuzz_state state) {
    fuzz_case c;
    fuzz_verdict v = {0};
    dl_error err = {0};
    if (!fuzz_opens(text, of->seed, of->low, &v)) return v.state == state;
    if (!fuzz_open(&c, text, of->seed, of->low, &err)) return false;
    fuzz_try(&c, 1, way, &v);
    fuzz_close(&c);
    return v.state == state;
}

const char *fuzz_reduce(dl_arena *arena, const fuzz_case *c, const fuzz_way *way,
                        fuzz_state state) {
    const char *text = c->text;
    int tries = 0;
    for (bool smaller = true; smaller && tries < MOST_TRIES;) {
        smaller = false;
        bool more = true;
        for (int number = 0; more && tries < MOST_TRIES;) {
            const char *next = try_edit(arena, text, number, &more);
            bool taken =
                next && strcmp(next, text) != 0 && (tries++, still_fails(next, c, way, state));
            if (taken)
                text = next, smaller = true; /* what was number + 1 is now `number`, or near it */
            else
                number++;
        }
    }
    return text;
}

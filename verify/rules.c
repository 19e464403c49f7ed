/* Chooses the nodes of a model that are tested by themselves (rule_probe.c): each kind once, the
 * cheapest first, until the budget is used up. */
#include <stdlib.h>

#include "ir/relation.h"
#include "ir/text/text.h"
#include "verify/rules.h"

static const double BUDGET = 1e9 /* products and elements that all tests together may compute */,
                    RUNS = 12, MOST = 4e8 /* and one of them */;

dl_rules *dl_rules_new(dl_arena *arena, const dl_verify_run *run, dl_verdict *v) {
    dl_rules *r = DL_NEW(arena, dl_rules);
    *r = (dl_rules){.arena = arena, .run = run, .v = v};
    return r;
}

/* ---- the choice ---- */

bool dl_rules_may_crop(const dl_node *n) {
    return dl_op_curve(n->op) != DL_CURVE_UNKNOWN; /* a function of points, or of any axes */
}

static double run_of(const dl_node *n) {
    double cost = 0;
    for (int k = 0; k < n->nin; k++) cost += (double)dl_type_count(&n->in[k]->type);
    for (int k = 0; k < n->nout; k++) cost += (double)dl_type_count(&n->out[k].type);
    double out = (double)dl_type_count(&n->out[0].type);
    cost *= 4; /* an element is read, moved and compared; a product is one operation */
    if (dl_ops[n->op].class == DL_CLASS_CONTRACT) {
        dl_relation relation = dl_relation_of(n);
        cost += (double)dl_relation_products(&relation);
    }
    if (n->op == DL_OP_linear) cost += out * (double)n->in[1]->type.axis[1].size;
    if (n->op == DL_OP_attention) cost += 4 * out * (double)n->in[1]->type.axis[1].size;
    if (n->op == DL_OP_recurrence) /* gates of all units, from features and units */
        cost += out / (double)n->in[2]->type.axis[1].size *
                (double)(dl_type_count(&n->in[1]->type) + dl_type_count(&n->in[2]->type));
    const dl_attr *kernel = dl_node_attr(n, DL_ATTR_kernel);
    if (kernel && dl_ops[n->op].class == DL_CLASS_HIGH) {
        for (int i = 0; i < kernel->n; i++) out *= (double)kernel->ints[i];
        cost += out;
    }
    return cost;
}

static double cost_of(const dl_node *n) {
    return (dl_rules_may_crop(n) ? DL_RULES_CROP : run_of(n)) * RUNS;
}

double dl_verify_run_cost(const dl_graph *g) {
    double cost = 0;
    for (int i = 0; i < g->nodes.n; i++) cost += run_of(g->nodes.at[i]);
    return cost;
}

/* The node's text without value ids, and its operands' types: equal nodes are tested once. */
static char *signature(dl_arena *arena, const dl_node *n, const bool *active) {
    dl_buf b = {0}, line = {0};
    dl_print_node(&line, n);
    for (const char *at = line.at; *at; at++) {
        dl_putf(&b, "%c", *at);
        while (*at == '%' && at[1] >= '0' && at[1] <= '9')
            memmove((char *)at + 1, at + 2, strlen(at + 2) + 1);
    }
    for (int k = 0; k < n->nin; k++) {
        int first = 0;
        while (n->in[first] != n->in[k]) first++;
        const dl_node *def = n->in[k]->def;
        dl_putf(&b, " %s %d%s", dl_type_text(&n->in[k]->type), first,
                active[n->in[k]->id] ? "+" : "");
        if (def && def->op == DL_OP_const) dl_putf(&b, "=%a", dl_node_float(def, DL_ATTR_value));
    }
    char *text = dl_strdup(arena, b.at);
    dl_buf_free(&b), dl_buf_free(&line);
    return text;
}

static bool is_seen(dl_rules *r, const char *text) {
    for (int i = 0; i < r->seen.n; i++)
        if (strcmp(r->seen.at[i], text) == 0) return true;
    return false;
}

static bool judges(const dl_node *n) {
    dl_op_class class = dl_ops[n->op].class;
    return class == DL_CLASS_HIGH || class == DL_CLASS_ELEM || class == DL_CLASS_REDUCE ||
           class == DL_CLASS_CONTRACT || class == DL_CLASS_MOVE;
}

/* Marks values that depend on a parameter, and values that the loss depends on. */
static void find_paths(dl_rules *r, const dl_graph *g) {
    r->active = DL_NEWS(r->arena, bool, g->next_id + 1),
    r->needed = DL_NEWS(r->arena, bool, g->next_id + 1);
    for (int i = 0; i < g->vars.n; i++)
        r->active[g->vars.at[i]->value.id] = g->vars.at[i]->role == DL_VAR_PARAM &&
                                             dl_dtype_is_float(g->vars.at[i]->value.type.dtype);
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        bool any = false;
        for (int k = 0; k < n->nin; k++) any = any || r->active[n->in[k]->id];
        for (int k = 0; k < n->nout; k++)
            r->active[n->out[k].id] =
                any && n->op != DL_OP_stop_gradient && dl_dtype_is_float(n->out[k].type.dtype);
    }
    for (int i = 0; i < g->results.n; i++)
        if (g->results.at[i].role == DL_RESULT_LOSS || g->results.at[i].role == DL_RESULT_OBJECTIVE)
            r->needed[g->results.at[i].value->id] = true;
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        const dl_node *n = g->nodes.at[i];
        for (int k = 0; k < n->nin && n->op != DL_OP_stop_gradient; k++)
            r->needed[n->in[k]->id] |= r->needed[n->out[0].id];
    }
}

typedef struct {
    const dl_node *n;
    double cost;
    int place;
} candidate;

static int by_cost(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    if (x->cost != y->cost) return (x->cost > y->cost) - (x->cost < y->cost);
    return (x->place > y->place) - (x->place < y->place);
}

void dl_rules_take(dl_rules *r, const dl_graph *g) {
    candidate *all = DL_NEWS(r->arena, candidate, g->nodes.n + 1);
    int n = 0, large = 0;
    double largest = 0;
    const dl_node *left = NULL;
    r->g = g, r->chosen = DL_NEWS(r->arena, bool, g->next_id + 1);
    find_paths(r, g);
    for (int i = 0; i < g->nodes.n; i++)
        if (judges(g->nodes.at[i]))
            all[n++] = (candidate){g->nodes.at[i], cost_of(g->nodes.at[i]), i};
    qsort(all, (size_t)n, sizeof *all, by_cost);
    for (int i = 0; i < n; i++) {
        const dl_node *node = all[i].n;
        char *text = signature(r->arena, node, r->active);
        if (is_seen(r, text)) continue;
        dl_push(r->arena, &r->seen, text);
        bool fits = r->spent + all[i].cost <= BUDGET && all[i].cost <= MOST;
        if (!fits && r->taken[node->op]) {
            large++;
            if (all[i].cost > largest) largest = all[i].cost, left = node;
            continue;
        }
        r->taken[node->op] = true, r->spent += all[i].cost, r->chosen[node->out[0].id] = true;
    }
    if (left) {
        char *why = dl_format(
            r->arena,
            "%d large nodes of graph '%s' one by one, '%s' of %s among them: smaller ones of "
            "these ops are, and all are within the whole model; verify a smaller --data_size",
            large, g->name, dl_ops[left->op].name, dl_type_text(&left->out[0].type));
        dl_push(r->arena, &r->v->skipped, why);
    }
}

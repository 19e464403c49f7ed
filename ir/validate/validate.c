/* Checks that a graph is legal. Each check relies on those before it: variables first, then nodes
 * in order (so that a value is known before it is read), then results, then memory. */
#include "ir/validate/validate_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ir/attention.h"
#include "ir/body.h"
#include "ir/infer.h"
#include "ir/interp/interp.h"
#include "ir/kernel/kernel.h"
#include "ir/text/text.h"

enum { MAX_IDS = 1 << 24 };
static const int64_t most_bytes = (int64_t)1 << 62; /* sums of sizes then fit 64 bits */

/* ---- values and variables ---- */

/* Adds up bytes, so that later sums of them cannot overflow. */
static bool count(dl_checker *c, const dl_node *n, const dl_value *v) {
    return !__builtin_add_overflow(c->bytes, dl_type_bytes(&v->type), &c->bytes) &&
                   c->bytes <= most_bytes
               ? true
               : dl_check_fail(c, n,
                               "the values made and read up to here have more than 2^62 bytes");
}

/* Takes the value's id, which must be free. */
static bool define(dl_checker *c, const dl_node *n, const dl_value *v) {
    if (v->id >= c->g->next_id)
        return dl_check_fail(c, n, "%%%u is not below the graph's next id %u", v->id,
                             c->g->next_id);
    if (c->known[v->id]) return dl_check_fail(c, n, "%%%u is defined twice", v->id);
    c->known[v->id] = v;
    return count(c, n, v);
}

static bool is_known(const dl_checker *c, const dl_value *v) {
    return v && v->id < c->g->next_id && c->known[v->id] == v;
}

static int by_name(const void *a, const void *b) {
    return strcmp((*(const dl_var *const *)a)->name, (*(const dl_var *const *)b)->name);
}

static const dl_var *find_var(const dl_checker *c, const char *name) {
    dl_var key = {.name = name}, *p = &key;
    const dl_var **found = bsearch(&p, c->vars, (size_t)c->g->vars.n, sizeof *c->vars, by_name);
    return found ? *found : NULL;
}

static const char *init_fault(const dl_var *v) {
    double a = v->init.a, b = v->init.b;
    bool drawn = v->init.kind >= DL_INIT_NORMAL && v->init.kind <= DL_INIT_UNIFORM;
    if ((unsigned)v->init.kind >= DL_NINITS) return "has an initial value of no known kind";
    if (drawn && !dl_dtype_is_float(v->value.type.dtype))
        return "is drawn at random, but does not hold floating-point numbers";
    if (v->init.kind == DL_INIT_CONST && !isfinite(a))
        return "starts as a number that is not finite";
    if (drawn && !(isfinite(a) && isfinite(b)))
        return "is drawn from a distribution whose numbers are not finite";
    if ((v->init.kind == DL_INIT_NORMAL || v->init.kind == DL_INIT_TRUNC_NORMAL) && b < 0)
        return "is drawn with a negative standard deviation";
    if (v->init.kind == DL_INIT_UNIFORM && a > b) return "is drawn from an empty interval";
    return NULL;
}

static const char *table_fault(const dl_var *v) {
    dl_dtype type = v->value.type.dtype;
    if (v->init.kind != DL_INIT_ZERO) return "is a table, but starts otherwise than as its numbers";
    if (v->numbers.n != dl_type_count(&v->value.type)) return "has not as many numbers as elements";
    for (int i = 0; i < v->numbers.n; i++) {
        double d = v->numbers.at[i];
        double held = isfinite(d) ? dl_interp_convert(type, d, true) : d;
        if (!isfinite(held)) return "has a number that is not finite in its type";
        if (!dl_dtype_is_float(type) && d != held) return "has a number that its type cannot hold";
    }
    return NULL;
}

static const char *var_fault(const dl_checker *c, const dl_var *v) {
    if ((unsigned)v->role >= DL_NVAR_ROLES) return "has no known role";
    if (v->value.var != v || v->value.def) return "has a value that is not its own";
    if (v->role == DL_VAR_HYPER && v->value.type.rank)
        return "is a hyper-parameter, but not a scalar";
    if (v->of) {
        const dl_var *of = find_var(c, v->of);
        if (v->role != DL_VAR_STATE && v->role != DL_VAR_COPY)
            return "is said to belong to a parameter, but is not state";
        if (!of || of->role != DL_VAR_PARAM)
            return "belongs to a parameter that the graph does not have";
        dl_type t = of->value.type;
        t.dtype = v->value.type.dtype;
        if (v->role == DL_VAR_COPY && !dl_type_same(&t, &v->value.type))
            return "has not its parameter's shape";
    } else if (v->role == DL_VAR_COPY) {
        return "is a copy, but of no parameter";
    }
    if (v->role == DL_VAR_TABLE) return table_fault(v);
    return v->numbers.n ? "has numbers, but is no table" : init_fault(v);
}

static bool check_vars(dl_checker *c) {
    const dl_graph *g = c->g;
    dl_shape_fault fault;
    for (int i = 0; i < g->vars.n; i++) {
        const dl_var *v = c->vars[i] = g->vars.at[i];
        if (!v->name || !*v->name) return dl_check_fail(c, NULL, "variable %d has no name", i);
    }
    if (g->vars.n) qsort(c->vars, (size_t)g->vars.n, sizeof *c->vars, by_name);
    for (int i = 1; i < g->vars.n; i++)
        if (strcmp(c->vars[i - 1]->name, c->vars[i]->name) == 0)
            return dl_check_fail(c, NULL, "two variables have the name $%s", c->vars[i]->name);
    for (int i = 0; i < g->vars.n; i++) {
        const dl_var *v = g->vars.at[i];
        if (!dl_infer_type(&v->value.type, &fault))
            return dl_check_fail(c, NULL, "variable $%s: %s", v->name, fault.message);
        const char *wrong = var_fault(c, v);
        if (wrong) return dl_check_fail(c, NULL, "variable $%s %s", v->name, wrong);
        if (!define(c, NULL, &v->value)) return false;
    }
    return true;
}

/* ---- nodes ---- */

static int by_address(const void *a, const void *b) {
    uintptr_t p = (uintptr_t) * (const dl_kernel *const *)a,
              q = (uintptr_t) * (const dl_kernel *const *)b;
    return (p > q) - (p < q);
}

static bool check_kernel_list(dl_checker *c) {
    const dl_graph *g = c->g;
    if (!g->kernels.n) return true;
    memcpy(c->kernels, g->kernels.at, sizeof *c->kernels * (size_t)g->kernels.n);
    qsort(c->kernels, (size_t)g->kernels.n, sizeof *c->kernels, by_address);
    for (int i = 1; i < g->kernels.n; i++)
        if (c->kernels[i - 1] == c->kernels[i])
            return dl_check_fail(c, NULL, "kernel @%s stands twice in the graph's list",
                                 c->kernels[i]->name);
    return true;
}

static bool check_param(dl_checker *c, const dl_node *n, int i) {
    const dl_kparam *p = &n->kernel->params.at[i];
    bool out = i >= n->nin;
    const dl_type *t = out ? &n->out[i - n->nin].type : &n->in[i]->type;
    if (p->is_out != out)
        return dl_check_fail(c, n, "parameter %%%s of @%s should be one of its %s", p->name,
                             n->kernel->name, out ? "outputs" : "inputs");
    if (!dl_type_same(&p->type, t) || !dl_layout_same(p->type.layout, t->layout))
        return dl_check_fail(c, n, "parameter %%%s of @%s is %s, but is given %s", p->name,
                             n->kernel->name, dl_type_text(&p->type), dl_type_text(t));
    if (p->alias < -1 || p->alias >= (out ? n->nin : 0))
        return dl_check_fail(c, n, "parameter %%%s of @%s cannot share the memory of parameter %d",
                             p->name, n->kernel->name, p->alias);
    return true;
}

static bool check_kernel(dl_checker *c, const dl_node *n) {
    const dl_kernel *k = n->kernel;
    if (!k) return dl_check_fail(c, n, "a fused node without a kernel");
    if (!c->g->kernels.n ||
        !bsearch(&k, c->kernels, (size_t)c->g->kernels.n, sizeof *c->kernels, by_address))
        return dl_check_fail(c, n, "@%s is not in the graph's list of kernels", k->name);
    if (k->nin != n->nin || k->params.n != n->nin + n->nout)
        return dl_check_fail(
            c, n, "@%s has %d inputs and %d outputs, but the node %d operands and %d results",
            k->name, k->nin, k->params.n - k->nin, n->nin, n->nout);
    const char *wrong = dl_kernel_fault(k, c->scratch);
    if (wrong) return dl_check_fail(c, n, "@%s: %s", k->name, wrong);
    for (int i = 0; i < k->params.n; i++)
        if (!check_param(c, n, i)) return false;
    return true;
}

/* A fault that prevents the node from being printed, or NULL. */
static const char *form_fault(const dl_node *n) {
    if ((unsigned)n->op >= DL_NOPS) return "has no known op";
    bool fused = dl_ops[n->op].class == DL_CLASS_FUSED;
    bool own = fused || dl_op_has_body(n->op);
    int results = dl_op_results(n->op) ? dl_op_results(n->op) : own ? n->nout : n->nin;
    if (n->nout != results || n->nout < 1) return "has the wrong number of results";
    for (int i = 0; i < n->nin; i++)
        if (!n->in[i]) return "lacks an operand";
    for (int i = 0; i < n->nattrs; i++)
        if ((unsigned)n->attrs[i].id >= DL_NATTRS) return "has an attribute of no known kind";
    for (int i = 0; i < n->nout; i++) {
        const dl_type *t = &n->out[i].type;
        if ((unsigned)t->dtype >= DL_NDTYPES || t->rank < 0 || t->rank > DL_MAX_RANK)
            return "has a result without a type";
    }
    return NULL;
}

/* Collectives of shards along an axis work in place: each shard must be contiguous in the layout
 * of the whole. */
static bool check_pieces(dl_checker *c, const dl_node *n) {
    const dl_type *whole = n->op == DL_OP_all_gather ? &n->out[0].type : &n->in[0]->type;
    int axis = dl_type_axis(whole, dl_node_name(n, DL_ATTR_axis));
    if (!dl_layout_same(n->in[0]->type.layout, n->out[0].type.layout))
        return dl_check_fail(c, n, "%s lies otherwise than %s (pass 'layout' sees to that)",
                             dl_type_text(&n->in[0]->type), dl_type_text(&n->out[0].type));
    return dl_type_shares(whole, axis, dl_node_int(n, DL_ATTR_ranks)) ||
           dl_check_fail(c, n, "shares of %s end within a panel (pass 'layout' sees to that)",
                         dl_type_text(whole));
}

/* Checks the layouts that fusion and the emitters rely on: images channels last, weights in panels
 * or channels last as the target needs them, a template's tensors row-major. */
static bool check_layouts(dl_checker *c, const dl_node *n) {
    if (dl_ops[n->op].class == DL_CLASS_TEMPLATE && dl_attention_goes_round(n))
        return dl_check_fail(c, n, "its keys go round (pass 'ring' sees to that)");
    for (int i = 0; dl_op_wants_rows(n->op) && i < n->nin + n->nout; i++) {
        const dl_type *t = i < n->nin ? &n->in[i]->type : &n->out[i - n->nin].type;
        const dl_layout want = n->body ? dl_scan_layout(n, i) : (dl_layout){.kind = DL_ROW};
        if (!dl_layout_same(t->layout, want))
            return dl_check_fail(c, n, "%s does not lie %s (pass 'layout' sees to that)",
                                 dl_type_text(t), n->body ? "as in its body" : "row by row");
    }
    if (dl_op_is_partitioned(n->op)) return check_pieces(c, n);
    if (!dl_op_slides(n->op)) return true;
    for (int place = 0; place < DL_PLACES; place++) {
        const dl_type *t = place < 2 ? &n->in[place]->type : &n->out[0].type;
        bool weight = dl_op_tensor(n->op, place) == DL_TENSOR_W;
        if (weight && t->layout.kind == DL_ROW)
            return dl_check_fail(c, n, "its weight %s lies row by row (pass 'layout' sees to that)",
                                 dl_type_text(t));
        if (!weight && place < 2 && t->layout.kind != DL_CL)
            return dl_check_fail(c, n,
                                 "its operand %s is not channels last (pass 'layout' sees to that)",
                                 dl_type_text(t));
    }
    return true;
}

/* Checks what makes a graph a body, and then the graph. */
static bool check_body(dl_checker *c, const dl_node *n) {
    const dl_graph *body = n->body;
    dl_error why = {0};
    if (!body->is_body || body->module != c->g->module)
        return dl_check_fail(c, n, "@%s is no body of this module", body->name);
    for (int i = 0; i < body->vars.n; i++) {
        const dl_var *v = body->vars.at[i];
        int next = 0;
        for (int k = 0; k < body->results.n; k++)
            next += body->results.at[k].role == DL_RESULT_UPDATE && body->results.at[k].var == v;
        bool known = v->role == DL_VAR_INPUT || v->role == DL_VAR_PARAM || v->role == DL_VAR_STATE;
        if (!known || next != (v->role == DL_VAR_STATE))
            return dl_check_fail(c, n,
                                 "$%s of @%s is %s with %d updates; a body has inputs, "
                                 "parameters, and states with one",
                                 v->name, body->name, known ? dl_var_roles[v->role] : "a variable",
                                 next);
    }
    for (int k = 0; k < body->results.n; k++)
        if (body->results.at[k].role != DL_RESULT_UPDATE &&
            body->results.at[k].role != DL_RESULT_OUTPUT)
            return dl_check_fail(c, n, "'%s' of @%s is neither an output nor an update",
                                 body->results.at[k].name, body->name);
    if (!dl_validate(body, c->stage, &why)) return dl_check_fail(c, n, "%s", why.message);
    return c->stage < DL_STAGE_LAID || check_layouts(c, n);
}

static bool check_node(dl_checker *c, int at) {
    const dl_node *n = c->g->nodes.at[at];
    const char *broken = form_fault(n);
    if (broken) return dl_check_fail(c, NULL, "node %d %s", at, broken);
    bool fused = dl_ops[n->op].class == DL_CLASS_FUSED;
    for (int i = 0; i < n->nin; i++)
        if (!is_known(c, n->in[i]))
            return dl_check_fail(c, n, "%%%u is read before it is defined", n->in[i]->id);
    for (int i = 0; i < n->nin; i++)
        if (!count(c, n, n->in[i])) return false;
    dl_type type[DL_MAX_RESULTS];
    dl_shape_fault fault;
    if (!dl_infer(n, type, &fault)) return dl_check_fail(c, n, "%s", fault.message);
    for (int i = 0; i < (dl_op_results(n->op) ? n->nout : 1); i++)
        if (!dl_type_same(&type[i], &n->out[i].type))
            return i ? dl_check_fail(c, n, "its result %d should be %s", i, dl_type_text(&type[i]))
                     : dl_check_fail(c, n, "its type should be %s", dl_type_text(&type[0]));
    for (int i = 0; i < n->nout; i++) {
        const dl_value *v = &n->out[i];
        if (!dl_infer_type(&v->type, &fault)) return dl_check_fail(c, n, "%s", fault.message);
        if (v->def != n || v->index != i || v->var)
            return dl_check_fail(c, n, "%%%u does not know the node that makes it", v->id);
        if (!define(c, n, v)) return false;
    }
    if (fused) return check_kernel(c, n);
    if (n->kernel) return dl_check_fail(c, n, "a kernel hangs on an op that is not fused");
    if (dl_op_has_body(n->op)) return check_body(c, n);
    if (n->body) return dl_check_fail(c, n, "a body hangs on an op that runs none");
    bool collective = dl_op_is_collective(n->op);
    if (c->stage >= DL_STAGE_FUSED && !collective)
        return dl_check_fail(c, n,
                             "only fused nodes, scans and collectives are left at this stage");
    return c->stage < DL_STAGE_LAID || check_layouts(c, n);
}

/* ---- results ---- */

static const char *result_fault(const dl_checker *c, const dl_result *r) {
    const dl_type *t = &r->value->type;
    bool of_var = r->role == DL_RESULT_GRAD || r->role == DL_RESULT_UPDATE;
    if (of_var != (r->var != NULL))
        return of_var ? "names no variable"
                      : "names a variable, which only gradients and updates do";
    if ((r->role == DL_RESULT_LOSS || r->role == DL_RESULT_OBJECTIVE) &&
        (t->rank || !dl_dtype_is_float(t->dtype)))
        return "is not a floating-point scalar";
    if (r->role == DL_RESULT_METRIC && (t->rank || t->dtype == DL_BOOL))
        return "is not a scalar number";
    if (r->role == DL_RESULT_MEASURE && (t->rank != 1 || t->dtype == DL_BOOL))
        return "is not one number of each sample";
    if (r->role == DL_RESULT_FIGURE && t->rank != 2) return "is not a plane of two axes";
    if (r->undo && r->role != DL_RESULT_OUTPUT) return "undoes a target, which only outputs do";
    const dl_var *undone = r->undo ? dl_graph_find_var(c->g, r->undo) : NULL;
    if (undone && undone->role != DL_VAR_TARGET) return "undoes a variable that is no target";
    if (!of_var) return NULL;
    if (!is_known(c, &r->var->value)) return "names a variable of another graph";
    if (r->role == DL_RESULT_GRAD &&
        (r->var->role != DL_VAR_PARAM || !dl_dtype_is_float(r->var->value.type.dtype)))
        return "is the gradient of what is no floating-point parameter";
    if (!dl_type_same(t, &r->var->value.type)) return "is not of its variable's type";
    if (c->stage != DL_STAGE_TENSOR && !dl_layout_same(t->layout, r->var->value.type.layout))
        return "does not have its variable's layout";
    if (r->role == DL_RESULT_UPDATE && r->var->role != DL_VAR_PARAM &&
        r->var->role != DL_VAR_STATE && r->var->role != DL_VAR_COPY)
        return "writes a variable that only the host sets";
    return NULL;
}

static bool check_results(dl_checker *c) {
    const dl_graph *g = c->g;
    const dl_value **gradient = DL_NEWS(c->scratch, const dl_value *, g->next_id + 1), **of_var;
    int losses = 0;
    for (int i = 0; i < g->results.n; i++) {
        const dl_result *r = &g->results.at[i];
        if ((unsigned)r->role >= DL_NRESULT_ROLES || !r->name)
            return dl_check_fail(c, NULL, "result %d has no role or name", i);
        const char *role = dl_result_roles[r->role];
        if (!is_known(c, r->value))
            return dl_check_fail(c, NULL, "%s '%s' is a value that the graph does not compute",
                                 role, r->name);
        const char *wrong = result_fault(c, r);
        if (wrong)
            return dl_check_fail(c, NULL, "%s '%s' (%%%u, %s) %s", role, r->name, r->value->id,
                                 dl_type_text(&r->value->type), wrong);
        if (r->role == DL_RESULT_LOSS && losses++)
            return dl_check_fail(c, NULL, "there is more than one loss");
        if (!r->var) continue;
        of_var = r->role == DL_RESULT_UPDATE ? c->update : gradient;
        if (of_var[r->var->value.id])
            return dl_check_fail(c, NULL, "variable $%s has two results of role %s", r->var->name,
                                 role);
        of_var[r->var->value.id] = r->value;
    }
    return true;
}

static bool check(dl_checker *c) {
    if (!check_vars(c) || !check_kernel_list(c)) return false;
    for (int i = 0; i < c->g->nodes.n; i++)
        if (!check_node(c, i)) return false;
    return check_results(c) && (c->stage < DL_STAGE_ORDERED || dl_check_order(c)) &&
           (c->stage != DL_STAGE_PLANNED || dl_check_memory(c));
}

bool dl_validate(const dl_graph *g, dl_stage stage, dl_error *err) {
    if (g->next_id > MAX_IDS)
        return dl_fail(err, DL_INTERNAL,
                       "graph %s: value numbers reach %u; at most %d are possible", g->name,
                       g->next_id, MAX_IDS);
    dl_arena *scratch = dl_arena_new(NULL);
    dl_checker c = {.g = g, .stage = stage, .scratch = scratch, .err = err};
    c.known = DL_NEWS(scratch, const dl_value *, g->next_id + 1);
    c.update = DL_NEWS(scratch, const dl_value *, g->next_id + 1);
    c.vars = DL_NEWS(scratch, const dl_var *, g->vars.n + 1);
    c.kernels = DL_NEWS(scratch, const dl_kernel *, g->kernels.n + 1);
    bool legal = check(&c);
    dl_arena_free(scratch);
    return legal;
}

/* ---- modules ---- */

dl_stage dl_graph_stage(const dl_graph *g) {
    bool placed = g->arena_bytes != 0, fused = g->kernels.n > 0;
    for (int i = 0; i < g->vars.n; i++) placed |= g->vars.at[i]->value.offset >= 0;
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        fused |= n->op == DL_OP_fused;
        for (int k = 0; k < n->nout; k++) placed |= n->out[k].offset >= 0;
    }
    return placed ? DL_STAGE_PLANNED : fused ? DL_STAGE_FUSED : DL_STAGE_TENSOR;
}

typedef struct {
    const dl_var *var;
    int graph;
} shared_var;

static int by_name_and_graph(const void *pa, const void *pb) {
    const shared_var *a = pa, *b = pb;
    int names = strcmp(a->var->name, b->var->name);
    return names ? names : a->graph - b->graph;
}

static bool same_numbers(const dl_var *a, const dl_var *b) {
    if (a->numbers.n != b->numbers.n) return false;
    return !a->numbers.n ||
           memcmp(a->numbers.at, b->numbers.at, sizeof(double) * (size_t)a->numbers.n) == 0;
}

/* Variables of one name in several graphs are one variable, and must agree. */
static bool check_shared(const dl_module *m, dl_error *err) {
    int n = 0;
    for (int i = 0; i < m->graphs.n; i++) n += m->graphs.at[i]->vars.n;
    dl_arena *scratch = dl_arena_new(NULL);
    shared_var *vars = DL_NEWS(scratch, shared_var, n + 1);
    n = 0;
    for (int i = 0; i < m->graphs.n; i++)
        for (int k = 0; k < m->graphs.at[i]->vars.n; k++)
            vars[n++] = (shared_var){m->graphs.at[i]->vars.at[k], i};
    qsort(vars, (size_t)n, sizeof *vars, by_name_and_graph);
    bool legal = true;
    for (int i = 1; i < n && legal; i++) {
        const dl_var *a = vars[i - 1].var, *b = vars[i].var;
        if (strcmp(a->name, b->name) != 0) continue;
        bool alike = a->role == b->role && dl_type_same(&a->value.type, &b->value.type) &&
                     dl_layout_same(a->value.type.layout, b->value.type.layout) &&
                     a->value.offset == b->value.offset;
        const char *in_a = m->graphs.at[vars[i - 1].graph]->name,
                   *in_b = m->graphs.at[vars[i].graph]->name;
        if (!alike)
            legal =
                dl_fail(err, DL_INTERNAL, "variable $%s is %s %s in graph %s and %s %s in graph %s",
                        a->name, dl_var_roles[a->role], dl_type_text(&a->value.type), in_a,
                        dl_var_roles[b->role], dl_type_text(&b->value.type), in_b);
        else if (!same_numbers(a, b))
            legal = dl_fail(err, DL_INTERNAL,
                            "table $%s has other numbers in graph %s than in graph %s", a->name,
                            in_a, in_b);
    }
    dl_arena_free(scratch);
    return legal;
}

bool dl_validate_module(const dl_module *m, dl_stage stage, dl_error *err) {
    for (int i = 0; i < m->graphs.n; i++)
        if (!dl_validate(m->graphs.at[i], stage, err)) return false;
    return check_shared(m, err);
}

dl_module *dl_read_module(dl_arena *parent, const char *text, size_t n, const char *name,
                          dl_error *err) {
    dl_module *m = dl_parse_module(parent, text, n, name, err);
    dl_error why = {0};
    for (int i = 0; m && i < m->graphs.n; i++)
        if (!dl_validate(m->graphs.at[i], dl_graph_stage(m->graphs.at[i]), &why)) break;
    if (!m || (why.code == DL_OK && check_shared(m, &why))) return m;
    dl_fail(err, DL_INPUT, "%.150s: %s", name, why.message);
    dl_arena_free(m->arena);
    return NULL;
}

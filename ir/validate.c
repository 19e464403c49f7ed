/* Every check reads what the ones before it have made sure of: variables, then nodes in order (so that a
 * value is known by the time it is read), then results, then memory. */
#include "ir/validate.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "ir/infer.h"
#include "ir/text.h"

enum { ALIGNMENT = 64, MAX_IDS = 1 << 24 };

typedef struct {
    const dl_graph *g;
    dl_stage stage;
    dl_arena *scratch;
    const dl_value **known;    /* by id: the value defined so far, or NULL */
    const dl_value **update;   /* by id of a variable's value: its next value, or NULL */
    const dl_var **vars;       /* by name */
    const dl_kernel **kernels; /* the graph's list, by address */
    dl_error *err;
} checker;

/* "graph train: %3 = add %1, %2 : f32[N=2]: what is wrong". The node may be NULL. */
static bool fail(checker *c, const dl_node *n, const char *format, ...) DL_PRINTF(3, 4);
static bool fail(checker *c, const dl_node *n, const char *format, ...) {
    char what[600];
    va_list ap;
    va_start(ap, format);
    vsnprintf(what, sizeof what, format, ap);
    va_end(ap);
    if (!n) return dl_fail(c->err, DL_INTERNAL, "graph %s: %s", c->g->name, what);
    dl_buf text = {0};
    dl_print_node(&text, n);
    while (text.n && (text.at[text.n - 1] == '\n' || text.at[text.n - 1] == ' ')) text.at[--text.n] = 0;
    dl_fail(c->err, DL_INTERNAL, "graph %s: %.320s: %s", c->g->name, text.at + strspn(text.at, " "), what);
    dl_buf_free(&text);
    return false;
}

/* ---- values and variables ---- */

/* Takes the value's id, which must be free. */
static bool define(checker *c, const dl_node *n, const dl_value *v) {
    if (v->id >= c->g->next_id)
        return fail(c, n, "%%%u is not below the graph's next id %u", v->id, c->g->next_id);
    if (c->known[v->id]) return fail(c, n, "%%%u is defined twice", v->id);
    c->known[v->id] = v;
    return true;
}

static bool is_known(const checker *c, const dl_value *v) {
    return v && v->id < c->g->next_id && c->known[v->id] == v;
}

static int by_name(const void *a, const void *b) {
    return strcmp((*(const dl_var *const *)a)->name, (*(const dl_var *const *)b)->name);
}

static const dl_var *find_var(const checker *c, const char *name) {
    dl_var key = {.name = name}, *p = &key;
    const dl_var **found = bsearch(&p, c->vars, (size_t)c->g->vars.n, sizeof *c->vars, by_name);
    return found ? *found : NULL;
}

static const char *init_fault(const dl_var *v) {
    double a = v->init.a, b = v->init.b;
    bool drawn = v->init.kind >= DL_INIT_NORMAL;
    if ((unsigned)v->init.kind >= DL_NINITS) return "has an initial value of no known kind";
    if (drawn && !dl_dtype_is_float(v->value.type.dtype))
        return "is drawn at random, but does not hold floating-point numbers";
    if (v->init.kind == DL_INIT_CONST && !isfinite(a)) return "starts as a number that is not finite";
    if (drawn && !(isfinite(a) && isfinite(b)))
        return "is drawn from a distribution whose numbers are not finite";
    if ((v->init.kind == DL_INIT_NORMAL || v->init.kind == DL_INIT_TRUNC_NORMAL) && b < 0)
        return "is drawn with a negative standard deviation";
    if (v->init.kind == DL_INIT_UNIFORM && a > b) return "is drawn from an empty interval";
    return NULL;
}

static const char *var_fault(const checker *c, const dl_var *v) {
    if ((unsigned)v->role >= DL_NVAR_ROLES) return "has no known role";
    if (v->value.var != v || v->value.def) return "has a value that is not its own";
    if (v->role == DL_VAR_HYPER && v->value.type.rank) return "is a hyper-parameter, but not a scalar";
    if (v->of) {
        const dl_var *of = find_var(c, v->of);
        if (v->role != DL_VAR_STATE) return "is said to belong to a parameter, but is not state";
        if (!of || of->role != DL_VAR_PARAM) return "belongs to a parameter that the graph does not have";
    }
    return init_fault(v);
}

static bool check_vars(checker *c) {
    const dl_graph *g = c->g;
    dl_shape_fault fault;
    for (int i = 0; i < g->vars.n; i++) {
        const dl_var *v = c->vars[i] = g->vars.at[i];
        if (!v->name || !*v->name) return fail(c, NULL, "variable %d has no name", i);
    }
    if (g->vars.n) qsort(c->vars, (size_t)g->vars.n, sizeof *c->vars, by_name);
    for (int i = 1; i < g->vars.n; i++)
        if (strcmp(c->vars[i - 1]->name, c->vars[i]->name) == 0)
            return fail(c, NULL, "two variables have the name $%s", c->vars[i]->name);
    for (int i = 0; i < g->vars.n; i++) {
        const dl_var *v = g->vars.at[i];
        if (!dl_infer_type(&v->value.type, &fault))
            return fail(c, NULL, "variable $%s: %s", v->name, fault.message);
        const char *wrong = var_fault(c, v);
        if (wrong) return fail(c, NULL, "variable $%s %s", v->name, wrong);
        if (!define(c, NULL, &v->value)) return false;
    }
    return true;
}

/* ---- nodes ---- */

static int by_address(const void *a, const void *b) {
    uintptr_t p = (uintptr_t) * (const dl_kernel *const *)a, q = (uintptr_t) * (const dl_kernel *const *)b;
    return (p > q) - (p < q);
}

static bool check_kernel_list(checker *c) {
    const dl_graph *g = c->g;
    if (!g->kernels.n) return true;
    memcpy(c->kernels, g->kernels.at, sizeof *c->kernels * (size_t)g->kernels.n);
    qsort(c->kernels, (size_t)g->kernels.n, sizeof *c->kernels, by_address);
    for (int i = 1; i < g->kernels.n; i++)
        if (c->kernels[i - 1] == c->kernels[i])
            return fail(c, NULL, "kernel @%s stands twice in the graph's list", c->kernels[i]->name);
    return true;
}

static bool check_param(checker *c, const dl_node *n, int i) {
    const dl_kparam *p = &n->kernel->params.at[i];
    bool out = i >= n->nin;
    const dl_type *t = out ? &n->out[i - n->nin].type : &n->in[i]->type;
    if (p->is_out != out)
        return fail(c, n, "parameter %%%s of @%s should be one of its %s", p->name, n->kernel->name,
                    out ? "outputs" : "inputs");
    if (!dl_type_same(&p->type, t) || !dl_layout_same(p->type.layout, t->layout))
        return fail(c, n, "parameter %%%s of @%s is %s, but is given %s", p->name, n->kernel->name,
                    dl_type_text(&p->type), dl_type_text(t));
    if (p->alias < -1 || p->alias >= (out ? n->nin : 0))
        return fail(c, n, "parameter %%%s of @%s cannot share the memory of parameter %d", p->name,
                    n->kernel->name, p->alias);
    return true;
}

static bool check_kernel(checker *c, const dl_node *n) {
    const dl_kernel *k = n->kernel;
    if (!k) return fail(c, n, "a fused node without a kernel");
    if (!c->g->kernels.n || !bsearch(&k, c->kernels, (size_t)c->g->kernels.n, sizeof *c->kernels, by_address))
        return fail(c, n, "@%s is not in the graph's list of kernels", k->name);
    if (k->nin != n->nin || k->params.n != n->nin + n->nout)
        return fail(c, n, "@%s has %d inputs and %d outputs, but the node %d operands and %d results",
                    k->name, k->nin, k->params.n - k->nin, n->nin, n->nout);
    const char *wrong = dl_kernel_fault(k, c->scratch);
    if (wrong) return fail(c, n, "@%s: %s", k->name, wrong);
    for (int i = 0; i < k->params.n; i++)
        if (!check_param(c, n, i)) return false;
    return true;
}

/* What is so broken that the node could not even be printed, or NULL. */
static const char *form_fault(const dl_node *n) {
    if ((unsigned)n->op >= DL_NOPS) return "has no known op";
    if (n->nout < 1 || (n->nout > 1 && dl_ops[n->op].class != DL_CLASS_FUSED))
        return "has the wrong number of results";
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

static bool check_node(checker *c, int at) {
    const dl_node *n = c->g->nodes.at[at];
    const char *broken = form_fault(n);
    if (broken) return fail(c, NULL, "node %d %s", at, broken);
    bool fused = dl_ops[n->op].class == DL_CLASS_FUSED;
    for (int i = 0; i < n->nin; i++)
        if (!is_known(c, n->in[i])) return fail(c, n, "%%%u is read before it is defined", n->in[i]->id);
    dl_type type;
    dl_shape_fault fault;
    if (!dl_infer(n, &type, &fault)) return fail(c, n, "%s", fault.message);
    if (!dl_type_same(&type, &n->out[0].type))
        return fail(c, n, "its type should be %s", dl_type_text(&type));
    for (int i = 0; i < n->nout; i++) {
        const dl_value *v = &n->out[i];
        if (!dl_infer_type(&v->type, &fault)) return fail(c, n, "%s", fault.message);
        if (v->def != n || v->index != i || v->var)
            return fail(c, n, "%%%u does not know the node that makes it", v->id);
        if (!define(c, n, v)) return false;
    }
    if (fused) return check_kernel(c, n);
    if (n->kernel) return fail(c, n, "a kernel hangs on an op that is not fused");
    return c->stage == DL_STAGE_TENSOR || fail(c, n, "only fused nodes are left at this stage");
}

/* ---- results ---- */

static const char *result_fault(const checker *c, const dl_result *r) {
    const dl_type *t = &r->value->type;
    bool of_var = r->role == DL_RESULT_GRAD || r->role == DL_RESULT_UPDATE;
    if (of_var != (r->var != NULL))
        return of_var ? "names no variable" : "names a variable, which only gradients and updates do";
    if (r->role == DL_RESULT_LOSS && (t->rank || !dl_dtype_is_float(t->dtype)))
        return "is not a floating-point scalar";
    if (r->role == DL_RESULT_METRIC && (t->rank || t->dtype == DL_BOOL)) return "is not a scalar number";
    if (r->role == DL_RESULT_FIGURE && t->rank != 2) return "is not a plane of two axes";
    if (!of_var) return NULL;
    if (!is_known(c, &r->var->value)) return "names a variable of another graph";
    if (!dl_type_same(t, &r->var->value.type)) return "is not of its variable's type";
    if (c->stage != DL_STAGE_TENSOR && !dl_layout_same(t->layout, r->var->value.type.layout))
        return "does not have its variable's layout";
    if (r->role == DL_RESULT_UPDATE && r->var->role != DL_VAR_PARAM && r->var->role != DL_VAR_STATE)
        return "writes a variable that only the host sets";
    return NULL;
}

static bool check_results(checker *c) {
    const dl_graph *g = c->g;
    const dl_value **gradient = DL_NEWS(c->scratch, const dl_value *, g->next_id + 1), **of_var;
    int losses = 0;
    for (int i = 0; i < g->results.n; i++) {
        const dl_result *r = &g->results.at[i];
        if ((unsigned)r->role >= DL_NRESULT_ROLES || !r->name)
            return fail(c, NULL, "result %d has no role or name", i);
        const char *role = dl_result_roles[r->role];
        if (!is_known(c, r->value))
            return fail(c, NULL, "%s '%s' is a value that the graph does not compute", role, r->name);
        const char *wrong = result_fault(c, r);
        if (wrong)
            return fail(c, NULL, "%s '%s' (%%%u, %s) %s", role, r->name, r->value->id,
                        dl_type_text(&r->value->type), wrong);
        if (r->role == DL_RESULT_LOSS && losses++) return fail(c, NULL, "there is more than one loss");
        if (!r->var) continue;
        of_var = r->role == DL_RESULT_UPDATE ? c->update : gradient;
        if (of_var[r->var->value.id])
            return fail(c, NULL, "variable $%s has two results of role %s", r->var->name, role);
        of_var[r->var->value.id] = r->value;
    }
    return true;
}

/* ---- memory ---- */

/* The values whose memory is in use, by rising offset; no two of them overlap. Values without bytes take no
 * place. */
typedef struct {
    const dl_value **at;
    int n;
} live_set;

static int64_t end_of(const dl_value *v) { return v->offset + dl_type_bytes(&v->type); }

/* First place whose value starts at or behind `offset`. */
static int place_of(const live_set *live, int64_t offset) {
    int lo = 0, hi = live->n;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (live->at[mid]->offset < offset)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void leave(live_set *live, const dl_value *v) {
    int at = place_of(live, v->offset);
    if (at == live->n || live->at[at] != v) return;
    memmove(&live->at[at], &live->at[at + 1], sizeof *live->at * (size_t)(--live->n - at));
}

static bool enter(checker *c, live_set *live, const dl_node *n, const dl_value *v) {
    if (end_of(v) == v->offset) return true;
    int at = place_of(live, v->offset);
    const dl_value *before = at > 0 && end_of(live->at[at - 1]) > v->offset ? live->at[at - 1] : NULL;
    const dl_value *behind = at < live->n && live->at[at]->offset < end_of(v) ? live->at[at] : NULL;
    const dl_value *other = before ? before : behind;
    if (other)
        return fail(c, n, "%%%u lies at bytes %lld to %lld, where %%%u (%lld to %lld) is still needed", v->id,
                    (long long)v->offset, (long long)end_of(v), other->id, (long long)other->offset,
                    (long long)end_of(other));
    memmove(&live->at[at + 1], &live->at[at], sizeof *live->at * (size_t)(live->n++ - at));
    live->at[at] = v;
    return true;
}

static bool check_offset(checker *c, const dl_node *n, const dl_value *v, int64_t *peak) {
    int64_t bytes = dl_type_bytes(&v->type);
    if (v->offset < 0) return fail(c, n, "%%%u has no place in memory", v->id);
    if (v->offset % ALIGNMENT)
        return fail(c, n, "%%%u lies at byte %lld, which is not a multiple of %d", v->id,
                    (long long)v->offset, ALIGNMENT);
    if (v->offset > c->g->arena_bytes - bytes)
        return fail(c, n, "%%%u lies at byte %lld and has %lld bytes, but the arena has %lld", v->id,
                    (long long)v->offset, (long long)bytes, (long long)c->g->arena_bytes);
    if (end_of(v) > *peak) *peak = end_of(v);
    return true;
}

/* May result j of node `at` lie where the operand lies that its kernel lets it share? Then that operand's
 * life ends here: nobody reads it later, nor the node itself by another way; and a variable is overwritten
 * only by its own update. */
static const dl_value *shared_operand(const checker *c, int at, int j, const int *last_read) {
    const dl_node *n = c->g->nodes.at[at];
    int alias = n->kernel->params.at[n->nin + j].alias;
    const dl_value *out = &n->out[j], *in = alias >= 0 ? n->in[alias] : NULL;
    if (!in || in->offset != out->offset || end_of(in) != end_of(out) || last_read[in->id] > at) return NULL;
    for (int i = 0; i < n->nin; i++)
        if (i != alias && n->in[i] == in) return NULL;
    return !in->var || c->update[in->id] == out ? in : NULL;
}

static bool check_memory(checker *c) {
    const dl_graph *g = c->g;
    int64_t peak = 0;
    int values = g->vars.n;
    /* By value id: the last node that reads it; results are read behind the last, variables that nobody reads
     * keep their place all the same. */
    int *last_read = DL_NEWS(c->scratch, int, g->next_id + 1);
    for (uint32_t id = 0; id < g->next_id; id++) last_read[id] = -1;
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        for (int j = 0; j < n->nin; j++) last_read[n->in[j]->id] = i;
        values += n->nout;
    }
    for (int i = 0; i < g->results.n; i++) last_read[g->results.at[i].value->id] = g->nodes.n;

    live_set live = {DL_NEWS(c->scratch, const dl_value *, values + 1), 0};
    for (int i = 0; i < g->vars.n; i++) {
        const dl_value *v = &g->vars.at[i]->value;
        if (!check_offset(c, NULL, v, &peak) || !enter(c, &live, NULL, v)) return false;
    }
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_node *n = g->nodes.at[i];
        for (int j = 0; j < n->nout; j++) {
            if (!check_offset(c, n, &n->out[j], &peak)) return false;
            const dl_value *shared = shared_operand(c, i, j, last_read);
            if (shared) leave(&live, shared);
            if (!enter(c, &live, n, &n->out[j])) return false;
        }
        for (int j = 0; j < n->nin; j++)
            if (!n->in[j]->var && last_read[n->in[j]->id] <= i) leave(&live, n->in[j]);
        for (int j = 0; j < n->nout; j++)
            if (last_read[n->out[j].id] < 0) leave(&live, &n->out[j]);
    }
    return peak == g->arena_bytes || fail(c, NULL, "the arena has %lld bytes, but the values end at %lld",
                                          (long long)g->arena_bytes, (long long)peak);
}

static bool check(checker *c) {
    if (!check_vars(c) || !check_kernel_list(c)) return false;
    for (int i = 0; i < c->g->nodes.n; i++)
        if (!check_node(c, i)) return false;
    return check_results(c) && (c->stage != DL_STAGE_PLANNED || check_memory(c));
}

bool dl_validate(const dl_graph *g, dl_stage stage, dl_error *err) {
    if (g->next_id > MAX_IDS)
        return dl_fail(err, DL_INTERNAL, "graph %s: value numbers reach %u; at most %d are possible", g->name,
                       g->next_id, MAX_IDS);
    dl_arena *scratch = dl_arena_new(NULL);
    checker c = {.g = g, .stage = stage, .scratch = scratch, .err = err};
    c.known = DL_NEWS(scratch, const dl_value *, g->next_id + 1);
    c.update = DL_NEWS(scratch, const dl_value *, g->next_id + 1);
    c.vars = DL_NEWS(scratch, const dl_var *, g->vars.n + 1);
    c.kernels = DL_NEWS(scratch, const dl_kernel *, g->kernels.n + 1);
    bool legal = check(&c);
    dl_arena_free(scratch);
    return legal;
}

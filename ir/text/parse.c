/* The parser of the IR's text: modules and graphs; docs/internals/ir.md is the grammar,
 * ir/text/print.c its inverse. */
#include "ir/text/parse.h"

#include "ir/body.h"
#include "ir/collective.h"
#include "ir/infer.h"
#include "ir/text/text_chars.h"

/* %12 as a number. */
static bool parse_id(dl_parser *p, uint32_t *id) {
    if (p->tok.kind != TOK_VALUE) return dl_lex_expected(p, "a value number like %12");
    const char *s = p->tok.text;
    uint32_t v = 0;
    for (; dl_is_digit(*s) && v < DL_ID_MAX; s++) v = v * 10 + (uint32_t)(*s - '0');
    bool canonical = p->tok.text[0] != '0' || !p->tok.text[1];
    if (*s || s == p->tok.text || !canonical || v >= DL_ID_MAX)
        return dl_lex_fail(p, &p->tok, "a value is a number below %d, found %%%.60s",
                           (int)DL_ID_MAX, p->tok.text);
    *id = v;
    return dl_lex(p);
}

/* The id of a new value. */
static bool parse_new_id(dl_parser *p, uint32_t *id) {
    dl_token at = p->tok;
    if (!parse_id(p, id)) return false;
    if (dl_map_get(&p->values, *id + 1)) return dl_lex_fail(p, &at, "%%%u is made twice", *id);
    return true;
}

static void define(dl_parser *p, dl_value *v, uint32_t id, int64_t offset) {
    v->id = id;
    v->offset = offset;
    if (id >= p->next_id) p->next_id = id + 1;
    dl_map_set(p, &p->values, id + 1, v);
}

static dl_var *find_var(const dl_parser *p, const char *name) {
    return dl_map_get(&p->vars, (uintptr_t)name);
}

/* $name or %id of a value defined above. */
static bool parse_operand(dl_parser *p, dl_value **v) {
    dl_token at = p->tok;
    if (p->tok.kind == TOK_VAR) {
        dl_var *var = find_var(p, p->tok.text);
        if (!var) return dl_lex_fail(p, &at, "no variable $%.200s is declared above", p->tok.text);
        *v = &var->value;
        return dl_lex(p);
    }
    uint32_t id;
    if (p->tok.kind != TOK_VALUE) return dl_lex_expected(p, "a value (%12 or $name)");
    if (!parse_id(p, &id)) return false;
    *v = dl_map_get(&p->values, id + 1);
    if (!*v) return dl_lex_fail(p, &at, "no value %%%u is made above", id);
    if ((*v)->var)
        return dl_lex_fail(p, &at, "%%%u is a variable: write $%.200s", id, (*v)->var->name);
    return true;
}

/* A type, followed by " at 4096". */
static bool parse_typed(dl_parser *p, dl_type *t, int64_t *offset) {
    bool at;
    *offset = -1;
    if (!dl_parse_type(p, t) || !dl_lex_accept_word(p, "at", &at)) return false;
    return at ? dl_lex_int(p, 0, INT64_MAX, "an offset", offset) : true;
}

/* The index of the current word among names[0..n-1], or -1. */
static int find_word(const dl_parser *p, const char *const *names, int n) {
    for (int i = 0; i < n; i++)
        if (dl_lex_is_word(p, names[i])) return i;
    return -1;
}

/* "init normal(0, 0.02)", or nothing. */
static bool parse_init(dl_parser *p, dl_init *init) {
    bool yes;
    *init = (dl_init){0};
    if (!dl_lex_accept_word(p, "init", &yes)) return false;
    if (!yes) return true;
    int kind = find_word(p, dl_init_kinds, DL_NINITS);
    if (kind < 0 && p->tok.kind == TOK_WORD)
        return dl_lex_fail(p, &p->tok, "unknown initial value '%.60s'%s", p->tok.text,
                           dl_lex_nearest(p, p->tok.text, dl_init_kinds, DL_NINITS));
    if (kind < 0) return dl_lex_expected(p, "how the variable starts (zero, normal...)");
    init->kind = (dl_init_kind)kind;
    if (!dl_lex(p)) return false;
    if (kind == DL_INIT_ZERO || kind == DL_INIT_GIVEN) return true;
    if (!dl_lex_mark(p, '(') || !dl_lex_double(p, &init->a)) return false;
    if (kind != DL_INIT_CONST && (!dl_lex_mark(p, ',') || !dl_lex_double(p, &init->b)))
        return false;
    return dl_lex_mark(p, ')');
}

/* "numbers(1, 2, 0.5)", of a table. */
static bool parse_numbers(dl_parser *p, dl_var *v) {
    bool more, said;
    if (!dl_lex_accept_word(p, "numbers", &said)) return false;
    if (!said) return dl_lex_expected(p, "the table's numbers (1, 2...)");
    if (!dl_lex_mark(p, '(') || !dl_lex_accept(p, ')', &said)) return false;
    for (more = !said; more;) {
        double d;
        if (!dl_lex_double(p, &d) || !dl_lex_accept(p, ',', &more)) return false;
        dl_push(p->m->arena, &v->numbers, d);
    }
    return said || dl_lex_mark(p, ')');
}

/* "piece(1, 64, tp, 4, 1)", of a variable of that type, and possibly a second cut; or nothing. The
 * numbers are the axis, its size in the whole, the group, its ranks, this rank, and the number of
 * parts if there are several. */
static bool parse_piece(dl_parser *p, const dl_type *t, dl_var_piece *piece) {
    bool yes, more;
    int64_t axis, ranks, rank, parts;
    dl_token at = p->tok;
    for (;;) {
        if (!dl_lex_accept_word(p, "piece", &yes)) return false;
        if (!yes) break;
        if (piece->n == DL_MAX_CUTS) return dl_lex_fail(p, &at, "a piece of a piece of a piece");
        dl_var_cut *c = &piece->cut[piece->n++];
        if (!dl_lex_mark(p, '(') || !dl_lex_int(p, 0, DL_MAX_RANK, "an axis", &axis) ||
            !dl_lex_mark(p, ',') || !dl_lex_int(p, 0, INT64_MAX, "a size", &c->size) ||
            !dl_lex_mark(p, ',') || !dl_lex_name(p, TOK_WORD, "a group of ranks", &c->group) ||
            !dl_lex_mark(p, ',') || !dl_lex_int(p, 1, INT32_MAX, "ranks", &ranks) ||
            !dl_lex_mark(p, ',') || !dl_lex_int(p, 0, ranks - 1, "a rank", &rank) ||
            !dl_lex_accept(p, ',', &more))
            return false;
        parts = 1;
        if ((more && !dl_lex_int(p, 2, INT32_MAX, "parts", &parts)) || !dl_lex_mark(p, ')'))
            return false;
        c->axis = (int)axis, c->ranks = (int)ranks, c->rank = (int)rank, c->parts = (int)parts;
    }
    return dl_piece_fits(t, piece) || dl_lex_fail(p, &at, "%s is no such piece", dl_type_text(t));
}

static bool parse_var(dl_parser *p, dl_graph *g, dl_var_role role) {
    const char *name, *of = NULL, *by = NULL;
    uint32_t id;
    dl_type type;
    int64_t offset;
    dl_var said = {0};
    dl_loc loc;
    bool has_of, has_by;
    if (!dl_lex(p)) return false;
    dl_token at = p->tok;
    if (!dl_lex_name(p, TOK_VAR, "the variable's name ($name)", &name)) return false;
    if (find_var(p, name)) return dl_lex_fail(p, &at, "$%.200s is declared twice", name);
    if (!dl_lex_accept_word(p, "of", &has_of)) return false;
    if (has_of && !dl_lex_name(p, TOK_VAR, "the parameter's name ($name)", &of)) return false;
    if (!dl_lex_accept_word(p, "by", &has_by)) return false;
    if (has_by && !dl_lex_name(p, TOK_STRING, "the objective's name in quotes", &by)) return false;
    if (!dl_lex_mark(p, '=') || !parse_new_id(p, &id) || !dl_lex_mark(p, ':')) return false;
    if (!parse_typed(p, &type, &offset)) return false;
    if (!parse_piece(p, &type, &said.piece)) return false;
    if (!(role == DL_VAR_TABLE ? parse_numbers(p, &said) : parse_init(p, &said.init))) return false;
    if (!dl_lex_end_line(p, &loc)) return false;
    dl_var *v = dl_graph_var(g, role, name, type, said.init, loc);
    v->of = of, v->by = by, v->numbers = said.numbers, v->piece = said.piece;
    define(p, &v->value, id, offset);
    dl_map_set(p, &p->vars, (uintptr_t)name, v);
    return true;
}

/* output "y" = %30 undo "t"; grad $w = %40, whose name is the variable's unless it is given. */
static bool parse_result(dl_parser *p, dl_graph *g, dl_result_role role) {
    dl_result r = {.role = role};
    bool of_var = role == DL_RESULT_GRAD || role == DL_RESULT_UPDATE;
    dl_loc loc;
    if (!dl_lex(p)) return false;
    if (of_var) {
        if (p->tok.kind != TOK_VAR) return dl_lex_expected(p, "a variable ($name)");
        r.var = find_var(p, p->tok.text);
        if (!r.var)
            return dl_lex_fail(p, &p->tok, "no variable $%.200s is declared above", p->tok.text);
        r.name = r.var->name;
        if (!dl_lex(p)) return false;
    }
    if ((!of_var || p->tok.kind == TOK_STRING) &&
        !dl_lex_name(p, TOK_STRING, "the result's name in quotes", &r.name))
        return false;
    bool undoes;
    if (!dl_lex_mark(p, '=') || !parse_operand(p, &r.value) ||
        !dl_lex_accept_word(p, "undo", &undoes) ||
        (undoes && !dl_lex_name(p, TOK_STRING, "the target's name in quotes", &r.undo)) ||
        !dl_lex_end_line(p, &loc))
        return false;
    dl_graph_result(g, role, r.name, r.value, r.var)->undo = r.undo;
    return true;
}

/* A node while it is parsed. */
typedef struct {
    dl_op op;
    dl_token at;
    DL_ARRAY(uint32_t) ids;
    DL_ARRAY(dl_value *) in;
    DL_ARRAY(dl_type) types;
    DL_ARRAY(int64_t) offsets;
    int nattrs;
    dl_attr attrs[DL_MAX_ATTRS];
    dl_known_kernel *known;
    dl_graph *body;
} draft;

static bool parse_operands(dl_parser *p, draft *d) {
    for (bool more = true; more;) {
        dl_value *v = NULL;
        if (!parse_operand(p, &v)) return false;
        dl_push(p->scratch, &d->in, v);
        if (!dl_lex_accept(p, ',', &more)) return false;
    }
    return true;
}

/* "@k0(%1, $b)" after `fused`. */
static bool parse_fused(dl_parser *p, dl_graph *g, draft *d) {
    dl_token at = p->tok;
    const char *name;
    if (!dl_lex_name(p, TOK_AT, "a kernel's name (@k0)", &name)) return false;
    d->known = dl_map_get(&p->kernels, (uintptr_t)name);
    if (!d->known) return dl_lex_fail(p, &at, "no kernel @%.200s stands above", name);
    const dl_kernel *k = d->known->kernel;
    if (!dl_lex_mark(p, '(')) return false;
    if (!dl_lex_is(p, ')') && !parse_operands(p, d)) return false;
    if (d->in.n != k->nin || d->ids.n != k->params.n - k->nin)
        return dl_lex_fail(p, &at, "kernel @%.200s has %d inputs and %d outputs, found %d and %d",
                           name, k->nin, k->params.n - k->nin, d->in.n, d->ids.n);
    if (d->known->holder != g) {
        dl_push(g->module->arena, &g->kernels, d->known->kernel);
        d->known->holder = g;
    }
    return dl_lex_mark(p, ')');
}

/* "@train_scan0(%1, $b)" after `scan`. */
static bool parse_run(dl_parser *p, draft *d) {
    dl_token at = p->tok;
    const char *name;
    if (!dl_lex_name(p, TOK_AT, "a body's name (@train_scan0)", &name)) return false;
    dl_known_body *known = dl_map_get(&p->bodies, (uintptr_t)name);
    if (!known) return dl_lex_fail(p, &at, "no body @%.200s stands above", name);
    if (known->run) return dl_lex_fail(p, &at, "body @%.200s is run by another node", name);
    if (known->depth > p->depth) p->depth = known->depth;
    d->body = known->body, known->run = true;
    if (!dl_lex_mark(p, '(')) return false;
    if (!dl_lex_is(p, ')') && !parse_operands(p, d)) return false;
    if (d->in.n != d->body->vars.n || d->ids.n != d->body->results.n)
        return dl_lex_fail(p, &at, "body @%.200s has %d variables and %d results, found %d and %d",
                           name, d->body->vars.n, d->body->results.n, d->in.n, d->ids.n);
    return dl_lex_mark(p, ')');
}

static bool parse_plain(dl_parser *p, draft *d) {
    int arity = dl_ops[d->op].arity;
    if (arity != 0 && !parse_operands(p, d)) return false;
    if (arity >= 0 && d->in.n != arity)
        return dl_lex_fail(p, &d->at, "%s takes %d operand%s, found %d", dl_ops[d->op].name, arity,
                           arity == 1 ? "" : "s", d->in.n);
    int results = dl_op_results(d->op) ? dl_op_results(d->op) : d->in.n;
    if (d->ids.n != results)
        return dl_lex_fail(p, &d->at, "%s makes %s, found %d", dl_ops[d->op].name,
                           results == 1 ? "one value" : dl_format(p->scratch, "%d values", results),
                           d->ids.n);
    return true;
}

static bool parse_types(dl_parser *p, draft *d) {
    for (bool more = true; more;) {
        dl_type type;
        int64_t offset;
        dl_token at = p->tok;
        if (!parse_typed(p, &type, &offset)) return false;
        dl_push(p->scratch, &d->types, type);
        dl_push(p->scratch, &d->offsets, offset);
        if (!dl_lex_accept(p, ',', &more)) return false;
        if (more == (d->types.n == d->ids.n))
            return dl_lex_fail(p, &at, "expected %d type%s, one a value", d->ids.n,
                               d->ids.n == 1 ? "" : "s");
    }
    return true;
}

static bool parse_node(dl_parser *p, dl_graph *g) {
    draft d = {0};
    for (bool more = true; more;) {
        uint32_t id;
        dl_token at = p->tok;
        if (!parse_new_id(p, &id)) return false;
        for (int i = 0; i < d.ids.n; i++)
            if (d.ids.at[i] == id) return dl_lex_fail(p, &at, "%%%u is made twice", id);
        dl_push(p->scratch, &d.ids, id);
        if (d.ids.n > DL_KPARAMS_MAX)
            return dl_lex_fail(p, &at, "a node makes at most %d values", (int)DL_KPARAMS_MAX);
        if (!dl_lex_accept(p, ',', &more)) return false;
    }
    if (!dl_lex_mark(p, '=')) return false;
    d.at = p->tok;
    if (!dl_parse_op(p, &d.op)) return false;
    bool good = d.op == DL_OP_fused    ? parse_fused(p, g, &d)
                : dl_op_has_body(d.op) ? parse_run(p, &d)
                                       : parse_plain(p, &d);
    if (!good) return false;
    if (!dl_parse_attrs(p, d.op, &d.nattrs, d.attrs)) return false;
    if (!dl_lex_mark(p, ':') || !parse_types(p, &d)) return false;
    dl_loc loc;
    if (!dl_lex_end_line(p, &loc)) return false;
    dl_node *n = dl_node_append(g, d.op, d.in.n, d.in.at, d.ids.n, d.types.at, loc);
    for (int i = 0; i < d.nattrs; i++) dl_node_set(g, n, d.attrs[i]);
    if (d.known) n->kernel = d.known->kernel;
    n->body = d.body;
    for (int i = 0; i < n->nout; i++) define(p, &n->out[i], d.ids.at[i], d.offsets.at[i]);
    return true;
}

static bool parse_next(dl_parser *p) {
    dl_loc loc;
    uint32_t id;
    dl_token at;
    if (!dl_lex(p)) return false;
    at = p->tok;
    if (!parse_id(p, &id) || !dl_lex_end_line(p, &loc)) return false;
    if (id < p->next_id)
        return dl_lex_fail(p, &at, "next is %%%u, but %%%u is used", id, p->next_id - 1);
    p->next_id = id;
    return true;
}

static bool parse_arena(dl_parser *p, dl_graph *g) {
    dl_loc loc;
    bool at = false;
    if (!dl_lex(p)) return false;
    return dl_lex_int(p, 0, INT64_MAX, "the arena's bytes", &g->arena_bytes) &&
           (!g->is_body || dl_lex_accept_word(p, "at", &at)) &&
           (!at || dl_lex_int(p, 0, INT64_MAX, "an offset", &g->arena_at)) &&
           dl_lex_end_line(p, &loc);
}

static bool skip_lines(dl_parser *p) {
    while (p->tok.kind == TOK_LINE)
        if (!dl_lex(p)) return false;
    return true;
}

static bool parse_statement(dl_parser *p, dl_graph *g) {
    static const char *const words[] = {"input",  "target",    "param",  "state",  "hyper",
                                        "output", "loss",      "metric", "figure", "grad",
                                        "update", "objective", "next",   "arena"};
    if (p->tok.kind == TOK_VALUE) return parse_node(p, g);
    int role = find_word(p, dl_var_roles, DL_NVAR_ROLES);
    if (role >= 0) return parse_var(p, g, (dl_var_role)role);
    role = find_word(p, dl_result_roles, DL_NRESULT_ROLES);
    if (role >= 0) return parse_result(p, g, (dl_result_role)role);
    if (dl_lex_is_word(p, "next")) return parse_next(p);
    if (dl_lex_is_word(p, "arena")) return parse_arena(p, g);
    if (p->tok.kind == TOK_WORD)
        return dl_lex_fail(
            p, &p->tok, "unknown statement '%.60s'%s", p->tok.text,
            dl_lex_nearest(p, p->tok.text, words, (int)(sizeof words / sizeof *words)));
    return dl_lex_expected(p, "a statement or '}'");
}

/* The statements of a graph or body, from its opening brace to the end of its line. */
static bool parse_statements(dl_parser *p, dl_graph *g) {
    dl_loc loc;
    for (int i = 0; i < p->pending.n; i++) {
        dl_push(p->m->arena, &g->kernels, p->pending.at[i]);
        dl_known_kernel *known = dl_map_get(&p->kernels, (uintptr_t)p->pending.at[i]->name);
        known->holder = g;
    }
    p->pending.n = 0;
    p->next_id = 0, p->depth = 0;
    dl_map_clear(&p->vars);
    dl_map_clear(&p->values);
    if (!dl_lex_mark(p, '{') || !dl_lex_end_line(p, &loc) || !skip_lines(p)) return false;
    while (!dl_lex_is(p, '}'))
        if (!parse_statement(p, g) || !skip_lines(p)) return false;
    g->next_id = p->next_id;
    return dl_lex(p) && dl_lex_end_line(p, &loc);
}

/* A graph, after the word `graph`. */
static bool parse_graph(dl_parser *p) {
    const char *name;
    dl_token at = p->tok;
    if (!dl_lex_name(p, TOK_AT, "the graph's name (@train)", &name)) return false;
    if (dl_module_graph(p->m, name))
        return dl_lex_fail(p, &at, "graph @%.200s stands there twice", name);
    if (p->m->graphs.n == DL_GRAPHS_MAX)
        return dl_lex_fail(p, &at, "more than %d graphs", (int)DL_GRAPHS_MAX);
    return parse_statements(p, dl_graph_new(p->m, name));
}

/* A body, after the word `body`. */
static bool parse_body(dl_parser *p) {
    const char *name;
    dl_token at = p->tok;
    if (!dl_lex_name(p, TOK_AT, "the body's name (@train_scan0)", &name)) return false;
    if (dl_map_get(&p->bodies, (uintptr_t)name))
        return dl_lex_fail(p, &at, "body @%.200s stands there twice", name);
    dl_known_body *known = DL_NEW(p->scratch, dl_known_body);
    known->body = dl_body_named(p->m, name);
    if (!parse_statements(p, known->body)) return false;
    known->depth = p->depth + 1;
    if (known->depth > DL_BODIES_MAX)
        return dl_lex_fail(p, &at, "more than %d bodies in each other", (int)DL_BODIES_MAX);
    dl_map_set(p, &p->bodies, (uintptr_t)name, known);
    dl_push(p->scratch, &p->all_bodies, known);
    return true;
}

/* A kernel, after the word `kernel`. */
static bool parse_kernel(dl_parser *p) {
    dl_token at = p->tok;
    dl_kernel *k = dl_parse_kernel(p);
    if (!k) return false;
    if (dl_map_get(&p->kernels, (uintptr_t)k->name))
        return dl_lex_fail(p, &at, "kernel @%.200s stands there twice", k->name);
    dl_known_kernel *known = DL_NEW(p->scratch, dl_known_kernel);
    known->kernel = k;
    dl_map_set(p, &p->kernels, (uintptr_t)k->name, known);
    dl_push(p->scratch, &p->pending, k);
    return true;
}

static bool parse_module(dl_parser *p) {
    if (!dl_lex(p) || !skip_lines(p)) return false;
    while (p->tok.kind != TOK_END) {
        bool graph, kernel = false, body = false;
        if (!dl_lex_accept_word(p, "graph", &graph)) return false;
        if (!graph && !dl_lex_accept_word(p, "kernel", &kernel)) return false;
        if (!graph && !kernel && !dl_lex_accept_word(p, "body", &body)) return false;
        if (!graph && !kernel && !body) return dl_lex_expected(p, "'graph', 'body' or 'kernel'");
        if (graph ? !parse_graph(p) : body ? !parse_body(p) : !parse_kernel(p)) return false;
        if (!skip_lines(p)) return false;
    }
    if (p->pending.n)
        return dl_lex_fail(p, &p->tok, "kernel @%.200s stands before no graph: a graph must follow",
                           p->pending.at[0]->name);
    for (int i = 0; i < p->all_bodies.n; i++)
        if (!p->all_bodies.at[i]->run)
            return dl_lex_fail(p, &p->tok, "body @%.200s is run by no node",
                               p->all_bodies.at[i]->body->name);
    if (p->m->graphs.n == 0) return dl_lex_fail(p, &p->tok, "no graph in this text");
    return true;
}

dl_module *dl_parse_module(dl_arena *parent, const char *text, size_t n, const char *name,
                           dl_error *err) {
    if (n > DL_TEXT_MAX) {
        dl_fail(err, DL_INPUT, "%.150s:1:1: larger than the 16 MiB such a text may have", name);
        return NULL;
    }
    dl_parser p = {
        .name = name, .next = text, .end = text + n, .line = 1, .line_start = text, .err = err};
    p.m = dl_module_new(parent);
    p.scratch = dl_arena_new(NULL);
    bool ok = parse_module(&p);
    dl_arena_free(p.scratch);
    if (ok) return p.m;
    dl_arena_free(p.m->arena);
    return NULL;
}

#include "frontends/dl/ast.h"

#include "ir/base/foreign.h"
#include "parser.h"

dl_ast *dl_ast_new(dl_reader *p, dl_ast_kind kind, dl_span span) {
    dl_ast *n = DL_NEW(p->arena, dl_ast);
    n->kind = kind, n->span = n->at = span, n->depth = 1;
    return n;
}

/* Left recursion makes deep trees from flat text ("a + a + ..."), so the limit applies to the tree,
 * not to brackets. */
void dl_ast_deepen(dl_reader *p, dl_ast *node, const dl_ast *child) {
    if (!child || child->depth < node->depth) return;
    node->depth = child->depth + 1;
    if (node->depth <= DL_MAX_NESTING || p->abandoned) return;
    dl_report(p->diags, child->span, DL_DIAG_nested_too_deep,
              "this is nested more than %d levels deep", DL_MAX_NESTING);
    p->abandoned = true;
}

static void deepen_list(dl_reader *p, dl_ast *node, const dl_ast_list *l) {
    for (int i = 0; i < l->list.n; i++) dl_ast_deepen(p, node, l->list.at[i]);
}

dl_ast *dl_ast_node(dl_reader *p, dl_ast_kind kind, dl_span span, dl_ast *a, dl_ast *b, dl_ast *c) {
    dl_ast *n = dl_ast_new(p, kind, span);
    n->a = a, n->b = b, n->c = c;
    dl_ast_deepen(p, n, a), dl_ast_deepen(p, n, b), dl_ast_deepen(p, n, c);
    return n;
}

dl_ast *dl_ast_named(dl_reader *p, dl_ast_kind kind, dl_span span, const char *name, dl_span at,
                     dl_ast *a) {
    dl_ast *n = dl_ast_node(p, kind, span, a, NULL, NULL);
    n->name = name, n->at = at;
    return n;
}

dl_ast *dl_ast_op(dl_reader *p, dl_ast_kind kind, dl_span span, int op, dl_span at, dl_ast *a,
                  dl_ast *b) {
    dl_ast *n = dl_ast_node(p, kind, span, a, b, NULL);
    n->op = op, n->at = at;
    return n;
}

dl_ast *dl_ast_items(dl_reader *p, dl_ast_kind kind, dl_span span, dl_ast *a, dl_ast_list items) {
    dl_ast *n = dl_ast_node(p, kind, span, a, NULL, NULL);
    n->items = items;
    deepen_list(p, n, &items);
    return n;
}

dl_ast *dl_ast_own(dl_reader *p, dl_ast_kind kind, dl_span span, const char *name, dl_span at,
                   dl_ast_list label, dl_ast *type) {
    dl_ast *n = dl_ast_items(p, kind, span, type, label);
    n->name = name, n->at = at;
    return n;
}

dl_ast_list dl_ast_push(dl_reader *p, dl_ast_list list, dl_ast *item) {
    dl_push(p->arena, &list.list, item);
    return list;
}

/* `name = value`, or `name(a, b) = value`: a function. */
dl_ast *dl_ast_assign(dl_reader *p, dl_span span, dl_ast *left, dl_ast *right) {
    if (left->kind == DL_A_NAME)
        return dl_ast_named(p, DL_A_ASSIGN, span, left->name, left->span, right);
    if (left->kind == DL_A_CALL && left->a->kind == DL_A_NAME) {
        dl_ast *f = dl_ast_named(p, DL_A_FUNCTION, span, left->a->name, left->a->span, right);
        for (int i = 0; i < left->items.list.n; i++) {
            dl_ast *arg = left->items.list.at[i], *value = arg->a;
            if (arg->name)
                dl_push(p->arena, &f->items.list,
                        dl_ast_named(p, DL_A_PARAM, arg->span, arg->name, arg->at, value));
            else if (value->kind == DL_A_NAME)
                dl_push(p->arena, &f->items.list,
                        dl_ast_named(p, DL_A_PARAM, arg->span, value->name, arg->span, NULL));
            else {
                dl_report(p->diags, arg->span, DL_DIAG_bad_assignment,
                          "a function's arguments are names: %s(u) = ...", left->a->name);
                return dl_ast_bad(p, span);
            }
        }
        return f;
    }
    dl_diag *g =
        dl_report(p->diags, left->span, DL_DIAG_bad_assignment, "this cannot be assigned to");
    dl_diag_set_help(p->diags, g, "assign to a name, or define a function: rho(u) = exp(u)");
    return dl_ast_bad(p, span);
}

/* The names in a statement with a syntax error: elaboration reports nothing about them. */
dl_ast *dl_ast_bad(dl_reader *p, dl_span span) {
    dl_ast *bad = dl_ast_new(p, DL_A_BAD, span);
    for (int i = p->next - 1; i >= 0; i--) {
        const dl_word *t = &p->tokens.at[i];
        if (t->span.begin < span.begin) break;
        if (t->kind == T_NAME && t->span.end <= span.end)
            dl_push(p->arena, &bad->items.list,
                    dl_ast_named(p, DL_A_NAME, t->span, t->name, t->span, NULL));
    }
    return bad;
}

static const char *const kind_names[] = {
    "int",           "float",    "string",    "text",    "bool",   "none",  "name",     "list",
    "comprehension", "unary",    "binary",    "if-else", "call",   "index", "argument", "slice",
    "attribute",     "label",    "pipe",      "as",      "cast",   "type",  "assign",   "unpack",
    "augment",       "function", "input",     "target",  "buffer", "param", "init",     "setting",
    "output",        "optimize", "metric",    "figure",  "return", "for",   "if",       "value",
    "pass",          "bad",      "parameter", "module",  "model",  "file"};

static void print(dl_buf *out, const dl_ast *n, int depth);

static void print_list(dl_buf *out, const char *title, const dl_ast_list *l, int depth) {
    if (!l->list.n) return;
    if (title) dl_putf(out, "%*s%s:\n", 2 * depth, "", title);
    for (int i = 0; i < l->list.n; i++) print(out, l->list.at[i], depth + (title != NULL));
}

static void print(dl_buf *out, const dl_ast *n, int depth) {
    dl_putf(out, "%*s%s", 2 * depth, "", kind_names[n->kind]);
    if (n->name) dl_puts(out, " "), dl_put_foreign(out, DL_IN_LINE, n->name);
    if (n->kind == DL_A_INT || n->kind == DL_A_BOOL) dl_putf(out, " %lld", (long long)n->i);
    if (n->kind == DL_A_FLOAT) dl_puts(out, " "), dl_put_double(out, n->f);
    dl_putf(out, "  # %u..%u\n", n->span.begin, n->span.end);
    const dl_ast *child[] = {n->a, n->b, n->c};
    for (int i = 0; i < 3; i++)
        if (child[i]) print(out, child[i], depth + 1);
    print_list(out, NULL, &n->items, depth + 1);
    print_list(out, n->kind == DL_A_IF ? "else" : "with", &n->more, depth + 1);
    print_list(out, "do", &n->body, depth + 1);
}

void dl_ast_print(dl_buf *out, const dl_ast *file) { print(out, file, 0); }

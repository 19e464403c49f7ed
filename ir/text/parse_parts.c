/* Types, ops and attributes: the parts of the text that graphs and kernels share. */
#include "ir/text/parse.h"

/* "N=2, C=4, 1" up to `close`, which is consumed. */
bool dl_parse_axes(dl_parser *p, char close, int *rank, dl_axis axis[DL_MAX_RANK]) {
    const char *none = dl_intern("");
    int64_t elements = 1;
    for (*rank = 0;; ++*rank) {
        if (*rank == 0 && dl_lex_is(p, close)) break;
        if (*rank == DL_MAX_RANK)
            return dl_lex_fail(p, &p->tok, "more than %d axes", (int)DL_MAX_RANK);
        dl_axis *a = &axis[*rank];
        a->name = none;
        dl_token at = p->tok;
        if (p->tok.kind == TOK_WORD) {
            if (!dl_lex_name(p, TOK_WORD, "an axis", &a->name) || !dl_lex_mark(p, '='))
                return false;
            for (int i = 0; i < *rank; i++)
                if (axis[i].name == a->name)
                    return dl_lex_fail(p, &at, "axis %s stands there twice", a->name);
        }
        if (!dl_lex_int(p, 0, (int64_t)1 << DL_ELEMENTS_LOG2_MAX, "an axis size", &a->size))
            return false;
        if (a->size && elements > ((int64_t)1 << DL_ELEMENTS_LOG2_MAX) / a->size)
            return dl_lex_fail(p, &at, "more than 2^%d elements", (int)DL_ELEMENTS_LOG2_MAX);
        elements *= a->size ? a->size : 1;
        bool more;
        if (!dl_lex_accept(p, ',', &more)) return false;
        if (!more) {
            ++*rank;
            break;
        }
    }
    return dl_lex_mark(p, close);
}

bool dl_parse_dtype(dl_parser *p, dl_dtype *d) {
    static const char *const names[] = {
#define X(id, text, bytes) text,
        DL_DTYPES(X)
#undef X
    };
    if (p->tok.kind != TOK_WORD) return dl_lex_expected(p, "an element type");
    if (!dl_dtype_parse(p->tok.text, d))
        return dl_lex_fail(p, &p->tok, "unknown element type '%.60s'%s", p->tok.text,
                           dl_lex_nearest(p, p->tok.text, names, DL_NDTYPES));
    return dl_lex(p);
}

/* "@cl", "@cl1" or "@panel32" after a type. */
static bool parse_layout(dl_parser *p, dl_type *t) {
    const char *s = p->tok.text;
    if (strncmp(s, "cl", 2) == 0 && (!s[2] || (s[2] > '0' && s[2] < '0' + DL_MAX_RANK && !s[3]))) {
        t->layout = (dl_layout){.kind = DL_CL, .steps = s[2] ? s[2] - '0' : 0};
        return dl_lex(p);
    }
    if (strncmp(s, "panel", 5) != 0)
        return dl_lex_fail(p, &p->tok, "unknown layout '@%.60s': @cl and @panelWIDTH exist", s);
    int64_t width = 0;
    const char *digits = s + 5;
    for (s = digits; *s >= '0' && *s <= '9' && width <= DL_MAX_PANEL; s++)
        width = width * 10 + (*s - '0');
    if (*s || *digits == '0' || width < 1 || width > DL_MAX_PANEL)
        return dl_lex_fail(p, &p->tok, "the width of a panel must lie between 1 and %d",
                           (int)DL_MAX_PANEL);
    if (t->rank < 2) return dl_lex_fail(p, &p->tok, "layout @panel needs at least two axes");
    t->layout = (dl_layout){.kind = DL_PANEL, .width = (int)width};
    return dl_lex(p);
}

bool dl_parse_type(dl_parser *p, dl_type *t) {
    *t = (dl_type){0};
    if (!dl_parse_dtype(p, &t->dtype) || !dl_lex_mark(p, '[')) return false;
    if (!dl_parse_axes(p, ']', &t->rank, t->axis)) return false;
    return p->tok.kind == TOK_AT ? parse_layout(p, t) : true;
}

bool dl_parse_op(dl_parser *p, dl_op *op) {
    if (p->tok.kind != TOK_WORD) return dl_lex_expected(p, "an op");
    int found = dl_op_find(p->tok.text);
    if (found < 0) {
        const char *names[DL_NOPS];
        for (int i = 0; i < DL_NOPS; i++) names[i] = dl_ops[i].name;
        return dl_lex_fail(p, &p->tok, "unknown op '%.60s'%s", p->tok.text,
                           dl_lex_nearest(p, p->tok.text, names, DL_NOPS));
    }
    *op = (dl_op)found;
    return dl_lex(p);
}

/* Parses "[item, item]" with the function `item`; *n is the number of items. */
static bool parse_list(dl_parser *p, int *n, bool item(dl_parser *p, void *to, int i), void *to) {
    if (!dl_lex_mark(p, '[')) return false;
    *n = 0;
    for (bool more = !dl_lex_is(p, ']'); more; ++*n) {
        if (*n == DL_MAX_RANK)
            return dl_lex_fail(p, &p->tok, "a list of more than %d", (int)DL_MAX_RANK);
        if (!item(p, to, *n) || !dl_lex_accept(p, ',', &more)) return false;
    }
    return dl_lex_mark(p, ']');
}

static bool int_item(dl_parser *p, void *to, int i) {
    int64_t limit = (int64_t)1 << DL_ELEMENTS_LOG2_MAX;
    return dl_lex_int(p, -limit, limit, "an integer", &((int64_t *)to)[i]);
}

/* A word, or a quoted name (the axis without a name: ""). */
static bool name_item(dl_parser *p, void *to, int i) {
    dl_token_kind kind = p->tok.kind == TOK_STRING ? TOK_STRING : TOK_WORD;
    return dl_lex_name(p, kind, "a name", &((const char **)to)[i]);
}

/* "[text, text]", of any length. */
static bool parse_texts(dl_parser *p, dl_attr *a) {
    DL_ARRAY(const char *) texts = {0};
    const char *text;
    if (!dl_lex_mark(p, '[')) return false;
    for (bool more = !dl_lex_is(p, ']'); more;) {
        if (!dl_lex_name(p, TOK_STRING, "a string", &text)) return false;
        dl_push(p->m->arena, &texts, text);
        if (!dl_lex_accept(p, ',', &more)) return false;
    }
    a->n = texts.n, a->texts = texts.at;
    return dl_lex_mark(p, ']');
}

bool dl_parse_ints(dl_parser *p, int *n, int64_t v[DL_MAX_RANK]) {
    return parse_list(p, n, int_item, v);
}

bool dl_parse_attr_value(dl_parser *p, dl_attr_id id, dl_attr *a) {
    *a = (dl_attr){.id = id};
    switch (dl_attrs[id].kind) {
    case DL_KIND_INT: return int_item(p, &a->i, 0);
    case DL_KIND_INTS: return parse_list(p, &a->n, int_item, a->ints);
    case DL_KIND_FLOAT: return dl_lex_double(p, &a->f);
    case DL_KIND_NAME: return name_item(p, &a->s, 0);
    case DL_KIND_NAMES: return parse_list(p, &a->n, name_item, a->names);
    case DL_KIND_STR: return dl_lex_name(p, TOK_STRING, "a string", &a->s);
    case DL_KIND_TEXTS: return parse_texts(p, a);
    }
    return false;
}

static bool takes(const dl_op_info *op, dl_attr_id id) {
    for (int i = 0; i < op->nattrs; i++)
        if (op->attrs[i] == id) return true;
    return false;
}

bool dl_parse_attrs(dl_parser *p, dl_op id, int *n, dl_attr attrs[DL_MAX_ATTRS]) {
    const dl_op_info *op = &dl_ops[id];
    dl_token at = p->tok;
    bool seen[DL_NATTRS] = {false}, more;
    *n = 0;
    if (!dl_lex_accept(p, '{', &more)) return false;
    while (more) {
        const char *names[DL_MAX_ATTRS];
        for (int i = 0; i < op->nattrs; i++) names[i] = dl_attrs[op->attrs[i]].name;
        if (p->tok.kind != TOK_WORD) return dl_lex_expected(p, "an attribute");
        int found = dl_attr_find(p->tok.text);
        if (found < 0 || !takes(op, (dl_attr_id)found))
            return dl_lex_fail(p, &p->tok, "%s has no attribute '%.60s'%s", op->name, p->tok.text,
                               dl_lex_nearest(p, p->tok.text, names, op->nattrs));
        if (seen[found])
            return dl_lex_fail(p, &p->tok, "attribute '%s' stands there twice", p->tok.text);
        seen[found] = true;
        if (!dl_lex(p) || !dl_lex_mark(p, '=')) return false;
        if (!dl_parse_attr_value(p, (dl_attr_id)found, &attrs[(*n)++])) return false;
        if (!dl_lex_accept(p, ',', &more)) return false;
        if (!more && !dl_lex_mark(p, '}')) return false;
    }
    for (int i = 0; i < op->nattrs - op->noptional; i++)
        if (!seen[op->attrs[i]])
            return dl_lex_fail(p, &at, "%s lacks its attribute '%s'", op->name,
                               dl_attrs[op->attrs[i]].name);
    return true;
}

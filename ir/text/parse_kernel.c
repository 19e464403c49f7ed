/* Parses kernels of the IR's text. References (parameters, axes, instructions) are resolved and
 * checked here, so that a parsed kernel can be walked safely; dl_kernel_fault checks that it is
 * legal. */
#include "ir/text/parse.h"

#include "ir/base/philox.h"
#include "ir/kernel/schedule.h"
#include "ir/text/text_chars.h"

static bool find_param(dl_parser *p, const dl_kernel *k, int *param) {
    if (p->tok.kind != TOK_VALUE) return dl_lex_expected(p, "a parameter (%name)");
    for (*param = 0; *param < k->params.n; ++*param)
        if (k->params.at[*param].name == p->tok.text) return dl_lex(p);
    return dl_lex_fail(p, &p->tok, "kernel @%.200s has no parameter %%%.200s", k->name,
                       p->tok.text);
}

/* An earlier instruction's result. */
static bool find_instr(dl_parser *p, const dl_kernel *k, int *instr) {
    if (p->tok.kind != TOK_VALUE) return dl_lex_expected(p, "an instruction's result (%3)");
    int64_t v = 0;
    const char *s = p->tok.text;
    for (; dl_is_digit(*s) && v <= k->instrs.n; s++) v = v * 10 + (*s - '0');
    bool canonical = p->tok.text[0] != '0' || !p->tok.text[1];
    if (*s || !*p->tok.text || !canonical || v >= k->instrs.n || k->instrs.at[v].kind == DL_K_STORE)
        return dl_lex_fail(p, &p->tok, "no instruction above makes %%%.60s", p->tok.text);
    *instr = (int)v;
    return dl_lex(p);
}

/* A space axis: its name, or @position. */
static bool find_axis(dl_parser *p, const dl_kernel *k, int *axis) {
    const char *s = p->tok.text;
    if (p->tok.kind == TOK_AT) {
        *axis = s[0] - '0';
        if (!dl_is_digit(s[0]) || s[1] || *axis >= k->nspace)
            return dl_lex_fail(p, &p->tok, "the space has no axis @%.60s", s);
        return dl_lex(p);
    }
    if (p->tok.kind != TOK_WORD) return dl_lex_expected(p, "an axis of the space");
    for (*axis = 0; *axis < k->nspace; ++*axis)
        if (k->space[*axis].name == s) return dl_lex(p);
    return dl_lex_fail(p, &p->tok, "the space has no axis '%.60s'", s);
}

/* "(%a: f32[...] @cl, %b: ...)"; an output may say "alias %a". */
static bool parse_params(dl_parser *p, dl_kernel *k, bool is_out) {
    if (!dl_lex_mark(p, '(')) return false;
    for (bool more = !dl_lex_is(p, ')'); more;) {
        dl_kparam param = {.is_out = is_out, .alias = -1};
        dl_token at = p->tok;
        bool alias;
        if (!dl_lex_name(p, TOK_VALUE, "a parameter (%name)", &param.name)) return false;
        for (int i = 0; i < k->params.n; i++)
            if (k->params.at[i].name == param.name)
                return dl_lex_fail(p, &at, "parameter %%%.200s stands there twice", param.name);
        if (k->params.n == DL_KPARAMS_MAX)
            return dl_lex_fail(p, &at, "more than %d parameters", (int)DL_KPARAMS_MAX);
        if (!dl_lex_mark(p, ':') || !dl_parse_type(p, &param.type)) return false;
        at = p->tok;
        if (!dl_lex_accept_word(p, "alias", &alias)) return false;
        if (alias && !is_out) return dl_lex_fail(p, &at, "only an output may alias an input");
        if (alias && !find_param(p, k, &param.alias)) return false;
        if (param.alias >= k->nin) return dl_lex_fail(p, &at, "an output may alias only an input");
        dl_push(p->m->arena, &k->params, param);
        k->nin += !is_out;
        if (!dl_lex_accept(p, ',', &more)) return false;
    }
    return dl_lex_mark(p, ')');
}

/* "cost(flops=1, bytes=2, unfused=3)", or nothing. */
static bool parse_cost(dl_parser *p, dl_kernel *k) {
    static const char *const names[] = {"flops", "bytes", "unfused"};
    int64_t *const to[] = {&k->flops, &k->bytes, &k->bytes_unfused};
    bool yes;
    if (!dl_lex_accept_word(p, "cost", &yes)) return false;
    if (!yes) return true;
    for (int i = 0; i < 3; i++) {
        bool named;
        if (!dl_lex_mark(p, i ? ',' : '(') || !dl_lex_accept_word(p, names[i], &named))
            return false;
        if (!named) return dl_lex_expected(p, names[i]);
        if (!dl_lex_mark(p, '=') || !dl_lex_int(p, 0, INT64_MAX, "a cost", to[i])) return false;
    }
    return dl_lex_mark(p, ')');
}

/* "H div 8 mod 45 mul 90" */
static bool parse_term(dl_parser *p, const dl_kernel *k, dl_term *t) {
    static const char *const words[] = {"div", "mod", "mul"};
    int64_t *const to[] = {&t->div, &t->mod, &t->mul};
    *t = (dl_term){.div = 1, .mul = 1};
    if (!find_axis(p, k, &t->axis)) return false;
    for (int i = 0; i < 3; i++) {
        bool yes;
        if (!dl_lex_accept_word(p, words[i], &yes)) return false;
        int64_t limit = (int64_t)1 << DL_ELEMENTS_LOG2_MAX;
        if (yes && !dl_lex_int(p, i == 2 ? -limit : 1, limit, "a factor", to[i])) return false;
    }
    return t->mul ? true : dl_lex_fail(p, &p->tok, "a term times 0");
}

/* "H div 8 mul 90, W div 8)" after its parenthesis. */
static bool parse_terms(dl_parser *p, const dl_kernel *k, dl_index *x) {
    for (bool more = true; more;) {
        if (x->nterms == DL_MAX_TERMS)
            return dl_lex_fail(p, &p->tok, "more than %d terms", (int)DL_MAX_TERMS);
        if (!parse_term(p, k, &x->term[x->nterms++]) || !dl_lex_accept(p, ',', &more)) return false;
    }
    return dl_lex_mark(p, ')');
}

/* " div 2 exact" after the sum. */
static bool parse_landing(dl_parser *p, dl_index *x) {
    bool yes;
    if (!dl_lex_accept_word(p, "div", &yes)) return false;
    if (yes && !dl_lex_int(p, 2, (int64_t)1 << DL_ELEMENTS_LOG2_MAX, "a divisor", &x->div))
        return false;
    for (int o = 1; o < DL_OUT_ANY; o++) {
        if (!dl_lex_accept_word(p, dl_outside_names[o], &yes)) return false;
        if (yes) return x->outside = (dl_outside)o, true;
    }
    return true;
}

/* "%b[N, C+64, 3]" with a coordinate for each axis of the parameter. */
static bool parse_place(dl_parser *p, const dl_kernel *k, dl_kinstr *in) {
    int64_t limit = (int64_t)1 << DL_ELEMENTS_LOG2_MAX;
    if (!find_param(p, k, &in->param)) return false;
    int rank = k->params.at[in->param].type.rank;
    dl_token at = p->tok;
    if (!dl_lex_mark(p, '[')) return false;
    in->index = DL_NEWS(p->m->arena, dl_index, rank);
    for (int i = 0; i < rank; i++) {
        dl_index *x = &in->index[i];
        if (i && !dl_lex_mark(p, ',')) return false;
        bool constant = p->tok.kind == TOK_NUMBER;
        x->axis = -1;
        bool terms;
        if (p->tok.kind == TOK_VALUE) {
            if (!find_instr(p, k, &x->indirect) || !parse_landing(p, x)) return false;
            x->indirect++;
            continue;
        }
        if (!dl_lex_accept(p, '(', &terms)) return false;
        if (terms ? !parse_terms(p, k, x) : !constant && !find_axis(p, k, &x->axis)) return false;
        bool sign = p->tok.kind == TOK_NUMBER && (*p->tok.at == '+' || *p->tok.at == '-');
        if ((constant || sign) && !dl_lex_int(p, -limit, limit, "an offset", &x->offset))
            return false;
        if (!parse_landing(p, x)) return false;
    }
    if (dl_lex_is(p, ','))
        return dl_lex_fail(p, &at, "%%%.200s has %d axes, found more", k->params.at[in->param].name,
                           rank);
    return dl_lex_mark(p, ']');
}

/* "%a" or "cat(%a, %b)". */
static bool parse_parts(dl_parser *p, const dl_kernel *k, dl_kinstr *in, int side) {
    bool several, more = true;
    if (!dl_lex_accept_word(p, "cat", &several)) return false;
    if (!several) {
        in->nparts[side] = 1;
        return find_param(p, k, &in->parts[side][0]);
    }
    if (!dl_lex_mark(p, '(')) return false;
    while (more) {
        if (in->nparts[side] == 4) return dl_lex_fail(p, &p->tok, "cat of more than 4 parts");
        if (!find_param(p, k, &in->parts[side][in->nparts[side]++])) return false;
        if (!dl_lex_accept(p, ',', &more)) return false;
    }
    if (in->nparts[side] < 2)
        return dl_lex_fail(p, &p->tok, "cat of one part: write the part alone");
    return dl_lex_mark(p, ')');
}

/* The axis of an operand of a contraction by names: a summed one, or one of the space. */
static bool find_followed(dl_parser *p, const dl_kernel *k, const dl_kinstr *in, int *axis) {
    for (int i = 0; i < in->nsums; i++) {
        bool here;
        if (!dl_lex_accept_word(p, in->sum[i].name, &here)) return false;
        if (here) return *axis = DL_MAX_RANK + i, true;
    }
    return find_axis(p, k, axis);
}

static bool parse_names(dl_parser *p, const dl_kernel *k, dl_kinstr *in) {
    bool over;
    if (!dl_lex_accept_word(p, "over", &over)) return false;
    if (!over) return dl_lex_expected(p, "over(...)");
    if (!dl_lex_mark(p, '(') || !dl_parse_axes(p, ')', &in->nsums, in->sum)) return false;
    for (int side = 0; side < 2; side++) {
        in->nparts[side] = 1;
        if ((side && !dl_lex_mark(p, ',')) || !find_param(p, k, &in->parts[side][0]) ||
            !dl_lex_mark(p, '['))
            return false;
        for (int i = 0; i < k->params.at[in->parts[side][0]].type.rank; i++)
            if ((i && !dl_lex_mark(p, ',')) || !find_followed(p, k, in, &in->follow[side][i]))
                return false;
        if (!dl_lex_mark(p, ']')) return false;
    }
    return true;
}

/* "[2, 2]" after a name: a number for each spatial axis. */
static bool parse_spatial(dl_parser *p, const char *name, dl_windows *w, int64_t to[3]) {
    dl_token at = p->tok;
    int n;
    int64_t v[DL_MAX_RANK];
    if (!dl_parse_ints(p, &n, v)) return false;
    if (to == w->stride) w->n = n;
    if (n < 1 || n > 3 || n != w->n)
        return dl_lex_fail(
            p, &at, "%s needs one number a spatial axis, 1 to 3 and as many as stride", name);
    memcpy(to, v, sizeof *v * (size_t)n);
    return true;
}

/* An optional attribute, which follows the required ones in this order. */
static bool parse_more(dl_parser *p, dl_kinstr *in, const char *name, bool *more) {
    const int64_t limit = (int64_t)1 << DL_ELEMENTS_LOG2_MAX;
    bool named;
    if (!*more) return true;
    if (!dl_lex_accept_word(p, name, &named)) return false;
    if (!named) return true;
    if (!dl_lex_mark(p, '=')) return false;
    bool ok = strcmp(name, "dilation") == 0
                  ? parse_spatial(p, name, &in->windows, in->windows.dilation)
              : strcmp(name, "groups") == 0 ? dl_lex_int(p, 1, limit, name, &in->windows.groups)
                                            : dl_lex_int(p, 0, limit, name, &in->w_start);
    return ok && dl_lex_accept(p, ',', more);
}

static bool parse_contract(dl_parser *p, const dl_kernel *k, dl_kinstr *in) {
    if (!dl_op_slides(in->op)) return parse_names(p, k, in);
    static const char *const names[] = {"stride", "pad_lo", "pad_hi"};
    dl_windows *w = &in->windows;
    int64_t *const to[] = {w->stride, w->pad_lo, w->pad_hi};
    if (!parse_parts(p, k, in, 0) || !dl_lex_mark(p, ',') || !parse_parts(p, k, in, 1))
        return false;
    for (int i = 0; i < 3; i++) {
        bool named;
        if (!dl_lex_mark(p, i ? ',' : '{') || !dl_lex_accept_word(p, names[i], &named))
            return false;
        if (!named) return dl_lex_expected(p, names[i]);
        if (!dl_lex_mark(p, '=') || !parse_spatial(p, names[i], w, to[i])) return false;
    }
    w->groups = 1;
    for (int i = 0; i < w->n; i++) w->dilation[i] = 1;
    bool more;
    if (!dl_lex_accept(p, ',', &more) || !parse_more(p, in, "dilation", &more) ||
        !parse_more(p, in, "groups", &more) || !parse_more(p, in, "w_start", &more))
        return false;
    return more ? dl_lex_expected(p, "dilation, groups or w_start") : dl_lex_mark(p, '}');
}

static bool parse_args(dl_parser *p, const dl_kernel *k, dl_kinstr *in) {
    dl_token at = p->tok;
    bool draws = in->op == DL_OP_random;
    int most = draws ? 3 : dl_ops[in->op].arity, least = draws ? 2 : most;
    for (bool more = true; more; in->nargs++) {
        if (in->nargs == most)
            return dl_lex_fail(p, &at, "%s takes %d operands", dl_ops[in->op].name, most);
        if (!find_instr(p, k, &in->args[in->nargs]) || !dl_lex_accept(p, ',', &more)) return false;
    }
    if (in->nargs < least)
        return dl_lex_fail(p, &at, "%s takes %d operands", dl_ops[in->op].name, least);
    return true;
}

/* "over=[N, H]": axes of the space, a bit each. */
static bool parse_over(dl_parser *p, const dl_kernel *k, unsigned *over) {
    bool named, more = true;
    if (!dl_lex_accept_word(p, "over", &named)) return false;
    if (!named) return dl_lex_expected(p, "over");
    if (!dl_lex_mark(p, '=') || !dl_lex_mark(p, '[')) return false;
    while (more) {
        int axis = 0;
        dl_token at = p->tok;
        if (!find_axis(p, k, &axis)) return false;
        if (*over >> axis & 1) return dl_lex_fail(p, &at, "an axis stands there twice");
        *over |= 1u << axis;
        if (!dl_lex_accept(p, ',', &more)) return false;
    }
    return dl_lex_mark(p, ']');
}

static bool parse_reduce(dl_parser *p, const dl_kernel *k, dl_kinstr *in) {
    return parse_args(p, k, in) && dl_lex_mark(p, '{') && parse_over(p, k, &in->over) &&
           dl_lex_mark(p, '}');
}

static bool parse_elem(dl_parser *p, const dl_kernel *k, dl_kinstr *in) {
    int n;
    dl_attr attrs[DL_MAX_ATTRS];
    if (!parse_args(p, k, in) || !dl_lex_accept_word(p, "no_contract", &in->no_contract))
        return false;
    if (!dl_parse_attrs(p, in->op, &n, attrs)) return false;
    if (n) in->p = attrs[0].f;
    return true;
}

/* ", part=24" where there is a third operand. */
static bool parse_part(dl_parser *p, dl_kinstr *in) {
    bool named;
    if (in->nargs < 3) return true;
    if (!dl_lex_mark(p, ',') || !dl_lex_accept_word(p, "part", &named)) return false;
    if (!named) return dl_lex_expected(p, "part");
    return dl_lex_mark(p, '=') &&
           dl_lex_int(p, 0, (int64_t)1 << DL_ELEMENTS_LOG2_MAX, "part", &in->part);
}

/* "%0, %1 {number=3, first=0, along=[12, 1]}" with a stride for each space axis; "%0, %1, %2
 * {number=3, first=0, along=[12, 1], part=24}". */
static bool parse_random(dl_parser *p, const dl_kernel *k, dl_kinstr *in) {
    static const char *const names[] = {"number", "first", "along"};
    int64_t limit = (int64_t)1 << DL_ELEMENTS_LOG2_MAX, number = 0;
    if (!parse_args(p, k, in)) return false;
    for (int i = 0; i < 3; i++) {
        bool named;
        if (!dl_lex_mark(p, i ? ',' : '{') || !dl_lex_accept_word(p, names[i], &named))
            return false;
        if (!named) return dl_lex_expected(p, names[i]);
        if (!dl_lex_mark(p, '=')) return false;
        if (i == 0 && !dl_lex_int(p, 0, DL_RANDOM_NUMBERS - 1, "number", &number)) return false;
        if (i == 1 && !dl_lex_int(p, 0, limit, "first", &in->first)) return false;
    }
    int n;
    dl_token at = p->tok;
    in->number = (int)number;
    if (!dl_parse_ints(p, &n, in->along)) return false;
    if (n != k->nspace)
        return dl_lex_fail(p, &at, "along needs one step for each axis of the space");
    return parse_part(p, in) && dl_lex_mark(p, '}');
}

/* "in tf32" after a contraction. */
static bool parse_tf32(dl_parser *p, dl_kinstr *in) {
    bool yes;
    if (!dl_lex_accept_word(p, "in", &yes) || !yes) return !yes;
    if (!dl_lex_accept_word(p, "tf32", &in->tf32)) return false;
    return in->tf32 || dl_lex_expected(p, "tf32");
}

/* The text after "%3 = " up to the type. */
static bool parse_making(dl_parser *p, const dl_kernel *k, dl_kinstr *in) {
    bool yes;
    if (!dl_lex_accept_word(p, "load", &yes)) return false;
    if (yes) return in->kind = DL_K_LOAD, parse_place(p, k, in);
    if (!dl_lex_accept_word(p, "coord", &yes)) return false;
    if (yes) return in->kind = DL_K_COORD, in->op = DL_OP_iota, find_axis(p, k, &in->axis);
    dl_token at = p->tok;
    int n;
    dl_attr attrs[DL_MAX_ATTRS];
    if (!dl_parse_op(p, &in->op)) return false;
    switch (dl_ops[in->op].class) {
    case DL_CLASS_CONTRACT:
        return in->kind = DL_K_CONTRACT, parse_contract(p, k, in) && parse_tf32(p, in);
    case DL_CLASS_ELEM: return in->kind = DL_K_ELEM, parse_elem(p, k, in);
    case DL_CLASS_REDUCE: return in->kind = DL_K_REDUCE, parse_reduce(p, k, in);
    default: break;
    }
    if (in->op == DL_OP_random) return in->kind = DL_K_RANDOM, parse_random(p, k, in);
    if (in->op != DL_OP_const)
        return dl_lex_fail(p, &at, "%s is no instruction of a kernel", dl_ops[in->op].name);
    in->kind = DL_K_CONST;
    if (!dl_parse_attrs(p, in->op, &n, attrs)) return false;
    in->p = attrs[0].f;
    return true;
}

/* "flash_attention {rate=0, ...}" after "call", on the parameters. */
static bool parse_call(dl_parser *p, const dl_kernel *k, dl_kinstr *in) {
    int n;
    dl_attr attrs[DL_MAX_ATTRS];
    dl_token at = p->tok;
    if (!dl_parse_op(p, &in->op)) return false;
    if (dl_ops[in->op].class != DL_CLASS_TEMPLATE)
        return dl_lex_fail(p, &at, "%s is no template", dl_ops[in->op].name);
    if (!dl_parse_attrs(p, in->op, &n, attrs)) return false;
    dl_type *types = DL_NEWS(p->scratch, dl_type, k->params.n + 1);
    for (int i = 0; i < k->params.n; i++) types[i] = k->params.at[i].type;
    in->kind = DL_K_CALL;
    in->call = dl_call_node(p->m->arena, in->op, k->nin, k->params.n - k->nin, types, n, attrs,
                            (dl_loc){0});
    return true;
}

static bool parse_instr(dl_parser *p, dl_kernel *k) {
    dl_kinstr in = {0};
    bool store, call = false;
    if (!dl_lex_accept_word(p, "store", &store)) return false;
    if (!store && !dl_lex_accept_word(p, "call", &call)) return false;
    if (call) {
        if (!parse_call(p, k, &in)) return false;
    } else if (store) {
        bool max; /* of the values for each element */
        in.kind = DL_K_STORE, in.nargs = 1;
        if (!dl_lex_accept_word(p, "max", &max) || !parse_place(p, k, &in) ||
            !dl_lex_mark(p, ',') || !find_instr(p, k, &in.args[0]))
            return false;
        in.type = k->params.at[in.param].type.dtype;
        if (max) in.op = DL_OP_reduce_max;
    } else {
        dl_token at = p->tok;
        const char *name;
        if (!dl_lex_name(p, TOK_VALUE, "an instruction or '}'", &name)) return false;
        if (strcmp(name, dl_format(p->scratch, "%d", k->instrs.n)) != 0)
            return dl_lex_fail(p, &at, "results are numbered by instruction: expected %%%d",
                               k->instrs.n);
        if (!dl_lex_mark(p, '=') || !parse_making(p, k, &in)) return false;
        if (!dl_lex_mark(p, ':') || !dl_parse_dtype(p, &in.type)) return false;
    }
    if (!dl_lex_end_line(p, &in.loc)) return false;
    dl_push(p->m->arena, &k->instrs, in);
    return true;
}

static bool parse_variant(dl_parser *p, dl_loop_schedule *s) {
    bool named;
    if (!dl_lex_accept_word(p, "variant", &named)) return false;
    if (!named) return dl_lex_expected(p, "variant");
    return dl_lex_mark(p, '=') && dl_lex_name(p, TOK_STRING, "a variant's name", &s->variant);
}

/* "schedule rows {over=[E], phases=1}", "schedule call {variant=\"64x64\"}", or nothing. */
static bool parse_schedule(dl_parser *p, dl_kernel *k) {
    bool yes, named = false, more;
    dl_loc loc;
    dl_loop_schedule *s = &k->schedule;
    while (p->tok.kind == TOK_LINE)
        if (!dl_lex(p)) return false;
    if (!dl_lex_accept_word(p, "schedule", &yes) || !yes) return !yes;
    dl_token at = p->tok;
    for (int i = DL_BY_NOTHING + 1; i < DL_NBYS && !named; i++) {
        if (!dl_lex_accept_word(p, dl_schedule_name((dl_loop_kind)i), &named)) return false;
        if (named) s->kind = (dl_loop_kind)i;
    }
    if (!named) return dl_lex_fail(p, &at, "'%.60s' is no schedule of a kernel", at.text);
    if (!dl_schedule_has_phases(s->kind)) {
        if (!dl_schedule_has_variants(s->kind)) return dl_lex_end_line(p, &loc);
        if (!dl_lex_accept(p, '{', &more)) return false;
        if (more && !(parse_variant(p, s) && dl_lex_mark(p, '}'))) return false;
        return dl_lex_end_line(p, &loc);
    }
    int64_t phases = 0;
    if (!dl_lex_mark(p, '{')) return false;
    if (dl_schedule_has_axes(s->kind) && (!parse_over(p, k, &s->axes) || !dl_lex_mark(p, ',')))
        return false;
    if (!dl_lex_accept_word(p, "phases", &named)) return false;
    if (!named) return dl_lex_expected(p, "phases");
    if (!dl_lex_mark(p, '=') || !dl_lex_int(p, 0, 1 << 20, "phases", &phases)) return false;
    s->phases = (int)phases;
    if (dl_schedule_has_variants(s->kind) &&
        (!dl_lex_accept(p, ',', &more) || (more && !parse_variant(p, s))))
        return false;
    return dl_lex_mark(p, '}') && dl_lex_end_line(p, &loc);
}

/* The locations after the closing brace, then the end of its line. */
static bool parse_locs(dl_parser *p, dl_kernel *k) {
    if (p->tok.kind == TOK_LINE) {
        int max = (int)(p->tok.n / 4) + 1; /* "a:1 " */
        dl_loc *locs = DL_NEWS(p->scratch, dl_loc, max);
        int n = dl_lex_locs(p, p->tok.at, p->tok.n, locs, max);
        for (int i = 0; i < n; i++) dl_push(p->m->arena, &k->locs, locs[i]);
    }
    dl_loc loc;
    return dl_lex_end_line(p, &loc);
}

static bool parse_body(dl_parser *p, dl_kernel *k) {
    dl_loc loc;
    if (!dl_lex_name(p, TOK_AT, "the kernel's name (@k0)", &k->name)) return false;
    if (!parse_params(p, k, false)) return false;
    if (p->tok.kind != TOK_ARROW) return dl_lex_expected(p, "'->'");
    if (!dl_lex(p) || !parse_params(p, k, true)) return false;
    bool space;
    if (!dl_lex_accept_word(p, "space", &space)) return false;
    if (!space) return dl_lex_expected(p, "space(...)");
    if (!dl_lex_mark(p, '(') || !dl_parse_axes(p, ')', &k->nspace, k->space)) return false;
    if (!parse_cost(p, k) || !dl_lex_mark(p, '{') || !dl_lex_end_line(p, &loc)) return false;
    if (!parse_schedule(p, k)) return false;
    for (;;) {
        while (p->tok.kind == TOK_LINE)
            if (!dl_lex(p)) return false;
        bool end;
        if (!dl_lex_accept(p, '}', &end)) return false;
        if (end) return parse_locs(p, k);
        if (!parse_instr(p, k)) return false;
    }
}

dl_kernel *dl_parse_kernel(dl_parser *p) {
    dl_kernel *k = DL_NEW(p->m->arena, dl_kernel);
    return parse_body(p, k) ? k : NULL;
}

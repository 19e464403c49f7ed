/* rearrange: einops' pattern language over named axes.
 *
 * The pattern's names are its own; the left side matches the operand's axes in order. The op's
 * attribute is the pattern with all sizes of split axes written out ("n (h=45 p=8) -> ..."), so
 * that it is complete. Axes of size 1, written `1` (or `()`), are removed before the op and
 * inserted after it: the op itself has only names. */
#include <ctype.h>

#include "frontends/dl/builtin.h"

typedef struct {
    const char *name;
    int64_t size; /* -1: not yet known */
    int group;    /* the group (axis of its side) that it belongs to */
} atom;

typedef struct {
    atom at[DL_MAX_ATOMS];
    int n, groups;
    bool merged[DL_MAX_RANK + 1]; /* the group is in parentheses */
    int atoms[DL_MAX_RANK + 1];   /* number of names in each group; none: `1` */
} side;

static bool bad(dl_call *c, const char *why) {
    dl_bad(c->E, c->arg[1].origin, DL_DIAG_bad_pattern, "rearrange \"%.100s\": %s", c->arg[1].s,
           why);
    dl_help(c->E, "write it like \"n c (h p) w -> n (p c) h w\"");
    return false;
}

static bool parse_side(dl_call *c, const char *p, const char *end, side *s) {
    bool inside = false;
    *s = (side){0};
    while (p < end) {
        if (*p == ' ') {
            p++;
        } else if (*p == '(' || *p == ')') {
            if (inside == (*p == '(')) return bad(c, "the parentheses do not match");
            inside = *p == '(';
            if (inside && s->groups == DL_MAX_RANK) return bad(c, "more than 8 axes");
            if (inside) s->merged[s->groups++] = true;
            p++;
        } else if (isalpha((unsigned char)*p) || *p == '_') {
            const char *from = p;
            while (p < end && (isalnum((unsigned char)*p) || *p == '_')) p++;
            if (s->n == DL_MAX_ATOMS) return bad(c, "more than 16 names");
            if (!inside && s->groups == DL_MAX_RANK) return bad(c, "more than 8 axes");
            const char *name = dl_intern_n(from, (size_t)(p - from));
            for (int i = 0; i < s->n; i++)
                if (s->at[i].name == name)
                    return bad(c, dl_format(c->E->arena, "'%.60s' stands twice on one side", name));
            if (!inside) s->groups++;
            s->at[s->n++] = (atom){name, -1, s->groups - 1};
            s->atoms[s->groups - 1]++;
        } else if (*p == '1' && (p + 1 == end || !isalnum((unsigned char)p[1]))) {
            if (!inside && s->groups == DL_MAX_RANK) return bad(c, "more than 8 axes");
            if (!inside) s->groups++; /* within parentheses it only multiplies by 1 */
            p++;
        } else
            return bad(c, "only names, `1`, spaces and parentheses may stand in a pattern");
    }
    return !inside || bad(c, "a parenthesis is not closed");
}

static atom *find(side *s, const char *name) {
    for (int i = 0; i < s->n; i++)
        if (s->at[i].name == name) return &s->at[i];
    return NULL;
}

/* Computes the sizes of the names, from the operand and the arguments. */
static bool solve(dl_call *c, side *left, const dl_type *t) {
    for (int i = 0; i < c->keyed.items.n; i++) {
        dl_val v = c->keyed.items.at[i];
        atom *a = find(left, v.name);
        if (!a) return bad(c, dl_format(c->E->arena, "it has no name '%.60s' on the left", v.name));
        const char *name = v.name;
        if (!dl_val_count(c->E, v, 1, dl_format(c->E->arena, "rearrange: '%.60s'", name), &a->size))
            return false;
    }
    for (int g = 0; g < left->groups; g++) {
        int64_t known = 1, size = t->axis[g].size;
        atom *open = NULL;
        for (int i = 0; i < left->n; i++) {
            atom *a = &left->at[i];
            if (a->group != g) continue;
            if (a->size < 0 && open)
                return bad(c, dl_format(c->E->arena, "give the size of '%.60s' or '%.60s'",
                                        open->name, a->name));
            if (a->size < 0)
                open = a;
            else if (__builtin_mul_overflow(known, a->size, &known))
                return bad(c, "the sizes multiply beyond 64 bits");
        }
        if (!left->atoms[g] && size != 1) {
            dl_bad(c->E, c->arg[1].origin, DL_DIAG_bad_pattern,
                   "rearrange: `1` stands for the axis %s=%lld", t->axis[g].name, (long long)size);
            dl_note_tensor(c->E, c->arg[0]);
            return false;
        }
        bool divides = open ? size % known == 0 : size == known;
        if (!divides) {
            dl_bad(c->E, c->where, DL_DIAG_bad_pattern,
                   "rearrange: the axis %s=%lld cannot be split into parts of %lld",
                   t->axis[g].name, (long long)size, (long long)known);
            dl_note_tensor(c->E, c->arg[0]);
            return false;
        }
        if (open) open->size = size / known;
    }
    return true;
}

static void print_side(dl_buf *b, const side *s, bool sizes) {
    bool further = false;
    for (int g = 0; g < s->groups; g++) {
        if (!s->atoms[g]) continue;
        if (further) dl_puts(b, " ");
        further = true;
        if (s->merged[g]) dl_puts(b, "(");
        bool first = true;
        for (int i = 0; i < s->n; i++) {
            if (s->at[i].group != g) continue;
            dl_putf(b, "%s%s", first ? "" : " ", s->at[i].name);
            if (sizes && s->merged[g]) dl_putf(b, "=%lld", (long long)s->at[i].size);
            first = false;
        }
        if (s->merged[g]) dl_puts(b, ")");
    }
}

/* The name of the result's axis g: from `as`, or that of the equal operand axis. */
static const char *result_name(dl_call *c, const side *left, const side *right, int g) {
    if (c->as) {
        const dl_ast *arg = c->as->items.list.at[g];
        return arg->name ? arg->name : arg->a->kind == DL_A_NAME ? arg->a->name : dl_intern("");
    }
    if (!right->atoms[g]) return dl_intern(""); /* of size 1: no name is needed */
    if (right->merged[g]) return NULL;
    for (int i = 0; i < right->n; i++)
        if (right->at[i].group == g)
            for (int k = 0; k < left->n; k++)
                if (left->at[k].name == right->at[i].name)
                    return left->merged[left->at[k].group]
                               ? NULL
                               : c->arg[0].t->type.axis[left->at[k].group].name;
    return NULL;
}

static bool result_type(dl_call *c, side *left, side *right, dl_type *t) {
    *t = dl_scalar(c->arg[0].t->type.dtype);
    if (c->as && c->as->items.list.n != right->groups) {
        dl_bad(c->E, c->as->at, DL_DIAG_rank_mismatch,
               "`as` names %d axes, but the pattern makes %d", c->as->items.list.n, right->groups);
        return false;
    }
    for (int g = 0; g < right->groups; g++) {
        const char *name = result_name(c, left, right, g);
        int64_t size = 1;
        if (!name) {
            dl_bad(c->E, c->arg[1].origin, DL_DIAG_unnamed_axis,
                   "axis %d of the result has no name", g + 1);
            dl_help(c->E, "name the result's axes: |> rearrange(...) as [N, T, E]");
            return false;
        }
        for (int i = 0; i < right->n; i++)
            if (right->at[i].group == g) size *= right->at[i].size;
        if (*name && dl_type_axis(t, name) >= 0) {
            dl_bad(c->E, c->as ? c->as->span : c->where, DL_DIAG_duplicate_axis,
                   "the axis %s is named twice", name);
            return false;
        }
        t->axis[t->rank++] = (dl_axis){name, size};
    }
    return true;
}

/* The type without the axes that are `1` on this side. */
static dl_type without_ones(const side *s, const dl_type *t) {
    dl_type r = dl_scalar(t->dtype);
    for (int g = 0; g < s->groups; g++)
        if (s->atoms[g]) r.axis[r.rank++] = t->axis[g];
    return r;
}

/* The same elements with another type, if it differs. */
static dl_val retype(dl_call *c, dl_val x, dl_type t) {
    if (x.kind != DL_V_TENSOR || dl_type_same(&x.t->type, &t)) return x;
    return dl_tensor_op(c->E, c->where, DL_OP_reshape, 1, &x, 0, NULL, &t);
}

dl_val dl_fn_rearrange(dl_call *c) {
    side left, right;
    const char *text = c->arg[1].s, *arrow = strstr(text, "->");
    const dl_type *t = &c->arg[0].t->type;
    if (!arrow) return bad(c, "there is no '->'"), dl_poison();
    if (!parse_side(c, text, arrow, &left) ||
        !parse_side(c, arrow + 2, text + strlen(text), &right))
        return dl_poison();
    if (left.groups != t->rank) {
        dl_bad(c->E, c->arg[1].origin, DL_DIAG_bad_pattern,
               "the pattern names %d axes, but the tensor has %d: %s", left.groups, t->rank,
               dl_type_text(t));
        dl_note_tensor(c->E, c->arg[0]);
        return dl_poison();
    }
    if (!solve(c, &left, t)) return dl_poison();
    for (int i = 0; i < right.n; i++) {
        atom *a = find(&left, right.at[i].name);
        if (!a)
            return bad(c, dl_format(c->E->arena, "'%.60s' stands only on the right",
                                    right.at[i].name)),
                   dl_poison();
        right.at[i].size = a->size;
    }
    for (int i = 0; i < left.n; i++)
        if (!find(&right, left.at[i].name))
            return bad(c,
                       dl_format(c->E->arena, "'%.60s' stands only on the left", left.at[i].name)),
                   dl_poison();
    dl_type type;
    if (!result_type(c, &left, &right, &type)) return dl_poison();
    dl_val x = retype(c, c->arg[0], without_ones(&left, t));
    if (left.n == 0 || x.kind != DL_V_TENSOR) return retype(c, x, type);
    dl_type named = without_ones(&right, &type);
    dl_buf b = {0};
    print_side(&b, &left, true), dl_puts(&b, " -> "), print_side(&b, &right, false);
    dl_attr pattern = {.id = DL_ATTR_pattern, .s = dl_intern(b.at)};
    dl_buf_free(&b);
    return retype(c, dl_tensor_op(c->E, c->where, DL_OP_rearrange, 1, &x, 1, &pattern, &named),
                  type);
}

/* Rules of products over named axes: matrix products, einsum. */
#include "imports/dl/rules.h"

/* A letter of the operation, as the pattern shows it, and the axis that it stands for. */
typedef struct {
    char letter, shown;
    const char *name;
    dl_in_axis axis;
} contracted;

enum { LETTERS = 26 };

typedef struct {
    contracted at[LETTERS];
    int n;
} contraction;

static bool has_name(const contraction *of, const char *name) {
    for (int i = 0; i < of->n; i++)
        if (!strcmp(of->at[i].name, name)) return true;
    return false;
}

static bool is_shown(const contraction *of, char letter) {
    for (int i = 0; i < of->n; i++)
        if (of->at[i].shown == letter) return true;
    return false;
}

/* Shows the axis by the first letter of its name; where that letter or name is taken, by a spare
 * letter, and a taken name becomes that letter. */
static void choose_letter(dl_in_ctx *c, const contraction *of, contracted *axis) {
    static const char spare[] = "stkjlpqruvwxymoabcdefghin";
    bool same = has_name(of, axis->name);
    axis->shown = (char)(axis->name[0] | 32);
    if (!same && !is_shown(of, axis->shown)) return;
    for (const char *p = spare; *p; p++) {
        char capital[2] = {(char)(*p - 32), 0};
        if (is_shown(of, *p) || has_name(of, capital)) continue;
        axis->shown = *p;
        if (same) axis->name = dl_strdup(c->w->arena, capital);
        return;
    }
}

/* Axes of x are those of its dimensions, none of size 1: such a size meets any other. */
static void prepare_operand(dl_in_ctx *c, dl_in_value *x) {
    dl_whole(c, x);
    for (int a = 0; a < x->n; a++)
        if (x->axis[a].name && !strcmp(x->axis[a].name, "1")) {
            dl_ordered(c, x, false);
            break;
        }
    for (int d = 0; d < x->rank; d++)
        if (dl_is_one(c->w, x, d)) {
            x->dim[d].n = 0;
            dl_drop_ones(c, x);
        }
    dl_whole(c, x);
    if (x->pair) dl_end_in_parts(c, x);
}

static int find_letter(const contraction *of, char letter) {
    int at = 0;
    while (at < of->n && of->at[at].letter != letter) at++;
    return at;
}

/* Adds an operand's letters to the pattern. False: it has no pattern. */
static bool put_operand(dl_in_ctx *c, contraction *of, dl_in_value *x, const char *letters,
                        dl_buf *pattern) {
    int rank = x->rank - x->pair;
    for (int d = 0; d < rank; d++)
        if (memchr(letters, letters[d], (size_t)d)) return false;
    for (int a = 0; a < x->n - x->pair; a++) {
        int d = 0;
        while (d < x->rank && dl_axis_of(x, d) != a) d++;
        if (d == x->rank) return false;
        int at = find_letter(of, letters[d]);
        if (at == of->n) {
            if (of->n == LETTERS) return false;
            contracted axis = {.letter = letters[d], .name = dl_axis_name(c, x, d)};
            choose_letter(c, of, &axis);
            axis.axis = x->axis[a];
            of->at[of->n++] = axis;
        } else if (!x->axis[a].name) {
            dl_axis_name(c, x, d);
        }
        dl_putf(pattern, "%c", of->at[at].shown);
    }
    return true;
}

bool dl_contract(dl_in_ctx *c, int n, dl_in_value *const *v, const char *const *letters,
                 const char *result) {
    contraction known = {.n = 0};
    int parts = n && v[0]->pair; /* of complex numbers: an axis without a letter */
    dl_buf pattern = {0};
    for (int k = 0; k < n; k++) {
        if (v[k]->pair != parts) return dl_buf_free(&pattern), false;
        prepare_operand(c, v[k]);
        if (k) dl_puts(&pattern, ",");
        if (!put_operand(c, &known, v[k], letters[k], &pattern))
            return dl_buf_free(&pattern), false;
    }
    dl_in_value *made = DL_NEW(c->w->arena, dl_in_value);
    *made = (dl_in_value){.param = -1, .class = DL_FOREIGN_FLOAT};
    dl_puts(&pattern, "->");
    for (const char *p = result; *p; p++) {
        int at = find_letter(&known, *p);
        if (at < known.n) {
            dl_in_axis *axis = &made->axis[made->n];
            *axis = known.at[at].axis, axis->name = known.at[at].name;
            dl_own_atoms(c, axis, made->n, made->axis);
            made->dim[made->rank].n = axis->n;
            memcpy(made->dim[made->rank].atom, axis->atom, sizeof axis->atom);
            made->n++;
            dl_putf(&pattern, "%c", known.at[at].shown);
        }
        made->rank++;
    }
    if (parts) {
        const dl_in_axis *last = &v[0]->axis[v[0]->n - 1];
        if (made->n == DL_FOREIGN_RANK || made->rank == DL_FOREIGN_RANK)
            return dl_buf_free(&pattern), false;
        made->axis[made->n++] = *last;
        made->dim[made->rank].n = 1, made->dim[made->rank++].atom[0] = last->atom[0];
    }
    const char *function = parts ? "complex_einsum" : "einsum";
    made->stmt = dl_say(c, STMT_PLAIN, P_POSTFIX, "%s(\"%s\"", function, pattern.at);
    for (int k = 0; k < n; k++) dl_say_more(c, ", %v", v[k]);
    dl_say_more(c, ")");
    dl_buf_free(&pattern);
    dl_set(c, 0, made);
    return true;
}

bool dl_multiply_complex(dl_in_ctx *c, dl_in_value *a, dl_in_value *b) {
    static const char alphabet[] = "abcdefgh";
    int m = a->rank - 1, n = b->rank - 1, most = m > n ? m : n;
    if (m < 1 || n < 1) return false; /* a pattern has letters */
    return dl_contract(c, 2, (dl_in_value *[]){a, a == b ? dl_copy_value(c, b) : b},
                       (const char *[]){dl_strndup(c->w->arena, alphabet + most - m, (size_t)m),
                                        dl_strndup(c->w->arena, alphabet + most - n, (size_t)n)},
                       dl_strndup(c->w->arena, alphabet, (size_t)most));
}

/* A tensor is both operands: its axes get names of their own. */
static dl_in_value *other_copy(dl_in_ctx *c, dl_in_value *a, dl_in_value *b) {
    return a == b ? dl_copy_value(c, b) : b;
}

static bool matmul_of(dl_in_ctx *c, dl_in_value *a, dl_in_value *b) {
    int m = a->rank - a->pair, n = b->rank - b->pair;
    if (m < 1 || n < 1 || m > 7 || n > 7) return false;
    char left[9] = "", right[9] = "", result[9] = "";
    int batch = (m > n ? m : n) - 2;
    for (int i = 0; i < m - 2; i++) left[i] = (char)('a' + batch - (m - 2) + i);
    for (int i = 0; i < n - 2; i++) right[i] = (char)('a' + batch - (n - 2) + i);
    for (int i = 0; i < batch; i++) result[i] = (char)('a' + i);
    int r = batch > 0 ? batch : 0;
    if (m >= 2) left[m - 2] = 'x', result[r++] = 'x';
    left[m - 1] = 'y';
    if (n >= 2)
        right[n - 2] = 'y', right[n - 1] = 'z', result[r++] = 'z';
    else
        right[0] = 'y';
    return dl_contract(c, 2, (dl_in_value *[]){a, other_copy(c, a, b)},
                       (const char *[]){left, right}, result);
}

bool dl_in_matmul(dl_in_ctx *c) {
    dl_in_value *a = dl_operand(c, "self"), *b = dl_operand(c, "other");
    if (!b) b = dl_operand(c, "mat2");
    return a && b && matmul_of(c, a, b);
}

bool dl_in_addmm(dl_in_ctx *c) {
    dl_in_value *bias = dl_operand(c, "self"), *a = dl_operand(c, "mat1"),
                *b = dl_operand(c, "mat2");
    if (!a || !b || !bias || dl_foreign_real(c->n, "alpha", 1) != 1 ||
        dl_foreign_real(c->n, "beta", 1) != 1 || !matmul_of(c, a, b))
        return false;
    dl_in_value *y = c->b->of[c->n->results[0]->id], *made = dl_match(c, y, bias);
    return dl_done(c, made, dl_say(c, STMT_PLAIN, P_SUM, "%p + %p", y, P_SUM, bias, P_PRODUCT));
}

enum { OPERANDS = 8 };

/* Adds letters of `from` to `to`: those in place of "..." are the last n of `spare`. False: there
 * is no room, or a dot too few. */
static bool spell(char *to, const char *from, const char *spare, int n) {
    size_t used = 0;
    for (const char *p = from; *p; p++) {
        bool dots = *p == '.';
        if (dots && (strncmp(p, "...", 3) != 0 || n < 0)) return false;
        if (used + (dots ? (size_t)n : 1) > 2 * DL_FOREIGN_RANK) return false;
        if (dots)
            memcpy(to + used, spare + DL_FOREIGN_RANK - n, (size_t)n), used += (size_t)n, p += 2;
        else
            to[used++] = *p;
    }
    to[used] = 0;
    return true;
}

/* The result's letters where the equation has none: those that stand once, in order, after "...".
 */
static const char *implied(dl_in_ctx *c, const char *text) {
    dl_buf out = {0};
    dl_puts(&out, strchr(text, '.') ? "..." : "");
    for (char letter = 'A'; letter <= 'z'; letter++) {
        const char *first = strchr(text, letter);
        bool is_letter = (letter | 32) >= 'a' && (letter | 32) <= 'z';
        if (is_letter && first && !strchr(first + 1, letter)) dl_putf(&out, "%c", letter);
    }
    const char *made = dl_strdup(c->w->arena, out.at);
    dl_buf_free(&out);
    return made;
}

bool dl_in_einsum(dl_in_ctx *c) {
    const char *equation = dl_foreign_text(c->n, "equation", ""), *result;
    const dl_foreign_arg *list = dl_foreign_find(c->n, "tensors");
    char text[128], letters[OPERANDS][2 * DL_FOREIGN_RANK + 1], last[2 * DL_FOREIGN_RANK + 1],
        spare[DL_FOREIGN_RANK + 1], *at = text;
    const char *given[OPERANDS];
    size_t used = 0;
    for (const char *p = equation; *p && used < sizeof text - 1; p++)
        if (*p != ' ') text[used++] = *p;
    text[used] = 0;
    char *arrow = strstr(text, "->");
    if (!list || list->n < 1 || list->n > OPERANDS) return false;
    result = arrow ? arrow + 2 : implied(c, text);
    if (arrow) *arrow = 0;
    int n = 0, most = 0;
    for (char letter = 'A'; letter <= 'Z' && n < DL_FOREIGN_RANK; letter++)
        if (!strchr(equation, letter)) spare[n++] = letter;
    if (n < DL_FOREIGN_RANK) return false;
    dl_in_value *v[OPERANDS];
    for (int i = 0; i < list->n; i++) {
        const char *own = strsep(&at, ",");
        if (!own || !list->tensors[i]) return false;
        v[i] = dl_value_of(c, list->tensors[i]);
        int rank = v[i]->rank - v[i]->pair, dots = strchr(own, '.') ? 3 : 0;
        int open = dots ? rank - (int)strlen(own) + dots : 0;
        if (open > DL_FOREIGN_RANK || !spell(letters[i], own, spare, open)) return false;
        if ((int)strlen(letters[i]) != rank) return false;
        if (open > most) most = open;
        given[i] = letters[i];
        for (int k = 0; k < i; k++)
            if (v[k] == v[i]) v[i] = dl_copy_value(c, v[i]);
    }
    return spell(last, result, spare, most) && dl_contract(c, list->n, v, given, last);
}

/* The dimensions that tensordot sums over, in pairs. */
bool dl_in_tensordot(dl_in_ctx *c) {
    dl_in_value *a = dl_operand(c, "self"), *b = dl_operand(c, "other");
    const dl_foreign_arg *x = dl_foreign_find(c->n, "dims_self"),
                         *y = dl_foreign_find(c->n, "dims_other");
    if (!a || !b || !x || !y || x->n != y->n) return false;
    int m = a->rank - a->pair, n = b->rank - b->pair, r = 0;
    char left[9] = "abcdefgh", right[9] = "ijklmnop", result[17] = "";
    left[m] = right[n] = 0;
    for (int i = 0; i < x->n; i++) {
        int d = dl_dim(a, x->ints[i]), e = dl_dim(b, y->ints[i]);
        if (d < 0 || d >= m || e < 0 || e >= n) return false;
        right[e] = left[d];
    }
    for (int d = 0; d < m; d++)
        if (!strchr(right, left[d])) result[r++] = left[d];
    for (int e = 0; e < n; e++)
        if (!strchr(left, right[e])) result[r++] = right[e];
    return dl_contract(c, 2, (dl_in_value *[]){a, other_copy(c, a, b)},
                       (const char *[]){left, right}, result);
}

/* detail: letters of the operands and of the result; the second operand's name */
bool dl_in_product(dl_in_ctx *c) {
    char copy[64], *at = copy;
    strncpy(copy, c->detail, sizeof copy - 1), copy[sizeof copy - 1] = 0;
    const char *left = strsep(&at, " "), *right = strsep(&at, " "), *result = strsep(&at, " ");
    dl_in_value *a = dl_operand(c, "self"), *b = dl_operand(c, at);
    if (!a || !b || a->rank - a->pair != (int)strlen(left) ||
        b->rank - b->pair != (int)strlen(right))
        return false;
    return dl_contract(c, 2, (dl_in_value *[]){a, other_copy(c, a, b)},
                       (const char *[]){left, right}, result);
}

bool dl_in_baddbmm(dl_in_ctx *c) {
    dl_in_value *bias = dl_operand(c, "self"), *a = dl_operand(c, "batch1"),
                *b = dl_operand(c, "batch2");
    double alpha = dl_foreign_real(c->n, "alpha", 1), beta = dl_foreign_real(c->n, "beta", 1);
    if (!a || !b || (beta != 0 && (beta != 1 || !bias)) || !matmul_of(c, a, b)) return false;
    dl_in_value *y = c->b->of[c->n->results[0]->id], *made = y;
    if (alpha != 1) {
        made = dl_copy_value(c, y);
        made->stmt = dl_say(c, STMT_PLAIN, P_PRODUCT, "%r * %p", "alpha", alpha, y, P_UNARY);
        dl_set(c, 0, y = made);
    }
    if (beta == 0) return true;
    made = dl_match(c, y, bias);
    return dl_done(c, made, dl_say(c, STMT_PLAIN, P_SUM, "%p + %p", y, P_SUM, bias, P_PRODUCT));
}

/* g * v / norm(v) over all dimensions but one */
bool dl_in_weight_norm(dl_in_ctx *c) {
    dl_in_value *v = dl_operand(c, "v"), *g = dl_operand(c, "g");
    if (!v || !g) return false;
    int d = dl_dim(v, dl_foreign_int(c->n, "dim", 0));
    dl_ordered(c, v, true);
    if (d < 0 || d >= v->rank) return false;
    for (int k = 0; k < v->rank; k++) dl_axis_name(c, v, k);
    dl_in_value *made = dl_match(c, v, g);
    int s = dl_say(c, STMT_PLAIN, P_PRODUCT, "%p * (%p / norm(%v, over=[", v, P_PRODUCT, g,
                   P_PRODUCT, v);
    bool first = true;
    for (int k = 0; k < v->rank; k++)
        if (k != d) {
            dl_say_more(c, "%s%s", first ? "" : ", ", v->axis[k].name);
            first = false;
        }
    dl_say_more(c, "]))");
    return !first && dl_done(c, made, s);
}

/* b[o] + x1[..., i] weight[o, i, j] x2[..., j] */
bool dl_in_bilinear(dl_in_ctx *c) {
    dl_in_value *a = dl_operand(c, "input1"), *b = dl_operand(c, "input2"),
                *w = dl_operand(c, "weight"), *bias = dl_operand(c, "bias");
    char left[9] = "abcdefg", right[9] = "abcdefg", result[9] = "abcdefg";
    if (!a || !b || !w || a->rank != b->rank || a->rank < 1 || a->rank > 7 || w->rank != 3)
        return false;
    int n = a->rank;
    left[n - 1] = 'x', right[n - 1] = 'y', result[n - 1] = 'o', left[n] = right[n] = result[n] = 0;
    if (!dl_contract(c, 3, (dl_in_value *[]){a, w, other_copy(c, a, b)},
                     (const char *[]){left, "oxy", right}, result))
        return false;
    if (!bias) return true;
    dl_in_value *y = c->b->of[c->n->results[0]->id], *made = dl_match(c, y, bias);
    return dl_done(c, made, dl_say(c, STMT_PLAIN, P_SUM, "%p + %p", y, P_SUM, bias, P_PRODUCT));
}

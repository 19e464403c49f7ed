/* Values: the graph's tensors in terms of those in the text. */
#include "imports/dl/parts.h"

int64_t dl_atoms_size(const dl_writer *w, int n, const int *atom) {
    int64_t size = 1;
    for (int i = 0; i < n; i++) size *= w->atoms.at[atom[i]];
    return size;
}

int64_t dl_axis_size_of(const dl_writer *w, const dl_in_axis *a) {
    return dl_atoms_size(w, a->n, a->atom);
}

int64_t dl_dim_size(const dl_writer *w, const dl_in_value *v, int d) {
    return dl_atoms_size(w, v->dim[d].n, v->dim[d].atom);
}

bool dl_has_batch(int n, const int *atom) {
    for (int i = 0; i < n; i++)
        if (atom[i] == 0) return true;
    return false;
}

bool dl_is_one(const dl_writer *w, const dl_in_value *v, int d) {
    return v->dim[d].n > 0 && !dl_has_batch(v->dim[d].n, v->dim[d].atom) &&
           dl_dim_size(w, v, d) == 1;
}

int dl_new_atom(dl_writer *w, int64_t size) {
    dl_push(w->arena, &w->atoms, size);
    return w->atoms.n - 1;
}

dl_in_value *dl_copy_value(dl_in_ctx *c, const dl_in_value *v) {
    dl_in_value *copy = DL_NEW(c->w->arena, dl_in_value);
    *copy = *v;
    copy->is_view = true;
    return copy;
}

void dl_set(dl_in_ctx *c, int result, dl_in_value *v) {
    if (result < c->n->n_results) {
        v->class = c->n->results[result]->class, v->pair = c->n->results[result]->pair;
        c->b->of[c->n->results[result]->id] = v;
    }
}

int dl_axis_of(const dl_in_value *v, int d) {
    for (int a = 0; a < v->n; a++)
        if (v->dim[d].n > 0 && v->axis[a].n == v->dim[d].n &&
            memcmp(v->axis[a].atom, v->dim[d].atom, (size_t)v->dim[d].n * sizeof(int)) == 0)
            return a;
    return -1;
}

int dl_dim(const dl_in_value *v, int64_t d) { return (int)(d < 0 ? d + v->rank - v->pair : d); }

const char dl_parts_axis[] = "Z";
bool dl_is_parts(const dl_foreign_tensor *t, int d) { return t->pair && d == t->rank - 1; }

/* ---- names ---- */

static const char *const roles[][DL_FOREIGN_RANK] = {
    {"E"}, {"N", "E"}, {"N", "T", "E"}, {"N", "C", "H", "W"}, {"N", "C", "D", "H", "W"}};
static const char *const spare[] = {"S", "G", "P", "Q", "R", "K", "M", "U", "V", "X",
                                    "Y", "A", "B", "F", "I", "J", "L", "O", "D"};

static bool has_name(const dl_in_value *v, const char *name) {
    for (int a = 0; a < v->n; a++)
        if (v->axis[a].name && strcmp(v->axis[a].name, name) == 0) return true;
    return false;
}

const char *dl_fresh_name(const dl_in_value *v, int d, int rank) {
    static const char *const heads[] = {"N", "G", "T", "D"};
    const char *role = rank >= 1 && rank <= 5 ? roles[rank - 1][d] : NULL;
    if (rank == 4 && has_name(v, "T")) role = heads[d];
    if (role && strcmp(role, "N") != 0 && !has_name(v, role)) return role;
    for (size_t i = 0; i < sizeof spare / sizeof *spare; i++)
        if (!has_name(v, spare[i])) return spare[i];
    return "AA";
}

void dl_take_names(dl_in_ctx *c, dl_in_value *v) {
    for (int a = 0; v->param >= 0 && a < v->n; a++)
        if (!v->axis[a].name) v->axis[a].name = c->b->stmts.at[v->param].axis[a];
}

/* A parameter's axis gets its name at its first use. */
static void choose(dl_in_ctx *c, dl_in_value *v, int a, const char *name) {
    v->axis[a].name = name;
    if (v->param >= 0) c->b->stmts.at[v->param].axis[a] = name;
}

void dl_name_all(dl_in_ctx *c, dl_in_value *v) {
    dl_take_names(c, v);
    for (int a = 0; a < v->n; a++)
        if (!v->axis[a].name) choose(c, v, a, dl_fresh_name(v, a, v->n - v->pair));
}

const char *dl_axis_name(dl_in_ctx *c, dl_in_value *v, int d) {
    int a = dl_axis_of(v, d);
    dl_take_names(c, v);
    if (a >= 0 && !v->axis[a].name) choose(c, v, a, dl_fresh_name(v, d, v->rank - v->pair));
    return a >= 0 ? v->axis[a].name : NULL;
}

static void say_names(dl_in_ctx *c, const dl_in_value *v) {
    dl_say_more(c, " as [");
    for (int a = 0; a < v->n; a++) dl_say_more(c, "%s%s", a ? ", " : "", v->axis[a].name);
    dl_say_more(c, "]");
}

/* The statement repeats a number along named axes: it is written anew with other names. */
static bool refill(dl_in_ctx *c, dl_in_value *v, const char *const *name) {
    const dl_in_stmt *s = &c->b->stmts.at[v->stmt];
    if (s->style != STMT_PLAIN || s->pieces.n < 2 || s->pieces.at[0].kind != PIECE_TEXT ||
        strncmp(s->pieces.at[0].text, "expand(", 7) != 0)
        return false;
    for (int i = 0; i < s->pieces.n; i++)
        if (s->pieces.at[i].kind == PIECE_REF) return false;
    for (int a = 0; a < v->n; a++)
        if (v->axis[a].atom[0] == 0 || !strcmp(v->axis[a].name, "1")) return false;
    size_t n = strcspn(s->pieces.at[0].text, ",");
    const char *begin = dl_strndup(c->w->arena, s->pieces.at[0].text, n);
    v->stmt = dl_say(c, STMT_PLAIN, P_POSTFIX, "%s", begin);
    for (int a = 0; a < v->n; a++) {
        v->axis[a].name = name[a];
        dl_say_more(c, ", %s=%i", name[a], "size", dl_axis_size_of(c->w, &v->axis[a]));
    }
    dl_say_more(c, ")");
    return true;
}

void dl_rename(dl_in_ctx *c, dl_in_value *v, const char *const *name) {
    bool differs = false;
    dl_take_names(c, v);
    for (int a = 0; a < v->n; a++) {
        if (!v->axis[a].name) choose(c, v, a, name[a]);
        differs = differs || strcmp(v->axis[a].name, name[a]) != 0;
    }
    if (!differs || refill(c, v, name)) return;
    if (has_name(v, "1")) { /* `as` takes no axis without a name */
        dl_in_value old = *v;
        const char *left[DL_FOREIGN_RANK] = {0};
        dl_ordered(c, v, false);
        for (int a = 0; a < v->n; a++)
            for (int k = 0; k < old.n; k++)
                if (old.axis[k].n && v->axis[a].n && old.axis[k].atom[0] == v->axis[a].atom[0])
                    left[a] = name[k];
        for (int a = 0; a < v->n; a++)
            if (!left[a]) left[a] = v->axis[a].name;
        if (!has_name(v, "1")) dl_rename(c, v, left);
        return;
    }
    int s = dl_say(c, STMT_PLAIN, P_PIPE, "%v", v);
    for (int a = 0; a < v->n; a++) v->axis[a].name = name[a];
    v->stmt = s, v->param = -1;
    say_names(c, v);
}

/* ---- forms ---- */

static bool is_used(const dl_in_value *v, int atom) {
    for (int d = 0; d < v->rank; d++)
        for (int i = 0; i < v->dim[d].n; i++)
            if (v->dim[d].atom[i] == atom) return true;
    return false;
}

static bool is_whole(const dl_in_value *v) {
    for (int d = 0; d < v->rank; d++)
        if (v->dim[d].n && dl_axis_of(v, d) < 0) return false;
    for (int a = 0; a < v->n; a++) {
        if (v->axis[a].name && !strcmp(v->axis[a].name, "1")) continue; /* it meets no other axis */
        for (int i = 0; i < v->axis[a].n; i++)
            if (!is_used(v, v->axis[a].atom[i])) return false;
    }
    return true;
}

static bool in_order(const dl_in_value *v) {
    int next = 0;
    for (int d = 0; d < v->rank; d++)
        if (v->dim[d].n && dl_axis_of(v, d) != next++) return false;
    return next == v->n;
}

/* Whether an axis' atom i follows its atom i - 1 in the dimensions, too: the pattern needs no word
 * of its own for it. */
static bool is_joined(const dl_in_value *v, const dl_in_axis *axis, int i) {
    if (i == 0) return false;
    for (int d = 0; d < v->rank; d++)
        for (int k = 0; k < v->dim[d].n; k++)
            if (v->dim[d].atom[k] == axis->atom[i])
                return k > 0 && v->dim[d].atom[k - 1] == axis->atom[i - 1];
    return false;
}

/* The word of an atom in a pattern: that of its axis, where it is the whole axis. NULL: none. */
static const char *word(dl_writer *w, const dl_in_value *v, int atom) {
    for (int a = 0; a < v->n; a++)
        for (int i = 0; i < v->axis[a].n; i++) {
            if (v->axis[a].atom[i] != atom) continue;
            if (is_joined(v, &v->axis[a], i)) return NULL;
            int parts = 0, place = 0;
            for (int k = 0; k < v->axis[a].n; k++) {
                if (k == i) place = parts;
                parts += !is_joined(v, &v->axis[a], k);
            }
            char letter[2] = {(char)((v->axis[a].name ? v->axis[a].name[0] : 'x') | 32), 0};
            const char *first = dl_strdup(w->arena, letter);
            for (int b = 0; b < a; b++) /* two axes with one initial */
                if (v->axis[b].name && (v->axis[b].name[0] | 32) == letter[0])
                    first = dl_format(w->arena, "%s_%d_", letter, a);
            return parts == 1 ? first : dl_format(w->arena, "%s%d", first, place + 1);
        }
    return "1";
}

static void put_group(dl_writer *w, dl_buf *out, const dl_in_value *v, int n, const int *atom) {
    int words = 0;
    for (int i = 0; i < n; i++) words += word(w, v, atom[i]) != NULL;
    if (out->n) dl_puts(out, " ");
    if (n == 0) dl_puts(out, "1");
    if (words > 1) dl_puts(out, "(");
    for (int i = 0, k = 0; i < n; i++) {
        const char *text = word(w, v, atom[i]);
        if (text) dl_putf(out, "%s%s", k++ ? " " : "", text);
    }
    if (words > 1) dl_puts(out, ")");
}

/* The sizes that a pattern leaves open: of each split axis, all factors but one. */
static void say_sizes(dl_in_ctx *c, const dl_in_value *v) {
    for (int a = 0; a < v->n; a++) {
        int open = -1;
        for (int i = 0, last = 0; i < v->axis[a].n; i++) {
            if (!is_joined(v, &v->axis[a], i)) last = i;
            if (v->axis[a].atom[i] == 0 || open < 0) open = last;
        }
        for (int i = 0; i < v->axis[a].n; i++) {
            if (is_joined(v, &v->axis[a], i) || i == open) continue;
            int64_t size = c->w->atoms.at[v->axis[a].atom[i]];
            for (int k = i + 1; k < v->axis[a].n && is_joined(v, &v->axis[a], k); k++)
                size *= c->w->atoms.at[v->axis[a].atom[k]];
            dl_say_more(c, ", %s=%i", word(c->w, v, v->axis[a].atom[i]), "size", size);
        }
    }
}

/* rearrange("...") as [...], in the order of dimensions. */
static void rearrange(dl_in_ctx *c, dl_in_value *v, bool ones) {
    dl_buf left = {0}, right = {0};
    dl_name_all(c, v);
    dl_in_value made = {.param = -1, .rank = v->rank, .is_view = v->is_view};
    made.class = v->class, made.pair = v->pair;
    for (int a = 0; a < v->n; a++) {
        bool used = v->axis[a].n != 1 || is_used(v, v->axis[a].atom[0]);
        put_group(c->w, &left, v, used ? v->axis[a].n : 0, v->axis[a].atom);
    }
    int count = 0, at = 0;
    for (int d = 0; d < v->rank; d++) count += v->dim[d].n || ones;
    bool named = false;
    for (int d = 0; d < v->rank; d++) {
        made.dim[d].n = v->dim[d].n;
        memcpy(made.dim[d].atom, v->dim[d].atom, sizeof made.dim[d].atom);
        if (!v->dim[d].n && !ones) continue;
        int a = dl_axis_of(v, d);
        put_group(c->w, &right, v, v->dim[d].n, v->dim[d].atom);
        const char *name = a >= 0 && strcmp(v->axis[a].name, "1") != 0 ? v->axis[a].name : NULL;
        named = named || !name;
        dl_in_axis *to = &made.axis[made.n++];
        *to = (dl_in_axis){.name = name, .n = v->dim[d].n};
        memcpy(to->atom, v->dim[d].atom, sizeof to->atom);
        if (!to->n)
            to->n = made.dim[d].n = 1, to->atom[0] = made.dim[d].atom[0] = dl_new_atom(c->w, 1);
        at++;
    }
    for (int a = 0; a < made.n; a++)
        if (!made.axis[a].name)
            made.axis[a].name =
                made.axis[a].n == 1 && made.axis[a].atom[0] == 0 && !has_name(&made, "N")
                    ? "N"
                    : dl_fresh_name(&made, a, count);
    /* flattened space is a sequence of tokens, whose features are E */
    if (named && made.n == 3 && !strcmp(made.axis[0].name, "N") && !has_name(&made, "E") &&
        !strcmp(made.axis[1].name, "T"))
        made.axis[2].name = "E";
    made.stmt = dl_say(c, STMT_LAYER, P_PIPE, "%v |> rearrange(\"%s -> %s\"", v,
                       left.at ? left.at : "", right.at ? right.at : ""); /* a scalar has no axes */
    say_sizes(c, v);
    dl_say_more(c, ")");
    if (named) say_names(c, &made);
    *v = made;
    dl_buf_free(&left), dl_buf_free(&right);
}

void dl_drop_ones(dl_in_ctx *c, dl_in_value *v) {
    for (int a = v->n - 1; a >= 0; a--) {
        if (v->axis[a].n != 1 || c->w->atoms.at[v->axis[a].atom[0]] != 1 ||
            is_used(v, v->axis[a].atom[0]) || !v->axis[a].name || !strcmp(v->axis[a].name, "1"))
            continue;
        v->stmt = dl_say(c, STMT_PLAIN, P_POSTFIX, "%p[%s=0]", v, P_POSTFIX, v->axis[a].name);
        memmove(&v->axis[a], &v->axis[a + 1], (size_t)(v->n - 1 - a) * sizeof *v->axis);
        v->n--, v->param = -1;
    }
}

void dl_whole(dl_in_ctx *c, dl_in_value *v) {
    if (!is_whole(v)) dl_drop_ones(c, v);
    if (!is_whole(v)) rearrange(c, v, false);
}

void dl_ordered(dl_in_ctx *c, dl_in_value *v, bool ones) {
    if (!is_whole(v)) dl_drop_ones(c, v);
    if (!is_whole(v) || !in_order(v)) rearrange(c, v, ones);
    for (int d = 0; ones && d < v->rank; d++) {
        if (v->dim[d].n) continue;
        dl_name_all(c, v);
        const char *name = dl_fresh_name(v, d, v->rank);
        v->stmt = v->n == 0 /* it may be a number, of which unsqueeze knows nothing */
                      ? dl_call_function(c, "expand", v, ", %s=1", name)
                      : dl_call_function(c, "unsqueeze", v, ", over=%s, at=%s", name,
                                         dl_in_whole(c->w, d));
        memmove(&v->axis[d + 1], &v->axis[d], (size_t)(v->n - d) * sizeof *v->axis);
        int atom = dl_new_atom(c->w, 1);
        v->axis[d] = (dl_in_axis){.name = name, .n = 1, .atom = {atom}};
        v->dim[d].n = 1, v->dim[d].atom[0] = atom, v->n++, v->param = -1;
    }
    dl_name_all(c, v);
}

/* ---- reshape ---- */

/* Splits an atom into two factors, wherever it stands in the value. */
static bool split(dl_writer *w, dl_in_value *v, int atom, int64_t outer, int *first) {
    int a = dl_new_atom(w, outer), b = dl_new_atom(w, w->atoms.at[atom] / outer);
    *first = a;
#define SPLIT(n, list)                                                                             \
    for (int i = 0; i < (n); i++)                                                                  \
        if ((list)[i] == atom) {                                                                   \
            if ((n) == DL_FOREIGN_RANK) return false;                                              \
            memmove(&(list)[i + 1], &(list)[i], (size_t)((n)-i) * sizeof(int));                    \
            (list)[i] = a, (list)[i + 1] = b, (n)++;                                               \
            break;                                                                                 \
        }
    for (int k = 0; k < v->n; k++) SPLIT(v->axis[k].n, v->axis[k].atom)
    for (int d = 0; d < v->rank; d++) SPLIT(v->dim[d].n, v->dim[d].atom)
#undef SPLIT
    return true;
}

/* A batch of 1 is a factor like any other: it is open. */
static bool is_unit(const dl_writer *w, int atom) { return atom != 0 && w->atoms.at[atom] == 1; }

static int flat(const dl_in_value *v, const dl_writer *w, int *atoms, int most) {
    int n = 0;
    for (int d = 0; d < v->rank; d++)
        for (int i = 0; i < v->dim[d].n; i++)
            if (!is_unit(w, v->dim[d].atom[i]) && n < most) atoms[n++] = v->dim[d].atom[i];
    return n;
}

void dl_drop_unit_atoms(const dl_writer *w, dl_in_value *v) {
    for (int a = 0; a < v->n; a++)
        for (int i = v->axis[a].n - 1; i >= 0 && v->axis[a].n > 1; i--) {
            if (!is_unit(w, v->axis[a].atom[i]) || is_used(v, v->axis[a].atom[i])) continue;
            memmove(&v->axis[a].atom[i], &v->axis[a].atom[i + 1],
                    (size_t)(v->axis[a].n - 1 - i) * sizeof(int));
            v->axis[a].n--;
        }
}

void dl_reshape(dl_in_ctx *c, dl_in_value *v, int rank, const int64_t *shape) {
    dl_writer *w = c->w;
    for (int attempt = 0; attempt < 2; attempt++) {
        dl_in_value made = *v;
        int atoms[64], n = flat(v, w, atoms, 64), at = 0;
        bool fits = true;
        struct {
            int n, atom[DL_FOREIGN_RANK];
        } dim[DL_FOREIGN_RANK] = {0};
        for (int d = 0; d < rank && fits; d++) {
            int64_t left = shape[d];
            bool last = d + 1 == rank;
            while (at < n && fits) {
                int64_t size = w->atoms.at[atoms[at]];
                bool one = size == 1; /* the batch: at the first place of its size, or joined */
                if (left <= 1 && !(one && (dim[d].n == 0 || last))) break;
                if (!(fits = size > 0)) break; /* no elements: nothing tells the factors apart */
                if (left % size != 0) {
                    int first;
                    fits = size % left == 0 && n < 63 && atoms[at] != 0 &&
                           split(w, &made, atoms[at], left, &first);
                    if (!fits) break;
                    memmove(&atoms[at + 2], &atoms[at + 1], (size_t)(n - at - 1) * sizeof(int));
                    atoms[at] = first, atoms[at + 1] = first + 1, n++, size = left;
                }
                fits = dim[d].n < DL_FOREIGN_RANK;
                if (fits) dim[d].atom[dim[d].n++] = atoms[at++], left /= size;
            }
            fits = fits && left == 1;
        }
        if (fits) {
            made.rank = rank;
            memcpy(made.dim, dim, sizeof dim);
            dl_drop_unit_atoms(w, &made);
            *v = made;
            return;
        }
        /* factors that do not divide each other: one axis of all but the batch */
        bool batch = v->rank && v->dim[0].n && v->dim[0].atom[0] == 0;
        dl_grouped(c, v, batch ? 2 : 1, batch ? (int[]){0, 1} : (int[]){0});
        int last = v->n - 1, atom = dl_new_atom(w, dl_axis_size_of(w, &v->axis[last]));
        v->axis[last].n = v->dim[last].n = 1;
        v->axis[last].atom[0] = v->dim[last].atom[0] = atom;
    }
}

void dl_grouped(dl_in_ctx *c, dl_in_value *v, int n, const int *first_dim) {
    dl_in_value made = *v;
    made.rank = n;
    for (int g = 0; g < n; g++) {
        int count = 0, end = g + 1 < n ? first_dim[g + 1] : v->rank;
        for (int d = first_dim[g]; d < end; d++)
            for (int i = 0; i < v->dim[d].n && count < DL_FOREIGN_RANK; i++)
                made.dim[g].atom[count++] = v->dim[d].atom[i];
        made.dim[g].n = count;
    }
    dl_ordered(c, &made, true);
    *v = made;
}

dl_in_value *dl_new_value(dl_in_ctx *c, int stmt, const dl_foreign_tensor *t) {
    dl_in_value *v = DL_NEW(c->w->arena, dl_in_value);
    *v = (dl_in_value){.stmt = stmt, .param = -1, .rank = t->rank, .n = t->rank};
    v->class = t->class, v->pair = t->pair;
    for (int d = 0; d < t->rank; d++) {
        if (dl_is_parts(t, d)) v->axis[d].name = dl_parts_axis;
        v->axis[d].n = v->dim[d].n = 1;
        v->axis[d].atom[0] = v->dim[d].atom[0] = dl_new_atom(c->w, t->shape[d]);
    }
    return v;
}

dl_in_value *dl_like(dl_in_ctx *c, int stmt, const dl_in_value *v, const dl_foreign_tensor *t) {
    dl_in_value *made = DL_NEW(c->w->arena, dl_in_value);
    *made = *v;
    made->stmt = stmt, made->param = -1, made->class = t->class, made->is_view = false;
    made->pair = t->pair;
    for (int d = 0; d < t->rank && d < v->n; d++) {
        if (dl_axis_size_of(c->w, &v->axis[d]) == t->shape[d]) continue;
        made->axis[d].n = made->dim[d].n = 1;
        made->axis[d].atom[0] = made->dim[d].atom[0] = dl_new_atom(c->w, t->shape[d]);
    }
    return made;
}

void dl_own_atoms(dl_in_ctx *c, dl_in_axis *a, int n, const dl_in_axis *others) {
    for (int i = 0; i < a->n; i++)
        for (int k = 0; k < n; k++)
            for (int j = 0; j < others[k].n; j++)
                if (others[k].atom[j] == a->atom[i])
                    a->atom[i] = dl_new_atom(c->w, c->w->atoms.at[a->atom[i]]);
}

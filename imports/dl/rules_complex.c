/* Rules of complex numbers, which are floats with an axis Z of two parts, and of Fourier transforms
 * (ops of torch.fft). */
#include "imports/dl/rules.h"

/* ---- element by element ---- */

bool dl_in_conjugate(dl_in_ctx *c) {
    dl_in_value *v = dl_self(c);
    if (!v || !v->pair) return false;
    dl_end_in_parts(c, v);
    return dl_done(
        c, v,
        dl_say(c, STMT_PLAIN, P_PRODUCT, "%p * ([1, -1] as [%s])", v, P_PRODUCT, dl_parts_axis));
}

/* ---- between real and complex numbers ---- */

bool dl_in_view_as_complex(dl_in_ctx *c) {
    dl_in_value *v = dl_self(c);
    if (!v || v->rank < 1 || dl_dim_size(c->w, v, v->rank - 1) != 2) return false;
    dl_end_in_parts(c, v);
    dl_set(c, 0, dl_copy_value(c, v));
    return true;
}

bool dl_in_part(dl_in_ctx *c) {
    dl_in_value *v = dl_self(c);
    if (!v || !v->pair) return false;
    dl_end_in_parts(c, v);
    dl_in_value *made = dl_copy_value(c, v);
    made->stmt = dl_say(c, STMT_PLAIN, P_POSTFIX, "%p[%s=%i]", v, P_POSTFIX, dl_parts_axis, "part",
                        (int64_t)(c->detail[0] == 'i'));
    made->n--, made->rank--, made->param = -1;
    dl_set(c, 0, made);
    return true;
}

/* Adds the axis Z, whose size is that of an expression with it. */
static bool add_parts(dl_in_ctx *c, dl_in_value *v, int stmt) {
    if (v->n == DL_FOREIGN_RANK || v->rank == DL_FOREIGN_RANK) return false;
    int atom = dl_new_atom(c->w, 2);
    v->axis[v->n++] = (dl_in_axis){.name = dl_parts_axis, .n = 1, .atom = {atom}};
    v->dim[v->rank].n = 1, v->dim[v->rank++].atom[0] = atom;
    v->stmt = stmt, v->param = -1, v->pair = true, v->is_view = false;
    return true;
}

static dl_in_value *along_parts(dl_in_ctx *c, dl_in_value *v) {
    dl_in_value *made = dl_copy_value(c, v);
    int s = dl_call_function(c, "unsqueeze", v, ", over=%s, at=%s", dl_parts_axis,
                             dl_in_whole(c->w, v->n));
    return add_parts(c, made, s) ? made : NULL;
}

bool dl_times_number(dl_in_ctx *c, dl_in_value *v, const double *number) {
    const char *re = dl_in_real(c->w, number[0]), *im = dl_in_real(c->w, number[1]);
    if (!v->pair) {
        dl_in_value *made = dl_copy_value(c, v);
        dl_name_parts(c, made, false);
        int s = dl_say(c, STMT_PLAIN, P_PRODUCT, "%p * ([%s, %s] as [%s])", made, P_PRODUCT, re, im,
                       dl_parts_axis);
        if (!add_parts(c, made, s)) return false;
        dl_set(c, 0, made);
        return true;
    }
    dl_end_in_parts(c, v); /* i z has the parts of z in the other order, the first one negative */
    int s = number[0] != 0 ? dl_say(c, STMT_PLAIN, P_SUM, "%s * %p + ", re, v, P_UNARY)
                           : dl_say(c, STMT_PLAIN, P_PRODUCT, "");
    dl_say_more(c, "cat(-%p[%s=1:], %p[%s=:1], over=%s) * %s", v, P_POSTFIX, dl_parts_axis, v,
                P_POSTFIX, dl_parts_axis, dl_parts_axis, im);
    return dl_done(c, v, s);
}

bool dl_in_complex(dl_in_ctx *c) {
    const dl_foreign_tensor *t[2] = {dl_foreign_operand(c->n, "real"),
                                     dl_foreign_operand(c->n, "imag")};
    dl_in_value *part[2];
    for (int i = 0; i < 2; i++) {
        if (!t[i] || t[i]->rank != t[0]->rank) return false;
        for (int d = 0; d < t[i]->rank; d++)
            if (t[i]->shape[d] != t[0]->shape[d]) return false;
        part[i] = dl_copy_value(c, dl_value_of(c, t[i]));
        dl_ordered(c, part[i], false);
        dl_name_parts(c, part[i], false);
    }
    dl_match(c, part[0], part[1]);
    if (!(part[0] = along_parts(c, part[0])) || !(part[1] = along_parts(c, part[1]))) return false;
    part[0]->stmt =
        dl_say(c, STMT_PLAIN, P_POSTFIX, "cat(%v, %v, over=%s)", part[0], part[1], dl_parts_axis);
    dl_set(c, 0, part[0]);
    return true;
}

/* The angle of a complex number. */
bool dl_in_angle(dl_in_ctx *c) {
    dl_in_value *v = dl_self(c);
    if (!v || !v->pair) return false;
    dl_end_in_parts(c, v);
    dl_in_value *made = dl_copy_value(c, v);
    made->stmt = dl_say(c, STMT_PLAIN, P_POSTFIX, "atan2(%p[%s=1], %p[%s=0])", v, P_POSTFIX,
                        dl_parts_axis, v, P_POSTFIX, dl_parts_axis);
    made->n--, made->rank--, made->param = -1, made->is_view = false;
    dl_set(c, 0, made);
    return true;
}

/* abs (cos angle, sin angle) */
bool dl_in_polar(dl_in_ctx *c) {
    dl_in_value *size = dl_operand(c, "abs"), *angle = dl_operand(c, "angle"), *part[2];
    if (!size || !angle || size->rank != angle->rank) return false;
    dl_in_value *made = dl_match(c, size, angle);
    dl_name_parts(c, made, false);
    for (int i = 0; i < 2; i++) {
        part[i] = dl_copy_value(c, made);
        part[i]->stmt = dl_say(c, STMT_PLAIN, P_PRODUCT, "%p * %s(%v)", size, P_PRODUCT,
                               i ? "sin" : "cos", angle);
        if (!(part[i] = along_parts(c, part[i]))) return false;
    }
    part[0]->stmt =
        dl_say(c, STMT_PLAIN, P_POSTFIX, "cat(%v, %v, over=%s)", part[0], part[1], dl_parts_axis);
    dl_set(c, 0, part[0]);
    return true;
}

/* ---- Fourier transforms ---- */

/* The dimensions that an op works along, as torch.fft takes them: those of `dim`, else the last
 * ones, as many as there are sizes or as the detail says. Returns their number. */
static int dims_of(dl_in_ctx *c, const dl_in_value *v, const dl_foreign_arg *sizes, int *to) {
    const dl_foreign_arg *dim = dl_foreign_find(c->n, "dim");
    int rank = v->rank - v->pair, n = rank;
    if (dim)
        n = dim->n;
    else if (sizes)
        n = sizes->n;
    else if (strcmp(strchr(c->detail, ' '), " all") != 0)
        n = strchr(c->detail, ' ')[1] - '0';
    if (n < 1 || n > rank || (sizes && sizes->n != n)) return 0;
    for (int i = 0; i < n; i++) {
        to[i] = dim ? dl_dim(v, dim->ints[i]) : rank - n + i;
        if (to[i] < 0 || to[i] >= rank) return 0;
        for (int k = 0; k < i; k++)
            if (to[k] == to[i]) return 0;
    }
    return n;
}

/* Cuts an axis off at `size`, or appends zeros up to it. */
static dl_in_value *resized(dl_in_ctx *c, dl_in_value *v, int d, int64_t size) {
    int64_t own = dl_dim_size(c->w, v, d);
    if (own == size) return v;
    const char *axis = dl_axis_name(c, v, d);
    int a = dl_axis_of(v, d);
    dl_in_value *made = dl_copy_value(c, v);
    made->stmt =
        own > size ? dl_say(c, STMT_PLAIN, P_POSTFIX, "%p[%s=:%i]", v, P_POSTFIX, axis, "to", size)
                   : dl_call_function(c, "pad", v, ", [0, %i], over=%s", "after", size - own, axis);
    made->axis[a].n = made->dim[d].n = 1, made->param = -1;
    made->axis[a].atom[0] = made->dim[d].atom[0] = dl_new_atom(c->w, size);
    return made;
}

/* The operand of a transform: real numbers without an axis Z, or complex ones that end in it, with
 * an axis for each dimension that is transformed. */
static dl_in_value *prepared(dl_in_ctx *c, dl_in_value *v, bool complex, int n, const int *dims) {
    bool ones = false;
    dl_in_value *made = dl_copy_value(c, v);
    dl_whole(c, made);
    for (int i = 0; i < n; i++) ones = ones || !made->dim[dims[i]].n;
    if (ones) dl_ordered(c, made, true);
    if (made->pair) {
        dl_end_in_parts(c, made);
        return made;
    }
    dl_name_parts(c, made, false);
    if (!complex) return made;
    made = along_parts(c, made); /* the imaginary part of real numbers is 0 */
    if (made) made->stmt = dl_call_function(c, "pad", made, ", [0, 1], over=%s", dl_parts_axis);
    return made;
}

/* How a transform is scaled, as torch.fft says it: an op of FFTs counts what it divides by:
 * nothing, the root of the number of elements, or this number. */
static const char *norm_of(const dl_foreign_node *n, bool inverse) {
    static const char *const words[] = {"backward", "ortho", "forward"};
    if (!dl_foreign_find(n, "normalization")) return dl_foreign_text(n, "norm", words[0]);
    int64_t by = dl_foreign_int(n, "normalization", 0);
    return by < 0 || by > 2 ? NULL : words[inverse ? 2 - by : by];
}

bool dl_in_fourier(dl_in_ctx *c) {
    const char *function = dl_strndup(c->w->arena, c->detail, strcspn(c->detail, " "));
    if (!dl_foreign_int(c->n, "forward", 1)) function = dl_format(c->w->arena, "i%s", function);
    bool real = strstr(function, "rfft"), inverse = function[0] == 'i';
    const dl_foreign_arg *sizes = dl_foreign_find(c->n, "s");
    if (!sizes) sizes = dl_foreign_find(c->n, "n");
    if (sizes && sizes->kind != DL_ARG_INT && sizes->kind != DL_ARG_INTS) return false;
    dl_in_value *v = dl_self(c);
    int dims[DL_FOREIGN_RANK], n = v ? dims_of(c, v, sizes, dims) : 0;
    if (n < 1 || n > 3 || (v->pair && real && !inverse)) return false;
    for (int i = 0; i < n; i++) /* the batch has no size of its own */
        for (int k = 0; k < v->dim[dims[i]].n; k++)
            if (v->dim[dims[i]].atom[k] == 0) return false;
    dl_in_value *x = prepared(c, v, !real || inverse, n, dims);
    int64_t size[3];
    for (int i = 0; x && i < n; i++) {
        bool half = real && i == n - 1;
        int64_t own = dl_dim_size(c->w, x, dims[i]);
        int64_t wanted = sizes && sizes->ints[i] >= 0 ? sizes->ints[i]
                         : half && inverse ? dl_foreign_int(c->n, "last_dim_size", 2 * (own - 1))
                                           : own;
        if (wanted < 1) return false;
        x = resized(c, x, dims[i], half && inverse ? wanted / 2 + 1 : wanted);
        size[i] = half && !inverse ? wanted / 2 + 1 : wanted;
    }
    const char *norm = norm_of(c->n, inverse);
    if (!x || !norm || !dl_foreign_int(c->n, "onesided", 1)) return false;
    int s = dl_call_function(c, function, x, ", over=%s", n > 1 ? "[" : "");
    for (int i = 0; i < n; i++)
        dl_say_more(c, "%s%s", i ? ", " : "", x->axis[dl_axis_of(x, dims[i])].name);
    if (n > 1) dl_say_more(c, "]");
    if (real && inverse && size[n - 1] % 2) /* an even one is what the number of modes says */
        dl_say_window(c, "size", ", size=", n, size);
    if (strcmp(norm, "backward") != 0) dl_say_more(c, ", norm=\"%s\"", norm);
    dl_in_value *made = dl_copy_value(c, x);
    for (int i = 0; i < n; i++) {
        int a = dl_axis_of(made, dims[i]);
        made->axis[a].n = made->dim[dims[i]].n = 1;
        made->axis[a].atom[0] = made->dim[dims[i]].atom[0] = dl_new_atom(c->w, size[i]);
    }
    made->stmt = s, made->param = -1, made->is_view = false;
    if (real && inverse) made->n--, made->rank--;
    if (real && !inverse && !add_parts(c, made, s)) return false;
    dl_set(c, 0, made);
    return true;
}

/* The zero frequency to the middle, and back. */
bool dl_in_fftshift(dl_in_ctx *c) {
    dl_in_value *v = dl_self(c);
    const dl_foreign_arg *dim = dl_foreign_find(c->n, "dim");
    if (!v) return false;
    dl_whole(c, v);
    if (v->pair)
        dl_end_in_parts(c, v);
    else
        dl_name_parts(c, v, false);
    dl_in_value *made = dl_copy_value(c, v);
    made->is_view = false;
    for (int i = 0; i < (dim ? dim->n : v->rank - v->pair); i++) {
        int d = dim ? dl_dim(v, dim->ints[i]) : i;
        if (d < 0 || d >= v->rank - v->pair) return false;
        if (!v->dim[d].n) continue;
        int64_t size = dl_dim_size(c->w, v, d);
        made->stmt = dl_call_function(c, "roll", made, ", %i, over=%s", "shift",
                                      *c->detail ? -(size / 2) : size / 2, dl_axis_name(c, v, d));
    }
    dl_set(c, 0, made);
    return true;
}

/* Windows of `n` numbers along the last dimension, each one transformed: [..., frequencies,
 * windows].
 */
bool dl_in_stft(dl_in_ctx *c) {
    dl_in_value *v = dl_self(c), *window = dl_operand(c, "window");
    const dl_foreign_tensor *t = c->n->n_results == 1 ? c->n->results[0] : NULL;
    int64_t n = dl_foreign_int(c->n, "n_fft", 0), hop = dl_foreign_int(c->n, "hop_length", n / 4),
            width = dl_foreign_int(c->n, "win_length", n);
    bool real = dl_foreign_int(c->n, "onesided", 1);
    if (!v || !t || v->pair || !t->pair || v->rank < 1 || v->rank > 2 || n < 1 || hop < 1 ||
        width < 1 || width > n || dl_foreign_int(c->n, "center", 0) || t->rank != v->rank + 2)
        return false;
    dl_in_value *x = dl_copy_value(c, v);
    dl_ordered(c, x, true);
    const char *last = x->axis[x->n - 1].name, *names[2];
    dl_in_value both = *x;
    for (int i = 0; i < 2; i++) {
        names[i] = dl_fresh_name(&both, i + 1, DL_FOREIGN_RANK);
        both.axis[both.n++].name = names[i];
    }
    int64_t windows = t->shape[t->rank - 2];
    dl_in_value at = {.param = -1};
    at.stmt = dl_say(c, STMT_PLAIN, P_SUM, "%i * (range(%i) as [%s]) + (range(%i) as [%s])", "hop",
                     hop, "windows", windows, names[0], "size", n, names[1]);
    x->stmt = dl_call_function(c, "gather", x, ", %v, over=%s", &at, last);
    if (window) {
        dl_in_value *w = dl_copy_value(c, window);
        if (w->rank != 1) return false;
        dl_rename(c, w, &names[1]);
        int64_t before = (n - width) / 2;
        if (width < n)
            w->stmt = dl_call_function(c, "pad", w, ", [%i, %i], over=%s", "before", before,
                                       "after", n - width - before, names[1]);
        x->stmt = dl_say(c, STMT_PLAIN, P_PRODUCT, "%p * %p", x, P_PRODUCT, w, P_UNARY);
    }
    if (!real) {
        x->stmt = dl_call_function(c, "unsqueeze", x, ", over=%s", dl_parts_axis);
        x->stmt = dl_call_function(c, "pad", x, ", [0, 1], over=%s", dl_parts_axis);
    }
    int s = dl_call_function(c, real ? "rfft" : "fft", x, ", over=%s", names[1]);
    if (dl_foreign_int(c->n, "normalized", 0)) dl_say_more(c, ", norm=\"ortho\"");
    /* the numbers' axes come first: windows, frequencies, [N], parts */
    dl_in_value *made = dl_new_value(c, s, t);
    int r = t->rank, batch = v->rank - 1;
    dl_in_axis axes[DL_FOREIGN_RANK];
    for (int d = 0; d < r; d++) axes[d] = made->axis[d];
    made->axis[0] = axes[r - 2], made->axis[0].name = names[0];
    made->axis[1] = axes[r - 3], made->axis[1].name = names[1];
    if (batch) {
        made->axis[2] = x->axis[0];
        made->dim[0] = x->dim[0];
    }
    made->axis[r - 1] = axes[r - 1];
    dl_set(c, 0, made);
    return true;
}

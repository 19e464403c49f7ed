/* Parameters, constants and the labels of layers. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "imports/dl/parts.h"

enum { MOST_CONSTANT = 65536 };

static bool is_label(const char *s) {
    for (const char *p = s; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("_.-/:+", *p)) return false;
    return *s != 0;
}

static bool ends_with(const char *s, const char *end) {
    size_t n = strlen(s), m = strlen(end);
    return n > m && strcmp(s + n - m, end) == 0;
}

const char *dl_layer_label(dl_in_ctx *c, const dl_foreign_tensor *weight,
                           const dl_foreign_tensor *bias) {
    dl_arena *arena = c->w->arena;
    if (weight->origin != DL_FOREIGN_PARAMETER || !ends_with(weight->path, ".weight") ||
        c->w->kept[weight->id])
        return NULL;
    const char *label = dl_strndup(arena, weight->path, strlen(weight->path) - strlen(".weight"));
    const char *inside = dl_label_in(c->w, c->b, label);
    if (!inside || !is_label(inside)) return NULL;
    if (bias && (bias->origin != DL_FOREIGN_PARAMETER || c->w->kept[bias->id] ||
                 strcmp(bias->path, dl_format(arena, "%s.bias", label)) != 0))
        return NULL;
    c->w->kept[weight->id] = true;
    if (bias) c->w->kept[bias->id] = true;
    return label;
}

/* ---- tensors of the archive as statements ---- */

static bool is_name(const char *s) {
    static const char *const taken[] = {
        "module", "model", "return", "for",   "in",    "if",     "elif",   "else",  "pass", "and",
        "or",     "not",   "as",     "true",  "false", "none",   "True",   "False", "None", "train",
        "pi",     "input", "target", "param", "init",  "output", "metric", "figure"};
    if (!isalpha((unsigned char)*s) && *s != '_') return false;
    for (const char *p = s; *p; p++)
        if (!isalnum((unsigned char)*p) && *p != '_') return false;
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (strcmp(taken[i], s) == 0) return false;
    return true;
}

static dl_in_value *refuse(dl_in_ctx *c, const dl_foreign_tensor *t, const char *why) {
    dl_import_report *r = c->w->report;
    const char *what = dl_format(c->w->arena, "tensor '%.80s': %s", t->path, why);
    dl_push(c->w->arena, &r->lacks, (dl_import_lack){.op = what, .count = 1});
    r->lacking++;
    char *text = dl_format(c->w->arena, "fail(\"%.80s: %s\")", t->path, why);
    for (char *p = text + 6; p[2]; p++)
        if (*p == '"' || *p == '\\' || (unsigned char)*p < 32 || (unsigned char)*p > 126) *p = '\'';
    dl_in_value *v = dl_new_value(c, dl_say(c, STMT_PLAIN, P_POSTFIX, "%s", text), t);
    for (int a = 0; a < v->n - v->pair; a++) v->axis[a].name = dl_fresh_name(v, a, v->n - v->pair);
    return v;
}

/* How a parameter begins: as the numbers of the archive are spread. */
static const char *start_of(dl_writer *w, const dl_foreign_tensor *t) {
    int64_t n = dl_foreign_count(t);
    if (!t->data || n < 1 || n > 1 << 24) return "~ normal(0, 0.02)";
    double *v = malloc((size_t)n * sizeof *v), mean = 0, square = 0;
    dl_error ignored = {0};
    if (!v || !dl_foreign_numbers(w->graph, t, v, &ignored)) {
        free(v);
        dl_fail(w->err, ignored.code ? ignored.code : DL_RESOURCE, "%s", ignored.message);
        return "= 0";
    }
    bool equal = true;
    for (int64_t i = 0; i < n; i++) equal = equal && v[i] == v[0], mean += v[i] / (double)n;
    for (int64_t i = 0; i < n; i++) square += (v[i] - mean) * (v[i] - mean) / (double)n;
    double first = v[0];
    free(v);
    if (equal)
        return dl_format(w->arena, "= %s",
                         dl_in_number(w, (double)(float)first == first
                                             ? strtod(dl_format(w->arena, "%.7g", first), NULL)
                                             : first));
    return dl_format(w->arena, "~ normal(%.3g, %.3g)", fabs(mean) < 0.1 * sqrt(square) ? 0 : mean,
                     sqrt(square));
}

static void put_element(dl_writer *w, dl_buf *out, const dl_foreign_tensor *t, double v) {
    if (t->class == DL_FOREIGN_BOOL)
        dl_puts(out, v != 0 ? "true" : "false");
    else if (t->class == DL_FOREIGN_INT)
        dl_putf(out, "%lld", (long long)v);
    else {
        char shortest[32];
        snprintf(shortest, sizeof shortest, "%.9g", v); /* f32 exactly */
        double back = strtod(shortest, NULL);
        if (t->dtype == DLR_ST_F64 && back != v) back = v;
        dl_puts(out, dl_in_number(w, back));
        if (back == floor(back) && fabs(back) < 1e15) dl_puts(out, ".0");
    }
}

static const double *put_list(dl_writer *w, dl_buf *out, const dl_foreign_tensor *t,
                              const double *v, int d) {
    while (d < t->rank && t->shape[d] == 1) d++;
    if (d == t->rank) return put_element(w, out, t, *v), v + 1;
    dl_puts(out, "[");
    for (int64_t i = 0; i < t->shape[d]; i++) {
        if (i) dl_puts(out, ", ");
        v = put_list(w, out, t, v, d + 1);
    }
    dl_puts(out, "]");
    return v;
}

/* A constant or buffer: its numbers, read from the archive. */
static const char *numbers_of(dl_in_ctx *c, const dl_foreign_tensor *t) {
    int64_t n = dl_foreign_count(t);
    double *v = malloc((size_t)n * sizeof *v + 1);
    dl_buf out = {0};
    const char *text = NULL;
    if (v && dl_foreign_numbers(c->w->graph, t, v, c->w->err)) {
        put_list(c->w, &out, t, v, 0);
        text = dl_strdup(c->w->arena, out.at);
    }
    dl_buf_free(&out);
    free(v);
    return text;
}

static dl_in_value *declared(dl_in_ctx *c, const dl_foreign_tensor *t, const char *name,
                             const char *start, bool ones) {
    int s = dl_say(c, STMT_PARAM, P_POSTFIX, "");
    dl_in_stmt *stmt = &c->b->stmts.at[s];
    dl_in_value *v = DL_NEW(c->w->arena, dl_in_value);
    *v = (dl_in_value){.stmt = s, .param = s, .rank = t->rank, .class = t->class};
    v->pair = t->pair;
    for (int d = 0; d < t->rank; d++) {
        if (t->shape[d] == 1 && !ones) continue;
        int atom = dl_new_atom(c->w, t->shape[d]);
        bool one = t->shape[d] == 1;
        v->axis[v->n] = (dl_in_axis){.name = one ? "1" : NULL, .n = 1, .atom = {atom}};
        if (dl_is_parts(t, d)) v->axis[v->n].name = dl_parts_axis;
        stmt->size[v->n] = t->shape[d], stmt->axis[v->n] = v->axis[v->n].name, v->n++;
        if (!one) v->dim[d].n = 1, v->dim[d].atom[0] = atom;
    }
    stmt->rank = v->n, stmt->name = name, stmt->start = start;
    return v;
}

/* A parameter of a module without a body of its own here: Weight()() @path */
static dl_in_value *held(dl_in_ctx *c, const dl_foreign_tensor *t, const char *inside) {
    const char *dot = strrchr(inside, '.');
    const char *label = dl_strndup(c->w->arena, t->path, (size_t)(strrchr(t->path, '.') - t->path));
    if (!is_name(dot + 1) || !is_label(inside)) return refuse(c, t, "its name is no name here");
    dl_in_body *b = dl_new_body(c->w, "Parameter", label);
    dl_in_ctx inner = {.w = c->w, .b = b, .n = c->n, .index = c->index};
    dl_in_value *v = declared(&inner, t, dot + 1, start_of(c->w, t), true);
    dl_push(c->w->arena, &b->returns, v->stmt);
    b->held = v->stmt;
    dl_in_value *made = dl_copy_value(c, v);
    made->stmt = dl_say(c, STMT_PLAIN, P_POSTFIX, "");
    dl_push(c->w->arena, &c->b->stmts.at[made->stmt].pieces,
            (dl_in_piece){.kind = PIECE_CALL, .call = b});
    dl_say_more(c, "() @%l", label);
    made->is_view = false, made->param = -1;
    for (int a = 0; a < made->n; a++) /* the caller cannot name them later */
        if (!made->axis[a].name) {
            made->axis[a].name = dl_fresh_name(made, a, made->n);
            b->stmts.at[v->stmt].axis[a] = made->axis[a].name;
        }
    return made;
}

dl_in_value *dl_declare(dl_in_ctx *c, const dl_foreign_tensor *t) {
    if (t->origin == DL_FOREIGN_RESULT || t->origin == DL_FOREIGN_INPUT)
        return refuse(c, t, "it is not computed here");
    if (t->class == DL_FOREIGN_UNKNOWN) return refuse(c, t, "numbers of an unknown type");
    if (t->origin == DL_FOREIGN_PARAMETER) {
        const char *inside = dl_label_in(c->w, c->b, t->path);
        if (c->w->kept[t->id]) return refuse(c, t, "a second layer uses this weight");
        if (!inside) return refuse(c, t, "a parameter of another module");
        c->w->kept[t->id] = true;
        if (strchr(inside, '.')) return held(c, t, inside);
        if (!is_name(inside)) return refuse(c, t, "its name is no name here");
        return declared(c, t, inside, start_of(c->w, t), true);
    }
    if (dl_foreign_count(t) > MOST_CONSTANT || dl_foreign_count(t) == 0)
        return refuse(c, t, "a constant of more than 65,536 numbers, or of none");
    const char *numbers = numbers_of(c, t), *dot = strrchr(t->path, '.');
    if (!numbers) return refuse(c, t, "its numbers cannot be read");
    const char *name = dot ? dot + 1 : t->path;
    dl_in_value *v = declared(c, t, NULL, numbers, false);
    c->b->stmts.at[v->stmt].wish = is_name(name) ? name : NULL;
    return v;
}

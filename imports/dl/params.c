/* Parameters, constants and the labels of layers. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "imports/dl/calls.h"

enum { LONGEST_NAME = 255 }; /* in the language */

bool dl_in_is_label(const char *s) {
    for (size_t n = 0;; s += n + 1) { /* parts between dots */
        n = strcspn(s, ".");
        if (n == 0 || n > LONGEST_NAME) return false;
        for (size_t i = 0; i < n; i++)
            if (!isalnum((unsigned char)s[i]) && !strchr("_-/:+", s[i])) return false;
        if (!s[n]) return true;
    }
}

/* The label that n tensors have in common, whose roles they are; NULL: another layer has them, or
 * they have other names. */
static const char *common_label(dl_in_ctx *c, int n, const dl_foreign_tensor *const *t,
                                const char *const *role) {
    const char *label = NULL;
    for (int i = 0; i < n; i++) {
        if (!t[i]) continue;
        const char *end = dl_format(c->w->arena, ".%s", role[i]);
        bool statistic = strncmp(role[i], "running_", 8) == 0;
        if (t[i]->origin != (statistic ? DL_FOREIGN_BUFFER : DL_FOREIGN_PARAMETER) ||
            !dl_ends_with(t[i]->path, end))
            return NULL;
        const char *own = dl_strndup(c->w->arena, t[i]->path, strlen(t[i]->path) - strlen(end));
        if (label && strcmp(label, own) != 0) return NULL;
        label = own;
    }
    const char *inside = label ? dl_label_in(c->w, c->b, label) : NULL;
    return inside && dl_in_is_label(inside) ? label : NULL;
}

const char *dl_label_of_all(dl_in_ctx *c, int n, const dl_foreign_tensor *const *t,
                            const char *const *role) {
    const char *label = common_label(c, n, t, role);
    bool several = false;
    for (int i = 0; i < n; i++) several = several || (t[i] && c->w->reads[t[i]->id] > 1);
    if (several && !dl_is_one_layer(c->w, n, t)) return NULL;
    for (int i = 0; i < n && label; i++)
        if (t[i] && ((c->w->kept[t[i]->id] && !several) || c->b->of[t[i]->id])) return NULL;
    for (int i = 0; i < n && label; i++)
        if (t[i]) c->w->kept[t[i]->id] = true;
    return label;
}

const char *dl_layer_label(dl_in_ctx *c, const dl_foreign_tensor *weight,
                           const dl_foreign_tensor *bias) {
    static const char *const roles[] = {"weight", "bias"};
    return dl_label_of_all(c, 2, (const dl_foreign_tensor *const[]){weight, bias}, roles);
}

/* ---- tensors of the archive as statements ---- */

bool dl_in_is_name(const char *s) {
    static const char *const taken[] = {
#define KEYWORD(word, token) word,
#define OPENER(word, token)  word,
#include "frontends/dl/keywords.def"
#undef KEYWORD
#undef OPENER
        "train", "pi"};
    if ((!isalpha((unsigned char)*s) && *s != '_') || strlen(s) > LONGEST_NAME) return false;
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

/* A number of the archive as text; NULL: it cannot be read. */
static const char *number_of(dl_in_ctx *c, const dl_foreign_tensor *t) {
    double v;
    if (!dl_foreign_numbers(c->w->graph, t, &v, c->w->err)) return NULL;
    if (t->class == DL_FOREIGN_BOOL) return v != 0 ? "true" : "false";
    if (t->class == DL_FOREIGN_INT) return dl_in_whole(c->w, (int64_t)v);
    return dl_in_real(c->w, v);
}

static dl_in_value *declared(dl_in_ctx *c, const dl_foreign_tensor *t, const char *keyword,
                             const char *start) {
    int s = dl_say(c, STMT_PARAM, P_POSTFIX, "");
    dl_in_stmt *stmt = &c->b->stmts.at[s];
    dl_in_value *v = DL_NEW(c->w->arena, dl_in_value);
    *v = (dl_in_value){.stmt = s, .param = s, .rank = t->rank, .class = t->class};
    v->pair = t->pair;
    for (int d = 0; d < t->rank; d++) {
        if (t->shape[d] == 1 && !keyword) continue;
        int atom = dl_new_atom(c->w, t->shape[d]);
        bool one = t->shape[d] == 1;
        v->axis[v->n] = (dl_in_axis){.name = one ? "1" : NULL, .n = 1, .atom = {atom}};
        if (dl_is_parts(t, d)) v->axis[v->n].name = dl_parts_axis;
        stmt->size[v->n] = t->shape[d], stmt->axis[v->n] = v->axis[v->n].name, v->n++;
        if (!one) v->dim[d].n = 1, v->dim[d].atom[0] = atom;
    }
    stmt->rank = v->n, stmt->keyword = keyword, stmt->start = start;
    return v;
}

static const char *type_of(const dl_foreign_tensor *t) {
    if (t->class == DL_FOREIGN_BOOL) return "bool";
    if (t->class == DL_FOREIGN_INT) return t->dtype == DLR_ST_I64 ? "i64" : "i32";
    return t->rank ? NULL : "f32";
}

dl_in_value *dl_declare(dl_in_ctx *c, const dl_foreign_tensor *t) {
    bool trained = t->origin == DL_FOREIGN_PARAMETER;
    if (t->origin == DL_FOREIGN_RESULT || t->origin == DL_FOREIGN_INPUT)
        return refuse(c, t, "it is not computed here");
    if (t->class == DL_FOREIGN_UNKNOWN) return refuse(c, t, "numbers of an unknown type");
    if (dl_is_number_text(t)) {
        const char *number = number_of(c, t);
        return number ? declared(c, t, NULL, number) : refuse(c, t, "it cannot be read");
    }
    const char *inside = dl_label_in(c->w, c->b, t->path);
    if (c->w->kept[t->id]) return refuse(c, t, "a second layer uses it");
    if (!inside) return refuse(c, t, "it belongs to another module");
    if (!dl_in_is_label(inside)) return refuse(c, t, "its name is no name here");
    if (!trained && dl_foreign_count(t) == 0) return refuse(c, t, "it has no numbers");
    c->w->kept[t->id] = true;
    dl_in_value *v = declared(c, t, trained ? "param" : "buffer", trained ? start_of(c->w, t) : "");
    dl_in_stmt *stmt = &c->b->stmts.at[v->stmt];
    const char *dot = strrchr(inside, '.'), *name = dot ? dot + 1 : inside;
    stmt->type = type_of(t);
    if (!dot && dl_in_is_name(inside)) {
        stmt->name = inside;
        return v;
    }
    stmt->label = t->path;
    stmt->wish = dl_in_is_name(name) ? name : NULL;
    return v;
}

/* Expressions. Numbers, strings and lists are computed here; tensors are passed to tensor.c. */
#include "frontends/dl/elab.h"
#include "frontends/dl/hints.h"
#include "parser.h"

static dl_val eval_list(dl_elab *E, const dl_ast *e) {
    dl_val list = dl_val_new_list(E, e->span);
    for (int i = 0; i < e->items.list.n; i++) {
        const dl_ast *item = e->items.list.at[i];
        if (item->name)
            return dl_bad(E, item->span, DL_DIAG_syntax, "a list has no named elements");
        if (!dl_val_append(E, list, dl_eval(E, item->a), item->span)) return dl_poison();
    }
    return list;
}

static bool decide(dl_elab *E, const dl_ast *e, bool *yes) {
    dl_val v = dl_eval(E, e);
    if (v.kind == DL_V_POISON) return false;
    if (dl_val_is_number(v)) return *yes = dl_val_number(v) != 0, true;
    if (v.kind == DL_V_NONE) return *yes = false, true;
    if (v.kind == DL_V_LIST) return *yes = v.list->items.n != 0, true;
    dl_bad(E, e->span, DL_DIAG_not_a_condition,
           "a condition is decided when compiling, but this is %s", dl_val_describe(E, v));
    if (v.kind == DL_V_TENSOR) dl_help(E, "choose element by element with where(condition, a, b)");
    return false;
}

static dl_val eval_comprehension(dl_elab *E, const dl_ast *e) {
    dl_val from = dl_eval(E, e->b), list = dl_val_new_list(E, e->span);
    if (from.kind == DL_V_POISON) return from;
    if (from.kind != DL_V_LIST)
        return dl_bad(E, e->b->span, DL_DIAG_not_a_list, "this runs over a list, not %s",
                      dl_val_describe(E, from));
    dl_scope *outer = E->scope;
    E->scope = dl_scope_new(E, outer);
    bool good = true;
    for (int i = 0; i < from.list->items.n && good; i++) {
        bool take = true;
        dl_scope_set(E, e->name, from.list->items.at[i]);
        good = dl_spend(E, e->span, 1) && (!e->c || decide(E, e->c, &take));
        if (good && take) good = dl_val_append(E, list, dl_eval(E, e->a), e->span);
    }
    E->scope = outer;
    return good ? list : dl_poison();
}

/* `and` and `or` evaluate the right side only if necessary. */
static dl_val eval_logic(dl_elab *E, const dl_ast *e) {
    dl_val a = dl_eval(E, e->a);
    if (a.kind == DL_V_POISON) return a;
    if (a.kind == DL_V_TENSOR) {
        dl_val b = dl_eval(E, e->b);
        return b.kind == DL_V_POISON ? b : dl_tensor_binary(E, e, a, b);
    }
    if (!dl_val_is_number(a))
        return dl_bad(E, e->a->span, DL_DIAG_not_a_condition, "'%s' needs true or false, not %s",
                      e->op == T_AND ? "and" : "or", dl_val_describe(E, a));
    bool yes = dl_val_number(a) != 0;
    if (yes == (e->op == T_OR)) return dl_val_bool(yes, e->span);
    if (!decide(E, e->b, &yes)) return dl_poison();
    return dl_val_bool(yes, e->span);
}

static dl_val eval_binary(dl_elab *E, const dl_ast *e) {
    if (e->op == T_AND || e->op == T_OR) return eval_logic(E, e);
    dl_val a = dl_eval(E, e->a), b = dl_eval(E, e->b);
    if (a.kind == DL_V_POISON || b.kind == DL_V_POISON) return dl_poison();
    if (a.kind == DL_V_TENSOR || b.kind == DL_V_TENSOR) return dl_tensor_binary(E, e, a, b);
    return dl_fold_binary(E, e, a, b);
}

static dl_val eval_unary(dl_elab *E, const dl_ast *e) {
    dl_val a = dl_eval(E, e->a);
    if (a.kind == DL_V_POISON) return a;
    if (a.kind == DL_V_TENSOR) return dl_tensor_unary(E, e, a);
    if (e->op == T_NOT) {
        bool yes;
        return decide(E, e->a, &yes) ? dl_val_bool(!yes, e->span) : dl_poison();
    }
    return dl_fold_unary(E, e, a);
}

/* The step of a slice: 1 where none is written. */
static bool slice_step(dl_elab *E, const dl_ast *slice, int64_t *step) {
    *step = 1;
    if (!slice->c) return true;
    if (!dl_val_count(E, dl_eval(E, slice->c), INT64_MIN, "the step of a slice", step))
        return false;
    if (*step > 0 && *step <= INT32_MAX) return true;
    dl_bad(E, slice->c->span, DL_DIAG_bad_range, "a slice goes forwards, by 1 or more, not by %lld",
           (long long)*step);
    dl_help(E, "flip(x, over=H) turns an axis round");
    return false;
}

static bool list_position(dl_elab *E, const dl_ast *e, int n, int64_t *at) {
    dl_val v = dl_eval(E, e);
    if (v.kind == DL_V_POISON) return false;
    if (v.kind != DL_V_INT) {
        dl_bad(E, e->span, DL_DIAG_bad_operand, "a list is indexed by a whole number, not %s",
               dl_val_describe(E, v));
        return false;
    }
    *at = v.i < 0 ? v.i + n : v.i;
    return true;
}

static dl_val index_list(dl_elab *E, const dl_ast *e, dl_val list) {
    int n = list.list->items.n;
    const dl_ast *arg = e->items.list.at[0];
    if (e->items.list.n != 1 || arg->name)
        return dl_bad(E, e->span, DL_DIAG_bad_operand,
                      "a list takes one index, without an axis name");
    if (arg->a->kind == DL_A_SLICE) {
        int64_t from = 0, to = n;
        if (arg->a->a && !list_position(E, arg->a->a, n, &from)) return dl_poison();
        if (arg->a->b && !list_position(E, arg->a->b, n, &to)) return dl_poison();
        int64_t step;
        if (!slice_step(E, arg->a, &step)) return dl_poison();
        dl_val r = dl_val_new_list(E, e->span);
        for (int64_t i = from < 0 ? 0 : from; i < to && i < n; i += step) {
            dl_val_append(E, r, list.list->items.at[i], e->span);
            if (step > n) break;
        }
        return r;
    }
    int64_t at;
    if (!list_position(E, arg->a, n, &at)) return dl_poison();
    if (at < 0 || at >= n) {
        dl_bad(E, arg->span, DL_DIAG_index_range, "index %lld is outside %s of %d element%s",
               (long long)(at < 0 ? at - n : at), dl_val_words(E, list, "a list"), n,
               n == 1 ? "" : "s");
        dl_help(E, n ? "the first is [0], the last [-1]" : "the list is empty");
        return dl_poison();
    }
    dl_val v = list.list->items.at[at];
    v.name = NULL;
    if (v.kind != DL_V_TENSOR) v.origin = e->span;
    return v;
}

/* Indexing: x[C=0] takes one element and drops the axis, x[C=0:3] keeps it. */

static bool position(dl_elab *E, const dl_ast *e, dl_axis axis, bool end, int64_t *at) {
    dl_val v = dl_eval(E, e);
    if (v.kind == DL_V_POISON) return false;
    if (v.kind != DL_V_INT) {
        dl_bad(E, e->span, v.kind == DL_V_FLOAT ? DL_DIAG_not_whole : DL_DIAG_bad_operand,
               "an axis is indexed by a whole number, not %s", dl_val_describe(E, v));
        return false;
    }
    *at = v.i < 0 ? v.i + axis.size : v.i;
    if (*at >= 0 && *at < axis.size + end) return true;
    dl_bad(E, e->span, DL_DIAG_bad_range, "%s=%lld is out of range: %s has size %lld", axis.name,
           (long long)v.i, axis.name, (long long)axis.size);
    if (axis.size > 0 && end)
        dl_help(E, "a slice ends at %lld at most, after the last index %lld", (long long)axis.size,
                (long long)axis.size - 1);
    else if (axis.size > 0)
        dl_help(E, "indices run from 0 to %lld", (long long)axis.size - 1);
    return false;
}

static dl_val index_axis(dl_elab *E, const dl_ast *e, const dl_ast *arg, dl_val x) {
    if (!arg->name) return dl_tensor_positional(E, e, arg, x);
    int at = dl_type_axis(&x.t->type, arg->name);
    if (at < 0) {
        dl_bad(E, arg->at, DL_DIAG_missing_axis, "%s has no axis %s: it is %s",
               dl_val_words(E, x, "the tensor"), arg->name, dl_type_text(&x.t->type));
        dl_note_tensor(E, x);
        return dl_poison();
    }
    dl_axis axis = x.t->type.axis[at];
    int64_t from = 0, to = axis.size, step = 1;
    bool slice = arg->a->kind == DL_A_SLICE;
    if (slice) {
        if (arg->a->a && !position(E, arg->a->a, axis, true, &from)) return dl_poison();
        if (arg->a->b && !position(E, arg->a->b, axis, true, &to)) return dl_poison();
        if (!slice_step(E, arg->a, &step)) return dl_poison();
        if (to < from)
            return dl_bad(E, arg->a->span, DL_DIAG_bad_range,
                          "the slice of %s ends at %lld before it begins at %lld", axis.name,
                          (long long)to, (long long)from);
    } else {
        if (!position(E, arg->a, axis, false, &from)) return dl_poison();
        to = from + 1;
    }
    if (step > 1) return dl_tensor_every(E, e->span, x, axis, from, to, step);
    return slice ? dl_tensor_slice(E, e->span, x, axis.name, from, to)
                 : dl_tensor_at(E, e->span, x, axis.name, from);
}

static dl_val index_tensor(dl_elab *E, const dl_ast *e, dl_val x) {
    for (int i = 0; i < e->items.list.n && x.kind == DL_V_TENSOR; i++)
        x = index_axis(E, e, e->items.list.at[i], x);
    return x;
}

static dl_val eval_index(dl_elab *E, const dl_ast *e) {
    if (e->a->kind == DL_A_LABEL) {
        dl_bad(E, e->at, DL_DIAG_bad_label, "a label takes its numbers in braces");
        dl_help(E, "@blocks.{i}; put a layer in parentheses to index its result: (x |> conv(8, "
                   "3) @name)[C=0]");
        return dl_poison();
    }
    dl_val x = dl_eval(E, e->a);
    if (x.kind == DL_V_POISON) return x;
    if (x.kind == DL_V_TENSOR) return index_tensor(E, e, x);
    if (x.kind == DL_V_LIST) return index_list(E, e, x);
    if (dl_refuse_layer(E, e->at, x)) return dl_poison();
    return dl_bad(E, e->at, DL_DIAG_bad_operand, "lists and tensors can be indexed, not %s",
                  dl_val_describe(E, x));
}

static dl_val eval_attribute(dl_elab *E, const dl_ast *e) {
    if (e->a->kind == DL_A_NAME && !dl_scope_find(E->scope, e->a->name)) {
        const dl_builtin *f = dl_builtin_find(e->a->name);
        if (f) return dl_layer_parameters(E, e, f);
    }
    dl_val x = dl_eval(E, e->a);
    if (x.kind == DL_V_POISON) return x;
    if (x.kind == DL_V_LAYER) return dl_bound_parameters(E, e, x);
    if (x.kind != DL_V_TENSOR)
        return dl_bad(E, e->at, DL_DIAG_unknown_attribute, "%s has no '%s'", dl_val_describe(E, x),
                      e->name);
    int at = dl_type_axis(&x.t->type, e->name);
    if (at >= 0) return dl_val_size(e->name, x.t->type.axis[at].size, e->span);
    const char *hint = dl_hint_find(DL_HINT_ATTRIBUTE, e->name, strlen(e->name));
    dl_bad(E, e->at, DL_DIAG_unknown_attribute, "%s has no axis %s", dl_val_describe(E, x),
           e->name);
    dl_help(E, "%s", hint ? hint : "x.C is the size of axis C of x");
    return dl_poison();
}

static dl_val eval_pipe(dl_elab *E, const dl_ast *e, dl_pipeline *pipeline, const dl_ast *as) {
    dl_val x;
    if (e->a->kind == DL_A_PIPE)
        x = eval_pipe(E, e->a, pipeline, NULL);
    else if (e->a->kind == DL_A_CALL || e->a->kind == DL_A_LABEL)
        x = dl_apply(E, e->a, NULL, pipeline, NULL);
    else
        x = dl_eval(E, e->a);
    return dl_apply(E, e->b, &x, pipeline, as);
}

/* Renames the axes of a tensor to the names of an `as`. */
static dl_val name_axes(dl_elab *E, const dl_ast *e, dl_val x) {
    dl_type t = x.t->type;
    int n = e->items.list.n;
    if (n != t.rank) {
        dl_bad(E, e->at, DL_DIAG_rank_mismatch, "`as` names %d axes, but the tensor has %d: %s", n,
               t.rank, dl_type_text(&t));
        dl_note_tensor(E, x);
        dl_help(E, "`as` renames axes; rearrange merges, splits and moves them: x |> rearrange(\"n "
                   "c h w -> "
                   "n (h w) c\") as "
                   "[N, T, E]");
        return dl_poison();
    }
    bool changed = false;
    for (int i = 0; i < n; i++) {
        const dl_ast *arg = e->items.list.at[i];
        const char *name = arg->name ? arg->name : arg->a->kind == DL_A_NAME ? arg->a->name : NULL;
        if (!name)
            return dl_bad(E, arg->span, DL_DIAG_bad_argument,
                          "`as` takes axis names: as [N, T, E]");
        if (arg->name) {
            int64_t size;
            if (!dl_val_count(E, dl_eval(E, arg->a), 0, "a size", &size)) return dl_poison();
            if (size != t.axis[i].size)
                return dl_bad(E, arg->span, DL_DIAG_axis_mismatch,
                              "%s=%lld is stated, but the axis has size %lld", name,
                              (long long)size, (long long)t.axis[i].size);
        }
        changed |= t.axis[i].name != name;
        t.axis[i].name = name;
        for (int j = 0; j < i; j++)
            if (t.axis[j].name == name)
                return dl_bad(E, arg->span, DL_DIAG_duplicate_axis, "the axis %s is named twice",
                              name);
        dl_scope_bind_size(E, name, t.axis[i].size, arg->span);
    }
    if (!changed) return x.mixed = false, x; /* the given order is the present one */
    dl_doubt_renaming(E, e, x, &t);
    return dl_tensor_op(E, e->span, DL_OP_rename, 1, &x, 0, NULL, &t);
}

/* A list of numbers, or of such lists, as a tensor along the axes that `as` names. */
static dl_val eval_literal(dl_elab *E, const dl_ast *e, dl_val list) {
    int rank = e->items.list.n;
    dl_type t = dl_scalar(DL_F32);
    if (rank > DL_MAX_RANK)
        return dl_bad(E, e->at, DL_DIAG_rank_mismatch, "a tensor has at most %d axes", DL_MAX_RANK);
    dl_val inner = list;
    for (int i = 0; i < rank; i++) {
        const dl_ast *arg = e->items.list.at[i];
        const char *name = arg->name ? arg->name : arg->a->kind == DL_A_NAME ? arg->a->name : NULL;
        if (!name)
            return dl_bad(E, arg->span, DL_DIAG_bad_argument,
                          "`as` takes axis names: as [N, T, E]");
        if (dl_type_axis(&t, name) >= 0)
            return dl_bad(E, arg->span, DL_DIAG_duplicate_axis, "the axis %s is named twice", name);
        if (inner.kind == DL_V_POISON) return inner;
        if (inner.kind != DL_V_LIST) {
            dl_bad(E, e->at, DL_DIAG_rank_mismatch, "`as` names %d ax%s, but the list has %d", rank,
                   rank == 1 ? "is" : "es", i);
            dl_help(E, "a list of lists has two axes: [[1, 2], [3, 4]] as [K, C]");
            return dl_poison();
        }
        int64_t length = inner.list->items.n;
        if (arg->name) {
            int64_t size;
            if (!dl_val_count(E, dl_eval(E, arg->a), 0, "a size", &size)) return dl_poison();
            if (size != length)
                return dl_bad(E, arg->span, DL_DIAG_axis_mismatch,
                              "%s=%lld is stated, but the list has %lld", name, (long long)size,
                              (long long)length);
        }
        dl_type_push(&t, name, length);
        inner = length ? inner.list->items.at[0] : dl_val_int(0, e->span);
    }
    if (inner.kind == DL_V_LIST) {
        dl_bad(E, e->at, DL_DIAG_rank_mismatch, "`as` names %d ax%s, but the list has more", rank,
               rank == 1 ? "is" : "es");
        dl_help(E, "a list of lists has two axes: [[1, 2], [3, 4]] as [K, C]");
        return dl_poison();
    }
    return dl_tensor_filled(E, e, list, t);
}

static dl_val eval_as(dl_elab *E, const dl_ast *e, dl_pipeline *pipeline) {
    /* rearrange makes the new axes itself and needs their names. */
    dl_val x = e->a->kind == DL_A_PIPE   ? eval_pipe(E, e->a, pipeline, e)
               : e->a->kind == DL_A_CALL ? dl_apply(E, e->a, NULL, pipeline, e)
                                         : dl_eval(E, e->a);
    if (x.kind == DL_V_POISON) return x;
    if (x.kind == DL_V_LIST) return eval_literal(E, e, x);
    if (dl_refuse_layer(E, e->at, x)) return dl_poison();
    if (x.kind != DL_V_TENSOR)
        return dl_bad(E, e->at, DL_DIAG_not_a_tensor, "`as` names the axes of a tensor, not of %s",
                      dl_val_describe(E, x));
    return name_axes(E, e, x);
}

static dl_val eval_cast(dl_elab *E, const dl_ast *e, dl_pipeline *pipeline) {
    dl_val x = e->a->kind == DL_A_PIPE ? eval_pipe(E, e->a, pipeline, NULL)
               : e->a->kind == DL_A_AS ? eval_as(E, e->a, pipeline)
                                       : dl_eval(E, e->a);
    return x.kind == DL_V_POISON ? x : dl_tensor_convert(E, e, x);
}

static dl_val eval_kind(dl_elab *E, const dl_ast *e, const char *variable) {
    dl_pipeline pipeline = {.variable = variable};
    switch (e->kind) {
    case DL_A_INT: return dl_val_int(e->i, e->span);
    case DL_A_FLOAT: return dl_val_float(e->f, e->span);
    case DL_A_BOOL: return dl_val_bool(e->i, e->span);
    case DL_A_STR: return dl_val_str(e->name, e->span);
    case DL_A_TEXT: {
        const char *text = dl_parts_text(E, &e->items, "a string");
        return text ? dl_val_str(text, e->span) : dl_poison();
    }
    case DL_A_NONE: return (dl_val){.kind = DL_V_NONE, .origin = e->span};
    case DL_A_NAME: return dl_name_value(E, e);
    case DL_A_LIST: return eval_list(E, e);
    case DL_A_COMP: return eval_comprehension(E, e);
    case DL_A_UNARY: return eval_unary(E, e);
    case DL_A_BINARY: return eval_binary(E, e);
    case DL_A_COND: {
        bool yes;
        if (!decide(E, e->b, &yes)) return dl_poison();
        return dl_eval_named(E, yes ? e->a : e->c, variable);
    }
    case DL_A_CALL:
    case DL_A_LABEL: return dl_apply(E, e, NULL, &pipeline, NULL);
    case DL_A_PIPE: return eval_pipe(E, e, &pipeline, NULL);
    case DL_A_AS: return eval_as(E, e, &pipeline);
    case DL_A_CAST: return eval_cast(E, e, &pipeline);
    case DL_A_INDEX: return eval_index(E, e);
    case DL_A_ATTR: return eval_attribute(E, e);
    case DL_A_SLICE:
        return dl_bad(E, e->span, DL_DIAG_syntax,
                      "a slice a:b or a:b:step stands only in brackets after a value");
    default: return dl_poison();
    }
}

dl_val dl_eval_named(dl_elab *E, const dl_ast *e, const char *variable) {
    if (!dl_begin_eval(E, e)) return dl_poison();
    E->depth++;
    dl_val v = eval_kind(E, e, variable);
    E->depth--;
    dl_tell(E, e->span, v);
    return v;
}

dl_val dl_eval(dl_elab *E, const dl_ast *e) { return dl_eval_named(E, e, NULL); }

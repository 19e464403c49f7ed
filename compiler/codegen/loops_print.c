/* Statements of the loop IR as text: C for the CPU, or CUDA C++, by the emitter's dialect. */
#include "compiler/codegen/emit_parts.h"
#include "compiler/codegen/loop_parts.h"

static void put_list(dl_loops *l, dl_loop_stmt *s);

static void put_unroll(dl_emitter *e, int turns) {
    if (turns && e->dialect->unroll)
        dl_putf(e->out, turns == DL_UNROLLED ? "%s\n" : "%s %d\n", e->dialect->unroll, turns);
}

static void put_variable(dl_emitter *e, const dl_loop_stmt *s) {
    bool shared = s->space == DL_IN_SHARED, zeros = s->a && s->a->kind == DL_E_NUMBER;
    dl_putf(e->out, "    %s%s ", shared ? e->dialect->shared : "",
            dl_loop_type_name(e, s->name->type));
    dl_loop_put(e, s->name);
    if (s->name->array)
        dl_putf(e->out, "[%d]%s", (int)s->number, zeros ? " = {0}" : "");
    else if (s->name->type == DL_LOOP_SUMS)
        dl_puts(e->out, " = {0}");
    else
        dl_puts(e->out, " = "), dl_loop_put(e, s->a);
    dl_puts(e->out, ";\n");
    if (!s->name->array || !s->a || zeros) return;
    put_unroll(e, DL_UNROLLED);
    dl_putf(e->out, "    for (int j = 0; j < %d; j++) ", (int)s->number);
    dl_loop_put(e, s->name), dl_puts(e->out, "[j] = "), dl_loop_put(e, s->a),
        dl_puts(e->out, ";\n");
}

static void put_for(dl_loops *l, const dl_loop_stmt *s) {
    dl_emitter *e = l->e;
    unsigned bit = s->name ? 0 : 1u << s->number, before = e->coordinates;
    const char *x = s->name ? s->name->text : dl_emit_coordinate(e, (int)s->number);
    put_unroll(e, s->unroll);
    dl_putf(e->out, "    for (%s %s = ", e->dialect->index, x), dl_loop_put(e, s->a);
    dl_putf(e->out, "; %s < ", x), dl_loop_put_term(e, s->b);
    dl_putf(e->out, s->step ? "; %s += " : "; %s++", x);
    if (s->step) dl_loop_put(e, s->step);
    dl_puts(e->out, ") {\n");
    put_list(l, s->first);
    dl_puts(e->out, "    }\n");
    e->coordinates = (e->coordinates & ~bit) | before;
}

/* The text of statements from s on, which e->out gets for now. */
typedef struct {
    dl_buf *out, text;
} aside;

static aside *put_aside(dl_loops *l, aside *a, dl_loop_stmt *s) {
    *a = (aside){.out = l->e->out};
    l->e->out = &a->text;
    put_list(l, s);
    l->e->out = a->out;
    return a;
}

static void put_back(dl_loops *l, aside *a) {
    dl_putn(l->e->out, a->text.n ? a->text.at : "", a->text.n);
    dl_buf_free(&a->text);
}

/* A loop over the points of vectors, counted by `j`; a coordinate is written where they use it. */
static void put_points(dl_loops *l, const dl_loop_stmt *s) {
    dl_emitter *e = l->e;
    const dl_vectors *v = s->vectors;
    const char *index = e->dialect->index, *const *before = e->array;
    e->array = v->array;
    if (v->width == 1) {
        put_list(l, s->first);
    } else {
        unsigned bit = 1u << v->axis, others = e->coordinates;
        aside body;
        e->coordinates &= ~bit;
        put_aside(l, &body, s->first);
        bool uses = e->coordinates & bit;
        if (uses) dl_putf(e->out, "    const %s first_point = $x%d$;\n", index, v->axis);
        put_unroll(e, DL_UNROLLED);
        dl_putf(e->out, "    for (int j = 0; j < %d; j++) {\n", v->width);
        if (uses) dl_putf(e->out, "    const %s $x%d$ = first_point + j;\n", index, v->axis);
        put_back(l, &body);
        dl_puts(e->out, "    }\n");
        e->coordinates |= others;
    }
    e->array = before;
}

/* Declares a vector, and loads it. */
static void put_vector(dl_emitter *e, const dl_loop_stmt *s) {
    int i = (int)s->number;
    const char *type = dl_emit_vector_type(e, i, s->vectors->width);
    if (s->full) {
        dl_putf(e->out, "    %s &$l%d$ = $a%d$[0];\n", type, i, i);
        return;
    }
    dl_putf(e->out, "    %s $l%d$;\n", type, i);
    if (e->k->instrs.at[i].kind != DL_K_STORE)
        dl_emit_load_vector(e, dl_format(e->arena, "$l%d$", i), i);
}

/* The body of a loop over lanes at `i`, for a whole vector or the rest. */
static void put_lanes_body(dl_loops *l, const dl_loop_stmt *s, bool rest) {
    dl_emitter *e = l->e;
    unsigned before = e->coordinates;
    if (s->number >= 0) {
        const char *x = dl_emit_coordinate(e, (int)s->number);
        dl_putf(e->out, "    const %s %s = i;\n    (void)%s;\n", e->dialect->index, x, x);
    }
    if (e->mode == DL_LANES) {
        dl_putf(e->out, "    const %s n = ", e->dialect->index);
        if (rest)
            dl_loop_put_term(e, s->b), dl_puts(e->out, " - i");
        else
            dl_puts(e->out, "LANES");
        dl_puts(e->out, ";\n    (void)n;\n");
    }
    put_list(l, s->first);
    dl_puts(e->out, "    }\n");
    if (s->number >= 0) e->coordinates = (e->coordinates & ~(1u << s->number)) | before;
}

static void put_lanes(dl_loops *l, const dl_loop_stmt *s) {
    dl_emitter *e = l->e;
    bool lanes = s->mode == DL_LANES;
    dl_lane_mode mode = e->mode;
    int axis = e->lane_axis;
    e->mode = s->mode, e->lane_axis = s->lane_axis;
    dl_putf(e->out, lanes ? "    %s i = " : "    for (%s i = ", e->dialect->index),
        dl_loop_put(e, s->a);
    dl_puts(e->out, lanes ? ";\n    for (; i + LANES <= " : "; i < ");
    dl_loop_put_term(e, s->b);
    dl_puts(e->out, lanes ? "; i += LANES) {\n" : "; i++) {\n");
    put_lanes_body(l, s, false);
    if (lanes && !s->full) {
        dl_puts(e->out, "    if (i < "), dl_loop_put_term(e, s->b);
        dl_puts(e->out, ") {\n");
        put_lanes_body(l, s, true);
    }
    e->mode = mode, e->lane_axis = axis;
}

/* v<number>, of the rounded value. */
static void put_definition(dl_emitter *e, const dl_loop_stmt *s) {
    dl_dtype d = e->k->instrs.at[s->number].type;
    dl_cast c = dl_emit_rounding(e->mode, d, s->a->type != DL_LOOP_FLOAT);
    if (!*c.open) c = (dl_cast){dl_format(e->arena, "(%s)(", dl_emit_type(e, d)), ")"};
    dl_putf(e->out, "    const %s $v%d$ = %s", dl_emit_type(e, d), (int)s->number, c.open);
    dl_loop_put(e, s->a);
    dl_putf(e->out, "%s;\n    (void)$v%d$;\n", c.close, (int)s->number);
}

static void put_statement(dl_loops *l, const dl_loop_stmt *s) {
    dl_emitter *e = l->e;
    switch (s->kind) {
    case DL_S_LET:
        dl_putf(e->out, "    %s%s %s%s = ", s->name->array ? "" : "const ",
                dl_loop_type_name(e, s->name->type), s->name->array ? "*" : "", s->name->text);
        dl_loop_put(e, s->a), dl_puts(e->out, ";\n");
        break;
    case DL_S_COORD:
        dl_putf(e->out, "    const %s $%s%d$ = ", e->dialect->index, e->dialect->coordinate,
                (int)s->number);
        dl_loop_put(e, s->a), dl_puts(e->out, ";\n");
        break;
    case DL_S_VAR: put_variable(e, s); break;
    case DL_S_SET:
        dl_puts(e->out, "    "), dl_loop_put(e, s->name), dl_puts(e->out, " = "),
            dl_loop_put(e, s->a);
        dl_puts(e->out, ";\n");
        break;
    case DL_S_DO: dl_puts(e->out, "    "), dl_loop_put(e, s->a), dl_puts(e->out, ";\n"); break;
    case DL_S_FOR: put_for(l, s); break;
    case DL_S_LANES: put_lanes(l, s); break;
    case DL_S_IF:
        dl_puts(e->out, "    if ("), dl_loop_put(e, s->a), dl_puts(e->out, ") {\n");
        put_list(l, s->first);
        dl_puts(e->out, "    }\n");
        break;
    case DL_S_BLOCK:
        dl_puts(e->out, "    {\n"), put_list(l, s->first), dl_puts(e->out, "    }\n");
        break;
    case DL_S_BARRIER: dl_putf(e->out, "    %s;\n", e->dialect->barrier); break;
    case DL_S_POINTS: put_points(l, s); break;
    case DL_S_LOAD_VECTOR: put_vector(e, s); break;
    case DL_S_STORE_VECTOR: dl_emit_store_vector(e, (int)s->number); break;
    case DL_S_INSTR: dl_emit_instr(e, (int)s->number); break;
    case DL_S_DEFINE: put_definition(e, s); break;
    case DL_S_GIVE:
        dl_putf(e->out, "    const %s $v%d$ = ", dl_loop_type_name(e, s->a->type), (int)s->number);
        dl_loop_put(e, s->a), dl_puts(e->out, ";\n");
        break;
    case DL_S_READ: dl_emit_read(e, (int)s->number); break;
    case DL_S_KEEP: dl_emit_keep(e, (int)s->number); break;
    case DL_S_ROOT: break;
    }
}

/* A name or a coordinate is written where the statements after it use it. */
static void put_list(dl_loops *l, dl_loop_stmt *s) {
    dl_emitter *e = l->e;
    for (; s && s->kind != DL_S_LET && s->kind != DL_S_COORD; s = s->next) put_statement(l, s);
    if (!s) return;
    bool coordinate = s->kind == DL_S_COORD;
    unsigned bit = coordinate ? 1u << s->number : 0, before = e->coordinates;
    aside rest;
    e->coordinates &= ~bit;
    put_aside(l, &rest, s->next);
    if (coordinate ? e->coordinates & bit : s->used) put_statement(l, s);
    e->coordinates = (e->coordinates & ~bit) | before;
    put_back(l, &rest);
}

void dl_loop_put_coordinates(dl_emitter *e, const char *number, const dl_axis_list *list) {
    dl_loops l = dl_loop_begin(e);
    dl_loop_collapsed(&l, dl_loop_name(&l, DL_LOOP_INDEX, false, number), list, NULL);
    for (dl_loop_stmt *s = l.open->first; s; s = s->next) put_statement(&l, s);
}

void dl_loop_print_part(dl_loops *l) {
    DL_CHECK(!l->open->parent);
    put_list(l, l->open->first);
}

void dl_loop_print(dl_loops *l) {
    dl_emitter *e = l->e;
    aside all;
    DL_CHECK(!l->open->parent);
    e->coordinates = 0;
    put_aside(l, &all, l->open->first);
    for (int i = 0; i < e->k->nspace; i++)
        if (e->coordinates >> i & 1)
            dl_putf(e->out, "    const %s $%s%d$ = 0;\n", e->dialect->index, e->dialect->coordinate,
                    i);
    e->coordinates = 0;
    put_back(l, &all);
}

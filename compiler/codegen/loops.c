/* Building of the loop IR: loops.h. */
#include "compiler/codegen/emit_parts.h"
#include "compiler/codegen/loop_parts.h"

/* ---- types ---- */

dl_loop_type dl_loop_type_of(dl_lane_mode mode, dl_dtype d) {
    bool lanes = mode == DL_LANES; /* of types that have them */
    return d == DL_F64    ? DL_LOOP_DOUBLE
           : d == DL_I64  ? DL_LOOP_LONG
           : d == DL_I32  ? lanes ? DL_LOOP_INT_LANES : DL_LOOP_INT
           : d == DL_BOOL ? lanes ? DL_LOOP_BOOL_LANES : DL_LOOP_INT
           : lanes        ? DL_LOOP_LANES
                          : DL_LOOP_FLOAT;
}

dl_loop_type dl_loop_partial_type(const dl_kinstr *in) {
    return dl_dtype_is_float(in->type) ? DL_LOOP_DOUBLE : DL_LOOP_LONG;
}

static bool is_whole(dl_expr a) {
    return !a->array &&
           (a->type == DL_LOOP_INDEX || a->type == DL_LOOP_INT || a->type == DL_LOOP_LONG);
}

/* ---- expressions ---- */

static dl_expr expr_of(dl_loops *l, dl_loop_expr x) {
    dl_loop_expr *made = DL_NEW(l->e->arena, dl_loop_expr);
    *made = x;
    return made;
}

dl_expr dl_loop_number(dl_loops *l, int64_t v) {
    return expr_of(l, (dl_loop_expr){.kind = DL_E_NUMBER, .number = v});
}

dl_expr dl_loop_fixed(dl_loops *l, int64_t v) {
    return expr_of(l, (dl_loop_expr){.kind = DL_E_NUMBER, .number = v, .fixed = true});
}

/* Holes are not folded: equal functions may differ in them. */
static bool is_fixed(dl_expr a) { return a->kind == DL_E_NUMBER && a->fixed; }
static bool is_number(dl_expr a, int64_t v) { return is_fixed(a) && a->number == v; }

static int64_t compute(int64_t a, char op, int64_t b) {
    return op == '+'   ? a + b
           : op == '-' ? a - b
           : op == '*' ? a * b
           : op == '/' ? a / b
           : op == '%' ? a % b
                       : (a < b ? a : b);
}

/* The part of a op b that remains where one operand decides it; NULL: all. */
static dl_expr fold(dl_loops *l, dl_expr a, char op, dl_expr b) {
    bool zero = is_number(b, 0), one = is_number(b, 1);
    if (((op == '+' || op == '-') && zero) || ((op == '*' || op == '/') && one)) return a;
    if (op == '+' && is_number(a, 0)) return b;
    if ((op == '%' && one) || (op == '*' && zero)) return dl_loop_fixed(l, 0);
    if (!is_fixed(a) || !is_fixed(b) || op == '<' || op == '=') return NULL;
    return dl_loop_fixed(l, compute(a->number, op, b->number));
}

dl_expr dl_loop_op(dl_loops *l, dl_expr a, char op, dl_expr b) {
    bool compares = op == '<' || op == '=', both = op == '&';
    bool same = a->type == b->type && !a->array && !b->array;
    DL_CHECK(both ? same && a->type == DL_LOOP_BOOL : same || (is_whole(a) && is_whole(b)));
    dl_expr less = both ? NULL : fold(l, a, op, b);
    if (less) return less;
    dl_loop_type type = compares || both         ? DL_LOOP_BOOL
                        : a->kind == DL_E_NUMBER ? b->type
                                                 : a->type;
    return expr_of(l, (dl_loop_expr){.kind = DL_E_OP, .type = type, .op = op, .a = a, .b = b});
}

dl_expr dl_loop_by(dl_loops *l, dl_expr a, char op, int64_t b) {
    return dl_loop_op(l, a, op, dl_loop_number(l, b));
}

dl_expr dl_loop_select(dl_loops *l, dl_expr test, dl_expr a, dl_expr b) {
    DL_CHECK(test->type == DL_LOOP_BOOL && a->type == b->type);
    return expr_of(l,
                   (dl_loop_expr){.kind = DL_E_SELECT, .type = a->type, .a = test, .b = a, .c = b});
}

dl_expr dl_loop_convert(dl_loops *l, dl_loop_type type, dl_expr a) {
    if (a->type == type) return a;
    return expr_of(l, (dl_loop_expr){.kind = DL_E_CONVERT, .type = type, .a = a});
}

dl_expr dl_loop_item(dl_loops *l) { return expr_of(l, (dl_loop_expr){.kind = DL_E_ITEM}); }

dl_expr dl_loop_thread(dl_loops *l) {
    DL_CHECK(l->e->dialect->thread);
    return expr_of(l, (dl_loop_expr){.kind = DL_E_THREAD});
}

dl_expr dl_loop_value(dl_loops *l, int number) {
    dl_loop_type type = dl_loop_type_of(l->e->mode, l->e->k->instrs.at[number].type);
    return expr_of(l, (dl_loop_expr){.kind = DL_E_VALUE, .type = type, .number = number});
}

static dl_expr array_in(dl_loops *l, const char *memory, dl_loop_type type, int64_t byte) {
    return expr_of(
        l, (dl_loop_expr){
               .kind = DL_E_MEMORY, .text = memory, .type = type, .array = true, .number = byte});
}

dl_expr dl_loop_workspace(dl_loops *l, dl_loop_type type, int64_t byte) {
    return array_in(l, "workspace", type, byte);
}

dl_expr dl_loop_memory(dl_loops *l, dl_loop_type type, int64_t byte) {
    return array_in(l, l->e->dialect->memory, type, byte);
}

dl_expr dl_loop_at(dl_loops *l, dl_expr array, dl_expr place) {
    DL_CHECK(array->array && is_whole(place));
    return expr_of(l, (dl_loop_expr){.kind = DL_E_AT, .type = array->type, .a = array, .b = place});
}

dl_expr dl_loop_from(dl_loops *l, dl_expr array, dl_expr place) {
    DL_CHECK(array->array && is_whole(place));
    return expr_of(
        l, (dl_loop_expr){
               .kind = DL_E_FROM, .type = array->type, .array = true, .a = array, .b = place});
}

dl_expr dl_loop_slot(dl_loops *l, dl_expr variable, dl_expr place) {
    return variable->array ? dl_loop_at(l, variable, place) : variable;
}

dl_expr dl_loop_name(dl_loops *l, dl_loop_type type, bool array, const char *name) {
    return expr_of(l,
                   (dl_loop_expr){.kind = DL_E_NAME, .type = type, .array = array, .text = name});
}

dl_loop_type dl_loop_expr_type(dl_expr a) { return a->type; }

dl_expr dl_loop_inside(dl_loops *l, const dl_kinstr *in) {
    return expr_of(l, (dl_loop_expr){.kind = DL_E_INSIDE, .type = DL_LOOP_BOOL, .in = in});
}

dl_expr dl_loop_linear(dl_loops *l, const dl_axis_list *list) {
    dl_expr sum = dl_loop_fixed(l, 0);
    int64_t stride = list->points;
    for (int i = 0; i < list->n; i++) {
        dl_expr x = expr_of(l, (dl_loop_expr){.kind = DL_E_COORD, .number = list->axis[i]});
        stride /= dl_at_least(1, l->e->k->space[list->axis[i]].size);
        sum = dl_loop_op(l, sum, '+', stride == 1 ? x : dl_loop_by(l, x, '*', stride));
    }
    return sum;
}

dl_expr dl_loop_start(dl_loops *l, const dl_kinstr *in) {
    return expr_of(l,
                   (dl_loop_expr){.kind = DL_E_START, .type = dl_loop_partial_type(in), .in = in});
}

dl_expr dl_loop_combine(dl_loops *l, const dl_kinstr *in, dl_expr a, dl_expr b) {
    DL_CHECK(a->type == b->type);
    return expr_of(l,
                   (dl_loop_expr){.kind = DL_E_COMBINE, .type = a->type, .in = in, .a = a, .b = b});
}

dl_expr dl_loop_reduce(dl_loops *l, const dl_kinstr *in, dl_expr a, const dl_thread_layout *t) {
    if (!l->e->dialect->thread) return a;
    return expr_of(
        l, (dl_loop_expr){.kind = DL_E_REDUCE,
                          .type = a->type,
                          .in = in,
                          .a = a,
                          .b = t->strided || t->unrolled ? NULL : dl_loop_number(l, t->lanes),
                          .threads = *t});
}

dl_expr dl_loop_call(dl_loops *l, dl_loop_type type, const char *name, int n, const dl_expr *args) {
    return expr_of(l, (dl_loop_expr){.kind = DL_E_CALL,
                                     .type = type,
                                     .text = name,
                                     .a = args[0],
                                     .b = n > 1 ? args[1] : NULL,
                                     .c = n > 2 ? args[2] : NULL,
                                     .d = n > 3 ? args[3] : NULL});
}

/* ---- statements ---- */

static dl_loop_stmt *append(dl_loops *l, dl_loop_stmt s) {
    dl_loop_stmt *made = DL_NEW(l->e->arena, dl_loop_stmt), *last = l->open->last;
    *made = s, made->parent = l->open;
    *(last ? &last->next : &l->open->first) = made, l->open->last = made;
    return made;
}

dl_loops dl_loop_begin(dl_emitter *e) {
    return (dl_loops){.e = e,
                      .open = DL_NEW(e->arena, dl_loop_stmt),
                      .where = DL_NEWS(e->arena, const dl_loop_stmt *, e->k->instrs.n + 1)};
}

/* A statement that gives a name. */
static dl_expr append_named(dl_loops *l, dl_loop_stmt s, const char *name, dl_loop_type type,
                            bool array) {
    dl_loop_stmt *made = append(l, s);
    made->name = expr_of(
        l,
        (dl_loop_expr){.kind = DL_E_NAME, .type = type, .array = array, .text = name, .of = made});
    return made->name;
}

dl_expr dl_loop_let(dl_loops *l, const char *name, dl_expr value) {
    return append_named(l, (dl_loop_stmt){.kind = DL_S_LET, .a = value}, name, value->type,
                        value->array);
}

dl_expr dl_loop_var(dl_loops *l, dl_loop_type type, const char *name, dl_expr start) {
    return append_named(l, (dl_loop_stmt){.kind = DL_S_VAR, .a = start}, name, type, false);
}

dl_expr dl_loop_array(dl_loops *l, dl_loop_type type, dl_loop_space space, const char *name,
                      int count, dl_expr start) {
    DL_CHECK(space == DL_IN_THREAD || l->e->dialect->thread);
    return append_named(
        l, (dl_loop_stmt){.kind = DL_S_VAR, .a = start, .number = count, .space = space}, name,
        type, true);
}

dl_expr dl_loop_vars(dl_loops *l, dl_loop_type type, const char *name, int n, dl_expr start) {
    return n > 1 ? dl_loop_array(l, type, DL_IN_THREAD, name, n, start)
                 : dl_loop_var(l, type, name, start);
}

void dl_loop_set(dl_loops *l, dl_expr target, dl_expr value) {
    append(l, (dl_loop_stmt){.kind = DL_S_SET, .name = target, .a = value});
}

void dl_loop_do(dl_loops *l, dl_expr call) {
    append(l, (dl_loop_stmt){.kind = DL_S_DO, .a = call});
}

void dl_loop_grow(dl_loops *l, int number, dl_expr target, dl_expr test) {
    const dl_kinstr *in = &l->e->k->instrs.at[number];
    dl_expr more = dl_loop_convert(l, target->type, dl_loop_value(l, in->args[0])),
            both = dl_loop_combine(l, in, target, more);
    dl_loop_set(l, target, test ? dl_loop_select(l, test, both, target) : both);
}

dl_expr dl_loop_for(dl_loops *l, const char *name, dl_expr from, dl_expr to, dl_expr step,
                    int unroll) {
    dl_expr x = append_named(
        l, (dl_loop_stmt){.kind = DL_S_FOR, .a = from, .b = to, .step = step, .unroll = unroll},
        name, DL_LOOP_INDEX, false);
    l->open = l->open->last;
    return x;
}

void dl_loop_axis(dl_loops *l, int axis, int64_t size, int unroll) {
    l->open = append(l, (dl_loop_stmt){.kind = DL_S_FOR,
                                       .number = axis,
                                       .a = dl_loop_fixed(l, 0),
                                       .b = dl_loop_fixed(l, size),
                                       .unroll = unroll});
}

void dl_loop_if(dl_loops *l, dl_expr test) {
    DL_CHECK(test->type == DL_LOOP_BOOL);
    l->open = append(l, (dl_loop_stmt){.kind = DL_S_IF, .a = test});
}

void dl_loop_block(dl_loops *l) { l->open = append(l, (dl_loop_stmt){.kind = DL_S_BLOCK}); }

void dl_loop_end(dl_loops *l) {
    DL_CHECK(l->open->parent);
    l->open = l->open->parent;
}

void dl_loop_barrier(dl_loops *l) {
    if (l->e->dialect->thread) append(l, (dl_loop_stmt){.kind = DL_S_BARRIER});
}

void dl_loop_lanes(dl_loops *l, int axis, dl_expr from, dl_expr to, bool full) {
    DL_CHECK(axis >= 0 || l->e->mode == DL_SINGLE);
    l->open = append(l, (dl_loop_stmt){.kind = DL_S_LANES,
                                       .number = axis,
                                       .a = from,
                                       .b = to,
                                       .full = full,
                                       .mode = l->e->mode,
                                       .lane_axis = l->e->lane_axis});
}

static void append_coordinates(dl_loops *l, dl_expr number, const dl_axis_list *list,
                               bool collapses, const dl_vectors *v) {
    const dl_axis *space = l->e->k->space;
    const int *axis = list->axis;
    int64_t count = list->points / (v ? v->width : 1);
    for (int i = 0, first = 0; i < list->n; first = ++i) {
        int64_t size = space[axis[i]].size;
        while (collapses && i + 1 < list->n && dl_emit_collapses(l->e, axis[i], axis[i + 1])) {
            append(l,
                   (dl_loop_stmt){.kind = DL_S_COORD, .number = axis[i], .a = dl_loop_fixed(l, 0)});
            size *= space[axis[++i]].size;
        }
        int width = v && axis[i] == v->axis ? v->width : 1;
        size = size / width ? size / width : 1;
        count = count / size ? count / size : 1;
        dl_expr x = i + 1 < list->n || count > 1 ? dl_loop_by(l, number, '/', count) : number;
        if (first) x = dl_loop_by(l, x, '%', size);
        if (width > 1) x = dl_loop_by(l, x, '*', width);
        append(l, (dl_loop_stmt){.kind = DL_S_COORD, .number = axis[i], .a = x});
    }
}

void dl_loop_coordinates(dl_loops *l, dl_expr number, const dl_axis_list *list) {
    append_coordinates(l, number, list, false, NULL);
}

void dl_loop_collapsed(dl_loops *l, dl_expr number, const dl_axis_list *list, const dl_vectors *v) {
    append_coordinates(l, number, list, !v || !v->other_axis, v);
}

void dl_loop_load_vector(dl_loops *l, const dl_vectors *v, int number, bool prefetched) {
    append(l, (dl_loop_stmt){
                  .kind = DL_S_LOAD_VECTOR, .number = number, .vectors = v, .full = prefetched});
}

void dl_loop_store_vector(dl_loops *l, int number) {
    append(l, (dl_loop_stmt){.kind = DL_S_STORE_VECTOR, .number = number});
}

dl_expr dl_loop_points(dl_loops *l, const dl_vectors *v) {
    l->open = append(l, (dl_loop_stmt){.kind = DL_S_POINTS, .vectors = v});
    return v->width > 1 ? dl_loop_name(l, DL_LOOP_INDEX, false, "j") : dl_loop_fixed(l, 0);
}

void dl_loop_threads(dl_loops *l, const dl_thread_layout *t, dl_expr *lane, dl_expr *group) {
    *lane = *group = dl_loop_fixed(l, 0);
    if (!l->e->dialect->thread) return;
    dl_expr thread = dl_loop_thread(l);
    int inner = t->strided ? t->groups : t->lanes;
    dl_expr first = dl_loop_by(l, thread, '%', inner), second = dl_loop_by(l, thread, '/', inner);
    *lane = dl_loop_let(l, "lane", t->strided ? second : first);
    *group = dl_loop_let(l, "group", t->strided ? first : second);
}

bool dl_loop_has(const dl_loops *l, int number) {
    for (const dl_loop_stmt *s = l->open; s; s = s->parent)
        if (l->where[number] == s) return true;
    return false;
}

static void append_instr(dl_loops *l, dl_loop_stmt_kind kind, int number, dl_expr value) {
    append(l, (dl_loop_stmt){.kind = kind, .number = number, .a = value});
    l->where[number] = l->open;
}

void dl_loop_instr(dl_loops *l, int number) { append_instr(l, DL_S_INSTR, number, NULL); }

void dl_loop_spare(dl_loops *l, int number) {
    const char *name = dl_format(l->e->arena, "(void)$v%d$", number);
    if (!l->e->dialect->thread) dl_loop_do(l, dl_loop_name(l, DL_LOOP_INDEX, false, name));
}

void dl_loop_needs(dl_loops *l, int number) {
    bool *needed = DL_NEWS(l->e->arena, bool, number + 1);
    needed[number] = true;
    for (int i = number; i >= 0; i--)
        for (int a = 0; needed[i] && !dl_loop_has(l, i) && a < l->e->steps[i].nargs; a++)
            needed[l->e->steps[i].args[a]] = true;
    for (int i = 0; i <= number; i++)
        if (needed[i] && !dl_loop_has(l, i)) dl_loop_instr(l, i);
}

void dl_loop_define(dl_loops *l, int number, dl_expr value) {
    append_instr(l, DL_S_DEFINE, number, value);
}

void dl_loop_give(dl_loops *l, int number, dl_expr value) {
    append_instr(l, DL_S_GIVE, number, value);
}

void dl_loop_splat(dl_loops *l, int number, dl_expr value) {
    dl_dtype d = l->e->k->instrs.at[number].type;
    const char *name = dl_format(l->e->arena, "splat%s", dl_emit_suffix(dl_kernel_type(d)));
    dl_loop_give(l, number, dl_loop_call(l, dl_loop_type_of(DL_LANES, d), name, 1, &value));
}

void dl_loop_read(dl_loops *l, int number) { append_instr(l, DL_S_READ, number, NULL); }

void dl_loop_keep(dl_loops *l, int number) {
    append(l, (dl_loop_stmt){.kind = DL_S_KEEP, .number = number});
}

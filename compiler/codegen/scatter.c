/* Scatters as loops: scatter.h. */
#include "compiler/codegen/scatter.h"

bool dl_scatter_find(dl_emitter *e, dl_scatter *s, dl_error *err) {
    const dl_kernel *k = e->k;
    unsigned has = 0, wide = dl_kernel_wide_axes(k);
    *s = (dl_scatter){.e = e, .end = k->instrs.n - 1, .choices = 1};
    s->store = &k->instrs.at[s->end], s->number = dl_kinstr_indirect(k, s->store);
    bool alone = s->number >= 0 && k->params.at[s->store->param].type.dtype != DL_BOOL;
    for (int i = 0; i < s->end; i++)
        alone = alone && k->instrs.at[i].kind != DL_K_STORE && e->steps[i].kind != DL_K_REDUCE &&
                k->instrs.at[i].kind != DL_K_CONTRACT;
    if (!alone)
        return dl_emit_refuse(k, s->store, err,
                              "a scatter to numbered places stands alone in a kernel [DL-E0803]");
    s->by = (dl_kinstr){.op = s->store->op == DL_OP_reduce_max ? DL_OP_reduce_max : DL_OP_sum,
                        .type = k->params.at[s->store->param].type.dtype};
    for (int i = 0; i < k->params.at[s->store->param].type.rank; i++) {
        const dl_index *at = &s->store->index[i];
        if (at->indirect)
            s->choices = k->params.at[s->store->param].type.axis[i].size;
        else if (at->axis >= 0)
            has |= 1u << at->axis;
    }
    unsigned told = e->steps[s->number].axes;
    s->kept = dl_emit_space_axes(e, wide & told & has);
    s->added = dl_emit_space_axes(e, wide & ~has);
    s->points = dl_emit_space_axes(e, wide & (told | ~has));
    s->rest = dl_emit_space_axes(e, wide & ~told & has);
    s->places = s->kept.points * s->choices;
    return true;
}

static dl_loop_type sum_type(const dl_scatter *s) { return dl_loop_partial_type(&s->by); }

/* sum += the point's value, or the larger one */
static void add(dl_loops *l, const dl_scatter *s, dl_expr sum) {
    dl_loop_needs(l, s->store->args[0]);
    dl_expr value = dl_loop_value(l, s->store->args[0]);
    dl_loop_set(l, sum, dl_loop_combine(l, &s->by, sum, dl_loop_convert(l, sum_type(s), value)));
}

/* Stores a result at the index `choice`; 0 where it is not of `some` points. */
static void store(dl_loops *l, const dl_scatter *s, dl_expr sum, dl_expr some, dl_expr choice) {
    dl_expr zero = dl_loop_convert(l, sum_type(s), dl_loop_fixed(l, 0));
    if (s->by.op != DL_OP_sum) sum = dl_loop_select(l, some, sum, zero);
    dl_loop_define(l, s->store->args[0], sum);
    if (s->store->args[0] != s->number) dl_loop_define(l, s->number, choice);
    dl_loop_instr(l, s->end);
}

/* ---- sorted ---- */

static dl_expr sorted_ends(dl_loops *l) {
    return dl_loop_let(l, "ends", dl_loop_workspace(l, DL_LOOP_LONG, 0));
}

static dl_expr sorted_points(dl_loops *l, const dl_scatter *s) {
    int64_t byte = (s->places + 1) * (int64_t)sizeof(int64_t);
    return dl_loop_let(l, "order", dl_loop_workspace(l, DL_LOOP_LONG, byte));
}

int64_t dl_scatter_sorted_bytes(const dl_scatter *s) {
    return (s->places + 1 + s->points.points) * (int64_t)sizeof(int64_t);
}

/* array[place] += more */
static void grow(dl_loops *l, dl_expr array, dl_expr place, dl_expr more) {
    dl_expr at = dl_loop_at(l, array, place);
    dl_loop_set(l, at, dl_loop_op(l, at, '+', more));
}

/* A pass over all points: counts those of each destination, or puts them in order. Counts are
 * stored one further, so that their prefix sums are beginnings; the second pass moves each to its
 * end. */
static void visit_points(dl_loops *l, const dl_scatter *s, dl_expr ends, dl_expr order) {
    dl_expr one = dl_loop_number(l, 1), all = dl_loop_number(l, s->points.points),
            p = dl_loop_for(l, "p", dl_loop_number(l, 0), all, NULL, 0);
    dl_loop_coordinates(l, p, &s->points);
    dl_loop_needs(l, s->number);
    dl_expr choice = dl_loop_value(l, s->number),
            natural = dl_loop_op(l, dl_loop_number(l, -1), '<', choice);
    dl_loop_if(l, dl_loop_op(l, natural, '&', dl_loop_by(l, choice, '<', s->choices)));
    dl_expr row = dl_loop_linear(l, &s->kept), first = dl_loop_by(l, row, '*', s->choices),
            place = dl_loop_let(l, "place", dl_loop_op(l, first, '+', choice));
    if (order) dl_loop_set(l, dl_loop_at(l, order, dl_loop_at(l, ends, place)), p);
    grow(l, ends, order ? place : dl_loop_op(l, place, '+', one), one);
    dl_loop_end(l), dl_loop_end(l);
}

void dl_scatter_sort(const dl_scatter *s) {
    dl_loops l = dl_loop_begin(s->e);
    dl_expr zero = dl_loop_number(&l, 0), one = dl_loop_number(&l, 1), ends = sorted_ends(&l),
            order = sorted_points(&l, s);
    dl_expr i = dl_loop_for(&l, "i", zero, dl_loop_number(&l, s->places + 1), NULL, 0);
    dl_loop_set(&l, dl_loop_at(&l, ends, i), zero);
    dl_loop_end(&l);
    visit_points(&l, s, ends, NULL);
    i = dl_loop_for(&l, "i", zero, dl_loop_number(&l, s->places), NULL, 0);
    grow(&l, ends, dl_loop_op(&l, i, '+', one), dl_loop_at(&l, ends, i));
    dl_loop_end(&l);
    visit_points(&l, s, ends, order);
    dl_loop_print(&l);
}

void dl_scatter_sums(const dl_scatter *s, int64_t each) {
    enum { CHUNK = 64 }; /* elements of a row that are summed together */
    dl_axis_list inner = s->rest.n ? dl_emit_space_axes(s->e, 1u << s->rest.axis[s->rest.n - 1])
                                   : (dl_axis_list){.points = 1},
                 outer = s->rest;
    if (outer.n) outer.n--;
    outer.points = s->rest.points / dl_at_least(1, inner.points);
    dl_loops l = dl_loop_begin(s->e);
    dl_expr zero = dl_loop_number(&l, 0), ends = sorted_ends(&l), order = sorted_points(&l, s),
            first = dl_loop_let(&l, "first", dl_loop_by(&l, dl_loop_item(&l), '*', each)),
            next = dl_loop_by(&l, first, '+', each),
            last = dl_loop_let(&l, "last", dl_loop_by(&l, next, 'm', s->places));
    dl_expr place = dl_loop_for(&l, "place", first, last, NULL, 0);
    dl_expr row = dl_loop_for(&l, "row", zero, dl_loop_number(&l, outer.points), NULL, 0);
    dl_expr from = dl_loop_for(&l, "from", zero, dl_loop_number(&l, inner.points),
                               dl_loop_number(&l, CHUNK), 0),
            rest = dl_loop_op(&l, dl_loop_number(&l, inner.points), '-', from),
            n = dl_loop_let(&l, "n", dl_loop_by(&l, rest, 'm', CHUNK));
    dl_expr sums =
        dl_loop_array(&l, sum_type(s), DL_IN_THREAD, "sum", CHUNK, dl_loop_start(&l, &s->by));
    dl_loop_coordinates(&l, row, &outer);
    dl_expr before = dl_loop_at(&l, ends, dl_loop_by(&l, place, '-', 1));
    dl_expr begin = dl_loop_let(&l, "begin",
                                dl_loop_select(&l, dl_loop_op(&l, zero, '<', place), before,
                                               dl_loop_convert(&l, DL_LOOP_LONG, zero))),
            end = dl_loop_at(&l, ends, place), some = dl_loop_op(&l, begin, '<', end);
    dl_expr k = dl_loop_for(&l, "k", begin, end, NULL, 0);
    dl_loop_coordinates(&l, dl_loop_let(&l, "p", dl_loop_at(&l, order, k)), &s->points);
    dl_expr i = dl_loop_for(&l, "i", zero, n, NULL, 0);
    dl_loop_coordinates(&l, dl_loop_op(&l, from, '+', i), &inner);
    add(&l, s, dl_loop_at(&l, sums, i));
    dl_loop_end(&l), dl_loop_end(&l);
    dl_loop_coordinates(&l, dl_loop_by(&l, place, '/', dl_at_least(1, s->choices)), &s->kept);
    i = dl_loop_for(&l, "i", zero, n, NULL, 0);
    dl_loop_coordinates(&l, dl_loop_op(&l, from, '+', i), &inner);
    store(&l, s, dl_loop_at(&l, sums, i), some,
          dl_loop_by(&l, place, '%', dl_at_least(1, s->choices)));
    dl_loop_end(&l), dl_loop_end(&l), dl_loop_end(&l), dl_loop_end(&l);
    dl_loop_print(&l);
}

/* ---- by row ---- */

int64_t dl_scatter_row_bytes(const dl_scatter *s) {
    return s->choices * (s->rest.points + 1) * (int64_t)sizeof(int64_t);
}

void dl_scatter_rows(const dl_scatter *s, int64_t each) {
    const int64_t rest = dl_at_least(1, s->rest.points), all = s->choices * s->rest.points;
    dl_loops l = dl_loop_begin(s->e);
    dl_expr zero = dl_loop_number(&l, 0), choices = dl_loop_number(&l, s->choices),
            elements = dl_loop_number(&l, s->rest.points),
            sums = dl_loop_let(&l, "sums", dl_loop_memory(&l, sum_type(s), 0)),
            counts = dl_loop_let(&l, "counts",
                                 dl_loop_memory(&l, DL_LOOP_LONG, all * (int64_t)sizeof(int64_t))),
            first = dl_loop_let(&l, "first", dl_loop_by(&l, dl_loop_item(&l), '*', each)),
            last = dl_loop_by(&l, dl_loop_by(&l, first, '+', each), 'm', s->kept.points);
    dl_expr row = dl_loop_for(&l, "row", first, last, NULL, 0);
    dl_loop_coordinates(&l, row, &s->kept);
    dl_expr i = dl_loop_for(&l, "i", zero, dl_loop_number(&l, all), NULL, 0);
    dl_loop_set(&l, dl_loop_at(&l, sums, i), dl_loop_start(&l, &s->by));
    dl_loop_end(&l);
    i = dl_loop_for(&l, "i", zero, choices, NULL, 0);
    dl_loop_set(&l, dl_loop_at(&l, counts, i), zero);
    dl_loop_end(&l);
    dl_expr p = dl_loop_for(&l, "p", zero, dl_loop_number(&l, s->added.points), NULL, 0);
    dl_loop_coordinates(&l, p, &s->added);
    dl_loop_needs(&l, s->number);
    dl_expr choice = dl_loop_value(&l, s->number),
            natural = dl_loop_op(&l, dl_loop_number(&l, -1), '<', choice);
    dl_loop_if(&l, dl_loop_op(&l, natural, '&', dl_loop_by(&l, choice, '<', s->choices)));
    dl_expr place = dl_loop_let(&l, "place", dl_loop_convert(&l, DL_LOOP_INDEX, choice)),
            count = dl_loop_at(&l, counts, place);
    dl_loop_set(&l, count, dl_loop_by(&l, count, '+', 1));
    dl_expr r = dl_loop_for(&l, "r", zero, elements, NULL, 0);
    dl_loop_coordinates(&l, r, &s->rest);
    add(&l, s, dl_loop_at(&l, sums, dl_loop_op(&l, dl_loop_by(&l, place, '*', rest), '+', r)));
    dl_loop_end(&l), dl_loop_end(&l), dl_loop_end(&l);
    i = dl_loop_for(&l, "i", zero, choices, NULL, 0);
    dl_expr some = dl_loop_op(&l, zero, '<', dl_loop_at(&l, counts, i));
    r = dl_loop_for(&l, "r", zero, elements, NULL, 0);
    dl_loop_coordinates(&l, r, &s->rest);
    store(&l, s, dl_loop_at(&l, sums, dl_loop_op(&l, dl_loop_by(&l, i, '*', rest), '+', r)), some,
          i);
    dl_loop_end(&l), dl_loop_end(&l), dl_loop_end(&l);
    dl_loop_print(&l);
}

/* ---- searched ---- */

/* Runs the instructions of a point's index: is it this one? */
static dl_expr is_hit(dl_loops *l, const dl_scatter *s, dl_expr choice) {
    dl_loop_needs(l, s->number);
    return dl_loop_op(l, dl_loop_value(l, s->number), '=', choice);
}

/* The coordinates of a destination, and the index that denotes it. */
static dl_expr put_place(dl_loops *l, const dl_scatter *s, dl_expr place, dl_expr row) {
    dl_expr choice =
        dl_loop_let(l, "choice", dl_loop_by(l, place, '%', dl_at_least(1, s->choices)));
    dl_loop_coordinates(l, dl_loop_by(l, place, '/', dl_at_least(1, s->choices)), &s->kept);
    dl_loop_coordinates(l, row, &s->rest);
    return choice;
}

int64_t dl_scatter_elements(const dl_scatter *s, int threads) {
    int64_t rest = dl_at_least(1, s->rest.points), all = s->places * s->rest.points;
    dl_loops l = dl_loop_begin(s->e);
    dl_expr first = dl_loop_by(&l, dl_loop_item(&l), '*', threads),
            element = dl_loop_let(&l, "element", dl_loop_op(&l, first, '+', dl_loop_thread(&l)));
    dl_loop_if(&l, dl_loop_by(&l, element, '<', all));
    dl_expr row = dl_loop_let(&l, "row", dl_loop_by(&l, element, '%', rest)),
            place = dl_loop_let(&l, "place", dl_loop_by(&l, element, '/', rest)),
            choice = put_place(&l, s, place, row);
    dl_expr sum = dl_loop_var(&l, sum_type(s), "sum", dl_loop_start(&l, &s->by)),
            some = dl_loop_var(&l, DL_LOOP_BOOL, "some", dl_loop_fixed(&l, 0)),
            point = dl_loop_for(&l, "point", dl_loop_fixed(&l, 0),
                                dl_loop_fixed(&l, s->added.points), NULL, 1);
    dl_loop_coordinates(&l, point, &s->added);
    dl_loop_if(&l, is_hit(&l, s, choice));
    add(&l, s, sum);
    if (s->by.op != DL_OP_sum) dl_loop_set(&l, some, dl_loop_fixed(&l, 1));
    dl_loop_end(&l), dl_loop_end(&l);
    store(&l, s, sum, some, choice);
    dl_loop_end(&l);
    dl_loop_print(&l);
    return dl_ceil_div(all > 0 ? all : 1, threads);
}

/* ---- listed ---- */

int64_t dl_scatter_keys(const dl_scatter *s, int threads, int64_t byte) {
    dl_loops l = dl_loop_begin(s->e);
    dl_expr first = dl_loop_by(&l, dl_loop_item(&l), '*', threads),
            p = dl_loop_let(&l, "p", dl_loop_op(&l, first, '+', dl_loop_thread(&l)));
    dl_loop_if(&l, dl_loop_by(&l, p, '<', s->points.points));
    dl_loop_coordinates(&l, p, &s->points);
    dl_loop_needs(&l, s->number);
    dl_expr choice = dl_loop_value(&l, s->number), row = dl_loop_linear(&l, &s->kept),
            natural = dl_loop_op(&l, dl_loop_number(&l, -1), '<', choice),
            inside = dl_loop_op(&l, natural, '&', dl_loop_by(&l, choice, '<', s->choices)),
            place = dl_loop_op(&l, dl_loop_by(&l, row, '*', s->choices), '+', choice),
            keys = dl_loop_let(&l, "keys", dl_loop_workspace(&l, DL_LOOP_LONG, byte));
    dl_expr none = dl_loop_convert(&l, DL_LOOP_LONG, dl_loop_number(&l, s->places));
    place = dl_loop_convert(&l, DL_LOOP_LONG, place);
    dl_loop_set(&l, dl_loop_at(&l, keys, p), dl_loop_select(&l, inside, place, none));
    dl_loop_end(&l);
    dl_loop_print(&l);
    return dl_ceil_div(s->points.points, threads);
}

/* Neighbouring threads have neighbouring elements of a row, up to a warp of them; the others share
 * the points of a destination, of which each is to have some. */
static dl_thread_layout list_layout(const dl_scatter *s, int threads) {
    enum { WARP = 32, SHARE = 4 };
    const int64_t each = SHARE * s->points.points / dl_at_least(1, s->places);
    dl_thread_layout t = {.lanes = 1, .groups = threads, .strided = true};
    while (t.lanes < each && (t.groups > WARP || t.groups / 2 >= s->rest.points) && t.groups > 1)
        t.lanes *= 2, t.groups /= 2;
    return t;
}

int64_t dl_scatter_lists(const dl_scatter *s, int threads, const dl_scatter_list *list) {
    const int64_t rest = dl_at_least(1, s->rest.points), all = s->places * s->rest.points;
    const dl_thread_layout t = list_layout(s, threads);
    dl_loops l = dl_loop_begin(s->e);
    dl_expr lane, group, zero = dl_loop_fixed(&l, 0), item = dl_loop_item(&l);
    dl_loop_threads(&l, &t, &lane, &group);
    dl_expr begins = dl_loop_let(&l, "begins", dl_loop_workspace(&l, DL_LOOP_LONG, list->begins)),
            order = dl_loop_let(&l, "order", dl_loop_workspace(&l, DL_LOOP_INT, list->order)),
            own = dl_loop_op(&l, dl_loop_by(&l, item, '*', t.groups), '+', group),
            live = dl_loop_let(&l, "live", dl_loop_by(&l, own, '<', all)),
            element = dl_loop_let(&l, "element", dl_loop_select(&l, live, own, zero)),
            place = dl_loop_let(&l, "place", dl_loop_by(&l, element, '/', rest)),
            row = dl_loop_let(&l, "row", dl_loop_by(&l, element, '%', rest));
    dl_expr begin = dl_loop_let(&l, "begin", dl_loop_at(&l, begins, place)),
            next = dl_loop_at(&l, begins, dl_loop_by(&l, place, '+', 1)),
            end = dl_loop_let(&l, "end", dl_loop_select(&l, live, next, begin));
    dl_loop_coordinates(&l, row, &s->rest);
    dl_expr sum = dl_loop_var(&l, sum_type(s), "sum", dl_loop_start(&l, &s->by)),
            from = dl_loop_op(&l, dl_loop_convert(&l, DL_LOOP_INDEX, begin), '+', lane),
            i = dl_loop_for(&l, "i", from, dl_loop_convert(&l, DL_LOOP_INDEX, end),
                            dl_loop_number(&l, t.lanes), 1);
    dl_expr index = dl_loop_by(&l, dl_loop_by(&l, i, '*', list->words), '+', list->word),
            point = dl_loop_let(&l, "point",
                                dl_loop_convert(&l, DL_LOOP_INDEX, dl_loop_at(&l, order, index)));
    dl_loop_coordinates(&l, point, &s->points);
    add(&l, s, sum);
    dl_loop_end(&l);
    dl_loop_set(&l, sum, dl_loop_reduce(&l, &s->by, sum, &t));
    dl_loop_if(&l, dl_loop_op(&l, live, '&', dl_loop_by(&l, lane, '=', 0)));
    dl_loop_coordinates(&l, dl_loop_by(&l, place, '/', dl_at_least(1, s->choices)), &s->kept);
    store(&l, s, sum, dl_loop_op(&l, begin, '<', end),
          dl_loop_by(&l, place, '%', dl_at_least(1, s->choices)));
    dl_loop_end(&l);
    dl_loop_print(&l);
    return dl_ceil_div(all, t.groups);
}

/* Scatter-add as loops: scatter.h. */
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
                              "additions at numbered places stand alone in a kernel [DL-E0803]");
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

static dl_loop_type sum_type(const dl_scatter *s) {
    return dl_dtype_is_float(s->e->k->params.at[s->store->param].type.dtype) ? DL_LOOP_DOUBLE
                                                                             : DL_LOOP_LONG;
}

/* sum += the point's value */
static void add(dl_loops *l, const dl_scatter *s, dl_expr sum) {
    dl_loop_needs(l, s->store->args[0]);
    dl_expr value = dl_loop_value(l, s->store->args[0]);
    dl_loop_set(l, sum, dl_loop_op(l, sum, '+', dl_loop_convert(l, sum_type(s), value)));
}

/* Stores a sum at the index `choice`. */
static void store(dl_loops *l, const dl_scatter *s, dl_expr sum, dl_expr choice) {
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
    dl_expr sums = dl_loop_array(&l, sum_type(s), DL_IN_THREAD, "sum", CHUNK, zero);
    dl_loop_coordinates(&l, row, &outer);
    dl_expr before = dl_loop_at(&l, ends, dl_loop_by(&l, place, '-', 1));
    dl_expr begin = dl_loop_select(&l, dl_loop_op(&l, zero, '<', place), before,
                                   dl_loop_convert(&l, DL_LOOP_LONG, zero));
    dl_expr k = dl_loop_for(&l, "k", begin, dl_loop_at(&l, ends, place), NULL, 0);
    dl_loop_coordinates(&l, dl_loop_let(&l, "p", dl_loop_at(&l, order, k)), &s->points);
    dl_expr i = dl_loop_for(&l, "i", zero, n, NULL, 0);
    dl_loop_coordinates(&l, dl_loop_op(&l, from, '+', i), &inner);
    add(&l, s, dl_loop_at(&l, sums, i));
    dl_loop_end(&l), dl_loop_end(&l);
    dl_loop_coordinates(&l, dl_loop_by(&l, place, '/', dl_at_least(1, s->choices)), &s->kept);
    i = dl_loop_for(&l, "i", zero, n, NULL, 0);
    dl_loop_coordinates(&l, dl_loop_op(&l, from, '+', i), &inner);
    store(&l, s, dl_loop_at(&l, sums, i), dl_loop_by(&l, place, '%', dl_at_least(1, s->choices)));
    dl_loop_end(&l), dl_loop_end(&l), dl_loop_end(&l), dl_loop_end(&l);
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
    dl_expr sum = dl_loop_var(&l, sum_type(s), "sum", dl_loop_fixed(&l, 0)),
            point = dl_loop_for(&l, "point", dl_loop_fixed(&l, 0),
                                dl_loop_fixed(&l, s->added.points), NULL, 1);
    dl_loop_coordinates(&l, point, &s->added);
    dl_loop_if(&l, is_hit(&l, s, choice));
    add(&l, s, sum);
    dl_loop_end(&l), dl_loop_end(&l);
    store(&l, s, sum, choice);
    dl_loop_end(&l);
    dl_loop_print(&l);
    return dl_ceil_div(all > 0 ? all : 1, threads);
}

int64_t dl_scatter_places(const dl_scatter *s, int threads) {
    static const dl_kinstr by_sum = {.op = DL_OP_sum};
    int64_t rest = dl_at_least(1, s->rest.points);
    int groups = 1;
    while (groups < rest && groups < threads) groups *= 2;
    dl_thread_layout t = {.lanes = threads / groups, .groups = groups, .strided = true};
    int64_t tiles = dl_ceil_div(rest, groups);
    dl_loops l = dl_loop_begin(s->e);
    dl_expr lane, group, zero = dl_loop_fixed(&l, 0), item = dl_loop_item(&l);
    dl_loop_threads(&l, &t, &lane, &group);
    dl_expr place = dl_loop_let(&l, "place", dl_loop_by(&l, item, '/', tiles)),
            tile = dl_loop_by(&l, dl_loop_by(&l, item, '%', tiles), '*', groups),
            element = dl_loop_let(&l, "element", dl_loop_op(&l, tile, '+', group)),
            live = dl_loop_let(&l, "live",
                               dl_loop_op(&l, dl_loop_by(&l, element, '<', s->rest.points), '&',
                                          dl_loop_by(&l, place, '<', s->places))),
            row = dl_loop_let(&l, "row", dl_loop_select(&l, live, element, zero)),
            choice = put_place(&l, s, place, row);
    dl_expr hits = dl_loop_array(&l, DL_LOOP_INDEX, DL_IN_SHARED, "hits", threads, NULL);
    dl_expr sum = dl_loop_var(&l, sum_type(s), "sum", zero),
            all = dl_loop_number(&l, s->added.points),
            first = dl_loop_for(&l, "first", zero, all, dl_loop_number(&l, threads), 1),
            mine = dl_loop_let(&l, "mine", dl_loop_op(&l, first, '+', dl_loop_thread(&l))),
            hit = dl_loop_var(&l, DL_LOOP_BOOL, "hit", zero);
    dl_loop_if(&l, dl_loop_op(&l, mine, '<', all));
    dl_loop_coordinates(&l, mine, &s->added);
    dl_loop_set(&l, hit, is_hit(&l, s, choice));
    dl_loop_end(&l);
    const dl_expr args[] = {hit, mine, hits};
    const char *compact = dl_format(s->e->arena, "block_compact<%d>", threads);
    dl_expr found = dl_loop_let(&l, "found", dl_loop_call(&l, DL_LOOP_INT, compact, 3, args));
    dl_loop_if(&l, live);
    dl_expr i = dl_loop_for(&l, "i", lane, found, dl_loop_number(&l, t.lanes), 1);
    dl_loop_coordinates(&l, dl_loop_let(&l, "point", dl_loop_at(&l, hits, i)), &s->added);
    add(&l, s, sum);
    dl_loop_end(&l), dl_loop_end(&l);
    dl_loop_barrier(&l); /* hits are read */
    dl_loop_end(&l);
    dl_loop_set(&l, sum, dl_loop_reduce(&l, &by_sum, sum, &t));
    dl_loop_if(&l, dl_loop_op(&l, live, '&', dl_loop_by(&l, lane, '=', 0)));
    store(&l, s, sum, choice);
    dl_loop_end(&l);
    dl_loop_print(&l);
    return tiles * dl_at_least(1, s->places);
}

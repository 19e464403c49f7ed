#include "runtime/analyze/graph_layout.h"

#include <stdlib.h>
#include <string.h>

enum { SWEEPS = 24, BEND_WIDTH = 10 };

/* Boxes by rank, in the order of their places. */
typedef struct {
    DL_ARRAY(int) boxes;
} rank_row;

/* ---- ranks ---- */

/* The longest path from a box without edges into it; then boxes without these sink to just above
 * the first that they lead to. */
static void find_ranks(dl_graph_layout *l) {
    int n = l->boxes.n;
    for (int b = 0; b < n; b++) l->boxes.at[b].rank = 0;
    for (int b = 0; b < n; b++)
        for (int e = 0; e < l->edges.n; e++)
            if (l->edges.at[e].to == b) {
                int after = l->boxes.at[l->edges.at[e].from].rank + 1;
                if (after > l->boxes.at[b].rank) l->boxes.at[b].rank = after;
            }
    for (int b = n - 1; b >= 0; b--) {
        int first = l->boxes.n + 1;
        bool starts = true;
        for (int e = 0; e < l->edges.n; e++) {
            starts &= l->edges.at[e].to != b;
            if (l->edges.at[e].from == b && l->boxes.at[l->edges.at[e].to].rank < first)
                first = l->boxes.at[l->edges.at[e].to].rank;
        }
        if (starts && first <= l->boxes.n) l->boxes.at[b].rank = first - 1;
    }
    l->ranks = 0;
    for (int b = 0; b < n; b++)
        if (l->boxes.at[b].rank >= l->ranks) l->ranks = l->boxes.at[b].rank + 1;
}

static void keep_forward_edges(dl_graph_layout *l) {
    int kept = 0;
    for (int e = 0; e < l->edges.n; e++)
        if (l->edges.at[e].from < l->edges.at[e].to) l->edges.at[kept++] = l->edges.at[e];
    l->edges.n = kept;
}

static void join(dl_arena *arena, dl_graph_layout *l, int above, int below) {
    dl_push(arena, &l->boxes.at[above].below, below);
    dl_push(arena, &l->boxes.at[below].above, above);
}

static void add_bends(dl_arena *arena, dl_graph_layout *l) {
    for (int e = 0; e < l->edges.n; e++) {
        dl_layout_edge *edge = &l->edges.at[e];
        int last = edge->from;
        dl_push(arena, &edge->path, last);
        for (int r = l->boxes.at[last].rank + 1; r < l->boxes.at[edge->to].rank; r++) {
            dl_layout_box bend = {.width = BEND_WIDTH, .is_bend = true, .rank = r};
            dl_push(arena, &l->boxes, bend);
            join(arena, l, last, l->boxes.n - 1);
            last = l->boxes.n - 1;
            dl_push(arena, &edge->path, last);
        }
        join(arena, l, last, edge->to);
        dl_push(arena, &edge->path, edge->to);
    }
}

/* ---- order within a rank ---- */

typedef struct {
    double key;
    int box, before;
} sorted_box;

static int by_key(const void *a, const void *b) {
    const sorted_box *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->before < y->before ? -1 : x->before > y->before;
}

static void number(dl_graph_layout *l, const rank_row *row) {
    for (int i = 0; i < row->boxes.n; i++) l->boxes.at[row->boxes.at[i]].at = i;
}

static void order_rank(dl_arena *arena, dl_graph_layout *l, rank_row *row, bool by_above) {
    sorted_box *s = DL_NEWS(arena, sorted_box, row->boxes.n + 1);
    for (int i = 0; i < row->boxes.n; i++) {
        const dl_layout_box *b = &l->boxes.at[row->boxes.at[i]];
        const int *near = by_above ? b->above.at : b->below.at;
        int n = by_above ? b->above.n : b->below.n;
        double sum = 0;
        for (int k = 0; k < n; k++) sum += l->boxes.at[near[k]].at;
        s[i] = (sorted_box){n ? sum / n : i, row->boxes.at[i], i};
    }
    qsort(s, (size_t)row->boxes.n, sizeof *s, by_key);
    for (int i = 0; i < row->boxes.n; i++) row->boxes.at[i] = s[i].box;
    number(l, row);
}

/* ---- places ---- */

/* The places nearest to `wish` that keep boxes apart: half way between what is right when boxes
 * yield to the right and when they yield to the left. */
static void place_rank(dl_arena *arena, dl_graph_layout *l, const rank_row *row, double gap,
                       bool by_above) {
    int n = row->boxes.n;
    double *wish = DL_NEWS(arena, double, n + 1), *right = DL_NEWS(arena, double, n + 1),
           *left = DL_NEWS(arena, double, n + 1);
    for (int i = 0; i < n; i++) {
        const dl_layout_box *b = &l->boxes.at[row->boxes.at[i]];
        const int *near = by_above ? b->above.at : b->below.at;
        int many = by_above ? b->above.n : b->below.n;
        for (int k = 0; k < many; k++) wish[i] += l->boxes.at[near[k]].x / many;
        if (!many) wish[i] = b->x;
    }
    for (int i = 0; i < n; i++) {
        right[i] = wish[i];
        if (!i) continue;
        double apart =
            gap +
            (l->boxes.at[row->boxes.at[i - 1]].width + l->boxes.at[row->boxes.at[i]].width) / 2;
        if (right[i] < right[i - 1] + apart) right[i] = right[i - 1] + apart;
    }
    for (int i = n - 1; i >= 0; i--) {
        left[i] = wish[i];
        if (i == n - 1) continue;
        double apart =
            gap +
            (l->boxes.at[row->boxes.at[i + 1]].width + l->boxes.at[row->boxes.at[i]].width) / 2;
        if (left[i] > left[i + 1] - apart) left[i] = left[i + 1] - apart;
    }
    for (int i = 0; i < n; i++) l->boxes.at[row->boxes.at[i]].x = (left[i] + right[i]) / 2;
}

static void start_at_zero(dl_graph_layout *l) {
    double least = 0, most = 0;
    for (int b = 0; b < l->boxes.n; b++) {
        const dl_layout_box *box = &l->boxes.at[b];
        double from = box->x - box->width / 2, to = box->x + box->width / 2;
        if (!b || from < least) least = from;
        if (!b || to > most) most = to;
    }
    for (int b = 0; b < l->boxes.n; b++) l->boxes.at[b].x -= least;
    l->width = most - least;
}

void dl_lay_out_graph(dl_arena *arena, dl_graph_layout *l, double gap) {
    dl_arena *scratch = dl_arena_new(arena);
    keep_forward_edges(l);
    find_ranks(l);
    add_bends(arena, l);
    rank_row *rows = DL_NEWS(scratch, rank_row, l->ranks + 1);
    for (int b = 0; b < l->boxes.n; b++) dl_push(scratch, &rows[l->boxes.at[b].rank].boxes, b);
    for (int r = 0; r < l->ranks; r++) number(l, &rows[r]);
    for (int i = 0; i < SWEEPS; i++)
        for (int r = 0; r < l->ranks; r++)
            order_rank(scratch, l, &rows[i % 2 ? l->ranks - 1 - r : r], i % 2 == 0);
    for (int r = 0; r < l->ranks; r++) place_rank(scratch, l, &rows[r], gap, true);
    for (int i = 0; i < SWEEPS; i++)
        for (int r = 0; r < l->ranks; r++)
            place_rank(scratch, l, &rows[i % 2 ? r : l->ranks - 1 - r], gap, i % 2);
    start_at_zero(l);
    dl_arena_free(scratch);
}

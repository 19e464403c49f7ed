#include "runtime/checkpoint/shards.h"

#include <stdlib.h>

#include "ir/base/str.h"
#include "runtime/exec/state.h"
#include "runtime/formats/checkpoint.h"
#include "runtime/formats/json.h"

static const struct {
    const char *name;
    int owners;
    bool cut;   /* tensors that several ranks hold may be split */
    bool means; /* holds a parameter's mean in its place; there only where the plan keeps means */
} parts[DLR_SHARD_PARTS] = {
    {"model", DLR_OF_PARAMETERS | DLR_OF_BUFFERS, false, false},
    {"optimizer", DLR_OF_OPTIMIZER, true, false},
    {"scaler", DLR_OF_SCALER, false, false},
    {"ema", DLR_OF_PARAMETERS | DLR_OF_BUFFERS, false, true},
};

/* A unit of work: a box of a tensor (all that some ranks hold of it, one of several such boxes, or
 * the whole). Later it is a range of rows of that box along its first axis, assigned to one
 * rank. */
typedef struct {
    const dl_plan_var *var;
    const char *name; /* in the file */
    int cuts;         /* 0: all ranks hold it; otherwise, for each cut of its sharding group: */
    const int *places[DL_MAX_CUTS]; /* which rank of the group holds which shard */
    int share[DL_MAX_CUTS];         /* and which shard this is */
    int part, holders;
    int box; /* its number among the boxes that the same ranks hold; a file has one box of a tensor
              */
    int number; /* its number among the pieces */
    int rank;
    int64_t at[DL_MAX_RANK], shape[DL_MAX_RANK]; /* its offset in the whole tensor */
    int64_t first, rows, row_bytes; /* first: element within the part that its ranks hold */
    bool whole;
} item;
typedef DL_ARRAY(item) item_list;

typedef struct {
    dl_arena *arena;
    const dl_plan *plan;
    const dlr_ranks *ranks;
    dlr_world world;
    const dl_plan_var **means; /* of parameters, sorted by the parameter's name */
    int n_means;
    item_list pieces, given;
    int64_t *loads;              /* bytes assigned to each rank */
    int *holders;                /* a buffer for all ranks */
    int boxes;                   /* most boxes of one tensor that a rank holds */
    int *files[DLR_SHARD_PARTS]; /* by rank and box: the number of its file, from 1; 0: it has none
                                  */
    int n_files[DLR_SHARD_PARTS];
} planner;

static int by_parameter(const void *a, const void *b) {
    return strcmp((*(const dl_plan_var *const *)a)->of, (*(const dl_plan_var *const *)b)->of);
}

static int compare_name(const void *name, const void *mean) {
    return strcmp(name, (*(const dl_plan_var *const *)mean)->of);
}

static void collect_means(planner *d) {
    d->means = DL_NEWS(d->arena, const dl_plan_var *, d->plan->vars.n + 1);
    for (int i = 0; i < d->plan->vars.n; i++)
        if (dlr_tensors_owner(&d->plan->vars.at[i]) == DLR_OF_AVERAGE)
            d->means[d->n_means++] = &d->plan->vars.at[i];
    qsort(d->means, (size_t)d->n_means, sizeof *d->means, by_parameter);
}

/* The variable that a part holds under v's name; NULL: none. */
static const dl_plan_var *held_by(const planner *d, int part, const dl_plan_var *v) {
    if (!(dlr_tensors_owner(v) & parts[part].owners)) return NULL;
    if (!parts[part].means) return v;
    if (d->n_means == 0) return NULL;
    const dl_plan_var **mean =
        bsearch(v->name, d->means, (size_t)d->n_means, sizeof *d->means, compare_name);
    return mean ? *mean : v;
}

/* Writes the ranks that hold the piece to d->holders; returns how many there are. */
static int find_holders(planner *d, const item *e) {
    int n = 0;
    for (int r = 0; r < d->world.size; r++) {
        bool holds = true;
        for (int k = 0; k < e->cuts; k++) holds = holds && e->places[k][r] == e->share[k];
        if (holds) d->holders[n++] = r;
    }
    return n;
}

static void add_piece(planner *d, item e) {
    int64_t count = 1;
    for (int i = 0; i < e.var->type.rank; i++) count *= e.shape[i];
    if (count == 0) return;
    e.rows = e.var->type.rank > 0 ? e.shape[0] : 1;
    e.row_bytes = count / e.rows * dl_dtype_bytes(e.var->type.dtype);
    e.holders = find_holders(d, &e), e.number = d->pieces.n;
    if (d->boxes <= e.box) d->boxes = e.box + 1;
    dl_push(d->arena, &d->pieces, e);
}

/* Adds this piece of the ranks that hold it, box by box, in sequence along the first axis. */
static void add_boxes(planner *d, const dl_var_piece *piece, item e) {
    int64_t all = e.var->type.rank ? e.shape[0] : 1, inner = 1;
    for (int a = 0; a < e.var->type.rank; a++) {
        int64_t n = e.shape[a];
        e.at[a] = dl_piece_at(piece, a, 0, &n);
        if (a) inner *= e.shape[a];
    }
    for (int64_t row = 0, n; row < all; row += n, e.box++) {
        item box = e;
        n = all - row;
        box.at[0] = dl_piece_at(piece, 0, row, &n), box.shape[0] = n, box.first = row * inner;
        add_piece(d, box);
    }
}

/* Adds all pieces that ranks hold of e's variable; e's shape is the whole's. */
static void add_cuts(planner *d, const dl_var_piece *piece, const item *e) {
    int all = 1;
    for (int k = 0; k < piece->n; k++) all *= piece->cut[k].ranks;
    for (int i = 0, left; i < all; i++) {
        item own = *e;
        dl_var_piece of = *piece;
        left = i;
        for (int k = 0; k < piece->n; k++) {
            dl_var_cut *c = &of.cut[k];
            c->rank = left % c->ranks, c->size = own.shape[c->axis], left /= c->ranks;
            own.places[k] = dlr_group_find(d->ranks, c->group)->places, own.share[k] = c->rank;
            own.shape[c->axis] = dl_cut_share(c).n * c->parts;
            own.cuts = k + 1, own.whole = false;
        }
        add_boxes(d, &of, own);
    }
}

static bool list_pieces(planner *d, dl_error *err) {
    collect_means(d);
    for (int part = 0; part < DLR_SHARD_PARTS; part++)
        for (int i = 0; i < d->plan->vars.n; i++) {
            const char *name = d->plan->vars.at[i].name;
            const dl_plan_var *v = held_by(d, part, &d->plan->vars.at[i]);
            if (!v) continue;
            const dl_var_piece *piece = &v->piece;
            for (int k = 0; k < piece->n; k++) {
                const dlr_group *group = dlr_group_find(d->ranks, piece->cut[k].group);
                if (!(group && group->places && group->size == piece->cut[k].ranks))
                    return dl_fail(err, DL_INTERNAL,
                                   "'%s' is in pieces of a group that is not there", v->name);
            }
            item e = {.var = v, .name = name, .part = part, .whole = true};
            const dl_type whole = dl_piece_whole(v->type, piece);
            for (int a = 0; a < v->type.rank; a++) e.shape[a] = whole.axis[a].size;
            add_cuts(d, piece, &e);
        }
    return true;
}

/* ---- assigning pieces to ranks ---- */

static void give(planner *d, const item *piece, int rank, int64_t first, int64_t n) {
    item rows = *piece;
    rows.rank = rank, rows.rows = n;
    rows.first += first * (piece->row_bytes / dl_dtype_bytes(piece->var->type.dtype));
    if (piece->var->type.rank > 0) rows.at[0] += first, rows.shape[0] = n;
    rows.whole = piece->whole && n == piece->rows;
    d->loads[rank] += n * piece->row_bytes;
    dl_push(d->arena, &d->given, rows);
}

/* The order of assignment: whole tensors first, the largest to the rank with the fewest bytes. Then
 * split ones: those that the fewest ranks hold first, and those with equal holders together. */
static int in_order(const void *a, const void *b) {
    const item *x = *(item *const *)a, *y = *(item *const *)b;
    bool cut = parts[x->part].cut;
    if (cut != parts[y->part].cut) return cut - parts[y->part].cut;
    if (x->holders != y->holders) return x->holders - y->holders;
    int64_t p = x->rows * x->row_bytes, q = y->rows * y->row_bytes;
    if (!cut && p != q) return p > q ? -1 : 1;
    for (int k = 0; cut && k < DL_MAX_CUTS; k++)
        if (x->share[k] != y->share[k]) return x->share[k] - y->share[k];
    return x->number - y->number;
}

static int least_first(const void *a, const void *b, void *loads) {
    const int64_t *load = loads;
    int x = *(const int *)a, y = *(const int *)b;
    if (load[x] != load[y]) return load[x] < load[y] ? -1 : 1;
    return x - y;
}

static void give_whole(planner *d, const item *e) {
    int n = find_holders(d, e), rank = d->holders[0];
    /* each rank has its own values: those of the lowest rank are written */
    bool own = dlr_tensors_owner(e->var) == DLR_OF_BUFFERS;
    for (int i = 1; i < n && !own; i++)
        if (d->loads[d->holders[i]] < d->loads[rank]) rank = d->holders[i];
    give(d, e, rank, 0, e->rows);
}

/* The number of bytes to which the n least loaded holders must be filled to take so many bytes,
 * rounded up. */
static int64_t find_level(const planner *d, int n, int64_t bytes) {
    int64_t sum = bytes;
    for (int i = 0; i < n; i++) {
        sum += d->loads[d->holders[i]];
        int64_t level = (sum + i) / (i + 1);
        if (i + 1 == n || level <= d->loads[d->holders[i + 1]]) return level;
    }
    return 0;
}

static bool held_alike(const item *a, const item *b) {
    bool same = a->cuts == b->cuts;
    for (int k = 0; same && k < a->cuts; k++)
        same = a->places[k] == b->places[k] && a->share[k] == b->share[k];
    return same;
}

/* Assigns pieces with equal holders, one after the other. Each holder takes rows up to the common
 * level, so that at most one piece is split between two of them. */
static void give_rows(planner *d, item *const *pieces, int n) {
    int64_t bytes = 0;
    for (int i = 0; i < n; i++) bytes += pieces[i]->rows * pieces[i]->row_bytes;
    int holders = find_holders(d, pieces[0]), at = 0;
    qsort_r(d->holders, (size_t)holders, sizeof *d->holders, least_first, d->loads);
    int64_t level = find_level(d, holders, bytes);
    for (int i = 0; i < n; i++)
        for (int64_t first = 0, take; first < pieces[i]->rows; first += take) {
            int64_t each = pieces[i]->row_bytes, left = pieces[i]->rows - first;
            int64_t room = level - d->loads[d->holders[at]];
            bool last = at + 1 == holders;
            take = room > 0 ? (room + each / 2) / each : 0;
            if (last || take > left) take = left;
            if (take > 0) give(d, pieces[i], d->holders[at], first, take);
            at += take < left;
        }
}

static int by_number(const void *a, const void *b) {
    const item *x = a, *y = b;
    return x->number - y->number;
}

static void give_out(planner *d) {
    int n = d->pieces.n, at = 0;
    item **order = DL_NEWS(d->arena, item *, n + 1);
    d->loads = DL_NEWS(d->arena, int64_t, d->world.size);
    for (int i = 0; i < n; i++) order[i] = &d->pieces.at[i];
    if (n > 1) qsort(order, (size_t)n, sizeof *order, in_order);
    for (; at < n && !parts[order[at]->part].cut; at++) give_whole(d, order[at]);
    for (int end; at < n; at = end) {
        for (end = at + 1; end < n; end++)
            if (!held_alike(order[end], order[at])) break;
        give_rows(d, order + at, end - at);
    }
    if (d->given.n > 1) qsort(d->given.at, (size_t)d->given.n, sizeof *d->given.at, by_number);
    for (int p = 0; p < DLR_SHARD_PARTS; p++) {
        d->files[p] = DL_NEWS(d->arena, int, d->world.size * d->boxes);
        for (int i = 0; i < d->given.n; i++) {
            const item *e = &d->given.at[i];
            if (e->part == p) d->files[p][e->rank * d->boxes + e->box] = 1;
        }
        for (int f = 0; f < d->world.size * d->boxes; f++)
            if (d->files[p][f]) d->files[p][f] = ++d->n_files[p];
    }
}

/* ---- building the shard plan ---- */

static const char *name_of(dl_arena *arena, const planner *d, int part, int file) {
    return dlr_checkpoint_shard_name(arena, parts[part].name, d->files[part][file],
                                     d->n_files[part]);
}

static void put_offsets(dl_buf *b, const item *e) {
    dlr_json_put_key(b, e->name);
    dl_puts(b, "{\"" DLR_ST_OFFSETS "\": [");
    for (int i = 0; i < e->var->type.rank; i++)
        dl_putf(b, "%s%lld", i ? ", " : "", (long long)e->at[i]);
    dl_puts(b, "]}");
}

static dlr_shard make_shard(dl_arena *arena, const planner *d, int part, int box) {
    dlr_tensors t = {.list = DL_NEWS(arena, dlr_st_tensor, d->given.n),
                     .views = DL_NEWS(arena, dlr_view, d->given.n),
                     .first = DL_NEWS(arena, int64_t, d->given.n)};
    dlr_shard shard = {.name = name_of(arena, d, part, d->world.rank * d->boxes + box)};
    bool whole = true;
    dl_buf boxes = {0};
    dl_puts(&boxes, "{");
    for (int i = 0; i < d->given.n; i++) {
        const item *e = &d->given.at[i];
        const dl_type *type = &e->var->type;
        if (e->part != part || e->rank != d->world.rank || e->box != box) continue;
        dlr_st_tensor *s = &t.list[t.n];
        *s = (dlr_st_tensor){
            .name = e->name, .dtype = dlr_tensors_dtype(type->dtype), .rank = type->rank};
        for (int a = 0; a < type->rank; a++) s->shape[a] = e->shape[a];
        t.first[t.n] = e->first;
        t.views[t.n++] = (dlr_view){.type = type, .offset = e->var->offset};
        put_offsets(&boxes, e);
        whole = whole && e->whole;
    }
    dl_puts(&boxes, "}");
    if (!whole) shard.boxes = (dlr_st_meta){DLR_ST_BOXES, dl_strdup(arena, boxes.at)};
    dl_buf_free(&boxes);
    shard.tensors = t;
    return shard;
}

/* An index in the format of Hugging Face, which can describe whole tensors only. */
static const char *make_index(dl_arena *arena, const planner *d) {
    int64_t bytes = 0;
    dl_buf map = {0};
    bool whole = true;
    dl_puts(&map, "{");
    for (int i = 0; i < d->given.n; i++) {
        const item *e = &d->given.at[i];
        if (e->part != 0) continue;
        dlr_json_put_key(&map, e->name);
        dlr_json_put_string(&map, dl_format(d->arena, "%s.safetensors",
                                            name_of(d->arena, d, 0, e->rank * d->boxes + e->box)));
        bytes += e->rows * e->row_bytes;
        whole = whole && e->whole;
    }
    const char *text =
        dl_format(arena, "{\"metadata\": {\"total_size\": %lld}, \"weight_map\": %s}}\n",
                  (long long)bytes, map.at);
    dl_buf_free(&map);
    return whole ? text : NULL;
}

dlr_shards *dlr_shards_plan(dl_arena *arena, const dl_plan *plan, const dlr_ranks *ranks,
                            dl_error *err) {
    planner d = {.arena = dl_arena_new(arena), .plan = plan, .ranks = ranks};
    d.world = ranks->comm ? dlr_comm_world(ranks->comm) : (dlr_world){.size = 1};
    d.holders = DL_NEWS(d.arena, int, d.world.size);
    dlr_shards *s = NULL;
    if (list_pieces(&d, err)) {
        give_out(&d);
        s = DL_NEW(arena, dlr_shards);
        s->n_ranks = d.world.size;
        s->counts = DL_NEWS(arena, int, s->n_ranks);
        s->own = DL_NEWS(arena, dlr_shard, DLR_SHARD_PARTS * d.boxes + 1);
        s->names = DL_NEWS(arena, const char *, s->n_ranks *DLR_SHARD_PARTS *d.boxes + 1);
        for (int r = 0; r < s->n_ranks; r++)
            for (int f = 0; f < DLR_SHARD_PARTS * d.boxes; f++) {
                int p = f / d.boxes, box = f % d.boxes;
                if (!d.files[p][r * d.boxes + box]) continue;
                s->names[s->n_files++] = name_of(arena, &d, p, r * d.boxes + box), s->counts[r]++;
                if (r == d.world.rank) s->own[s->n_own++] = make_shard(arena, &d, p, box);
            }
        s->index = make_index(arena, &d);
    }
    dl_arena_free(d.arena);
    return s;
}

int64_t dlr_shard_count(const dlr_tensors *t, int i) {
    int64_t n = 1;
    for (int a = 0; a < t->list[i].rank; a++) n *= t->list[i].shape[a];
    return n;
}

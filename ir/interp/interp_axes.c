/* The space of a kernel for the interpreter: neighbouring axes are joined where every instruction
 * uses them together. A weight of [512, 512, 4, 4, 4] whose optimiser step is elementwise becomes
 * one row of 16 million points, not four million rows of 4. The order of points stays. */
#include "ir/interp/interp_parts.h"

/* Does the index use this axis, possibly with others? */
static bool names(const dl_index *index, int axis) {
    bool found = index->axis == axis;
    for (int i = 0; i < index->nterms; i++) found = found || index->term[i].axis == axis;
    return found;
}

/* Is the index the coordinate of this axis alone, over the whole axis of the tensor? */
static bool is_plain(const dl_index *index, int axis, int64_t size, int64_t extent) {
    return index->axis == axis && !index->offset && index->div <= 1 && !index->indirect &&
           !index->nterms && size == extent;
}

/* Does a load or store use axes a and a + 1 for neighbouring axes of its tensor, or not at all? */
static bool places_join(const dl_kernel *k, const dl_kinstr *in, int a) {
    const dl_type *t = &k->params.at[in->param].type;
    for (int i = 0; i < t->rank; i++) {
        if (!names(&in->index[i], a) && !names(&in->index[i], a + 1)) continue;
        bool pair = i + 1 < t->rank &&
                    is_plain(&in->index[i], a, t->axis[i].size, k->space[a].size) &&
                    is_plain(&in->index[i + 1], a + 1, t->axis[i + 1].size, k->space[a + 1].size);
        if (!pair) return false;
        i++;
    }
    return true;
}

static bool instr_joins(const dl_kernel *k, const dl_kinstr *in, int a) {
    switch (in->kind) {
    case DL_K_LOAD:
    case DL_K_STORE: return places_join(k, in, a);
    case DL_K_COORD: return in->axis != a && in->axis != a + 1;
    case DL_K_RANDOM: return in->along[a] == in->along[a + 1] * k->space[a + 1].size;
    case DL_K_REDUCE: return (in->over >> a & 1) == (in->over >> (a + 1) & 1);
    default: return true; /* a contraction uses all axes */
    }
}

/* By axis: the joined axis that it belongs to. */
static void find_joined(const dl_kernel *k, const dl_step *steps, dl_interp_space *s,
                        int to[DL_MAX_RANK]) {
    for (int a = 0; a < k->nspace; a++) {
        bool joins = a > 0;
        for (int i = 0; joins && i < k->instrs.n; i++) {
            unsigned axes = steps[i].axes;
            joins = instr_joins(k, &k->instrs.at[i], a - 1) &&
                    (axes >> a & 1) == (axes >> (a - 1) & 1); /* except axes of one point */
        }
        if (joins)
            s->space[s->nspace - 1].size *= k->space[a].size;
        else
            s->space[s->nspace++] = k->space[a];
        to[a] = s->nspace - 1;
    }
}

static unsigned join_mask(const dl_kernel *k, const int to[DL_MAX_RANK], unsigned axes) {
    unsigned joined = 0;
    for (int a = 0; a < k->nspace; a++)
        if (axes >> a & 1) joined |= 1u << to[a];
    return joined;
}

/* The instruction's coordinates in joined axes, for a tensor whose axes are joined in the same
 * way. */
static void join_places(dl_arena *arena, const dl_kinstr *in, const int to[DL_MAX_RANK],
                        dl_kinstr *joined, dl_type *shape) {
    dl_type all = *shape;
    shape->rank = 0;
    joined->index = DL_NEWS(arena, dl_index, all.rank + 1);
    for (int i = 0; i < all.rank; i++) {
        const dl_index *index = &in->index[i];
        bool second = i > 0 && index->axis > 0 && in->index[i - 1].axis == index->axis - 1 &&
                      to[index->axis] == to[index->axis - 1];
        if (second) {
            shape->axis[shape->rank - 1].size *= all.axis[i].size;
            continue;
        }
        dl_index *at = &joined->index[shape->rank];
        shape->axis[shape->rank++] = all.axis[i];
        *at = *index;
        if (at->axis >= 0) at->axis = to[at->axis];
        for (int j = 0; j < at->nterms; j++) at->term[j].axis = to[at->term[j].axis];
    }
}

dl_interp_space dl_interp_join_axes(dl_arena *arena, const dl_kernel *k) {
    dl_interp_space s = {.instrs = DL_NEWS(arena, dl_kinstr, k->instrs.n + 1),
                         .shape = DL_NEWS(arena, dl_type, k->instrs.n + 1),
                         .steps = dl_kernel_steps(k, arena)};
    int to[DL_MAX_RANK];
    find_joined(k, s.steps, &s, to);
    for (int i = 0; i < k->instrs.n; i++) {
        const dl_kinstr *in = &k->instrs.at[i];
        dl_kinstr *joined = &s.instrs[i];
        *joined = *in;
        s.steps[i].axes = join_mask(k, to, s.steps[i].axes);
        s.steps[i].over = join_mask(k, to, s.steps[i].over);
        if (in->kind == DL_K_COORD) joined->axis = to[in->axis];
        for (int a = 0; a < k->nspace && in->kind == DL_K_RANDOM; a++)
            joined->along[to[a]] = in->along[a];
        if (in->kind != DL_K_LOAD && in->kind != DL_K_STORE) continue;
        s.shape[i] = k->params.at[in->param].type;
        join_places(arena, in, to, joined, &s.shape[i]);
    }
    return s;
}

#include "imports/onnx/layers.h"

#include <math.h>

enum { MOST_LAYERS = 64, MOST_STEPS = 16 };

/* ---- whether an input is the whole result of a layer ---- */

typedef struct {
    int n, atom[4];
} group;

/* Regroups the factors of a tensor's axes, of which none is 1, to another shape. False: they do not
 * divide so. */
static bool regroup(const int64_t *size, int *rank, group *axis, const dl_foreign_tensor *to) {
    int flat[4], n = 0, at = 0;
    for (int d = 0; d < *rank; d++)
        for (int i = 0; i < axis[d].n; i++) flat[n++] = axis[d].atom[i];
    if (to->rank > 4) return false;
    for (int d = 0; d < to->rank; d++) {
        int64_t left = to->shape[d];
        for (axis[d].n = 0; at < n && left > 1; at++) {
            if (left % size[flat[at]]) return false;
            left /= size[flat[at]], axis[d].atom[axis[d].n++] = flat[at];
        }
        if (left != 1) return false;
    }
    *rank = to->rank;
    return at == n;
}

/* Whether the nodes between y and x, from the last one on, lead back to y's own order. */
static bool is_same(const dl_foreign_node *const *node, int n, const dl_foreign_tensor *y,
                    const dl_ox_layer *l) {
    int64_t size[4] = {y->shape[0], y->shape[1], l->directions, l->hidden};
    group axis[4] = {0}, old[4];
    int rank = 3, last = -1;
    for (int k = 0; k < 4; k++) {
        group *g = &axis[k < 2 ? k : 2];
        if (size[k] < 1) return false;
        if (size[k] != 1) g->atom[g->n++] = k;
    }
    for (int i = n - 1; i >= 0; i--) {
        if (!strcmp(node[i]->op, "aten.dropout.default")) continue;
        if (!strcmp(node[i]->op, "aten.permute.default")) {
            const dl_foreign_arg *dims = dl_foreign_find(node[i], "dims");
            if (dims->n != rank) return false;
            memcpy(old, axis, sizeof old);
            for (int d = 0; d < rank; d++) axis[d] = old[dims->ints[d]];
        } else if (!regroup(size, &rank, axis, node[i]->results[0]))
            return false;
    }
    for (int d = 0; d < rank; d++)
        for (int k = 0; k < axis[d].n; last = axis[d].atom[k++])
            if (axis[d].atom[k] < last) return false;
    return rank == 3 && memcmp(l->x->t->shape, y->shape, 3 * sizeof *y->shape) == 0;
}

/* The layer whose whole result l's input is, with dropout between them or without. */
static dl_ox_layer *below(const dl_ox *r, dl_ox_layer *l) {
    const dl_foreign_node *passed[MOST_STEPS];
    const dl_foreign_tensor *t = l->x->t;
    const char *module = l->node->depth ? l->node->stack[l->node->depth - 1].path : NULL;
    int n = 0;
    for (int i = r->graph.nodes.n - 1; i >= 0 && n < MOST_STEPS && module; i--) {
        for (int k = r->layers.n - 1; k >= 0; k--) {
            dl_ox_layer *other = r->layers.at[k];
            if (other->y->t != t) continue;
            bool fits = other->op == l->op && other->hidden == l->hidden &&
                        other->directions == l->directions && other->biases == l->biases &&
                        other->batch_first == l->batch_first && other->node->depth &&
                        other->node->stack[other->node->depth - 1].path == module;
            return fits && is_same(passed, n, t, l) ? other : NULL;
        }
        const dl_foreign_node *by = &r->graph.nodes.at[i];
        if (by->results[0] != t) continue;
        bool drops = !strcmp(by->op, "aten.dropout.default");
        if (!drops && strcmp(by->op, "aten.permute.default") != 0 &&
            strcmp(by->op, "aten.reshape.default") != 0)
            return NULL;
        if (drops) l->rate = 1 - (1 - l->rate) * (1 - dl_foreign_real(by, "p", 0.5));
        passed[n++] = by;
        t = dl_foreign_operand(by, drops ? "input" : "self");
    }
    return NULL;
}

/* ---- parameters ---- */

static const char *role_of(dl_ox *r, const dl_ox_layer *l, int layer, int part) {
    static const char *const names[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
    int each = l->biases ? 4 : 2;
    return dl_format(r->arena, "%s_l%d%s", names[part % each], layer,
                     part / each ? "_reverse" : "");
}

/* Whether all parts are parameters of the file's, called as PyTorch calls those of one layer. */
static bool have_names(dl_ox *r, dl_ox_layer *const *list, int layers) {
    const char *label = NULL;
    for (int k = 0; k < layers; k++)
        for (int i = 0; i < list[k]->n_parts; i++) {
            const dl_ox_value *own = list[k]->parts[i].own;
            const char *end = dl_format(r->arena, ".%s", role_of(r, list[k], k, i));
            if (!own || !dl_ends_with(own->name, end)) return false;
            const char *begin = dl_strndup(r->arena, own->name, strlen(own->name) - strlen(end));
            if (label && strcmp(label, begin) != 0) return false;
            label = begin;
        }
    return true;
}

/* A part as a parameter of ours, under the label of the lowest layer. */
static bool make_part(dl_ox_op *o, dl_ox_layer *l, int layer, int i, const char *label) {
    dl_ox_part *part = &l->parts[i];
    int64_t n = dl_ox_count(&part->shape), rows = part->shape.size[0];
    float *numbers = dl_alloc(o->r->arena, (size_t)n * sizeof *numbers);
    if (!dl_ox_copy_rows(o->r, part->rows, rows, n / rows, numbers)) return false;
    const char *path = dl_format(o->r->arena, "%s.%s", label, role_of(o->r, l, layer, i));
    part->made = dl_ox_parameter(o->r, path, &part->shape, numbers);
    return true;
}

/* The parameters of all layers; NULL: r->err is set. */
static dl_ox_value **parameters(dl_ox_op *o, dl_ox_layer *const *list, int layers) {
    int each = list[0]->n_parts;
    dl_ox_value **to = DL_NEWS(o->r->arena, dl_ox_value *, layers * each);
    bool named = have_names(o->r, list, layers);
    if (!named && !list[0]->label)
        list[0]->label = dl_ox_fresh_label(o, role_of(o->r, list[0], 0, 0));
    for (int k = 0; k < layers; k++)
        for (int i = 0; i < each; i++) {
            dl_ox_part *part = &list[k]->parts[i];
            if (!named && !part->made && !make_part(o, list[k], k, i, list[0]->label)) return NULL;
            to[k * each + i] = named ? part->own : part->made;
        }
    return to;
}

/* ---- states ---- */

/* The first states k of all layers, one after the other. NULL: those of one are zeros. */
static dl_ox_value *start_of(dl_ox_op *o, dl_ox_layer *const *list, int layers, int k) {
    dl_ox_value *v[MOST_LAYERS];
    dl_ox_shape s = dl_ox_shape_of(list[0]->start[k]);
    s.size[0] *= layers;
    for (int i = 0; i < layers; i++)
        if (!(v[i] = list[i]->start[k])) return NULL;
    if (layers == 1) return v[0];
    dl_ox_arg_tensors(o, "tensors", layers, v), dl_ox_arg_int(o, "dim", 0);
    return dl_ox_make(o, "aten.cat.default", NULL, &s, v[0]);
}

/* The last states of each layer as the results of its node. */
static bool set_states(dl_ox_op *o, dl_ox_layer *const *list, int layers,
                       dl_ox_value *const *last) {
    for (int i = 0; i < layers; i++)
        for (int k = 0; k < list[i]->states; k++) {
            dl_ox_value *to = 1 + k < list[i]->node->n_out ? list[i]->node->out[1 + k] : NULL, *v;
            int64_t d = list[i]->directions, n = last[k]->t->shape[1];
            dl_ox_shape s = {3, {d, n, list[i]->hidden}}, turned = {3, {n, d, list[i]->hidden}};
            bool turn = list[i]->batch_first;
            if (!to) continue;
            dl_ox_arg_tensor(o, "self", last[k]), dl_ox_arg_int(o, "dim", 0);
            dl_ox_arg_int(o, "start", i * d), dl_ox_arg_int(o, "end", (i + 1) * d);
            if (!(v = dl_ox_make(o, "aten.slice.Tensor", turn ? NULL : to, &s, last[k])))
                return false;
            if (!turn) continue;
            dl_ox_arg_tensor(o, "self", v);
            dl_ox_arg_ints(o, "dims", 3, (int64_t[]){1, 0, 2});
            if (!dl_ox_make(o, "aten.permute.default", to, &turned, v)) return false;
        }
    return true;
}

dl_ox_value *dl_ox_make_layer(dl_ox_op *o, dl_ox_layer *l) {
    dl_ox_layer *list[MOST_LAYERS];
    int layers = 1;
    l->below = below(o->r, l);
    bool has_start = l->start[0];
    for (dl_ox_layer *at = l; at->below; at = at->below, layers++) {
        bool fits = layers < MOST_LAYERS && (bool)at->below->start[0] == has_start &&
                    (!at->below->below || fabs(at->below->rate - at->rate) < 1e-12);
        if (!fits) at->below = NULL;
        if (!fits) break;
    }
    dl_ox_layer *at = l;
    for (int i = layers - 1; i >= 0; i--, at = at->below) list[i] = at;
    dl_ox_value **params = parameters(o, list, layers), *start[DL_OX_STATES] = {0};
    for (int k = 0; k < l->states && has_start; k++)
        if (!(start[k] = start_of(o, list, layers, k))) return NULL;
    if (!params) return NULL;
    dl_ox_arg_tensor(o, "input", list[0]->x);
    if (has_start) dl_ox_arg_tensors(o, "hx", l->states, start);
    dl_ox_arg_tensors(o, "params", layers * l->n_parts, params);
    dl_ox_arg_int(o, "has_biases", l->biases), dl_ox_arg_int(o, "num_layers", layers);
    if (layers > 1 && l->rate > 0) dl_ox_arg_real(o, "dropout", l->rate);
    dl_ox_arg_int(o, "bidirectional", l->directions == 2);
    dl_ox_arg_int(o, "batch_first", l->batch_first);
    dl_ox_shape s[1 + DL_OX_STATES] = {dl_ox_shape_of(list[0]->x)};
    s[1] = s[2] = (dl_ox_shape){3, {layers * l->directions, s[0].size[!l->batch_first], l->hidden}};
    s[0].size[2] = l->directions * l->hidden;
    dl_ox_value *made[1 + DL_OX_STATES] = {0};
    if (!dl_ox_make_several(o, l->op, 1 + l->states, made, s, l->x)) return NULL;
    l->y = made[0];
    dl_push(o->r->arena, &o->r->layers, l);
    return set_states(o, list, layers, made + 1) ? l->y : NULL;
}

/* Finds the layers of torch.nn: paths whose parameters are all those of one kind of layer, which
 * nodes alone of this kind read. */
#include "exports/pytorch/parts.h"

/* The readers of a value, through renames. */
static int count_readers(const torch_export *t, const dl_value *v) {
    const dl_uses *u = &t->uses[v->id];
    int n = u->results;
    for (int i = 0; i < u->n; i++)
        n += u->readers[i]->op == DL_OP_rename ? count_readers(t, &u->readers[i]->out[0]) : 1;
    return n;
}

/* The axis of the channels that a layer makes. */
static const char *channels_of(const dl_node *n) {
    const dl_type *y = &n->out[0].type;
    if (n->op == DL_OP_linear) return y->axis[y->rank - 1].name;
    return y->rank > 1 ? y->axis[1].name : NULL;
}

static bool can_have_bias(const dl_node *n) {
    return dl_torch_is_convolution(n) || n->op == DL_OP_linear;
}

/* The layer's node whose bias an addition adds; NULL: another addition. */
static const dl_node *biased(const torch_export *t, const dl_node *add) {
    if (add->op != DL_OP_add || !add->in[0]->def) return NULL;
    const dl_node *n = add->in[0]->def;
    const dl_var *bias = dl_torch_var_of(add->in[1]),
                 *weight = can_have_bias(n) ? dl_torch_var_of(n->in[1]) : NULL;
    const dl_type *b = &add->in[1]->type;
    if (!bias || !weight || t->uses[n->out[0].id].n != 1 || t->uses[n->out[0].id].results ||
        b->rank != 1 || b->axis[0].name != channels_of(n) ||
        !dl_type_same(&add->out[0].type, &n->out[0].type))
        return NULL;
    const char *dot = strrchr(bias->name, '.');
    size_t path = dot ? (size_t)(dot - bias->name) + 1 : 0;
    bool ours = dot && strcmp(dot, ".bias") == 0 && strncmp(bias->name, weight->name, path) == 0 &&
                strcmp(weight->name + path, "weight") == 0;
    return ours ? n : NULL;
}

/* The addition of a node's bias; NULL: none. */
static const dl_node *bias_of(const torch_export *t, const dl_node *n) {
    const dl_uses *u = &t->uses[n->out[0].id];
    return u->n == 1 && u->readers[0]->op == DL_OP_add && biased(t, u->readers[0]) == n
               ? u->readers[0]
               : NULL;
}

static torch_layer *find(torch_export *t, const char *path) {
    for (int i = 0; i < t->layers.n; i++)
        if (t->layers.at[i].path == path) return &t->layers.at[i];
    return NULL;
}

static void add_use(torch_export *t, const dl_node *n, int *expected) {
    const char *path, *made;
    bool bias = can_have_bias(n) && bias_of(t, n);
    int parameters;
    if (!(made = dl_torch_constructor(t, n, bias, &path, &parameters))) return;
    torch_layer *l = find(t, path);
    if (!l) {
        dl_push(t->arena, &t->layers, (torch_layer){path, made, 0, bias, false});
        l = find(t, path);
        expected[l - t->layers.at] = parameters;
    }
    l->refused |= strcmp(l->made, made) != 0;
    l->uses++;
}

/* Has the path these parameters alone, and are their readers the layer's nodes alone? */
static bool stands(const torch_export *t, const torch_layer *l, int expected) {
    size_t n = strlen(l->path);
    int found = 0;
    for (int i = 0; i < t->graph->vars.n; i++) {
        const dl_var *v = t->graph->vars.at[i];
        if (strncmp(v->name, l->path, n) != 0 || v->name[n] != '.') continue;
        bool unread = strcmp(v->name + n, ".num_batches_tracked") == 0;
        found++;
        if (!unread && count_readers(t, &v->value) != l->uses) return false;
    }
    return found == expected;
}

void dl_torch_find_layers(torch_export *t) {
    int *expected = DL_NEWS(t->arena, int, t->graph->nodes.n + 1);
    for (int i = 0; i < t->graph->nodes.n; i++) add_use(t, t->graph->nodes.at[i], expected);
    for (int i = 0; i < t->layers.n; i++)
        t->layers.at[i].refused |= !stands(t, &t->layers.at[i], expected[i]);
}

const torch_layer *dl_torch_layer_of(torch_export *t, const dl_node *n) {
    const char *path;
    int parameters;
    if (!dl_torch_constructor(t, n, can_have_bias(n) && bias_of(t, n), &path, &parameters))
        return NULL;
    const torch_layer *l = find(t, path);
    return l && !l->refused ? l : NULL;
}

bool dl_torch_is_bias(torch_export *t, const dl_node *n) {
    const dl_node *layer = biased(t, n);
    return layer && dl_torch_layer_of(t, layer);
}

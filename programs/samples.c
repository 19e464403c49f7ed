#include "programs/samples.h"

#include "runtime/feed.h"

static const struct {
    dl_key path, samples, limit;
} keys[] = {[DLR_TRAIN] = {DL_KEY_train_path, DL_KEY_Nsamples, DL_KEY_limit_nsamples},
            [DLR_VALID] = {DL_KEY_val_path, DL_KEY_Nsamples_val, DL_KEY_limit_nsamples_val}};

/* The one variable of a role. */
static const dl_var *find(const dl_session *s, dl_var_role role, dl_error *err) {
    const dl_graph *g = s->module->graphs.at[0];
    const dl_var *found = NULL;
    int n = 0;
    for (int i = 0; i < g->vars.n; i++)
        if (g->vars.at[i]->role == role) found = g->vars.at[i], n++;
    if (n == 1) return found;
    dl_fail(err, DL_INPUT, "%s states %d %ss; data sets of this version feed one: --replay feeds any number",
            s->model_path, n, dl_var_roles[role]);
    return NULL;
}

/* ---- synthetic ---- */

/* Does n choose by the class numbers v along an axis of `from`: in a cross entropy or a top-k, or as one_hot,
 * which compares them with the classes' numbers? */
static bool chooses(const dl_node *n, const dl_var *v, const dl_type **from) {
    bool scores = n->op == DL_OP_cross_entropy || n->op == DL_OP_in_top_k;
    if (n->nin != 2 || n->in[!!scores] != &v->value) return false;
    const dl_value *other = n->in[!scores];
    *from = &other->type;
    return scores || (n->op == DL_OP_eq && other->def && other->def->op == DL_OP_iota);
}

/* How many classes a variable of whole numbers tells apart: the axis that it chooses from. 0: the model does
 * not say. */
static int64_t count_classes(const dl_graph *g, const dl_var *v) {
    for (int i = 0; i < g->nodes.n; i++) {
        const dl_type *from;
        if (!chooses(g->nodes.at[i], v, &from)) continue;
        for (int k = 0; k < from->rank; k++)
            if (dl_type_axis(&v->value.type, from->axis[k].name) < 0) return from->axis[k].size;
    }
    return 0;
}

static bool noise_of(const dl_session *s, const dl_var *v, dlr_noise *noise, dl_error *err) {
    const dl_type *t = &v->value.type;
    *noise = (dlr_noise){.elements = dl_type_count(t) / s->batch};
    if (t->rank < 1 || strcmp(t->axis[0].name, "N") != 0)
        return dl_fail(err, DL_INPUT, "the model's '%s' is %s: synthetic samples want N as its first axis",
                       v->name, dl_type_text(t));
    if (dl_dtype_is_float(t->dtype)) return true;
    noise->classes = t->dtype == DL_BOOL ? 2 : count_classes(s->module->graphs.at[0], v);
    if (noise->classes >= 1 && noise->classes <= DLR_NOISE_MAX_CLASSES) return true;
    return dl_fail(err, DL_INPUT,
                   "synthetic: '%s' is %s, and the model does not say how many classes it tells apart (a "
                   "cross_entropy, in_top_k or one_hot that reads it does): give batches by --replay",
                   v->name, dl_type_text(t));
}

/* ---- volumes ---- */

/* --use_cache: the copy of a data file that lies in another folder. */
static const char *data_path(dl_arena *arena, const dl_config *c, dl_key key) {
    const char *path = dl_config_str(c, key), *folder = dl_config_str(c, DL_KEY_use_cache);
    if (!path || !folder) return path;
    const char *slash = strrchr(path, '/');
    return dl_format(arena, "%s/%s", folder, slash ? slash + 1 : path);
}

static int64_t box_size(const dl_config *c, dlr_split split) {
    const dl_yaml *v = dl_config_value(c, DL_KEY_box_size);
    if (v->kind == DL_YAML_LIST) v = v->items.at[split == DLR_VALID];
    return v->kind == DL_YAML_INT ? v->integer : 0;
}

static bool crops_of(const dl_var *x, const dl_var *t, dlr_dataset_options *o, dl_error *err) {
    const dl_type *type = &x->value.type;
    int64_t edge = type->rank > 2 ? type->axis[2].size : 0;
    o->data_size = edge > INT32_MAX ? 0 : (int)edge;
    return dlr_feed_channels(x->name, type, edge, &o->input_channels, err) &&
           dlr_feed_channels(t->name, &t->value.type, edge, &o->target_channels, err);
}

/* ---- all ---- */

static bool has_loader(const dl_config *c, dl_error *err) {
    static const char *const weather[] = {"pytorch", "dali"};
    const char *loader = dl_config_str(c, DL_KEY_data_loader_config);
    for (size_t i = 0; i < sizeof weather / sizeof *weather; i++)
        if (strcmp(loader, weather[i]) == 0)
            return dl_config_fail(c, DL_KEY_data_loader_config, err,
                                  "'%s' reads weather files, which this version does not: "
                                  "--data_loader_config=synthetic, or --replay",
                                  loader);
    return true;
}

bool dl_samples_options(dl_arena *arena, const dl_session *s, dlr_split split, dlr_dataset_options *o,
                        dl_error *err) {
    const dl_config *c = s->config;
    const dl_yaml *limit = dl_config_value(c, keys[split].limit);
    *o = (dlr_dataset_options){.loader = dl_config_str(c, DL_KEY_data_loader_config),
                               .split = split,
                               .path = data_path(arena, c, keys[split].path),
                               .box_size = box_size(c, split),
                               .samples = dl_config_int(c, keys[split].samples),
                               .seed = (uint64_t)dl_config_int(c, DL_KEY_seed)};
    bool limited = limit->kind == DL_YAML_INT && limit->integer < o->samples;
    if (limited) o->samples = limit->integer;
    if (!has_loader(c, err)) return false;
    const dl_var *x = find(s, DL_VAR_INPUT, err), *t = x ? find(s, DL_VAR_TARGET, err) : NULL;
    if (!t) return false;
    bool synthetic = strcmp(o->loader, "synthetic") == 0;
    if (synthetic ? !noise_of(s, x, &o->input_noise, err) || !noise_of(s, t, &o->target_noise, err)
                  : !crops_of(x, t, o, err))
        return false;
    if (o->samples >= s->batch) return true;
    return dl_config_fail(c, limited ? keys[split].limit : keys[split].samples, err,
                          "%lld samples do not fill one batch of %lld: set local_batch_size",
                          (long long)o->samples, (long long)s->batch);
}

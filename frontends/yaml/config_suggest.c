/* Suggests the key that a user may have meant by an unknown name. */
#include "frontends/yaml/config_private.h"

/* Keys by their names in other programs, which are not similar by letters. */
static const char *known_elsewhere(const char *name) {
    static const char *const known[][2] = {{"learning_rate", "lr"},
                                           {"epochs", "num_epochs"},
                                           {"train_batch_size", "global_batch_size"},
                                           {"batch", "global_batch_size"},
                                           {"gradient_clip_val", "clip_grad_norm"},
                                           {"grad_clip", "clip_grad_norm"},
                                           {"param_groups", "groups"},
                                           {"early_stop_patience", "early_stop"},
                                           {"early_stopping_patience", "early_stop"},
                                           {"early_stopping", "early_stop"},
                                           {"grad_accum", "accumulate"},
                                           {"grad_accum_steps", "accumulate"},
                                           {"accumulation_steps", "accumulate"},
                                           {"gradient_accumulation_steps", "accumulate"},
                                           {"accumulate_grad_batches", "accumulate"},
                                           {"max_grad_norm", "clip_grad_norm"},
                                           {"max_steps", "num_iters"},
                                           {"steps", "num_iters"},
                                           {"iterations", "num_iters"},
                                           {"num_workers", "num_data_workers"},
                                           {"precision", "amp_mode"},
                                           {"mixed_precision", "amp_mode"},
                                           {"fp16", "amp_mode"},
                                           {"bf16", "amp_mode"},
                                           {"use_amp", "enable_amp"},
                                           {"random_seed", "seed"},
                                           {"checkpoint", "resume"},
                                           {"wd", "weight_decay"},
                                           {"opt", "optimizer"},
                                           {"out_dir", "expdir"},
                                           {"pretrained", "init_weights"},
                                           {"load_weights", "init_weights"},
                                           {"betas", "adam_beta1"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i][0], name) == 0) return known[i][1];
    return NULL;
}

/* Keys of other programs that have no equivalent here. */
static const char *not_here(const char *name) {
    static const char sweep[] = "; `dlrun sweep FILE.yaml` takes a sweep's file",
                      ranks[] =
                          "; dlrun -n says how many ranks there are, of which each takes a GPU";
    static const char *const known[][2] = {{"sweep_config", sweep},
                                           {"gpus", ranks},
                                           {"num_gpus", ranks},
                                           {"devices", ranks},
                                           {"nproc_per_node", ranks}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i][0], name) == 0) return known[i][1];
    return NULL;
}

/* The shortest name that the word is a beginning of ("amp": amp_mode), or NULL. */
static const char *longer_name(const char *word, int n, const char *const *names) {
    size_t length = strlen(word);
    const char *best = NULL;
    for (int i = 0; length > 1 && i < n; i++)
        if (strncmp(names[i], word, length) == 0 && names[i][length] == '_' &&
            (!best || strlen(names[i]) < strlen(best)))
            best = names[i];
    return best;
}

const char *dl_config_suggest(const dl_config *c, const char *section, const char *name,
                              bool with_options) {
    const struct dl_config_state *st = c->state;
    DL_ARRAY(const char *) names = {0};
    const char *dot = strrchr(name, '.'), *absent = not_here(dot ? dot + 1 : name);
    if (absent) return absent;
    for (int i = 0; i < st->settings.n; i++)
        dl_push(st->arena, &names, st->settings.at[i].row->name);
    for (const dl_key_alias *a = dl_key_aliases; a->name; a++) dl_push(st->arena, &names, a->name);
    for (const dl_key_within *w = dl_keys_within; w->name; w++)
        if (strcmp(w->map, section) == 0) dl_push(st->arena, &names, w->name);
    for (const dl_option *o = st->options; with_options && o->name; o++)
        dl_push(st->arena, &names, o->name);
    if (with_options) dl_push(st->arena, &names, "config");
    if (with_options) dl_push(st->arena, &names, "yaml_config");
    const char *near = known_elsewhere(dot ? dot + 1 : name);
    if (!near) near = dl_nearest(dot ? dot + 1 : name, names.at, names.n);
    if (!near) near = longer_name(dot ? dot + 1 : name, names.n, names.at);
    if (!near) return "";
    const dl_setting *s = dl_find_setting(c, near);
    bool own = s && strcmp(s->row->name, near) == 0;
    return dl_format(st->arena, "; did you mean '%s%s'?", with_options ? "--" : "",
                     own ? dl_key_full_name(st->arena, s->row) : near);
}

#include "runtime/setup/dataset_choice.h"

bool dl_own_data_given(const dl_config *c) {
    return dl_config_value(c, DL_KEY_data)->kind == DL_YAML_MAP;
}

bool dl_samples_by_device(const dl_config *config) {
    const char *loader = dl_config_str(config, DL_KEY_data_loader_config);
    return strcmp(loader, "dali") == 0 || strcmp(loader, "dali-lowmem") == 0;
}

bool dl_samples_held(const dl_config *config) {
    return strcmp(dl_config_str(config, DL_KEY_data_loader_config), "dali") == 0;
}

/* `data: NAME`: preset keras' data sets, with what its code does to their pictures. */
static const struct {
    const char *name;
    struct {
        dl_key key;
        const char *value; /* NULL after the last */
    } values[5];           /* the loader first */
} sets[] = {
    {"dummy", {{DL_KEY_data_loader_config, "synthetic"}}},
    {"cifar10",
     {{DL_KEY_data_loader_config, "cifar10"},
      {DL_KEY_image_scaling, "unit"},
      {DL_KEY_shift_range, "0.1"},
      {DL_KEY_horizontal_flip, "true"}}},
    {"imagenet",
     {{DL_KEY_data_loader_config, "image_folder"},
      {DL_KEY_image_scaling, "caffe"},
      {DL_KEY_shift_range, "0.33"},
      {DL_KEY_zoom_range, "0.5"},
      {DL_KEY_horizontal_flip, "true"}}},
};

/* The key that names the data, for each loader that one chooses. */
static const struct {
    dl_key key;
    const char *loader;
} sources[] = {{DL_KEY_data, "own"},
               {DL_KEY_train_data_path, "pytorch"},
               {DL_KEY_data_dir, "cifar10"},
               {DL_KEY_train_dir, "image_folder"}};

/* `data` as a name says what E's data set is; as a map, where data of one's own are. */
static bool names_source(const dl_config *c, dl_key source) {
    return source == DL_KEY_data ? dl_own_data_given(c) : !dl_config_is_null(c, source);
}

/* Data on the command line beats a file's `synthetic`, and nothing else that names a loader. */
static bool leaves_choice(const dl_config *c, dl_key source) {
    if (!names_source(c, source)) return false;
    if (!dl_config_is_given(c, DL_KEY_data_loader_config)) return true;
    return strcmp(dl_config_str(c, DL_KEY_data_loader_config), "synthetic") == 0 &&
           dl_config_outranks(c, source, DL_KEY_data_loader_config);
}

/* The number of the set that `data` names, or -1. */
static int set_of(const dl_config *c) {
    const dl_yaml *value = dl_config_value(c, DL_KEY_data);
    int i = value->kind == DL_YAML_STRING ? (int)(sizeof sets / sizeof *sets) - 1 : -1;
    while (i >= 0 && strcmp(value->text, sets[i].name) != 0) i--;
    return i;
}

const char *dl_samples_loader(const dl_config *c) {
    const char *given = dl_config_str(c, DL_KEY_data_loader_config);
    int set = set_of(c);
    const char *named = set < 0 ? NULL : sets[set].values[0].value;
    if (!dl_samples_by_device(c)) return given;
    if (named && strcmp(named, "synthetic") != 0) return named;
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        if (names_source(c, sources[i].key))
            return sources[i].key == DL_KEY_train_data_path ? given : sources[i].loader;
    return named ? named : given;
}

bool dl_samples_resolve(dl_config *c, dl_error *err) {
    int set = set_of(c);
    for (int k = 0; set >= 0 && k < 5 && sets[set].values[k].value; k++)
        if (!dl_config_is_given(c, sets[set].values[k].key) &&
            !dl_config_set(c, sets[set].values[k].key, sets[set].values[k].value, err))
            return false;
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        if (leaves_choice(c, sources[i].key))
            return dl_config_set(c, DL_KEY_data_loader_config, sources[i].loader, err);
    return true;
}

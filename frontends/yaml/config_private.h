/* Private to the files of the configuration. */
#ifndef DL_CONFIG_PRIVATE_H
#define DL_CONFIG_PRIVATE_H
#include "frontends/yaml/config.h"

/* A row of config.def, or an argument that a model declared. */
typedef struct {
    const char *name, *section; /* "" at the top */
    dl_config_type type;
    const char *fallback; /* as YAML text; NULL: none */
    struct {
        double least, most;
        const char *choices; /* "a|b|c", or NULL */
    } limits;
    const char *help;
    dl_config_type item; /* of a LIST */
} dl_key_row;
extern const dl_key_row dl_key_rows[DL_N_KEYS];

/* Aliases of keys; ends with {0}. */
typedef struct {
    const char *name;
    dl_key key;
    bool is_old; /* a former name */
} dl_key_alias;
extern const dl_key_alias dl_key_aliases[];

/* Aliases within a map; ends with {0}. */
typedef struct {
    const char *map, *name;
    dl_key key;
    int item; /* index in a list; -1: the value itself */
} dl_key_within;
extern const dl_key_within dl_keys_within[];

/* Keys of other programs that have no effect here; ends with NULL. */
extern const char *const dl_key_ignored[];

/* --config and --yaml_config, which every program has; ends with {0}. */
extern const dl_option dl_standard_options[];

/* The source of a value; a later one overrides an earlier one. */
typedef enum {
    DL_BY_DEFAULT,
    DL_BY_MODEL,
    DL_BY_RECIPE,
    DL_BY_FILE,
    DL_BY_ARGUMENT
} dl_config_source;

typedef struct {
    const dl_key_row *row;
    const dl_yaml *value; /* checked; NULL: not set */
    dl_config_source source;
    const char *said;        /* the command line's text for it, whole; NULL: none */
    const dl_yaml *fallback; /* of a model's argument: its default, or NULL */
} dl_setting;

/* `--name=text` or `--name text`; text NULL: neither. `whole` is the user's text, for messages. */
typedef struct {
    const char *name, *text, *whole;
} dl_argument;

typedef struct {
    const dl_option *option;
    const char *text;
    int first, last; /* its words of the command line */
} dl_given_option;

typedef struct {
    dl_yaml_entry entry;
    const char *section;
    dl_config_source source;
} dl_unknown_key;

struct dl_config_state {
    dl_arena *arena;
    const dl_option *options;
    bool only_options;            /* there are no keys */
    const char *yaml_config;      /* --yaml_config, or NULL */
    const char *text, *text_name; /* of dl_config_set_text, or NULL */
    bool is_named;                /* --config was given */
    int argc;                     /* the command line */
    char *const *argv;
    DL_ARRAY(dl_given_option) given;
    DL_ARRAY(dl_setting) settings; /* [0, DL_N_KEYS): config.def's; then declared ones */
    DL_ARRAY(dl_argument) unknown_arguments;
    DL_ARRAY(dl_unknown_key) unknown_keys;
};

/* "lr_schedule.start_lr" */
const char *dl_key_full_name(dl_arena *arena, const dl_key_row *row);
/* The allowed values for messages: "an integer of at least 1 (or null)". */
const char *dl_key_allowed(dl_arena *arena, const dl_key_row *row);
/* The type without _OR_NULL. */
dl_config_type dl_key_base_type(const dl_key_row *row);
/* "int", "list of int" */
const char *dl_key_type_name(dl_arena *arena, const dl_key_row *row);
bool dl_key_is_text(const dl_key_row *row); /* STRING or PATH */

/* The value converted to the key's type ($VAR expanded); NULL and an error at its place when it is
 * not allowed. */
const dl_yaml *dl_key_check(dl_arena *arena, const dl_key_row *row, const dl_yaml *value,
                            dl_error *err);
/* Text of the command line, or of a default, parsed as a value of the key, and checked. text NULL:
 * no value was given. */
const dl_yaml *dl_key_parse(dl_arena *arena, const dl_key_row *row, const char *text,
                            dl_yaml_place place, dl_error *err);

/* Sets a key unless a stronger source has set it. */
bool dl_setting_put(dl_arena *arena, dl_setting *s, const dl_yaml *value, dl_config_source source,
                    dl_error *err);
/* Finds a setting by "name" or "section.name", or an alias, also one within a map; NULL: unknown,
 * or a list of several keys. */
dl_setting *dl_find_setting(const dl_config *c, const char *name);
/* The same in a map of that name ("": a configuration). A section of the table holds only its own
 * keys; any other map only groups keys. `name` in the map of a key is that key. */
dl_setting *dl_find_setting_in(const dl_config *c, const char *section, const char *name);
bool dl_is_section(const char *name);
/* Whether keys have this alias within that map alone. */
bool dl_is_within(const char *map, const char *name);
/* Whether a map of this name groups keys, instead of being the value of one. */
bool dl_is_group(const dl_config *c, const char *name, const dl_yaml *map);
/* Whether a value of `data` describes an array dataset: a map with `inputs`, `targets` or
 * `split`. */
bool dl_is_array_dataset(const dl_yaml *v);
/* Sets every key of a map ("" for a whole configuration); unknown ones are added to
 * unknown_keys. */
bool dl_config_take_map(dl_config *c, const char *section, const dl_yaml *map,
                        dl_config_source source, dl_error *err);

/* Applies the preset's values for the selected optimizer, after all sources that can select one.
 * Errors: no memory. */
bool dl_config_take_of_optimizer(dl_config *c, dl_error *err);

typedef enum { DL_TAKEN, DL_UNKNOWN_NAME, DL_REFUSED } dl_taken;
dl_taken dl_config_take_argument(dl_config *c, dl_argument argument, dl_error *err);

/* "; did you mean 'num_epochs'?", or "" when no key (nor one within the map `section`, nor,
 * with_options, an option) is similar. */
const char *dl_config_suggest(const dl_config *c, const char *section, const char *name,
                              bool with_options);
#endif

/* The configuration of a run: defaults, then the model's own defaults, then the preset's values
 * (presets.def), then a configuration of a YAML file, then the command line; each overrides the
 * previous ones. Keys are declared once, in config.def.
 *
 * A program calls in this order (config.c has it, too):
 *
 *     c = dl_config_open(arena, argc, argv, options, err);    the command line
 *     ... dl_config_option(c, "help") ...
 *     dl_config_load(c, err);                                 the YAML file
 *     dl_config_declare(c, "patch_size", ...);                each argument of the model
 *     dl_config_finish(c, err);                               unknown keys are errors
 *     dl_config_int(c, DL_KEY_num_epochs) ...
 *
 * A program without a configuration omits load and declare. Values are checked, with their
 * limits, where they are read: a getter cannot fail. */
#ifndef DL_CONFIG_H
#define DL_CONFIG_H
#include "frontends/yaml/yaml_tree.h"

/* DL_KEY_num_epochs, DL_KEY_start_lr, ...: a mistyped key does not compile. */
typedef enum {
#define GROUP(title)
#define KEY(name, ...) DL_KEY_##name,
#include "frontends/yaml/config.def"
    DL_N_KEYS
} dl_key;

typedef enum {
    DL_CONFIG_ANY, /* for an argument whose type the model does not give */
    DL_CONFIG_BOOL,
    DL_CONFIG_INT,
    DL_CONFIG_FLOAT, /* an integer is accepted, too */
    DL_CONFIG_STRING,
    DL_CONFIG_PATH, /* a string that is not empty */
    DL_CONFIG_BOX,  /* an integer, or a list of two */
    DL_CONFIG_LIST,
    DL_CONFIG_NAME,     /* a string that can name a folder */
    DL_CONFIG_SCHEDULE, /* a name, or a list of phases (rate_options.h) or of ranges of epochs */
    DL_CONFIG_SWITCH,   /* true, false, or a path */
    DL_CONFIG_DATA, /* a name, or a map with `inputs` or `targets`, whose strings have their $VAR
                       expanded */
    DL_CONFIG_PATTERNS,   /* a string that is not empty, or a list of such */
    DL_CONFIG_GROUPS,     /* a list of {params: PATTERNS, lr, lr_scale, weight_decay} */
    DL_CONFIG_OPTIMIZERS, /* a map of maps */
    DL_CONFIG_SIZES,      /* an integer, or a list of two or three: sizes of axes */
    DL_CONFIG_OR_NULL = 16,
    DL_CONFIG_INT_OR_NULL = DL_CONFIG_INT | DL_CONFIG_OR_NULL,
    DL_CONFIG_FLOAT_OR_NULL = DL_CONFIG_FLOAT | DL_CONFIG_OR_NULL,
    DL_CONFIG_STRING_OR_NULL = DL_CONFIG_STRING | DL_CONFIG_OR_NULL,
    DL_CONFIG_PATH_OR_NULL = DL_CONFIG_PATH | DL_CONFIG_OR_NULL,
    DL_CONFIG_BOX_OR_NULL = DL_CONFIG_BOX | DL_CONFIG_OR_NULL,
    DL_CONFIG_PATTERNS_OR_NULL = DL_CONFIG_PATTERNS | DL_CONFIG_OR_NULL,
    DL_CONFIG_GROUPS_OR_NULL = DL_CONFIG_GROUPS | DL_CONFIG_OR_NULL,
    DL_CONFIG_OPTIMIZERS_OR_NULL = DL_CONFIG_OPTIMIZERS | DL_CONFIG_OR_NULL,
    DL_CONFIG_DATA_OR_NULL = DL_CONFIG_DATA | DL_CONFIG_OR_NULL,
} dl_config_type;

/* An option of one program, which is no configuration key. A table of them ends with {0}. */
typedef struct {
    const char *name; /* "json": --json */
    char letter;      /* 'o': -o as well; 0: none */
    /* what it takes, for --help ("FILE"; "[LIST]" may be empty; "[=LIST]" too, and is never the
     * next word); NULL: nothing */
    const char *value;
    const char *help;
} dl_option;
/* The option of every command that asks for its help. */
#define DL_OPTION_HELP                                                                             \
    { "help", 'h', "[=WHICH]", "this text; --help=all: all there is" }

typedef struct {
    const char *file; /* the YAML file; NULL when there is none */
    /* the name of the selected configuration: --config, or base, default or the first */
    const char *name;
    bool batch_assumed; /* a program has set the batch size, since the user gave none */
    DL_ARRAY(const char *) positional; /* arguments that are not options */
    DL_ARRAY(const char *)
    warnings; /* about keys that are accepted without effect; set by dl_config_finish */
    struct dl_config_state *state;
} dl_config;

/* Reads the command line: the program's options, `--config NAME`, `--yaml_config FILE` and every
 * key as `--key=value`, `--key value`, or `--section.key=...`; a boolean needs no value.
 * `--section={key: value, ...}` and `--key=name=value,key=value` set several keys; arguments after
 * `--` are positional. If an option is given twice, the last one counts. argv[0] is skipped.
 * Unknown options may be the model's: they are kept for dl_config_declare and dl_config_finish.
 * Errors: DL_USAGE `--key=value: key must be ..., not ...`. */
dl_config *dl_config_open(dl_arena *arena, int argc, char *const *argv, const dl_option *options,
                          dl_error *err);

/* Reads a configuration of the YAML file: that of --config, else `base`, else `default`, else the
 * first. A file with keys at its top and none of these is a single configuration, named as the
 * file. The file is that of --yaml_config, or for the model X.dl the file config/X.yaml next to it.
 * A model needs no such file: without one the defaults are used, and only --config is an error.
 *
 * Applies the values of the preset, and the file and arguments of a `model` that is a name of
 * models/config/names.yaml. Maps in the configuration group keys, which are found by their own
 * names; a section of the table has only its own keys. Errors: DL_IO; DL_INPUT `file:line:column:
 * error: ...`; DL_USAGE for a name that the file lacks. */
bool dl_config_load(dl_config *c, dl_error *err);
/* Replaces that file by a text, which must stay valid; `name` stands for its path in messages.
 * --yaml_config of the command line still wins. A `model` in it is a file, never a name of
 * names.yaml. Call it before dl_config_load. */
void dl_config_set_text(dl_config *c, const char *name, const char *text);

/* An argument of a model. */
typedef struct {
    const char *name; /* must not be a name that dl_config_reserved knows */
    dl_config_type type;
    dl_config_type item;  /* of a LIST: the type of its items; ANY: any */
    const char *fallback; /* its default as YAML text; NULL: it has none */
    dl_yaml_place place;  /* its place in the model */
} dl_config_argument;
/* Makes it a key, and sets it from the file and the command line. Errors: as above for a value
 * given to it. */
bool dl_config_declare(dl_config *c, const dl_config_argument *argument, dl_error *err);
/* The meaning of a name that config.def (key, alias or section) or an option of every program uses,
 * so that no argument of a model may have it; NULL: it is free. */
const char *dl_config_reserved(const char *name);

/* Sets a key as `--name=text` would (a positional argument that is the model, a batch size that
 * follows from others). It does not count as the user's text: dl_config_said returns that of the
 * command line. */
bool dl_config_set(dl_config *c, dl_key key, const char *text, dl_error *err);

/* The same for a key that nobody gave, whose value follows from others: it stays so. */
bool dl_config_set_default(dl_config *c, dl_key key, const char *text, dl_error *err);

/* Sets keys from a map of names, as the command line would: before or after dl_config_load, and
 * before dl_config_finish. An unknown name is kept for the model. Errors: DL_USAGE for a key that
 * the command line sets, too; an error at the value's place if the key does not allow it. */
bool dl_config_take_values(dl_config *c, const dl_yaml *map, dl_error *err);

/* Reads positional arguments: X.yaml or X.yml as --yaml_config, another as the model. Errors:
 * DL_USAGE when there are two of a kind, including --model and --yaml_config. */
bool dl_config_take_model(dl_config *c, dl_error *err);

/* Whether a word of a command line is the name of a plan's file, X.dlp. */
bool dl_config_is_plan(const char *word);
/* Takes the first positional argument X.dlp, a plan, from the others; NULL: there is none. */
const char *dl_config_take_plan(dl_config *c);

/* Ends reading. It warns once of keys of other programs that have no effect here, and of
 * environment variables that are not set and remain in a value as text. Errors: DL_USAGE for an
 * unknown option, DL_INPUT for an unknown key of the file, at its place and with the most similar
 * name. */
bool dl_config_finish(dl_config *c, dl_error *err);

/* A command line of options and files alone, without keys; at most `most_files` files, which are
 * c->positional. For dl_config_option and the next two. NULL: DL_USAGE, with the nearest option. */
dl_config *dl_options_open(dl_arena *arena, int argc, char *const *argv, const dl_option *options,
                           int most_files, dl_error *err);
/* The number that an option was given; *value stays as it is where it was not. Errors: DL_USAGE for
 * another text, or a number outside `least` to `most`, which are both allowed. */
bool dl_option_int(const dl_config *c, const char *name, int64_t least, int64_t most,
                   int64_t *value, dl_error *err);
bool dl_option_real(const dl_config *c, const char *name, double least, double most, double *value,
                    dl_error *err);
/* A program's option: what it was given, "" for one that takes nothing, NULL when it was not given.
 */
const char *dl_config_option(const dl_config *c, const char *name);

const char *dl_key_name(dl_key key);                 /* its name in YAML and on the command line */
const char *dl_key_default(dl_key key);              /* as YAML text; NULL: it has none */
bool dl_config_bool(const dl_config *c, dl_key key); /* BOOL; for a SWITCH: true for a path, too */
int64_t dl_config_int(const dl_config *c, dl_key key);
double dl_config_float(const dl_config *c, dl_key key);
/* STRING, PATH, NAME, SWITCH; NULL: not a string */
const char *dl_config_str(const dl_config *c, dl_key key);
const dl_yaml *dl_config_value(const dl_config *c, dl_key key); /* any key, with its place */
bool dl_config_is_null(const dl_config *c, dl_key key);
bool dl_config_is_given(const dl_config *c, dl_key key); /* set by the file or the command line */
/* Whether a number is the key's default, even if it was set: hyperparams.yaml of a run has all
 * keys. */
bool dl_config_is_default(const dl_config *c, dl_key key);
/* Whether a stronger source set a than b: decides between two keys that exclude each other. */
bool dl_config_outranks(const dl_config *c, dl_key a, dl_key b);
/* Adds a warning. */
void dl_config_warn(dl_config *c, const char *format, ...) DL_PRINTF(2, 3);
/* Whether a path can be written to: false and an error at its place if it contains an environment
 * variable that is not set. */
bool dl_config_check_written(const dl_config *c, dl_key key, dl_error *err);
/* The name of preset i, and the keys that choose it, with blanks between ("": where no other is
 * chosen). False: there are fewer. */
bool dl_config_preset(int i, const char **name, const char **marks);
/* The value of a key of config.def or a declared one, by name; NULL when there is no such key or it
 * is not set. */
const dl_yaml *dl_config_find(const dl_config *c, const char *name);

/* The proper name of the key or model's argument that `name` refers to. NULL: there is none; an
 * error at `place` with the most similar name. */
const char *dl_config_key_of(const dl_config *c, const char *name, dl_yaml_place place,
                             dl_error *err);
/* The value in the spelling of the key of that name, which must exist: 'adam' for 'Adam'. NULL: it
 * is not allowed; an error at the value's place. */
const dl_yaml *dl_config_as_taken(const dl_config *c, const char *name, const dl_yaml *value,
                                  dl_error *err);
/* The command line's whole text for the key of that name; NULL: none. */
const char *dl_config_said(const dl_config *c, const char *name);
/* Appends the command line's words for a shell, each after a blank, except the program's own
 * options other than `keep` (names, NULL at the end). */
void dl_config_put_words(const dl_config *c, const char *const *keep, dl_buf *b);

/* An error about a key's value that only the program can detect ("128 is more than the file's 80"):
 * DL_INPUT or DL_USAGE, at the place that set it. */
bool dl_config_fail(const dl_config *c, dl_key key, dl_error *err, const char *format, ...)
    DL_PRINTF(4, 5);

/* The effective values that are not the default of their key, as the log has them (Python's words:
 * True, None, 0.0002), one call a line. */
void dl_config_log(const dl_config *c, void (*line)(void *to, const char *text), void *to);
/* The effective values as a YAML file with this one configuration: read again, it gives the same
 * values. */
void dl_config_put_yaml(const dl_config *c, dl_buf *b);
/* The same with only the values that the file and the command line gave, and arguments of the model
 * that its name set: read again by dl_config_set_text, it stands for both. */
void dl_config_put_given(const dl_config *c, dl_buf *b);
/* The effective values as one JSON object: every key, including the model's, under its own name and
 * each alias, without sections; the configuration's name as "config". */
void dl_config_put_json(const dl_config *c, dl_buf *b);
/* For --help: a line for each option. */
void dl_options_put_help(dl_buf *b, const dl_option *options);
/* For --help: the program's options, the keys of the model whose arguments are declared in c, if
 * any are, and how to see more (which: ""); or the keys of a group with type, default, meaning and
 * allowed words ("training"); or all of it ("all"). Errors: DL_USAGE for another `which`. */
bool dl_config_put_help(dl_buf *b, const dl_option *options, const dl_config *c, const char *which,
                        dl_error *err);
/* The model's keys alone. */
void dl_config_put_arguments(dl_buf *b, const dl_config *c);
/* The same keys as tables for docs/reference/keys.md. */
void dl_config_put_docs(dl_buf *b);
#endif

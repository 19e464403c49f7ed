/* Parses YAML to a tree of values, each with its line and column.
 *
 * Built on libyaml's event interface (its own loader is quadratic in anchors and nesting). Scalars
 * follow the core schema of YAML 1.2 (https://yaml.org/spec/1.2.2/, chapter 10.3): `5E-4` and
 * `2.E-4` are numbers, `yes` and `1_000` are strings. In addition `None` is null, as Python's
 * configuration files write it. `<<` merges as in YAML 1.1 (https://yaml.org/type/merge.html): a
 * map's own key overrides a merged one, an earlier merged map a later one. */
#ifndef DL_YAML_TREE_H
#define DL_YAML_TREE_H
#include "ir/base/arena.h"
#include "ir/base/str.h"

typedef enum {
    DL_YAML_NULL,
    DL_YAML_BOOL,
    DL_YAML_INT,
    DL_YAML_FLOAT,
    DL_YAML_STRING,
    DL_YAML_LIST,
    DL_YAML_MAP
} dl_yaml_kind;

/* The place of a value: line and column count from 1. Line 0: `file` is an argument of the command
 * line, or NULL for a default. */
typedef struct {
    const char *file;
    int line, column;
} dl_yaml_place;

typedef struct dl_yaml dl_yaml;
typedef struct {
    const char *key; /* interned */
    dl_yaml_place place;
    const dl_yaml *value;
} dl_yaml_entry;

struct dl_yaml {
    dl_yaml_kind kind;
    dl_yaml_place place;
    const char *text;  /* the source text of a scalar; for a DL_YAML_STRING, its value */
    const char *unset; /* for a checked DL_YAML_STRING: an environment variable in it that is not
                          set; NULL: none */
    bool truth;        /* DL_YAML_BOOL */
    int64_t integer;   /* DL_YAML_INT */
    double number;     /* DL_YAML_FLOAT and DL_YAML_INT */
    DL_ARRAY(const dl_yaml *) items; /* DL_YAML_LIST */
    DL_ARRAY(dl_yaml_entry) entries; /* DL_YAML_MAP: its own keys in order, then the merged ones */
    int size, height; /* number of values and levels, this one included, with aliases expanded */
};

/* Limits of a file. */
enum {
    DL_YAML_MAX_BYTES = 16 << 20,
    DL_YAML_MAX_DEPTH = 32,
    DL_YAML_MAX_VALUES = 50000, /* after aliases and merges are expanded */
};

/* Parses the one document of a text of n bytes; `name` is the file's name in messages. An empty
 * document is null. Errors: DL_INPUT, `name:line:column: error: ...`, for syntax, invalid UTF-8,
 * NUL, a duplicate key, an unknown or recursive alias, a tag outside the core schema, a second
 * document, and the limits above. */
const dl_yaml *dl_yaml_read(dl_arena *arena, const char *text, size_t n, const char *name,
                            dl_error *err);
/* The same for a file. Errors: DL_IO, and as above. */
const dl_yaml *dl_yaml_read_file(dl_arena *arena, const char *path, dl_error *err);
/* The same for a value on the command line: all its places are `argument` (the user's whole
 * text). */
const dl_yaml *dl_yaml_read_argument(dl_arena *arena, const char *text, const char *argument,
                                     dl_error *err);

/* A scalar without quotes, typed by the core schema; dl_yaml_string: a string whatever it looks
 * like. */
dl_yaml *dl_yaml_plain(dl_arena *arena, const char *text, dl_yaml_place place);
dl_yaml *dl_yaml_string(dl_arena *arena, const char *text, dl_yaml_place place);
/* Whether it is one of the booleans of YAML 1.1 (yes, off, ...) that are strings in 1.2. */
bool dl_yaml_is_old_bool(const char *text);
/* Types a scalar by a tag of the core schema ("int", "bool", ...); NULL when its text does not have
 * that type. */
dl_yaml *dl_yaml_tagged(dl_arena *arena, const char *text, const char *type, dl_yaml_place place);

/* The value of a key of a map; NULL when it has none. */
const dl_yaml *dl_yaml_get(const dl_yaml *map, const char *key);

/* Appends the value on one line: as YAML that reads back as the same value, or as Python's str()
 * prints it. */
void dl_yaml_put(dl_buf *b, const dl_yaml *v);
void dl_yaml_put_python(dl_buf *b, const dl_yaml *v);
/* The same as JSON, which reads back as YAML, too; values that are not finite become null. */
void dl_yaml_put_json(dl_buf *b, const dl_yaml *v);
void dl_yaml_put_json_string(dl_buf *b, const char *text);

/* The value for a message: 'minus_one', null, a list; long ones are cut, control characters
 * replaced. */
const char *dl_yaml_show(dl_arena *arena, const dl_yaml *v);
/* Text for a message: in quotes; long text is cut, control characters replaced. */
const char *dl_yaml_quote(dl_arena *arena, const char *text);

/* dl_fail with the place before the message: DL_INPUT `file:line:column: error: ...` for a file's
 * value, DL_USAGE `argument: ...` for the command line's, DL_INPUT and the bare message for a
 * default's. */
bool dl_yaml_fail(dl_error *err, dl_yaml_place place, const char *format, ...) DL_PRINTF(3, 4);
#endif

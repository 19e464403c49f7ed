/* The table of keys, and the checks of their values. */
#include <ctype.h>
#include <float.h>
#include <stdlib.h>
#include <strings.h>

#include "frontends/yaml/config_private.h"
#include "frontends/yaml/rate_options.h"
#include "ir/base/limits.h"

#define ANY                                                                                        \
    { -DBL_MAX, DBL_MAX, NULL }
#define FROM(least_)                                                                               \
    { least_, DBL_MAX, NULL }
#define RANGE(least_, most_)                                                                       \
    { least_, most_, NULL }
#define ONE_OF(choices_)                                                                           \
    { -DBL_MAX, DBL_MAX, choices_ }

/* "|keras|tracked|..." */
static const char preset_names[] =
#define PRESET(name, ...) "|" #name
#include "compat/nersc/presets.def"
    ;
#define DL_PRESET_NAMES (preset_names + 1)

/* "|adam|adamw|..." */
static const char optimizer_names[] =
#define OPTIMIZER(id, ...) "|" #id
#include "ir/base/optimizers.def"
    ;
#define DL_OPTIMIZER_NAMES (optimizer_names + 1)

/* "warmup_cosine|none|step|..." */
static const char schedule_names[] = "warmup_cosine|none"
#define RATE_COURSE(id, ...) "|" #id
#include "ir/base/rate_phases.def"
    ;
#define DL_SCHEDULE_NAMES schedule_names

const dl_key_row dl_key_rows[DL_N_KEYS] = {
#define GROUP(title)
#define KEY(name, section, type, fallback, limits, help)                                           \
    [DL_KEY_##name] = {#name, section, DL_CONFIG_##type, fallback, limits, help, DL_CONFIG_ANY},
#include "frontends/yaml/config.def"
};

const dl_key_alias dl_key_aliases[] = {
#define GROUP(title)
#define KEY(...)
#define ALIAS(name, key) {#name, DL_KEY_##key, false},
#define OLD(name, key)   {#name, DL_KEY_##key, true},
#include "frontends/yaml/config.def"
    {0},
};

const dl_key_within dl_keys_within[] = {
#define GROUP(title)
#define KEY(...)
#define WITHIN(map, name, key, item) {#map, #name, DL_KEY_##key, item},
#include "frontends/yaml/config.def"
    {0},
};

const char *const dl_key_ignored[] = {
#define GROUP(title)
#define KEY(...)
#define IGNORED(name) #name,
#include "frontends/yaml/config.def"
    NULL,
};

static const struct {
    const char *name, *allowed;
} types[] = {
    [DL_CONFIG_ANY] = {"any", "a value"},
    [DL_CONFIG_BOOL] = {"bool", "true or false"},
    [DL_CONFIG_INT] = {"int", "an integer"},
    [DL_CONFIG_FLOAT] = {"float", "a number"},
    [DL_CONFIG_STRING] = {"string", "a string"},
    [DL_CONFIG_PATH] = {"path", "a path"},
    [DL_CONFIG_BOX] = {"int or list", "an integer, or [training, validation],"},
    [DL_CONFIG_LIST] = {"list", "a list"},
    [DL_CONFIG_SWITCH] = {"bool or path", "true, false, or a path"},
    [DL_CONFIG_SCHEDULE] = {"name or list", ""}, /* always one of several names */
    [DL_CONFIG_DATA] = {"name or map", ""},      /* as above */
    [DL_CONFIG_PATTERNS] = {"pattern or list", "a pattern, or a list of patterns"},
    [DL_CONFIG_GROUPS] = {"list of groups", "a list of maps with params (a pattern, or a list of "
                                            "patterns) and lr, lr_scale or weight_decay"},
    [DL_CONFIG_OPTIMIZERS] = {"map of optimizers", "a map of names, each to a map of keys"},
    [DL_CONFIG_SIZES] = {"int or list", "an integer, [H, W] or [D, H, W]"},
    [DL_CONFIG_NAME] = {"name", "a folder's name (without '/', not '..')"},
};

dl_config_type dl_key_base_type(const dl_key_row *row) {
    return row->type & ~(unsigned)DL_CONFIG_OR_NULL;
}

static bool has_items(const dl_key_row *row) {
    return dl_key_base_type(row) == DL_CONFIG_LIST && row->item != DL_CONFIG_ANY;
}

const char *dl_key_type_name(dl_arena *arena, const dl_key_row *row) {
    const char *name = types[dl_key_base_type(row)].name;
    return has_items(row) ? dl_format(arena, "%s of %s", name, types[row->item].name) : name;
}

bool dl_key_is_text(const dl_key_row *row) {
    dl_config_type t = dl_key_base_type(row);
    return t == DL_CONFIG_STRING || t == DL_CONFIG_PATH || t == DL_CONFIG_NAME;
}

const char *dl_key_full_name(dl_arena *arena, const dl_key_row *row) {
    bool plain = !*row->section || strcmp(row->section, row->name) == 0;
    return plain ? row->name : dl_format(arena, "%s.%s", row->section, row->name);
}

static void put_choices(dl_buf *b, const char *choices) {
    if (strchr(choices, '|')) dl_puts(b, "one of ");
    for (; *choices; choices++) {
        if (*choices == '|')
            dl_puts(b, ", ");
        else
            dl_putn(b, choices, 1);
    }
}

const char *dl_key_allowed(dl_arena *arena, const dl_key_row *row) {
    dl_buf b = {0};
    if (row->limits.choices)
        put_choices(&b, row->limits.choices);
    else
        dl_puts(&b, types[dl_key_base_type(row)].allowed);
    if (dl_key_base_type(row) == DL_CONFIG_SCHEDULE)
        dl_puts(&b, ", or a list of phases or of {start_epoch, end_epoch, multiplier}");
    if (dl_key_base_type(row) == DL_CONFIG_DATA)
        dl_puts(&b, ", or a map of inputs, targets and split (docs/guide/data.md)");
    if (has_items(row)) dl_putf(&b, " whose items are each %s", types[row->item].allowed);
    if (row->limits.least > -DBL_MAX) {
        if (row->limits.most == DBL_MAX)
            dl_putf(&b, " of at least %.15g", row->limits.least);
        else
            dl_putf(&b, " from %.15g to %.15g", row->limits.least, row->limits.most);
    }
    if (row->type & DL_CONFIG_OR_NULL) dl_puts(&b, " (or null)");
    const char *s = dl_strndup(arena, b.at, b.n);
    dl_buf_free(&b);
    return s;
}

/* ---- $VAR ---- */

static bool is_name_char(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Appends the value of the variable at s (after its '$'). If it is not set, appends its text, and
 * stores the first such name in *unset. Returns the length of its name there, 0 when it is no
 * variable, -1 with the fault. */
static int put_variable(dl_buf *b, const char *s, const char **unset, const char **wrong,
                        dl_arena *arena) {
    bool braced = *s == '{';
    const char *first = s + braced, *end = first;
    while (is_name_char(*end)) end++;
    bool named = end > first && !isdigit((unsigned char)*first);
    if (!named && !braced) return 0;
    if (!named || (braced && *end != '}')) {
        *wrong = dl_format(arena, "'$%.60s' is no variable: ${NAME}", s);
        return -1;
    }
    const char *name = dl_strndup(arena, first, (size_t)(end - first)), *value = getenv(name);
    int length = (int)(end + braced - s);
    if (value)
        dl_puts(b, value);
    else
        *unset = *unset ? *unset : name, dl_putn(b, s - 1, (size_t)length + 1);
    return length;
}

/* Replaces `$VAR` and `${VAR}` by the environment's value, `$$` by one `$`; any other `$` is kept.
 * NULL with an error. */
static const dl_yaml *expand(dl_arena *arena, const dl_key_row *row, const dl_yaml *v,
                             dl_error *err) {
    if (!strchr(v->text, '$')) return dl_yaml_string(arena, v->text, v->place);
    dl_buf b = {0};
    const char *wrong = NULL, *unset = NULL;
    int n = 0;
    for (const char *s = v->text; *s && n >= 0; s++) {
        n = 0;
        if (s[0] == '$' && s[1] == '$')
            s++;
        else if (s[0] == '$')
            n = put_variable(&b, s + 1, &unset, &wrong, arena);
        if (n > 0)
            s += n;
        else if (n == 0)
            dl_putn(&b, s, 1);
    }
    dl_yaml *text =
        n < 0 ? NULL : dl_yaml_string(arena, dl_strndup(arena, b.at ? b.at : "", b.n), v->place);
    if (text)
        text->unset = unset;
    else
        dl_yaml_fail(err, v->place, "%s: %s ('$$' writes a plain '$')",
                     dl_key_full_name(arena, row), wrong);
    dl_buf_free(&b);
    return text;
}

/* The same for every string of a value. A variable that is not set is recorded in the whole value,
 * too. */
static dl_yaml *expand_all(dl_arena *arena, const dl_key_row *row, const dl_yaml *v,
                           dl_error *err) {
    dl_yaml *copy = DL_NEW(arena, dl_yaml);
    *copy = *v;
    copy->items.at = DL_NEWS(arena, const dl_yaml *, v->items.n);
    copy->entries.at = DL_NEWS(arena, dl_yaml_entry, v->entries.n);
    for (int i = 0, n = v->items.n + v->entries.n; i < n; i++) {
        bool is_item = i < v->items.n;
        const dl_yaml *from = is_item ? v->items.at[i] : v->entries.at[i - v->items.n].value, *to;
        if (from->kind == DL_YAML_STRING)
            to = expand(arena, row, from, err);
        else
            to = expand_all(arena, row, from, err);
        if (!to) return NULL;
        if (to->unset && !copy->unset) copy->unset = to->unset, copy->text = to->text;
        if (is_item)
            copy->items.at[i] = to;
        else
            copy->entries.at[i - v->items.n] = (dl_yaml_entry){
                v->entries.at[i - v->items.n].key, v->entries.at[i - v->items.n].place, to};
    }
    return copy;
}

/* ---- checks, one per type ---- */

/* The length of the fixed part of a choice: `a:` of `a:N` and of `a:NAME`. The rest is a number of
 * at most five digits, or a name, which its user checks. */
static size_t fixed_part(const char *choice, size_t n) {
    if (n > 2 && memcmp(choice + n - 2, ":N", 2) == 0) return n - 1;
    if (n > 5 && memcmp(choice + n - 5, ":NAME", 5) == 0) return n - 4;
    return n;
}

static bool is_open_choice(const char *choice, size_t n, const char *word) {
    size_t fixed = fixed_part(choice, n);
    if (fixed == n || strlen(word) <= fixed || strncasecmp(choice, word, fixed) != 0) return false;
    bool number = fixed == n - 1;
    size_t rest =
        strspn(word + fixed, number ? "0123456789" : "0123456789abcdefghijklmnopqrstuvwxyz_:");
    return !word[fixed + rest] && (!number || rest < 6);
}

/* The choice that equals a word up to the case of letters, in the table's spelling; NULL: none. */

static const char *find_choice(dl_arena *arena, const char *choices, const char *word) {
    for (const char *s = choices; s; s = strchr(s, '|')) {
        s += *s == '|';
        size_t n = strcspn(s, "|");
        size_t fixed = fixed_part(s, n);
        if (is_open_choice(s, n, word))
            return dl_format(arena, "%.*s%s", (int)fixed, s, word + fixed);
        if (fixed < n) continue; /* a word without the part that the choice requires */
        if (n == strlen(word) && strncasecmp(s, word, n) == 0) return dl_strndup(arena, s, n);
    }
    return NULL;
}

static bool is_within(const dl_key_row *row, const dl_yaml *v) {
    return v->number >= row->limits.least && v->number <= row->limits.most; /* false for NaN */
}

static bool is_int(const dl_key_row *row, const dl_yaml *v) {
    return v->kind == DL_YAML_INT && is_within(row, v);
}

static bool is_box(const dl_key_row *row, const dl_yaml *v) {
    if (v->kind != DL_YAML_LIST) return is_int(row, v);
    return v->items.n == 2 && is_int(row, v->items.at[0]) && is_int(row, v->items.at[1]);
}

static bool is_sizes(const dl_key_row *row, const dl_yaml *v) {
    if (v->kind != DL_YAML_LIST) return is_int(row, v);
    bool ok = v->items.n == 2 || v->items.n == 3;
    for (int i = 0; ok && i < v->items.n; i++) ok = is_int(row, v->items.at[i]);
    return ok;
}

static bool is_text(const dl_key_row *row, const dl_yaml *v) {
    if (v->kind == DL_YAML_LIST || v->kind == DL_YAML_MAP || v->kind == DL_YAML_NULL) return false;
    if (dl_key_base_type(row) == DL_CONFIG_PATH && !*v->text) return false;
    if (dl_key_base_type(row) == DL_CONFIG_NAME && !dl_is_file_name(v->text)) return false;
    return true;
}

/* [{start_epoch: 5, end_epoch: 30, multiplier: 0.1}, ...]; the last may omit its end. */
static bool is_ranges(const dl_yaml *v) {
    if (v->kind != DL_YAML_LIST || v->items.n > DL_MAX_RATE_RANGES) return false;
    for (int i = 0; i < v->items.n; i++) {
        const dl_yaml *r = v->items.at[i];
        if (r->kind != DL_YAML_MAP) return false;
        const dl_yaml *from = dl_yaml_get(r, "start_epoch"), *to = dl_yaml_get(r, "end_epoch"),
                      *factor = dl_yaml_get(r, "multiplier");
        bool ok = from && from->kind == DL_YAML_INT && from->integer >= 0 && factor &&
                  (factor->kind == DL_YAML_INT || factor->kind == DL_YAML_FLOAT) &&
                  factor->number >= 0 && factor->number <= DBL_MAX &&
                  r->entries.n == 2 + (to != NULL);
        if (!ok || (to && (to->kind != DL_YAML_INT || to->integer <= from->integer))) return false;
    }
    return v->items.n > 0;
}

static bool is_patterns(const dl_yaml *v) {
    if (v->kind == DL_YAML_STRING) return *v->text;
    bool ok = v->kind == DL_YAML_LIST && v->items.n > 0;
    for (int i = 0; ok && i < v->items.n; i++)
        ok = v->items.at[i]->kind == DL_YAML_STRING && *v->items.at[i]->text;
    return ok;
}

/* [{params: "*.norm.*", weight_decay: 0, lr: 0.1}, ...] */
static bool is_groups(const dl_yaml *v) {
    static const char *const numbers[] = {"lr", "lr_scale", "weight_decay"};
    bool ok = v->kind == DL_YAML_LIST && v->items.n > 0;
    for (int i = 0; ok && i < v->items.n; i++) {
        const dl_yaml *g = v->items.at[i];
        const dl_yaml *params = g->kind == DL_YAML_MAP ? dl_yaml_get(g, "params") : NULL;
        int n = 1;
        ok = params && is_patterns(params);
        for (size_t k = 0; ok && k < sizeof numbers / sizeof *numbers; k++) {
            const dl_yaml *x = dl_yaml_get(g, numbers[k]);
            n += x != NULL;
            ok = !x || ((x->kind == DL_YAML_INT || x->kind == DL_YAML_FLOAT) && x->number >= 0 &&
                        x->number <= DBL_MAX);
        }
        ok = ok && n > 1 && n == g->entries.n;
    }
    return ok;
}

/* {generator: {lr: 1e-4}, ...} */
static bool is_optimizers(const dl_yaml *v) {
    bool ok = v->kind == DL_YAML_MAP && v->entries.n > 0;
    for (int i = 0; ok && i < v->entries.n; i++) ok = v->entries.at[i].value->kind == DL_YAML_MAP;
    return ok;
}

bool dl_is_array_dataset(const dl_yaml *v) {
    return v->kind == DL_YAML_MAP &&
           (dl_yaml_get(v, "inputs") || dl_yaml_get(v, "targets") || dl_yaml_get(v, "split"));
}

static bool fits(const dl_key_row *row, const dl_yaml *v);

static bool is_list(const dl_key_row *row, const dl_yaml *v) {
    dl_key_row item = *row;
    item.type = row->item, item.item = DL_CONFIG_ANY;
    bool ok = v->kind == DL_YAML_LIST;
    for (int i = 0; ok && i < v->items.n; i++) ok = fits(&item, v->items.at[i]);
    return ok;
}

static bool fits(const dl_key_row *row, const dl_yaml *v) {
    switch (dl_key_base_type(row)) {
    case DL_CONFIG_BOOL: return v->kind == DL_YAML_BOOL;
    case DL_CONFIG_SWITCH:
        return v->kind == DL_YAML_BOOL ||
               (v->kind == DL_YAML_STRING && *v->text && !dl_yaml_is_old_bool(v->text));
    case DL_CONFIG_INT: return is_int(row, v);
    case DL_CONFIG_FLOAT:
        return (v->kind == DL_YAML_FLOAT || v->kind == DL_YAML_INT) && is_within(row, v);
    case DL_CONFIG_STRING:
    case DL_CONFIG_PATH:
    case DL_CONFIG_NAME: return is_text(row, v);
    case DL_CONFIG_BOX: return is_box(row, v);
    case DL_CONFIG_SIZES: return is_sizes(row, v);
    case DL_CONFIG_LIST: return is_list(row, v);
    case DL_CONFIG_DATA: return v->kind == DL_YAML_STRING || dl_is_array_dataset(v);
    case DL_CONFIG_PATTERNS: return is_patterns(v);
    case DL_CONFIG_OPTIMIZERS: return is_optimizers(v);
    case DL_CONFIG_GROUPS: return is_groups(v);
    case DL_CONFIG_SCHEDULE:
        return v->kind == DL_YAML_STRING || is_ranges(v) || dl_is_rate_phases(v);
    default: return true;
    }
}

/* Null; as its reader has it in preset volumes, the string 'None'; and, as the files of minimal and
 * tracked write it, a path of no letters. (On a command line that is a variable of the shell that
 * was meant to hold one.) */
static bool is_null(const dl_key_row *row, const dl_yaml *v) {
    if (v->kind != DL_YAML_STRING) return v->kind == DL_YAML_NULL;
    return strcmp(v->text, "None") == 0 ||
           (dl_key_base_type(row) == DL_CONFIG_PATH && v->place.line > 0 && !*v->text);
}

/* The choice most similar to a word, whatever the case of its letters; NULL: none is similar. */
static const char *nearest_choice(dl_arena *arena, const char *choices, const char *word) {
    DL_ARRAY(const char *) names = {0};
    char *lower = dl_strdup(arena, word);
    for (char *s = lower; *s; s++) *s = (char)tolower((unsigned char)*s);
    for (const char *s = choices; *s; s += strcspn(s, "|"), s += *s == '|')
        dl_push(arena, &names, dl_strndup(arena, s, strcspn(s, "|")));
    return dl_nearest(lower, names.at, names.n);
}

static const dl_yaml *refuse(dl_arena *arena, const dl_key_row *row, const dl_yaml *v,
                             dl_error *err) {
    const char *hint = "", *near = NULL;
    if (v->kind == DL_YAML_STRING && row->limits.choices)
        near = nearest_choice(arena, row->limits.choices, v->text);
    if (near)
        hint = dl_format(arena, "; did you mean '%s'?", near);
    else if (v->kind == DL_YAML_STRING && !row->limits.choices && !dl_key_is_text(row) &&
             fits(row, dl_yaml_plain(arena, v->text, v->place)))
        hint = " (a string: take off the quotes)";
    dl_yaml_fail(err, v->place, "%s must be %s, not %s%s", dl_key_full_name(arena, row),
                 dl_key_allowed(arena, row), dl_yaml_show(arena, v), hint);
    return NULL;
}

const dl_yaml *dl_key_check(dl_arena *arena, const dl_key_row *row, const dl_yaml *value,
                            dl_error *err) {
    if (row->type & DL_CONFIG_OR_NULL && is_null(row, value))
        return dl_yaml_plain(arena, "null", value->place);
    bool expands = dl_key_is_text(row)
                       ? value->kind != DL_YAML_LIST && value->kind != DL_YAML_MAP &&
                             value->kind != DL_YAML_NULL
                       : dl_key_base_type(row) == DL_CONFIG_SWITCH && value->kind == DL_YAML_STRING;
    if (expands) {
        value = expand(arena, row, value, err);
        if (!value) return NULL;
    }
    if (!fits(row, value)) return refuse(arena, row, value, err);
    if (dl_key_base_type(row) == DL_CONFIG_SCHEDULE && dl_is_rate_phases(value))
        return dl_rate_phases_check(arena, value, err) ? value : NULL;
    if (dl_key_base_type(row) == DL_CONFIG_DATA && value->kind == DL_YAML_MAP)
        return expand_all(arena, row, value, err);
    if (!row->limits.choices || value->kind == DL_YAML_LIST) return value;
    const char *choice = find_choice(arena, row->limits.choices, value->text);
    return choice ? dl_yaml_string(arena, choice, value->place) : refuse(arena, row, value, err);
}

const dl_yaml *dl_key_parse(dl_arena *arena, const dl_key_row *row, const char *text,
                            dl_yaml_place place, dl_error *err) {
    const dl_yaml *v;
    dl_config_type type = dl_key_base_type(row);
    if (!text && (type == DL_CONFIG_BOOL || type == DL_CONFIG_SWITCH || type == DL_CONFIG_ANY))
        text = "true";
    if (!text) {
        dl_yaml_fail(err, place, "a value is missing: %s must be %s", dl_key_full_name(arena, row),
                     dl_key_allowed(arena, row));
        return NULL;
    }
    if (dl_key_is_text(row))
        v = *text && dl_yaml_plain(arena, text, place)->kind == DL_YAML_NULL &&
                    row->type & DL_CONFIG_OR_NULL
                ? dl_yaml_plain(arena, text, place)
                : dl_yaml_string(arena, text, place);
    else if (type == DL_CONFIG_SWITCH && dl_yaml_plain(arena, text, place)->kind != DL_YAML_BOOL)
        v = dl_yaml_string(arena, text, place);
    else if (*text == '[' || *text == '{')
        v = dl_yaml_read_argument(arena, text, place.file ? place.file : text, err);
    else
        v = dl_yaml_plain(arena, text, place);
    return v ? dl_key_check(arena, row, v, err) : NULL;
}

/* The command line: options of the program, keys of the configuration, and words that may belong to
 * the model. */
#include "frontends/yaml/config_private.h"

#include <stdlib.h>

#include "ir/base/foreign.h"

enum { CONFIG, YAML_CONFIG };
const dl_option dl_standard_options[] = {
    [CONFIG] = {"config", 0, "NAME",
                "configuration of the YAML file (base, else default, else the first)"},
    [YAML_CONFIG] = {"yaml_config", 0, "FILE",
                     "the YAML file (config/MODEL.yaml next to the model file)"},
    {0},
};

/* ---- values ---- */

/* Converts "name=SGD,lr=0.1" to "{name: SGD, lr: 0.1}"; commas in brackets are kept. NULL: it is no
 * such list. */
static const char *as_map(dl_arena *arena, const char *text) {
    size_t word = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    if (word == 0 || text[word] != '=') return NULL;
    dl_buf b = {0};
    int depth = 0;
    bool in_value = false;
    dl_puts(&b, "{");
    for (; *text; text++) {
        depth += (*text == '[' || *text == '{') - (*text == ']' || *text == '}');
        if (*text == '=' && !in_value)
            dl_puts(&b, ": "), in_value = true;
        else if (*text == ',' && depth == 0)
            dl_puts(&b, ", "), in_value = false;
        else
            dl_putn(&b, text, 1);
    }
    dl_puts(&b, "}");
    const char *map = dl_strndup(arena, b.at, b.n);
    dl_buf_free(&b);
    return map;
}

/* `--lr_schedule={scaling: none}`, `--optimizer=name=SGD,lr=0.1`: several keys at once; and one key
 * by its name within a map, `--optimizer.eps=1e-6`. DL_UNKNOWN_NAME: the argument is none of
 * these. */
static dl_taken take_group(dl_config *c, dl_argument a, dl_error *err) {
    dl_arena *arena = c->state->arena;
    const char *dot = strchr(a.name, '.'), *map = dl_strndup(arena, a.name, strcspn(a.name, "."));
    if (dot && a.text && dl_is_within(map, dot + 1))
        a = (dl_argument){map, dl_format(arena, "{%s: %s}", dot + 1, a.text), a.whole};
    const dl_setting *s = dl_find_setting(c, a.name);
    if (!s || !a.text || (dl_key_is_text(s->row) && !s->row->limits.choices))
        return DL_UNKNOWN_NAME; /* free text */
    const char *text = *a.text == '{' ? a.text : as_map(arena, a.text);
    if (!text) return DL_UNKNOWN_NAME;
    const dl_yaml *v = dl_yaml_read_argument(arena, text, a.whole, err);
    if (!v) return DL_REFUSED;
    if (v->kind != DL_YAML_MAP || !dl_is_group(c, a.name, v)) return DL_UNKNOWN_NAME;
    int before = c->state->unknown_keys.n;
    if (!dl_config_take_map(c, a.name, v, DL_BY_ARGUMENT, err)) return DL_REFUSED;
    if (c->state->unknown_keys.n == before || !dl_is_section(a.name)) return DL_TAKEN;
    const char *key = c->state->unknown_keys.at[before].entry.key;
    dl_yaml_fail(err, v->place, "no key %s in %s%s", dl_yaml_quote(arena, key), a.name,
                 dl_config_suggest(c, a.name, key, false));
    return DL_REFUSED;
}

static void warn_of_old_name(dl_config *c, const char *name) {
    for (const dl_key_alias *a = dl_key_aliases; a->name; a++)
        if (a->is_old && strcmp(a->name, name) == 0)
            dl_push(c->state->arena, &c->warnings,
                    dl_format(c->state->arena, "--%s is now called --%s", name,
                              dl_key_rows[a->key].name));
}

dl_taken dl_config_take_argument(dl_config *c, dl_argument a, dl_error *err) {
    dl_taken group = take_group(c, a, err);
    if (group != DL_UNKNOWN_NAME) return group;
    dl_setting *s = dl_find_setting(c, a.name);
    if (!s) return DL_UNKNOWN_NAME;
    warn_of_old_name(c, a.name);
    const dl_yaml *v =
        dl_key_parse(c->state->arena, s->row, a.text, (dl_yaml_place){.file = a.whole}, err);
    if (!v) return DL_REFUSED;
    s->value = v;
    s->source = DL_BY_ARGUMENT;
    s->said = a.whole;
    return DL_TAKEN;
}

/* ---- words ---- */

typedef struct {
    int argc, i;
    char *const *argv;
} cursor;

static const dl_option *find_option(const dl_option *options, const char *name) {
    for (; options->name; options++)
        if (strcmp(options->name, name) == 0) return options;
    return NULL;
}

static const dl_option *find_letter(const dl_option *options, char letter) {
    for (; options->name; options++)
        if (options->letter && options->letter == letter) return options;
    return NULL;
}

/* The next argument as a value; NULL when there is none, or when it is an option. */
static const char *take_value(cursor *at) {
    if (at->i + 1 >= at->argc || strncmp(at->argv[at->i + 1], "--", 2) == 0) return NULL;
    return at->argv[++at->i];
}

static bool give(dl_config *c, const dl_option *option, const char *as, const char *text,
                 dl_error *err) {
    if (option->value && !text)
        return dl_fail(err, DL_USAGE, "%s needs a value: %s %s", as, as, option->value);
    if (option->value && !*text && *option->value != '[')
        return dl_fail(err, DL_USAGE, "%s needs a value that is not empty: %s %s", as, as,
                       option->value);
    if (!option->value && text)
        return dl_fail(err, DL_USAGE, "%s takes no value, but was given '%.200s'", as, text);
    dl_push(c->state->arena, &c->state->given,
            (dl_given_option){.option = option, .text = text ? text : ""});
    return true;
}

static bool take_option(dl_config *c, const dl_option *option, cursor *at, const char *as,
                        const char *text, dl_error *err) {
    int first = at->i;
    bool in_word = option->value && option->value[0] == '[' && option->value[1] == '=';
    if (option->value && !text) text = in_word ? "" : take_value(at);
    if (!give(c, option, as, text, err)) return false;
    dl_given_option *given = &c->state->given.at[c->state->given.n - 1];
    given->first = first, given->last = at->i;
    if (option == &dl_standard_options[CONFIG]) c->name = text, c->state->is_named = true;
    if (option == &dl_standard_options[YAML_CONFIG]) c->state->yaml_config = text;
    return true;
}

static bool takes_value(const dl_config *c, const char *name) {
    const dl_setting *s = dl_find_setting(c, name);
    if (!s) return true;
    dl_config_type t = dl_key_base_type(s->row);
    return t != DL_CONFIG_BOOL && t != DL_CONFIG_SWITCH;
}

/* A boolean takes the next argument only if that can be nothing else. */
static bool next_is_boolean(const dl_config *c, const cursor *at) {
    if (at->i + 1 >= at->argc) return false;
    return dl_yaml_plain(c->state->arena, at->argv[at->i + 1], (dl_yaml_place){0})->kind ==
           DL_YAML_BOOL;
}

static bool take_long(dl_config *c, cursor *at, dl_error *err) {
    dl_arena *arena = c->state->arena;
    const char *arg = at->argv[at->i], *equals = strchr(arg, '='),
               *text = equals ? equals + 1 : NULL;
    size_t n = equals ? (size_t)(equals - arg) : strlen(arg);
    const char *name = dl_strndup(arena, arg + 2, n - 2);
    const dl_option *option = find_option(c->state->options, name);
    if (!option && !c->state->only_options) option = find_option(dl_standard_options, name);
    if (option) return take_option(c, option, at, dl_format(arena, "--%s", name), text, err);
    if (!text && (takes_value(c, name) || next_is_boolean(c, at))) text = take_value(at);
    const char *whole = equals || !text ? arg : dl_format(arena, "%.100s %.100s", arg, text);
    dl_argument argument = {name, text, dl_format(arena, "%.200s", whole)};
    dl_taken taken = dl_config_take_argument(c, argument, err);
    if (taken == DL_UNKNOWN_NAME) dl_push(arena, &c->state->unknown_arguments, argument);
    return taken != DL_REFUSED;
}

static bool take_letter(dl_config *c, cursor *at, dl_error *err) {
    const char *arg = at->argv[at->i];
    const dl_option *option = find_letter(c->state->options, arg[1]);
    if (!option) return dl_fail(err, DL_USAGE, "unknown option '%.100s' (--help lists them)", arg);
    const char *text = arg[2] ? arg + 2 + (arg[2] == '=') : NULL;
    return take_option(c, option, at, dl_format(c->state->arena, "-%c", arg[1]), text, err);
}

static void set_defaults(dl_config *c) {
    dl_error err = {0};
    for (int k = 0; k < DL_N_KEYS; k++) {
        const dl_key_row *row = &dl_key_rows[k];
        const dl_yaml *v =
            dl_key_parse(c->state->arena, row, row->fallback, (dl_yaml_place){0}, &err);
        DL_CHECK(v); /* config.def's own defaults are within its limits */
        dl_push(c->state->arena, &c->state->settings,
                (dl_setting){.row = row, .value = v, .source = DL_BY_DEFAULT});
    }
}

/* An empty configuration, and what the words say. */
static dl_config *parse(dl_config *c, int argc, char *const *argv, dl_error *err) {
    bool only_positional = false;
    c->state->argc = argc, c->state->argv = argv;
    for (cursor at = {argc, 1, argv}; at.i < argc; at.i++) {
        const char *arg = argv[at.i];
        bool ok = true;
        if (only_positional || arg[0] != '-' || arg[1] == 0)
            dl_push(c->state->arena, &c->positional, arg);
        else if (strcmp(arg, "--") == 0)
            only_positional = true;
        else
            ok = arg[1] == '-' ? take_long(c, &at, err) : take_letter(c, &at, err);
        if (!ok) return NULL;
    }
    return c;
}

static dl_config *new_config(dl_arena *arena, const dl_option *options) {
    static const dl_option none[] = {{0}};
    dl_config *c = DL_NEW(arena, dl_config);
    c->name = "base";
    c->state = DL_NEW(arena, struct dl_config_state);
    c->state->arena = arena;
    c->state->options = options ? options : none;
    return c;
}

dl_config *dl_config_open(dl_arena *arena, int argc, char *const *argv, const dl_option *options,
                          dl_error *err) {
    dl_config *c = new_config(arena, options);
    set_defaults(c);
    return parse(c, argc, argv, err);
}

/* ---- options alone ---- */

static bool fail_unknown(const dl_config *c, const char *name, dl_error *err) {
    enum { MOST = 64 };
    const char *names[MOST];
    int n = 0;
    while (n < MOST && c->state->options[n].name) names[n] = c->state->options[n].name, n++;
    const char *near = dl_nearest(name, names, n);
    return dl_fail(err, DL_USAGE,
                   near ? "unknown option '--%.60s'; did you mean --%s?"
                        : "unknown option '--%.60s'; --help lists them",
                   name, near);
}

dl_config *dl_options_open(dl_arena *arena, int argc, char *const *argv, const dl_option *options,
                           int most_files, dl_error *err) {
    dl_config *c = new_config(arena, options);
    c->state->only_options = true;
    if (!parse(c, argc, argv, err)) return NULL;
    if (c->state->unknown_arguments.n)
        return fail_unknown(c, c->state->unknown_arguments.at[0].name, err), NULL;
    if (c->positional.n > most_files)
        return dl_fail(err, DL_USAGE, "one argument too many: '%.200s'",
                       c->positional.at[most_files]),
               NULL;
    return c;
}

bool dl_option_int(const dl_config *c, const char *name, int64_t least, int64_t most,
                   int64_t *value, dl_error *err) {
    const char *text = dl_config_option(c, name);
    int64_t n;
    if (!text) return true;
    if (!dl_parse_int(text, &n) || n < least || n > most)
        return dl_fail(err, DL_USAGE, "--%s needs a whole number from %lld to %lld, not '%.100s'",
                       name, (long long)least, (long long)most, text);
    *value = n;
    return true;
}

bool dl_option_real(const dl_config *c, const char *name, double least, double most, double *value,
                    dl_error *err) {
    const char *text = dl_config_option(c, name);
    double x;
    if (!text) return true;
    if (!dl_parse_real(text, &x) || !(x >= least && x <= most))
        return dl_fail(err, DL_USAGE, "--%s needs a number from %.12g to %.12g, not '%.100s'", name,
                       least, most, text);
    *value = x;
    return true;
}

const char *dl_config_option(const dl_config *c, const char *name) {
    for (int i = c->state->given.n - 1; i >= 0; i--)
        if (strcmp(c->state->given.at[i].option->name, name) == 0)
            return c->state->given.at[i].text;
    return NULL;
}

/* Whether a word belongs to an option of the program that is not one of `keep`. */
static bool is_left_out(const dl_config *c, int word, const char *const *keep) {
    for (int i = 0; i < c->state->given.n; i++) {
        dl_given_option given = c->state->given.at[i];
        if (word < given.first || word > given.last) continue;
        if (given.option == find_option(dl_standard_options, given.option->name)) return false;
        while (*keep && strcmp(*keep, given.option->name) != 0) keep++;
        return !*keep;
    }
    return false;
}

void dl_config_put_words(const dl_config *c, const char *const *keep, dl_buf *b) {
    for (int i = 1; i < c->state->argc; i++)
        if (!is_left_out(c, i, keep)) dl_puts(b, " "), dl_put_shell_word(b, c->state->argv[i]);
}

bool dl_config_set(dl_config *c, dl_key key, const char *text, dl_error *err) {
    dl_setting *s = &c->state->settings.at[key];
    const char *as = dl_format(c->state->arena, "--%s=%.150s", s->row->name, text);
    const dl_yaml *v =
        dl_key_parse(c->state->arena, s->row, text, (dl_yaml_place){.file = as}, err);
    if (!v) return false;
    s->value = v;
    s->source = DL_BY_ARGUMENT;
    return true;
}

bool dl_config_set_default(dl_config *c, dl_key key, const char *text, dl_error *err) {
    dl_setting *s = &c->state->settings.at[key];
    dl_config_source source = s->source;
    bool ok = dl_config_set(c, key, text, err);
    s->source = source;
    return ok;
}

/* The configuration as text: for the log, as YAML, for --help and the documentation. */
#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <strings.h>

#include "frontends/yaml/config_private.h"

/* The rows of config.def with their headings: an item is a heading, or (title NULL) a key. */
static const struct {
    const char *title;
    dl_key key;
} page[] = {
#define GROUP(title)   {title, 0},
#define KEY(name, ...) {NULL, DL_KEY_##name},
#include "frontends/yaml/config.def"
};
enum { N_PAGE = sizeof page / sizeof *page };

/* Whether setting i is the first, or the last, of its section. (The keys of a section are adjacent
 * in config.def.) */
static bool starts_section(const dl_config *c, int i) {
    const dl_setting *s = c->state->settings.at;
    return *s[i].row->section && (i == 0 || strcmp(s[i - 1].row->section, s[i].row->section) != 0);
}
static bool ends_section(const dl_config *c, int i) {
    const dl_setting *s = c->state->settings.at;
    return *s[i].row->section &&
           (i + 1 == c->state->settings.n || strcmp(s[i + 1].row->section, s[i].row->section) != 0);
}

/* A key with its section's name is `name` within it. */
static const char *name_in_section(const dl_key_row *row) {
    return strcmp(row->name, row->section) == 0 ? "name" : row->name;
}

/* ---- the log ---- */

/* Python quotes strings inside a dictionary, but not alone: the value is printed as one item of a
 * list without its brackets. */
static void put_quoted_python(dl_buf *b, const dl_yaml *v) {
    const dl_yaml *one[] = {v};
    dl_yaml list = {.kind = DL_YAML_LIST, .items = {one, 1, 1}};
    dl_buf text = {0};
    dl_yaml_put_python(&text, &list);
    dl_putn(b, text.at + 1, text.n - 2);
    dl_buf_free(&text);
}

/* Whether a value is the default of its key, whatever set it. */
static bool is_default(const dl_config *c, const dl_setting *s) {
    dl_error none = {0};
    const dl_yaml *fallback = s->fallback;
    if (!fallback && s->row->fallback)
        fallback =
            dl_key_parse(c->state->arena, s->row, s->row->fallback, (dl_yaml_place){0}, &none);
    if (!fallback) return false;
    bool numbers = (s->value->kind == DL_YAML_INT || s->value->kind == DL_YAML_FLOAT) &&
                   (fallback->kind == DL_YAML_INT || fallback->kind == DL_YAML_FLOAT);
    if (numbers) return s->value->number == fallback->number;
    dl_buf a = {0}, b = {0};
    dl_yaml_put(&a, s->value), dl_yaml_put(&b, fallback);
    bool same = a.n == b.n && memcmp(a.at, b.at, a.n) == 0;
    dl_buf_free(&a), dl_buf_free(&b);
    return same;
}

/* Appends "key value", or of a section "section {'key': value, ...}", of those that are not the
 * default. */
static void put_log_settings(dl_buf *b, const dl_config *c, int first, int n) {
    const dl_setting *all = c->state->settings.at;
    const char *section = all[first].row->section;
    bool any = false;
    for (int i = first; i < first + n; i++) {
        const dl_setting *s = &all[i];
        if (!s->value || is_default(c, s)) continue;
        if (!*section) {
            dl_putf(b, "%s ", s->row->name);
            dl_yaml_put_python(b, s->value);
            return;
        }
        dl_puts(b, any ? ", " : dl_format(c->state->arena, "%s {", section));
        dl_putf(b, "'%s': ", name_in_section(s->row));
        put_quoted_python(b, s->value);
        any = true;
    }
    if (any) dl_puts(b, "}");
}

static void log_file(const dl_config *c, void (*line)(void *, const char *), void *to) {
    char *path = c->file ? realpath(c->file, NULL) : NULL;
    line(to, dl_format(c->state->arena, "Configuration file: %s",
                       path      ? path
                       : c->file ? c->file
                                 : "None"));
    free(path);
}

void dl_config_log(const dl_config *c, void (*line)(void *to, const char *text), void *to) {
    dl_buf b = {0};
    line(to, "------------------ Configuration ------------------");
    log_file(c, line, to);
    line(to, dl_format(c->state->arena, "Configuration name: %s", c->name));
    for (int i = 0, n; i < c->state->settings.n; i += n) {
        for (n = 1; *c->state->settings.at[i].row->section && !ends_section(c, i + n - 1);) n++;
        put_log_settings(&b, c, i, n);
        if (!b.n) continue;
        /* a value of several lines is represented by its first */
        size_t first = strcspn(b.at, "\n\r");
        if (first < b.n) b.n = first, dl_puts(&b, "...");
        line(to, b.at);
        b.n = 0;
    }
    line(to, "---------------------------------------------------");
    dl_buf_free(&b);
}

/* ---- YAML ---- */

/* A copy in which every '$' is escaped. */
static const dl_yaml *plain_dollars(dl_arena *arena, const dl_yaml *v) {
    dl_yaml *copy = DL_NEW(arena, dl_yaml);
    *copy = *v;
    if (v->kind == DL_YAML_STRING) {
        dl_buf text = {0};
        dl_puts(&text, "");
        for (const char *p = v->text; *p; p++) dl_puts(&text, *p == '$' ? "$$" : (char[]){*p, 0});
        copy->text = dl_strndup(arena, text.at, text.n);
        dl_buf_free(&text);
    }
    copy->items.at = DL_NEWS(arena, const dl_yaml *, v->items.n);
    for (int i = 0; i < v->items.n; i++) copy->items.at[i] = plain_dollars(arena, v->items.at[i]);
    copy->entries.at = DL_NEWS(arena, dl_yaml_entry, v->entries.n);
    for (int i = 0; i < v->entries.n; i++) {
        copy->entries.at[i] = v->entries.at[i];
        copy->entries.at[i].value = plain_dollars(arena, v->entries.at[i].value);
    }
    return copy;
}

static void put_yaml_value(dl_buf *b, const dl_config *c, const dl_setting *s) {
    bool expanded = dl_key_is_text(s->row) || dl_key_base_type(s->row) == DL_CONFIG_SWITCH ||
                    s->value->kind == DL_YAML_MAP;
    dl_yaml_put(b, expanded ? plain_dollars(c->state->arena, s->value) : s->value);
}

void dl_config_put_yaml(const dl_config *c, dl_buf *b) {
    dl_yaml name = {.kind = DL_YAML_STRING, .text = c->name};
    dl_yaml_put(b, &name);
    dl_puts(b, ":\n");
    for (int i = 0; i < c->state->settings.n; i++) {
        const dl_setting *s = &c->state->settings.at[i];
        if (!s->value) continue;
        if (starts_section(c, i)) dl_putf(b, "  %s:\n", s->row->section);
        dl_putf(b, "%s%s: ", *s->row->section ? "    " : "  ", name_in_section(s->row));
        put_yaml_value(b, c, s);
        dl_puts(b, "\n");
    }
}

/* The preset is always named, since fewer keys may have no mark of it; and so is the run's
 * directory, which a preset sets only where it is named. Names of models have set arguments as a
 * preset does.
 */
static bool is_given(const dl_setting *s, int i) {
    return s->value && (s->source >= DL_BY_FILE || i == DL_KEY_preset || i == DL_KEY_run_dir ||
                        (i >= DL_N_KEYS && s->source == DL_BY_RECIPE));
}

void dl_config_put_given(const dl_config *c, dl_buf *b) {
    const char *section = "";
    dl_yaml name = {.kind = DL_YAML_STRING, .text = c->name};
    dl_yaml_put(b, &name);
    dl_puts(b, ":\n");
    for (int i = 0; i < c->state->settings.n; i++) {
        const dl_setting *s = &c->state->settings.at[i];
        if (!is_given(s, i)) continue;
        bool inside = *s->row->section;
        if (inside && strcmp(s->row->section, section) != 0) dl_putf(b, "  %s:\n", s->row->section);
        section = s->row->section;
        dl_putf(b, "%s%s: ", inside ? "    " : "  ", name_in_section(s->row));
        put_yaml_value(b, c, s);
        dl_puts(b, "\n");
    }
}

/* ---- help and documentation ---- */

enum { HELP_WIDTH = 110 };

/* Text that begins at `column` of a line, broken at blanks; later lines begin there, too. */
static void put_wrapped(dl_buf *b, size_t column, const char *text) {
    for (size_t at = column; *text;) {
        size_t word = strcspn(text, " ");
        if (at > column && at + 1 + word > HELP_WIDTH)
            dl_putf(b, "\n%*s", (int)(at = column), "");
        else if (at > column)
            dl_puts(b, " "), at++;
        dl_putn(b, text, word);
        at += word, text += word + (text[word] == ' ');
    }
    dl_puts(b, "\n");
}

enum { OPTION_COLUMN = 29, KEY_COLUMN = 62 };

static void put_option(dl_buf *b, const dl_option *o) {
    dl_buf left = {0};
    const char *value = o->value ? o->value : "";
    if (o->letter) dl_putf(&left, "-%c, ", o->letter);
    dl_putf(&left, "--%s%s%s", o->name, o->value && strncmp(value, "[=", 2) ? " " : "", value);
    dl_putf(b, "  %-26s ", left.at);
    put_wrapped(b, left.n > 26 ? left.n + 3 : OPTION_COLUMN, o->help);
    dl_buf_free(&left);
}

void dl_options_put_help(dl_buf *b, const dl_option *options) {
    for (; options && options->name; options++) put_option(b, options);
}

/* "; also lr, optimizer.learning_rate", or nothing. */
static void put_aliases(dl_buf *b, dl_key key, const char *quote) {
    const char *before = "; also ";
    for (const dl_key_alias *a = dl_key_aliases; a->name; a++) {
        if (a->key != key || a->is_old) continue;
        dl_putf(b, "%s%s%s%s", before, quote, a->name, quote);
        before = ", ";
    }
    for (const dl_key_within *w = dl_keys_within; w->name; w++) {
        if (w->key != key) continue;
        dl_putf(b, "%s%s%s.%s", before, quote, w->map, w->name);
        if (w->item >= 0) dl_putf(b, "[%d]", w->item);
        dl_puts(b, quote);
        before = ", ";
    }
}

void dl_config_put_arguments(dl_buf *b, const dl_config *c) {
    dl_arena *arena = dl_arena_new(NULL);
    dl_putf(b, "Keys of the model %s (type, default):\n", dl_config_str(c, DL_KEY_model));
    for (int i = DL_N_KEYS; i < c->state->settings.n; i++) {
        const dl_setting *s = &c->state->settings.at[i];
        dl_buf text = {0};
        if (s->fallback) dl_yaml_put(&text, s->fallback);
        dl_putf(b, "  %-26s %-13s %s\n", s->row->name, dl_key_type_name(arena, s->row),
                s->fallback ? text.at : "to be given");
        dl_buf_free(&text);
    }
    if (c->state->settings.n == DL_N_KEYS) dl_puts(b, "  none\n");
    dl_arena_free(arena);
}

/* A key with its type, default, meaning and the words that it may have. */
static void put_key(dl_buf *b, dl_arena *arena, dl_key key) {
    const dl_key_row *row = &dl_key_rows[key];
    dl_buf left = {0}, text = {0};
    dl_putf(&left, "  %-26s %-11s %-20s", dl_key_full_name(arena, row),
            dl_key_type_name(arena, row), row->fallback);
    dl_puts(b, left.at);
    dl_puts(b, left.n < KEY_COLUMN ? " " : "  ");
    dl_puts(&text, row->help);
    put_aliases(&text, key, "");
    if (row->limits.choices) dl_putf(&text, "; %s", dl_key_allowed(arena, row));
    /* A long row's meaning begins a line of its own. */
    if (left.n >= KEY_COLUMN) dl_putf(b, "\n%*s", KEY_COLUMN, "");
    put_wrapped(b, KEY_COLUMN, text.at);
    dl_buf_free(&left), dl_buf_free(&text);
}

/* The keys of a group, or (NULL) of all groups under their titles. */
static void put_keys(dl_buf *b, const char *title) {
    dl_arena *arena = dl_arena_new(NULL);
    bool within = !title;
    for (int i = 0; i < N_PAGE; i++) {
        if (page[i].title) {
            within = !title || !strcasecmp(title, page[i].title);
            if (within) dl_putf(b, "\n%s\n", page[i].title);
        } else if (within)
            put_key(b, arena, page[i].key);
    }
    dl_arena_free(arena);
}

/* The titles in lower case. */
static int find_titles(dl_arena *arena, const char *titles[N_PAGE]) {
    int n = 0;
    for (int i = 0; i < N_PAGE; i++) {
        if (!page[i].title) continue;
        char *title = dl_strdup(arena, page[i].title);
        for (char *p = title; *p; p++) *p = (char)tolower((unsigned char)*p);
        titles[n++] = title;
    }
    return n;
}

static void put_levels(dl_buf *b, int n, const char *const *titles) {
    dl_buf text = {0};
    dl_puts(&text, "Keys of a configuration are options, too. --help=GROUP lists those of");
    for (int i = 0; i < n; i++)
        dl_putf(&text, "%s %s", !i ? "" : i + 1 < n ? "," : " or", titles[i]);
    dl_puts(&text, "; --help=all lists all, with examples and the environment.");
    dl_puts(b, "\n");
    put_wrapped(b, 0, text.at);
    dl_buf_free(&text);
}

bool dl_config_put_help(dl_buf *b, const dl_option *options, const dl_config *c, const char *which,
                        dl_error *err) {
    const char *titles[N_PAGE];
    int n = find_titles(c->state->arena, titles);
    bool all = !strcmp(which, "all"), is_group = false;
    for (int i = 0; i < n; i++) is_group |= !strcasecmp(which, titles[i]);
    if (*which && !all && !is_group) {
        titles[n] = "all";
        const char *near = dl_nearest(which, titles, n + 1);
        return dl_fail(err, DL_USAGE, "--help=%s: no such group of keys%s%s%s; --help names them",
                       which, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    if (is_group) {
        put_keys(b, which);
        return true;
    }
    dl_puts(b, "Options:\n");
    dl_options_put_help(b, options);
    dl_options_put_help(b, dl_standard_options);
    if (c->state->settings.n > DL_N_KEYS) dl_puts(b, "\n"), dl_config_put_arguments(b, c);
    if (all) {
        dl_puts(b, "\nKeys of every configuration, in the YAML file or as --key=value (type, "
                   "default); --help\nwith a model lists its own, too:\n");
        put_keys(b, NULL);
    } else
        put_levels(b, n, titles);
    return true;
}

void dl_config_put_docs(dl_buf *b) {
    dl_arena *arena = dl_arena_new(NULL);
    for (int i = 0; i < N_PAGE; i++) {
        const dl_key_row *row = &dl_key_rows[page[i].key];
        if (page[i].title) {
            dl_putf(b, "%s### %s\n\n| key | value | default | meaning |\n|---|---|---|---|\n",
                    i ? "\n" : "", page[i].title);
            continue;
        }
        dl_putf(b, "| `%s` | %s | `%s` | %s", dl_key_full_name(arena, row),
                dl_key_allowed(arena, row), row->fallback, row->help);
        put_aliases(b, page[i].key, "`");
        dl_puts(b, " |\n");
    }
    dl_arena_free(arena);
}

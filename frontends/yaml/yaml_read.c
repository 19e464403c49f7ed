/* Builds the tree from libyaml's events: anchors, merges, duplicate keys, limits. */
#include <stdarg.h>
#include <stdio.h>
#include <yaml.h>

#include "frontends/yaml/yaml_tree.h"
#include "ir/base/input.h"

typedef struct {
    const char *name;
    dl_yaml *value; /* its size is 0 until it is complete */
} anchor;

typedef struct {
    dl_arena *arena;
    dl_error *err;
    yaml_parser_t parser;
    yaml_event_t event; /* the current event */
    const char *name, *text, *end;
    bool is_argument;
    int values; /* number of values so far, aliases and merges expanded */
    DL_ARRAY(anchor) anchors;
} reader;

static const char *const TAGS = "tag:yaml.org,2002:";

bool dl_yaml_fail(dl_error *err, dl_yaml_place place, const char *format, ...) {
    char message[sizeof err->message];
    va_list ap;
    va_start(ap, format);
    vsnprintf(message, sizeof message, format, ap);
    va_end(ap);
    if (!place.file) return dl_fail(err, DL_INPUT, "%s", message);
    if (place.line == 0) { /* an argument of the command line, whose map may be long */
        enum { SHOWN = 100 };
        bool cut = strlen(place.file) > SHOWN;
        return dl_fail(err, DL_USAGE, "%.*s%s: %s", SHOWN, place.file, cut ? "..." : "", message);
    }
    return dl_fail(err, DL_INPUT, "%s:%d:%d: error: %s", place.file, place.line, place.column,
                   message);
}

static dl_yaml_place place_of(const reader *r, yaml_mark_t mark) {
    if (r->is_argument) return (dl_yaml_place){.file = r->name};
    return (dl_yaml_place){r->name, (int)mark.line + 1, (int)mark.column + 1};
}

/* libyaml reports only the offset of bytes that it could not decode. */
static yaml_mark_t mark_of_offset(const reader *r, size_t offset) {
    yaml_mark_t mark = {.index = offset};
    for (size_t i = 0; i < offset; i++) {
        mark.column++;
        if (r->text[i] == '\n') mark.line++, mark.column = 0;
    }
    return mark;
}

/* Whether there is a tab in the line's indentation. */
static bool is_indented_by_tab(const reader *r, size_t line) {
    const char *at = r->text;
    for (; line > 0 && at; line--) at = memchr(at, '\n', (size_t)(r->end - at)), at += at != NULL;
    while (at && at < r->end && *at == ' ') at++;
    return at && at < r->end && *at == '\t';
}

/* A remedy that libyaml's words lack. */
static const char *remedy_of(const reader *r) {
    const char *problem = r->parser.problem ? r->parser.problem : "";
    if (strstr(problem, "cannot start any token"))
        return is_indented_by_tab(r, r->parser.problem_mark.line)
                   ? ": indent with blanks, tabs are not YAML"
                   : ": put what has such a character in front in quotes";
    if (strstr(problem, "mapping values are not allowed"))
        return ": indent the line as its neighbours, or put a value that has ': ' in it in quotes";
    if (strstr(problem, "did not find expected key"))
        return ": indent the lines of a map alike, and put a value that has quotes in it in quotes "
               "of the "
               "other kind";
    return "";
}

static bool fail_syntax(reader *r) {
    const yaml_parser_t *p = &r->parser;
    const char *problem = p->problem ? p->problem : "not readable as YAML";
    if (p->error == YAML_MEMORY_ERROR)
        return dl_fail(r->err, DL_RESOURCE, "%s: out of memory", r->name);
    if (p->error == YAML_READER_ERROR) {
        dl_yaml_place at = place_of(r, mark_of_offset(r, p->problem_offset));
        if (p->problem_value < 0) return dl_yaml_fail(r->err, at, "%s", problem);
        return dl_yaml_fail(r->err, at, "%s (0x%02X)", problem, (unsigned)p->problem_value);
    }
    /* An unclosed construct is reported where it opens; libyaml notices it at the end of the
     * file. */
    if (p->context && (strstr(p->context, "flow") || strstr(p->context, "quoted scalar")))
        return dl_yaml_fail(r->err, place_of(r, p->context_mark),
                            "%s that begins here: %s (line %d)", p->context, problem,
                            (int)p->problem_mark.line + 1);
    dl_yaml_place at = place_of(r, p->problem_mark);
    const char *remedy = remedy_of(r);
    if (!p->context || *remedy) return dl_yaml_fail(r->err, at, "%s%s", problem, remedy);
    return dl_yaml_fail(r->err, at, "%s (%s, line %d)", problem, p->context,
                        (int)p->context_mark.line + 1);
}

static bool next(reader *r) {
    yaml_event_delete(&r->event);
    return yaml_parser_parse(&r->parser, &r->event) || fail_syntax(r);
}

static bool spend(reader *r, int values, dl_yaml_place place) {
    r->values += values;
    if (r->values <= DL_YAML_MAX_VALUES) return true;
    return dl_yaml_fail(r->err, place, "more than %d values once aliases and merges are expanded",
                        DL_YAML_MAX_VALUES);
}

static void set_anchor(reader *r, const yaml_char_t *name, dl_yaml *value) {
    if (!name) return;
    dl_push(r->arena, &r->anchors, (anchor){dl_intern((const char *)name), value});
}

static dl_yaml *find_alias(reader *r, int depth) {
    dl_yaml_place place = place_of(r, r->event.start_mark);
    const char *name = dl_intern((const char *)r->event.data.alias.anchor);
    for (int i = r->anchors.n - 1; i >= 0; i--) {
        if (r->anchors.at[i].name != name) continue;
        dl_yaml *v = r->anchors.at[i].value;
        if (v->size == 0) {
            dl_yaml_fail(r->err, place, "'*%.80s' stands inside the value that it names", name);
            return NULL;
        }
        if (depth + v->height > DL_YAML_MAX_DEPTH) {
            dl_yaml_fail(r->err, place, "nested more than %d deep", DL_YAML_MAX_DEPTH);
            return NULL;
        }
        return spend(r, v->size, place) ? v : NULL;
    }
    dl_yaml_fail(r->err, place, "no anchor '&%.80s' stands before this alias", name);
    return NULL;
}

/* The name of a tag of the core schema ("int"), "" for none; NULL, with an error, for any other. */
static const char *core_tag(reader *r, const yaml_char_t *tag, dl_yaml_place place) {
    const char *s = (const char *)tag;
    if (!s) return "";
    if (strcmp(s, "!") == 0) return "str";
    if (strncmp(s, TAGS, strlen(TAGS)) == 0) return s + strlen(TAGS);
    dl_yaml_fail(r->err, place, "unknown tag %s", dl_yaml_quote(r->arena, s));
    return NULL;
}

static bool has_nul(const reader *r) {
    return memchr(r->event.data.scalar.value, 0, r->event.data.scalar.length) != NULL;
}

static dl_yaml *read_scalar(reader *r) {
    dl_yaml_place place = place_of(r, r->event.start_mark);
    const char *tag = core_tag(r, r->event.data.scalar.tag, place);
    if (!tag) return NULL;
    if (has_nul(r)) {
        dl_yaml_fail(r->err, place, "a NUL character inside a string");
        return NULL;
    }
    const char *text =
        dl_strndup(r->arena, (const char *)r->event.data.scalar.value, r->event.data.scalar.length);
    dl_yaml *v;
    if (*tag) {
        v = dl_yaml_tagged(r->arena, text, tag, place);
        if (!v) dl_yaml_fail(r->err, place, "%s is no !!%.40s", dl_yaml_quote(r->arena, text), tag);
    } else {
        bool plain = r->event.data.scalar.plain_implicit;
        v = plain ? dl_yaml_plain(r->arena, text, place) : dl_yaml_string(r->arena, text, place);
    }
    if (v) set_anchor(r, r->event.data.scalar.anchor, v);
    return v;
}

static dl_yaml *open_collection(reader *r, dl_yaml_kind kind, const yaml_char_t *tag,
                                const yaml_char_t *name) {
    dl_yaml_place place = place_of(r, r->event.start_mark);
    const char *type = core_tag(r, tag, place), *want = kind == DL_YAML_LIST ? "seq" : "map";
    if (!type) return NULL;
    if (*type && strcmp(type, want) != 0) {
        dl_yaml_fail(r->err, place, "a %s is no !!%.40s", kind == DL_YAML_LIST ? "list" : "map",
                     type);
        return NULL;
    }
    dl_yaml *v = DL_NEW(r->arena, dl_yaml);
    v->kind = kind, v->place = place, v->text = "", v->height = 1;
    set_anchor(r, name, v);
    return v;
}

static dl_yaml *read_value(reader *r, int depth);

static void enclose(dl_yaml *outer, const dl_yaml *inner, int *size) {
    *size += inner->size;
    if (inner->height + 1 > outer->height) outer->height = inner->height + 1;
}

static dl_yaml *read_list(reader *r, int depth) {
    dl_yaml *list = open_collection(r, DL_YAML_LIST, r->event.data.sequence_start.tag,
                                    r->event.data.sequence_start.anchor);
    if (!list) return NULL;
    int size = 1;
    while (next(r)) {
        if (r->event.type == YAML_SEQUENCE_END_EVENT) {
            list->size = size;
            return list;
        }
        dl_yaml *item = read_value(r, depth + 1);
        if (!item) return NULL;
        dl_push(r->arena, &list->items, item);
        enclose(list, item, &size);
    }
    return NULL;
}

static const dl_yaml_entry *find_entry(const dl_yaml *map, const char *key) {
    for (int i = 0; i < map->entries.n; i++)
        if (map->entries.at[i].key == key) return &map->entries.at[i];
    return NULL;
}

const dl_yaml *dl_yaml_get(const dl_yaml *map, const char *key) {
    const dl_yaml_entry *e = find_entry(map, dl_intern(key));
    return e ? e->value : NULL;
}

static bool merge_map(reader *r, dl_yaml *map, const dl_yaml *from, dl_yaml_place place,
                      int *size) {
    if (from->kind != DL_YAML_MAP)
        return dl_yaml_fail(r->err, place, "'<<' merges a map or a list of maps, not %s",
                            dl_yaml_show(r->arena, from));
    if (!spend(r, from->size, place)) return false;
    for (int i = 0; i < from->entries.n; i++) {
        dl_yaml_entry e = from->entries.at[i];
        if (find_entry(map, e.key)) continue;
        dl_push(r->arena, &map->entries, e);
        *size += 1;
        enclose(map, e.value, size);
    }
    return true;
}

static bool merge(reader *r, dl_yaml *map, const dl_yaml *from, dl_yaml_place place, int *size) {
    if (from->kind != DL_YAML_LIST) return merge_map(r, map, from, place, size);
    for (int i = 0; i < from->items.n; i++)
        if (!merge_map(r, map, from->items.at[i], place, size)) return false;
    return true;
}

/* Reads the event as a key; false with an error when it cannot be one. */
static bool read_key(reader *r, dl_yaml_entry *e, bool *is_merge) {
    e->place = place_of(r, r->event.start_mark);
    if (r->event.type != YAML_SCALAR_EVENT)
        return dl_yaml_fail(r->err, e->place, "a key must be a name");
    if (r->event.data.scalar.length == 0)
        return dl_yaml_fail(r->err, e->place, "a key is missing before ':'");
    if (has_nul(r)) return dl_yaml_fail(r->err, e->place, "a NUL character inside a key");
    const char *text = (const char *)r->event.data.scalar.value;
    *is_merge = strcmp(text, "<<") == 0 && r->event.data.scalar.plain_implicit;
    e->key = dl_intern(text);
    return spend(r, 1, e->place);
}

static dl_yaml *read_map(reader *r, int depth) {
    dl_yaml *map = open_collection(r, DL_YAML_MAP, r->event.data.mapping_start.tag,
                                   r->event.data.mapping_start.anchor);
    if (!map) return NULL;
    dl_yaml_entry merged = {0}; /* the value of `<<`, which is merged after the map's own keys */
    int size = 1;
    while (next(r)) {
        if (r->event.type == YAML_MAPPING_END_EVENT) {
            if (merged.value && !merge(r, map, merged.value, merged.place, &size)) return NULL;
            map->size = size;
            return map;
        }
        dl_yaml_entry e;
        bool is_merge = false;
        if (!read_key(r, &e, &is_merge)) return NULL;
        const dl_yaml_entry *twin =
            is_merge ? (merged.value ? &merged : NULL) : find_entry(map, e.key);
        if (twin) {
            dl_yaml_fail(r->err, e.place, "duplicate key %s (first on line %d)%s",
                         dl_yaml_quote(r->arena, e.key), twin->place.line,
                         is_merge ? "; merge several maps as '<<: [*a, *b]'" : "");
            return NULL;
        }
        if (!next(r) || !(e.value = read_value(r, depth + 1))) return NULL;
        if (is_merge) {
            merged = e;
            continue;
        }
        dl_push(r->arena, &map->entries, e);
        size++;
        enclose(map, e.value, &size);
    }
    return NULL;
}

/* Reads the value that starts with the current event; `depth` counts from 1. */
static dl_yaml *read_value(reader *r, int depth) {
    dl_yaml_place place = place_of(r, r->event.start_mark);
    if (depth > DL_YAML_MAX_DEPTH) {
        dl_yaml_fail(r->err, place, "nested more than %d deep", DL_YAML_MAX_DEPTH);
        return NULL;
    }
    if (r->event.type == YAML_ALIAS_EVENT) return find_alias(r, depth - 1);
    if (!spend(r, 1, place)) return NULL;
    if (r->event.type == YAML_SCALAR_EVENT) return read_scalar(r);
    return r->event.type == YAML_SEQUENCE_START_EVENT ? read_list(r, depth) : read_map(r, depth);
}

static const dl_yaml *read_stream(reader *r) {
    if (!next(r) || !next(r)) return NULL; /* the stream's start, then a document or the end */
    if (r->event.type == YAML_STREAM_END_EVENT)
        return dl_yaml_plain(r->arena, "",
                             (dl_yaml_place){r->name, !r->is_argument, !r->is_argument});
    if (!next(r)) return NULL;
    const dl_yaml *v = read_value(r, 1);
    if (!v || !next(r) || !next(r)) return NULL; /* the document's end, then the stream's */
    if (r->event.type == YAML_STREAM_END_EVENT) return v;
    dl_yaml_fail(r->err, place_of(r, r->event.start_mark),
                 "a second document: a configuration file has one");
    return NULL;
}

static const dl_yaml *read_text(reader *r, size_t n) {
    if (!yaml_parser_initialize(&r->parser)) {
        dl_fail(r->err, DL_RESOURCE, "%s: out of memory", r->name);
        return NULL;
    }
    r->end = r->text + n;
    yaml_parser_set_input_string(&r->parser, (const unsigned char *)r->text, n);
    const dl_yaml *v = read_stream(r);
    yaml_event_delete(&r->event);
    yaml_parser_delete(&r->parser);
    return v;
}

const dl_yaml *dl_yaml_read(dl_arena *arena, const char *text, size_t n, const char *name,
                            dl_error *err) {
    reader r = {.arena = arena, .err = err, .name = dl_strdup(arena, name), .text = text};
    if (n > DL_YAML_MAX_BYTES) {
        dl_fail(err, DL_INPUT, "%s is larger than the %d MiB a configuration may have", name,
                DL_YAML_MAX_BYTES >> 20);
        return NULL;
    }
    return read_text(&r, n);
}

const dl_yaml *dl_yaml_read_file(dl_arena *arena, const char *path, dl_error *err) {
    size_t n = 0;
    const char *text = dl_read_input(arena, path, DL_YAML_MAX_BYTES, &n, err);
    return text ? dl_yaml_read(arena, text, n, path, err) : NULL;
}

const dl_yaml *dl_yaml_read_argument(dl_arena *arena, const char *text, const char *argument,
                                     dl_error *err) {
    reader r = {.arena = arena,
                .err = err,
                .name = dl_strdup(arena, argument),
                .text = text,
                .is_argument = true};
    return read_text(&r, strlen(text));
}

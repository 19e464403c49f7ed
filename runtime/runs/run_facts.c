#include "runtime/runs/run_facts.h"

#include <math.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "frontends/yaml/config.h"
#include "ir/base/input.h"
#include "runtime/formats/metrics.h"

enum { MOST_LOG = 256 << 20, MOST_ABOUT = 40, TIME_LENGTH = 19 /* 2001-01-31 10:20:30 */ };

/* ---- curves ---- */

typedef struct {
    dl_arena *arena;
    dl_run_facts *r;
} reader;
typedef DL_ARRAY(const char *) names;

static dl_run_curve *find_curve(const dl_run_facts *r, const char *tag) {
    for (int i = 0; i < r->curves.n; i++)
        if (!strcmp(r->curves.at[i].tag, tag)) return &r->curves.at[i];
    return NULL;
}

static dl_run_curve *curve_of(reader *in, const char *tag) {
    dl_run_curve *c = find_curve(in->r, tag);
    if (c) return c;
    dl_push(in->arena, &in->r->curves, (dl_run_curve){.tag = dl_intern(tag)});
    return &in->r->curves.at[in->r->curves.n - 1];
}

static void take_point(void *ctx, const dlr_json *point) {
    reader *in = ctx;
    double step = 0, epoch = 0, value;
    dlr_json_number(dlr_json_get(point, "iteration"), &step);
    dlr_json_number(dlr_json_get(point, "epoch"), &epoch);
    in->r->epochs = (int64_t)epoch, in->r->steps = (int64_t)step;
    for (int i = 0; i < point->n; i++) {
        const char *tag = point->members[i].key;
        if (!strcmp(tag, "iteration") || !strcmp(tag, "epoch")) continue;
        if (!dlr_json_number(&point->members[i].value, &value)) value = NAN;
        dl_run_curve *c = curve_of(in, tag);
        dl_push(in->arena, &c->steps, step);
        dl_push(in->arena, &c->values, value);
    }
}

/* ---- settings ---- */

static void take_settings(reader *in, const char *section, const dl_yaml *map) {
    for (int i = 0; i < map->entries.n; i++) {
        const dl_yaml_entry *e = &map->entries.at[i];
        const char *key = *section ? dl_internf("%s.%s", section, e->key) : dl_intern(e->key);
        if (e->value->kind == DL_YAML_MAP && !*section) {
            take_settings(in, e->key, e->value);
            continue;
        }
        dl_buf b = {0};
        dl_yaml_put_python(&b, e->value);
        dl_push(in->arena, &in->r->settings,
                (dl_run_setting){key, dl_strdup(in->arena, b.at ? b.at : "")});
        dl_buf_free(&b);
    }
}

static bool read_settings(reader *in, const char *path, dl_error *err) {
    if (access(path, F_OK)) return true;
    const dl_yaml *file = dl_yaml_read_file(in->arena, path, err);
    if (!file) return false;
    for (int i = 0; i < file->entries.n; i++)
        if (file->entries.at[i].value->kind == DL_YAML_MAP)
            take_settings(in, "", file->entries.at[i].value);
    return true;
}

/* ---- the log ---- */

/* A line's text after "DATE - NAME - LEVEL - ", or the whole line. */
static const char *text_of(const char *line) {
    const char *p = line;
    for (int i = 0; i < 3; i++) {
        const char *next = strstr(p, " - ");
        if (!next) return line;
        p = next + 3;
    }
    return p;
}

/* A log up to some line: the run whose lines come last. */
typedef struct {
    const char *begun, *ended;
    bool done;
    names about;
} log_facts;

static const char *time_of(dl_arena *arena, const char *line) {
    bool has = strlen(line) > TIME_LENGTH && line[4] == '-' && line[13] == ':';
    return has ? dl_strndup(arena, line, TIME_LENGTH) : NULL;
}

/* Is it the line by which a run tells that it starts anew, and that the earlier one of its
 * directory is now called so (logger.c)? "": by any name. */
static bool starts_anew(const char *said, const char *name) {
    static const char anew[] = "starting anew where an earlier run was, which is now run ";
    if (strncmp(said, anew, sizeof anew - 1) != 0) return false;
    said += sizeof anew - 1;
    return !*name || (!strncmp(said, name, strlen(name)) && said[strlen(name)] == ' ');
}

/* Reads the lines of a log: those of its last run, which may have been resumed; or, with a name, of
 * the run that had been there and has that name now. */
static log_facts read_lines(dl_arena *arena, char *text, const char *name) {
    log_facts now = {.begun = "", .ended = ""}, before = now; /* before: the last header */
    const char *opened = "";
    bool in_settings = false, started = false;
    for (char *line = text, *end; line && *line; line = end) {
        end = strchr(line, '\n');
        if (end) *end++ = 0;
        const char *time = time_of(arena, line), *said = text_of(line);
        bool opens = !strncmp(said, "------------------ Configuration", 32);
        if (opens) /* of the last run in this directory: a resumed one has a second */
            before = now, in_settings = true, started = false, now.about = (names){0},
            opened = time ? time : "";
        if (*name && starts_anew(said, name)) return before;
        if (starts_anew(said, "")) now.begun = opened;
        if (time) now.ended = time;
        if (time && !*now.begun) now.begun = time;
        if (!opens && in_settings && !strncmp(said, "-----", 5))
            in_settings = false;
        else if (!in_settings && !started && now.about.n < MOST_ABOUT) {
            started = !strncmp(said, "Starting Training", 17) || !strncmp(said, "Time taken", 10);
            if (!started) dl_push(arena, &now.about, dl_strdup(arena, said));
        }
        now.done = strstr(said, "DONE") != NULL;
    }
    return *name ? (log_facts){.begun = "", .ended = ""} : now;
}

/* The directory whose run started anew and left this one as DIR.NUMBER; NULL: it is none. */
static const char *successor_of(dl_arena *arena, const char *dir) {
    const char *dot = strrchr(dir, '.'), *slash = strrchr(dir, '/');
    if (!dot || dot < slash || dot == dir || dot[-1] == '/' || !dot[1] ||
        strspn(dot + 1, "0123456789") != strlen(dot + 1))
        return NULL;
    return dl_strndup(arena, dir, (size_t)(dot - dir));
}

/* The log stays where it was begun when a run is set aside (rundir.h). */
static bool read_log(reader *in, dl_error *err) {
    dl_run_facts *r = in->r;
    size_t n = strlen(r->dir);
    while (n > 1 && r->dir[n - 1] == '/') n--;
    const char *dir = dl_strndup(in->arena, r->dir, n), *later = successor_of(in->arena, dir),
               *path = dl_format(in->arena, "%s/out.log", dir), *name = "";
    r->begun = r->ended = "";
    if (access(path, F_OK) && later) {
        path = dl_format(in->arena, "%s/out.log", later);
        name = strrchr(dir, '/') ? strrchr(dir, '/') + 1 : dir;
    }
    if (access(path, F_OK)) return true;
    char *text = dl_read_file(in->arena, path, MOST_LOG, &n, err);
    if (!text) return false;
    const log_facts f = read_lines(in->arena, text, name);
    r->begun = f.begun, r->ended = f.ended, r->done = f.done;
    memcpy(&r->about, &f.about, sizeof r->about);
    return true;
}

/* ---- all of it ---- */

bool dl_run_read(dl_arena *arena, const char *dir, dl_run_facts *out, dl_error *err) {
    *out = (dl_run_facts){.dir = dl_strdup(arena, dir)};
    reader in = {arena, out};
    const char *points = dl_format(arena, "%s/metrics.jsonl", dir);
    if (access(points, F_OK))
        return dl_fail(err, DL_INPUT, "%s is no run: it has no metrics.jsonl", dir);
    return dlr_metrics_read(points, take_point, &in, err) &&
           read_settings(&in, dl_format(arena, "%s/hyperparams.yaml", dir), err) &&
           read_log(&in, err);
}

const dl_run_curve *dl_run_find_curve(const dl_run_facts *r, const char *tag) {
    return find_curve(r, tag);
}

const char *dl_run_find_setting(const dl_run_facts *r, const char *key) {
    for (int i = 0; i < r->settings.n; i++)
        if (!strcmp(r->settings.at[i].key, key)) return r->settings.at[i].value;
    return NULL;
}

bool dl_run_is_default(const dl_run_setting *s) {
    const char *dot = strrchr(s->key, '.'), *name = dot ? dot + 1 : s->key;
    if (dot && !strcmp(name, "name")) name = dl_intern_n(s->key, (size_t)(dot - s->key));
    for (int k = 0; k < DL_N_KEYS; k++) {
        if (strcmp(dl_key_name((dl_key)k), name) != 0) continue;
        const char *fallback = dl_key_default((dl_key)k);
        double a, b;
        if (!fallback || !strcmp(fallback, "null")) return !strcmp(s->value, "None");
        return !strcasecmp(fallback, s->value) ||
               (dl_parse_real(fallback, &a) && dl_parse_real(s->value, &b) && a == b);
    }
    return false;
}

static bool says(const char *tag, const char *word) { return strcasestr(tag, word) != NULL; }

const dl_run_curve *dl_run_loss(const dl_run_facts *r) {
    const dl_run_curve *train = NULL;
    for (int i = 0; i < r->curves.n; i++) {
        const dl_run_curve *c = &r->curves.at[i];
        if (!says(c->tag, "loss") || says(c->tag, "scale") || says(c->tag, "best")) continue;
        if (says(c->tag, "val")) return c;
        if (!train) train = c;
    }
    return train;
}

double dl_run_least(const dl_run_curve *c) {
    double least = NAN;
    for (int i = 0; c && i < c->values.n; i++)
        if (c->steps.at[i] > 0 && isfinite(c->values.at[i]) && !(c->values.at[i] >= least))
            least = c->values.at[i];
    return least;
}

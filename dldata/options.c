#include "dldata/options.h"

#include "ir/base/str.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool set_value(const option *o, const char *text, dl_error *err) {
    char *end = NULL;
    errno = 0;
    if (o->kind == OPTION_TEXT) {
        if (!*text) return dl_fail(err, DL_USAGE, "--%s needs a value that is not empty", o->name);
        *(const char **)o->to = text;
        return true;
    }
    long long integer = o->kind == OPTION_INTEGER ? strtoll(text, &end, 10) : 0;
    double v = o->kind == OPTION_INTEGER ? (double)integer : strtod(text, &end);
    if (errno || end == text || *end || !(v >= o->low && v <= o->high))
        return dl_fail(err, DL_USAGE, "--%s needs %s from %.12g to %.12g, not '%s'", o->name,
                       o->kind == OPTION_INTEGER ? "a whole number" : "a number", o->low, o->high,
                       text);
    if (o->kind == OPTION_INTEGER)
        *(long long *)o->to = integer;
    else
        *(double *)o->to = v;
    return true;
}

/* The option that `word` ("--name", "--name=value", "-n") names, its "=value" part in *value. */
static const option *find(const option *options, int n, const char *word, const char **value) {
    const char *name = word + (word[1] == '-' ? 2 : 1), *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    *value = equals ? equals + 1 : NULL;
    for (int i = 0; i < n; i++) {
        const char *have = word[1] == '-' ? options[i].name : options[i].letter;
        if (have && strlen(have) == length && strncmp(have, name, length) == 0) return &options[i];
    }
    return NULL;
}

static bool fail_unknown(const option *options, int n, const char *word, dl_error *err) {
    const char *names[32], *near = NULL;
    char name[64];
    if (n <= 32 && word[1] == '-') {
        for (int i = 0; i < n; i++) names[i] = options[i].name;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="), word + 2);
        near = dl_nearest(name, names, n);
    }
    if (near)
        return dl_fail(err, DL_USAGE, "unknown option '%.60s'; did you mean --%s?", word, near);
    return dl_fail(err, DL_USAGE, "unknown option '%.60s'; --help lists them", word);
}

bool options_read(const option *options, int n, int argc, char **argv, const char **files,
                  int max_files, int *n_files, dl_error *err) {
    *n_files = 0;
    bool only_files = false;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i], *value;
        if (only_files || word[0] != '-' || !word[1]) {
            if (*n_files == max_files)
                return dl_fail(err, DL_USAGE, "one argument too many: '%.200s'", word);
            files[(*n_files)++] = word;
            continue;
        }
        if (strcmp(word, "--") == 0) {
            only_files = true;
            continue;
        }
        const option *o = find(options, n, word, &value);
        if (!o) return fail_unknown(options, n, word, err);
        if (o->kind == OPTION_FLAG) {
            if (value) return dl_fail(err, DL_USAGE, "--%s takes no value", o->name);
            *(bool *)o->to = true;
            continue;
        }
        if (!value && ++i == argc)
            return dl_fail(err, DL_USAGE, "%s needs a value: %s", word, o->value);
        if (!set_value(o, value ? value : argv[i], err)) return false;
    }
    return true;
}

void options_print(const option *options, int n) {
    for (int i = 0; i < n; i++) {
        const option *o = &options[i];
        char left[64];
        snprintf(left, sizeof left, "%s%s%s--%s%s%s", o->letter ? "-" : "",
                 o->letter ? o->letter : "", o->letter ? ", " : "    ", o->name,
                 o->value ? " " : "", o->value ? o->value : "");
        printf("  %-24s %s\n", left, o->help);
    }
}

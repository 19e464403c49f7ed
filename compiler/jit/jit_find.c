/* Finds the compiler for sources by the environment, and computes what objects depend on in
 * addition to their source. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/jit/jit_cc.h"
#include "ir/base/hash.h"

typedef DL_ARRAY(const char *) words;

static bool is_program(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* The path of a program that is given by path or by a name on PATH. NULL: there is none. */
static const char *find_program(dl_arena *arena, const char *name) {
    if (strchr(name, '/')) return is_program(name) ? name : NULL;
    const char *path = getenv("PATH");
    for (const char *p = path ? path : "/usr/bin:/bin"; *p && *name;) {
        size_t n = strcspn(p, ":");
        const char *file = dl_format(arena, "%.*s/%s", (int)n, p, name);
        if (n && is_program(file)) return file;
        p += n + (p[n] == ':');
    }
    return NULL;
}

/* The next word from *at on, without its quotes; *at then points after it. NULL: none is left,
 * or a quote is open (*open). */
static const char *next_word(dl_arena *arena, const char **at, bool *open) {
    static const char blanks[] = " \t\n";
    const char *p = *at + strspn(*at, blanks);
    char *word = dl_alloc(arena, strlen(p) + 1), *to = word, quote = 0;
    if (!*p) return NULL;
    for (; *p && (quote || !strchr(blanks, *p)); p++) {
        if (quote ? *p == quote : *p == '\'' || *p == '"')
            quote = quote ? 0 : *p;
        else {
            if (*p == '\\' && quote != '\'' && p[1]) p++;
            *to++ = *p;
        }
    }
    *to = 0, *at = p, *open = quote;
    return quote ? NULL : word;
}

static bool split(dl_arena *arena, const dl_jit_language *in, const char *value, words *w,
                  dl_error *err) {
    bool open = false;
    const char *at = value, *word;
    if (find_program(arena, value)) { /* a path that contains blanks */
        dl_push(arena, w, value);
        return true;
    }
    while ((word = next_word(arena, &at, &open))) dl_push(arena, w, word);
    return !open || dl_fail(err, DL_RESOURCE, "%s=%s in the environment has a quote without an end",
                            in->variable, value);
}

/* Up to the last word that is a program, the words are a launcher's command (ccache gcc; nice -n
 * 5 gcc): they come before our flags. The rest comes after, and overrides them. */
static void divide(dl_arena *arena, const words *w, dl_jit_cc *cc) {
    int last = 0, n = 0;
    for (int i = 1; i < w->n; i++)
        if (*w->at[i] && *w->at[i] != '-' && find_program(arena, w->at[i])) last = i;
    cc->first = DL_NEWS(arena, const char *, w->n + 1);
    cc->last = DL_NEWS(arena, const char *, w->n + 1);
    for (int i = 1; i <= last; i++) cc->first[i - 1] = w->at[i];
    for (int i = last + 1; i < w->n; i++) cc->last[n++] = w->at[i];
}

/* Uses the compiler that the user names, or reports an error: another compiler would make
 * kernels of other speed and other bits. */
static bool find_compiler(dl_arena *arena, const dl_jit_language *in, dl_jit_cc *cc,
                          dl_error *err) {
    const char *own = getenv(in->variable);
    words w = {0};
    if (own && !split(arena, in, own, &w, err)) return false;
    bool named = w.n > 0;
    for (int i = 0; !named && i < 3 && !cc->path; i++) cc->path = find_program(arena, in->names[i]);
    if (named) cc->path = find_program(arena, w.at[0]);
    if (!named) dl_push(arena, &w, cc->path);
    divide(arena, &w, cc);
    if (cc->path) return true;
    if (named)
        return dl_fail(
            err, DL_RESOURCE,
            "%s=%s in the environment: there is no program %s%s; set %s to a %s compiler, or unset "
            "it (then %s, %s or %s is used)",
            in->variable, own, w.at[0], strchr(w.at[0], '/') ? "" : " on PATH", in->variable,
            in->name, in->names[0], in->names[1], in->names[2]);
    return dl_fail(
        err, DL_RESOURCE,
        "no %s compiler found (%s is not set, and there is no %s, %s or %s on PATH); install %s, "
        "or run a plan that was compiled elsewhere with `dlc compile -o`",
        in->name, in->variable, in->names[0], in->names[1], in->names[2], in->package);
}

/* Variables that compilers and their launchers read in addition to arguments. */
static const char *const read_by_compilers[] = {
    "CPATH",           "LIBRARY_PATH",    "COMPILER_PATH",
    "GCC_EXEC_PREFIX", "LD_LIBRARY_PATH", "CCC_OVERRIDE_OPTIONS",
    "CCACHE_COMPILER", "CCACHE_PREFIX",   "SOURCE_DATE_EPOCH"};

static uint64_t hash_variable(const char *name, uint64_t h) {
    const char *value = getenv(name);
    return value ? dl_hash_str(value, dl_hash_str(name, h)) : h;
}

static uint64_t hash_file(const char *path, uint64_t h) {
    struct stat st = {0};
    if (stat(path, &st) != 0) return dl_hash_str("missing", h);
    h = dl_hash(&st.st_size, sizeof st.st_size, dl_hash_str(path, h));
    return dl_hash(&st.st_mtim, sizeof st.st_mtim, h);
}

static uint64_t hash_program(dl_arena *arena, const char *path, uint64_t h) {
    char *real = realpath(path, NULL);
    h = hash_file(real ? dl_strdup(arena, real) : path, dl_hash_str(path, h));
    free(real);
    return h;
}

bool dl_jit_find(dl_arena *arena, const dl_jit_language *in, const dl_target *t, dl_jit_cc *cc,
                 dl_error *err) {
    *cc = (dl_jit_cc){0};
    if (!find_compiler(arena, in, cc, err)) return false;
    uint64_t h = hash_program(arena, cc->path, 0);
    for (int i = 0; cc->first[i]; i++) {
        const char *program = *cc->first[i] == '-' ? NULL : find_program(arena, cc->first[i]);
        h = dl_hash_str(cc->first[i], h);
        if (program) h = hash_program(arena, program, h);
    }
    for (int i = 0; in->flags[i]; i++) h = dl_hash_str(in->flags[i], h);
    for (int i = 0; t->flags[i]; i++) h = dl_hash_str(t->flags[i], h);
    for (int i = 0; cc->last[i]; i++) h = dl_hash_str(cc->last[i], h);
    h = hash_variable(in->include_path, h);
    for (size_t i = 0; i < sizeof read_by_compilers / sizeof *read_by_compilers; i++)
        h = hash_variable(read_by_compilers[i], h);
    cc->key = dl_hash_str(DL_VERSION, dl_hash_str(t->name, h));
    return true;
}

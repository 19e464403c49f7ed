#include "programs/cli.h"

#include <stdio.h>
#include <stdlib.h>

#include "compiler/arguments.h"
#include "programs/environment.h"

int dlc_fail(const dl_error *err) {
    fflush(stdout);
    if (strstr(err->message, ": error: "))
        fprintf(stderr, "%s\n", err->message);
    else
        fprintf(stderr, "dlc: error: %s\n", err->message);
    return err->code ? (int)err->code : DL_INTERNAL;
}

void dlc_warn(const char *text) { fprintf(stderr, "dlc: warning: %s\n", text); }

int dlc_help(const char *usage, const dl_option *options, dl_config *c) {
    dl_buf b = {0};
    dl_error err = {0};
    dl_arena *arena = dl_arena_new(NULL);
    bool ok = !c || !c->positional.n || dl_arguments_of_model(arena, c, &err);
    dl_puts(&b, usage);
    if (c) dl_config_put_help(&b, options, c), dl_puts(&b, ENVIRONMENT_HELP);
    for (int i = 0; !c && options && options[i].name; i++)
        dl_putf(&b, "  --%s%s%s  %s\n", options[i].name, options[i].value ? "=" : "",
                options[i].value ? options[i].value : "", options[i].help);
    if (ok) fputs(b.at, stdout);
    dl_buf_free(&b);
    dl_arena_free(arena);
    return ok ? DL_OK : dlc_fail(&err);
}

void dlc_tell_warnings(const dl_session *s) {
    for (int i = 0; i < s->config->warnings.n; i++) dlc_warn(s->config->warnings.at[i]);
    if (s->diagnostics.n) fputs(s->diagnostics.at, stderr);
}

enum { MOST_RANKS = 1 << 20 };

/* A whole number that a command takes as an option; where it is not given, the least. */
static bool read_number(const dl_config *c, const char *option, int least, int most,
                        const char *what, int *value, dl_error *err) {
    const char *text = dl_config_option(c, option);
    char *end = NULL;
    long n = text ? strtol(text, &end, 10) : least;
    if (text && (end == text || *end || n < least || n > most))
        return dl_fail(err, DL_USAGE, "--%s=%.100s: %s, %d to %d", option, text, what, least, most);
    *value = (int)n;
    return true;
}

/* One rank has no one to share with, whatever the configuration says of many. */
static bool make_alone(dl_config *c, dl_error *err) {
    return dl_config_set(c, DL_KEY_tensor_parallel, "1", err) &&
           dl_config_set(c, DL_KEY_context_parallel, "1", err);
}

static dl_session *open_session(dl_arena *arena, dl_config *c, int ranks, int *code) {
    dl_error err = {0};
    dl_session *s = NULL;
    dl_buf diagnostics = {0};
    int rank = 0;
    bool ok = dl_config_take_model(c, &err), alone = ranks == 1;
    if (ok && !dl_config_option(c, "config") && dl_config_is_null(c, DL_KEY_local_batch_size))
        ok = dl_config_is_given(c, DL_KEY_global_batch_size) ||
             (c->batch_assumed = dl_config_set(c, DL_KEY_local_batch_size, "1", &err));
    if (ok && !ranks)
        ok = read_number(c, "ranks", 1, MOST_RANKS, "how many processes share the work", &ranks,
                         &err) &&
             read_number(c, "rank", 0, ranks - 1, "one of the processes", &rank, &err);
    if (ok && alone) ok = make_alone(c, &err);
    if (ok) s = dl_session_open(arena, c, ranks, &diagnostics, &err);
    if (s) dl_session_take_rank(s, rank);
    if (!s && diagnostics.n) fputs(diagnostics.at, stderr);
    if (!s) *code = dlc_fail(&err);
    dl_buf_free(&diagnostics);
    return s;
}

dl_session *dlc_session_again(dl_arena *arena, dl_config *c, int *code) {
    return open_session(arena, c, 0, code);
}

dl_session *dlc_session_of(dl_arena *arena, int argc, char **argv, const dl_option *options,
                           int ranks, int *code) {
    dl_error err = {0};
    dl_config *c = dl_config_open(arena, argc, argv, options, &err);
    if (c) return open_session(arena, c, ranks, code);
    *code = dlc_fail(&err);
    return NULL;
}

dl_session *dlc_session(dl_arena *arena, dl_config *c, int *code) {
    dl_session *s = dlc_session_again(arena, c, code);
    if (s) dlc_tell_warnings(s);
    return s;
}

#include "compiler/subcommand.h"

void dl_pass_on_warnings(const dl_invocation *call, const dl_session *s) {
    for (int i = 0; i < s->config->warnings.n; i++)
        dl_console_warning(call->out, s->config->warnings.at[i]);
    dl_console_diagnostics(call->out, s->diagnostics.at);
}

enum { MOST_RANKS = 1 << 20 };

/* A single rank has nobody to share with, even where the configuration asks for many. */
static bool set_single_rank(dl_config *c, dl_error *err) {
    return dl_config_set(c, DL_KEY_tensor_parallel, "1", err) &&
           dl_config_set(c, DL_KEY_context_parallel, "1", err);
}

/* The batch of a model that is looked at alone. */
static bool assume_batch(dl_config *c, dl_error *err) {
    if (dl_config_option(c, "config") || !dl_config_is_null(c, DL_KEY_local_batch_size) ||
        dl_config_is_given(c, DL_KEY_global_batch_size))
        return true;
    return c->batch_assumed = dl_config_set(c, DL_KEY_local_batch_size, "1", err);
}

dl_session *dl_open_session(const dl_invocation *call, dl_config *c, int ranks, dl_error *err) {
    int64_t rank = 0;
    bool single = ranks == 1;
    if (!dl_config_take_model(c, err) || !(call->batch_of_run || assume_batch(c, err))) return NULL;
    int64_t size = 1;
    if (!ranks && !(dl_option_int(c, "ranks", 1, MOST_RANKS, &size, err) &&
                    dl_option_int(c, "rank", 0, size - 1, &rank, err)))
        return NULL;
    if (!ranks) ranks = (int)size;
    if (single && !set_single_rank(c, err)) return NULL;
    dl_buf diagnostics = {0};
    dl_session *s = dl_session_open(call->arena, c, ranks, &diagnostics, err);
    if (s)
        dl_session_take_rank(s, (int)rank);
    else
        dl_console_diagnostics(call->out, diagnostics.at);
    dl_buf_free(&diagnostics);
    return s;
}

dl_session *dl_reopen_session(const dl_invocation *call, int ranks, dl_error *err) {
    dl_config *c = dl_config_open(call->arena, call->argc, call->argv, call->options, err);
    return c ? dl_open_session(call, c, ranks, err) : NULL;
}

dl_session *dl_open_session_with(const dl_invocation *call, int n, const char *const *words,
                                 dl_error *err) {
    dl_invocation with = *call;
    with.argv = DL_NEWS(call->arena, char *, call->argc + n + 1);
    memcpy(with.argv, call->argv, sizeof *with.argv * (size_t)call->argc);
    for (int i = 0; i < n; i++) with.argv[with.argc++] = (char *)words[i];
    return dl_reopen_session(&with, 0, err);
}

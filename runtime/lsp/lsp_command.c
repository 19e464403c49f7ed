/* `dlc lsp`: reads messages until the editor says that it is done. */
#include "runtime/lsp/lsp.h"

#include <unistd.h>

#include "runtime/lsp/server.h"

static const dl_option options[] = {DL_OPTION_HELP, {0}};

static const char usage[] =
    "usage: dlc lsp\n\n"
    "Serves editors by the Language Server Protocol on standard input and output: faults while "
    "you\n"
    "type, shapes and parameters of what stands under the cursor, completion, renaming, jumps to\n"
    "definitions, an outline and the form of `dlc fmt`. docs/guide/editors.md sets up editors.\n"
    "Exit status: 0 where the editor shut it down before, else 1; 3 for input that is no "
    "message.\n\n";

static bool run(dl_invocation *call, dl_error *err) {
    dl_lsp_server *s = DL_NEW(call->arena, dl_lsp_server);
    s->arena = call->arena, s->wire.fd = STDIN_FILENO, s->wire.out = call->out;
    s->target = dl_target_find(NULL, NULL, err);
    if (!s->target) return false;
    dl_lsp_read got = DL_LSP_MESSAGE;
    while (got == DL_LSP_MESSAGE && !s->exited) {
        dl_arena *arena = dl_arena_new(NULL);
        const dlr_json *message = NULL;
        dl_error why = {0};
        got = dl_lsp_read_message(&s->wire, arena, &message, &why);
        if (got == DL_LSP_BROKEN) dl_fail(err, why.code, "%s", why.message);
        if (got == DL_LSP_MESSAGE && !message)
            dl_lsp_refuse(&s->wire, NULL, DL_LSP_PARSE_ERROR, why.message);
        if (message) dl_lsp_take(s, message);
        dl_arena_free(arena);
    }
    dl_lsp_close(s);
    if (!s->shut_down) call->status = 1;
    return got != DL_LSP_BROKEN;
}

const dl_subcommand dl_subcommand_lsp = {.name = "lsp",
                                         .help = "serve an editor (Language Server Protocol)",
                                         .usage = usage,
                                         .options = options,
                                         .options_only = true,
                                         .run = run};

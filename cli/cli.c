#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/environment.h"
#include "cli/signals.h"
#include "cli/streams.h"
#include "compiler/arguments.h"
#include "ir/base/memory.h"

/* ---- start and end ---- */

static const char *program_name;

/* Cleaning up would need memory: prints one sentence and ends. */
static void exit_without_memory(size_t bytes) {
    char text[400], line[480];
    int n = snprintf(line, sizeof line, "%s: error: %s\n", program_name,
                     dl_no_memory_text(text, sizeof text, bytes));
    if (n > 0 && write(STDERR_FILENO, line, (size_t)n) < 0) {
    } /* and if it cannot be said, out all the same */
    _exit(DL_RESOURCE);
}

void cli_start(const char *program) {
    program_name = program;
    dl_on_no_memory(exit_without_memory);
    cli_streams_start();
}

int cli_end(const char *program, int status) { return cli_streams_end(program, status); }

/* ---- what is printed ---- */

/* At once: lines of a step are read as they come, and next to what stands on standard error. */
static void print_text(void *who, const char *text) {
    (void)who;
    fputs(text, stdout), fflush(stdout);
}

bool cli_is_located(const dl_error *err) { return strstr(err->message, ": error: ") != NULL; }

int cli_fail(const char *who, const dl_error *err) {
    bool located = cli_is_located(err);
    fflush(stdout);
    fprintf(stderr, "%s%s%s\n", located ? "" : who, located ? "" : ": error: ", err->message);
    return err->code ? (int)err->code : DL_INTERNAL;
}

static void print_error(void *who, const dl_error *err) { cli_fail(who, err); }

static void print_warning(void *who, const char *text) {
    fprintf(stderr, "%.*s: warning: %s\n", (int)strcspn(who, " "), (const char *)who, text);
}

static void print_diagnostics(void *who, const char *text) {
    (void)who;
    fputs(text, stderr);
}

static void take_stops(void *who, dl_stop how) {
    (void)who;
    cli_signals(how);
}

static int find_stop(void *who) {
    (void)who;
    return cli_signal_pending();
}

dl_console cli_console(const char *who) {
    return (dl_console){.text = print_text,
                        .error = print_error,
                        .warning = print_warning,
                        .diagnostics = print_diagnostics,
                        .stoppable = take_stops,
                        .stop_requested = find_stop,
                        .context = (void *)who};
}

/* ---- commands ---- */

bool cli_help(const dl_subcommand *command, dl_config *c, dl_error *err) {
    dl_buf b = {0};
    dl_arena *arena = dl_arena_new(NULL);
    const char *which = dl_config_option(c, "help");
    bool keys = command->takes_keys, all = !keys || !strcmp(which, "all"),
         ok = !keys || !c->positional.n || dl_arguments_of_model(arena, c, err);
    if (!*which || all) {
        if (command->put_usage)
            command->put_usage(&b);
        else
            dl_puts(&b, command->usage);
    }
    if (keys && all && command->after) dl_puts(&b, command->after), dl_puts(&b, "\n");
    if (keys)
        ok = ok && dl_config_put_help(&b, command->options, c, which, err);
    else
        dl_options_put_help(&b, command->options);
    if (!keys && command->after) dl_puts(&b, command->after);
    if (keys && all) dl_puts(&b, ENVIRONMENT_HELP);
    if (ok) fputs(b.at, stdout);
    dl_buf_free(&b);
    dl_arena_free(arena);
    return ok;
}

int cli_run(const char *who, const dl_subcommand *command, int argc, char **argv,
            const dl_option *run_options) {
    dl_error err = {0};
    const dl_console out = cli_console(who);
    dl_invocation call = {.arena = dl_arena_new(NULL),
                          .argc = argc,
                          .argv = argv,
                          .options = command->options,
                          .out = &out,
                          .run_options = run_options};
    if (command->options_only)
        call.config =
            dl_options_open(call.arena, argc, argv, command->options, command->most_files, &err);
    else if (!command->parses_itself)
        call.config = dl_config_open(call.arena, argc, argv, command->options, &err);
    bool ok = call.config || command->parses_itself;
    if (ok && call.config && dl_config_option(call.config, "help"))
        ok = cli_help(command, call.config, &err);
    else
        ok = ok && command->run(&call, &err);
    int status = ok ? call.status : cli_fail(who, &err);
    dl_arena_free(call.arena);
    return status;
}

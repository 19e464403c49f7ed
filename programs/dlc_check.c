/* `dlc check` and `dlc explain`: the faults of model files, and what a code means. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "compiler/check.h"
#include "programs/dlc.h"

static const dl_option options[] = {{"help", 'h', NULL, "this text"}, {0}};

int dlc_check(dl_arena *arena, int argc, char **argv) {
    dl_error err = {0};
    dl_config *c = dl_config_open(arena, argc, argv, options, &err);
    if (!c) return dlc_fail(&err);
    if (dl_config_option(c, "help"))
        return dlc_help(
            "usage: dlc check FILE...\n\nReports every fault of each model file (.dl) with its "
            "place, code and what would mend it, and\nwhat `dlc compile` would refuse, without making "
            "machine code.\n"
            "Exit status 3 when there is one. `dlc explain CODE` tells more about a code.\nSizes "
            "that a model leaves to its configuration "
            "are assumed.\n\n",
            options, NULL);
    if (!dl_config_finish(c, &err)) return dlc_fail(&err);
    if (!c->positional.n) {
        dl_fail(&err, DL_USAGE, "usage: dlc check FILE...");
        return dlc_fail(&err);
    }
    const dl_target *target = dl_target_find(NULL, &err);
    if (!target) return dlc_fail(&err);
    int code = 0;
    for (int i = 0; i < c->positional.n; i++) {
        err = (dl_error){0};
        dl_source *source = dl_source_read(arena, c->positional.at[i], &err);
        if (!source) {
            code = dlc_fail(&err);
            continue;
        }
        dl_diags *diags = dl_diags_new(arena, source);
        bool compiles = dl_check_file(arena, source, target, diags, &err);
        dl_buf b = {0};
        dl_diags_print(&b, diags, isatty(2) && !getenv("NO_COLOR"));
        if (b.n) fputs(b.at, stderr);
        dl_buf_free(&b);
        if (!compiles)
            code = dlc_fail(&err);
        else if (diags->errors)
            code = DL_INPUT;
        else
            printf("%s: ok\n", dl_shown(arena, c->positional.at[i]));
    }
    return code;
}

int dlc_explain(dl_arena *arena, int argc, char **argv) {
    if (argc != 2 || argv[1][0] == '-') {
        puts("usage: dlc explain CODE\n\nExplains a diagnostic, e.g. `dlc explain DL-E0231`.");
        return argc == 2 && !strcmp(argv[1], "--help") ? 0 : DL_USAGE;
    }
    dl_buf b = {0};
    if (!dl_diag_explain(&b, argv[1])) {
        fprintf(stderr, "dlc: error: no diagnostic '%s'; codes look like DL-E0201\n",
                dl_shown(arena, argv[1]));
        dl_buf_free(&b);
        return DL_USAGE;
    }
    fputs(b.at, stdout);
    dl_buf_free(&b);
    return 0;
}

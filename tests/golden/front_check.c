/* Prints what `dlc check` says of one model file, without the rest of the compiler: for golden and
 * fuzz tests. front_check FILE [--name=SHOWN] prints the diagnostics; exit status 3 when there are
 * errors, 4 when unreadable. front_check --ir FILE prints the graphs of the model at batch 2 and
 * D=H=W=64. */
#include <stdio.h>

#include "frontends/dl/front.h"
#include "ir/text/text.h"

int main(int argc, char **argv) {
    bool ir = argc > 1 && strcmp(argv[1], "--ir") == 0;
    if (argc < 2 + ir) return 2;
    const char *path = argv[1 + ir], *shown = path;
    if (argc > 2 + ir && strncmp(argv[2 + ir], "--name=", 7) == 0) shown = argv[2 + ir] + 7;
    dl_arena *arena = dl_arena_new(NULL);
    dl_error err = {0};
    dl_buf out = {0};
    dl_source *file = dl_source_read(arena, path, &err);
    int status = 4;
    if (!file) {
        printf("%s\n", err.message);
        goto done;
    }
    dl_source *s = dl_source_new(arena, shown, file->text, file->n);
    dl_diags *d = dl_diags_new(arena, s);
    dl_model *m = dl_model_parse(arena, s, d);
    if (ir) {
        static const dl_axis_size sizes[] = {{"N", 2}, {"D", 64}, {"H", 64}, {"W", 64}};
        dl_model_config config = {.sizes = sizes, .nsizes = 4};
        dl_module *module = m ? dl_model_build(arena, m, &config, d) : NULL;
        if (module) dl_print_module(&out, module, (dl_print_options){.locations = true});
    } else if (m)
        dl_model_check(arena, m, d, &ir);
    dl_diags_print(&out, d, false);
    if (out.at) fputs(out.at, stdout);
    status = d->errors ? 3 : 0;
done:
    dl_buf_free(&out);
    dl_arena_free(arena);
    return status;
}

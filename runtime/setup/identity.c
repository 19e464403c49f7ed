#include "runtime/setup/identity.h"

#include "ir/base/hash.h"
#include "ir/text/text.h"

/* The text of the graphs without the sizes of the axis N: a run may go on with another batch size.
 */
static uint64_t digest(const dl_module *m) {
    dl_buf text = {0};
    uint64_t h = 0;
    dl_print_module(&text, m, (dl_print_options){0});
    for (const char *at = text.at ? text.at : "", *size; *at;
         at = size + strspn(size, "0123456789")) {
        size = strstr(at, "N=");
        bool axis = size && size > text.at && strchr("[ ", size[-1]);
        size = size ? size + 2 : at + strlen(at);
        h = dl_hash(at, (size_t)(size - at), h);
        if (!axis) h = dl_hash(size, strspn(size, "0123456789"), h);
    }
    dl_buf_free(&text);
    return h;
}

dlr_run_model dl_identify(dl_arena *arena, const dl_session *s) {
    int n;
    const dl_argument *arguments = dl_model_arguments(s->model, &n);
    const char **keys = DL_NEWS(arena, const char *, n + 1);
    for (int i = 0; i < n; i++) keys[i] = dl_strdup(arena, arguments[i].name);
    return (dlr_run_model){.graph =
                               dl_format(arena, "%016llx", (unsigned long long)digest(s->module)),
                           .source = dl_strndup(arena, s->source->text, s->source->n),
                           .keys = keys};
}

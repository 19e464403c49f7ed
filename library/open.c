/* From a path to a network that is ready to run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "library/model.h"
#include "runtime/formats/log.h"
#include "runtime/setup/dataset_choice.h"
#include "runtime/train/start.h"

/* ---- what is told meanwhile ---- */

static void tell(void *context, int level, const char *text) {
    dlc_model *m = context;
    if (m->log) m->log(m->log_context, level, text);
}
static void tell_text(void *context, const char *text) { tell(context, DLC_LOG_INFO, text); }
static void tell_warning(void *context, const char *text) { tell(context, DLC_LOG_WARNING, text); }
/* Coloured where this process has a terminal, of which a caller's log need not be a part. */
static void tell_diagnostics(void *context, const char *text) {
    dlc_model *m = context;
    char *plain = dl_strdup(m->arena, text), *to = plain;
    for (const char *c = text; *c; c++) {
        if (*c != '\033')
            *to++ = *c;
        else
            while (c[1] && *c != 'm') c++;
    }
    *to = 0;
    tell(m, DLC_LOG_DIAGNOSTICS, plain);
}

/* ---- settings ---- */

typedef DL_ARRAY(char *) words;

static void put(dlc_model *m, words *w, const char *format, const char *value) {
    if (value) dl_push(m->arena, w, dl_format(m->arena, format, value));
}

/* The options as words of a command line. */
static words words_of(dlc_model *m, const dlc_options *o) {
    words w = {0};
    bool any = !o->device || strcmp(o->device, "auto") == 0;
    put(m, &w, "--device=%s", m->comm && any ? "cpu" : o->device);
    put(m, &w, "--yaml_config=%s", o->config_file);
    put(m, &w, "--config=%s", o->config_name);
    if (o->threads > 0) put(m, &w, "--threads=%s", dl_format(m->arena, "%d", o->threads));
    if (o->batch > 0)
        put(m, &w, "--local_batch_size=%s", dl_format(m->arena, "%lld", (long long)o->batch));
    for (int i = 0; o->settings && o->settings[i]; i++) put(m, &w, "--%s", o->settings[i]);
    return w;
}

static bool is_zero(const char *from, const char *to) {
    while (from < to && !*from) from++;
    return from >= to;
}

/* Options of a caller that was built with an earlier header, which has fewer, or with a later one,
 * whose other options must not be used. */
static bool take_options(const dlc_options *given, dlc_options *o, dl_error *err) {
    *o = (dlc_options){0};
    if (!given) return true;
    if (given->size < offsetof(dlc_options, device) || given->size > 1 << 16 ||
        given->size % sizeof(void *))
        return dl_fail(err, DL_USAGE, "dlc_options.size is %zu: set it to sizeof(dlc_options)",
                       given->size);
    if (given->size > sizeof *o &&
        !is_zero((const char *)(given + 1), (const char *)given + given->size))
        return dl_fail(err, DL_USAGE,
                       "dlc_options: this libdlc, %s, lacks options of the header "
                       "that the program was built with",
                       DL_VERSION);
    memcpy(o, given, given->size < sizeof *o ? given->size : sizeof *o);
    for (int i = 0; o->settings && o->settings[i]; i++)
        if (*o->settings[i] == '=' || *o->settings[i] == '-' || !strchr(o->settings[i], '='))
            return dl_fail(err, DL_USAGE, "dlc_options.settings: '%.200s' is no key=value",
                           o->settings[i]);
    if (o->threads < 0 || o->batch < 0)
        return dl_fail(err, DL_USAGE, "dlc_options: threads %d and batch %lld must not be negative",
                       o->threads, (long long)o->batch);
    return true;
}

/* ---- the network ---- */

static bool is_model_file(const char *path) {
    size_t n = strlen(path);
    struct stat st;
    return n > 3 && strcmp(path + n - 3, ".dl") == 0 && stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static bool open_file(dlc_model *m, const char *path, const words *w, dl_error *err) {
    char **all = DL_NEWS(m->arena, char *, w->n + 2);
    int n = 0;
    all[n++] = dl_strdup(m->arena, "dlc");
    all[n++] = dl_strdup(m->arena, path);
    for (int i = 0; i < w->n; i++) all[n++] = w->at[i];
    static const dl_option none[] = {{0}};
    dl_buf faults = {0};
    m->config = dl_config_open(m->arena, n, all, none, err);
    m->net.compiler = dl_arena_new(m->arena);
    if (m->config && dl_config_take_model(m->config, err))
        m->session = dl_session_open(m->net.compiler, m->config, m->world.size, &faults, err);
    const dl_buf *found = m->session ? &m->session->diagnostics : &faults;
    if (found->n) dl_console_diagnostics(&m->console, found->at);
    for (int i = 0; m->session && i < m->config->warnings.n; i++)
        dl_console_warning(&m->console, m->config->warnings.at[i]);
    dl_buf_free(&faults);
    m->net.session = m->session;
    m->net.data.loader = "raw"; /* numbers as they are; checkpoints of it say so */
    return m->session && dl_samples_resolve(m->config, err);
}

/* Numbers as they are where no record is wanted, or needed. */
static bool no_record(dl_arena *arena, const dl_session *s, dl_data_record *out, dl_error *err) {
    (void)arena, (void)s, (void)err;
    *out = (dl_data_record){.loader = "raw"};
    return true;
}

static bool open_run(dlc_model *m, const char *path, const words *w, dl_error *err) {
    dl_saved_model_options o = {.arena = m->arena,
                                .path = path,
                                .n_words = w->n,
                                .words = w->at,
                                .as_trained = true,
                                .ranks = m->world.size,
                                .plan = m->given,
                                .plan_path = m->plan_path,
                                .open_data = m->raw ? no_record : NULL,
                                .console = &m->console};
    if (!dl_saved_model_find(&m->net, &o, err) || !dl_saved_model_open(&m->net, err)) return false;
    m->session = m->net.session, m->config = m->net.config;
    return true;
}

/* ---- the executor ---- */

static bool load(dlc_model *m, const void *options, dl_error *err) {
    if (!library_check_plan(m, err)) return false;
    m->exec = dlr_exec_open(
        m->plan,
        (dlr_exec_options){.threads = library_threads(m),
                           .device = m->device.device,
                           .ranks = {m->comm, m->comm ? DL_NRANK_GROUPS : 0, m->groups}},
        err);
    if (!m->exec) return false;
    m->predict = dlr_exec_program(m->exec, "predict");
    m->train = dlr_exec_program(m->exec, "train"), m->eval = dlr_exec_program(m->exec, "eval");
    m->accumulate = dlr_exec_program(m->exec, DL_GRAPH_ACCUMULATE);
    m->tensors = dlr_tensors_of_model(m->arena, m->exec);
    if (!library_place_arrays(m, err)) return false;
    if (((const dlc_options *)options)->train) return library_start_training(m, err);
    dlr_start_options fresh = {.seed = (uint64_t)dl_config_int(m->config, DL_KEY_seed)};
    return m->net.o.path ? dl_saved_model_load(&m->net, m->exec, err)
                         : dlr_start_weights(m->exec, &fresh, err);
}

static bool join(dlc_model *m, const void *options, dl_error *err) {
    m->arena = dl_arena_new(NULL);
    return library_join(m, options, err);
}

static bool open_network(dlc_model *m, const void *options, dl_error *err) {
    words w = words_of(m, options);
    if (!library_take_plan(m, options, err)) return false;
    bool ok =
        is_model_file(m->path) ? open_file(m, m->path, &w, err) : open_run(m, m->path, &w, err);
    return ok && library_take_rank(m, err);
}

static bool open_all(dlc_model *m, const dlc_options *o, dl_error *err) {
    static const char call[] = "dlc_open";
    if (!library_guard(join, m, o, err)) return false;
    bool ok = library_agree(m, library_guard(open_network, m, o, err), call, err);
    for (int turn = 0; turn < 2; turn++) { /* one rank of a machine compiles for all of them */
        bool mine = (m->world.local_rank == 0) == (turn == 0);
        ok =
            library_agree(m, ok && (!mine || library_guard(library_compile, m, o, err)), call, err);
    }
    return library_agree(m, ok && library_guard(load, m, o, err), call, err);
}

dlc_model *dlc_open(const char *path, const dlc_options *options, dlc_status *status) {
    LIBRARY_OWN_FLOATS;
    dl_error err = {0};
    dlc_options o;
    dlc_model *m = NULL;
    bool ok = (path && *path) || dl_fail(&err, DL_USAGE, "dlc_open: no path is given");
    ok = ok && take_options(options, &o, &err);
    ok = ok && ((m = calloc(1, sizeof *m)) != NULL ||
                dl_fail(&err, DL_RESOURCE, "no memory for a model"));
    if (ok) {
        *m = (dlc_model){.path = path,
                         .console = {.text = tell_text,
                                     .warning = tell_warning,
                                     .diagnostics = tell_diagnostics,
                                     .context = m},
                         .log = o.log,
                         .log_context = o.log_context,
                         .raw = o.raw != 0,
                         .refuses_nan = o.refuse_nan != 0};
        locale_t before = library_enter_locale();
        dlr_log_set_stderr(false);
        ok = open_all(m, &o, &err);
        m->path = NULL;
        library_leave_locale(before);
    }
    library_end(ok, &err, status);
    if (ok) return m;
    dlc_close(m);
    return NULL;
}

void dlc_close(dlc_model *m) {
    if (!m) return;
    dlr_exec_close(m->exec);
    dlr_comm_close(m->comm, NULL);
    for (int i = 0; i < m->n_inputs; i++) free(m->input[i].room);
    for (int i = 0; i < m->n_targets; i++) free(m->target[i].room);
    dl_saved_model_close(&m->net);
    dl_arena_free(m->arena);
    free(m);
}

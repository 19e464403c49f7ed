#include "runtime/setup/saved_model.h"

#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/origin.h"
#include "ir/base/input.h"
#include "runtime/checkpoint/tensors.h"
#include "runtime/setup/dataset_choice.h"

/* ---- the checkpoint ---- */

static bool is_there(const char *path, mode_t kind) {
    struct stat st;
    return stat(path, &st) == 0 && (st.st_mode & S_IFMT) == kind;
}

typedef struct {
    const char *dir, *which; /* of checkpoints */
    const char *weights;     /* or a file */
} origin;

static bool find_origin(const dl_saved_model_options *o, origin *from, dl_error *err) {
    dl_arena *arena = o->arena;
    size_t n = strlen(o->path);
    while (n > 1 && o->path[n - 1] == '/') n--;
    const char *path = dl_strndup(arena, o->path, n), *which = o->which;
    *from = (origin){.which = which};
    if (which && strcmp(which, "best") != 0 && strcmp(which, "last") != 0)
        return dl_fail(err, DL_USAGE, "--checkpoint=%.80s: best or last", which);
    if (is_there(dl_format(arena, "%s/state.json", path), S_IFREG)) {
        if (which)
            return dl_fail(err, DL_USAGE,
                           "--checkpoint goes with a run's directory; %.200s is a checkpoint",
                           path);
        from->dir = path, from->which = NULL;
    } else if (is_there(path, S_IFDIR)) {
        from->dir = dl_format(arena, "%s/checkpoints", path);
        bool best = access(dl_format(arena, "%s/best", from->dir), F_OK) == 0;
        if (!which) from->which = best ? "best" : "last";
        /* A copy may have the checkpoint itself where the run has a link. */
        const char *copied = dl_format(arena, "%s/%s", from->dir, from->which);
        struct stat st;
        if (lstat(copied, &st) == 0 && S_ISDIR(st.st_mode)) {
            from->dir = copied, from->which = NULL;
            return true;
        }
        return is_there(from->dir, S_IFDIR) ||
               dl_fail(err, DL_INPUT, "%.300s is no directory of a run: it has no checkpoints/",
                       path);
    } else {
        from->weights = path;
        int fd = dl_input_open(path, err);
        if (fd < 0) return false;
        close(fd);
        return !which ||
               dl_fail(err, DL_USAGE, "--checkpoint goes with a run's directory; %.200s is a file",
                       path);
    }
    return true;
}

static bool open_checkpoint(dl_saved_model *t, const origin *from, dl_error *err) {
    t->weights = from->weights;
    if (from->weights) return true;
    switch (dlr_checkpoint_open(from->dir, from->which, NULL, &t->checkpoint, err)) {
    case DLR_CHECKPOINT_LOADED: break;
    case DLR_CHECKPOINT_NONE:
        return dl_fail(err, DL_INPUT, "there is no checkpoint in %.300s", from->dir);
    case DLR_CHECKPOINT_FAILED: return false;
    }
    /* Another one than was asked for is no answer. */
    return t->checkpoint->n_warnings == 0 ||
           dl_fail(err, DL_INPUT, "%s; name another checkpoint to use it",
                   t->checkpoint->warnings[0]);
}

static const char *text_of(const dl_saved_model *t, const char *key) {
    const dlr_state_value *v = t->checkpoint ? dlr_checkpoint_value(t->checkpoint, key) : NULL;
    return v && v->kind == DLR_STATE_TEXT && *v->text ? v->text : NULL;
}

const char *dl_saved_model_name(const dl_saved_model *t) {
    return t->checkpoint ? t->checkpoint->path : t->weights;
}

/* ---- the configuration ---- */

/* The words after the run's own settings, which they override. */
static bool open_config(dl_saved_model *t, dl_error *err) {
    static const dl_option none[] = {{0}};
    const dl_saved_model_options *o = &t->o;
    char **all = DL_NEWS(o->arena, char *, o->n_words + 3);
    int n = 0;
    all[n++] = dl_strdup(o->arena, "dlc");
    if (!o->as_trained) all[n++] = dl_strdup(o->arena, "--local_batch_size=1");
    for (int i = 0; i < o->n_words; i++) all[n++] = o->words[i];
    t->config = dl_config_open(o->arena, n, all, o->options ? o->options : none, err);
    const char *settings = text_of(t, "hyperparams");
    if (t->config && !settings && o->plan)
        dl_config_set_text(t->config, o->plan_path, o->plan->origin.configuration);
    if (!t->config || !settings) return t->config != NULL;
    t->n_warnings = t->config->warnings.n;
    dl_config_set_text(t->config, dl_format(o->arena, "%s/state.json", dl_saved_model_name(t)),
                       settings);
    return true;
}

bool dl_saved_model_find(dl_saved_model *t, const dl_saved_model_options *o, dl_error *err) {
    origin from;
    *t = (dl_saved_model){.o = *o, .n_warnings = -1};
    return find_origin(o, &from, err) && open_checkpoint(t, &from, err) && open_config(t, err);
}

/* ---- the session ---- */

/* The model's file may have been edited since: that is said, and the checkpoint's text is used. */
static void tell_edited(const dl_saved_model *t, const char *text) {
    dl_error none = {0};
    const char *path = t->model_path;
    dl_arena *own = dl_arena_new(t->o.arena);
    const dl_source *file = is_there(path, S_IFREG) ? dl_source_read(own, path, &none) : NULL;
    if (file && (file->n != strlen(text) || memcmp(file->text, text, file->n) != 0))
        dl_console_warning(
            t->o.console,
            dl_format(t->o.arena,
                      "%s is not what the checkpoint was trained with, and is not used: the "
                      "checkpoint's own text is (--model=%s takes the file)",
                      path, path));
    dl_arena_free(own);
}

static bool open_session(dl_saved_model *t, dl_error *err) {
    dl_config *c = t->config;
    const dl_plan *plan = t->o.plan;
    bool said = dl_config_said(c, "model") != NULL;
    const char *text = said ? NULL : text_of(t, "source");
    if (!text && !text_of(t, "hyperparams") && !dl_config_is_given(c, DL_KEY_model) && !plan)
        return dl_fail(err, DL_USAGE,
                       "%s says nothing of its model: --model=FILE.dl, and --config=NAME where it "
                       "has configurations",
                       dl_saved_model_name(t));
    dl_model_text given = {.text = text, .n = text ? strlen(text) : 0};
    bool of_plan = !text && !said && plan;
    if (of_plan) given = dl_origin_model(plan);
    dl_buf faults = {0};
    t->compiler = dl_arena_new(t->o.arena);
    t->session = dl_session_open_text(t->compiler, c, text || of_plan ? &given : NULL,
                                      t->o.ranks ? t->o.ranks : 1, &faults, err);
    if (!t->session) dl_console_diagnostics(t->o.console, faults.at);
    dl_buf_free(&faults);
    if (!t->session) return false;
    t->model_path = t->session->model_path;
    for (int i = 0; i < (t->n_warnings < 0 ? c->warnings.n : t->n_warnings); i++)
        dl_console_warning(t->o.console, c->warnings.at[i]);
    if (text) tell_edited(t, text);
    return dl_samples_resolve(c, err);
}

/* Whether the words say where data are from, so that the checkpoint's record is not of them. */
static bool has_other_data(const dl_config *c) {
    static const dl_key keys[] = {DL_KEY_data, DL_KEY_data_loader_config, DL_KEY_global_means_path,
                                  DL_KEY_global_stds_path};
    bool other = false;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        other |= dl_config_said(c, dl_key_name(keys[i])) != NULL;
    return other;
}

bool dl_saved_model_open(dl_saved_model *t, dl_error *err) {
    const char *record = text_of(t, "data");
    if (!open_session(t, err)) return false;
    if (record && !has_other_data(t->config))
        return dl_data_record_parse(t->o.arena, record, dl_saved_model_name(t), &t->data, err);
    if (t->o.open_data) return t->o.open_data(t->o.arena, t->session, &t->data, err);
    return dl_fail(err, DL_INPUT,
                   "%s has no record of its data%s: `dlrun predict` and `dlc export` take such a "
                   "network",
                   dl_saved_model_name(t),
                   record ? " that these settings are of" : ", as files of weights have none");
}

void dl_saved_model_close_session(dl_saved_model *t) {
    dl_session_close(t->session);
    dl_arena_free(t->compiler);
    t->session = NULL, t->compiler = NULL;
    malloc_trim(0);
}

/* ---- the weights ---- */

/* The checkpoint's mean of the weights, with which it was validated, where it has one. */
static const dlr_st_file *weights_of(const dlr_checkpoint *c, dl_error *err) {
    dl_error none = {0};
    const dlr_st_file *mean = dlr_checkpoint_part_file(c, "ema", &none);
    return mean ? mean : dlr_checkpoint_part_file(c, "model", err);
}

bool dl_saved_model_load(const dl_saved_model *t, dlr_exec *exec, dl_error *err) {
    dlr_tensors model = dlr_tensors_of_model(t->o.arena, exec);
    if (t->weights) return dlr_tensors_load_file(&model, t->weights, err);
    const dlr_st_file *file = weights_of(t->checkpoint, err);
    return file && dlr_tensors_load(&model, file, err);
}

const dlr_st_file *dl_saved_model_tensors(const dl_saved_model *t, dlr_weights *room,
                                          dl_error *err) {
    *room = (dlr_weights){0};
    if (t->checkpoint) return weights_of(t->checkpoint, err);
    return dlr_weights_open(t->weights, room, err) ? room->file : NULL;
}

const char *dl_saved_model_run(const dl_saved_model *t) {
    static const char folder[] = "/checkpoints/";
    const char *path = t->checkpoint ? t->checkpoint->path : "", *at = NULL;
    for (const char *s = path; (s = strstr(s, folder)) != NULL; s++) at = s;
    return at ? dl_strndup(t->o.arena, path, (size_t)(at - path)) : NULL;
}

void dl_saved_model_close(dl_saved_model *t) {
    dlr_checkpoint_close(t->checkpoint);
    dl_session_close(t->session);
    t->checkpoint = NULL, t->session = NULL;
}

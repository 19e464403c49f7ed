/* Lists the differences between a run and the checkpoint that it is to resume from. */
#include <stdlib.h>

#include "runtime/formats/log.h"
#include "runtime/train/run.h"

/* ---- settings: the lines `key: value` of the configuration as YAML ---- */

typedef struct {
    const char *key, *value;
    int key_length, value_length;
} setting;

/* The next setting of a text; sections, which have no value, are passed over. */
static bool next_setting(const char **at, setting *s) {
    while (**at) {
        const char *line = *at + strspn(*at, " "), *end = strchrnul(line, '\n');
        const char *colon = memchr(line, ':', (size_t)(end - line));
        *at = *end ? end + 1 : end;
        if (!colon || colon + 2 >= end || colon[1] != ' ') continue;
        *s = (setting){line, colon + 2, (int)(colon - line), (int)(end - colon - 2)};
        return true;
    }
    return false;
}

static bool is_key(const setting *s, const char *key) {
    return (int)strlen(key) == s->key_length && memcmp(key, s->key, strlen(key)) == 0;
}

static bool is_among(const setting *s, const char *const *keys) {
    for (; keys && *keys; keys++)
        if (is_key(s, *keys)) return true;
    return false;
}

static bool find_setting(const char *yaml, const setting *like, setting *found) {
    while (next_setting(&yaml, found))
        if (found->key_length == like->key_length &&
            memcmp(found->key, like->key, (size_t)like->key_length) == 0)
            return true;
    return false;
}

/* 1 and 1.0 are one number. */
static bool same_value(const setting *a, const setting *b) {
    if (a->value_length == b->value_length &&
        memcmp(a->value, b->value, (size_t)a->value_length) == 0)
        return true;
    char *end_a, *end_b;
    double x = strtod(a->value, &end_a), y = strtod(b->value, &end_b);
    return end_a == a->value + a->value_length && end_b == b->value + b->value_length && x == y;
}

/* The keys that determine the model must agree; other differences are reported. */
static void compare_settings(const dlr_run *r, const char *then, dlr_differences *list) {
    /* Settings of a run's place and speed, which do not affect its numbers. The seed and the sizes
     * of batches have lines of their own. */
    static const char *const passed_over[] = {"resume",
                                              "stop_after",
                                              "expdir",
                                              "run_dir",
                                              "run_num",
                                              "model",
                                              "use_cache",
                                              "seed",
                                              "threads",
                                              "num_data_workers",
                                              "init_weights",
                                              "init_partial",
                                              "keep_checkpoints",
                                              "async_checkpoints",
                                              "sharded_checkpoints",
                                              "save_grads",
                                              "save_weights",
                                              "log_every",
                                              "val_every",
                                              "val_every_epochs",
                                              "save_every",
                                              "save_every_minutes",
                                              "keep_best",
                                              "best_metric",
                                              "best_goal",
                                              NULL};
    const char *at = r->o->log.hyperparams;
    setting now, was;
    while (next_setting(&at, &now)) {
        bool fixed = is_among(&now, r->o->model.keys), known = find_setting(then, &now, &was);
        if (known ? same_value(&now, &was) : !fixed) continue;
        if (is_among(&now, passed_over)) continue;
        const char *line = dl_format(r->arena, "%.*s: %.*s in the checkpoint, %.*s now",
                                     now.key_length, now.key, known ? was.value_length : 7,
                                     known ? was.value : "not set", now.value_length, now.value);
        if (fixed)
            dl_push(r->arena, list, line);
        else
            dlr_log_info("this run is set otherwise: %s", line);
    }
}

/* ---- the model's text, where its graphs are others ---- */

typedef DL_ARRAY(const char *) lines;

static lines split(dl_arena *arena, const char *text) {
    lines all = {0};
    while (*text) {
        const char *end = strchrnul(text, '\n'), *from = text + strspn(text, " \t");
        size_t n = (size_t)(end - from);
        while (n > 0 && strchr(" \t\r", from[n - 1])) n--;
        dl_push(arena, &all, dl_strndup(arena, from, n));
        text = *end ? end + 1 : end;
    }
    return all;
}

/* The lines between those that both texts begin and end with, side by side. */
static void compare_text(const dlr_run *r, const char *then, const char *now,
                         dlr_differences *list) {
    lines a = split(r->arena, then), b = split(r->arena, now);
    int first = 0, ends = 0;
    while (first < a.n && first < b.n && strcmp(a.at[first], b.at[first]) == 0) first++;
    while (ends < a.n - first && ends < b.n - first &&
           strcmp(a.at[a.n - 1 - ends], b.at[b.n - 1 - ends]) == 0)
        ends++;
    for (int i = first; i < a.n - ends || i < b.n - ends; i++) {
        const char *was = i < a.n - ends ? a.at[i] : NULL, *is = i < b.n - ends ? b.at[i] : NULL;
        if (was && is && strcmp(was, is) == 0) continue;
        dl_push(r->arena, list,
                dl_format(r->arena,
                          "the model, line %d: %s%.200s%s in the checkpoint, %s%.200s%s now", i + 1,
                          was ? "'" : "", was ? was : "not there", was ? "'" : "", is ? "'" : "",
                          is ? is : "not there", is ? "'" : ""));
    }
}

/* Text and graphs both differ: the same text makes other graphs only of other settings, or in
 * another version of this program; and a comment, or a name, makes no other model. */
static void compare_model(const dlr_run *r, const dlr_checkpoint *c, dlr_differences *list) {
    const dlr_state_value *graph = dlr_checkpoint_value(c, "graph"),
                          *source = dlr_checkpoint_value(c, "source");
    const dlr_run_model *now = &r->o->model;
    if (!graph || graph->kind != DLR_STATE_TEXT || !source || source->kind != DLR_STATE_TEXT ||
        !now->graph)
        return;
    if (strcmp(graph->text, now->graph) != 0 && strcmp(source->text, now->source) != 0) {
        dl_push(r->arena, list,
                dl_format(r->arena, "the model's graphs: %s in the checkpoint, %s now", graph->text,
                          now->graph));
        compare_text(r, source->text, now->source, list);
    }
}

/* ---- the data's order ---- */

/* In the middle of an epoch its samples must stay the same, as far as the number of batches
 * shows. */
static void compare_samples(const dlr_run *r, const dlr_checkpoint *c, dlr_differences *list) {
    int64_t batch = dlr_checkpoint_integer(c, "batch"),
            batches = dlr_checkpoint_integer(c, "epoch_batches");
    int64_t then = batch * batches, now = r->batches.global_batch * r->batches.epoch_batches;
    if (then <= 0 || (then < now + r->batches.global_batch && now < then + batch)) return;
    dl_push(r->arena, list,
            dl_format(r->arena,
                      "batches an epoch (Nsamples): %lld of %lld in the checkpoint, which is from "
                      "the middle of "
                      "an epoch, %lld of %lld now",
                      (long long)batches, (long long)batch, (long long)r->batches.epoch_batches,
                      (long long)r->batches.global_batch));
}

void dlr_run_compare(const dlr_run *r, const dlr_checkpoint *c, dlr_differences *list) {
    const dlr_state_value *then = dlr_checkpoint_value(c, "hyperparams");
    if (c->state.seed != r->o->start.seed)
        dl_push(r->arena, list,
                dl_format(r->arena, "seed: %llu in the checkpoint, %llu now",
                          (unsigned long long)c->state.seed, (unsigned long long)r->o->start.seed));
    if (c->state.position > 0) compare_samples(r, c, list); /* between epochs others are a choice */
    if (then && then->kind == DLR_STATE_TEXT && r->o->log.hyperparams)
        compare_settings(r, then->text, list);
    compare_model(r, c, list);
}

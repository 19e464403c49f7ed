/* Recipes: which holds, what it sets and what beats it; files that are one configuration; names of
 * models; keys without a meaning here; the configuration as JSON. */
#include "frontends/yaml/config.h"
#include "ir/base/input.h"
#include "ir/base/output.h"
#include "tests/check.h"
#include <stdlib.h>
#include <unistd.h>

static dl_arena *arena;
static char directory[] = "/tmp/dl_recipes_XXXXXX";

static void write_text(const char *path, const char *text) {
    dl_error err = {0};
    dl_input_forget(); /* the cases read and rewrite one file */
    CHECK(dl_write_file(path, text, strlen(text), &err), "%s", err.message);
}

static dl_config *open_line(const char *line, dl_error *err) {
    char *argv[20] = {"prog"};
    int argc = 1;
    for (char *save = NULL, *word = strtok_r(dl_strdup(arena, line), " ", &save); word;
         word = strtok_r(NULL, " ", &save))
        argv[argc++] = word;
    *err = (dl_error){0};
    return dl_config_open(arena, argc, argv, NULL, err);
}

/* From the file on, for a model with the arguments depth and dropout. */
static dl_config *load(dl_config *c, dl_error *err) {
    if (!c || !dl_config_take_model(c, err) || !dl_config_load(c, err)) return NULL;
    static const dl_config_argument arguments[] = {{"depth", DL_CONFIG_INT, 0, "4", {0}},
                                                   {"dropout", DL_CONFIG_FLOAT, 0, "0.5", {0}}};
    for (int i = 0; i < 2; i++)
        if (!dl_config_declare(c, &arguments[i], err)) return NULL;
    return dl_config_finish(c, err) ? c : NULL;
}

/* The whole way with first.yaml of this text. */
static dl_config *configure(const char *yaml, const char *line, dl_error *err) {
    write_text("first.yaml", yaml);
    return load(open_line(dl_format(arena, "first.yaml %s", line), err), err);
}

/* The values that were given stand for file and command line: with them as a text all values are
 * the same, those that nobody gave included, which may still follow from others. */
static void check_given(const dl_config *c) {
    dl_error err;
    dl_buf given = {0}, all = {0}, again = {0};
    dl_config_put_given(c, &given);
    dl_config_put_yaml(c, &all);
    dl_config *d = open_line("", &err);
    dl_config_set_text(d, "given", given.at);
    CHECK(load(d, &err), "%s: %s", given.at, err.message);
    dl_config_put_yaml(d, &again);
    CHECK_STR(again.at, all.at);
    for (int k = 0; k < DL_N_KEYS; k++)
        if (k != DL_KEY_preset && k != DL_KEY_run_dir)
            CHECK(dl_config_is_given(d, (dl_key)k) == dl_config_is_given(c, (dl_key)k), "%s",
                  dl_key_name((dl_key)k));
    dl_buf_free(&given), dl_buf_free(&all), dl_buf_free(&again);
}

static dl_config *configure_ok(const char *yaml, const char *line) {
    dl_error err;
    dl_config *c = configure(yaml, line, &err);
    CHECK(c, "%s, %s: %s", yaml, line, err.message);
    if (!c) return open_line("", &err);
    check_given(c);
    return c;
}

static void check_fault(const char *yaml, const char *line, dl_code code, const char *want) {
    dl_error err;
    CHECK(!configure(yaml, line, &err) && err.code == code, "%s, %s: code %d", yaml, line,
          err.code);
    CHECK(strstr(err.message, want), "got '%s', want '%s'", err.message, want);
}

static void check_preset(const char *yaml, const char *line, const char *want) {
    CHECK_STR(dl_config_str(configure_ok(yaml, line), DL_KEY_preset), want);
}

/* The keys of each system's own files choose its preset; `preset` overrides them. */
static void test_choice(void) {
    check_preset("base: {Nsamples: 64, expdir: x, data_loader_config: lowmem}\n", "", "volumes");
    check_preset("base: {train_data_path: x, num_iters: 3}\n", "", "weather");
    check_preset("base: {max_cosine_lr_epochs: 3, log_to_screen: true}\n", "", "minimal");
    check_preset("base: {max_cosine_lr_epochs: 3}\n", "", "volumes");
    check_preset("base: {log_to_wandb: true, max_cosine_lr_epochs: 3, log_to_screen: true}\n", "",
                 "tracked");
    check_preset("output_dir: x\ntraining: {batch_size: 3}\n", "", "keras");
    check_preset("base: {output_dir: x, preset: weather}\n", "", "weather");
    check_preset("base: {output_dir: x, preset: weather}\n", "--preset=tracked", "tracked");
    check_preset("base: {preset: null, train_data_path: x}\n", "", "weather");
    check_preset("base: {output_dir: x, recipe: weather}\n", "", "weather"); /* its former name */
    check_preset("b: &b {train_data_path: x}\nbase: {<<: *b}\n", "", "weather");
    check_preset("base: {}\n", "--train_data_path=x",
                 "volumes"); /* values of a line choose nothing */
    check_fault(
        "base: {preset: wether}\n", "", DL_INPUT,
        "preset must be one of keras, tracked, minimal, weather, volumes (or null), not 'wether'");
}

/* A preset's values override defaults, and the model's own; the file and the line override them. */
static void test_values(void) {
    dl_config *c = configure_ok("base: {preset: weather}\n", "");
    CHECK(dl_config_float(c, DL_KEY_adam_beta1) == 0.9 &&
              dl_config_float(c, DL_KEY_adam_beta2) == 0.95,
          " ");
    CHECK(!dl_config_is_given(c, DL_KEY_adam_beta2), "nobody gave it");
    CHECK(dl_config_float(configure_ok("base: {}\n", ""), DL_KEY_adam_beta2) == 0.999, " ");
    c = configure_ok("base: {preset: weather, adam_beta2: 0.9}\n", "");
    CHECK(dl_config_float(c, DL_KEY_adam_beta2) == 0.9, " ");
    c = configure_ok("base: {preset: weather, adam_beta2: 0.9}\n", "--adam_beta2=0.8");
    CHECK(dl_config_float(c, DL_KEY_adam_beta2) == 0.8, " ");

    c = configure_ok("base: {preset: tracked}\n", "--root_dir=y");
    CHECK_STR(dl_config_str(c, DL_KEY_run_dir), "{expdir}/expts/{config}/{run_num}");
    CHECK_STR(dl_config_str(c, DL_KEY_expdir), "y");
    CHECK_STR(dl_config_str(c, DL_KEY_run_num), "0");
    CHECK(dl_config_bool(c, DL_KEY_resume) && dl_config_bool(c, DL_KEY_log_norms), " ");
    CHECK(!dl_config_find(c, "data_size"), "an argument of other models");
    CHECK(
        !dl_config_bool(configure_ok("base: {preset: tracked}\n", "--resume=false"), DL_KEY_resume),
        " ");
    /* C's momentum is its SGD's alone, whoever chooses that. */
    static const struct {
        const char *yaml, *line;
        double momentum;
    } of_sgd[] = {{"preset: tracked", "", 0},
                  {"preset: tracked", "--optimizer=sgd", 0.9},
                  {"preset: tracked, optimizer: SGD", "", 0.9},
                  {"preset: tracked, optimizer: sgd", "--optimizer=rmsprop", 0},
                  {"preset: tracked, optimizer: rmsprop, momentum: 0.5", "", 0.5},
                  {"preset: tracked, optimizer: {name: SGD, momentum: 0.5}", "", 0.5},
                  {"preset: tracked", "--optimizer=sgd --momentum=0", 0},
                  {"preset: minimal, optimizer: sgd", "", 0}};
    for (size_t i = 0; i < sizeof of_sgd / sizeof *of_sgd; i++) {
        c = configure_ok(dl_format(arena, "base: {%s}\n", of_sgd[i].yaml), of_sgd[i].line);
        CHECK(dl_config_float(c, DL_KEY_momentum) == of_sgd[i].momentum, "%s %s: %g",
              of_sgd[i].yaml, of_sgd[i].line, dl_config_float(c, DL_KEY_momentum));
        CHECK(!strstr(of_sgd[i].yaml, "momentum") == !dl_config_is_given(c, DL_KEY_momentum) ||
                  *of_sgd[i].line,
              "%s", of_sgd[i].yaml);
    }
    c = configure_ok("base: {preset: minimal}\n", "");
    CHECK_STR(dl_config_str(c, DL_KEY_run_dir), "{expdir}/{config}/{run_num}");
    c = configure_ok("base: {preset: keras}\n", "");
    CHECK_STR(dl_config_str(c, DL_KEY_run_dir), "{expdir}");
    CHECK_STR(dl_config_str(c, DL_KEY_batch_size_of), "rank");
    CHECK_STR(dl_config_str(c, DL_KEY_optimizer_defaults), "keras");
}

/* One configuration without a name, as system E writes it. */
static void test_single(void) {
    dl_config *c =
        configure_ok("description: x\noutput_dir: out\ntraining: {batch_size: 3, n_epochs: 2}\n"
                     "optimizer: {name: Adam, lr: 0.5}\ndevice: {intra_threads: 7}\n"
                     "data: {name: dummy, n_train: 12}\n",
                     "--n_epochs=4");
    CHECK_STR(c->name, "first");
    CHECK(dl_config_int(c, DL_KEY_global_batch_size) == 3 &&
              dl_config_int(c, DL_KEY_num_epochs) == 4,
          " ");
    CHECK(dl_config_float(c, DL_KEY_start_lr) == 0.5 && dl_config_int(c, DL_KEY_threads) == 7, " ");
    CHECK_STR(dl_config_str(c, DL_KEY_expdir), "out");
    CHECK_STR(dl_config_value(c, DL_KEY_data)->text, "dummy");
    CHECK(dl_config_value(c, DL_KEY_limit_nsamples)->integer == 12, " ");

    /* Several configurations, although keys stand next to them: an anchor's place. */
    c = configure_ok("optimizer: &o {lr: 0.5}\nbase: {optimizer: *o}\n", "");
    CHECK_STR(c->name, "base");
    CHECK(dl_config_float(c, DL_KEY_start_lr) == 0.5, " ");
    c = configure_ok("optimizer: &o {lr: 0.5}\nmine: {optimizer: *o}\n", "--config=mine");
    CHECK_STR(c->name, "mine");
    check_fault("output_dir: out\n", "--config=mine", DL_USAGE,
                "--config mine: first.yaml is one configuration, without names");
}

/* `model: NAME` by models/config/names.yaml; a given file wins. */
static void test_names(void) {
    dl_config *c = configure_ok("output_dir: x\nmodel: {name: cnn, depth: 2}\n", "");
    CHECK_STR(dl_config_str(c, DL_KEY_model), "models/cnn_classifier.dl");
    CHECK(dl_config_find(c, "depth")->integer == 2, " ");
    CHECK(dl_config_find(c, "dropout")->number == 0,
          "the name's argument beats the model's default");
    c = configure_ok("output_dir: x\nmodel: {name: cnn, dropout: 0.1}\n", "");
    CHECK(dl_config_find(c, "dropout")->number == 0.1, "and the file beats that");
    c = configure_ok("output_dir: x\nmodel: {name: cnn}\n", "--dropout=0.2");
    CHECK(dl_config_find(c, "dropout")->number == 0.2, " ");
    c = configure_ok("output_dir: x\nmodel: {name: resnet50}\n", "my.dl");
    CHECK_STR(dl_config_str(c, DL_KEY_model), "my.dl");
    CHECK(dl_config_find(c, "dropout")->number == 0.5, " ");
    c = configure_ok("base: {preset: tracked, model: cnn}\n", "");
    CHECK_STR(dl_config_str(c, DL_KEY_model), "models/cnn_regressor.dl");
    c = configure_ok("base: {model: models/vit.dl}\n", "");
    CHECK_STR(dl_config_str(c, DL_KEY_model), "models/vit.dl");
    check_fault("output_dir: x\nmodel: {name: resnet51}\n", "", DL_INPUT,
                "first.yaml:2:15: error: model: 'resnet51' is no file X.dl, and no model of preset "
                "keras (did you "
                "mean 'resnet50'?); ");
    check_fault("base: {model: cnn}\n", "", DL_INPUT, "no model of preset volumes");
}

/* Keys of the five systems that mean nothing are named once; others stay errors. */
static void test_ignored(void) {
    dl_config *c =
        configure_ok("description: x\noutput_dir: x\ntraining: {loss: mse, metrics: [a]}\n"
                     "device: {inter_threads: 2, gpu: 0}\n",
                     "");
    CHECK(c->warnings.n == 1, "%d", c->warnings.n);
    CHECK_STR(c->warnings.at[0],
              "first.yaml: without a meaning here, and passed over: description, loss, metrics, "
              "inter_threads, gpu");
    check_fault("output_dir: x\ntraining: {metric: [a]}\n", "", DL_INPUT,
                "first.yaml:2:12: error: unknown key 'metric' in training");
    check_fault("base: {}\n", "--loss=mse", DL_USAGE, "unknown option '--loss'");
}

static void test_json(void) {
    setenv("DL_TAB", "a\tb\"c\\", 1);
    dl_config *c = configure_ok(
        "base: {lr: 7.07e-4, expdir: $DL_TAB, lr_schedule: {warmup_steps: 3}, depth: 9}\n", "");
    dl_buf b = {0};
    dl_config_put_json(c, &b);
    static const char *const want[] = {
        ("{\"config\": \"base\", \"model\": \"models/unet.dl\", \"preset\": \"volumes\", "
         "\"recipe\": \"volumes\", "),
        ", \"global_batch_size\": 64, \"batch_size\": 64, ",
        ", \"num_epochs\": 10, \"max_epochs\": 10, \"n_epochs\": 10, \"num_iters\": null, ",
        ", \"expdir\": \"a\\u0009b\\\"c\\\\\", \"root_dir\": \"a",
        ", \"lr_schedule\": \"warmup_cosine\", \"scaling\": \"none\", ",
        "\"start_lr\": 0.000707, \"lr\": 0.000707, ",
        ", \"warmup_steps\": 3, \"warmup\": 3, ",
        ", \"adam_eps\": null, ",
        ", \"depth\": 9, \"dropout\": 0.5}"};
    const char *from = b.at;
    for (size_t i = 0; from && i < sizeof want / sizeof *want; i++) {
        const char *at = strstr(from, want[i]);
        CHECK(at, "no '%s' in order in:\n%s", want[i], b.at);
        from = at;
    }
    dl_buf_free(&b);
    c = configure_ok(
        "output_dir: x\ntraining: {lr_schedule: [{start_epoch: 5, multiplier: 0.1}]}\n", "");
    dl_config_put_json(c, &b);
    CHECK(strstr(b.at, "\"lr_schedule\": [{\"start_epoch\": 5, \"multiplier\": 0.1}]"), "%s", b.at);
    dl_buf_free(&b);
}

int main(void) {
    if (!mkdtemp(directory) || chdir(directory) != 0) return 1;
    arena = dl_arena_new(NULL);
    test_choice();
    test_values();
    test_single();
    test_names();
    test_ignored();
    test_json();
    dl_arena_free(arena);
    unlink("first.yaml");
    CHECK(chdir("/") == 0 && rmdir(directory) == 0, "%s stays", directory);
    return dl_test_end();
}

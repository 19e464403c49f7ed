/* The configuration: layers and their order, checks, the command line, the model's arguments, what
 * is printed; the U-Net's own file; --help. */
#include "frontends/yaml/config.h"
#include "frontends/yaml/data_file.h"
#include "ir/base/dirs.h"
#include "ir/base/input.h"
#include "ir/base/output.h"
#include "tests/check.h"
#include <stdlib.h>
#include <unistd.h>

static dl_arena *arena;
static char directory[] = "/tmp/dl_config_XXXXXX";

static const dl_option options[] = {
    {"json", 0, NULL, "machine-readable output"},
    {"output", 'o', "FILE", "where the plan goes"},
    {"passes", 0, "[LIST]", "what runs"},
    {"help", 'h', NULL, "this text"},
    {0},
};

static void write_text(const char *path, const char *text) {
    dl_error err = {0};
    dl_input_forget(); /* the cases read and rewrite one file */
    CHECK(dl_write_file(path, text, strlen(text), &err), "%s", err.message);
}

/* Opens a command line written as one string with blanks between the arguments. */
static dl_config *open_line(const char *line, dl_error *err) {
    char *argv[40] = {"prog"};
    int argc = 1;
    for (char *save = NULL, *word = strtok_r(dl_strdup(arena, line), " ", &save); word;
         word = strtok_r(NULL, " ", &save))
        argv[argc++] = word;
    *err = (dl_error){0};
    return dl_config_open(arena, argc, argv, options, err);
}

/* The whole way: command line, f.yaml with this text (NULL: as it is), the end. NULL and the error
 * when one fails. */
static dl_config *configure(const char *yaml, const char *line, dl_error *err) {
    if (yaml) write_text("f.yaml", yaml);
    dl_config *c = open_line(dl_format(arena, "--yaml_config f.yaml %s", line), err);
    return c && dl_config_load(c, err) && dl_config_finish(c, err) ? c : NULL;
}
static dl_config *configure_ok(const char *yaml, const char *line) {
    dl_error err;
    dl_config *c = configure(yaml, line, &err);
    CHECK(c, "%s: %s", line, err.message);
    return c ? c : open_line("", &err);
}

static void check_fault(const char *yaml, const char *line, dl_code code, const char *want) {
    dl_error err;
    CHECK(!configure(yaml, line, &err) && err.code == code, "%s, %s: code %d", yaml ? yaml : "",
          line, err.code);
    CHECK(strstr(err.message, want), "got '%s', want '%s'", err.message, want);
}
static void check_file_fault(const char *keys, const char *want) {
    check_fault(dl_format(arena, "base:\n%s\n", keys), "", DL_INPUT, want);
}
static void check_line_fault(const char *line, const char *want) {
    check_fault("base: {}\n", line, DL_USAGE, want);
}

/* ---- layers ---- */

static void test_order(void) {
    dl_error err;
    dl_config *c = open_line("", &err);
    CHECK(dl_config_int(c, DL_KEY_num_epochs) == 10 && !dl_config_is_given(c, DL_KEY_num_epochs),
          " ");
    CHECK(dl_config_is_null(c, DL_KEY_box_size) && dl_config_is_null(c, DL_KEY_local_batch_size),
          " ");
    CHECK_STR(c->name, "base");

    const char *yaml = "base: &base\n"
                       "  num_epochs: 3\n"
                       "  lr_schedule: &lr {start_lr: 2.E-4, scaling: sqrt}\n"
                       "other:\n"
                       "  <<: *base\n"
                       "  num_epochs: 4\n"
                       "  lr_schedule: {<<: *lr, start_lr: 5E-4}\n"
                       "  box_size: [80, 40]\n";
    c = configure_ok(yaml, "");
    CHECK(dl_config_int(c, DL_KEY_num_epochs) == 3 && dl_config_is_given(c, DL_KEY_num_epochs),
          " ");
    CHECK(dl_config_float(c, DL_KEY_start_lr) == 2e-4, " ");
    c = configure_ok(yaml, "--config other --Nsamples=96");
    CHECK(dl_config_int(c, DL_KEY_num_epochs) == 4 && dl_config_int(c, DL_KEY_Nsamples) == 96, " ");
    CHECK(dl_config_float(c, DL_KEY_start_lr) == 5e-4, " ");
    CHECK_STR(dl_config_str(c, DL_KEY_scaling), "sqrt");
    CHECK(dl_config_value(c, DL_KEY_box_size)->items.at[1]->integer == 40, " ");
    c = configure_ok(yaml,
                     "--config=other --num_epochs=5 --start_lr=1e-3 --num_epochs=6 --box_size=64");
    CHECK(dl_config_int(c, DL_KEY_num_epochs) == 6 && dl_config_float(c, DL_KEY_start_lr) == 1e-3,
          " ");
    CHECK_STR(dl_config_str(c, DL_KEY_scaling),
              "sqrt"); /* a leaf from the line leaves its section's others alone */
    CHECK(dl_config_value(c, DL_KEY_box_size)->integer == 64, " ");

    /* What the command line overrides is not looked at. */
    c = configure_ok("base: {expdir: $DL_NOWHERE/x}\n", "--expdir=here");
    CHECK_STR(dl_config_str(c, DL_KEY_expdir), "here");

    CHECK(dl_config_set(c, DL_KEY_global_batch_size, "12", &err) &&
              dl_config_int(c, DL_KEY_global_batch_size) == 12,
          " ");
    CHECK(!dl_config_set(c, DL_KEY_global_batch_size, "0", &err) &&
              strstr(err.message, "--global_batch_size=0"),
          " ");
    err = (dl_error){0};
    dl_config_fail(c, DL_KEY_box_size, &err, "64 is more than the file's %d", 32);
    CHECK_STR(err.message, "box_size: 64 is more than the file's 32");
    c = configure_ok("base:\n  box_size: 128\n", "");
    err = (dl_error){0};
    dl_config_fail(c, DL_KEY_box_size, &err, "too large");
    CHECK_STR(err.message, "f.yaml:2:13: error: box_size: too large");
}

/* Which configuration holds where nobody says, and which of two names of one key. */
static void test_choice(void) {
    CHECK_STR(configure_ok("x: {}\ndefault: {}\nbase: {}\n", "")->name, "base");
    CHECK_STR(configure_ok("x: {}\ndefault: {}\n", "")->name, "default");
    CHECK_STR(configure_ok("anchor: &a 3\nx: {seed: *a}\ny: {}\n", "")->name, "x");
    CHECK_STR(configure_ok("base: {}\ny: {}\n", "--config y")->name, "y");

    dl_config *c = configure_ok("base: {lr: 5E-4, warmup: 7, max_epochs: 3, batch_size: 12}\n",
                                "--n_epochs=9");
    CHECK(dl_config_float(c, DL_KEY_start_lr) == 5e-4 && dl_config_int(c, DL_KEY_warmup_steps) == 7,
          " ");
    CHECK(dl_config_int(c, DL_KEY_global_batch_size) == 12 &&
              dl_config_int(c, DL_KEY_num_epochs) == 9,
          " ");
    c = configure_ok(
        "b: &b {lr: 1, num_epochs: 1}\nbase:\n  <<: *b\n  start_lr: 2\n  n_epochs: 2\n",
        "--config base"); /* the configuration's own name of the key, not the merged one */
    CHECK(dl_config_float(c, DL_KEY_start_lr) == 2 && dl_config_int(c, DL_KEY_num_epochs) == 2,
          " ");
    check_line_fault("--lr=-1", "--lr=-1: lr_schedule.start_lr must be a number of at least 0");
}

/* Maps group keys, whatever they are called; one under a key's name sets the key by `name`. */
static void test_groups(void) {
    dl_error err;
    dl_config *c = configure_ok(
        "base: {training: {batch_size: 3, n_epochs: 2}, optimizer: {name: SGD, lr: 0.5}}\n", "");
    CHECK(dl_config_int(c, DL_KEY_global_batch_size) == 3 &&
              dl_config_int(c, DL_KEY_num_epochs) == 2,
          " ");
    CHECK_STR(dl_config_str(c, DL_KEY_optimizer), "sgd");
    CHECK(dl_config_float(c, DL_KEY_start_lr) == 0.5, " ");
    c = configure_ok("base: {optimizer: Adam}\n", "--optimizer=name=SGD,lr=0.01,momentum=0.9");
    CHECK_STR(dl_config_str(c, DL_KEY_optimizer), "sgd");
    CHECK(dl_config_float(c, DL_KEY_start_lr) == 0.01 && dl_config_float(c, DL_KEY_momentum) == 0.9,
          " ");
    c = configure_ok("base: {}\n", "--optimizer=lr=0.25 --optimizer={batch_size:\t8}");
    CHECK_STR(dl_config_str(c, DL_KEY_optimizer), "adam");
    CHECK(dl_config_float(c, DL_KEY_start_lr) == 0.25 &&
              dl_config_int(c, DL_KEY_global_batch_size) == 8,
          " ");
    c = configure_ok("base: {lr_schedule: cosine, lr: 1}\n", "");
    CHECK_STR(dl_config_value(c, DL_KEY_lr_schedule)->text, "cosine");
    c = configure_ok("base: {lr_schedule: {name: NONE, start_lr: 2}}\n", "--use_cache=a=b,c");
    CHECK_STR(dl_config_value(c, DL_KEY_lr_schedule)->text, "none");
    CHECK_STR(dl_config_str(c, DL_KEY_use_cache), "a=b,c"); /* a path is no list of keys */
    c = configure_ok(
        "base: {lr_schedule: [{start_epoch: 0, end_epoch: 3, multiplier: 1.}, {start_epoch: 3, "
        "multiplier: 1.e-1}]}\n",
        "");
    CHECK(dl_config_value(c, DL_KEY_lr_schedule)->items.n == 2, " ");

    check_line_fault("--optimizer=name=SGD,lrr=1",
                     "unknown key 'lrr' in optimizer; did you mean 'lr'?");
    check_line_fault("--optimizer=name=lion", "must be one of adam, adamw, sgd, rmsprop, ");
    check_line_fault("--optimizer=name=lion", ", radam, not 'lion'");
    check_line_fault("--optimizer=RMSProb", "not 'RMSProb'; did you mean 'rmsprop'?");
    check_file_fault("  optimizer: {name: Adagard, lr: 0.1}",
                     "f.yaml:2:21: error: optimizer must be one of");
    check_file_fault("  optimizer: {name: Adagard, lr: 0.1}",
                     "not 'Adagard'; did you mean 'adagrad'?");
    check_file_fault("  lr_schedule: {name: Kosine}",
                     "f.yaml:2:23: error: lr_schedule must be one of");
    check_file_fault("  lr_schedule: {name: Kosine}", "not 'Kosine'; did you mean 'cosine'?");
    check_line_fault("--lr_schedule.num_epochs=3", "unknown option '--lr_schedule.num_epochs'");
    check_file_fault("  training: {n_epoch: 3}",
                     "f.yaml:2:14: error: unknown key 'n_epoch' in training; did you mean");
    check_file_fault("  lr_schedule: {num_epochs: 3}", "unknown key 'num_epochs' in lr_schedule");
    const char *ranges[] = {"[]",
                            "[1]",
                            "[{start_epoch: 1}]",
                            "[{start_epoch: -1, multiplier: 1}]",
                            "[{start_epoch: 2, end_epoch: 2, multiplier: 1}]",
                            "[{start_epoch: 1, multiplier: -1}]",
                            "[{start_epoch: 1, multiplier: .inf}]",
                            "[{start_epoch: 1, multiplier: 1, end: 3}]"};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        check_file_fault(dl_format(arena, "  lr_schedule: %s", ranges[i]),
                         "cosine, none, or a list of {start_epoch, end_epoch, multiplier}");
    c = open_line("--lr=1", &err);
    CHECK(dl_config_outranks(c, DL_KEY_start_lr, DL_KEY_end_lr) &&
              !dl_config_outranks(c, DL_KEY_end_lr, DL_KEY_seed),
          " ");
}

/* Keras' and PyTorch's names of an optimiser and of its options, which are keys within that map
 * alone. */
static void test_within(void) {
    static const char *const names[][2] = {
        {"RMSprop", "rmsprop"},   {"Adagrad", "adagrad"}, {"NAdam", "nadam"},
        {"Adadelta", "adadelta"}, {"Adamax", "adamax"},   {"Nadam", "nadam"},
        {"RAdam", "radam"},       {"AdamW", "adamw"},     {"SGD", "sgd"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        dl_config *c =
            configure_ok(dl_format(arena, "base: {optimizer: {name: %s}}\n", names[i][0]), "");
        CHECK_STR(dl_config_str(c, DL_KEY_optimizer), names[i][1]);
    }
    dl_config *c = configure_ok(
        "base: {optimizer: {name: Adam, learning_rate: 0.5, betas: [0.8, 0.7], eps: 1e-3,\n"
        "  alpha: 0.6, centered: true, lr_decay: 2, initial_accumulator_value: 3, momentum_decay: "
        "4}}\n",
        "");
    CHECK(dl_config_float(c, DL_KEY_start_lr) == 0.5 &&
              dl_config_float(c, DL_KEY_adam_beta1) == 0.8 &&
              dl_config_float(c, DL_KEY_adam_beta2) == 0.7 &&
              dl_config_float(c, DL_KEY_optimizer_eps) == 1e-3 &&
              dl_config_float(c, DL_KEY_optimizer_rho) == 0.6 &&
              dl_config_bool(c, DL_KEY_rmsprop_centered),
          " ");
    CHECK(dl_config_float(c, DL_KEY_adagrad_lr_decay) == 2 &&
              dl_config_float(c, DL_KEY_nadam_momentum_decay) == 4 &&
              dl_config_float(c, DL_KEY_adagrad_initial_accumulator) == 3,
          " ");
    c = configure_ok(
        "base: {optimizer: {epsilon: 1e-3, beta_1: 0.5, rho: 0.4, schedule_decay: 1}}\n",
        "--optimizer.epsilon=1e-4 --optimizer=name=Adam,betas=[0.1,0.2]");
    CHECK(dl_config_float(c, DL_KEY_optimizer_eps) == 1e-4 &&
              dl_config_float(c, DL_KEY_adam_beta1) == 0.1 &&
              dl_config_float(c, DL_KEY_adam_beta2) == 0.2 &&
              dl_config_float(c, DL_KEY_optimizer_rho) == 0.4 &&
              dl_config_float(c, DL_KEY_nadam_momentum_decay) == 1,
          " ");
    CHECK(dl_config_is_null(configure_ok("base: {}\n", ""), DL_KEY_optimizer_eps),
          "each optimiser has its own");
    CHECK(!dl_config_reserved("alpha") && !dl_config_reserved("eps"),
          "models may have such arguments");
    check_line_fault("--optimizer=name=Adam,epsilom=1",
                     "unknown key 'epsilom' in optimizer; did you mean 'epsilon'?");
    check_line_fault("--eps=1", "unknown option '--eps'");
    check_line_fault("--optimizer.betas=0.9",
                     "--optimizer.betas=0.9: optimizer.betas must be a list of 2 numbers, not");
    check_file_fault("  optimizer: {betas: [1, 2, 3]}",
                     "f.yaml:2:22: error: optimizer.betas must be a list of 2 numbers");
    check_file_fault("  optimizer: {betas: [0.5, 2]}",
                     "f.yaml:2:28: error: adam_beta2 must be a number from 0 to 0.999999");
}

static void test_values(void) {
    dl_config *c =
        configure_ok("base: {run_num: 007, expdir: 12, use_cache: 'None', weight_decay: 2,\n"
                     "  scheduler: None, enable_amp: !!bool yes}\n",
                     "");
    CHECK_STR(dl_config_str(c, DL_KEY_run_num), "007"); /* as written, not as the number 7 */
    CHECK_STR(dl_config_str(c, DL_KEY_expdir), "12");
    CHECK(!dl_config_str(c, DL_KEY_use_cache) && dl_config_is_null(c, DL_KEY_scheduler), " ");
    CHECK(dl_config_float(c, DL_KEY_weight_decay) == 2 && dl_config_bool(c, DL_KEY_enable_amp),
          " ");

    setenv("DL_SCRATCH", "/scratch/me", 1);
    unsetenv("DL_NOWHERE");
    c = configure_ok("base: {expdir: $DL_SCRATCH/runs, train_path: '${DL_SCRATCH}2/a.h5', run_num: "
                     "a$$DL_NOWHERE$-$5}\n",
                     "--val_path=$DL_SCRATCH");
    CHECK_STR(dl_config_str(c, DL_KEY_expdir), "/scratch/me/runs");
    CHECK_STR(dl_config_str(c, DL_KEY_train_path), "/scratch/me2/a.h5");
    CHECK_STR(dl_config_str(c, DL_KEY_run_num), "a$DL_NOWHERE$-$5");
    CHECK_STR(dl_config_str(c, DL_KEY_val_path), "/scratch/me");
    /* One that is not set stays as it stands, is warned of, and refused where it would be written
     * to. */
    c = configure_ok(
        "base: {expdir: '${DL_NOWHERE}/x', val_path: a$DL_NOWHERE, train_path: $$DL_NOWHERE}\n",
        "");
    CHECK_STR(dl_config_str(c, DL_KEY_expdir), "${DL_NOWHERE}/x");
    CHECK_STR(dl_config_str(c, DL_KEY_val_path), "a$DL_NOWHERE");
    CHECK(c->warnings.n == 2, "%d", c->warnings.n);
    CHECK_STR(c->warnings.at[0], "expdir: the environment variable DL_NOWHERE is not set, and "
                                 "stands as it is: ${DL_NOWHERE}/x");
    /* In every string of a value of several, which reads back as it is. */
    c = configure_ok(
        "base: {data: {inputs: {x: [$DL_SCRATCH/a, {file: b$DL_NOWHERE}]}, split: {valid: 0.1}}}\n",
        "");
    const dl_yaml *x = dl_yaml_get(dl_yaml_get(dl_config_value(c, DL_KEY_data), "inputs"), "x");
    CHECK_STR(x->items.at[0]->text, "/scratch/me/a");
    CHECK(c->warnings.n == 1 &&
              strstr(c->warnings.at[0], "data: the environment variable DL_NOWHERE"),
          " ");
    dl_buf text = {0};
    dl_config_put_yaml(c, &text);
    CHECK(strstr(text.at,
                 "  data: {'inputs': {'x': ['/scratch/me/a', {'file': 'b$$DL_NOWHERE'}]}, 'split': "
                 "{'valid': 0.1}}\n"),
          "%s", text.at);
    dl_buf_free(&text);
    /* A value of `data` is a name, or a map by its shape; E's map groups keys. */
    c = configure_ok("base: {data: {name: dummy, n_train: 5}}\n", "");
    CHECK_STR(dl_config_value(c, DL_KEY_data)->text, "dummy");
    c = configure_ok("base: {data: {targets: {t: a}}}\n", "");
    CHECK(dl_config_value(c, DL_KEY_data)->kind == DL_YAML_MAP, " ");
    check_file_fault("  data: {inptus: {x: a}}", "unknown key 'inptus' in data");
    check_file_fault("  data: [a]", "or a map of inputs, targets and split");
    c = configure_ok("base: {expdir: '${DL_NOWHERE}/x', train_path: $$DL_NOWHERE}\n", "");

    dl_error err = {0};
    CHECK(dl_config_check_written(c, DL_KEY_train_path, &err), "a '$' of its own: %s", err.message);
    CHECK(!dl_config_check_written(c, DL_KEY_expdir, &err), " ");
    CHECK_STR(err.message,
              "f.yaml:1:16: error: expdir: the run writes to ${DL_NOWHERE}/x, and the environment "
              "variable DL_NOWHERE is not set");
    CHECK(configure_ok("base: {expdir: $DL_NOWHERE}\n", "--expdir=x")->warnings.n == 0,
          "it does not hold");

    /* A path of no letters, as systems B and C write it, is null where that is allowed. */
    c = configure_ok("base: {train_path: '', val_path: null}\n", "");
    CHECK(dl_config_is_null(c, DL_KEY_train_path), " ");
    check_file_fault("  expdir: ''", "f.yaml:2:11: error: expdir must be a path, not ''");
}

static void test_file_faults(void) {
    check_file_fault(
        "  num_epochs: minus_one",
        "f.yaml:2:15: error: num_epochs must be an integer from 1 to 1000000, not 'minus_one'");
    check_file_fault("  num_epochs: 0", "num_epochs must be an integer from 1");
    check_file_fault("  num_epochs: 4.0", "not '4.0'");
    check_file_fault("  num_epochs: '4'", "not '4' (a string: take off the quotes)");
    check_file_fault("  num_epochs: 1_000", "not '1_000'");
    check_file_fault("  num_epochs: null",
                     "num_epochs must be an integer from 1 to 1000000, not null");
    check_file_fault("  num_epochs: [1]", "not [1]");
    check_file_fault("  Nsamples: 99999999999999999999",
                     "Nsamples must be an integer from 1 to 2147483647, not '9");
    check_file_fault("  enable_amp: yes",
                     "f.yaml:2:15: error: enable_amp must be true or false, not 'yes'");
    check_file_fault("  enable_amp: 1", "enable_amp must be true or false");
    check_file_fault("  resume: yes",
                     "f.yaml:2:11: error: resume must be true, false, or a path, not 'yes'");
    check_file_fault(
        "  lr_schedule: {start_lr: .nan}",
        "f.yaml:2:27: error: lr_schedule.start_lr must be a number of at least 0, not '.nan'");
    check_file_fault("  lr_schedule: {start_lr: -1e-4}",
                     "lr_schedule.start_lr must be a number of at least 0");
    check_file_fault("  lr_schedule: {end_lr: .inf}", "lr_schedule.end_lr must be");
    check_file_fault("  lr_schedule: {start_lr: 1e999}", "lr_schedule.start_lr must be");
    check_file_fault("  lr_schedule: {scaling: sqr}",
                     "scaling must be one of none, linear, sqrt, not 'sqr'");
    check_file_fault("  lr_schedule: {scaling: None}", "one of none, linear, sqrt, not null");
    check_file_fault("  lr_schedule: {scaling: 'none|linear'}", "not 'none|linear'");
    check_file_fault("  lr_schedule: 5",
                     "f.yaml:2:16: error: lr_schedule must be one of warmup_cosine, cosine, none, "
                     "or a list of {start_epoch, end_epoch, multiplier}, not '5'");
    check_file_fault("  lr_schedule: cosin", "not 'cosin'");
    check_file_fault("  box_size: [80]",
                     "box_size must be an integer, or [training, validation], from 1");
    check_file_fault("  box_size: [80, 0]", "not [80, 0]");
    check_file_fault("  expdir: ''", "expdir must be a path, not ''");
    check_file_fault("  expdir: {a: 1}", "expdir must be a path, not a map");
    check_file_fault("  data_loader_config: dalli",
                     "one of synthetic, inmem, lowmem, dali-lowmem, pytorch, "
                     "dali, cifar10, image_folder, own, not 'dalli'");

    const char *three = "base: {}\nshort: {}\ntext: 5\nshort_opt: {}\n";
    check_fault(three, "--config shrt", DL_USAGE,
                "f.yaml has no configuration 'shrt' (did you mean 'short'?); it has base, short, "
                "short_opt");
    check_fault(three, "--config text", DL_INPUT,
                "f.yaml:3:7: error: the configuration 'text' must be a map");
    check_fault("short: 3\n", "", DL_INPUT, "f.yaml has no configuration 'base'; it has none");
    check_fault("5\n", "", DL_INPUT,
                "f.yaml:1:1: error: a configuration file is a map of named configurations");
    check_fault("", "", DL_INPUT, "f.yaml:1:1: error: a configuration file is a map");
    check_fault("base: &b\n  a: [1, 2\n", "", DL_INPUT, "f.yaml:2:6: error: ");
    check_fault("base: {}\n", "--yaml_config none.yaml", DL_IO, "none.yaml");
}

static void test_unknown(void) {
    check_fault("x: &x\n  num_epoch: 3\nbase:\n  <<: *x\n  sead: 1\n", "--config base", DL_INPUT,
                "f.yaml:5:3: error: unknown key 'sead'; did you mean 'seed'? (and 1 more)");
    check_fault("x: &x\n  num_epoch: 3\nbase:\n  <<: *x\n", "--config base", DL_INPUT,
                "f.yaml:2:3: error: unknown key 'num_epoch'; did you mean 'num_epochs'?");
    check_file_fault(
        "  start_rl: 1",
        "f.yaml:2:3: error: unknown key 'start_rl'; did you mean 'lr_schedule.start_lr'?");
    check_file_fault("  warmups: 1",
                     "unknown key 'warmups'; did you mean 'warmup'?"); /* another name of it */
    check_file_fault("  qqqqqqqq: 1", "f.yaml:2:3: error: unknown key 'qqqqqqqq'");
    check_file_fault("  full_scale: true",
                     "unknown key 'full_scale'"); /* no model declares it here */
}

/* ---- the command line ---- */

static void test_line(void) {
    dl_error err;
    dl_config *c = open_line(
        "compile --json m.dl -o x --enable_amp --enable_jit=false --enable_apex true --noddp m2 "
        "--weight_decay -0 --lr_schedule.end_lr=1e-6 --warmup_steps 5 --box_size=[80,40] "
        "--use_cache=None --run_num null -- --not_an_option -",
        &err);
    CHECK(c, "%s", err.message);
    if (!c) return;
    CHECK(c->positional.n == 5, "%d", c->positional.n);
    CHECK_STR(c->positional.at[1], "m.dl");
    CHECK_STR(c->positional.at[2], "m2");
    CHECK_STR(c->positional.at[3], "--not_an_option");
    CHECK_STR(dl_config_option(c, "json"), "");
    CHECK_STR(dl_config_option(c, "output"), "x");
    CHECK(!dl_config_option(c, "help"), " ");
    CHECK(dl_config_bool(c, DL_KEY_enable_amp) && !dl_config_bool(c, DL_KEY_enable_jit), " ");
    CHECK(dl_config_bool(c, DL_KEY_enable_apex) && dl_config_bool(c, DL_KEY_noddp), " ");
    CHECK(dl_config_float(c, DL_KEY_end_lr) == 1e-6 && dl_config_int(c, DL_KEY_warmup_steps) == 5,
          " ");
    CHECK(dl_config_value(c, DL_KEY_box_size)->items.n == 2 && !dl_config_str(c, DL_KEY_use_cache),
          " ");
    CHECK_STR(dl_config_str(c, DL_KEY_run_num), "null"); /* a string that may not be null */

    CHECK_STR(dl_config_option(open_line("--passes=", &err), "passes"), "");
    c = open_line("-ofile --output=file2 -h", &err);
    CHECK_STR(dl_config_option(c, "output"), "file2");
    CHECK_STR(dl_config_option(c, "help"), "");

    c = open_line("--lr_schedule={start_lr:\t1e-3,scaling:\tlinear}", &err);
    CHECK(c && dl_config_float(c, DL_KEY_start_lr) == 1e-3, "%s", err.message);
    if (c) CHECK_STR(dl_config_str(c, DL_KEY_scaling), "linear");

    check_line_fault("--num_epochs=minus_one",
                     "--num_epochs=minus_one: num_epochs must be an integer");
    check_line_fault("--num_epochs -3", "--num_epochs -3: num_epochs must be an integer");
    check_line_fault("--local_batch_size=0",
                     "--local_batch_size=0: local_batch_size must be an integer from 1");
    check_line_fault("--num_epochs --noddp",
                     "--num_epochs: a value is missing: num_epochs must be an integer");
    check_line_fault("--num_epochs", "--num_epochs: a value is missing");
    check_line_fault("--start_lr=nan",
                     "--start_lr=nan: lr_schedule.start_lr must be a number of at least 0");
    check_line_fault("--start_lr=.nan", "lr_schedule.start_lr must be");
    check_line_fault("--start_lr=-1", "lr_schedule.start_lr must be");
    check_line_fault("--enable_amp=maybe", "enable_amp must be true or false, not 'maybe'");
    check_line_fault("--enable_amp=", "enable_amp must be true or false, not an empty value");
    check_line_fault("--train_path=", "train_path must be a path (or null), not ''");
    check_line_fault("--box_size=[1,2", "--box_size=[1,2: while parsing a flow sequence");
    check_line_fault("--num_epoch=3", "unknown option '--num_epoch'; did you mean '--num_epochs'?");
    check_line_fault("--learning_rate=3", "unknown option '--learning_rate'; did you mean '--lr'?");
    check_line_fault(
        "--sweep_config=s.yaml",
        "unknown option '--sweep_config'; `dlrun sweep FILE.yaml` takes a sweep's file");
    check_line_fault("--accumulate_grad_batches=2",
                     "gradients are not added up over several batches");
    check_line_fault("--epochs=3", "unknown option '--epochs'; did you mean '--num_epochs'?");
    check_line_fault("--jsn", "did you mean '--json'?");
    check_line_fault("--confg=x", "did you mean '--config'?");
    check_line_fault("-x", "unknown option '-x'");
    check_line_fault("--json=1", "--json takes no value");
    check_line_fault("-o", "-o needs a value: -o FILE");
    check_line_fault("--config", "--config needs a value");
    check_line_fault("--output=", "--output needs a value that is not empty: --output FILE");
    check_line_fault("--yaml_config=", "--yaml_config needs a value that is not empty");
    check_line_fault("--run_num=..",
                     "run_num must be a folder's name (without '/', not '..'), not '..'");
    check_line_fault("--run_num=../../x", "run_num must be a folder's name");
    check_line_fault("--run_num=", "run_num must be a folder's name");
    check_line_fault("--threads=5000", "--threads=5000: threads must be an integer from 0 to 1024");
    check_line_fault("--num_data_workers=257", "num_data_workers must be an integer from 0 to 256");
    check_line_fault("--adam_beta2=1", "adam_beta2 must be a number from 0 to 0.999999");
    check_line_fault("--expdir=${NOPE",
                     "--expdir=${NOPE: expdir: '${NOPE' is no variable: ${NAME}");
    check_line_fault("--expdir=a/${}/b", "expdir: '${}/b' is no variable");
    check_line_fault("--lr_schedule=5",
                     "--lr_schedule=5: lr_schedule must be one of warmup_cosine, cosine, none");
    check_line_fault("--lr_schedule={start:\t1}", "no key 'start' in lr_schedule");
    check_line_fault("--lr_schedule={start_lr:\t-1}", "lr_schedule.start_lr must be");
}

static void test_model(void) {
    dl_error err;
    dl_config *c = open_line("a.yaml m.dl", &err); /* a configuration file, wherever it stands */
    CHECK(dl_config_take_model(c, &err), "%s", err.message);
    CHECK_STR(dl_config_str(c, DL_KEY_model), "m.dl");
    c = open_line("a.yaml b.yml", &err);
    CHECK(!dl_config_take_model(c, &err) && err.code == DL_USAGE, " ");
    CHECK_STR(err.message, "one configuration file at a time: 'a.yaml' and 'b.yml'");
    c = open_line("a.yaml --yaml_config=b.yaml", &err);
    CHECK(!dl_config_take_model(c, &err) && err.code == DL_USAGE, " ");
    CHECK_STR(err.message, "one configuration file at a time: 'a.yaml' and --yaml_config=b.yaml");
    c = open_line("", &err);
    CHECK(dl_config_take_model(c, &err), "%s", err.message);
    CHECK_STR(dl_config_str(c, DL_KEY_model), "models/unet.dl");
    c = open_line("m.dl", &err);
    CHECK(dl_config_take_model(c, &err), "%s", err.message);
    CHECK_STR(dl_config_str(c, DL_KEY_model), "m.dl");
    c = open_line("m.dl n.dl", &err);
    CHECK(!dl_config_take_model(c, &err) && err.code == DL_USAGE, " ");
    CHECK_STR(err.message, "one model at a time: 'm.dl' and 'n.dl'");
    c = open_line("m.dl --model=n.dl", &err);
    CHECK(!dl_config_take_model(c, &err) && err.code == DL_USAGE, " ");
    CHECK_STR(err.message, "one model at a time: 'm.dl' and --model=n.dl");
}

/* A plan is taken by who runs plans, and is no model's file elsewhere. */
static void test_plan(void) {
    dl_error err;
    dl_config *c = open_line("a.yaml m.dlp n.dlp", &err);
    CHECK_STR(dl_config_take_plan(c), "m.dlp");
    CHECK(c->positional.n == 2, "%d", c->positional.n);
    CHECK(!dl_config_take_model(c, &err) && err.code == DL_USAGE, " ");
    CHECK(strstr(err.message, "n.dlp is a plan"), "%s", err.message);
    CHECK(!dl_config_take_plan(open_line("m.dl", &err)), " ");
    c = open_line("--model=m.dlp", &err);
    CHECK(!dl_config_load(c, &err) && err.code == DL_USAGE, " ");
    CHECK(strstr(err.message, "m.dlp is a plan"), "%s", err.message);
    /* a text takes the place of the file next to the model, and of that of a model's name */
    c = open_line("--num_epochs=3", &err);
    dl_config_set_text(c, "m.dlp", "base: {model: net, num_epochs: 5, seed: 6}\n");
    CHECK(dl_config_load(c, &err), "%s", err.message);
    CHECK_STR(c->file, "m.dlp");
    CHECK_STR(dl_config_str(c, DL_KEY_model), "net");
    CHECK(dl_config_int(c, DL_KEY_num_epochs) == 3 && dl_config_int(c, DL_KEY_seed) == 6, " ");
}

/* The command line again, for a shell, without the program's options that are not kept. */
static void test_words(void) {
    static const dl_option of_compile[] = {
        {"output", 'o', "FILE", ""}, {"target", 0, "NAME", ""}, {"json", 0, NULL, ""}, {0}};
    static const char *const keep[] = {"target", NULL};
    char *argv[] = {"compile", "a b.dl",   "-o",       "x.dlp",     "--seed",
                    "3",       "--json",   "--c=it's", "-ox",       "--output",
                    "y.dlp",   "--target", "cpu:avx2", "--config=z"};
    dl_error err = {0};
    dl_buf b = {0};
    dl_config *c = dl_config_open(arena, 14, argv, of_compile, &err);
    CHECK(c, "%s", err.message);
    dl_config_put_words(c, keep, &b);
    CHECK_STR(b.at, " 'a b.dl' --seed 3 '--c=it'\\''s' --target cpu:avx2 --config=z");
    dl_buf_free(&b);
}

/* ---- the model's arguments ---- */

static const dl_yaml_place in_model = {"m.dl", 3, 7};

static bool declare(dl_config *c, const char *name, dl_config_type type, const char *fallback,
                    dl_error *err) {
    dl_config_argument a = {name, type, type == DL_CONFIG_LIST ? DL_CONFIG_INT : DL_CONFIG_ANY,
                            fallback, in_model};
    return dl_config_declare(c, &a, err);
}

static void test_declare(void) {
    static const struct {
        const char *name;
        dl_config_type type;
        const char *fallback;
    } arguments[] = {
        {"embed_dim", DL_CONFIG_INT, "16"},     {"depth", DL_CONFIG_INT, "12"},
        {"small", DL_CONFIG_BOOL, "false"},     {"ratio", DL_CONFIG_FLOAT, "0.5"},
        {"widths", DL_CONFIG_LIST, "[64, 1]"},  {"depths", DL_CONFIG_LIST, "[3, 4]"},
        {"kind", DL_CONFIG_STRING, "gelu"},     {"size", DL_CONFIG_INT, NULL},
        {"full_scale", DL_CONFIG_BOOL, "true"}, {"conv_scale", DL_CONFIG_FLOAT, "0.02"},
        {"rates", DL_CONFIG_LIST, "[1]"},       {"n_classes", DL_CONFIG_INT, "10"}};
    dl_error err;
    write_text("f.yaml", "base: {embed_dim: 384, widths: [1, 2], weight_init: {conv_scale: 0.5},\n"
                         "  model: {name: resnet, n_classes: 3}}\n");
    dl_config *c =
        open_line("m.dl --yaml_config f.yaml --depth 7 --small --ratio=3 --rates=[8,12]", &err);
    CHECK(c && dl_config_take_model(c, &err) && dl_config_load(c, &err), "%s", err.message);
    for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++)
        CHECK(declare(c, arguments[i].name, arguments[i].type, arguments[i].fallback, &err), "%s",
              err.message);
    CHECK(dl_config_finish(c, &err), "%s", err.message);
    CHECK_STR(dl_config_str(c, DL_KEY_model), "m.dl"); /* the command line's */
    CHECK(dl_config_find(c, "embed_dim")->integer == 384, " ");
    CHECK(dl_config_find(c, "depth")->integer == 7, " ");
    CHECK(dl_config_find(c, "small")->truth && dl_config_find(c, "full_scale")->truth, " ");
    CHECK(dl_config_find(c, "ratio")->number == 3, " ");
    CHECK(dl_config_find(c, "widths")->items.at[1]->integer == 2, " ");
    CHECK(dl_config_find(c, "depths")->items.at[1]->integer == 4, " ");
    CHECK(dl_config_find(c, "rates")->items.at[1]->integer == 12, " ");
    CHECK_STR(dl_config_find(c, "kind")->text, "gelu");
    CHECK(!dl_config_find(c, "size") && !dl_config_find(c, "nosuch"), " ");
    CHECK(dl_config_find(c, "conv_scale")->number == 0.5 &&
              dl_config_find(c, "n_classes")->integer == 3,
          " ");

    dl_buf help = {0};
    dl_config_put_help(&help, options, c);
    const char *rows[] = {"Keys of the model m.dl", "embed_dim",           "int           16",
                          "list of int   [64, 1]",  "bool          false", "to be given"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK(strstr(help.at, rows[i]), "%s", rows[i]);
    dl_buf_free(&help);

    const char *reserved[] = {"seed",        "threads",  "lr",     "batch_size",
                              "lr_schedule", "start_lr", "config", "model"};
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        CHECK(dl_config_reserved(reserved[i]), "%s", reserved[i]);
    CHECK(!dl_config_reserved("data_size") && !dl_config_reserved("full_scale"), " ");

    check_fault("base: {depth: deep}\n", "", DL_INPUT, "f.yaml:1:8: error: unknown key 'depth'");
    c = open_line("--yaml_config f.yaml", &err);
    CHECK(dl_config_load(c, &err) && !declare(c, "depth", DL_CONFIG_INT, "1", &err), " ");
    CHECK_STR(err.message, "f.yaml:1:15: error: depth must be an integer, not 'deep'");
    c = open_line("--small m.dl",
                  &err); /* before the model is known this may be a value; later it cannot */
    CHECK(c->positional.n == 0 && !declare(c, "small", DL_CONFIG_BOOL, "false", &err), " ");
    CHECK_STR(err.message, "--small m.dl: small must be true or false, not 'm.dl'");
    c = open_line("--depth 2.5", &err);
    CHECK(!declare(c, "depth", DL_CONFIG_INT, "1", &err) && err.code == DL_USAGE, " ");
    CHECK_STR(err.message, "--depth 2.5: depth must be an integer, not '2.5'");
    c = open_line("--widths=[1,2.5]", &err);
    CHECK(!declare(c, "widths", DL_CONFIG_LIST, "[1]", &err) && err.code == DL_USAGE, " ");
    CHECK_STR(
        err.message,
        "--widths=[1,2.5]: widths must be a list whose items are each an integer, not [1, 2.5]");
    c = open_line("--kind=a=b,{c} --size={d}", &err); /* text of the model's is text */
    CHECK(declare(c, "kind", DL_CONFIG_STRING, "x", &err) &&
              declare(c, "size", DL_CONFIG_STRING, "x", &err),
          "%s", err.message);
    CHECK_STR(dl_config_find(c, "kind")->text, "a=b,{c}");
    CHECK_STR(dl_config_find(c, "size")->text, "{d}");
    c = open_line("--dept=3", &err);
    CHECK(declare(c, "depth", DL_CONFIG_INT, "1", &err) && !dl_config_finish(c, &err), " ");
    CHECK_STR(err.message, "unknown option '--dept'; did you mean '--depth'? (--help lists them)");
}

/* ---- files ---- */

static void test_files(void) {
    dl_error err = {0};
    CHECK(!dl_find_data_file(arena, "models/nosuch.dl", &err) && err.code == DL_IO, " ");
    CHECK(strstr(err.message, "no file models/nosuch.dl"), "%s", err.message);
    err = (dl_error){0};
    const char *found =
        dl_find_data_file(arena, "models/config/unet.yaml", &err); /* above the build */
    CHECK(found && *found == '/', "%s", err.message);
    dl_config *c = open_line("--config=tiny", &err);
    CHECK(dl_config_load(c, &err) && dl_config_int(c, DL_KEY_Nsamples) == 256, "%s", err.message);
    CHECK_STR(c->file, found ? found : "");

    dl_make_dirs("own/config", 0755, &err);
    write_text("own/config/net.yaml", "base: {num_epochs: 77}\n"); /* next to the model */
    c = open_line("--model=own/net.dl", &err);
    CHECK(dl_config_load(c, &err) && dl_config_int(c, DL_KEY_num_epochs) == 77, "%s", err.message);
    dl_make_dirs("models/config", 0755, &err);
    write_text("models/config/net.yaml", "base: {num_epochs: 78}\n");
    c = open_line("--model=models/net.dl", &err);
    CHECK(dl_config_load(c, &err) && dl_config_int(c, DL_KEY_num_epochs) == 78, "%s", err.message);
    c = open_line("--model=net.dl", &err); /* another model of that name */
    CHECK(dl_config_load(c, &err) && !c->file, "%s", c->file);
    c = open_line("--model=own/unet.dl", &err); /* one of ours has that name, and keys that fit */
    CHECK(dl_config_load(c, &err) && !c->file, "%s", c->file);

    c = open_line("--model=nosuch.dl", &err);
    CHECK(dl_config_load(c, &err) && dl_config_finish(c, &err) && !c->file, "%s",
          err.message); /* a model without a file is as good as any */
    c = open_line("--model=nosuch.dl --config=short", &err);
    CHECK(!dl_config_load(c, &err) && err.code == DL_USAGE && strstr(err.message, "--yaml_config"),
          " ");
}

static void test_unet_file(void) {
    static const struct {
        const char *name;
        int global_batch, samples, samples_val, epochs;
        bool optimised;
    } cases[] = {
        {"base", 64, 65536, 8192, 10, false},         {"short", 64, 4096, 512, 4, false},
        {"short_opt", 64, 4096, 512, 4, true},        {"bs64_opt", 64, 65536, 8192, 10, true},
        {"bs256_opt", 256, 65536, 8192, 20, true},    {"bs512_test", 512, 65536, 8192, 10, true},
        {"bs512_opt", 512, 65536, 8192, 40, true},    {"bs2048_opt", 2048, 65536, 8192, 160, true},
        {"bs8192_opt", 8192, 65536, 8192, 320, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_error err;
        dl_config *c = open_line(dl_format(arena, "--config %s", cases[i].name), &err);
        CHECK(dl_config_load(c, &err), "%s", err.message);
        CHECK(declare(c, "full_scale", DL_CONFIG_BOOL, NULL, &err) &&
                  declare(c, "lambda_rho", DL_CONFIG_INT, NULL, &err) &&
                  declare(c, "N_out_channels", DL_CONFIG_INT, NULL, &err) &&
                  declare(c, "data_size", DL_CONFIG_INT, NULL, &err) &&
                  declare(c, "conv_init", DL_CONFIG_STRING, NULL, &err) &&
                  declare(c, "conv_scale", DL_CONFIG_FLOAT, NULL, &err) &&
                  declare(c, "conv_bias", DL_CONFIG_FLOAT, NULL, &err) && dl_config_finish(c, &err),
              "%s", err.message);
        CHECK(dl_config_int(c, DL_KEY_global_batch_size) == cases[i].global_batch, "%s",
              cases[i].name);
        CHECK(dl_config_int(c, DL_KEY_Nsamples) == cases[i].samples, "%s", cases[i].name);
        CHECK(dl_config_int(c, DL_KEY_Nsamples_val) == cases[i].samples_val, "%s", cases[i].name);
        CHECK(dl_config_int(c, DL_KEY_num_epochs) == cases[i].epochs, "%s", cases[i].name);
        CHECK(dl_config_int(c, DL_KEY_base_batch_size) == 64, "%s", cases[i].name);
        CHECK(dl_config_bool(c, DL_KEY_enable_amp) == cases[i].optimised, "%s", cases[i].name);
        CHECK(dl_config_bool(c, DL_KEY_enable_apex) == cases[i].optimised, "%s", cases[i].name);
        CHECK(dl_config_bool(c, DL_KEY_enable_jit) == cases[i].optimised, "%s", cases[i].name);
        CHECK_STR(dl_config_str(c, DL_KEY_data_loader_config),
                  cases[i].optimised ? "dali-lowmem" : "lowmem");
        CHECK_STR(dl_config_str(c, DL_KEY_scaling), "sqrt");
        CHECK(dl_config_float(c, DL_KEY_start_lr) == 2e-4 && dl_config_float(c, DL_KEY_end_lr) == 0,
              " ");
        CHECK(dl_config_int(c, DL_KEY_warmup_steps) == 128, " ");
        CHECK_STR(dl_config_str(c, DL_KEY_train_path), "data/nbody_train.h5");
    }
}

/* A configuration of a model's own file with these arguments declared, whatever they are. */
static dl_config *of_model(const char *model, const char *name, const char *const *arguments) {
    dl_error err;
    dl_config *c =
        open_line(dl_format(arena, "--model=models/%s.dl --config=%s", model, name), &err);
    bool ok = c && dl_config_load(c, &err);
    for (; ok && *arguments; arguments++) ok = declare(c, *arguments, DL_CONFIG_ANY, NULL, &err);
    CHECK(ok && dl_config_finish(c, &err), "%s of %s: %s", name, model, err.message);
    return c ? c : open_line("", &err);
}

static void test_vit_file(void) {
    static const char *const arguments[] = {"img_size",   "n_in_channels", "n_out_channels",
                                            "patch_size", "embed_dim",     "depth",
                                            "num_heads",  "dropout",       NULL};
    static const struct {
        const char *name;
        int batch;
        double lr;
        int iters, samples, embed_dim, patch;
        const char *amp;
        bool fused, jit;
    } cases[] = {{"base", 16, 5e-4, 30000, 0, 384, 8, "none", false, false},
                 {"short", 16, 5e-4, 128, 512, 384, 8, "none", false, false},
                 {"short_opt", 16, 5e-4, 128, 512, 384, 8, "fp16", true, true},
                 {"opt", 16, 5e-4, 30000, 0, 384, 8, "fp16", true, true},
                 {"bs16_opt", 16, 5e-4, 30000, 0, 384, 8, "fp16", true, true},
                 {"bs32_opt", 32, 7.07e-4, 30000, 0, 384, 8, "fp16", true, true},
                 {"bs64_opt", 64, 1e-3, 30000, 0, 384, 8, "fp16", true, true},
                 {"bs128_opt", 128, 1.41e-3, 30000, 0, 384, 8, "fp16", true, true},
                 {"bs256_opt", 256, 2e-3, 30000, 0, 384, 8, "fp16", true, true},
                 {"bs512_opt", 512, 2.83e-3, 30000, 0, 384, 8, "fp16", true, true},
                 {"bs1024_opt", 1024, 4e-3, 30000, 0, 384, 8, "fp16", true, true},
                 {"bs2048_opt", 2048, 5.66e-3, 30000, 0, 384, 8, "fp16", true, true},
                 {"mp", 64, 1e-3, 30000, 0, 1024, 8, "fp16", true, false},
                 {"mp_bs16", 16, 5e-4, 30000, 0, 1024, 8, "fp16", true, false},
                 {"mp_bs32", 32, 7.07e-4, 30000, 0, 1024, 8, "fp16", true, false},
                 {"mp_patch4", 64, 1e-3, 30000, 0, 1024, 4, "fp16", true, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_config *c = of_model("vit", cases[i].name, arguments);
        const dl_yaml *limit = dl_config_value(c, DL_KEY_limit_nsamples);
        CHECK(dl_config_int(c, DL_KEY_global_batch_size) == cases[i].batch, "%s", cases[i].name);
        CHECK(dl_config_float(c, DL_KEY_start_lr) == cases[i].lr, "%s", cases[i].name);
        CHECK(dl_config_value(c, DL_KEY_num_iters)->integer == cases[i].iters, "%s", cases[i].name);
        CHECK(limit->integer == cases[i].samples, "%s", cases[i].name);
        CHECK(dl_config_find(c, "embed_dim")->integer == cases[i].embed_dim, "%s", cases[i].name);
        CHECK(dl_config_find(c, "patch_size")->integer == cases[i].patch, "%s", cases[i].name);
        CHECK(dl_config_find(c, "img_size")->items.at[1]->integer == 720, "%s", cases[i].name);
        CHECK_STR(dl_config_str(c, DL_KEY_amp_mode), cases[i].amp);
        CHECK(dl_config_bool(c, DL_KEY_enable_fused) == cases[i].fused, "%s", cases[i].name);
        CHECK(dl_config_bool(c, DL_KEY_enable_jit) == cases[i].jit, "%s", cases[i].name);
        CHECK_STR(dl_config_value(c, DL_KEY_lr_schedule)->text, "cosine");
        CHECK(dl_config_float(c, DL_KEY_adam_beta2) == 0.95, "%s", cases[i].name);
    }
}

static void test_regressor_file(void) {
    static const char *const arguments[] = {"in_chan", "out_chan",  "hidden",
                                            "depth",   "data_size", NULL};
    for (int second = 0; second < 2; second++) {
        dl_config *c = of_model("cnn_regressor", second ? "test2" : "test", arguments);
        CHECK(dl_config_int(c, DL_KEY_global_batch_size) == (second ? 16 : 32), " ");
        CHECK(dl_config_int(c, DL_KEY_num_epochs) == 50 &&
                  dl_config_float(c, DL_KEY_start_lr) == 1e-3,
              " ");
        CHECK(dl_config_value(c, DL_KEY_max_cosine_lr_epochs)->integer == 10, " ");
        CHECK(dl_config_find(c, "depth")->integer == 5 &&
                  dl_config_find(c, "data_size")->integer == 128,
              " ");
        CHECK_STR(dl_config_str(c, DL_KEY_scheduler), "none");
        CHECK_STR(dl_config_str(c, DL_KEY_loss_func), "mse");
        CHECK_STR(dl_config_str(c, DL_KEY_optimizer), "adam");
    }
}

/* ---- text ---- */

static void add_line(void *to, const char *text) { dl_putf(to, "%s\n", text); }

static void test_print(void) {
    dl_error err;
    dl_config *c = configure_ok("base: {}\n'my run': {expdir: '$$x/a''b', lr_schedule: {start_lr: "
                                "2.E-4}, box_size: [80, 40]}\n",
                                "--enable_amp");
    CHECK(!dl_config_is_given(c, DL_KEY_expdir), " ");
    char *argv[] = {"prog", "--yaml_config=f.yaml", "--config=my run", "--enable_amp", NULL};
    c = dl_config_open(arena, 4, argv, NULL, &err);
    CHECK(c && dl_config_load(c, &err), "%s", err.message);
    CHECK(declare(c, "widths", DL_CONFIG_LIST, "[1, 2]", &err), "%s", err.message);
    dl_buf log = {0};
    dl_config_log(c, add_line, &log);
    const char *want[] = {
        "------------------ Configuration ------------------\nConfiguration file: /",
        "/f.yaml\nConfiguration name: my run\nmodel models/unet.dl\npreset "
        "volumes\nglobal_batch_size 64\n",
        "\nenable_amp True\n",
        "\nexpdir $x/a'b\nlr_schedule {'name': 'warmup_cosine', 'scaling': 'none', 'start_lr': "
        "0.0002, "
        "'end_lr': 0.0, 'warmup_steps': "
        "0}\n",
        "\nbox_size [80, 40]\n",
        "\nuse_cache None\n",
        "\nwidths [1, 2]\n---------------------------------------------------\n",
    };
    const char *from = log.at;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const char *at = strstr(from, want[i]);
        CHECK(at, "no '%s' in order in:\n%s", want[i], log.at);
        if (at) from = at;
    }

    /* Written as YAML and read again: the same values, and so the same log but for the file's name.
     */
    dl_buf yaml = {0}, again = {0};
    dl_config_put_yaml(c, &yaml);
    write_text("f.yaml", yaml.at);
    c = dl_config_open(arena, 3, argv, NULL, &err);
    CHECK(c && dl_config_load(c, &err), "%s", err.message);
    CHECK(declare(c, "widths", DL_CONFIG_LIST, NULL, &err), "%s", err.message);
    CHECK(dl_config_finish(c, &err), "%s", err.message);
    dl_config_log(c, add_line, &again);
    CHECK_STR(again.at, log.at);
    dl_buf_free(&yaml);
    dl_buf_free(&again);
    dl_buf_free(&log);
}

static void test_help(void) {
    dl_buf help = {0};
    dl_error err;
    dl_config_put_help(&help, options, open_line("", &err));
    const char *names[] = {
#define GROUP(title)   title,
#define KEY(name, ...) #name,
#include "frontends/yaml/config.def"
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        CHECK(strstr(help.at, names[i]), "%s", names[i]);
    CHECK(strstr(help.at, "-o, --output FILE") && strstr(help.at, "--yaml_config FILE"), "%s",
          help.at);
    dl_buf_free(&help);
}

/* A former name of a key still works, and the command line says the new one. */
static void test_old_names(void) {
    char *argv[] = {"x", "--record=history", "--log_format=samples", "--recipe=keras"};
    dl_error err = {0};
    dl_config *c = dl_config_open(arena, 4, argv, NULL, &err);
    CHECK(c && !strcmp(dl_config_str(c, DL_KEY_log_format), "samples") &&
              !strcmp(dl_config_str(c, DL_KEY_preset), "keras"),
          "%s", err.message);
    CHECK(c->warnings.n == 2 && !strcmp(c->warnings.at[0], "--record is now called --log_format") &&
          !strcmp(c->warnings.at[1], "--recipe is now called --preset"));
}

/* A command line without keys, as dldata has it. */
static void test_options_alone(void) {
    static const dl_option table[] = {{"flag", 'f', NULL, ""},
                                      {"text", 't', "T", ""},
                                      {"integer", 0, "N", ""},
                                      {"real", 0, "R", ""},
                                      {0}};
    char *good[] = {"x", "-f", "one", "--text=a=b", "--integer", "-5", "--real=0.5", "--", "--two"};
    dl_error err = {0};
    int64_t integer = 0, none = 7;
    double real = 0;
    dl_config *c = dl_options_open(arena, 9, good, table, 2, &err);
    CHECK(c && dl_option_int(c, "integer", -5, 5, &integer, &err) &&
              dl_option_real(c, "real", 0, 1, &real, &err),
          "%s", err.message);
    CHECK(dl_config_option(c, "flag") && !strcmp(dl_config_option(c, "text"), "a=b") &&
          integer == -5 && real == 0.5 && c->positional.n == 2 &&
          !strcmp(c->positional.at[1], "--two"));
    static const struct {
        const char *word, *want;
    } bad[] = {{"--integer=6", "whole number from -5 to 5"},
               {"--integer=1.5", "whole number"},
               {"--integer=99999999999999999999", "whole number"},
               {"--real=nan", "number from 0 to 1"},
               {"--real", "needs a value"},
               {"--flag=1", "takes no value"},
               {"--txt=1", "did you mean --text"},
               {"--num_epochs=1", "unknown option '--num_epochs'"},
               {"--config=tiny", "unknown option '--config'"},
               {"--text=", "not empty"},
               {"-x", "unknown option"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *argv[] = {"x", (char *)bad[i].word};
        err = (dl_error){0};
        c = dl_options_open(arena, 2, argv, table, 2, &err);
        bool ok = c && dl_option_int(c, "integer", -5, 5, &none, &err) &&
                  dl_option_real(c, "real", 0, 1, &real, &err);
        CHECK(!ok && err.code == DL_USAGE && strstr(err.message, bad[i].want), "%s: %s",
              bad[i].word, err.message);
    }
    CHECK(none == 7);
    char *three[] = {"x", "a", "b", "c"};
    err = (dl_error){0};
    CHECK(!dl_options_open(arena, 4, three, table, 2, &err) && err.code == DL_USAGE);
}

int main(void) {
    if (!mkdtemp(directory) || chdir(directory) != 0) return 1;
    arena = dl_arena_new(NULL);
    test_options_alone();
    test_old_names();
    test_order();
    test_choice();
    test_groups();
    test_within();
    test_values();
    test_file_faults();
    test_unknown();
    test_line();
    test_model();
    test_plan();
    test_words();
    test_declare();
    test_files();
    test_unet_file();
    test_vit_file();
    test_regressor_file();
    test_print();
    test_help();
    dl_arena_free(arena);
    const char *made[] = {"f.yaml", "own/config/net.yaml",    "own/config",
                          "own",    "models/config/net.yaml", "models/config",
                          "models"};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        if (unlink(made[i]) != 0) rmdir(made[i]);
    CHECK(chdir("/") == 0 && rmdir(directory) == 0, "%s stays", directory);
    return dl_test_end();
}

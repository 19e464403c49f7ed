/* The layers of a configuration and their order; values and their checks. */
#include "tests/unit/configured.h"

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

    /* A key that the command line overrides is not looked at. */
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
    check_line_fault("--optimizer=name=ftrl", "must be one of adam, adamw, sgd, rmsprop, ");
    check_line_fault("--optimizer=name=ftrl", ", asgd, not 'ftrl'");
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
                         "plateau, or a list of phases or of {start_epoch, end_epoch, multiplier}");
    static const char *const phases[][2] = {
        {"{name: step, gama: 1}", "unknown key 'gama' in lr_schedule"},
        {"{name: step, power: 2}", "lr_schedule step has no option 'power': its options are "
                                   "step_size, gamma"},
        {"{name: step, gamma: 11}", "gamma of lr_schedule step must be a number from 0 to 10"},
        {"{name: multistep, milestones: [3, 3]}", "must be a rising list of at most 15"},
        {"{name: cyclic, mode: up}", "must be one of triangular|triangular2|exp_range"},
        {"[{name: linear}, {name: cosine}]",
         "each phase of lr_schedule but the last needs a length"},
        {"[{name: linear, length: 3}, {name: cosine, unit: epoch}]", "count in one unit"},
        {"[{name: linear, length: 3}, {name: plateau}]", "plateau is no phase of a list"},
        {"[{name: linear, length: 3}, {gamma: 1}]", "a phase of lr_schedule needs a name"}};
    for (size_t i = 0; i < sizeof phases / sizeof *phases; i++)
        check_file_fault(dl_format(arena, "  lr_schedule: %s", phases[i][0]), phases[i][1]);
    c = configure_ok("base: {lr_schedule: {name: Step, step_size: 3, lr: 2}}\n", "");
    CHECK(dl_config_value(c, DL_KEY_lr_schedule)->items.n == 1 &&
              dl_config_float(c, DL_KEY_start_lr) == 2,
          "options of a course in a map, and a key of the section");
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
                     "f.yaml:2:16: error: lr_schedule must be one of warmup_cosine, none, step, "
                     "multistep, ");
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

int main(void) {
    if (!configured_begin()) return 1;
    test_order();
    test_choice();
    test_groups();
    test_within();
    test_values();
    test_file_faults();
    test_unknown();
    return configured_end();
}

/* The command line, the model's arguments, what is printed, and --help. */
#include "tests/unit/configured.h"

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
    check_line_fault("--accumulate_grad_batches=2", "did you mean '--accumulate'?");
    check_line_fault("--early_stopping=2", "did you mean '--early_stop'?");
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
                     "--lr_schedule=5: lr_schedule must be one of warmup_cosine, none, step");
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
    CHECK(dl_config_put_help(&help, options, c, "all", &err), "%s", err.message);
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
    c = open_line("--sides=[4,6] --box=5", &err);
    CHECK(declare(c, "sides", DL_CONFIG_SIZES, "64", &err) &&
              declare(c, "box", DL_CONFIG_SIZES, "[2, 3, 4]", &err),
          "%s", err.message);
    CHECK(dl_config_find(c, "sides")->items.at[1]->integer == 6, " ");
    CHECK(dl_config_find(c, "box")->integer == 5, " ");
    const char *no_sizes[] = {"[4]", "[4,x]", "[1,2,3,4]", "2.5"};
    for (size_t i = 0; i < sizeof no_sizes / sizeof *no_sizes; i++) {
        c = open_line(dl_format(arena, "--sides=%s", no_sizes[i]), &err);
        CHECK(!declare(c, "sides", DL_CONFIG_SIZES, "64", &err) && err.code == DL_USAGE, "%s",
              no_sizes[i]);
        CHECK(strstr(err.message, "sides must be an integer, [H, W] or [D, H, W], not"), "%s",
              err.message);
    }
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
        "/f.yaml\nConfiguration name: my run\n",
        "\nlr_schedule {'start_lr': 0.0002}\n",
        "\nbox_size [80, 40]\n---------------------------------------------------\n",
    };
    const char *from = log.at;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const char *at = strstr(from, want[i]);
        CHECK(at, "no '%s' in order in:\n%s", want[i], log.at);
        if (at) from = at;
    }

    static const char *const defaults[] = {"\nmodel ", "\nglobal_batch_size ", "'end_lr'",
                                           "\nuse_cache ", "\nwidths "};
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
        CHECK(!strstr(log.at, defaults[i]), "%s is the default:\n%s", defaults[i], log.at);

    /* Written as YAML and read again: the same values, and so the same log but for the file's name.
     */
    dl_buf yaml = {0}, again = {0};
    dl_config_put_yaml(c, &yaml);
    write_text("f.yaml", yaml.at);
    c = dl_config_open(arena, 3, argv, NULL, &err);
    CHECK(c && dl_config_load(c, &err), "%s", err.message);
    CHECK(declare(c, "widths", DL_CONFIG_LIST, "[1, 2]", &err), "%s", err.message);
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
    dl_config *c = open_line("", &err);
    CHECK(dl_config_put_help(&help, options, c, "all", &err), "%s", err.message);
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
    if (!configured_begin()) return 1;
    test_options_alone();
    test_old_names();
    test_line();
    test_model();
    test_plan();
    test_words();
    test_declare();
    test_print();
    test_help();
    return configured_end();
}

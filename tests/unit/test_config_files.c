/* A model's own file of configurations: where it is found, and those of the repository. */
#include "tests/unit/configured.h"

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

int main(void) {
    if (!configured_begin()) return 1;
    test_files();
    test_unet_file();
    test_vit_file();
    test_regressor_file();
    return configured_end();
}

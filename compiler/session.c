#include "compiler/session.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/cache.h"
#include "compiler/jit_cc.h"
#include "frontends/yaml/data_file.h"
#include "ir/base/clock.h"
#include "ir/base/hash.h"
#include "ir/base/object.h"
#include "ir/text.h"

/* A model's value as the configuration has it, and back. */
static dl_setting to_setting(dl_arena *arena, const dl_yaml *v) {
    switch (v->kind) {
    case DL_YAML_BOOL: return (dl_setting){.kind = DL_SET_BOOL, .b = v->truth};
    case DL_YAML_INT: return (dl_setting){.kind = DL_SET_INT, .i = v->integer};
    case DL_YAML_FLOAT: return (dl_setting){.kind = DL_SET_FLOAT, .f = v->number};
    case DL_YAML_STRING: return (dl_setting){.kind = DL_SET_STRING, .s = v->text};
    case DL_YAML_LIST: {
        dl_setting *items = DL_NEWS(arena, dl_setting, v->items.n + 1);
        for (int i = 0; i < v->items.n; i++) items[i] = to_setting(arena, v->items.at[i]);
        return (dl_setting){.kind = DL_SET_LIST, .list = {items, v->items.n}};
    }
    default: return (dl_setting){.kind = DL_SET_NONE};
    }
}

static void put_setting(dl_buf *b, const dl_setting *s) {
    switch (s->kind) {
    case DL_SET_BOOL: dl_puts(b, s->b ? "true" : "false"); break;
    case DL_SET_INT: dl_putf(b, "%lld", (long long)s->i); break;
    case DL_SET_FLOAT: {
        size_t from = b->n;
        dl_put_double(b, s->f);
        if (!strpbrk(b->at + from, ".en")) dl_puts(b, ".0");
        break;
    }
    case DL_SET_STRING: dl_putf(b, "'%s'", s->s); break;
    case DL_SET_LIST:
        dl_puts(b, "[");
        for (int i = 0; i < s->list.n; i++) {
            if (i) dl_puts(b, ", ");
            put_setting(b, &s->list.items[i]);
        }
        dl_puts(b, "]");
        break;
    default: dl_puts(b, "null"); break;
    }
}

static dl_config_type config_type(dl_setting_kind k) {
    static const dl_config_type types[] = {
        [DL_SET_NONE] = DL_CONFIG_ANY,    [DL_SET_BOOL] = DL_CONFIG_BOOL,     [DL_SET_INT] = DL_CONFIG_INT,
        [DL_SET_FLOAT] = DL_CONFIG_FLOAT, [DL_SET_STRING] = DL_CONFIG_STRING, [DL_SET_LIST] = DL_CONFIG_LIST};
    return types[k];
}

/* The model's arguments become configuration keys with the model's defaults. */
static bool declare_arguments(dl_session *s, dl_error *err) {
    int n;
    const dl_argument *args = dl_model_arguments(s->model, &n);
    for (int i = 0; i < n; i++) {
        dl_buf fallback = {0};
        put_setting(&fallback, &args[i].value);
        const char *text = args[i].value.kind == DL_SET_NONE ? NULL : dl_strdup(s->arena, fallback.at);
        dl_buf_free(&fallback);
        dl_yaml_place place = {.file = s->model_path};
        if (!dl_config_declare(s->config, args[i].name, config_type(args[i].value.kind), text, place, err))
            return false;
    }
    return dl_config_finish(s->config, err);
}

static bool build(dl_session *s, dl_diags *diags, dl_error *err) {
    const dl_config *c = s->config;
    int n;
    const dl_argument *known = dl_model_arguments(s->model, &n);
    dl_argument *args = DL_NEWS(s->arena, dl_argument, n + 1);
    int nargs = 0;
    for (int i = 0; i < n; i++) {
        const dl_yaml *v = dl_config_find(c, known[i].name);
        if (v) args[nargs++] = (dl_argument){known[i].name, to_setting(s->arena, v)};
    }
    int64_t edge = dl_config_int(c, DL_KEY_data_size);
    dl_axis_size sizes[] = {{"N", s->batch}, {"D", edge}, {"H", edge}, {"W", edge}};
    dl_model_config config = {args, nargs, sizes, 4};
    s->module = dl_model_build(s->arena, s->model, &config, diags);
    if (!s->module)
        return dl_fail(err, DL_INPUT, "%s: %d error%s", s->model_path, diags->errors,
                       diags->errors == 1 ? "" : "s");
    s->parameters = dl_count_parameters(s->module->graphs.at[0]);
    return true;
}

dl_session *dl_session_open(dl_arena *arena, dl_config *config, int world, dl_buf *diagnostics,
                            dl_error *err) {
    double start = dl_clock_ms();
    dl_session *s = DL_NEW(arena, dl_session);
    *s = (dl_session){.arena = arena, .config = config};
    if (!dl_config_load(config, err)) return NULL;
    s->model_path = dl_find_data_file(arena, dl_config_str(config, DL_KEY_model), err);
    if (!s->model_path) return NULL;
    s->model_path =
        dl_intern(s->model_path); /* places in the configuration name it when the session is gone */
    s->source = dl_source_read(arena, s->model_path, err);
    if (!s->source) return NULL;
    dl_diags *diags = dl_diags_new(arena, s->source);
    s->model = dl_model_parse(arena, s->source, diags);
    bool ok = s->model ? declare_arguments(s, err)
                       : dl_fail(err, DL_INPUT, "%s: %d error%s", s->model_path, diags->errors,
                                 diags->errors == 1 ? "" : "s");
    if (ok) {
        bool local = !dl_config_is_null(config, DL_KEY_local_batch_size);
        s->global_batch = local ? dl_config_int(config, DL_KEY_local_batch_size) * world
                                : dl_config_int(config, DL_KEY_global_batch_size);
        s->batch = s->global_batch / world;
        s->model_name = dl_model_name(s->model);
        ok = s->batch > 0 ||
             dl_config_fail(config, DL_KEY_global_batch_size, err,
                            "%lld samples cannot be shared by %d ranks", (long long)s->global_batch, world);
        ok = ok && build(s, diags, err);
    }
    dl_buf *out = ok || !diagnostics ? &s->diagnostics : diagnostics;
    if (diags->list.n) dl_diags_print(out, diags, isatty(2) && !getenv("NO_COLOR"));
    s->front_ms = dl_clock_ms() - start;
    if (ok) return s;
    dl_session_close(s);
    return NULL;
}

void dl_session_close(dl_session *s) {
    if (s) dl_buf_free(&s->diagnostics);
}

bool dl_session_options(const dl_session *s, const char *target, dl_compile_options *opt, dl_error *err) {
    *opt = (dl_compile_options){
        .model = s->model_name, .batch = s->batch, .skip = getenv("DLC_SKIP"), .link = true};
    const dl_config *c = s->config;
    if (dl_config_bool(c, DL_KEY_nesterov) && !(dl_config_float(c, DL_KEY_momentum) > 0))
        return dl_config_fail(c, DL_KEY_nesterov, err, "Nesterov's momentum needs a momentum above 0");
    opt->recipe = (dl_recipe){.optimizer = (dl_optimizer)dl_optimizer_find(
                                  dl_config_str(c, DL_KEY_optimizer)), /* the key allows no others */
                              .momentum = dl_config_float(c, DL_KEY_momentum) > 0,
                              .nesterov = dl_config_bool(c, DL_KEY_nesterov),
                              .decay = dl_config_float(c, DL_KEY_weight_decay) > 0,
                              .decay_vectors = dl_config_bool(c, DL_KEY_decay_norm_and_bias),
                              .clip = dl_config_float(c, DL_KEY_clip_grad_norm) > 0};
    opt->target = dl_target_find(target, err);
#ifndef NDEBUG
    opt->validate = true;
#endif
    return opt->target != NULL;
}

dl_plan *dl_session_compile(dl_session *s, const dl_compile_options *opt, dl_error *err) {
    return dl_compile(s->arena, s->module, opt, &s->times, err);
}

/* Everything that the plan depends on: the graphs as built (which hold the model's text, arguments and
 * sizes), what the options ask for, the C compiler, and this program itself. */
static uint64_t plan_key(const dl_session *s, const dl_compile_options *opt, const dl_jit_cc *cc) {
    dl_buf text = {0};
    dl_print_module(&text, s->module, (dl_print_options){.locations = true});
    uint64_t h = dl_hash(text.at, text.n, DL_PLAN_VERSION);
    dl_buf_free(&text);
    h = dl_hash(&cc->key, sizeof cc->key, h); /* the target is part of it */
    h = dl_hash_str(opt->skip ? opt->skip : "", h);
    h = dl_hash(&opt->keep_gradients, sizeof opt->keep_gradients, h);
    h = dl_hash(&opt->recipe, sizeof opt->recipe, h);
    struct stat st = {0};
    stat("/proc/self/exe", &st);
    h = dl_hash(&st.st_size, sizeof st.st_size, h);
    return dl_hash(&st.st_mtim, sizeof st.st_mtim, dl_hash_str(DL_VERSION, h));
}

/* Whether the plan's objects load here and hold its kernels' functions. */
static bool check_code(const dl_plan *p, dl_error *err) {
    bool ok = true;
    for (int i = 0; ok && i < p->objects.n; i++) {
        dl_object object;
        ok = dl_object_load(&object, p->objects.at[i].image, p->objects.at[i].bytes, err);
        if (!ok) break;
        for (int k = 0; k < p->kernels.n; k++)
            for (int phase = 0; p->kernels.at[k].object == i && phase < p->kernels.at[k].phases; phase++) {
                const char *name = dl_format(p->arena, "%s_%d", p->kernels.at[k].symbol, phase);
                if (!dl_object_find(&object, name))
                    ok =
                        dl_fail(err, DL_RESOURCE,
                                "the compiled code holds no function %s; set CC to another C compiler", name);
            }
        dl_object_unload(&object);
    }
    return ok;
}

dl_plan *dl_session_plan(dl_session *s, const dl_compile_options *opt, bool *cached, dl_error *err) {
    dl_jit_cc cc;
    const char *dir = dl_cache_dir(s->arena, err);
    if (!dir || !dl_jit_find(s->arena, opt->target, &cc, err)) return NULL;
    uint64_t key = plan_key(s, opt, &cc);
    const char *path = dl_format(s->arena, "%s/%016llx.dlp", dir, (unsigned long long)key);
    dl_error unusable = {0}; /* no plan, a damaged one, another's: compiled anew */
    dl_plan *p = dl_cache_owns(path) ? dl_plan_read(s->arena, path, &unusable) : NULL;
    *cached = p && p->key == key && check_code(p, &unusable);
    if (*cached) return p;
    if (unusable.code && opt->warn)
        opt->warn(dl_format(s->arena, "the plan in the cache is compiled anew: %s", unusable.message));
    p = dl_session_compile(s, opt, err);
    if (!p) return NULL;
    p->key = key;
    return check_code(p, err) && dl_plan_write(p, path, err) ? p : NULL;
}

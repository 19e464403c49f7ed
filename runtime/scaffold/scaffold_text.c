#include "runtime/scaffold/scaffold_text.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "frontends/yaml/yaml_tree.h"
#include "ir/base/foreign.h"

static bool is_of_classes(const dl_scaffold_data *d) { return d->classes > 0; }
/* Whether the target has the input's points. */
static bool is_field(const dl_scaffold_data *d) {
    return d->input.spatial > 0 && d->target.spatial == d->input.spatial;
}

/* ---- the model ---- */

static void put_space(dl_buf *b, const dl_scaffold_array *a) {
    const char *const *axes = dl_scaffold_axes(a->spatial);
    for (int i = 0; i < a->spatial; i++) dl_putf(b, ", %s=%lld", axes[i], (long long)a->size[i]);
}

static void put_head(dl_buf *b, const dl_scaffold_data *d, const char *name) {
    dl_putf(b, "# %s: a first model for %s, by `dlc init`.\nmodel %c", dl_task_names[d->task],
            dl_internf("%s", strrchr(d->path, '/') ? strrchr(d->path, '/') + 1 : d->path),
            toupper((unsigned char)*name));
    for (const char *p = name + 1; *p; p++) dl_putf(b, "%c", *p == '-' ? '_' : *p);
    bool narrow = d->task == DL_TASK_AUTOENCODER;
    dl_putf(b, "(width=%d, depth=2%s):\n",
            d->input.spatial == 3 ? 16
            : d->input.spatial    ? 32
                                  : 64,
            narrow ? ", code=8" : "");
    dl_putf(b, "    input x: f32[N, C=%lld", (long long)d->input.channels);
    put_space(b, &d->input), dl_puts(b, "]\n");
    if (d->task == DL_TASK_CLASSIFICATION)
        dl_puts(b, "    target t: i64[N]\n");
    else if (d->task == DL_TASK_SEGMENTATION)
        dl_puts(b, "    target t: i64[N"), put_space(b, &d->target), dl_puts(b, "]\n");
    else {
        dl_putf(b, "    target t: f32[N, C=%lld", (long long)d->target.channels);
        put_space(b, &d->target), dl_puts(b, "]\n");
    }
}

static long long channels_out(const dl_scaffold_data *d) {
    return (long long)(is_of_classes(d) ? d->classes : d->target.channels);
}

/* How often a size can be halved, up to twice. */
static int halvings(const dl_scaffold_array *a) {
    int n = 2;
    for (int i = 0; i < a->spatial; i++)
        while (n && a->size[i] % (1 << n)) n--;
    return n;
}

static void put_fields(dl_buf *b, const dl_scaffold_data *d) {
    dl_puts(b, "    h = x |> conv(width, 3, pad=1) @first |> gelu\n"
               "    for i in range(depth): h = h + (h |> conv(width, 3, pad=1) @block.{i} |> "
               "gelu)\n");
    dl_putf(b, "    %s = h |> conv(%lld, 3, pad=1) @last\n",
            d->task == DL_TASK_FORECAST ? "change" : "y", channels_out(d));
}

static void put_vector_of_field(dl_buf *b, const dl_scaffold_data *d) {
    const char *const *axes = dl_scaffold_axes(d->input.spatial);
    dl_puts(b, "    h = x |> conv(width, 3, pad=1) @first |> gelu\n"
               "    for i in range(depth): h = h |> conv(width, 3, stride=2, pad=1) @block.{i} |> "
               "gelu\n    y = mean(h, over=[");
    for (int i = 0; i < d->input.spatial; i++) dl_putf(b, "%s%s", i ? ", " : "", axes[i]);
    dl_putf(b, "]) |> linear(%lld) @head\n", channels_out(d));
}

static void put_vectors(dl_buf *b, const dl_scaffold_data *d) {
    dl_puts(b, "    h = x\n"
               "    for i in range(depth): h = h |> linear(width) @layer.{i} |> gelu\n");
    dl_putf(b, "    %s = h |> linear(%lld) @head\n", d->task == DL_TASK_FORECAST ? "change" : "y",
            channels_out(d));
}

static void put_autoencoder(dl_buf *b, const dl_scaffold_data *d) {
    int n = halvings(&d->input);
    if (!d->input.spatial) {
        dl_puts(b, "    h = x\n"
                   "    for i in range(depth): h = h |> linear(width) @encoder.{i} |> gelu\n"
                   "    h = h |> linear(code) @code\n"
                   "    for i in range(depth): h = h |> linear(width) @decoder.{i} |> gelu\n");
        dl_putf(b, "    y = h |> linear(%lld) @head\n", channels_out(d));
        return;
    }
    dl_puts(b, "    h = x\n");
    for (int i = 0; i < n; i++)
        dl_putf(b, "    h = h |> conv(width, 4, stride=2, pad=1) @encoder.%d |> gelu\n", i);
    dl_puts(b, "    for i in range(depth): h = h |> conv(width, 3, pad=1) @inner.{i} |> gelu\n"
               "    h = h |> conv(code, 1) @code\n");
    for (int i = 0; i < n; i++)
        dl_putf(b, "    h = h |> conv_transpose(width, 4, stride=2, pad=1) @decoder.%d |> gelu\n",
                i);
    dl_putf(b, "    y = h |> conv(%lld, 3, pad=1) @last\n", channels_out(d));
}

void dl_scaffold_put_model(dl_buf *b, const dl_scaffold_data *d, const char *name) {
    put_head(b, d, name);
    if (d->task == DL_TASK_AUTOENCODER)
        put_autoencoder(b, d);
    else if (is_field(d))
        put_fields(b, d);
    else if (d->input.spatial)
        put_vector_of_field(b, d);
    else
        put_vectors(b, d);
    if (d->task == DL_TASK_FORECAST) dl_puts(b, "    y = x + change\n");
    dl_puts(b, "    output y\n");
    if (is_of_classes(d))
        dl_puts(b, "    loss = cross_entropy(y, t)\n"
                   "    metric accuracy = mean(argmax(y, over=C) == t)\n");
    else
        dl_puts(b, "    loss = mse_loss(y, t)\n    metric mae = mean(abs(y - t))\n");
}

/* ---- the configuration ---- */

/* Text as YAML has it: bare where it is a word with a dot or a slash, which no reader takes for
 * another value, or of letters that do not spell one. */
static void put_text(dl_buf *b, const char *text) {
    static const char *const words[] = {"true", "false", "null", "yes", "no",
                                        "on",   "off",   "y",    "n"};
    const char *p = text;
    bool bare = isalpha((unsigned char)*p);
    while (isalnum((unsigned char)*p) || (*p && strchr("._/-", *p))) p++;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        bare &= strcasecmp(text, words[i]) != 0;
    dl_yaml v = {.kind = DL_YAML_STRING, .text = text};
    if (bare && !*p)
        dl_puts(b, text);
    else
        dl_yaml_put(b, &v);
}

static void put_entry(dl_buf *b, const dl_scaffold_data *d, const dl_scaffold_array *a,
                      bool is_target) {
    bool labels = is_target && is_of_classes(d);
    dl_putf(b, "      %c: {file: ", is_target ? 't' : 'x');
    put_text(b, d->path);
    if (*a->array->name) dl_puts(b, ", array: ");
    for (int i = 0; i < a->n_columns; i++)
        dl_puts(b, i ? ", " : "["), put_text(b, a->columns[i]->name);
    if (a->n_columns)
        dl_puts(b, "]");
    else if (*a->array->name)
        put_text(b, a->array->name);
    const char *const *axes = dl_scaffold_axes(a->spatial);
    dl_puts(b, ", axes: [N");
    if (labels && a->has_channels && !a->channels_last)
        dl_puts(b, ", 1");
    else if (a->has_channels && !a->channels_last)
        dl_puts(b, ", C");
    for (int i = 0; i < a->spatial; i++) dl_putf(b, ", %s", axes[i]);
    if (a->has_channels && a->channels_last) dl_puts(b, labels ? ", 1" : ", C");
    dl_puts(b, "]");
    if (is_target && d->task == DL_TASK_FORECAST) dl_puts(b, ", offset: 1");
    dl_puts(b, labels ? "}\n" : ", normalize: standardize}\n");
}

/* A batch that the validation's fifth fills, too. */
static int batch_of(const dl_scaffold_data *d) {
    int64_t pairs = d->samples - (d->task == DL_TASK_FORECAST);
    int batch = 32;
    while (batch > 1 && batch * 5 > pairs) batch /= 2;
    return batch;
}

static void put_pictures(dl_buf *b, const dl_scaffold_data *d) {
    dl_puts(b, "  train_dir: "), put_text(b, d->train_dir);
    dl_puts(b, "\n  valid_dir: "), put_text(b, d->valid_dir);
    dl_puts(b, "\n  image_scaling: unit\n  horizontal_flip: true\n");
}

void dl_scaffold_put_configuration(dl_buf *b, const dl_scaffold_data *d, const char *name) {
    put_text(b, name);
    dl_puts(b, ":\n  model: "), put_text(b, dl_internf("%s.dl", name));
    dl_putf(b, "\n  global_batch_size: %d\n  num_epochs: 20\n  start_lr: 1.0e-3\n", batch_of(d));
    if (d->train_dir) {
        put_pictures(b, d);
        return;
    }
    dl_puts(b, "  data:\n");
    dl_puts(b, "    inputs:\n"), put_entry(b, d, &d->input, false);
    dl_puts(b, "    targets:\n"), put_entry(b, d, &d->target, true);
    /* A forecast is validated on the latest samples; others may be sorted. */
    dl_putf(b, "    split: {valid: 0.2%s}\n", d->task == DL_TASK_FORECAST ? "" : ", shuffle: true");
}

/* ---- the commands ---- */

void dl_scaffold_put_commands(dl_buf *b, const dl_scaffold_data *d, const char *name) {
    dl_buf data = {0};
    const char *array = d->train_dir || d->input.n_columns ? "" /* they are found */
                                                           : d->input.array->name,
               *path = d->train_dir ? d->valid_dir : d->path;
    dl_put_shell_word(&data, *array ? dl_internf("%s:%s", path, array) : path);
    dl_putf(b,
            "# %s\n\n`%s.dl` is the model, `config/%s.yaml` its configuration. Change both as you "
            "like. The next five commands:\n\n```sh\n",
            name, name, name);
    dl_putf(b, "dlc check %s.dl --config %s\n", name, name);
    dl_putf(b, "dlc summary %s.dl --config %s\n", name, name);
    dl_putf(b, "dlrun %s.dl --config %s\n", name, name);
    dl_putf(b, "dlrun predict runs/%s/1GPU/00 %s -o %s-prediction.npy\n", name, data.at, name);
    dl_putf(b, "dlc export runs/%s/1GPU/00 -o %s.onnx --as=onnx\n```\n\n", name, name);
    dl_putf(
        b,
        "They check the files against the model, print its layers, train it, apply it to the "
        "data, and write it as ONNX.\nA second run takes the place of the first, which moves to "
        "`runs/%s/1GPU/00.1`; `--run_num=01` gives it its own.\n",
        name);
    dl_buf_free(&data);
}

#include "runtime/runs/report_page.h"

#include <math.h>

#include "ir/base/foreign.h"
#include "runtime/runs/report_plots.h"

static void put(dl_buf *b, const char *text) { dl_put_foreign(b, DL_IN_XML, text); }

static void put_cell(dl_buf *b, const char *tag, const char *text) {
    dl_putf(b, "<%s>", tag), put(b, text), dl_putf(b, "</%s>", tag);
}

static void put_head(dl_buf *b, int n, const dl_reported_run *runs, const char *first) {
    dl_puts(b, "<table><tr>"), put_cell(b, "th", first);
    for (int i = 0; i < n; i++) {
        dl_putf(b, "<th><b style=\"color:%s\">&#9632;</b> ", dl_plot_colour(i));
        put(b, runs[i].facts.dir), dl_puts(b, "</th>");
    }
    dl_puts(b, "</tr>\n");
}

/* ---- the runs ---- */

static void put_summary(dl_buf *b, dl_arena *arena, int n, const dl_reported_run *runs) {
    static const char *const rows[] = {"model", "epochs", "steps", "best loss",
                                       "begun", "ended",  "end"};
    put_head(b, n, runs, "run");
    for (int k = 0; k < (int)(sizeof rows / sizeof *rows); k++) {
        dl_puts(b, "<tr>"), put_cell(b, "th", rows[k]);
        for (int i = 0; i < n; i++) {
            const dl_run_facts *r = &runs[i].facts;
            const char *model = dl_run_find_setting(r, "model");
            const char *cells[] = {model ? model : "",
                                   dl_format(arena, "%lld", (long long)r->epochs),
                                   dl_format(arena, "%lld", (long long)r->steps),
                                   dl_format(arena, "%.6g", dl_run_least(dl_run_loss(r))),
                                   r->begun,
                                   r->ended,
                                   r->done ? "done" : "not done"};
            put_cell(b, "td", cells[k]);
        }
        dl_puts(b, "</tr>\n");
    }
    dl_puts(b, "</table>\n");
}

/* ---- curves ---- */

/* The plot that a value belongs to: "Loss" of "Loss/train" and "Loss/valid". */
static const char *plot_of(const char *tag) {
    const char *slash = strrchr(tag, '/');
    bool part = slash && (!strcmp(slash, "/train") || !strcmp(slash, "/valid"));
    return part ? dl_intern_n(tag, (size_t)(slash - tag)) : dl_intern(tag);
}

static bool is_new(const dl_reported_run *runs, int run, int curve, const char *plot) {
    for (int i = 0; i <= run; i++)
        for (int k = 0; k < (i == run ? curve : runs[i].facts.curves.n); k++)
            if (plot_of(runs[i].facts.curves.at[k].tag) == plot) return false;
    return true;
}

static void put_curve(dl_buf *b, dl_arena *arena, int n, const dl_reported_run *runs,
                      const char *plot) {
    DL_ARRAY(dl_plot_line) lines = {0};
    bool positive = true;
    double least = INFINITY, most = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < runs[i].facts.curves.n; k++) {
            const dl_run_curve *c = &runs[i].facts.curves.at[k];
            if (plot_of(c->tag) != plot) continue;
            for (int p = 0; p < c->values.n; p++) {
                positive &= !(c->values.at[p] <= 0);
                least = fmin(least, c->values.at[p]), most = fmax(most, c->values.at[p]);
            }
            const char *name =
                n > 1 ? dl_format(arena, "%s, %s", runs[i].facts.dir, c->tag) : c->tag;
            dl_push(arena, &lines,
                    (dl_plot_line){.name = name,
                                   .x = c->steps.at,
                                   .y = c->values.at,
                                   .n = c->values.n,
                                   .colour = i,
                                   .dashed = strstr(c->tag, "train") != NULL});
        }
    /* Values of several decades need a logarithmic axis to be read. */
    dl_plot_style style = {
        .title = plot, .x_label = "step", .y_label = plot, .log_y = positive && most > 30 * least};
    dl_put_plot(b, &style, lines.at, lines.n);
}

static void put_curves(dl_buf *b, dl_arena *arena, int n, const dl_reported_run *runs) {
    for (int i = 0; i < n; i++)
        for (int k = 0; k < runs[i].facts.curves.n; k++) {
            const char *plot = plot_of(runs[i].facts.curves.at[k].tag);
            if (is_new(runs, i, k, plot)) put_curve(b, arena, n, runs, plot);
        }
}

/* ---- configuration and environment ---- */

/* Whether the runs have several values of a key. */
static bool differs(int n, const dl_reported_run *runs, const char *key) {
    const char *first = dl_run_find_setting(&runs[0].facts, key);
    for (int i = 1; i < n; i++) {
        const char *v = dl_run_find_setting(&runs[i].facts, key);
        if (!first != !v || (v && strcmp(first, v) != 0)) return true;
    }
    return false;
}

static bool is_any_default(int n, const dl_reported_run *runs, const char *key) {
    for (int i = 0; i < n; i++) {
        const char *v = dl_run_find_setting(&runs[i].facts, key);
        dl_run_setting s = {key, v};
        if (v && !dl_run_is_default(&s)) return false;
    }
    return true;
}

typedef enum { DIFFERENT, NOT_DEFAULT, REST } setting_kind;

static setting_kind kind_of(int n, const dl_reported_run *runs, const char *key) {
    return differs(n, runs, key) ? DIFFERENT : is_any_default(n, runs, key) ? REST : NOT_DEFAULT;
}

static void put_settings(dl_buf *b, int n, const dl_reported_run *runs, setting_kind kind) {
    put_head(b, n, runs, "key");
    for (int i = 0; i < n; i++)
        for (int k = 0; k < runs[i].facts.settings.n; k++) {
            const char *key = runs[i].facts.settings.at[k].key;
            bool seen = false;
            for (int j = 0; j < i; j++) seen |= dl_run_find_setting(&runs[j].facts, key) != NULL;
            if (seen || kind_of(n, runs, key) != kind) continue;
            dl_puts(b, "<tr>"), put_cell(b, "th", key);
            for (int j = 0; j < n; j++) {
                const char *v = dl_run_find_setting(&runs[j].facts, key);
                put_cell(b, "td", v ? v : "-");
            }
            dl_puts(b, "</tr>\n");
        }
    dl_puts(b, "</table>\n");
}

static void put_about(dl_buf *b, int n, const dl_reported_run *runs) {
    for (int i = 0; i < n; i++) {
        put_cell(b, "h3", runs[i].facts.dir), dl_puts(b, "<pre>");
        for (int k = 0; k < runs[i].facts.about.n; k++)
            put(b, runs[i].facts.about.at[k]), dl_puts(b, "\n");
        dl_puts(b, "</pre>\n");
    }
}

/* ---- data ---- */

static void put_data(dl_buf *b, dl_arena *arena, const dl_data_record *d) {
    dl_puts(b, "<table><tr><th>array</th><th>role</th><th>shape of a sample</th><th>channel</th>"
               "<th>mean</th><th>standard deviation</th></tr>\n");
    for (int i = 0; i < d->n; i++) {
        const dl_array_record *a = &d->at[i];
        dl_buf shape = {0};
        for (int k = 0; k < a->rank; k++)
            dl_putf(&shape, "%s%lld", k ? " x " : "", (long long)a->size[k]);
        for (int c = 0; c < (a->n_scales ? a->n_scales : 1); c++) {
            dl_puts(b, "<tr>"), put_cell(b, "th", a->name);
            put_cell(b, "td", a->is_target ? "target" : "input");
            put_cell(b, "td", shape.at ? shape.at : "");
            put_cell(b, "td", a->n_scales > 1 ? dl_format(arena, "%d", c) : "all");
            put_cell(b, "td",
                     a->n_scales ? dl_format(arena, "%.6g", (double)a->mean[c]) : "as it is");
            put_cell(b, "td",
                     a->n_scales ? dl_format(arena, "%.6g", (double)a->deviation[c]) : "as it is");
            dl_puts(b, "</tr>\n");
        }
        dl_buf_free(&shape);
    }
    dl_puts(b, "</table>\n");
}

/* ---- kernels ---- */

static double us_of(const dl_run_kernel *k) {
    return isnan(k->measured_us) ? k->predicted_us : k->measured_us;
}

/* Arithmetic against intensity, and the ceilings where they are known. */
static void put_roofline(dl_buf *b, dl_arena *arena, const dl_run_cost *c, int colour) {
    int n = c->kernels.n, shown = 0;
    double *x = DL_NEWS(arena, double, n + 1), *y = DL_NEWS(arena, double, n + 1);
    const char **titles = DL_NEWS(arena, const char *, n + 1);
    double least = INFINITY, most = 0;
    bool measured = false;
    for (int i = 0; i < n; i++) {
        const dl_run_kernel *k = &c->kernels.at[i];
        if (k->flops <= 0 || k->bytes <= 0 || us_of(k) <= 0) continue;
        measured |= !isnan(k->measured_us);
        x[shown] = k->flops / k->bytes, y[shown] = k->flops * k->calls / us_of(k) * 1e-3;
        least = fmin(least, x[shown]), most = fmax(most, x[shown]);
        titles[shown++] = dl_format(arena, "%s: %s", k->name, k->where);
    }
    dl_plot_line lines[2] = {{.name = measured ? "kernels, measured" : "kernels, predicted",
                              .x = x,
                              .y = y,
                              .n = shown,
                              .colour = colour,
                              .titles = titles}};
    bool roof = c->peak_gflops > 0 && c->peak_gbytes > 0 && shown;
    double ridge = roof ? c->peak_gflops / c->peak_gbytes : 0;
    double rx[3] = {fmin(least, ridge / 2), ridge, fmax(most, 2 * ridge)},
           ry[3] = {rx[0] * c->peak_gbytes, c->peak_gflops, c->peak_gflops};
    lines[1] = (dl_plot_line){
        .name = "ceilings measured in the run", .x = rx, .y = ry, .n = 3, .colour = 7};
    dl_plot_style style = {.title = "Roofline of a training step",
                           .x_label = "FLOP a byte",
                           .y_label = "GFLOP/s",
                           .log_x = true,
                           .log_y = true,
                           .points = true};
    dl_put_plot(b, &style, lines, 1 + roof);
}

static void put_kernels(dl_buf *b, dl_arena *arena, const dl_run_cost *c) {
    double all = 0;
    for (int i = 0; i < c->kernels.n; i++) all += us_of(&c->kernels.at[i]);
    dl_puts(b, "<table><tr><th>kernel</th><th>lines of the model</th><th>calls</th><th>MFLOP</th>"
               "<th>MB</th><th>predicted ms</th><th>measured ms</th><th>share</th></tr>\n");
    for (int i = 0; i < c->kernels.n; i++) {
        const dl_run_kernel *k = &c->kernels.at[i];
        dl_puts(b, "<tr>"), put_cell(b, "th", k->name), put_cell(b, "td", k->where);
        dl_putf(b, "<td>%d</td><td>%.3f</td><td>%.3f</td><td>%.4f</td>", k->calls, k->flops * 1e-6,
                k->bytes * 1e-6, k->predicted_us * 1e-3);
        put_cell(b, "td",
                 isnan(k->measured_us) ? "-" : dl_format(arena, "%.4f", k->measured_us * 1e-3));
        dl_putf(b, "<td>%.1f%%</td></tr>\n", all > 0 ? 100 * us_of(k) / all : 0);
    }
    dl_puts(b, "</table>\n");
}

static void put_memory(dl_buf *b, dl_arena *arena, const dl_run_cost *c, int colour) {
    double *x = DL_NEWS(arena, double, c->n + 1), *y = DL_NEWS(arena, double, c->n + 1),
           *kept = DL_NEWS(arena, double, c->n + 1);
    for (int i = 0; i < c->n; i++)
        x[i] = i, y[i] = c->memory[i] / 0x1p20, kept[i] = (double)c->variables / 0x1p20;
    dl_plot_line lines[] = {
        {.name = "all", .x = x, .y = y, .n = c->n, .colour = colour, .stairs = true},
        {.name = "inputs, parameters, optimizer", .x = x, .y = kept, .n = c->n, .colour = 7}};
    dl_plot_style style = {.title = "Memory over a training step",
                           .x_label = "kernel of the step, in order",
                           .y_label = "MiB in use"};
    dl_put_plot(b, &style, lines, 2);
}

static void put_cost(dl_buf *b, dl_arena *arena, const dl_reported_run *r, int colour) {
    put_cell(b, "h3", r->facts.dir);
    if (r->no_cost) {
        dl_puts(b, "<p>"), put(b, r->no_cost), dl_puts(b, "</p>\n");
        return;
    }
    dl_puts(b, "<p>"), put(b, r->cost.model);
    dl_puts(b, ", planned for "), put(b, r->cost.target);
    dl_puts(b, "</p>\n<div class=\"plots\">");
    put_roofline(b, arena, &r->cost, colour), put_memory(b, arena, &r->cost, colour);
    dl_puts(b, "</div><details open><summary>Kernels</summary>\n");
    put_kernels(b, arena, &r->cost);
    dl_puts(b, "</details>\n<details><summary>Data: statistics of the training part</summary>\n");
    put_data(b, arena, &r->cost.data);
    dl_puts(b, "</details>\n<details><summary>The model's text</summary><pre>");
    int line = 1;
    const char *p = r->cost.text;
    while (p && *p) { /* with the numbers that kernels name */
        size_t n = strcspn(p, "\n");
        dl_putf(b, "%4d  ", line++), put(b, dl_strndup(arena, p, n)), dl_puts(b, "\n");
        p += n + (p[n] == '\n');
    }
    dl_puts(b, "</pre></details>\n");
}

static const char style[] =
    "body{font:14px/1.45 system-ui,sans-serif;margin:24px auto;max-width:1120px;padding:0 16px;"
    "color:#222}h1{font-size:22px}h2{font-size:17px;border-bottom:1px solid #ccc;margin-top:30px}"
    "h3{font-size:14px;margin-bottom:4px}table{border-collapse:collapse;margin:8px 0}"
    "th,td{border:1px solid #ddd;padding:2px 8px;text-align:left;font-size:12.5px;"
    "overflow-wrap:anywhere}th{background:#f5f5f5;font-weight:600}pre{background:#f7f7f7;"
    "padding:8px;overflow:auto;font-size:12px}.plots{display:flex;flex-wrap:wrap;gap:12px}"
    "figure{margin:0}svg text{font:11px sans-serif;fill:#333}svg .title{font-size:13px;"
    "font-weight:600}.grid{stroke:#e4e4e4;fill:none}.axis{stroke:#555;fill:none}"
    ".trial{fill:none;stroke-width:1.5;stroke-opacity:.8}.trial:hover{stroke-width:4}.line{fill:"
    "none;stroke-width:1.6}"
    ".legend{font-size:12px;max-width:520px}.legend span{margin-right:14px}"
    ".legend i{display:inline-block;width:22px;margin-right:5px;vertical-align:middle}"
    "summary{cursor:pointer;font-weight:600;margin-top:8px}img{max-width:100%}";

static void put_runs(dl_buf *b, dl_arena *arena, int n, const dl_reported_run *runs) {
    put_summary(b, arena, n, runs);
    dl_puts(b, "<h2>Curves</h2><div class=\"plots\">\n"), put_curves(b, arena, n, runs);
    dl_puts(b, "</div>\n<h2>Configuration</h2>\n");
    if (n > 1) dl_puts(b, "<h3>What differs</h3>\n"), put_settings(b, n, runs, DIFFERENT);
    dl_puts(b, "<h3>Not the default</h3>\n"), put_settings(b, n, runs, NOT_DEFAULT);
    dl_puts(b, "<details><summary>All others</summary>\n"), put_settings(b, n, runs, REST);
    dl_puts(b, "</details>\n<h2>Environment</h2>\n"), put_about(b, n, runs);
    dl_puts(b, "<h2>A training step</h2>\n");
    for (int i = 0; i < n; i++) put_cost(b, arena, &runs[i], i);
    dl_puts(b, "<h2>Pictures</h2>\n");
    for (int i = 0; i < n; i++) {
        put_cell(b, "h3", runs[i].facts.dir);
        if (runs[i].picture)
            dl_putf(b, "<img alt=\"prediction\" src=\"data:image/png;base64,%s\">\n",
                    runs[i].picture);
        else
            dl_puts(b, "<p>none</p>\n");
    }
}

void dl_put_report(dl_buf *b, dl_arena *arena, const dl_reported_sweep *sweep, int n,
                   const dl_reported_run *runs) {
    dl_puts(b, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>");
    dl_putf(b, "%d run%s", n, n == 1 ? "" : "s");
    dl_putf(b, "</title><style>%s</style></head><body>\n<h1>%d run%s</h1>\n", style, n,
            n == 1 ? "" : "s");
    if (sweep) dl_put_sweep(b, arena, sweep);
    if (n) put_runs(b, arena, n, runs);
    dl_puts(b, "</body></html>\n");
}

/* `dlc compile`: a model to its plan, with what there is to know about it. */
#include <stdio.h>

#include "compiler/origin.h"
#include "ir/base/cpus.h"
#include "ir/base/dirs.h"
#include "ir/base/foreign.h"
#include "ir/base/limits.h"
#include "ir/base/output.h"
#include "ir/body.h"
#include "ir/text/text.h"
#include "passes/memory/memory.h"
#include "passes/precision/amp.h"
#include "runtime/analyze/analyze.h"
#include "runtime/analyze/max_batch.h"
#include "runtime/analyze/plan_text.h"
#include "runtime/formats/json.h"

static const dl_option options[] = {
    {"output", 'o', "FILE", "write the plan here (.dlp), for `dlrun FILE`"},
    {"json", 0, NULL, "print the figures as JSON"},
    {"memory", 0, "SIZE",
     "print the largest batch that fits into 8GiB (512MiB...), in each precision"},
    {"target", 0, "TARGET", dl_target_names},
    {"ranks", 0, "N", "the plan of one of N processes, each with its share of the global batch"},
    {"rank", 0, "R", "which of them, 0 to N-1 (0)"},
    {"compile_threads", 0, "N", "make sources for so many compiling threads (one for each CPU)"},
    {"dump", 0, "WHAT", "print ast, ir, kernel, source, sources, plan or memory"},
    {"dump-after", 0, "PASS", "print the IR after this pass"},
    {"dump-filter", 0, "@NAME", "only the kernel or graph of this name"},
    {"dump-dir", 0, "DIR", "write the IR after every pass into numbered files"},
    DL_OPTION_HELP,
    {0},
};

static const char usage[] =
    "usage: dlc compile [MODEL.dl] [OPTION...] [--key=value...]\n\n"
    "Compiles a model (models/unet.dl) with a configuration and prints its figures. "
    "Without --config and batch\n"
    "size, the batch is 1; with -o it is the one that dlrun takes.\n\n";

typedef struct {
    const dl_config *c;
    const dl_console *out;
    dl_print_options print;
    dl_error *err;
} dumper;

/* --dump-filter names something that the module has; `graphs` may be printed, too. */
static bool check_filter(const dl_module *m, const char *filter, bool graphs, dl_error *err) {
    dl_arena *scratch = dl_arena_new(NULL);
    DL_ARRAY(const char *) names = {0};
    bool found = !filter;
    for (int g = 0; g < m->graphs.n; g++) {
        const dl_graph *graph = m->graphs.at[g];
        if (graphs) dl_push(scratch, &names, graph->name);
        dl_kernel **kernels = dl_graph_kernel_list(graph, scratch);
        for (int i = 0, n = dl_graph_kernels(graph); i < n; i++)
            dl_push(scratch, &names, kernels[i]->name);
    }
    for (int i = 0; !found && i < names.n; i++) found = strcmp(names.at[i], filter) == 0;
    if (!found) {
        const char *near = dl_nearest(filter, names.at, names.n);
        dl_fail(err, DL_USAGE, "--dump-filter=@%.100s: no %s has this name%s%s%s", filter,
                graphs ? "graph or kernel" : "kernel", near ? "; did you mean '@" : "",
                near ? near : "", near ? "'?" : "");
    }
    dl_arena_free(scratch);
    return found;
}

/* After each pass: the file of --dump-dir, the text of --dump-after. */
static void observe(void *user, int number, const dl_pass *pass, const dl_module *m) {
    dumper *d = user;
    const char *dir = dl_config_option(d->c, "dump-dir"),
               *after = dl_config_option(d->c, "dump-after");
    bool print = after && pass && dl_pass_find(after) == pass;
    if (!dir && !print) return;
    dl_buf b = {0};
    dl_print_module(&b, m, dir ? (dl_print_options){.locations = true} : d->print);
    char path[4096];
    if (print && check_filter(m, d->print.filter, true, d->err)) dl_console_puts(d->out, b.at);
    if (dir) {
        snprintf(path, sizeof path, "%s/%02d-%s.dlir", dir, number, pass ? pass->name : "model");
        if (dl_make_dirs(dir, 0755, d->err)) dl_write_file(path, b.at, b.n, d->err);
    }
    dl_buf_free(&b);
}

/* ..., "amp": {...}, "cast_kernels": 0 */
static void print_amp(const dl_console *out, const dl_graph *g, dl_dtype low) {
    dl_amp_report r = dl_amp_report_of(g);
    const char *between = "";
    dl_console_text(out, "\"amp\": {\"mode\": \"%s\", \"values\": {",
                    low == DL_F32   ? "none"
                    : low == DL_F16 ? "fp16"
                                    : dl_dtype_name(low));
    for (int d = 0; d < DL_NDTYPES; d++) {
        if (!r.values[d]) continue;
        dl_console_text(out, "%s\"%s\": {\"count\": %lld, \"bytes\": %lld}", between,
                        dl_dtype_name((dl_dtype)d), (long long)r.values[d], (long long)r.bytes[d]);
        between = ", ";
    }
    dl_console_text(out, "}, \"bytes_saved\": %lld, \"casts\": %d}, \"cast_kernels\": %d",
                    (long long)r.saved, r.casts, r.cast_kernels);
}

/* ..., "groups": {"tp": [[0, 1], [2, 3]], ...}: who works with whom, of several ranks. */
static void print_groups(const dl_console *out, const dl_session *s) {
    int world = dl_ranks_world(&s->ranks), *members = DL_NEWS(s->arena, int, world);
    dl_console_text(out, "\"ranks\": %d, \"groups\": {", world);
    for (int g = 0; g < DL_NRANK_GROUPS; g++) {
        const char *name = dl_rank_groups[g], *between = "";
        int n = dl_ranks_count(&s->ranks, name);
        dl_console_text(out, "%s\"%s\": [", g ? ", " : "", name);
        for (int rank = 0; rank < world; rank++) {
            dl_ranks_members(&s->ranks, name, rank, members);
            if (members[0] != rank) continue; /* its first member tells it */
            dl_console_text(out, "%s[", between);
            for (int i = 0; i < n; i++) dl_console_text(out, "%s%d", i ? ", " : "", members[i]);
            dl_console_text(out, "]");
            between = ", ";
        }
        dl_console_text(out, "]");
    }
    dl_console_text(out, "}, ");
}

/* ..., "kernel_table": [...]: each kernel of the plan. */
static void print_kernels(const dl_console *out, const dl_session *s, const dl_plan *p,
                          const dl_target *t) {
    dl_error err = {0};
    dl_buf b = {0};
    dl_resources *of = DL_NEWS(s->arena, dl_resources, p->kernels.n + 1);
    bool known = t->backend->resources && t->backend->resources(s->arena, p, of, &err);
    if (err.code) dl_console_warning(out, err.message);
    int listed; /* the plan's first ones, in this order; its others are no graph's */
    dl_kernel **kernels = dl_module_kernel_list(s->module, s->arena, &listed);
    for (int i = 0; i < p->kernels.n; i++) {
        const dl_plan_kernel *k = &p->kernels.at[i];
        int shared = 0; /* that a launch asks for, in addition to the code's own */
        for (int phase = 0; phase < k->phases; phase++)
            shared = k->shared[phase] > shared ? k->shared[phase] : shared;
        dl_puts(&b, i ? ", {\"name\": " : "{\"name\": ");
        dlr_json_put_string(&b, k->name), dl_puts(&b, ", \"where\": "),
            dlr_json_put_string(&b, k->where);
        dl_puts(&b, ", \"kind\": "),
            dlr_json_put_string(&b, i < listed ? dl_kernel_kind(kernels[i]) : "");
        dl_puts(&b, ", \"variant\": "), dlr_json_put_string(&b, k->variant);
        dl_putf(&b, ", \"phases\": %d, \"flops\": %lld, \"bytes\": %lld, \"predicted_us\": %.3f",
                k->phases, (long long)k->flops, (long long)k->bytes, k->predicted_us);
        if (known)
            dl_putf(&b, ", \"registers\": %d, \"spill_bytes\": %d, \"shared_bytes\": %d",
                    of[i].registers, of[i].spill_bytes, of[i].shared_bytes + shared);
        dl_puts(&b, "}");
    }
    dl_console_text(out, "\"kernel_table\": [%s], ", b.at ? b.at : "");
    dl_buf_free(&b);
}

/* State from step to step other than parameters: the optimiser's, and running statistics. */
static int64_t count_state(const dl_plan *p) {
    int64_t bytes = 0;
    for (int i = 0; i < p->vars.n; i++)
        if (p->vars.at[i].role == DL_VAR_STATE) bytes += dl_type_bytes(&p->vars.at[i].type);
    return bytes;
}

/* Sums over a training step. */
typedef struct {
    int64_t flops, bytes;
    double predicted_us;
    int kernels;
} step_cost;

static step_cost cost_of(const dl_plan *p) {
    const dl_plan_program *train = &p->programs.at[0];
    step_cost sum = {.kernels = train->launches.n};
    for (int i = 0; i < train->launches.n; i++) {
        const dl_plan_kernel *k = &p->kernels.at[train->launches.at[i].kernel];
        sum.flops += k->flops, sum.bytes += k->bytes, sum.predicted_us += k->predicted_us;
    }
    return sum;
}

static void print_figures(const dl_console *out, const dl_session *s, const dl_plan *p,
                          const dl_compile_options *opt, step_cost step, bool json) {
    double ms = s->front_ms + s->times.passes_ms + s->times.emit_ms + s->times.cc_ms;
    int64_t peak = dl_plan_peak(p, dl_cpus_allowed());
    if (json) {
        dl_console_text(
            out,
            "{\"model\": \"%s\", \"target\": \"%s\", \"batch\": %lld, \"parameters\": %lld, "
            "\"flops\": "
            "%lld, \"bytes\": %lld, \"kernels\": %d, "
            "\"peak_bytes\": %lld, \"state_bytes\": %lld, \"predicted_ms\": %.3f, "
            "\"compile_ms\": %.1f, "
            "\"passes_ms\": %.1f, "
            "\"cc_ms\": %.1f, \"compiled\": %d, \"repeated_kernels\": %d, ",
            s->model_name, p->target, (long long)s->batch, (long long)s->parameters,
            (long long)step.flops, (long long)step.bytes, step.kernels, (long long)peak,
            (long long)count_state(p), step.predicted_us * 1e-3, ms, s->times.passes_ms,
            s->times.cc_ms, s->times.compiled, s->times.repeated);
        print_groups(out, s);
        print_kernels(out, s, p, opt->target);
        print_amp(out, s->module->graphs.at[0], opt->step_options.low);
        dl_console_puts(out, "}\n");
        return;
    }
    dl_console_text(out, "%s, batch %lld, %s\n", dl_shown(s->arena, s->model_path),
                    (long long)s->batch, p->target);
    dl_console_text(out, "  parameters      %lld\n", (long long)s->parameters);
    dl_console_text(out, "  a training step %.2f GFLOP, %.1f MiB of traffic, %d kernels\n",
                    (double)step.flops * 1e-9, (double)step.bytes / 1048576, step.kernels);
    dl_console_text(
        out,
        "  peak memory     %.1f MiB, exactly (parameters, optimiser, activations, workspace, %d "
        "threads)\n",
        (double)peak / 1048576, dl_cpus_allowed());
    if (s->times.repeated)
        dl_console_text(out, "  memory budget   %d kernels run again in the backward pass\n",
                        s->times.repeated);
    dl_console_text(out, "  predicted step  %.1f ms\n", step.predicted_us * 1e-3);
    dl_console_text(out, "  compiled in     %.0f ms (%s)\n", ms,
                    s->times.compiled ? "kernels compiled" : "kernels from the cache");
}

/* A line for each source: its number, its size and how many kernels' functions it holds. */
static void put_sources(dl_buf *b, const dl_plan *p) {
    for (int i = 0; i < p->objects.n; i++) {
        int kernels = 0;
        for (int k = 0; k < p->kernels.n; k++) kernels += p->kernels.at[k].object == i;
        dl_putf(b, "source %d: %zu characters, %d kernels\n", i, strlen(p->objects.at[i].source),
                kernels);
    }
}

static bool dump(const dl_console *out, const dl_session *s, const dl_plan *p, const char *what,
                 dl_print_options print, dl_error *err) {
    dl_buf b = {0};
    bool graphs = !strcmp(what, "ir");
    if (print.filter && !graphs && strcmp(what, "kernel"))
        return dl_fail(err, DL_USAGE,
                       "--dump-filter goes with --dump=ir, --dump=kernel and --dump-after");
    if (print.filter && !check_filter(s->module, print.filter, graphs, err)) return false;
    if (!strcmp(what, "ast")) {
        dl_model_print_ast(&b, s->model);
    } else if (!strcmp(what, "kernel")) {
        int n;
        dl_kernel **kernels = dl_module_kernel_list(s->module, s->arena, &n);
        for (int i = 0; i < n; i++)
            if (!print.filter || !strcmp(print.filter, kernels[i]->name))
                dl_print_kernel(&b, kernels[i], print), dl_puts(&b, "\n");
    } else if (!strcmp(what, "ir")) {
        dl_print_module(&b, s->module, print);
    } else if (!strcmp(what, "source")) {
        for (int i = 0; i < p->objects.n; i++) dl_puts(&b, p->objects.at[i].source);
    } else if (!strcmp(what, "sources")) {
        put_sources(&b, p);
    } else if (!strcmp(what, "plan")) {
        dl_put_plan(&b, p);
    } else if (!strcmp(what, "memory")) {
        for (int g = 0; g < s->module->graphs.n && !err->code; g++)
            dl_memory_report(s->module->graphs.at[g], &b, err);
    } else
        dl_fail(err, DL_USAGE, "--dump=%s: ast, ir, kernel, source, sources, plan or memory",
                dl_shown(s->arena, what));
    if (!err->code) dl_console_puts(out, b.at);
    dl_buf_free(&b);
    return !err->code;
}

/* Options that do not go together, before anything is compiled. */
static bool check_options(const dl_config *c, const char *filter, dl_error *err) {
    const char *what = dl_config_option(c, "dump"), *out = dl_config_option(c, "output"),
               *after = dl_config_option(c, "dump-after");
    if (out && !dl_output_check(out, err)) return false;
    if (out && what && !strcmp(what, "ast"))
        return dl_fail(err, DL_USAGE,
                       "-o writes a plan, and --dump=ast ends before there is one: give one of "
                       "them");
    if (filter && !what && !after)
        return dl_fail(err, DL_USAGE,
                       "--dump-filter goes with --dump=ir, --dump=kernel and --dump-after");
    return !after || dl_pass_find(after) ||
           dl_fail(err, DL_USAGE, "--dump-after=%s: no such pass", after);
}

/* The origin of the plan that is going to be compiled, by which dlrun uses it. */
static dl_plan_origin origin_of(const dl_invocation *call, const dl_session *s,
                                const dl_compile_options *opt) {
    static const char *const kept[] = {"target", "ranks", "rank", NULL};
    dl_buf command = {0};
    dl_puts(&command, "dlc compile");
    dl_config_put_words(call->config, kept, &command);
    dl_plan_origin origin = dl_origin_of(s->arena, s, opt, command.at);
    dl_buf_free(&command);
    return origin;
}

static bool compile(const dl_invocation *call, dl_session *s, dl_error *err) {
    const dl_config *c = call->config;
    const char *what = dl_config_option(c, "dump"), *filter = dl_config_option(c, "dump-filter"),
               *out = dl_config_option(c, "output"), *after = dl_config_option(c, "dump-after");
    dumper d = {c,
                call->out,
                {.locations = true, .filter = filter && *filter == '@' ? filter + 1 : filter},
                err};
    dl_compile_options opt;
    bool ast = what && !strcmp(what, "ast");
    if (!check_options(c, ast ? NULL : d.print.filter, err)) return false;
    if (ast) return dump(call->out, s, NULL, what, d.print, err);
    if (!dl_session_options(s, dl_config_option(c, "target"), &opt, err)) return false;
    opt.out = call->out;
    opt.observe = observe, opt.user = &d;
    opt.keep_gradients = !dl_config_is_null(c, DL_KEY_save_grads);
    opt.link = out || (!what && !after);
    int64_t threads = 0;
    if (!dl_option_int(c, "compile_threads", 1, DL_MAX_THREADS, &threads, err)) return false;
    opt.compile_threads = (int)threads;
    dl_plan_origin origin = {0};
    dl_plan made = {0};
    if (out) origin = origin_of(call, s, &opt);
    if (out && !dl_origin_predictions(s->arena, s, &opt, &made, err)) return false;
    dl_plan *p =
        what || after ? dl_session_compile(s, &opt, err) : dl_session_prepare(s, &opt, err);
    if (!p || err->code) return false;
    p->origin = origin, p->predictions = made.predictions;
    if (out && !dl_plan_write(p, out, err)) return false;
    if (what) return dump(call->out, s, p, what, d.print, err);
    if (!after) print_figures(call->out, s, p, &opt, cost_of(p), dl_config_option(c, "json"));
    return true;
}

static bool run(dl_invocation *call, dl_error *err) {
    enum { HEAP = 256 << 20 }; /* ResNet-50 for a GPU takes 190 MB, most of it NVRTC */
    const char *memory = dl_config_option(call->config, "memory");
    if (memory)
        return dl_print_max_batch(call, memory, dl_config_option(call->config, "json"), err);
    dl_heap_of_huge_pages(HEAP);
    call->batch_of_run = dl_config_option(call->config, "output") != NULL;
    dl_session *s = dl_open_session(call, call->config, 0, err);
    if (!s) return false;
    dl_pass_on_warnings(call, s);
    bool ok = compile(call, s, err);
    dl_session_close(s);
    return ok;
}

const dl_subcommand dl_subcommand_compile = {
    .name = "compile",
    .help = "compile a model: parameters, FLOPs, kernels, exact peak memory, predicted time",
    .usage = usage,
    .options = options,
    .takes_keys = true,
    .run = run,
};

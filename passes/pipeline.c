/* The order of the passes, and the manager that runs them. */
#include "passes/pass.h"

/* simplify runs a second time after optimizer, because gradients are written for clarity, with
 * explicit broadcasts and a reduction for each operand. plan_memory is last: offsets are valid
 * for one order only. */
const char dl_pipeline[] =
    "amp,partial_batch,global_batch,lower,simplify,contractions,shard,autodiff,ring,accumulate,"
    "data_parallel,optimizer,legalize_contractions,align_scans,simplify,one_pass_variance,cast_"
    "weights_once,"
    "layout,order_collectives,fuse,buckets,in_place_updates,recompute,schedule,fit_memory,plan_"
    "memory";

#define dl_skip_nothing NULL
enum { AROUND, WITHIN };
const dl_pass dl_passes[] = {
#define PASS(name, takes, leaves, bodies, skipped, help)                                           \
    {#name, help, dl_pass_##name, dl_skip_##skipped, bodies, DL_STAGE_##takes, DL_STAGE_##leaves},
#include "passes/passes.def"
#undef PASS
};
const int dl_npasses = (int)(sizeof dl_passes / sizeof *dl_passes);

/* Former names of passes, which users may have in scripts; accepted until 1.0. */
static const struct {
    const char *former, *name;
} renamed[] = {
    {"low_weights", "cast_weights_once"},  {"moments", "one_pass_variance"},
    {"products", "legalize_contractions"}, {"ranks", "data_parallel"},
    {"sequence", "order_collectives"},     {"updates", "in_place_updates"},
};

const dl_pass *dl_pass_find(const char *name) {
    for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++)
        if (strcmp(renamed[i].former, name) == 0) name = renamed[i].name;
    for (int i = 0; i < dl_npasses; i++)
        if (strcmp(dl_passes[i].name, name) == 0) return &dl_passes[i];
    return NULL;
}

static bool fail_unknown(const char *name, dl_pass_ctx *ctx) {
    const char **names = DL_NEWS(ctx->arena, const char *, dl_npasses);
    dl_buf list = {0};
    for (int i = 0; i < dl_npasses; i++) {
        names[i] = dl_passes[i].name;
        dl_putf(&list, "%s%s", i ? ", " : "", names[i]);
    }
    const char *near = dl_nearest(name, names, dl_npasses);
    dl_fail(ctx->err, DL_USAGE, "no pass '%s'%s%s%s; the passes are: %s", name,
            near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "", list.at);
    dl_buf_free(&list);
    return false;
}

typedef DL_ARRAY(const dl_pass *) pass_list;

/* Parses comma-separated names of passes, with optional blanks around them; an unknown name is a
 * fault, a former one a warning. */
static bool parse_names(const char *names, dl_pass_ctx *ctx, const dl_pass_options *opt,
                        pass_list *out) {
    for (const char *p = names ? names : ""; *p;) {
        size_t skip = strspn(p, ", "), n = strcspn(p + skip, ", ");
        p += skip;
        if (!n) continue;
        const char *name = dl_strndup(ctx->arena, p, n);
        const dl_pass *pass = dl_pass_find(name);
        if (!pass) return fail_unknown(name, ctx);
        if (opt->warn && strcmp(pass->name, name) != 0)
            opt->warn(dl_format(ctx->arena, "the pass '%s' is called '%s' now", name, pass->name));
        dl_push(ctx->arena, out, pass);
        p += n;
    }
    return true;
}

static bool contains(const pass_list *list, const dl_pass *pass) {
    for (int i = 0; i < list->n; i++)
        if (list->at[i] == pass) return true;
    return false;
}

/* Is the module at the stage that a pass takes? */
static bool is_at(const dl_module *m, dl_stage takes, dl_error *err) {
    for (int i = 0; i < m->graphs.n; i++) {
        const dl_graph *g = m->graphs.at[i];
        dl_stage own = dl_graph_stage(g);
        if (own == DL_STAGE_PLANNED)
            return dl_fail(err, DL_INPUT, "the memory of graph '%s' is planned already", g->name);
        if (takes < DL_STAGE_FUSED && own == DL_STAGE_FUSED)
            return dl_fail(err, DL_INPUT, "graph '%s' consists of kernels already", g->name);
    }
    return dl_validate_module(m, takes, err);
}

/* The last pass of the table that brings a module to the stage, for messages. */
static const char *maker_of(dl_stage stage) {
    const char *name = "";
    for (int i = 0; i < dl_npasses; i++)
        if (dl_passes[i].leaves == stage && dl_passes[i].takes != stage) name = dl_passes[i].name;
    return name;
}

/* Reports why the module is not at `stage`: DLC_SKIP leaves out a pass, or a pass was never
 * asked for. */
static bool check_stage(const dl_module *m, dl_stage stage, const char *user,
                        const dl_pass_options *opt, dl_error *err) {
    dl_error why = {0};
    if (is_at(m, stage, &why)) return true;
    if (opt->skip && *opt->skip)
        return dl_fail(err, DL_USAGE, "%s cannot do without what DLC_SKIP=%s leaves out: %s", user,
                       opt->skip, why.message);
    const char *maker = maker_of(stage);
    return dl_fail(err, DL_INPUT, "%s cannot take this module: %s%s%s%s", user, why.message,
                   *maker ? " (it takes what '" : "", maker, *maker ? "' leaves)" : "");
}

static bool check_after(const dl_module *m, const dl_pass *pass, dl_error *err) {
    dl_error why = {0};
    return dl_validate_module(m, pass->leaves, &why) ||
           dl_fail(err, why.code, "after pass '%s': %s", pass->name, why.message);
}

static bool run_on(dl_graph *g, dl_pass_fn *run, bool within, dl_pass_ctx *ctx) {
    for (int i = 0; i < g->nodes.n && within; i++)
        if (g->nodes.at[i]->body && !run_on(g->nodes.at[i]->body, run, within, ctx)) return false;
    run(g, ctx);
    if (ctx->err->code != DL_OK) return false;
    return !g->module->fault || dl_fail(ctx->err, DL_INPUT, "%s", g->module->fault);
}

static bool run_pass(dl_module *m, dl_pass_fn *run, bool within, dl_pass_ctx *ctx) {
    for (int j = 0; j < m->graphs.n; j++)
        if (!run_on(m->graphs.at[j], run, within, ctx)) return false;
    return true;
}

bool dl_run_passes(dl_module *m, const char *names, dl_pass_ctx *ctx, dl_pass_options opt) {
    pass_list run = {0}, skip = {0};
    if (!parse_names(names, ctx, &opt, &run) || !parse_names(opt.skip, ctx, &opt, &skip))
        return false;
    if (opt.observe) opt.observe(opt.user, 0, NULL, m);
    const dl_pass *last = NULL; /* the last pass that ran */
    for (int i = 0; i < run.n; i++) {
        const dl_pass *pass = run.at[i];
        bool skipped = contains(&skip, pass), checked = opt.validate || skip.n;
        if (skipped && !pass->instead) continue;
        const char *user = dl_format(ctx->arena, "pass '%s'", pass->name);
        bool holds = last && last->leaves == pass->takes;
        if (checked && !holds && !check_stage(m, pass->takes, user, &opt, ctx->err)) return false;
        if (!run_pass(m, skipped ? pass->instead : pass->run, pass->within, ctx)) return false;
        last = pass;
        /* The number is the position in the list, so that dumps keep their numbers when a pass
         * is skipped. */
        if (opt.observe) opt.observe(opt.user, i + 1, pass, m);
        bool changed = pass->leaves != pass->takes;
        if (opt.validate == DL_VALIDATE_PASSES || (opt.validate == DL_VALIDATE_STAGES && changed))
            if (!check_after(m, pass, ctx->err)) return false;
    }
    /* If DLC_SKIP leaves out the last passes, the module may lack the stage that the caller
     * needs. */
    const dl_pass *end = run.n ? run.at[run.n - 1] : NULL;
    if (end && last != end && !dl_validate_module(m, end->leaves, &(dl_error){0}))
        return dl_fail(ctx->err, DL_USAGE, "pass '%s' cannot be left out (DLC_SKIP=%s)", end->name,
                       opt.skip);
    return true;
}

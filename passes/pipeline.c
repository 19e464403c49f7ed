/* The order of the passes, and the manager that runs them. */
#include "ir/validate.h"
#include "passes/pass.h"

/* simplify stands behind optimizer a second time because gradients are written for clarity, with explicit
 * broadcasts and a reduction an operand, and become lean here. plan_memory is last: offsets hold for one
 * order. */
const char dl_pipeline[] = "lower,simplify,autodiff,optimizer,simplify,layout,fuse,schedule,plan_memory";

const dl_pass dl_passes[] = {
#define PASS(name, stage, help) {#name, help, dl_pass_##name, DL_STAGE_##stage},
#include "passes/passes.def"
#undef PASS
};
const int dl_npasses = (int)(sizeof dl_passes / sizeof *dl_passes);

const dl_pass *dl_pass_find(const char *name) {
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

/* Comma-separated names, blanks around them allowed, to passes; unknown names are a fault. */
static bool parse_names(const char *names, dl_pass_ctx *ctx, pass_list *out) {
    for (const char *p = names ? names : ""; *p;) {
        size_t skip = strspn(p, ", "), n = strcspn(p + skip, ", ");
        p += skip;
        if (!n) continue;
        const char *name = dl_strndup(ctx->arena, p, n);
        const dl_pass *pass = dl_pass_find(name);
        if (!pass) return fail_unknown(name, ctx);
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

bool dl_run_passes(dl_module *m, const char *names, dl_pass_ctx *ctx, dl_pass_options opt) {
    pass_list run = {0}, skip = {0};
    if (!parse_names(names, ctx, &run) || !parse_names(opt.skip, ctx, &skip)) return false;
    if (opt.observe) opt.observe(opt.user, 0, NULL, m);
    for (int i = 0; i < run.n; i++) {
        const dl_pass *pass = run.at[i];
        if (contains(&skip, pass)) continue;
        for (int j = 0; j < m->graphs.n; j++) {
            pass->run(m->graphs.at[j], ctx);
            if (ctx->err->code != DL_OK) return false;
        }
        /* The number is the place in the list, so that dumps keep theirs when a pass is skipped. */
        if (opt.observe) opt.observe(opt.user, i + 1, pass, m);
        for (int j = 0; opt.validate && j < m->graphs.n; j++)
            if (!dl_validate(m->graphs.at[j], (dl_stage)pass->stage, ctx->err)) {
                dl_error why = *ctx->err;
                *ctx->err = (dl_error){0};
                return dl_fail(ctx->err, why.code, "behind pass '%s': %s", pass->name, why.message);
            }
    }
    return true;
}

bool dl_fail_op(const dl_graph *g, const dl_node *n, dl_error *err) {
    bool high = dl_ops[n->op].class == DL_CLASS_HIGH;
    return dl_fail(err, DL_INPUT, "%s:%d:%d: error: '%s' %s [DL-E080%d]", n->loc.file ? n->loc.file : g->name,
                   n->loc.line, n->loc.column, dl_ops[n->op].name,
                   high ? "is checked, but this version cannot compile it yet"
                        : "has no gradient, and the loss needs one",
                   high ? 1 : 2);
}

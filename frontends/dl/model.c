/* The front end's interface: parse, arguments, build, check. */
#include "frontends/dl/elab.h"
#include "frontends/dl/facts.h"

struct dl_model {
    dl_arena *arena;
    const dl_source *source;
    const dl_ast *file, *model;
    dl_argument *arguments;
    dl_span *places; /* of each */
    int narguments;
    bool faulty;     /* parsing reported errors */
    dl_facts *facts; /* of the next check; NULL: none are wanted */
};

static dl_setting literal(dl_arena *arena, const dl_ast *e) {
    dl_setting s = {.kind = DL_SET_NONE};
    if (!e) return s;
    switch (e->kind) {
    case DL_A_INT: return (dl_setting){.kind = DL_SET_INT, .i = e->i};
    case DL_A_FLOAT: return (dl_setting){.kind = DL_SET_FLOAT, .f = e->f};
    case DL_A_BOOL: return (dl_setting){.kind = DL_SET_BOOL, .b = e->i};
    case DL_A_STR: return (dl_setting){.kind = DL_SET_STRING, .s = e->name};
    case DL_A_UNARY: {
        dl_setting a = literal(arena, e->a);
        if (a.kind == DL_SET_INT) a.i = -a.i;
        if (a.kind == DL_SET_FLOAT) a.f = -a.f;
        return a;
    }
    case DL_A_LIST: {
        dl_setting *items = DL_NEWS(arena, dl_setting, e->items.list.n + 1);
        for (int i = 0; i < e->items.list.n; i++) items[i] = literal(arena, e->items.list.at[i]->a);
        return (dl_setting){.kind = DL_SET_LIST, .list = {items, e->items.list.n}};
    }
    default: return s;
    }
}

/* Checks declarations that elaboration does not compare: arguments and modules of one name. */
static void check_params(dl_diags *d, const dl_ast_list *l, bool ordered) {
    bool defaults = false;
    for (int i = 0; i < l->list.n; i++) {
        const dl_ast *p = l->list.at[i];
        for (int k = 0; k < i; k++)
            if (l->list.at[k]->name == p->name)
                dl_report(d, p->span, DL_DIAG_bad_parameter, "the argument '%s' is named twice",
                          p->name);
        if (ordered && defaults && !p->a)
            dl_report(d, p->span, DL_DIAG_bad_parameter,
                      "'%s' has no default but follows one that has", p->name);
        defaults |= p->a != NULL;
    }
    if (l->list.n > 64)
        dl_report(d, l->list.at[64]->span, DL_DIAG_bad_parameter,
                  "there are more than 64 arguments");
}

static void check_declarations(dl_model *m, dl_diags *d) {
    const dl_ast_list *l = &m->file->body;
    for (int i = 0; i < l->list.n; i++) {
        const dl_ast *n = l->list.at[i];
        if (n->kind == DL_A_FUNCTION) check_params(d, &n->items, true);
        if (n->kind != DL_A_MODULE && n->kind != DL_A_MODEL) continue;
        /* A model's arguments are configuration keys: their order is irrelevant. */
        check_params(d, &n->items, n->kind == DL_A_MODULE);
        check_params(d, &n->more, false);
        for (int k = 0; n->kind == DL_A_MODULE && k < i; k++)
            if (l->list.at[k]->kind == DL_A_MODULE && l->list.at[k]->name == n->name) {
                dl_diag *g = dl_report(d, n->at, DL_DIAG_duplicate_definition,
                                       "the module '%s' is defined twice", n->name);
                dl_diag_add_note(d, g, l->list.at[k]->at, "the first one");
            }
        if (n->kind == DL_A_MODEL && m->model) {
            dl_diag *g = dl_report(d, n->at, DL_DIAG_two_models,
                                   "a file declares one model, and this is the second");
            dl_diag_add_note(d, g, m->model->at, "the first one");
        } else if (n->kind == DL_A_MODEL)
            m->model = n;
        for (int k = 0; n->kind == DL_A_MODULE && k < n->more.list.n; k++)
            for (int j = 0; j < n->items.list.n; j++)
                if (n->more.list.at[k]->name == n->items.list.at[j]->name)
                    dl_report(d, n->more.list.at[k]->span, DL_DIAG_bad_parameter,
                              "the argument '%s' is named twice", n->items.list.at[j]->name);
    }
}

/* The first of the axes D, H and W in a list of statements whose size no earlier declaration gives,
 * in the order of elaboration. */
static const dl_ast *find_open_edge(const dl_ast_list *list, bool sized[3]) {
    static const char *const edges[] = {"D", "H", "W"};
    for (int i = 0; i < list->list.n; i++) {
        const dl_ast *s = list->list.at[i], *open = find_open_edge(&s->body, sized);
        if (!open && s->kind == DL_A_IF) open = find_open_edge(&s->more, sized);
        bool typed = s->kind == DL_A_INPUT || s->kind == DL_A_TARGET || s->kind == DL_A_PARAMETER ||
                     s->kind == DL_A_BUFFER;
        if (!open && (!typed || !s->a)) continue;
        for (int k = 0; !open && k < s->a->items.list.n; k++) {
            const dl_ast *axis = s->a->items.list.at[k];
            const char *name = axis->name                   ? axis->name
                               : axis->a->kind == DL_A_NAME ? axis->a->name
                                                            : "";
            for (int e = 0; e < 3; e++) {
                if (strcmp(name, edges[e]) != 0) continue;
                if (axis->name) sized[e] = true;
                if (!sized[e]) open = axis;
            }
        }
        if (open) return open;
    }
    return NULL;
}

static void add_argument(dl_model *m, const char *name, dl_setting value, dl_span where) {
    m->places[m->narguments] = where;
    m->arguments[m->narguments++] = (dl_argument){name, value};
}

static void take_arguments(dl_model *m) {
    const dl_ast_list *list = &m->model->items;
    bool sized[3] = {0}, named = false;
    m->arguments = DL_NEWS(m->arena, dl_argument, list->list.n + 1);
    m->places = DL_NEWS(m->arena, dl_span, list->list.n + 1);
    for (int i = 0; i < list->list.n; i++) {
        const dl_ast *p = list->list.at[i];
        add_argument(m, p->name, literal(m->arena, p->a), p->span);
        named |= strcmp(p->name, DL_ARGUMENT_EDGE) == 0;
    }
    const dl_ast *open = named ? NULL : find_open_edge(&m->model->body, sized);
    if (open)
        add_argument(m, DL_ARGUMENT_EDGE, (dl_setting){.kind = DL_SET_INT, .i = DL_DEFAULT_EDGE},
                     open->span);
}

dl_model *dl_model_parse(dl_arena *arena, const dl_source *source, dl_diags *diags) {
    int64_t bad = dl_source_bad_byte(source);
    if (source->n > DL_SOURCE_LIMIT) {
        dl_report(diags, (dl_span){0, 1}, DL_DIAG_file_too_large,
                  "a model file may have at most 16 MiB");
        return NULL;
    }
    if (bad >= 0) {
        dl_span at = {(uint32_t)bad, (uint32_t)bad + 1};
        unsigned char c = (unsigned char)source->text[bad];
        dl_report(diags, at, DL_DIAG_bad_encoding, "byte 0x%02X at offset %lld is not %s", c,
                  (long long)bad, c ? "valid UTF-8" : "text");
        return NULL;
    }
    dl_model *m = DL_NEW(arena, dl_model);
    int before = diags->errors;
    *m = (dl_model){.arena = arena, .source = source, .file = dl_parse_file(arena, source, diags)};
    check_declarations(m, diags);
    m->faulty = diags->errors > before;
    if (!m->model) {
        if (!m->faulty)
            dl_report(diags, (dl_span){(uint32_t)source->n, (uint32_t)source->n}, DL_DIAG_no_model,
                      "the file declares no model");
        return NULL;
    }
    take_arguments(m);
    return m;
}

const char *dl_model_name(const dl_model *m) { return m->model->name; }

const dl_argument *dl_model_arguments(const dl_model *m, int *n) {
    *n = m->narguments;
    return m->arguments;
}

dl_span dl_model_argument_place(const dl_model *m, int i) { return m->places[i]; }

void dl_model_print_ast(dl_buf *out, const dl_model *m) { dl_ast_print(out, m->file); }

/* Elaborates both phases. The notes of the first run's reports are kept; the second adds faults
 * that only evaluation has. */
static void elaborate(const dl_model *m, dl_module *module, dl_arena *scratch,
                      const dl_model_config *config, int64_t assumed, dl_diags *diags,
                      dl_elab *first) {
    for (int phase = 0; phase < 2; phase++) {
        dl_elab *E = DL_NEW(scratch, dl_elab);
        *E = (dl_elab){.arena = scratch,
                       .source = m->source,
                       .diags = diags,
                       .file = m->file,
                       .model = m->model,
                       .config = config,
                       .assumed = assumed,
                       .train = phase == 0,
                       .facts = assumed && phase == 0 ? m->facts : NULL,
                       .syntax_faults = m->faulty};
        dl_elaborate(E, dl_graph_new(module, phase == 0 ? "train" : "eval"));
        if (phase == 0 && first) *first = *E;
    }
}

dl_module *dl_model_build(dl_arena *parent, const dl_model *m, const dl_model_config *config,
                          dl_diags *diags) {
    static const dl_model_config nothing = {0};
    dl_arena *scratch = dl_arena_new(NULL);
    dl_module *module = dl_module_new(parent);
    elaborate(m, module, scratch, config ? config : &nothing, 0, diags, NULL);
    dl_arena_free(scratch);
    if (diags->errors == 0) return module;
    dl_arena_free(module->arena);
    return NULL;
}

/* Sizes to try for axes of unknown size, in this order: powers of two that can be halved often, and
 * usual image sizes. */
static const int64_t trials[] = {64, 224, 32, 128, 96};
enum { NTRIALS = sizeof trials / sizeof *trials };

dl_module *dl_model_check(dl_arena *arena, const dl_model *m, dl_diags *diags, bool *whole) {
    *whole = false;
    static const dl_model_config nothing = {0};
    dl_arena *scratch = dl_arena_new(NULL);
    dl_diags *tried[NTRIALS];
    dl_module *made[NTRIALS];
    dl_elab first[NTRIALS];
    int n = 0, best = 0;
    for (; n < NTRIALS; n++) {
        tried[n] = dl_diags_new(arena, m->source);
        made[n] = dl_module_new(arena);
        if (m->facts) m->facts->values.n = m->facts->parameters.n = 0;
        elaborate(m, made[n], scratch, &nothing, trials[n], tried[n], &first[n]);
        if (tried[n]->errors < tried[best]->errors) best = n;
        if (tried[n]->errors == 0 || first[n].assumed_axes.n == 0 || first[n].exhausted) {
            best = n++;
            break;
        }
    }
    for (int i = 0; i < tried[best]->list.n; i++) {
        dl_diag *g = tried[best]->list.at[i];
        bool always = true;
        for (int k = 0; k < n; k++) always &= dl_diags_has(tried[k], g);
        if (!always)
            dl_diag_add_note(
                diags, g, m->model->at,
                "the size %lld was assumed for axes that the model leaves open; with other "
                "sizes this may be right",
                (long long)trials[best]);
    }
    dl_diags_merge(diags, tried[best]);
    *whole = diags->errors == 0;
    for (int i = 0; i < m->model->items.list.n; i++)
        *whole = *whole && m->model->items.list.at[i]->a;
    for (int i = 0; i < n; i++)
        if (i != best || diags->errors) dl_arena_free(made[i]->arena);
    dl_arena_free(scratch);
    return diags->errors ? NULL : made[best];
}

void dl_model_record(dl_model *m, dl_facts *facts) { m->facts = facts; }

int64_t dl_count_parameters(const dl_graph *g) {
    int64_t n = 0;
    for (int i = 0; i < g->vars.n; i++)
        if (g->vars.at[i]->role == DL_VAR_PARAM) n += dl_type_count(&g->vars.at[i]->value.type);
    return n;
}

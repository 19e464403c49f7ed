/* Each record of the plan's file, described once, by a function that both writes and reads it.
 *
 * A string is its length with the final NUL:u32 (0: NULL) and its bytes; a list is its length:u32
 * and its records. After damage the reader remembers the first fault and reads zeros from there
 * on. */
#include "ir/plan/plan_records.h"

static void fault(dl_plan_codec *c, const char *what) {
    if (!c->fault) c->fault = what;
    c->left = 0;
}

/* The next n bytes, or NULL. */
static const char *take(dl_plan_codec *c, size_t n) {
    if (n > c->left) {
        fault(c, "a section ends inside a record");
        return NULL;
    }
    const char *at = c->at;
    c->at += n, c->left -= n;
    return at;
}

static void code_bytes(dl_plan_codec *c, void *value, size_t n) {
    if (c->out) {
        dl_putn(c->out, value, n);
        return;
    }
    const char *at = take(c, n);
    if (at)
        memcpy(value, at, n);
    else
        memset(value, 0, n);
}

static void code_int(dl_plan_codec *c, int *v) { code_bytes(c, v, sizeof *v); }
static void code_int64(dl_plan_codec *c, int64_t *v) { code_bytes(c, v, sizeof *v); }
static void code_uint64(dl_plan_codec *c, uint64_t *v) { code_bytes(c, v, sizeof *v); }
static void code_double(dl_plan_codec *c, double *v) { code_bytes(c, v, sizeof *v); }
/* An enumeration, as int. */
#define CODE_ENUM(c, T, field)                                                                     \
    do {                                                                                           \
        int code_enum_ = (int)(field);                                                             \
        code_int((c), &code_enum_);                                                                \
        (field) = (T)code_enum_;                                                                   \
    } while (0)

static void code_text(dl_plan_codec *c, const char **s) {
    uint32_t n = c->out && *s ? (uint32_t)strlen(*s) + 1 : 0;
    code_bytes(c, &n, sizeof n);
    if (c->out) {
        if (*s) dl_putn(c->out, *s, n);
        return;
    }
    *s = n ? take(c, n) : NULL;
    if (*s && memchr(*s, 0, n) != *s + n - 1) {
        fault(c, "a string does not end where it should");
        *s = NULL;
    }
}

static void code_name(dl_plan_codec *c, const char **s) {
    code_text(c, s);
    if (!c->out && *s) *s = dl_intern(*s);
}

/* A list's length; `least` bytes is the shortest record, so that a false length cannot ask for much
 * memory. */
static int code_count(dl_plan_codec *c, int n, size_t least) {
    code_int(c, &n);
    if (!c->out && (n < 0 || (size_t)n > c->left / least)) {
        fault(c, "a list is longer than its section");
        return 0;
    }
    return n;
}

/* An array of n numbers, made when reading. */
static void code_int64s(dl_plan_codec *c, int *n, int64_t **at) {
    *n = code_count(c, *n, sizeof **at);
    if (!c->out) *at = DL_NEWS(c->arena, int64_t, *n);
    for (int i = 0; i < *n; i++) code_int64(c, &(*at)[i]);
}

/* All records of a list; when reading, makes the array. A record is coded in a copy: writing
 * changes no plan. */
#define CODE_LIST(c, T, list, least, code_record)                                                  \
    do {                                                                                           \
        int code_n_ = code_count((c), (list)->n, (least));                                         \
        if (!(c)->out)                                                                             \
            (list)->at = DL_NEWS((c)->arena, T, code_n_), (list)->n = (list)->cap = code_n_;       \
        for (int code_i_ = 0; code_i_ < code_n_ && !(c)->fault; code_i_++) {                       \
            T code_record_ = (list)->at[code_i_];                                                  \
            code_record((c), &code_record_);                                                       \
            if (!(c)->out) (list)->at[code_i_] = code_record_;                                     \
        }                                                                                          \
    } while (0)

static void code_type(dl_plan_codec *c, dl_type *t) {
    CODE_ENUM(c, dl_dtype, t->dtype);
    CODE_ENUM(c, dl_layout_kind, t->layout.kind);
    code_int(c, &t->layout.width), code_int(c, &t->layout.steps);
    code_int(c, &t->rank);
    if (t->rank < 0 || t->rank > DL_MAX_RANK) {
        fault(c, "a type's rank is out of range");
        t->rank = 0;
    }
    for (int i = 0; i < t->rank; i++) {
        code_name(c, &t->axis[i].name);
        code_int64(c, &t->axis[i].size);
    }
}

static void code_piece(dl_plan_codec *c, dl_var_piece *p) {
    code_int(c, &p->n);
    if (p->n < 0 || p->n > DL_MAX_CUTS) {
        fault(c, "a variable is cut too often");
        p->n = 0;
    }
    for (int i = 0; i < p->n; i++) {
        dl_var_cut *cut = &p->cut[i];
        code_name(c, &cut->group);
        code_int(c, &cut->axis), code_int(c, &cut->ranks), code_int(c, &cut->rank);
        code_int(c, &cut->parts);
        code_int64(c, &cut->size);
    }
}

static void code_var(dl_plan_codec *c, dl_plan_var *v) {
    code_name(c, &v->name);
    code_name(c, &v->of);
    CODE_ENUM(c, dl_var_role, v->role);
    code_type(c, &v->type);
    CODE_ENUM(c, dl_init_kind, v->init.kind);
    code_double(c, &v->init.a);
    code_double(c, &v->init.b);
    code_piece(c, &v->piece);
    CODE_LIST(c, double, &v->numbers, sizeof(double), code_double);
    code_int64(c, &v->offset);
}

static void code_store(dl_plan_codec *c, dl_plan_store *s) {
    code_int(c, &s->arg);
    code_type(c, &s->type);
    code_text(c, &s->op);
    code_text(c, &s->where);
}

static void code_map(dl_plan_codec *c, dl_tensor_map *m) {
    code_int(c, &m->param);
    CODE_ENUM(c, dl_dtype, m->dtype);
    code_int(c, &m->swizzle);
    code_int(c, &m->windows);
    for (int i = 0; i < DL_MAP_BOX; i++) code_int(c, &m->box[i]);
    for (int i = 0; i < DL_MAP_SPATIAL; i++)
        code_int(c, &m->lower[i]), code_int(c, &m->upper[i]), code_int(c, &m->traversal[i]);
    for (int i = 0; i < DL_MAP_AXES; i++) code_int64(c, &m->size[i]);
    for (int i = 0; i < DL_MAP_AXES - 1; i++) code_int64(c, &m->step[i]);
    code_int64(c, &m->offset);
}

static void code_entry(dl_plan_codec *c, dl_plan_entry *e) {
    code_text(c, &e->symbol);
    code_int(c, &e->object);
    CODE_LIST(c, dl_tensor_map, &e->maps, 144, code_map);
    CODE_LIST(c, int, &e->args, sizeof(int32_t), code_int);
    CODE_LIST(c, int64_t, &e->numbers, sizeof(int64_t), code_int64);
    code_int(c, &e->table.numbers), code_int(c, &e->table.pointers);
}

static void code_matrix(dl_plan_codec *c, dl_matrix *m) {
    code_int(c, &m->param);
    code_int64(c, &m->offset);
    CODE_ENUM(c, dl_dtype, m->dtype);
    CODE_ENUM(c, bool, m->across);
    code_int64(c, &m->line);
    code_int64(c, &m->next);
}

static void code_matmul(dl_plan_codec *c, dl_call *l) {
    dl_matmul *m = &l->matmul;
    code_int64(c, &m->batch), code_int64(c, &m->rows), code_int64(c, &m->columns),
        code_int64(c, &m->terms);
    code_matrix(c, &m->left), code_matrix(c, &m->right), code_matrix(c, &m->result);
    CODE_ENUM(c, bool, m->tf32);
    code_int(c, &m->bias);
    CODE_ENUM(c, dl_dtype, m->bias_type);
    CODE_ENUM(c, bool, m->relu);
}

static void code_convolution(dl_plan_codec *c, dl_call *l) {
    dl_convolution *v = &l->convolution;
    int64_t *three[] = {v->size.in,       v->size.tap,    v->size.out,   v->size.stride,
                        v->size.dilation, v->size.pad_lo, v->size.pad_hi};
    CODE_ENUM(c, dl_tensor, v->makes);
    code_int64(c, &v->size.samples), code_int64(c, &v->size.groups), code_int64(c, &v->size.c),
        code_int64(c, &v->size.o);
    for (size_t i = 0; i < sizeof three / sizeof *three; i++)
        for (int k = 0; k < 3; k++) code_int64(c, &three[i][k]);
    for (int t = DL_TENSOR_X; t < DL_NTENSORS; t++) {
        dl_lattice *at = &v->of[t];
        code_int(c, &at->param);
        code_int64(c, &at->offset);
        CODE_ENUM(c, dl_dtype, at->dtype);
        for (int k = 0; k < DL_TENSOR_AXES; k++) code_int64(c, &at->step[k]);
    }
    CODE_ENUM(c, bool, v->tf32);
}

static void code_call(dl_plan_codec *c, dl_call *l) {
    static void (*const code[DL_NCALLED])(dl_plan_codec *, dl_call *) = {
        [DL_CALLED_MATMUL] = code_matmul, [DL_CALLED_CONVOLUTION] = code_convolution};
    dl_algorithm *a = &l->algorithm;
    CODE_ENUM(c, dl_library, a->library);
    code_int64(c, &a->version);
    CODE_ENUM(c, dl_form, a->form);
    for (int i = 0; i < DL_ALGORITHM_WORDS; i++) code_uint64(c, &a->words[i]);
    code_int64(c, &a->workspace);
    CODE_ENUM(c, dl_called, l->what);
    if ((unsigned)l->what < DL_NCALLED)
        code[l->what](c, l);
    else
        fault(c, "what a library is called for is out of range");
    code_int64(c, &l->workspace);
}

static void code_kernel(dl_plan_codec *c, dl_plan_kernel *k) {
    code_name(c, &k->name);
    code_text(c, &k->symbol);
    code_text(c, &k->where);
    code_text(c, &k->variant);
    code_int(c, &k->object);
    code_int(c, &k->phases);
    if (k->phases < 0 || k->phases > DL_MAX_PHASES) {
        fault(c, "a kernel's number of phases is out of range");
        k->phases = 0;
    }
    code_int(c, &k->prepares), code_int(c, &k->prepared);
    for (int i = 0; i < k->phases; i++) {
        code_int64(c, &k->items[i]);
        code_int(c, &k->threads[i]);
        code_int(c, &k->shared[i]);
    }
    CODE_LIST(c, dl_call, &k->calls, 256, code_call);
    CODE_LIST(c, dl_plan_entry, &k->entries, 28, code_entry);
    code_int64s(c, &k->nargs, &k->arg_bytes);
    CODE_LIST(c, dl_plan_store, &k->stores, 28, code_store);
    code_int64(c, &k->workspace);
    code_int64(c, &k->scratch);
    code_int64(c, &k->flops);
    code_int64(c, &k->bytes);
    code_double(c, &k->predicted_us);
    code_double(c, &k->serial_us);
}

static void code_object(dl_plan_codec *c, dl_plan_object *o) {
    uint64_t bytes = o->bytes;
    code_uint64(c, &o->key);
    code_text(c, &o->source);
    code_uint64(c, &bytes);
    if (c->out)
        dl_putn(c->out, (const char *)o->image, bytes);
    else
        o->image = (const unsigned char *)take(c, bytes), o->bytes = bytes;
}

static void code_launch(dl_plan_codec *c, dl_plan_launch *l) {
    code_int(c, &l->kernel);
    code_int64s(c, &l->nargs, &l->args);
    code_int64(c, &l->own);
}

static void code_result(dl_plan_codec *c, dl_plan_result *r) {
    CODE_ENUM(c, dl_result_role, r->role);
    code_name(c, &r->name);
    code_type(c, &r->type);
    code_int64(c, &r->offset);
    code_int(c, &r->var);
}

static void code_member(dl_plan_codec *c, dl_plan_member *m) {
    code_text(c, &m->of);
    code_int64(c, &m->first);
}

static void code_collective(dl_plan_codec *c, dl_plan_collective *l) {
    CODE_ENUM(c, dl_op, l->op);
    code_text(c, &l->group);
    code_int(c, &l->ranks);
    CODE_ENUM(c, dl_dtype, l->dtype);
    code_int64(c, &l->outer);
    code_int64(c, &l->size);
    code_int64(c, &l->inner);
    code_int64(c, &l->own);
    code_int64(c, &l->come);
    code_int(c, &l->ring_step);
    code_int64(c, &l->from);
    code_int64(c, &l->to);
    code_text(c, &l->where);
    CODE_LIST(c, dl_plan_member, &l->members, 12, code_member);
}

static void code_step(dl_plan_codec *c, dl_plan_step *s) {
    CODE_ENUM(c, dl_step_kind, s->kind);
    code_int(c, &s->number);
}

static void code_program(dl_plan_codec *c, dl_plan_program *g) {
    code_name(c, &g->name);
    CODE_LIST(c, dl_plan_launch, &g->launches, 16, code_launch);
    CODE_LIST(c, dl_plan_collective, &g->collectives, 84, code_collective);
    CODE_LIST(c, dl_plan_step, &g->steps, 8, code_step);
    CODE_LIST(c, dl_plan_result, &g->results, 36, code_result);
}

static void code_meta(dl_plan_codec *c, dl_plan *p) {
    code_text(c, &p->model);
    code_text(c, &p->target);
    code_uint64(c, &p->key);
    code_int64(c, &p->batch);
    code_int64(c, &p->arena_bytes);
    code_int64(c, &p->workspace_bytes);
    code_int64(c, &p->scratch_bytes);
}

/* ---- its origin ---- */

static void code_setting(dl_plan_codec *c, dl_plan_setting *s) {
    code_text(c, &s->key);
    code_text(c, &s->is);
    code_text(c, &s->shown);
}

static void code_origin(dl_plan_codec *c, dl_plan *p) {
    dl_plan_origin *o = &p->origin;
    code_text(c, &o->program);
    code_text(c, &o->command);
    code_text(c, &o->path);
    code_text(c, &o->text);
    code_text(c, &o->configuration);
    code_uint64(c, &o->graphs);
    CODE_LIST(c, dl_plan_setting, &o->settings, 12, code_setting);
    CODE_LIST(c, dl_plan_setting, &o->arguments, 12, code_setting);
}

/* ---- the sections ---- */

static void code_vars(dl_plan_codec *c, dl_plan *p) {
    CODE_LIST(c, dl_plan_var, &p->vars, 60, code_var);
}
static void code_kernels(dl_plan_codec *c, dl_plan *p) {
    CODE_LIST(c, dl_plan_kernel, &p->kernels, 92, code_kernel);
}
static void code_objects(dl_plan_codec *c, dl_plan *p) {
    CODE_LIST(c, dl_plan_object, &p->objects, 20, code_object);
}
static void code_programs(dl_plan_codec *c, dl_plan *p) {
    CODE_LIST(c, dl_plan_program, &p->programs, 12, code_program);
}

void (*const dl_plan_sections[DL_PLAN_SECTIONS])(dl_plan_codec *c, dl_plan *p) = {
    code_meta, code_origin, code_vars, code_kernels, code_objects, code_programs};

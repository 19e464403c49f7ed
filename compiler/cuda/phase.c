/* The head and the end of a phase of a CUDA kernel: phase.h. */
#include "compiler/cuda/phase.h"

const char *dl_cuda_operator(const dl_kinstr *in) {
    return in->op == DL_OP_sum ? "by_sum" : in->op == DL_OP_reduce_max ? "by_max" : "by_min";
}

#define CUDA_DIALECT(INDEX, NATURAL, WHOLE, NOT_SIGNED)                                            \
    {                                                                                              \
        .index = INDEX, .natural = NATURAL, .whole = WHOLE, .not_signed = NOT_SIGNED,              \
        .coordinate = "x", .named = true, .truth = "bool", .memory = "own",                        \
        .thread = "kd_thread()", .barrier = "__syncthreads()", .shared = "__shared__ ",            \
        .unroll = "#pragma unroll", .operation = dl_cuda_operator                                  \
    }
static const dl_dialect narrow = CUDA_DIALECT("int", "unsigned", "", "U"),
                        wide = CUDA_DIALECT("long", "unsigned long", "L", "UL");

/* Do all of a kernel's coordinates, indices and points fit int, with those along `within`
 * included? */
static bool fits_int(const dl_kernel *k, unsigned per_thread) {
    int64_t points = 1;
    for (int i = 0; i < k->nspace; i++)
        if (!(per_thread >> i & 1) &&
            __builtin_mul_overflow(points, k->space[i].size ? k->space[i].size : 1, &points))
            return false;
    bool ok = points < INT32_MAX / 2;
    for (int i = 0; i < k->params.n; i++)
        ok = ok && dl_type_stored(&k->params.at[i].type) < INT32_MAX / 2;
    /* a window's or a pad's reach beyond an axis is small compared with this margin */
    for (int i = 0; ok && i < k->instrs.n; i++) {
        const dl_kinstr *in = &k->instrs.at[i];
        if (!dl_emit_is_access(in)) continue;
        for (int a = 0; a < k->params.at[in->param].type.rank; a++) {
            ok = ok && in->index[a].offset < INT32_MAX / 4 && in->index[a].offset > -INT32_MAX / 4;
            for (int t = 0; t < in->index[a].nterms; t++) {
                int64_t reach = in->index[a].term[t].mul,
                        size = k->space[in->index[a].term[t].axis].size;
                ok = ok && !__builtin_mul_overflow(reach, size, &reach) && reach < INT32_MAX / 8 &&
                     reach > -INT32_MAX / 8;
            }
        }
    }
    return ok;
}

const dl_dialect *dl_cuda_dialect(const dl_kernel *k, unsigned per_thread) {
    return fits_int(k, per_thread) ? &narrow : &wide;
}

bool dl_cuda_is_shared(const dl_kernel *k, int param) {
    for (int i = 0; i < k->params.n; i++)
        if (k->params.at[i].alias == param || (i == param && k->params.at[i].alias >= 0))
            return true;
    return false;
}

/* The text, which begins anew. */
static const char *take_text(dl_arena *arena, dl_buf *text) {
    const char *taken = dl_strndup(arena, text->n ? text->at : "", text->n);
    text->n = 0;
    return taken;
}

bool dl_cuda_head(dl_emitter *e, dl_emitted *code, int64_t items, int threads, int64_t shared,
                  dl_error *err) {
    const dl_kernel *k = e->k;
    if (!dl_emit_has_phase(e, code, err)) return false;
    if (items > DL_GRID_MOST)
        return dl_emit_refuse(
            k, &k->instrs.at[0], err,
            "a kernel of %lld blocks, more than a GPU launches: use a smaller batch or crop "
            "[DL-E0804]",
            (long long)items);
    int phase = code->phases++;
    code->items[phase] = items, code->threads[phase] = threads, code->shared[phase] = (int)shared;
    if (e->out->n) e->structs = take_text(e->texts, e->out);
    e->epilogue = -1;
    return true;
}

void dl_cuda_begin_epilogue(dl_emitter *e) { e->epilogue = (int64_t)e->out->n; }

static dl_pointer pointer_of(const dl_emitter *e, int param) {
    return (dl_pointer){dl_format(e->texts, "%s%s *", param < e->k->nin ? "const " : "",
                                  dl_emit_element_type(e->k->params.at[param].type.dtype)),
                        dl_cuda_is_shared(e->k, param) ? "" : "__restrict__ "};
}

void dl_cuda_foot(dl_emitter *e, dl_emitted *code, int cost) {
    int phase = code->phases - 1;
    dl_phase *p = DL_NEW(e->texts, dl_phase);
    dl_buf text = {0};
    dl_puts(e->out, "}\n");
    p->epilogue = e->epilogue < 0 ? e->out->n : (size_t)e->epilogue, p->cost = cost;
    p->structs = e->structs ? e->structs : "", p->body = take_text(e->texts, e->out);
    dl_emit_title(e, &text), p->title = take_text(e->texts, &text);
    dl_putf(&text, "%d", code->threads[phase]);
    if (e->resident) dl_putf(&text, ", %d", e->resident);
    p->bounds = take_text(e->texts, &text);
    for (int i = 0; i < code->nmaps && phase == 0; i++) dl_putf(&text, "KD_MAP(map%d), ", i);
    p->maps = take_text(e->texts, &text);
    for (int i = 0; i < e->k->params.n; i++) dl_push(e->texts, &p->params, pointer_of(e, i));
    dl_push(e->texts, &code->texts, p);
    dl_buf_free(&text);
}

/* Function merging: phases of kernels whose templates are equal (phase_template.h) become one
 * function, and the numbers in which they differ become its arguments. So a model's layers
 * compile once per kind, not once per size. Contractions that are equal up to their sums share a
 * loop over tiles, after which a number selects the epilogue. Division by such a number is a
 * product and a shift, as the compiler would have made it (kernels/prelude.cu). merge_fused_parts.c
 * does the same for horizontally fused kernels. */
#include <string.h>

#include "compiler/cuda/merge.h"
#include "ir/base/hash.h"

enum {
    /* arguments in addition to pointers; a phase that differs in more is compiled alone */
    MOST_NUMBERS = 96,
    MOST_EPILOGUES = 16 /* of one loop over tiles */
};

static const char *types_of(dl_arena *arena, const dl_merged *p, const char *before, int from,
                            int to) {
    dl_buf b = {0};
    dl_puts(&b, before);
    for (int i = from; i < to; i++)
        dl_putf(&b, "|%s%s", dl_merge_param(p, i).type, dl_merge_param(p, i).qualifier);
    const char *text = dl_strndup(arena, b.at ? b.at : "", b.n);
    dl_buf_free(&b);
    return text;
}

static void sign(dl_arena *arena, dl_merged *p) {
    p->signature = types_of(arena, p, dl_format(arena, "%s %s", p->text->bounds, p->text->maps), 0,
                            p->s.epilogue_args);
    p->epilogue_signature = types_of(arena, p, "", p->s.epilogue_args, p->s.args.n);
    p->hash = dl_hash(p->s.text, p->s.epilogue_start, dl_hash_str(p->signature, 0));
}

dl_merged *dl_merge_take(dl_arena *arena, int kernel, int number, const dl_phase *text) {
    dl_merged *p = DL_NEW(arena, dl_merged);
    *p = (dl_merged){.kernel = kernel, .number = number, .text = text};
    p->s = dl_template_of(arena, text);
    sign(arena, p);
    return p;
}

/* ---- epilogues ---- */

static bool equal_epilogue(const dl_merged *a, const dl_merged *b) {
    return strcmp(a->s.text + a->s.epilogue_start, b->s.text + b->s.epilogue_start) == 0 &&
           strcmp(a->epilogue_signature, b->epilogue_signature) == 0;
}

/* The parameters of epilogue number `end` that come after those of the epilogues before it. */
static int own_args(const dl_merged *p, int end) {
    return dl_merge_at_epilogue(p, end)->s.args.n - p->s.epilogue_args;
}
static int args_before(const dl_merged *p, int end) {
    int n = 0;
    for (int i = 0; i < end; i++) n += own_args(p, i);
    return n;
}

/* ---- functions ---- */

static void put_params(dl_buf *out, const dl_merged *p, int from, int to, int skipped) {
    for (int i = from; i < to; i++) dl_merge_put_param(out, p, i, i + skipped);
}

/* The epilogue that number `which` selects. */
static void put_epilogues(dl_buf *out, const dl_merged *p, dl_hoisted *const *hoisted, int which,
                          const char *symbol) {
    static const char close[] = "}\n";
    for (int i = 0; i < p->epilogues; i++) {
        const dl_merged *q = dl_merge_at_epilogue(p, i);
        size_t to = strlen(q->s.text) - (p->epilogues > 1 ? sizeof close - 1 : 0);
        if (p->epilogues > 1)
            dl_putf(out, "%s if (number%d == %d) {\n", i ? "    } else" : "   ", which, i);
        dl_merge_put_text(out, q, hoisted[i], symbol, q->s.epilogue_start, to,
                          q->s.epilogue_parameter, args_before(p, i));
    }
    if (p->epilogues > 1) dl_putf(out, "    }\n%s", close);
}

static void put_function(dl_buf *out, const dl_merged *p, dl_hoisted *const *hoisted, int numbers,
                         const char *symbol) {
    dl_puts(out, "\n");
    for (const dl_merged *q = p; q; q = q->next) dl_puts(out, q->text->title);
    dl_merge_put_text(out, p, hoisted[0], symbol, 0, p->s.structs, 0, 0);
    dl_putf(out, "%s%s) %s(%s", DL_CUDA_HEAD, p->text->bounds, symbol, p->text->maps);
    put_params(out, p, 0, p->s.epilogue_args, 0);
    for (int i = 0; i < p->epilogues; i++)
        put_params(out, dl_merge_at_epilogue(p, i), p->s.epilogue_args,
                   dl_merge_at_epilogue(p, i)->s.args.n, args_before(p, i));
    dl_puts(out, "char *workspace");
    for (int i = 0; i < numbers + (p->epilogues > 1); i++) dl_putf(out, ", long number%d", i);
    dl_puts(out, ") {\n");
    dl_merge_put_text(out, p, hoisted[0], symbol, p->s.structs, p->s.epilogue_start,
                      p->s.struct_parameters, 0);
    put_epilogues(out, p, hoisted, numbers, symbol);
}

static dl_piece make_piece(const dl_piece *of, const dl_merged *p) {
    dl_piece piece = {.name = of->name};
    memcpy(piece.code.needs, of->code.needs, sizeof piece.code.needs);
    piece.code.phases = p->text->cost;
    return piece;
}

/* A phase's arguments; pointers of other epilogues get any value: the kernel's first parameter. */
static dl_plan_entry make_entry(dl_arena *arena, const dl_merged *first, const dl_merged *q,
                                const dl_hoisted *hoisted, int numbers) {
    dl_plan_entry e = {0};
    int64_t *values = DL_NEWS(arena, int64_t, numbers + 2);
    for (int i = 0; i < q->s.parameters.n; i++)
        dl_merge_put_numbers(values, &hoisted[i], &q->s.parameters.at[i]);
    if (first->epilogues > 1) values[numbers++] = q->epilogue;
    for (int i = 0; i < numbers; i++) dl_push(arena, &e.numbers, values[i]);
    for (int i = 0; i < q->s.epilogue_args; i++) dl_push(arena, &e.args, q->s.args.at[i]);
    for (int end = 0; end < first->epilogues; end++)
        for (int i = 0; i < own_args(first, end); i++)
            dl_push(arena, &e.args, end == q->epilogue ? q->s.args.at[q->s.epilogue_args + i] : 0);
    return e;
}

/* Phases of one function: its text, and each one's entry. */
static void add_function(dl_arena *arena, dl_piece *kernels, dl_merged *p, dl_piece *to,
                         int number) {
    dl_hoisted *hoisted[MOST_EPILOGUES];
    int n = dl_merge_arguments(arena, p, hoisted);
    const char *symbol = dl_format(arena, "%s_%d", kernels[p->kernel].name, p->number);
    *to = make_piece(&kernels[p->kernel], p);
    for (const dl_merged *q = p; q; q = q->next) {
        dl_plan_entry e = make_entry(arena, p, q, hoisted[q->epilogue], n);
        e.symbol = symbol, e.object = number;
        const dl_emitted *code = &kernels[q->kernel].code;
        for (int i = 0; i < code->nmaps && q->number == 0; i++)
            dl_push(arena, &e.maps, code->maps[i]);
        kernels[q->kernel].entries.at[q->number] = e;
        for (int i = 0; i < DL_NEEDS; i++) to->code.needs[i] |= kernels[q->kernel].code.needs[i];
    }
    put_function(&to->text, p, hoisted, n, symbol);
}

/* Does p fit with the phases of the function that begins with `first`? Then it joins them. */
static bool joins(dl_arena *arena, dl_merged *first, dl_merged *p) {
    dl_hoisted *hoisted[MOST_EPILOGUES];
    int epilogues = first->epilogues, args;
    dl_merged *last = first->last;
    if (!dl_merge_equal(first, p)) return false;
    p->epilogue = epilogues;
    for (const dl_merged *q = first; q && p->epilogue == epilogues; q = q->next)
        if (equal_epilogue(q, p)) p->epilogue = q->epilogue;
    if (p->epilogue == MOST_EPILOGUES) return false;
    last->next = p, first->last = p, first->epilogues += p->epilogue == epilogues;
    args = p->s.epilogue_args + args_before(first, first->epilogues);
    int numbers = dl_merge_arguments(arena, first, hoisted),
        most = DL_ENTRY_MOST - args - 1 - DL_MAP_MOST * DL_MAP_BYTES / 8;
    if (numbers <= (most < MOST_NUMBERS ? most : MOST_NUMBERS)) return true;
    last->next = NULL, first->last = last, first->epilogues = epilogues, p->epilogue = 0;
    return false;
}

dl_piece *dl_cuda_merge(dl_arena *arena, int *n, dl_piece *kernels) {
    int all = 0, functions = 0, nparts = 0;
    for (int i = 0; i < *n; i++) all += kernels[i].code.phases + kernels[i].code.fused_parts;
    dl_merged **firsts = DL_NEWS(arena, dl_merged *, all + 1),
              **fused_parts = DL_NEWS(arena, dl_merged *, all + 1);
    for (int i = 0; i < *n; i++) {
        const dl_emitted *code = &kernels[i].code;
        for (int j = 0; j < code->phases; j++)
            dl_push(arena, &kernels[i].entries, (dl_plan_entry){0});
        for (int j = 0; j < code->fused_parts; j++)
            fused_parts[nparts++] = dl_merge_take(arena, i, 0, code->texts.at[j]);
        for (int j = 0; j < code->phases && !code->fused_parts; j++) {
            dl_merged *p = dl_merge_take(arena, i, j, code->texts.at[j]);
            int k = 0;
            while (k < functions && !joins(arena, firsts[k], p)) k++;
            if (k == functions) firsts[functions++] = p, p->last = p, p->epilogues = 1;
        }
    }
    dl_piece *pieces = DL_NEWS(arena, dl_piece, functions + nparts + 1);
    for (int i = 0; i < functions; i++) add_function(arena, kernels, firsts[i], &pieces[i], i);
    functions += dl_merge_fused_parts(arena, *n, kernels, nparts, fused_parts, pieces + functions,
                                      functions);
    *n = functions;
    return pieces;
}

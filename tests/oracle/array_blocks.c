/* The C side of check_arrays.py: what a file holds, and blocks of its arrays.
 *
 *   array_blocks FILE          a line for each array: name, type, shape, chunk, packing, axes,
 * attributes, refusal array_blocks FILE CACHE    for each line "NAME TYPE RANK START... COUNT...
 * STRIDE..." of standard input: "ok BYTES" and the bytes, or "error CODE MESSAGE"; read by two
 * threads at once, in two orders of axes */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/array_file.h"

static void list_arrays(const dlr_array_file *f) {
    dl_buf out = {0};
    dl_putf(&out, "%s\n", dlr_array_file_format(f));
    for (int i = 0; i < f->n; i++) {
        const dlr_array_facts *a = &f->arrays[i];
        dl_putf(&out, "%s\t%s\t", a->name, a->stored);
        for (int k = 0; k < a->rank && k < DLR_ARRAY_RANK; k++)
            dl_putf(&out, "%s%lld", k ? "," : "", (long long)a->dims[k]);
        dl_puts(&out, "\t");
        for (int k = 0; a->chunked && k < a->rank && k < DLR_ARRAY_RANK; k++)
            dl_putf(&out, "%s%lld", k ? "," : "", (long long)a->chunk[k]);
        dl_putf(&out, "\t%s\t", a->packing);
        for (int k = 0; k < a->rank && k < DLR_ARRAY_RANK; k++)
            dl_putf(&out, "%s%s", k ? "," : "", a->axis[k] ? a->axis[k] : "");
        dl_puts(&out, "\t");
        for (int k = 0; k < a->attribute_count; k++)
            dl_putf(&out, "%s%s=%s", k ? ";" : "", a->attributes[k].name, a->attributes[k].text);
        dl_putf(&out, "\t%s\n", a->refused ? a->refused : "");
    }
    fwrite(out.at, 1, out.n, stdout);
    dl_buf_free(&out);
}

typedef struct {
    const dlr_source *source;
    dlr_block block;
    dlr_element to;
    void *out;
    bool ok;
    dl_error err;
} reading;

static void *read_one(void *context) {
    reading *r = context;
    r->ok = dlr_source_read(r->source, &r->block, r->to, r->out, &r->err);
    return NULL;
}

/* An order of the axes: each call has another rotation of them, every second one backwards. */
static void draw_order(int rank, int *order) {
    static int calls;
    const int k = calls++;
    for (int i = 0; i < rank; i++) {
        const int axis = (i + k / 2) % rank;
        order[k % 2 ? rank - 1 - i : i] = axis;
    }
}

/* Puts the elements of a block that was read in its order as an unordered block has them. */
static void unturn(const dlr_block *b, int rank, size_t size, const char *from, char *to) {
    int64_t at[DLR_ARRAY_RANK] = {0}, n = 1;
    for (int i = 0; i < rank; i++) n *= b->count[i];
    for (int64_t k = 0; k < n; k++) {
        int64_t place = 0;
        for (int i = 0; i < rank; i++) place = place * b->count[i] + at[i];
        memcpy(to + (size_t)place * size, from + (size_t)k * size, size);
        for (int i = rank - 1; i >= 0 && ++at[b->order[i]] == b->count[b->order[i]]; i--)
            at[b->order[i]] = 0;
    }
}

/* Two threads read the block, one of them in another order of axes. */
static bool answer(const dlr_source *s, const dlr_block *block, dlr_element to) {
    const int rank = dlr_source_rank(s);
    size_t bytes = dlr_element_bytes(to);
    int order[DLR_ARRAY_RANK];
    for (int i = 0; i < rank; i++) bytes *= (size_t)block->count[i];
    reading r[2];
    pthread_t thread[2];
    char *straight = malloc(bytes + 1);
    draw_order(rank, order);
    for (int i = 0; i < 2; i++) {
        r[i] = (reading){.source = s, .block = *block, .to = to, .out = malloc(bytes + 1)};
        if (i) r[i].block.order = order;
        if (pthread_create(&thread[i], NULL, read_one, &r[i]) != 0) return false;
    }
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    if (r[1].ok) unturn(&r[1].block, rank, dlr_element_bytes(to), r[1].out, straight);
    bool same = r[0].ok == r[1].ok && r[0].err.code == r[1].err.code &&
                (!r[0].ok || memcmp(r[0].out, straight, bytes) == 0);
    if (same && r[0].ok)
        printf("ok %zu\n", bytes), fwrite(r[0].out, 1, bytes, stdout);
    else
        printf("error %d %s\n", r[0].err.code,
               same ? r[0].err.message : "threads read different numbers");
    for (int i = 0; i < 2; i++) free(r[i].out);
    free(straight);
    return true;
}

static dlr_element element_named(const char *name) {
    int e = 0;
    while (e < DLR_NELEMENTS && strcmp(dlr_element_name((dlr_element)e), name) != 0) e++;
    return (dlr_element)e;
}

static bool answer_all(const dlr_array_file *f, size_t cache) {
    char name[256], type[16], open_name[256] = "";
    int rank;
    dlr_source *s = NULL;
    while (scanf("%255s %15s %d", name, type, &rank) == 3) {
        dlr_block b = {0};
        int64_t *const parts[] = {b.start, b.count, b.stride};
        dl_error err = {0};
        for (int k = 0; k < 3; k++)
            for (int i = 0; i < rank; i++)
                if (scanf("%ld", &parts[k][i]) != 1) return false;
        if (!s || strcmp(name, open_name) != 0) {
            dlr_source_close(s);
            const dlr_array_facts *a = dlr_array_file_find(f, strcmp(name, "-") == 0 ? "" : name);
            s = a ? dlr_source_open(f, a, cache, &err) : NULL;
            if (!a) dl_fail(&err, DL_INPUT, "no array '%s'", name);
            strcpy(open_name, name);
        }
        if (!s)
            printf("error %d %s\n", err.code, err.message);
        else if (!answer(s, &b, element_named(type)))
            return false;
    }
    dlr_source_close(s);
    return true;
}

int main(int argc, char **argv) {
    dl_error err = {0};
    if (argc < 2) return DL_USAGE;
    dlr_array_file *f = dlr_array_file_open(argv[1], &err);
    if (!f) {
        printf("error %d %s\n", err.code, err.message);
        return err.code;
    }
    bool ok = argc > 2 ? answer_all(f, (size_t)atoll(argv[2])) : (list_arrays(f), true);
    dlr_array_file_close(f);
    return ok ? 0 : 1;
}

/* Stacks of TIFF and BigTIFF: pages of one shape and type that follow one another are an array, a
 * chunk each. A file of one page is an array without their axis. */
#include <stdlib.h>
#include <unistd.h>

#include "ir/base/file_calls.h"
#include "ir/base/input.h"
#include "runtime/data/array_format.h"
#include "runtime/data/byte_order.h"
#include "runtime/data/tiff_pages.h"

enum { MOST_PAGES = 1 << 20, LEAST_DIRECTORY = 6 };

typedef struct {
    int n;
    dlr_tiff_page *pages;
} stack;

typedef struct {
    dlr_tiff file;
    stack *stacks;
} tiff_state;

static bool owns_tiff(const dlr_array_head *h) {
    const char *b = h->bytes;
    return memcmp(b, "II*", 4) == 0 || memcmp(b, "MM\0*", 4) == 0 || memcmp(b, "II+", 4) == 0 ||
           memcmp(b, "MM\0+", 4) == 0;
}

static bool is_alike(const dlr_tiff_page *a, const dlr_tiff_page *b) {
    return a->width == b->width && a->height == b->height && a->samples == b->samples &&
           a->planes == b->planes && dlr_tiff_element(a) == dlr_tiff_element(b);
}

typedef DL_ARRAY(dlr_tiff_page) page_list;
typedef DL_ARRAY(dlr_array_facts) fact_list;
typedef DL_ARRAY(stack) stack_list;

static dlr_array_facts describe(dl_arena *arena, const dlr_tiff *t, const stack *s, int first,
                                bool only) {
    const dlr_tiff_page *p = s->pages;
    const dlr_element type = dlr_tiff_element(p);
    dlr_array_facts a = {.name = only ? "" : dl_format(arena, "page%d", first), .type = type};
    a.stored = type == DLR_EL_NONE
                   ? dl_format(arena, "%lld bits", (long long)p->bits)
                   : dlr_array_stored(arena, type, dlr_is_swapped(t->big, (size_t)p->bits / 8));
    a.packing = p->compression == 1 ? "none" : dl_format(arena, "TIFF's %d", (int)p->compression);
    const struct {
        const char *name;
        int64_t size;
        bool there;
    } axes[] = {{"page", s->n, s->n > 1},
                {"channel", p->samples, p->samples > 1 && p->planes == 2},
                {"y", p->height, true},
                {"x", p->width, true},
                {"channel", p->samples, p->samples > 1 && p->planes != 2}};
    a.chunked = true;
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) {
        if (!axes[i].there) continue;
        a.axis[a.rank] = axes[i].name, a.dims[a.rank] = axes[i].size;
        a.chunk[a.rank++] = i == 0 ? 1 : axes[i].size;
    }
    for (int i = 0; i < s->n && !a.refused; i++)
        a.refused = dlr_tiff_refuse(arena, &s->pages[i], only && s->n == 1);
    const bool complex = p->format == 5 || p->format == 6;
    if (a.refused)
        a.refused = dlr_add_remedy(arena, &dlr_tiff_format, NULL,
                                   complex ? DLR_ODD_COMPLEX : DLR_ODD_NUMBERS, a.refused);
    dlr_number missing;
    if (p->missing && dlr_number_parse(p->missing, strlen(p->missing), &missing))
        dlr_array_add_number(arena, &a, "_FillValue", dlr_number_double(&missing));
    return a;
}

static bool list_pages(dlr_array_file *f, dlr_tiff *t, page_list *pages, dl_error *err) {
    int64_t next = 0, most = t->size / LEAST_DIRECTORY;
    if (!dlr_tiff_header(t, &next, err)) return false;
    while (next != 0) {
        dlr_tiff_page page;
        if (pages->n == MOST_PAGES || most-- == 0)
            return dl_fail(err, DL_INPUT, "%s is damaged: its directories have no end", f->path);
        if (!dlr_tiff_directory(f->arena, t, &next, &page, err)) return false;
        if (!page.reduced) dl_push(f->arena, pages, page);
    }
    return true;
}

static bool list_tiff(dlr_array_file *f, dl_error *err) {
    struct stat st;
    tiff_state *state = DL_NEW(f->arena, tiff_state);
    dlr_tiff *t = &state->file;
    page_list pages = {0};
    fact_list facts = {0};
    stack_list stacks = {0};
    *t = (dlr_tiff){.fd = dl_input_open(f->path, err), .path = f->path};
    if (t->fd < 0) return false;
    bool ok = dl_fstat(t->fd, &st) == 0 || dl_fail_errno(err, DL_IO, "cannot read %s", f->path);
    t->size = ok ? st.st_size : 0;
    ok = ok && list_pages(f, t, &pages, err);
    close(t->fd);
    if (!ok) return false;
    for (int i = 0, n; i < pages.n; i += n) {
        for (n = 1; i + n < pages.n && is_alike(&pages.at[i], &pages.at[i + n]);) n++;
        stack s = {.n = n, .pages = &pages.at[i]};
        dl_push(f->arena, &facts, describe(f->arena, t, &s, i, n == pages.n));
        dl_push(f->arena, &stacks, s);
    }
    state->stacks = stacks.at;
    f->arrays = facts.at, f->n = facts.n, f->state = state;
    return true;
}

/* ---- as a source ---- */

typedef struct {
    dlr_tiff file;
    dlr_tiff_page *pages;
    int64_t page_bytes;
} opened;

static bool load_page(const dlr_source *s, const dlr_chunking *how, int64_t index, void *out,
                      bool *absent, dl_error *err) {
    const opened *o = how->state;
    *absent = false;
    if (s->on_paper) {
        dl_file_calls_add(&(dl_file_calls){.reads = 1, .bytes = o->page_bytes});
        return true;
    }
    dlr_tiff file = o->file;
    file.path = s->label;
    return dlr_tiff_pixels(&file, &o->pages[index], out, err);
}

static void close_tiff(void *state) {
    opened *o = state;
    if (o->file.fd >= 0) close(o->file.fd);
    free(o->pages);
    free(o);
}

static bool open_tiff(dlr_source *s, const dlr_array_file *f, const dlr_array_facts *a,
                      size_t cache, dl_error *err) {
    const tiff_state *t = f->state;
    const stack *st = &t->stacks[a - f->arrays];
    dlr_chunking how = {.load = load_page, .close = close_tiff};
    how.swapped = dlr_is_swapped(t->file.big, dlr_element_bytes(a->type));
    memcpy(how.chunk, a->chunk, sizeof how.chunk);
    opened *o = how.state = calloc(1, sizeof *o);
    if (!o) return dl_fail(err, DL_RESOURCE, "no memory to open %s", s->label);
    o->file = t->file, o->page_bytes = dlr_array_stored_bytes(a) / st->n;
    o->file.fd = dl_input_open(f->path, err);
    o->pages = calloc((size_t)st->n, sizeof *o->pages);
    if (o->pages) memcpy(o->pages, st->pages, (size_t)st->n * sizeof *o->pages);
    return dlr_chunks_open(s, &how, cache, err) && o->file.fd >= 0 &&
           (o->pages || dl_fail(err, DL_RESOURCE, "no memory to open %s", s->label));
}

const dlr_array_format dlr_tiff_format = {.name = "TIFF",
                                          .modules = "tifffile",
                                          .load = "tifffile.imread('IN')",
                                          .owns = owns_tiff,
                                          .list = list_tiff,
                                          .open = open_tiff};

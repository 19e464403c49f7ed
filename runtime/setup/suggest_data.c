#include "runtime/setup/suggest_data.h"

#include <glob.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/packing.h"
#include "runtime/setup/dataset_options.h"
#include "runtime/setup/suggest_match.h"

/* ---- the text ---- */

static void put_quoted(dl_buf *out, const char *text) {
    dl_yaml v = {.kind = DL_YAML_STRING, .text = text};
    dl_yaml_put(out, &v);
}

/* Whether a name has digits where the pattern has stars, and is the pattern otherwise. */
static bool is_in_family(const char *pattern, const char *name) {
    for (; *pattern; pattern++) {
        const size_t run = *pattern == '*' ? strspn(name, "0123456789") : *name == *pattern;
        if (run == 0) return false;
        name += run;
    }
    return !*name;
}

/* The pattern itself, or where other files fit it, too, one that wants a digit for each star. */
static const char *narrow(dl_arena *arena, const char *pattern, const glob_t *found) {
    bool others = false;
    for (size_t i = 0; i < found->gl_pathc; i++)
        others |= !is_in_family(pattern, found->gl_pathv[i]);
    if (!others) return pattern;
    dl_buf text = {0};
    for (const char *c = pattern; *c; c++)
        *c == '*' ? dl_puts(&text, "[0-9]*") : dl_putn(&text, c, 1);
    const char *kept = dl_strdup(arena, text.at);
    dl_buf_free(&text);
    return kept;
}

/* The pattern of a name that most files fit, in the number of which they differ: p0_scan.nii.gz is
 * one of p*_scan.nii.gz; the name itself, and 1, where it is the only one. Counted are the files of
 * `given`, or all that are there. */
static const char *find_pattern(dl_arena *arena, const char *path, const dl_holdings *given,
                                int64_t *n) {
    const char *best = path;
    *n = 1;
    for (const char *at = path; *at;) {
        const size_t run = strspn(at, "0123456789");
        const char *pattern = run ? dl_put_star(arena, path, at, run) : NULL;
        glob_t found = {0};
        if (pattern && glob(pattern, 0, NULL, &found) == 0) {
            int64_t fit = 0;
            for (size_t i = 0; !given && i < found.gl_pathc; i++)
                fit += is_in_family(pattern, found.gl_pathv[i]);
            for (int i = 0; given && i < given->files.n; i++)
                fit += is_in_family(pattern, given->files.at[i]->path);
            if (fit > *n) best = narrow(arena, pattern, &found), *n = fit;
        }
        globfree(&found);
        at += run ? run : 1;
    }
    return best;
}

/* The same for file f, among the files that are given. */
static const char *find_given(const dl_holdings *h, int f, int64_t *n) {
    return find_pattern(h->arena, h->files.at[f]->path, h, n);
}

static void put_parts(dl_buf *out, const dl_holdings *h, const dl_match *m) {
    int64_t n;
    dl_puts(out, ", array: [");
    for (int i = 0; i < m->parts.n; i++) {
        const dl_match_part *p = &m->parts.at[i];
        const bool own = p->file != m->file;
        dl_puts(out, i ? ", " : "");
        if (p->axes || own) dl_puts(out, "{");
        put_quoted(out, p->name);
        if (p->axes || own) dl_puts(out, ": {");
        if (own) dl_puts(out, "file: "), put_quoted(out, find_given(h, p->file, &n));
        if (p->axes) dl_putf(out, "%saxes: %s", own ? ", " : "", p->axes);
        if (p->axes || own) dl_puts(out, "}}");
    }
    dl_puts(out, "]");
}

/* Whether numbers are missing in some blocks of an array, spread over it, as `dldata inspect`
 * counts them. */
static bool is_gappy(const dlr_array_file *file, const dlr_array_facts *a) {
    enum { BLOCKS = 32, MOST = 1 << 22 };
    dlr_packing packing;
    dl_error ignored = {0};
    dlr_block b = {.count = {1}};
    int64_t n = 1;
    for (int i = 1; i < a->rank; i++)
        if (b.count[i] = a->dims[i], __builtin_mul_overflow(n, a->dims[i], &n) || n > MOST)
            return false;
    double *at = malloc((size_t)n * sizeof *at);
    dlr_source *s = at && a->rank > 0 && dlr_packing_of(a, &packing, NULL, &ignored)
                        ? dlr_source_open(file, a, 64 << 20, &ignored)
                        : NULL;
    const int64_t step = s ? (a->dims[0] + BLOCKS - 1) / BLOCKS : 1;
    bool gappy = false;
    for (; s && !gappy && b.start[0] < a->dims[0]; b.start[0] += step) {
        if (!dlr_packing_read(&packing, s, &b, DLR_EL_F64, at, &ignored)) break;
        for (int64_t i = 0; i < n; i++) gappy |= isnan(at[i]);
    }
    dlr_source_close(s);
    free(at);
    return gappy;
}

static bool has_gaps(const dl_holdings *h, const dl_match *m) {
    bool gappy = is_gappy(h->files.at[m->file], &h->files.at[m->file]->arrays[m->array]);
    for (int i = 0; i < m->parts.n; i++) {
        const dlr_array_file *file = h->files.at[m->parts.at[i].file];
        gappy |= is_gappy(file, &file->arrays[m->parts.at[i].array]);
    }
    return gappy;
}

/* `in_time`: arrays of a family are simulations, of which N is the time. */
static void put_match(dl_buf *out, const dl_holdings *h, const dlr_array *want, const dl_match *m,
                      const char *path, bool in_time) {
    dl_putf(out, "      %s: ", want->name);
    if (m->file < 0) {
        dl_putf(out, "FILE:ARRAY  # nothing in these files has the axes of %s\n",
                dl_type_text(&want->type));
        return;
    }
    const dlr_array_file *file = h->files.at[m->file];
    const dlr_array_facts *a = &file->arrays[m->array];
    dl_puts(out, "{file: ");
    put_quoted(out, path);
    if (m->parts.n)
        put_parts(out, h, m);
    else if (*a->name)
        dl_puts(out, ", array: "), put_quoted(out, m->family ? m->family : a->name);
    if (!m->usual) {
        dl_puts(out, ", axes: [");
        for (int j = 0; j < m->n_axes; j++)
            dl_putf(out, "%s%s", j ? ", " : "",
                    in_time && strcmp(m->axes[j], "N") == 0 ? "time" : m->axes[j]);
        dl_puts(out, "]");
    }
    if (m->again && !m->trajectory && !in_time && want->is_target && m->samples)
        dl_puts(out, ", offset: 1");
    /* masks and labels keep their numbers */
    const bool label = want->is_target && dlr_element_bytes(a->type) == 1;
    if (want->type.dtype == DL_F32 && !label) dl_puts(out, ", normalize: standardize");
    const bool gaps = dl_dtype_is_float(want->type.dtype) && has_gaps(h, m);
    if (gaps) dl_puts(out, ", nan: 0");
    dl_puts(out, "}  # ");
    if (gaps) dl_puts(out, "numbers are missing; ");
    if (m->parts.n) dl_putf(out, "%d of ", m->parts.n);
    dlr_array_put_shape(out, a);
    dl_putf(out, " for %s", dl_type_text(&want->type));
    if (m->left) dl_putf(out, "; %d more that fit, left out", m->left);
    dl_putf(out, "%s\n", m->other ? ": sizes differ, set the model's arguments (or channels)" : "");
}

/* The matches of a section, in the order of the model's arrays. */
typedef struct {
    dl_match at[DLR_MAX_ARRAYS];
    const char *path[DLR_MAX_ARRAYS];
    bool cropped, pairs; /* pairs: targets are later samples */
    bool in_time;        /* of simulations, an array each */
    int64_t samples, history;
} matches;

static void find_matches(dl_holdings *h, matches *all) {
    bool with_samples = false;
    for (int k = 0; k < h->model->n; k++) {
        dl_match *m = &all->at[k];
        *m = dl_find_match(h, k, all->at);
        all->path[k] = m->file < 0 ? "" : h->files.at[m->file]->path;
        if (m->trajectory && m->history > all->history) all->history = m->history;
        all->pairs |= h->model->at[k].is_target && m->again && !m->trajectory;
        all->in_time |= h->model->at[k].is_target && m->again && m->family && m->samples;
        all->cropped |= m->file >= 0 && m->cropped;
        if (m->file >= 0 && m->samples > all->samples) all->samples = m->samples;
        with_samples |= m->samples > 0;
    }
    for (int k = 0; k < h->model->n && with_samples; k++) {
        int64_t n = 1;
        if (all->at[k].file >= 0) all->path[k] = find_given(h, all->at[k].file, &n);
        if (all->at[k].file >= 0 && all->at[k].samples * n > all->samples)
            all->samples = all->at[k].samples * n;
    }
    /* Without samples in any file, each file is one. */
    for (int k = 0; k < h->model->n && !with_samples; k++) {
        int64_t n = 0;
        if (all->path[k][0]) all->path[k] = find_pattern(h->arena, all->path[k], NULL, &n);
        if (n > 1 && n > all->samples) all->samples = n;
    }
}

static void put_section(dl_buf *out, dl_holdings *h) {
    matches *all = DL_NEW(h->arena, matches);
    find_matches(h, all);
    dl_puts(out, "  data:\n");
    for (int targets = 0; targets < 2; targets++) {
        bool any = false;
        for (int k = 0; k < h->model->n; k++) {
            if (h->model->at[k].is_target != targets) continue;
            if (!any) dl_puts(out, targets ? "    targets:\n" : "    inputs:\n");
            any = true;
            put_match(out, h, &h->model->at[k], &all->at[k], all->path[k], all->in_time);
        }
    }
    if (all->cropped) dl_puts(out, "    crop: random\n");
    if (all->in_time) dl_puts(out, "    trajectory: {time: 0, lead: 1}\n");
    if (all->history) dl_puts(out, "    trajectory: {sim: 0, time: 1, lead: 1");
    if (all->history > 1) dl_putf(out, ", history: %lld", (long long)all->history);
    if (all->history) dl_puts(out, "}\n");
    const bool tenth = all->samples >= (all->pairs ? 40 : 10) || (!all->samples && !all->cropped);
    dl_putf(out, "    split: {valid: %s}\n",
            tenth                             ? "0.1"
            : all->pairs && all->samples >= 8 ? "0.25"
                                              : "0.5");
    if (all->cropped && !all->samples)
        dl_puts(out, "  Nsamples: 1024  # random crops in an epoch\n  Nsamples_val: 128\n");
}

/* ---- all ---- */

static bool open_files(dl_holdings *h, const char *const *files, int n, dl_error *err) {
    for (int i = 0; i < n; i++) {
        const dlr_array_file *f = dlr_array_file_open(files[i], err);
        if (!f) return false;
        dl_push(h->arena, &h->files, f);
    }
    return true;
}

bool dl_suggest_data(const char *model, const char *const *files, int n_files, dl_buf *out,
                     dl_error *err) {
    dl_holdings h = {.arena = dl_arena_new(NULL)};
    char *argv[] = {"dldata", (char *)model};
    dlr_arrays arrays = {0};
    dl_buf faults = {0};
    dl_config *c = dl_config_open(h.arena, 2, argv, NULL, err);
    dl_session *s =
        c && dl_config_take_model(c, err) ? dl_session_open(h.arena, c, 1, &faults, err) : NULL;
    bool ok = s && dl_samples_arrays(s, &arrays, err) && open_files(&h, files, n_files, err);
    if (ok) {
        dl_putf(out,
                "\nfor %s (paste into a configuration, then `dlc check %s --yaml_config FILE "
                "--config NAME`):\n",
                model, model);
        h.model = &arrays;
        put_section(out, &h);
    } else if (faults.n)
        dl_fail(err, DL_INPUT, "%s: `dlc check %s` says what is wrong with it", model, model);
    for (int i = 0; i < h.files.n; i++) dlr_array_file_close((dlr_array_file *)h.files.at[i]);
    dl_session_close(s);
    dl_buf_free(&faults);
    dl_arena_free(h.arena);
    return ok;
}

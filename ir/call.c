#include "ir/call.h"

#include <inttypes.h>
#include <stdio.h>

#include "ir/base/hash.h"

const char *const dl_library_names[DL_NLIBRARIES] = {[DL_LIBRARY_CUBLASLT] = "cuBLASLt"};

/* ---- algorithms ---- */

const char *dl_library_version(dl_arena *arena, int64_t v) {
    return dl_format(arena, "%lld.%lld.%lld", (long long)(v / 10000), (long long)(v / 100 % 100),
                     (long long)(v % 100));
}

const char *dl_algorithm_name(const dl_algorithm *a) {
    dl_arena *arena = dl_arena_new(NULL);
    uint64_t hash = dl_hash(a->words, sizeof a->words, 0);
    const char *name = dl_internf("%s %s, algorithm %08x%s", dl_library_names[a->library],
                                  dl_library_version(arena, a->version), (unsigned)(hash >> 32),
                                  a->form == DL_FORM_SUMS ? ", sums alone" : "");
    dl_arena_free(arena);
    return name;
}

const char *dl_algorithm_text(dl_arena *arena, const dl_algorithm *a) {
    const char *text = dl_format(arena, "%s %" PRId64 " %d %" PRId64, dl_library_names[a->library],
                                 a->version, (int)a->form, a->workspace);
    for (int i = 0; i < DL_ALGORITHM_WORDS; i++) text = dl_format(arena, "%s %016" PRIx64, text, a->words[i]);
    return text;
}

bool dl_algorithm_parse(const char *text, size_t length, dl_algorithm *a) {
    char line[400], name[40];
    int at = 0, form = 0;
    if (length >= sizeof line) return false;
    memcpy(line, text, length), line[length] = 0;
    *a = (dl_algorithm){.library = DL_NLIBRARIES};
    if (sscanf(line, "%39s %" SCNd64 " %d %" SCNd64 "%n", name, &a->version, &form, &a->workspace, &at) != 4)
        return false;
    a->form = (dl_form)form;
    for (int i = 0; i < DL_NLIBRARIES; i++)
        if (strcmp(name, dl_library_names[i]) == 0) a->library = (dl_library)i;
    for (int i = 0, n = 0; i < DL_ALGORITHM_WORDS; i++, at += n)
        if (sscanf(line + at, " %16" SCNx64 "%n", &a->words[i], &n) != 1) return false;
    return !line[at] && a->library != DL_NLIBRARIES && (unsigned)form < DL_NFORMS && a->workspace >= 0;
}

bool dl_algorithm_is_same(const dl_algorithm *a, const dl_algorithm *b) {
    return a->library == b->library && a->version == b->version && a->form == b->form &&
           a->workspace == b->workspace && memcmp(a->words, b->words, sizeof a->words) == 0;
}

/* ---- calls ---- */

/* Lines of a matrix, and elements of each. */
static void lines_of(const dl_matmul *m, const dl_matrix *of, int64_t *lines, int64_t *length) {
    int64_t own = of == &m->right ? m->columns : m->rows, other = of == &m->result ? m->columns : m->terms;
    *lines = of->across ? other : own, *length = of->across ? own : other;
}

int64_t dl_matmul_reach(const dl_matmul *m, const dl_matrix *of) {
    int64_t lines, length;
    lines_of(m, of, &lines, &length);
    return of->offset +
           ((m->batch - 1) * of->next + (lines - 1) * of->line + length) * dl_dtype_bytes(of->dtype);
}

/* Numbers so small that no product of three of them overflows, whatever a file says. */
static bool is_small(int64_t n) { return n >= 0 && n <= INT32_MAX; }

static bool matrix_fits(const dl_matmul *m, const dl_matrix *of, int nargs, const int64_t *arg_bytes,
                        int64_t workspace) {
    int64_t lines, length, all;
    lines_of(m, of, &lines, &length);
    bool ok = of->param >= DL_IN_WORKSPACE && of->param < nargs && of->offset >= 0 &&
              of->offset <= workspace + INT32_MAX &&
              (of->dtype == DL_F32 || of->dtype == DL_BF16 || of->dtype == DL_F16) && is_small(of->line) &&
              of->line >= (lines > 1 ? length : 1) && of->next >= 0 &&
              !__builtin_mul_overflow(of->next, m->batch, &all) && all <= (int64_t)1 << 47;
    return ok && dl_matmul_reach(m, of) <= (of->param < 0 ? workspace : arg_bytes[of->param]);
}

/* Is no element two products' result? */
static bool is_apart(const dl_matmul *m) {
    const dl_matrix *r = &m->result;
    return m->batch == 1 || r->next >= (m->rows - 1) * r->line + m->columns ||
           (r->next >= m->columns && r->line >= (m->batch - 1) * r->next + m->columns);
}

bool dl_call_fits(const dl_call *c, int nargs, const int64_t *arg_bytes, int64_t workspace) {
    const dl_matmul *m = &c->matmul;
    const dl_algorithm *a = &c->algorithm;
    bool ok = (unsigned)a->library < DL_NLIBRARIES && (unsigned)a->form < DL_NFORMS && a->version > 0 &&
              a->workspace >= 0 && c->workspace >= 0 && c->workspace <= workspace &&
              (!a->workspace || a->workspace <= workspace - c->workspace - DL_CALL_ALIGN);
    ok = ok && is_small(m->batch) && is_small(m->rows) && is_small(m->columns) && is_small(m->terms) &&
         m->batch && m->rows && m->columns && m->terms && !m->result.across && m->left.param >= 0 &&
         m->right.param >= 0 && m->left.dtype == m->right.dtype;
    ok = ok && matrix_fits(m, &m->left, nargs, arg_bytes, workspace) &&
         matrix_fits(m, &m->right, nargs, arg_bytes, workspace) &&
         matrix_fits(m, &m->result, nargs, arg_bytes, m->result.param < 0 ? c->workspace : workspace) &&
         is_apart(m);
    return ok && m->bias >= -1 && m->bias < nargs &&
           (m->bias < 0 || ((unsigned)m->bias_type < DL_NDTYPES &&
                            m->columns * dl_dtype_bytes(m->bias_type) <= arg_bytes[m->bias]));
}

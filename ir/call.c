#include "ir/call.h"

#include <inttypes.h>
#include <stdio.h>

#include "ir/base/hash.h"

const char *const dl_library_names[DL_NLIBRARIES] = {
    [DL_LIBRARY_CUBLASLT] = "cuBLASLt", [DL_LIBRARY_CUDNN] = "cuDNN"};
const dl_called dl_library_makes[DL_NLIBRARIES] = {
    [DL_LIBRARY_CUBLASLT] = DL_CALLED_MATMUL, [DL_LIBRARY_CUDNN] = DL_CALLED_CONVOLUTION};

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
    for (int i = 0; i < DL_ALGORITHM_WORDS; i++)
        text = dl_format(arena, "%s %016" PRIx64, text, a->words[i]);
    return text;
}

bool dl_algorithm_parse(const char *text, size_t length, dl_algorithm *a) {
    char line[400], name[40];
    int at = 0, form = 0;
    if (length >= sizeof line) return false;
    memcpy(line, text, length), line[length] = 0;
    *a = (dl_algorithm){.library = DL_NLIBRARIES};
    if (sscanf(line, "%39s %" SCNd64 " %d %" SCNd64 "%n", name, &a->version, &form, &a->workspace,
               &at) != 4)
        return false;
    a->form = (dl_form)form;
    for (int i = 0; i < DL_NLIBRARIES; i++)
        if (strcmp(name, dl_library_names[i]) == 0) a->library = (dl_library)i;
    for (int i = 0, n = 0; i < DL_ALGORITHM_WORDS; i++, at += n)
        if (sscanf(line + at, " %16" SCNx64 "%n", &a->words[i], &n) != 1) return false;
    return !line[at] && a->library != DL_NLIBRARIES && (unsigned)form < DL_NFORMS &&
           a->workspace >= 0;
}

bool dl_algorithm_is_same(const dl_algorithm *a, const dl_algorithm *b) {
    return a->library == b->library && a->version == b->version && a->form == b->form &&
           a->workspace == b->workspace && memcmp(a->words, b->words, sizeof a->words) == 0;
}

/* ---- conditions of all calls ---- */

/* A kernel that has a call: bytes of its parameters and workspace, and the bytes of the workspace
 * that a result may use. */
typedef struct {
    int nargs;
    const int64_t *bytes;
    int64_t workspace, sums;
} limits;

/* Numbers so small that no product of three of them overflows, whatever a file contains. */
static bool is_small(int64_t n) { return n >= 0 && n <= INT32_MAX; }
static bool is_size(int64_t n) { return n > 0 && is_small(n); }

/* Is a tensor that ends `reach` bytes after the start of its parameter, or of the workspace,
 * inside it? */
static bool is_within(const limits *r, int param, int64_t reach, bool result) {
    if (param < 0) return param == DL_IN_WORKSPACE && result && reach <= r->sums;
    return param < r->nargs && reach <= r->bytes[param];
}

/* ---- GEMMs ---- */

/* The number of lines of a matrix, and of elements in each. */
static void lines_of(const dl_matmul *m, const dl_matrix *of, int64_t *lines, int64_t *length) {
    int64_t own = of == &m->right ? m->columns : m->rows,
            other = of == &m->result ? m->columns : m->terms;
    *lines = of->across ? other : own, *length = of->across ? own : other;
}

static int64_t matrix_reach(const dl_matmul *m, const dl_matrix *of) {
    int64_t lines, length;
    lines_of(m, of, &lines, &length);
    return of->offset + ((m->batch - 1) * of->next + (lines - 1) * of->line + length) *
                            dl_dtype_bytes(of->dtype);
}

static bool matrix_fits(const dl_matmul *m, const dl_matrix *of, const limits *r) {
    int64_t lines, length, all;
    lines_of(m, of, &lines, &length);
    return of->offset >= 0 && of->offset <= (int64_t)1 << 47 && dl_call_takes(of->dtype) &&
           is_small(of->line) && of->line >= (lines > 1 ? length : 1) &&
           lines * of->line <= (int64_t)1 << 47 && of->next >= 0 &&
           !__builtin_mul_overflow(of->next, m->batch, &all) && all <= (int64_t)1 << 47 &&
           is_within(r, of->param, matrix_reach(m, of), of == &m->result);
}

/* Are the results of the batch disjoint? */
static bool matrices_disjoint(const dl_matmul *m) {
    const dl_matrix *r = &m->result;
    return m->batch == 1 || r->next >= (m->rows - 1) * r->line + m->columns ||
           (r->next >= m->columns && r->line >= (m->batch - 1) * r->next + m->columns);
}

static bool matmul_fits(const dl_call *c, const limits *r) {
    const dl_matmul *m = &c->matmul;
    return is_size(m->batch) && is_size(m->rows) && is_size(m->columns) && is_size(m->terms) &&
           !m->result.across && m->left.dtype == m->right.dtype && matrix_fits(m, &m->left, r) &&
           matrix_fits(m, &m->right, r) && matrix_fits(m, &m->result, r) && matrices_disjoint(m) &&
           m->bias >= -1 && m->bias < r->nargs &&
           (m->bias < 0 || ((unsigned)m->bias_type < DL_NDTYPES &&
                            m->columns * dl_dtype_bytes(m->bias_type) <= r->bytes[m->bias]));
}

static int64_t matmul_sums(const dl_call *c) {
    const dl_matmul *m = &c->matmul;
    return m->result.param < 0 ? matrix_reach(m, &m->result) : 0;
}

/* ---- convolutions ---- */

void dl_convolution_sizes(const dl_convolution *c, dl_tensor of, int64_t size[DL_TENSOR_AXES]) {
    const int64_t *spatial = of == DL_TENSOR_X   ? c->size.in
                             : of == DL_TENSOR_W ? c->size.tap
                                                 : c->size.out;
    size[0] = of == DL_TENSOR_W ? c->size.groups * c->size.o : c->size.samples;
    size[1] = of == DL_TENSOR_W ? c->size.c
                                : c->size.groups * (of == DL_TENSOR_X ? c->size.c : c->size.o);
    memcpy(size + 2, spatial, 3 * sizeof *size);
}

/* The end of the last element, in bytes; false: it overflows. */
static bool lattice_reach(const dl_convolution *c, dl_tensor of, int64_t *reach) {
    const dl_lattice *l = &c->of[of];
    int64_t size[DL_TENSOR_AXES], last = 0, own;
    bool ok = l->offset >= 0 && l->offset <= (int64_t)1 << 47;
    dl_convolution_sizes(c, of, size);
    for (int i = 0; ok && i < DL_TENSOR_AXES; i++)
        ok = is_size(size[i]) && l->step[i] > 0 &&
             !__builtin_mul_overflow(size[i] - 1, l->step[i], &own) && own <= (int64_t)1 << 47 &&
             (last += own) <= (int64_t)1 << 47;
    *reach = l->offset + (last + 1) * dl_dtype_bytes(l->dtype);
    return ok;
}

/* Are all elements at different addresses: is each stride larger than the reach of all shorter
 * ones? */
static bool is_injective(const dl_convolution *c, dl_tensor of) {
    const dl_lattice *l = &c->of[of];
    int64_t size[DL_TENSOR_AXES];
    dl_convolution_sizes(c, of, size);
    for (int i = 0; i < DL_TENSOR_AXES; i++) {
        int64_t inner = 0;
        for (int j = 0; j < DL_TENSOR_AXES; j++)
            if (j != i && size[j] > 1 &&
                (l->step[j] < l->step[i] || (l->step[j] == l->step[i] && j < i)))
                inner += (size[j] - 1) * l->step[j];
        if (size[i] > 1 && l->step[i] <= inner) return false;
    }
    return true;
}

bool dl_convolution_slides(const dl_convolution *c, int i) {
    if (!is_size(c->size.in[i]) || !is_size(c->size.tap[i]) || !is_size(c->size.out[i]) ||
        !is_size(c->size.stride[i]) || !is_size(c->size.dilation[i]) ||
        !is_small(c->size.pad_lo[i]) || !is_small(c->size.pad_hi[i]))
        return false;
    int64_t room = c->size.in[i] + c->size.pad_lo[i] + c->size.pad_hi[i] -
                   (c->size.tap[i] - 1) * c->size.dilation[i] - 1;
    return room >= 0 && room / c->size.stride[i] + 1 == c->size.out[i];
}

static bool convolution_fits(const dl_call *call, const limits *r) {
    const dl_convolution *c = &call->convolution;
    bool ok = c->makes > DL_TENSOR_NONE && c->makes < DL_NTENSORS && is_size(c->size.samples) &&
              is_size(c->size.groups) && is_size(c->size.c) && is_size(c->size.o);
    dl_dtype operands = DL_NDTYPES;
    for (int i = 0; i < 3; i++) ok = ok && dl_convolution_slides(c, i);
    for (dl_tensor t = DL_TENSOR_X; ok && t < DL_NTENSORS; t++) {
        const dl_lattice *l = &c->of[t];
        int64_t reach;
        ok = dl_call_takes(l->dtype) && lattice_reach(c, t, &reach) &&
             is_within(r, l->param, reach, t == c->makes);
        if (t == c->makes) continue;
        ok = ok && (operands == DL_NDTYPES || operands == l->dtype);
        operands = l->dtype;
    }
    return ok && is_injective(c, c->makes);
}

static int64_t convolution_sums(const dl_call *call) {
    const dl_convolution *c = &call->convolution;
    int64_t reach;
    return c->of[c->makes].param < 0 && lattice_reach(c, c->makes, &reach) ? reach : 0;
}

/* ---- calls ---- */

static const struct {
    bool (*fits)(const dl_call *c, const limits *r);
    int64_t (*sums)(const dl_call *c);
} kinds[DL_NCALLED] = {[DL_CALLED_MATMUL] = {matmul_fits, matmul_sums},
                       [DL_CALLED_CONVOLUTION] = {convolution_fits, convolution_sums}};

int64_t dl_call_sums(const dl_call *c) { return kinds[c->what].sums(c); }

bool dl_call_is_for(const dl_call *c, const dl_algorithm *a) {
    return c->what == dl_library_makes[a->library] && c->algorithm.form == a->form;
}

bool dl_call_fits(const dl_call *c, int nargs, const int64_t *arg_bytes, int64_t workspace) {
    const dl_algorithm *a = &c->algorithm;
    limits r = {nargs, arg_bytes, workspace, c->workspace};
    bool ok = (unsigned)a->library < DL_NLIBRARIES && (unsigned)a->form < DL_NFORMS &&
              a->version > 0 && a->workspace >= 0 && c->workspace >= 0 &&
              c->workspace <= workspace &&
              (!a->workspace || a->workspace <= workspace - c->workspace - DL_CALL_ALIGN);
    return ok && c->what == dl_library_makes[a->library] && kinds[c->what].fits(c, &r);
}

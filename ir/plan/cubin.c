#include "ir/plan/cubin.h"

#include <elf.h>
#include <limits.h>
#include <stdlib.h>

enum {
    MACHINE_CUDA = 190,     /* EM_CUDA */
    KERNEL = 0x10,          /* in a symbol's st_other: a kernel, not a device function */
    RESERVED_SHARED = 1024, /* in .nv.shared.KERNEL where the file has .nv.shared.reserved.0 */
    MOST_BYTES = 1 << 24,   /* per thread or block: more means that the file is damaged */
};

/* How an attribute's value is stored: in its own two bytes, or after them, which then hold its
 * size. */
enum { FORM_NONE = 1, FORM_BYTE, FORM_HALF, FORM_SIZED };

/* Attributes of the file (.nv.info) about a symbol, and of a kernel (.nv.info.KERNEL). */
enum {
    ATTR_MAX_THREADS = 0x05, /* x, y, z */
    ATTR_REQUIRED = 0x10,    /* as __block_size__ asks: x, y, z */
    ATTR_FRAME = 0x11,       /* symbol, bytes */
    ATTR_PARAM = 0x17,       /* the size of all arguments together */
    ATTR_PARAM_BYTES = 0x19, /* all arguments together */
    ATTR_REGISTERS = 0x2f,   /* symbol, count */
    ATTR_PARAM_V2 = 0x45,
    ATTR_NOTES =
        0x55, /* pairs: kind, offset of an instruction; kind 1: it spills or fills a register */
    NOTE_SPILL = 1,
};

typedef struct {
    const unsigned char *at;
    size_t n;
} bytes;

typedef struct {
    const char *name;
    Elf64_Shdr head;
    bytes data; /* empty where the file holds none */
} section;

typedef struct {
    dl_arena *arena;
    bytes file;
    int nsections;
    section *sections;
    dl_cubin *out;
    const section *symbols;
    int *kernel_of; /* by symbol: index into out->kernels, -1: none */
    int nsymbols;
    int *text_of; /* by kernel: its section of code */
    dl_error *err;
} reader;

static bool damaged(reader *r, const char *what) {
    return dl_fail(r->err, DL_INPUT, "not a cubin that can be read: %s", what);
}

/* The part from `at` on; empty where it is not inside. */
static bytes part(bytes b, uint64_t at, uint64_t n) {
    return at <= b.n && n <= b.n - at ? (bytes){b.at + at, (size_t)n} : (bytes){NULL, 0};
}

static uint32_t word(bytes b, size_t i) { /* the i-th of 32 bits, which is inside */
    uint32_t w;
    memcpy(&w, b.at + 4 * i, sizeof w);
    return w;
}

/* The string at an offset of a table of strings, or NULL when it does not end inside. */
static const char *string(bytes table, uint64_t at) {
    if (at >= table.n || !memchr(table.at + at, 0, table.n - at)) return NULL;
    return (const char *)table.at + at;
}

static bool read_sections(reader *r) {
    Elf64_Ehdr h;
    if (r->file.n < sizeof h) return damaged(r, "it is shorter than a header");
    memcpy(&h, r->file.at, sizeof h);
    if (memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_ident[EI_CLASS] != ELFCLASS64 ||
        h.e_ident[EI_DATA] != ELFDATA2LSB || h.e_machine != MACHINE_CUDA)
        return damaged(r, "it is no ELF file of CUDA");
    bytes table = part(r->file, h.e_shoff, (uint64_t)h.e_shnum * sizeof(Elf64_Shdr));
    if (!table.at || h.e_shentsize != sizeof(Elf64_Shdr) || h.e_shstrndx >= h.e_shnum)
        return damaged(r, "its table of sections lies outside");
    r->nsections = h.e_shnum;
    r->sections = DL_NEWS(r->arena, section, h.e_shnum);
    for (int i = 0; i < h.e_shnum; i++) {
        section *s = &r->sections[i];
        memcpy(&s->head, table.at + (size_t)i * sizeof s->head, sizeof s->head);
        if (s->head.sh_type == SHT_NOBITS || s->head.sh_type == SHT_NULL || !s->head.sh_size)
            continue;
        s->data = part(r->file, s->head.sh_offset, s->head.sh_size);
        if (!s->data.at) return damaged(r, "a section lies outside");
    }
    for (int i = 0; i < h.e_shnum; i++) {
        r->sections[i].name = string(r->sections[h.e_shstrndx].data, r->sections[i].head.sh_name);
        if (!r->sections[i].name) return damaged(r, "a section's name lies outside");
    }
    return true;
}

static const section *section_named(const reader *r, const char *front, const char *name) {
    size_t n = strlen(front);
    for (int i = 0; i < r->nsections; i++)
        if (!strncmp(r->sections[i].name, front, n) && !strcmp(r->sections[i].name + n, name))
            return &r->sections[i];
    return NULL;
}

static Elf64_Sym symbol(const reader *r, int i) {
    Elf64_Sym s;
    memcpy(&s, r->symbols->data.at + (size_t)i * sizeof s, sizeof s);
    return s;
}

static bool is_kernel(const Elf64_Sym *s) {
    return ELF64_ST_TYPE(s->st_info) == STT_FUNC && (s->st_other & KERNEL);
}

/* Adds a kernel for each symbol of a kernel. */
static bool read_symbols(reader *r) {
    r->symbols = section_named(r, "", ".symtab");
    if (!r->symbols || r->symbols->head.sh_link >= (uint32_t)r->nsections)
        return damaged(r, "it has no table of symbols");
    bytes names = r->sections[r->symbols->head.sh_link].data;
    if (r->symbols->data.n / sizeof(Elf64_Sym) > INT_MAX / 2)
        return damaged(r, "it has too many symbols");
    r->nsymbols = (int)(r->symbols->data.n / sizeof(Elf64_Sym));
    r->kernel_of = DL_NEWS(r->arena, int, r->nsymbols + 1);
    r->text_of = DL_NEWS(r->arena, int, r->nsymbols + 1);
    r->out->kernels = DL_NEWS(r->arena, dl_cubin_kernel, r->nsymbols + 1);
    for (int i = 0; i < r->nsymbols; i++) {
        Elf64_Sym s = symbol(r, i);
        r->kernel_of[i] = -1;
        if (!is_kernel(&s)) continue;
        const char *name = string(names, s.st_name);
        if (!name || !*name || s.st_shndx >= r->nsections)
            return damaged(r, "a kernel has no name or code");
        r->kernel_of[i] = r->out->n;
        r->text_of[r->out->n] = s.st_shndx;
        r->out->kernels[r->out->n++] =
            (dl_cubin_kernel){.name = dl_strdup(r->arena, name), .code_bytes = (int64_t)s.st_size};
    }
    return r->out->n > 0 || damaged(r, "it holds no kernel");
}

/* The next attribute of a list: its form, number and value. False at the end, or when it is
 * damaged. */
static bool next_attribute(reader *r, bytes *list, int *number, bytes *value) {
    if (list->n == 0) return false;
    if (list->n < 4) return damaged(r, "an attribute is cut off");
    int form = list->at[0], size = list->at[2] | list->at[3] << 8;
    *number = list->at[1];
    if (form < FORM_NONE || form > FORM_SIZED)
        return damaged(r, "an attribute is of no known form");
    *value = form == FORM_SIZED ? part(*list, 4, (uint64_t)size) : (bytes){list->at + 2, 2};
    if (form == FORM_SIZED && !value->at) return damaged(r, "an attribute is cut off");
    size_t taken = form == FORM_SIZED ? 4 + (size_t)size : 4;
    *list = (bytes){list->at + taken, list->n - taken};
    return true;
}

static bool read_file_attributes(reader *r) {
    const section *info = section_named(r, "", ".nv.info");
    bytes list = info ? info->data : (bytes){NULL, 0}, value = {NULL, 0};
    for (int number = 0; next_attribute(r, &list, &number, &value);) {
        if ((number != ATTR_REGISTERS && number != ATTR_FRAME) || value.n != 8) continue;
        uint32_t of = word(value, 0), amount = word(value, 1);
        if (of >= (uint32_t)r->nsymbols || amount > MOST_BYTES)
            return damaged(r, "an attribute's symbol or amount is out of range");
        if (r->kernel_of[of] < 0) continue;
        dl_cubin_kernel *k = &r->out->kernels[r->kernel_of[of]];
        *(number == ATTR_REGISTERS ? &k->registers : &k->frame_bytes) = (int)amount;
    }
    return !r->err->code;
}

/* Instructions have 128 bits from sm_70 to sm_121: the operation is in bits 0 to 11, the size of a
 * memory access in bits 73 to 75. */
static bool count_spill(reader *r, dl_cubin_kernel *k, bytes code, uint32_t at) {
    static const int sizes[] = {1, 1, 2, 2, 4, 8, 16, 16};
    enum { LOAD_LOCAL = 0x983, STORE_LOCAL = 0x387 };
    bytes instruction = part(code, at, 16);
    if (!instruction.at) return damaged(r, "an instruction that it notes lies outside");
    unsigned operation = word(instruction, 0) & 0xfff;
    int size = sizes[word(instruction, 2) >> 9 & 7];
    if (operation == LOAD_LOCAL)
        k->spill_loads += size;
    else /* a store; or a newer architecture's way to spill, which must be counted */
        k->spill_stores += operation == STORE_LOCAL ? size : 4;
    return true;
}

static bool count_spills(reader *r, dl_cubin_kernel *k, bytes code, bytes notes) {
    for (size_t i = 0; i + 1 < notes.n / 4; i += 2)
        if (word(notes, i) == NOTE_SPILL && !count_spill(r, k, code, word(notes, i + 1)))
            return false;
    return true;
}

static bool read_threads(reader *r, dl_cubin_kernel *k, bytes value) {
    int64_t threads = 1;
    for (int i = 0; i < 3; i++) {
        uint32_t w = value.n == 12 ? word(value, (size_t)i) : 0;
        if (w < 1 || w > 1024) return damaged(r, "a block's size is out of range");
        threads *= w;
    }
    k->max_threads = (int)threads;
    return true;
}

static bool read_param(reader *r, dl_cubin_kernel *k, bytes value, int limit) {
    if (value.n != 12) return damaged(r, "a parameter is of no known form");
    dl_cubin_param p = {(int)(word(value, 1) & 0xffff), (int)(word(value, 1) >> 16),
                        (int)(word(value, 2) >> 18)};
    if (p.ordinal >= limit || p.bytes < 1) return damaged(r, "a parameter's place is out of range");
    if (p.ordinal >= k->nparams) k->nparams = p.ordinal + 1;
    k->params[p.ordinal] = p;
    return true;
}

/* Every parameter occurs once; they follow each other and end at the block's end. */
static bool check_params(reader *r, const dl_cubin_kernel *k) {
    int end = 0;
    for (int i = 0; i < k->nparams; i++) {
        const dl_cubin_param *p = &k->params[i];
        if (!p->bytes || p->offset < end)
            return damaged(r, "its parameters do not follow each other");
        end = p->offset + p->bytes;
    }
    return end == k->param_bytes || damaged(r, "its parameters are not as many bytes as it says");
}

static bool read_kernel(reader *r, int i) {
    dl_cubin_kernel *k = &r->out->kernels[i];
    const section *info = section_named(r, ".nv.info.", k->name),
                  *shared = section_named(r, ".nv.shared.", k->name);
    if (!info) return damaged(r, "a kernel has no attributes");
    int limit = (int)(info->data.n / 16); /* an attribute of a parameter takes 16 bytes */
    k->params = DL_NEWS(r->arena, dl_cubin_param, limit + 1);
    bytes list = info->data, value = {NULL, 0};
    for (int number = 0; next_attribute(r, &list, &number, &value);) {
        bool ok = true;
        if (number == ATTR_MAX_THREADS || number == ATTR_REQUIRED)
            ok = read_threads(r, k, value);
        else if (number == ATTR_PARAM)
            ok = read_param(r, k, value, limit);
        else if (number == ATTR_PARAM_V2)
            ok = damaged(r, "its parameters are in a form that this version does not know");
        else if (number == ATTR_PARAM_BYTES && value.n == 2)
            k->param_bytes = value.at[0] | value.at[1] << 8;
        else if (number == ATTR_NOTES)
            ok = count_spills(r, k, r->sections[r->text_of[i]].data, value);
        if (!ok) return false;
    }
    uint64_t static_bytes = shared ? shared->head.sh_size : 0;
    if (static_bytes > MOST_BYTES) return damaged(r, "a block's shared memory is out of range");
    if (static_bytes >= RESERVED_SHARED && section_named(r, ".nv.shared.reserved.", "0"))
        static_bytes -= RESERVED_SHARED;
    k->shared_bytes = (int)static_bytes;
    if (k->registers < 1) return damaged(r, "a kernel has no count of registers");
    return !r->err->code && check_params(r, k);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const dl_cubin_kernel *)a)->name, ((const dl_cubin_kernel *)b)->name);
}

bool dl_cubin_read(dl_arena *arena, const void *image, size_t n, dl_cubin *cubin, dl_error *err) {
    *cubin = (dl_cubin){0};
    dl_error why = {0};
    reader r = {.arena = arena, .file = {image, n}, .out = cubin, .err = &why};
    bool ok = read_sections(&r) && read_symbols(&r) && read_file_attributes(&r);
    for (int i = 0; ok && i < cubin->n; i++) ok = read_kernel(&r, i);
    if (!ok) return dl_fail(err, why.code, "%s", why.message);
    qsort(cubin->kernels, (size_t)cubin->n, sizeof *cubin->kernels, by_name);
    return true;
}

const dl_cubin_kernel *dl_cubin_find(const dl_cubin *cubin, const char *name) {
    dl_cubin_kernel key = {.name = name};
    return bsearch(&key, cubin->kernels, (size_t)cubin->n, sizeof key, by_name);
}

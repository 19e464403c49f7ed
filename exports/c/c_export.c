/* `dlc export --as=c`: a folder of freestanding C11. */
#include "exports/c/c_export.h"

#include <ctype.h>

#include "compiler/cpu/cpu.h"
#include "exports/c/c_network.h"
#include "ir/base/output.h"

/* ---- names ---- */

static const char *cased(dl_arena *arena, const char *s, int (*to)(int)) {
    char *out = dl_strdup(arena, s);
    for (char *at = out; *at; at++) *at = (char)(isalnum((unsigned char)*at) ? to(*at) : '_');
    return out;
}

static int keep(int letter) { return letter; }

/* Headers of C and POSIX. */
static const char headers[] =
    " alloca assert complex ctype dirent dlfcn endian err errno fcntl features fenv float "
    "ftw getopt glob grp inttypes iso646 limits link locale malloc math memory monetary "
    "netdb poll pthread pwd regex sched search semaphore setjmp signal spawn stdalign "
    "stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string strings "
    "syslog tar termios tgmath threads time uchar unistd utime values wchar wctype ";

/* Is it a name of the generated text, in C or, without letters' case, in Fortran? */
static bool is_reserved(const dl_c_network *c, const char *id) {
    static const char *const words[] = {
        "work",      "auto",      "break",     "case",     "char",    "const",    "continue",
        "default",   "do",        "double",    "else",     "enum",    "extern",   "float",
        "for",       "goto",      "if",        "inline",   "int",     "long",     "register",
        "restrict",  "return",    "short",     "signed",   "sizeof",  "static",   "struct",
        "switch",    "typedef",   "union",     "unsigned", "void",    "volatile", "while",
        "asm",       "typeof",    "at_",       "int8_t",   "int32_t", "int64_t",  "uint8_t",
        "uint16_t",  "uint32_t",  "uintptr_t", "linux",    "unix",    "bool",     "true",
        "false",     "class",     "this",      "new",      "delete",  "template", "operator",
        "private",   "public",    "protected", "c_int",    "c_float", "c_double", "c_int8_t",
        "c_int32_t", "c_int64_t", "c_size_t"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasecmp(words[i], id) == 0) return true;
    for (int i = 0; i < c->n_inputs; i++)
        if (strcasecmp(c->input[i].id, id) == 0) return true;
    for (int i = 0; i < c->n_outputs; i++)
        if (strcasecmp(c->output[i].id, id) == 0) return true;
    size_t n = strlen(c->name); /* the module's name, and with which all others begin */
    return strncasecmp(id, c->name, n) == 0 && (!id[n] || id[n] == '_');
}

static const char *name_of(const dl_c_network *c, const char *name) {
    dl_arena *arena = c->of->arena;
    const char *id = cased(arena, name, keep);
    if (!isalpha((unsigned char)*id)) id = dl_format(arena, "array_%s", id);
    while (is_reserved(c, id)) id = dl_format(arena, "array_%s", id);
    return id;
}

/* ---- the network ---- */

static dl_c_array array_of(const dl_c_network *c, const char *name, const dl_type *type,
                           const dl_array_record *record) {
    dl_c_array a = {.name = dl_strdup(c->of->arena, name), .type = *type, .record = record};
    a.type.layout = (dl_layout){0};
    a.id = name_of(c, a.name), a.upper = cased(c->of->arena, a.id, toupper);
    return a;
}

static void find_arrays(dl_c_network *c) {
    const dl_export *e = c->of;
    for (int i = 0; i < e->n_inputs; i++, c->n_inputs++) {
        const dl_var *v = e->input[i].var;
        c->input[i] = array_of(c, v->name, &v->value.type, e->input[i].record);
    }
    for (int i = 0; i < e->n_outputs; i++, c->n_outputs++)
        c->output[i] = array_of(c, e->output[i].name, &e->output[i].value->type, e->output[i].undo);
}

/* The CPUs, the fastest first, and how the C compiler's target shows. */
static const struct {
    const char *name, *condition;
} cpus[DL_C_VARIANTS] = {{"avx512", "defined __AVX512F__ && defined __FMA__"},
                         {"avx2", "defined __AVX2__ && defined __FMA__ && defined __F16C__"},
                         {"generic", NULL}};

/* Is the word `cpu:NAME` in a list, separated by commas? */
static bool lists(const char *list, const char *name) {
    size_t n = strlen(name);
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, "cpu:", 4) == 0 && strncmp(at + 4, name, n) == 0 &&
            (!at[4 + n] || at[4 + n] == ','))
            return true;
    }
    return false;
}

static bool check_list(const char *list, dl_error *err) {
    for (const char *at = list, *end; at; at = *end ? end + 1 : NULL) {
        end = at + strcspn(at, ",");
        bool known = false;
        for (int i = 0; i < DL_C_VARIANTS; i++) {
            size_t n = strlen(cpus[i].name);
            known |= (size_t)(end - at) == n + 4 && strncmp(at, "cpu:", 4) == 0 &&
                     strncmp(at + 4, cpus[i].name, n) == 0;
        }
        if (!known)
            return dl_fail(err, DL_USAGE,
                           "--target=%.80s: of cpu:generic, cpu:avx2 and cpu:avx512, separated by "
                           "commas",
                           list);
    }
    return true;
}

static bool make_variants(dl_c_network *c, dl_error *err) {
    const char *list = dl_config_option(c->of->net->config, "target");
    if (list && !check_list(list, err)) return false;
    int64_t at = 0;
    for (int i = 0; i < DL_C_VARIANTS; i++) {
        if (list && !lists(list, cpus[i].name)) continue;
        const dl_target *target = dl_cpu_target(dl_format(c->of->arena, "cpu:%s", cpus[i].name));
        if (!target) continue; /* of another architecture */
        dl_c_variant *v = &c->variant[c->n_variants++];
        *v = (dl_c_variant){.target = target,
                            .name = cpus[i].name,
                            .condition = cpus[i].condition,
                            .weights_at = at};
        if (!dl_c_variant_make(c, v, err)) return false;
        at += v->weights;
        if (c->work < v->work + 63) c->work = v->work + 63;
    }
    return c->n_variants ||
           dl_fail(err, DL_USAGE, "--target=%.80s: not on this architecture", list);
}

/* ---- the folder ---- */

static bool write_file(const dl_c_network *c, const char *folder, const char *name,
                       dl_c_put_file *put, dl_error *err) {
    dl_buf b = {0};
    put(&b, c);
    bool ok =
        dl_write_file(dl_format(c->of->arena, "%s/%s", folder, name), b.at ? b.at : "", b.n, err);
    dl_buf_free(&b);
    return ok;
}

static bool write_files(const dl_c_network *c, const char *folder, dl_error *err) {
    const struct {
        const char *name;
        dl_c_put_file *put;
    } files[] = {{"%s.c", dl_c_put_source},          {"%s.h", dl_c_put_header},
                 {"%s.f90", dl_c_put_fortran},       {"%s_weights.c", dl_c_put_weights},
                 {"CMakeLists.txt", dl_c_put_cmake}, {dl_c_example(c), dl_c_put_example},
                 {"README", dl_c_put_readme}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *name = files[i].name;
        if (*name == '%') name = dl_format(c->of->arena, "%s%s", c->name, name + 2);
        if (!write_file(c, folder, name, files[i].put, err)) return false;
    }
    return dl_c_weights_write(c, dl_format(c->of->arena, "%s/%s_weights.c.bin", folder, c->name),
                              err);
}

static bool write_as_c(const dl_export *e, const char *out, dl_error *err) {
    dl_c_network c = {
        .of = e, .name = dl_export_file_name(e->arena, cased(e->arena, e->name, keep), headers)};
    c.upper = cased(e->arena, c.name, toupper);
    find_arrays(&c);
    if (!make_variants(&c, err)) return false;
    dl_output_dir *folder = dl_output_dir_open(out, err);
    if (!folder) return false;
    if (write_files(&c, dl_output_dir_path(folder), err)) return dl_output_dir_commit(folder, err);
    dl_output_dir_discard(folder);
    return false;
}

const dl_export_format dl_export_c = {
    .name = "c", .help = "a folder of freestanding C, for Fortran, too", .write = write_as_c};

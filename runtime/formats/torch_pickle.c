/* An interpreter for the pickle opcodes that torch.save writes. It makes only the values of
 * torch_file.h, and calls only the functions that torch_rebuild.c lists. */
#include <stdio.h>

#include "ir/base/utf8.h"
#include "runtime/formats/torch_internal.h"

/* ---- stack and bytes ---- */

static dlr_torch_value pop(dlr_pickle *m) { return m->stack.at[--m->stack.n]; }
static dlr_torch_value *top(const dlr_pickle *m) { return &m->stack.at[m->stack.n - 1]; }

/* The next n bytes; NULL: failed. */
static const unsigned char *take(dlr_pickle *m, size_t n) {
    if (n > m->n - m->at) return dlr_pickle_refuse(m, "the pickle breaks off"), NULL;
    m->at += n;
    return m->text + m->at - n;
}

/* Reads a little-endian number of n <= 8 bytes. */
static bool take_number(dlr_pickle *m, int n, uint64_t *value) {
    const unsigned char *p = take(m, (size_t)n);
    *value = 0;
    for (int i = 0; p && i < n; i++) *value |= (uint64_t)p[i] << 8 * i;
    return p != NULL;
}

/* Drops the last mark; *n is the number of values above it. */
static bool pop_mark(dlr_pickle *m, int *n) {
    if (m->marks.n == 0) return dlr_pickle_refuse(m, "no mark on the stack");
    *n = dlr_pickle_above(m);
    m->marks.n--;
    return true;
}

/* ---- the opcodes ---- */

typedef bool opcode(dlr_pickle *m);

static bool run_proto(dlr_pickle *m) {
    uint64_t version;
    if (!take_number(m, 1, &version)) return false;
    if (m->op != 0) return dlr_pickle_refuse(m, "PROTO in the middle of the pickle");
    return version == 2 ||
           dlr_pickle_refuse(m,
                             "a pickle of protocol %d; torch.save writes 2, unless told otherwise: "
                             "save it again without pickle_protocol",
                             (int)version);
}

static bool run_stop(dlr_pickle *m) {
    if (m->stack.n != 1 || m->marks.n)
        return dlr_pickle_refuse(m, "ends with %d values and %d marks, where one value is wanted",
                                 m->stack.n, m->marks.n);
    m->done = true;
    return true;
}

static bool run_mark(dlr_pickle *m) {
    if (++m->pushes > DLR_PICKLE_PUSHES)
        return dlr_pickle_refuse(m, "more than %d values", DLR_PICKLE_PUSHES);
    dl_push(m->arena, &m->marks, m->stack.n);
    return true;
}

/* Reads a line without its end; NULL: failed. */
static const char *take_line(dlr_pickle *m, size_t *n) {
    enum { LONGEST = 200 };
    const char *line = (const char *)m->text + m->at;
    size_t left = m->n - m->at, most = left < LONGEST ? left : LONGEST;
    const char *end = memchr(line, '\n', most);
    if (!end) return dlr_pickle_refuse(m, "the name of a class or function does not end"), NULL;
    *n = (size_t)(end - line);
    m->at += *n + 1;
    return line;
}

static bool run_global(dlr_pickle *m) {
    size_t a, b;
    const char *module = take_line(m, &a), *name = module ? take_line(m, &b) : NULL;
    if (!name) return false;
    int number = dlr_pickle_find_global(module, a, name, b);
    if (number < 0)
        return dlr_pickle_refuse(
            m,
            "%.*s.%.*s is no part of weights and is not loaded: only tensors, numbers, text and "
            "plain containers are. Save state_dict()s, not objects, and numbers as Python's",
            (int)a, module, (int)b, name);
    return dlr_pickle_push(m, (dlr_torch_value){.kind = DLR_PICKLE_GLOBAL, .integer = number});
}

static bool run_reduce(dlr_pickle *m) {
    if (!dlr_pickle_need(m, 2)) return false;
    dlr_torch_value args = pop(m), function = pop(m);
    if (function.kind != DLR_PICKLE_GLOBAL || args.kind != DLR_TORCH_TUPLE)
        return dlr_pickle_refuse(m, "calls %s with %s", dlr_torch_kind_name(function.kind),
                                 dlr_torch_kind_name(args.kind));
    return dlr_pickle_call(m, function.integer, args.items);
}

/* Drops the attributes of an OrderedDict: _metadata, the versions of modules. */
static bool run_build(dlr_pickle *m) {
    if (!dlr_pickle_need(m, 2)) return false;
    dlr_torch_value state = pop(m), of = *top(m);
    return (of.kind == DLR_TORCH_DICT && of.items->ordered && state.kind == DLR_TORCH_DICT) ||
           dlr_pickle_refuse(m, "gives a state to %s", dlr_torch_kind_name(of.kind));
}

static bool run_persistent(dlr_pickle *m) {
    return dlr_pickle_need(m, 1) && dlr_pickle_load_storage(m, pop(m));
}

static bool put(dlr_pickle *m, int bytes) {
    uint64_t index;
    if (!take_number(m, bytes, &index) || !dlr_pickle_need(m, 1)) return false;
    if (index > (uint64_t)m->memo.n || index >= DLR_PICKLE_PUSHES)
        return dlr_pickle_refuse(m, "remembers number %llu of %d", (unsigned long long)index,
                                 m->memo.n);
    if (index == (uint64_t)m->memo.n)
        dl_push(m->arena, &m->memo, *top(m));
    else
        m->memo.at[index] = *top(m);
    return true;
}

static bool get(dlr_pickle *m, int bytes) {
    uint64_t index;
    if (!take_number(m, bytes, &index)) return false;
    if (index >= (uint64_t)m->memo.n)
        return dlr_pickle_refuse(m, "recalls number %llu of %d", (unsigned long long)index,
                                 m->memo.n);
    return dlr_pickle_push(m, m->memo.at[index]);
}

static bool run_put1(dlr_pickle *m) { return put(m, 1); }
static bool run_put4(dlr_pickle *m) { return put(m, 4); }
static bool run_get1(dlr_pickle *m) { return get(m, 1); }
static bool run_get4(dlr_pickle *m) { return get(m, 4); }

static bool run_none(dlr_pickle *m) {
    return dlr_pickle_push(m, (dlr_torch_value){.kind = DLR_TORCH_NONE});
}

static bool push_truth(dlr_pickle *m, bool v) {
    return dlr_pickle_push(m, (dlr_torch_value){.kind = DLR_TORCH_BOOL, .truth = v});
}
static bool run_true(dlr_pickle *m) { return push_truth(m, true); }
static bool run_false(dlr_pickle *m) { return push_truth(m, false); }

static bool push_int(dlr_pickle *m, int64_t v) {
    return dlr_pickle_push(m, (dlr_torch_value){.kind = DLR_TORCH_INT, .integer = v});
}

static bool run_int1(dlr_pickle *m) {
    uint64_t v;
    return take_number(m, 1, &v) && push_int(m, (int64_t)v);
}

static bool run_int2(dlr_pickle *m) {
    uint64_t v;
    return take_number(m, 2, &v) && push_int(m, (int64_t)v);
}

static bool run_int4(dlr_pickle *m) {
    uint64_t v;
    return take_number(m, 4, &v) && push_int(m, (int32_t)(uint32_t)v);
}

/* Reads a two's complement number; a first byte gives its length. */
static bool run_long1(dlr_pickle *m) {
    uint64_t n, v;
    if (!take_number(m, 1, &n)) return false;
    if (n > 8)
        return dlr_pickle_refuse(m, "a whole number of %d bytes; at most 8 are read", (int)n);
    if (!take_number(m, (int)n, &v)) return false;
    if (n > 0 && n < 8 && v >> (8 * n - 1) & 1) v |= UINT64_MAX << 8 * n;
    return push_int(m, (int64_t)v);
}

static bool run_real(dlr_pickle *m) {
    const unsigned char *p = take(m, 8);
    dlr_torch_value v = {.kind = DLR_TORCH_REAL};
    uint64_t bits = 0;
    if (!p) return false;
    for (int i = 0; i < 8; i++) bits = bits << 8 | p[i];
    memcpy(&v.real, &bits, sizeof v.real);
    return dlr_pickle_push(m, v);
}

static bool run_text(dlr_pickle *m) {
    uint64_t n;
    const char *p = take_number(m, 4, &n) ? (const char *)take(m, (size_t)n) : NULL;
    if (!p) return false;
    for (size_t at = 0, step; at < n; at += step)
        if ((step = (size_t)dl_utf8_length(p + at, (size_t)n - at)) == 0 || p[at] == 0)
            return dlr_pickle_refuse(m, "text with a zero byte, or that is not UTF-8");
    return dlr_pickle_push(
        m, (dlr_torch_value){.kind = DLR_TORCH_TEXT, .text = dl_strndup(m->arena, p, (size_t)n)});
}

static bool run_tuple0(dlr_pickle *m) { return dlr_pickle_make_tuple(m, 0); }
static bool run_tuple1(dlr_pickle *m) { return dlr_pickle_make_tuple(m, 1); }
static bool run_tuple2(dlr_pickle *m) { return dlr_pickle_make_tuple(m, 2); }
static bool run_tuple3(dlr_pickle *m) { return dlr_pickle_make_tuple(m, 3); }
static bool run_tuple(dlr_pickle *m) {
    int n = 0;
    return pop_mark(m, &n) && dlr_pickle_make_tuple(m, n);
}

static bool run_list(dlr_pickle *m) { return dlr_pickle_push_object(m, DLR_TORCH_LIST, false); }
static bool run_append(dlr_pickle *m) { return dlr_pickle_add_top(m, DLR_TORCH_LIST, 1); }
static bool run_appends(dlr_pickle *m) {
    int n = 0;
    return pop_mark(m, &n) && dlr_pickle_add_top(m, DLR_TORCH_LIST, n);
}

static bool run_dict(dlr_pickle *m) { return dlr_pickle_push_object(m, DLR_TORCH_DICT, false); }
static bool run_set_item(dlr_pickle *m) { return dlr_pickle_add_top(m, DLR_TORCH_DICT, 2); }
static bool run_set_items(dlr_pickle *m) {
    int n = 0;
    if (!pop_mark(m, &n)) return false;
    return n % 2 == 0 ? dlr_pickle_add_top(m, DLR_TORCH_DICT, n)
                      : dlr_pickle_refuse(m, "a key without a value");
}

static opcode run_refuse;

static const struct {
    const char *name;
    opcode *run;
} opcodes[256] = {
#define OPCODE(byte, name, function) [byte] = {#name, run_##function},
#include "runtime/formats/torch_opcodes.def"
#undef OPCODE
};

static bool run_refuse(dlr_pickle *m) {
    return dlr_pickle_refuse(m, "the opcode %s, which torch.save does not write",
                             opcodes[m->text[m->op]].name);
}

bool dlr_pickle_run(dlr_pickle *m, dlr_torch_value *root) {
    while (!m->done) {
        m->op = m->at;
        const unsigned char *byte = take(m, 1);
        if (!byte) return false;
        if (m->op == 0 && *byte != 0x80)
            return dlr_pickle_refuse(m, "no pickle: it does not begin with PROTO");
        if (!opcodes[*byte].run) return dlr_pickle_refuse(m, "the byte 0x%02x is no opcode", *byte);
        if (!opcodes[*byte].run(m)) return false;
    }
    *root = pop(m);
    if (dlr_pickle_is_inner(*root))
        return dlr_pickle_refuse(m,
                                 "ends with a class, a function or a storage, and no tensor of it");
    if (m->at != m->n)
        return dlr_pickle_refuse(m, "%zu bytes follow the end of the pickle", m->n - m->at);
    return dlr_pickle_check_keys(m);
}

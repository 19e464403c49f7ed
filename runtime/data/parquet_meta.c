#include "runtime/data/parquet_meta.h"

#include <string.h>

#include "ir/base/str.h"
#include "runtime/formats/varint.h"

/* ---- Thrift's compact protocol ---- */

enum {
    TRUE = 1,
    FALSE = 2,
    BYTE = 3,
    I64 = 6,
    DOUBLE = 7,
    BINARY = 8,
    LIST = 9,
    SET = 10,
    MAP = 11,
    STRUCT = 12
};
enum { MOST_DEPTH = 24 };

typedef struct {
    const unsigned char *at, *end;
    bool bad;
} thrift;

typedef struct {
    int id, type;
} field;

static uint64_t take_varint(thrift *t) {
    uint64_t v;
    if (dlr_take_varint(&t->at, t->end, &v)) return v;
    t->bad = true;
    return 0;
}

static int64_t take_signed(thrift *t) {
    const uint64_t v = take_varint(t);
    return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

static unsigned char take_byte(thrift *t) {
    if (t->at < t->end) return *t->at++;
    t->bad = true;
    return 0;
}

/* Takes the next field's number and type, after that of `f`; false at the end of the struct. */
static bool next_field(thrift *t, field *f) {
    const unsigned char head = take_byte(t);
    if (t->bad || head == 0) return false;
    f->type = head & 15;
    f->id = head >> 4 ? f->id + (head >> 4) : (int)(int16_t)take_signed(t);
    return !t->bad;
}

/* The number of items and their type. */
static int64_t take_list(thrift *t, int *type) {
    const unsigned char head = take_byte(t);
    const uint64_t n = head >> 4 == 15 ? take_varint(t) : head >> 4;
    *type = head & 15;
    if (n > (uint64_t)(t->end - t->at)) t->bad = true; /* an item has a byte at least */
    return t->bad ? 0 : (int64_t)n;
}

static void skip_bytes(thrift *t, uint64_t n) {
    if (n > (uint64_t)(t->end - t->at))
        t->bad = true;
    else
        t->at += n;
}

static void skip(thrift *t, int type, int depth) {
    int kind = 0, value = 0;
    if (depth == MOST_DEPTH) t->bad = true;
    if (t->bad || type == TRUE || type == FALSE) return;
    if (type == BYTE)
        take_byte(t);
    else if (type > BYTE && type <= I64)
        take_varint(t);
    else if (type == DOUBLE)
        skip_bytes(t, 8);
    else if (type == BINARY)
        skip_bytes(t, take_varint(t));
    else if (type == LIST || type == SET) {
        const int64_t n = take_list(t, &kind);
        for (int64_t i = 0; i < n && !t->bad; i++) {
            if (kind == TRUE || kind == FALSE) take_byte(t);
            skip(t, kind, depth + 1);
        }
    } else if (type == MAP) {
        const uint64_t n = take_varint(t);
        if (n) kind = take_byte(t), value = kind & 15, kind >>= 4;
        for (uint64_t i = 0; i < n && !t->bad; i++) {
            if (kind <= FALSE) take_byte(t);
            skip(t, kind, depth + 1);
            if (value <= FALSE) take_byte(t);
            skip(t, value, depth + 1);
        }
    } else if (type == STRUCT) {
        for (field f = {0}; next_field(t, &f);) skip(t, f.type, depth + 1);
    } else
        t->bad = true;
}

/* A whole number or bool of a field; others are skipped, and are 0. */
static int64_t take_int(thrift *t, const field *f) {
    if (f->type == TRUE || f->type == FALSE) return f->type == TRUE;
    if (f->type == BYTE) return (int8_t)take_byte(t);
    if (f->type > BYTE && f->type <= I64) return take_signed(t);
    skip(t, f->type, 0);
    return 0;
}

static bool take_struct(const field *f, thrift *t) {
    if (f->type == STRUCT) return true;
    skip(t, f->type, 0);
    return false;
}

/* ---- the schema ---- */

typedef struct {
    const char *name;
    int64_t type, length, repetition, children, converted;
    int bits; /* of the logical type of whole numbers; 0: none */
    bool is_signed, half;
} element;

enum { MAPS = 1, LISTS = 3, DECIMAL = 5, UINT_8 = 11, INT_8 = 15, LAST = 18 }; /* converted types */

/* The union of logical types: maps are its second, lists its third, decimal numbers its fifth,
 * whole numbers its tenth, half precision its fifteenth. */
static void take_logical(thrift *t, element *e) {
    for (field kind = {0}; next_field(t, &kind);) {
        if (kind.id == 15) e->half = true;
        if (kind.id != 10 || kind.type != STRUCT) {
            if (kind.id == 2) e->converted = MAPS;
            if (kind.id == 3) e->converted = LISTS;
            if (kind.id == 5) e->converted = DECIMAL;
            skip(t, kind.type, 0);
            continue;
        }
        for (field f = {0}; next_field(t, &f);)
            if (f.id == 1)
                e->bits = (int)take_int(t, &f);
            else if (f.id == 2)
                e->is_signed = take_int(t, &f) != 0;
            else
                skip(t, f.type, 0);
    }
}

static element take_element(dl_arena *arena, thrift *t) {
    element e = {.name = "", .type = -1, .converted = -1, .is_signed = true};
    for (field f = {0}; next_field(t, &f);) {
        if (f.id == 4 && f.type == BINARY) {
            const uint64_t n = take_varint(t);
            const char *at = (const char *)t->at;
            skip_bytes(t, n);
            if (!t->bad) e.name = dl_strndup(arena, at, n);
        } else if (f.id == 10 && f.type == STRUCT)
            take_logical(t, &e);
        else {
            const int64_t v = take_int(t, &f);
            if (f.id == 1) e.type = v;
            if (f.id == 2) e.length = v;
            if (f.id == 3) e.repetition = v;
            if (f.id == 5) e.children = v;
            if (f.id == 6) e.converted = v;
        }
    }
    return e;
}

/* Sets the type in which a column is read, or why it is not. Whole numbers become f64 later where
 * rows have none. */
static void set_type(dlr_parquet_column *c, const element *e) {
    enum { OPTIONAL = 1, REPEATED = 2 };
    static const size_t widths[] = {1, 4, 8, 12, 4, 8, 0, 0};
    int bits = e->bits;
    c->optional = e->repetition == OPTIONAL, c->is_signed = e->is_signed;
    c->element = DLR_EL_NONE;
    if (e->converted >= UINT_8 && e->converted <= LAST) {
        bits = 8 << (e->converted - UINT_8) % 4;
        c->is_signed = e->converted >= INT_8;
    }
    if (e->repetition == REPEATED || (e->children > 0 && e->converted == LISTS))
        c->refused = "holds lists, not a number in each row", c->odd = DLR_ODD_LISTS;
    else if (e->children > 0)
        c->refused = e->converted == MAPS ? "holds maps, not a number in each row"
                                          : "holds records, not a number in each row",
        c->odd = DLR_ODD_DICTS;
    else if (e->type < 0 || e->type > DLR_PARQUET_FIXED)
        c->refused = "has a type that is not known";
    else if (e->converted == DECIMAL)
        c->refused = "holds decimal numbers, which are not read", c->odd = DLR_ODD_WIDE;
    else if (e->type == DLR_PARQUET_FIXED && e->half && e->length == 2)
        c->element = DLR_EL_F16;
    else if (e->type == DLR_PARQUET_BYTES || e->type == DLR_PARQUET_FIXED)
        c->refused = "holds text or bytes, not numbers", c->odd = DLR_ODD_TEXT;
    else if (e->type == DLR_PARQUET_INT96)
        c->refused = "holds times of 96 bits, which are not read", c->odd = DLR_ODD_TIMES;
    else {
        c->type = (dlr_parquet_type)e->type, c->width = widths[e->type];
        if (bits == 0 || bits > 8 * (int)c->width) bits = 8 * (int)c->width;
        c->element = c->type == DLR_PARQUET_BOOLEAN ? DLR_EL_BOOL
                     : c->type == DLR_PARQUET_FLOAT ? DLR_EL_F32
                     : c->type == DLR_PARQUET_DOUBLE
                         ? DLR_EL_F64
                         : dlr_element_of(c->is_signed ? 'i' : 'u', (size_t)bits / 8);
    }
    if (c->element == DLR_EL_F16) c->type = DLR_PARQUET_FIXED, c->width = 2;
    if (c->element == DLR_EL_NONE && !c->refused) c->refused = "has a type that is not known";
}

typedef struct {
    dl_arena *arena;
    thrift t;
    dlr_parquet *out;
    int64_t size;
    int *column_of; /* of each leaf of the schema */
    int leaves;
    bool *nulls; /* of each column: there may be rows without a number */
} footer;

/* The schema lists each group before its members, from the root on. */
static bool take_schema(footer *p, const field *list) {
    int type = 0;
    if (list->type != LIST || p->column_of) return false;
    const int64_t n = take_list(&p->t, &type);
    if (n < 1 || type != STRUCT || n > 4 * DLR_PARQUET_COLUMNS) return false;
    p->column_of = DL_NEWS(p->arena, int, n + 1);
    p->nulls = DL_NEWS(p->arena, bool, DLR_PARQUET_COLUMNS);
    p->out->column = DL_NEWS(p->arena, dlr_parquet_column, DLR_PARQUET_COLUMNS);
    const element root = take_element(p->arena, &p->t);
    int64_t inside = 0; /* members that are still to come of the column that is read */
    for (int64_t i = 1; i < n && !p->t.bad; i++) {
        const element e = take_element(p->arena, &p->t);
        if (e.children < 0 || e.children > n) return false;
        if (inside == 0) {
            if (p->out->columns == DLR_PARQUET_COLUMNS) return false;
            dlr_parquet_column *c = &p->out->column[p->out->columns++];
            c->name = e.name;
            set_type(c, &e);
            inside = 1;
        }
        inside += e.children - 1;
        if (e.children == 0) p->column_of[p->leaves++] = p->out->columns - 1;
    }
    return !p->t.bad && inside == 0 && root.children == p->out->columns;
}

/* ---- groups of rows ---- */

/* The number of rows without a value; -1: it is not known. */
static int64_t take_nulls(thrift *t) {
    int64_t nulls = -1;
    for (field f = {0}; next_field(t, &f);)
        if (f.id == 3)
            nulls = take_int(t, &f);
        else
            skip(t, f.type, 0);
    return nulls;
}

static void take_chunk_meta(footer *p, dlr_parquet_chunk *chunk, int64_t *nulls) {
    int64_t data = 0, dictionary = 0;
    for (field f = {0}; next_field(&p->t, &f);) {
        if (f.id == 12 && take_struct(&f, &p->t)) {
            *nulls = take_nulls(&p->t);
            continue;
        }
        if (f.id == 12) continue;
        const int64_t v = take_int(&p->t, &f);
        if (f.id == 4) chunk->codec = (int)v;
        if (f.id == 5) chunk->rows = v;
        if (f.id == 7) chunk->bytes = v;
        if (f.id == 9) data = v;
        if (f.id == 11) dictionary = v;
    }
    chunk->at = dictionary > 0 && dictionary < data ? dictionary : data;
}

static void take_chunk(footer *p, int leaf, int group) {
    dlr_parquet_chunk chunk = {.at = -1};
    int64_t nulls = -1;
    bool elsewhere = false;
    for (field f = {0}; next_field(&p->t, &f);) {
        elsewhere |= f.id == 1; /* the name of another file */
        if (f.id == 3 && take_struct(&f, &p->t))
            take_chunk_meta(p, &chunk, &nulls);
        else if (f.id != 3)
            skip(&p->t, f.type, 0);
    }
    if (leaf >= p->leaves) return;
    const int k = p->column_of[leaf];
    dlr_parquet_column *c = &p->out->column[k];
    if (elsewhere && !c->refused) c->refused = "lies in another file, which is not followed";
    p->nulls[k] |= nulls != 0;
    if (!c->refused) c->chunk[group] = chunk;
}

static bool take_group(footer *p, int group) {
    for (field f = {0}; next_field(&p->t, &f);) {
        if (f.id != 1 || f.type != LIST) {
            skip(&p->t, f.type, 0);
            continue;
        }
        int type = 0;
        const int64_t n = take_list(&p->t, &type);
        if (type != STRUCT || n != p->leaves) return false;
        for (int64_t i = 0; i < n && !p->t.bad; i++) take_chunk(p, (int)i, group);
    }
    return !p->t.bad;
}

static bool take_groups(footer *p, const field *list) {
    int type = 0;
    if (list->type != LIST || !p->column_of || p->out->groups) return false;
    const int64_t n = take_list(&p->t, &type);
    if (n > DLR_PARQUET_GROUPS || (n > 0 && type != STRUCT)) return false;
    if (n * p->leaves > p->t.end - p->t.at)
        return false; /* pages of a column have a byte at least */
    p->out->groups = (int)n;
    for (int i = 0; i < p->out->columns; i++) {
        p->out->column[i].chunk = DL_NEWS(p->arena, dlr_parquet_chunk, n + 1);
        for (int64_t k = 0; k < n; k++) p->out->column[i].chunk[k].at = -1;
    }
    for (int64_t i = 0; i < n; i++)
        if (!take_group(p, (int)i)) return false;
    return true;
}

/* Whether a column's pages lie within the file and have all rows. */
static bool check_column(const footer *p, const dlr_parquet_column *c) {
    int64_t rows = 0;
    for (int i = 0; i < p->out->groups; i++) {
        const dlr_parquet_chunk *k = &c->chunk[i];
        if (k->rows == 0) continue;
        if (k->rows < 0 || k->at < 4 || k->bytes < 0 || k->at > p->size ||
            k->bytes > p->size - k->at || __builtin_add_overflow(rows, k->rows, &rows))
            return false;
    }
    return rows == p->out->rows;
}

bool dlr_parquet_read_footer(dl_arena *arena, const void *bytes, size_t n, int64_t size,
                             const char *path, dlr_parquet *out, dl_error *err) {
    footer p = {.arena = arena, .t = {bytes, (const unsigned char *)bytes + n, false}, .out = out};
    bool ok = true;
    p.size = size;
    *out = (dlr_parquet){.rows = -1};
    for (field f = {0}; ok && next_field(&p.t, &f);) {
        if (f.id == 2)
            ok = take_schema(&p, &f);
        else if (f.id == 4)
            ok = take_groups(&p, &f);
        else if (f.id == 3)
            out->rows = take_int(&p.t, &f);
        else
            skip(&p.t, f.type, 0);
    }
    ok = ok && !p.t.bad && p.column_of && out->rows >= 0;
    for (int i = 0; ok && i < out->columns; i++) {
        dlr_parquet_column *c = &out->column[i];
        if (!c->refused && !check_column(&p, c)) ok = false;
        if (!c->refused && c->optional && p.nulls[i] && !dlr_element_is_float(c->element))
            c->element = DLR_EL_F64;
    }
    return ok || dl_fail(err, DL_INPUT, "%s is damaged: its footer is not as Parquet has it", path);
}

/* ---- headers of pages ---- */

static void take_data_header(thrift *t, dlr_parquet_page *out, bool second) {
    int64_t bytes[2] = {0};
    for (field f = {0}; next_field(t, &f);) {
        const int64_t v = take_int(t, &f);
        if (f.id == 1) out->values = v;
        if (f.id == (second ? 4 : 2)) out->encoding = (int)v;
        if (second && (f.id == 5 || f.id == 6)) bytes[f.id - 5] = v;
        if (second && f.id == 7) out->packed = v != 0;
    }
    /* writers may store levels of repetition, all of them 0, where no list is */
    if (bytes[0] < 0 || bytes[0] > INT32_MAX || bytes[1] < 0 || bytes[1] > INT32_MAX) t->bad = true;
    out->repeat_bytes = bytes[1], out->level_bytes = bytes[0] + bytes[1];
}

size_t dlr_parquet_read_page(const void *from, size_t n, dlr_parquet_page *out) {
    thrift t = {from, (const unsigned char *)from + n, false};
    *out = (dlr_parquet_page){.kind = -1, .packed = true};
    for (field f = {0}; next_field(&t, &f);) {
        if ((f.id == 5 || f.id == 7 || f.id == 8) && take_struct(&f, &t)) {
            take_data_header(&t, out, f.id == 8);
            continue;
        }
        if (f.id == 5 || f.id == 7 || f.id == 8) continue;
        const int64_t v = take_int(&t, &f);
        if (f.id == 1) out->kind = (int)v;
        if (f.id == 2) out->unpacked = v;
        if (f.id == 3) out->bytes = v;
        if (f.id == 4) out->checked = true, out->checksum = (uint32_t)v;
    }
    const bool ok = !t.bad && out->bytes >= 0 && out->unpacked >= 0 && out->values >= 0;
    return ok ? (size_t)(t.at - (const unsigned char *)from) : 0;
}

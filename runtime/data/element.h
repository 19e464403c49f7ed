/* Elements of arrays in files: their types, and copies of blocks with conversion of type, byte
 * order and layout. */
#ifndef DLR_ELEMENT_H
#define DLR_ELEMENT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(id, text, bytes) */
#define DLR_ELEMENTS(X)                                                                            \
    X(F16, "f16", 2)                                                                               \
    X(F32, "f32", 4)                                                                               \
    X(F64, "f64", 8)                                                                               \
    X(I8, "i8", 1)                                                                                 \
    X(I16, "i16", 2)                                                                               \
    X(I32, "i32", 4)                                                                               \
    X(I64, "i64", 8)                                                                               \
    X(U8, "u8", 1) X(U16, "u16", 2) X(U32, "u32", 4) X(U64, "u64", 8) X(BOOL, "bool", 1)

typedef enum {
#define X(id, text, bytes) DLR_EL_##id,
    DLR_ELEMENTS(X)
#undef X
        DLR_NELEMENTS,
    DLR_EL_NONE = DLR_NELEMENTS /* not a number: text, records, complex numbers */
} dlr_element;

enum { DLR_ARRAY_RANK = 8 };

const char *dlr_element_name(dlr_element e); /* "f32"; "other" for DLR_EL_NONE */
size_t dlr_element_bytes(dlr_element e);     /* 0 for DLR_EL_NONE */
static inline bool dlr_element_is_float(dlr_element e) { return e <= DLR_EL_F64; }
/* The type of that kind ('f', 'i', 'u', or 'b' for bool) and size; DLR_EL_NONE when there is
 * none. */
dlr_element dlr_element_of(char kind, size_t bytes);

/* A block to copy. Steps are bytes from one element to the next along an axis, and not negative.
 * Steps of `to` belong to a packed array in any order of axes, of which the block may be a part. */
typedef struct {
    int rank;
    int64_t count[DLR_ARRAY_RANK];
    const void *from;
    ptrdiff_t from_step[DLR_ARRAY_RANK];
    dlr_element from_type;
    bool swapped; /* the bytes of an element of `from` are not in this machine's order */
    void *to;
    ptrdiff_t to_step[DLR_ARRAY_RANK];
    dlr_element to_type; /* any but f16 */
} dlr_element_move;

/* Copies the block. Conversions between floats, and from integers to floats, round as C does; a
 * bool is whether the value is not zero. An integer must be exactly representable: at one that is
 * not the result is false, `bad` its index in the block and `value` its value. A transposed block
 * is copied by tiles. */
bool dlr_elements_move(const dlr_element_move *m, int64_t bad[DLR_ARRAY_RANK], double *value);
#endif

/* JSON: a strict, bounded reader into an arena, and the pieces of a writer.
 *
 * The reader takes exactly RFC 8259 and less: no NUL in strings (they are C strings), no key twice
 * in an object, valid UTF-8, limited depth and number of values. The writer's numbers are the
 * shortest that read back to the same double, so equal bits print equal; NaN and the infinities,
 * which JSON does not have, become null. */
#ifndef DLR_JSON_H
#define DLR_JSON_H
#include "ir/base/str.h"

typedef enum {
    DLR_JSON_NULL,
    DLR_JSON_BOOL,
    DLR_JSON_INT,  /* no fraction, no exponent, fits 64 bits */
    DLR_JSON_REAL, /* every other number */
    DLR_JSON_STRING,
    DLR_JSON_ARRAY,
    DLR_JSON_OBJECT
} dlr_json_kind;

typedef struct dlr_json_member dlr_json_member;
typedef struct dlr_json dlr_json;
struct dlr_json {
    dlr_json_kind kind;
    int n;              /* items of an array, members of an object */
    const char *digits; /* of a DLR_JSON_REAL that is written as a whole number: its text */
    union {
        bool boolean;
        int64_t integer;
        double real;
        const char *string; /* UTF-8, escapes resolved */
        const dlr_json *items;
        struct {
            const dlr_json_member *members; /* as written */
            const int *by_key;              /* their indices in the order of strcmp, for look-up */
        };
    };
};
struct dlr_json_member {
    const char *key;
    dlr_json value;
};

typedef struct {
    int depth;  /* of nested arrays and objects */
    int values; /* in all */
} dlr_json_limits;

/* Reads the one value that the n bytes hold. `name` (a path) opens the messages. Errors: DL_INPUT
 * with the byte's offset and what was expected. */
const dlr_json *dlr_json_parse(dl_arena *arena, const char *text, size_t n, dlr_json_limits limits,
                               const char *name, dl_error *err);
/* The same, of a text in which NaN, Infinity and -Infinity are numbers, as Python's json module
 * writes them. */
const dlr_json *dlr_json_parse_python(dl_arena *arena, const char *text, size_t n,
                                      dlr_json_limits limits, const char *name, dl_error *err);
/* The member of an object, or NULL (also when `object` is NULL or no object). */
const dlr_json *dlr_json_get(const dlr_json *object, const char *key);
/* The value as a double: an integer, a real, or one of the strings "nan", "inf", "-inf" (see
 * dlr_json_put_exact). */
bool dlr_json_number(const dlr_json *value, double *number);

/* A quoted string; invalid UTF-8 becomes U+FFFD, so that what is written is always JSON. */
void dlr_json_put_string(dl_buf *b, const char *s);
/* `"key": `, after a comma unless the object was just opened or a comma stands there already. */
void dlr_json_put_key(dl_buf *b, const char *key);
/* The shortest decimal that reads back exactly; null when not finite. */
void dlr_json_put_double(dl_buf *b, double v);
/* The same, but "nan", "inf" or "-inf" as a string: for state that must come back as it was. */
void dlr_json_put_exact(dl_buf *b, double v);
/* A value that was read, on one line, in its order of members; numbers as by dlr_json_put_double.
 */
void dlr_json_put(dl_buf *b, const dlr_json *value);
#endif

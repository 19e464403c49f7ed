/* JSON: a strict, bounded reader into an arena, and the pieces of a writer.
 *
 * The reader accepts RFC 8259 with these restrictions: no NUL in strings (they are C strings), no
 * key twice in an object, valid UTF-8, limited depth and number of values. The writer prints the
 * shortest number that reads back to the same double, so equal bits print equal. NaN and the
 * infinities, which JSON lacks, become null. */
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
    const char *digits; /* of a DLR_JSON_REAL that is written as an integer: its text */
    union {
        bool boolean;
        int64_t integer;
        double real;
        const char *string; /* UTF-8, escapes resolved */
        const dlr_json *items;
        struct {
            const dlr_json_member *members; /* in the file's order */
            const int *by_key;              /* their indices in the order of strcmp, for lookup */
        };
    };
};
struct dlr_json_member {
    const char *key;
    dlr_json value;
};

typedef struct {
    int depth;  /* of nested arrays and objects */
    int values; /* in total */
} dlr_json_limits;

/* Parses the n bytes, which must be one value. `name` (a path) begins the messages. Errors:
 * DL_INPUT with the byte's offset and the expected token. */
const dlr_json *dlr_json_parse(dl_arena *arena, const char *text, size_t n, dlr_json_limits limits,
                               const char *name, dl_error *err);
/* The same, for a text in which NaN, Infinity and -Infinity are numbers, as Python's json module
 * writes them. */
const dlr_json *dlr_json_parse_python(dl_arena *arena, const char *text, size_t n,
                                      dlr_json_limits limits, const char *name, dl_error *err);
/* The member of an object with this key, or NULL (also when `object` is NULL or not an object). */
const dlr_json *dlr_json_get(const dlr_json *object, const char *key);
/* The value as a double: an integer, a real, or one of the strings "nan", "inf", "-inf" (see
 * dlr_json_put_exact). */
bool dlr_json_number(const dlr_json *value, double *number);

/* Appends a quoted string; invalid UTF-8 becomes U+FFFD, so that the output is always valid
 * JSON. */
void dlr_json_put_string(dl_buf *b, const char *s);
/* Appends `"key": `, after a comma unless the object was just opened or there is a comma
 * already. */
void dlr_json_put_key(dl_buf *b, const char *key);
/* Appends the shortest decimal that reads back exactly; null when not finite. */
void dlr_json_put_double(dl_buf *b, double v);
/* The same, but "nan", "inf" or "-inf" as a string: for state that must be restored exactly. */
void dlr_json_put_exact(dl_buf *b, double v);
/* Appends a parsed value, on one line, in its order of members; numbers as by
 * dlr_json_put_double. */
void dlr_json_put(dl_buf *b, const dlr_json *value);
#endif

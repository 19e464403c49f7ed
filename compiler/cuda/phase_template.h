/* A phase's text as a template: names are renumbered in the order in which they appear, and
 * numbers become parameters, unless the text's structure depends on them. Two phases with equal
 * templates can share a function. */
#ifndef DL_PHASE_TEMPLATE_H
#define DL_PHASE_TEMPLATE_H
#include "ir/base/arena.h"
#include "ir/base/str.h"

/* The use of a number in the text, which determines its form as an argument. */
typedef enum {
    DL_TEMPLATE_INT = 'i',
    DL_TEMPLATE_UNSIGNED = 'u',
    DL_TEMPLATE_LONG = 'l',
    DL_TEMPLATE_UNSIGNED_LONG = 'v',
    DL_TEMPLATE_FLOAT = 'f',  /* its bits */
    DL_TEMPLATE_SHIFT = 's',  /* a divisor that is a power of two; in the template also any divisor
                             of  the CTA's number */
    DL_TEMPLATE_DIVISOR = 'd' /* another divisor */
} dl_template_kind;

typedef struct {
    dl_template_kind kind;
    int64_t value;
    const char *spelled;
} dl_template_parameter;

/* Marks in the text: a number, followed by its kind; a parameter, followed by its index; the
 * kernel's name. */
enum { DL_TEMPLATE_PARAMETER = '\1', DL_PARAM = '\2', DL_OWN = '@' };

typedef struct {
    const char *text; /* structs, then the function's body, from after its "{" on */
    size_t structs;   /* bytes */
    DL_ARRAY(dl_template_parameter) parameters;
    int struct_parameters; /* the first ones, which are in structs */
    DL_ARRAY(int) args; /* the kernel's parameters that the text uses, in its order: p0, p1, ... */
    /* where the epilogue begins in a loop over tiles; otherwise the end of the text */
    size_t epilogue_start;
    int epilogue_parameter, epilogue_args;
} dl_phase_template;

/* `name`: the kernel's, a prefix of its structs' names. The result lives in the arena. */
dl_phase_template dl_phase_template_of(dl_arena *arena, const char *name, const char *structs,
                                       size_t nstructs, const char *body, size_t nbody);
#endif

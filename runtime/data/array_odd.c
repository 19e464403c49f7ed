/* Arrays that are listed and not read, by their contents, and commands that convert them. */
#include "runtime/data/array_format.h"

/* `python` writes the array `a`. tests/oracle/check_remedies.py runs every row. */
static const struct {
    const char *name, *python, *remark;
} rows[DLR_NODD] = {
    [DLR_ODD_COMPLEX] = {"complex numbers", "numpy.savez('OUT.npz', real=a.real, imag=a.imag)", ""},
    [DLR_ODD_RECORDS] = {"records", "numpy.savez('OUT.npz', **{n: a[n] for n in a.dtype.names})",
                         ""},
    [DLR_ODD_TEXT] = {"text",
                      "numpy.save('OUT.npy', numpy.unique(a, return_inverse=True)[1]"
                      ".reshape(a.shape))",
                      ", which numbers the words"},
    [DLR_ODD_TIMES] = {"times", "numpy.save('OUT.npy', a.astype('i8'))", ""},
    [DLR_ODD_WIDE] = {"wider numbers", "numpy.save('OUT.npy', a.astype('f8'))", ""},
    [DLR_ODD_NUMBERS] = {NULL, "numpy.save('OUT.npy', a)", ""},
    [DLR_ODD_LISTS] = {"lists",
                       "a = [[] if x is None else list(x) for x in a]; n = max(map(len, a)); "
                       "numpy.save('OUT.npy', numpy.array([x + [numpy.nan] * (n - len(x)) "
                       "for x in a]))",
                       ", which puts NaN after short lists"},
    [DLR_ODD_DICTS] = {"records",
                       "numpy.savez('OUT.npz', **pandas.json_normalize([dict(x or {}) "
                       "for x in a]))",
                       ""},
    [DLR_ODD_OBJECTS] = {"objects of Python",
                         "numpy.save('OUT.npy', numpy.array(a.tolist(), 'f8'))",
                         " (a pickle runs what it says: only of those you trust)"},
    [DLR_ODD_CELLS] = {"cells",
                       "numpy.savez('OUT.npz', **{'c%d' % i: c for i, c in enumerate(a.ravel())})",
                       ""},
    [DLR_ODD_STRUCTS] = {"records",
                         "numpy.savez('OUT.npz', **{n: a[n][0, 0] for n in a.dtype.names})", ""},
    [DLR_ODD_SPARSE] = {"a sparse matrix", "numpy.save('OUT.npy', a.toarray())", ""},
    [DLR_ODD_AXES] = {NULL, "numpy.save('OUT.npy', a.reshape(*a.shape[:7], -1))", ""},
};

const char *dlr_convert_odd(dl_arena *arena, const dlr_array_format *format, const char *name,
                            dlr_odd odd) {
    if (!format->load || !rows[odd].python) return "";
    const bool more = format->modules[0];
    dl_buf load = {0};
    for (const char *at = format->load; *at; at++)
        if (at[0] == '%' && at[1] == 's')
            dl_puts(&load, name && name[0] ? "['NAME']" : ""), at++;
        else
            dl_putn(&load, at, 1);
    const char *text =
        dl_format(arena, "Convert it: python3 -c \"import numpy%s%s; a = %s; %s\"%s (package %.*s)",
                  more ? ", " : "", format->modules, load.at, rows[odd].python, rows[odd].remark,
                  more ? (int)strcspn(format->modules, ".") : (int)strlen("numpy"),
                  more ? format->modules : "numpy");
    dl_buf_free(&load);
    return text;
}

const char *dlr_add_remedy(dl_arena *arena, const dlr_array_format *format, const char *name,
                           dlr_odd odd, const char *why) {
    const char *remedy = dlr_convert_odd(arena, format, name, odd);
    return remedy[0] ? dl_format(arena, "%s. %s", why, remedy) : why;
}

void dlr_refuse_odd(dl_arena *arena, const dlr_array_format *format, dlr_array_facts *a) {
    if (a->refused) return;
    if (a->rank > DLR_ARRAY_RANK) {
        a->refused = dlr_add_remedy(
            arena, format, a->name, DLR_ODD_AXES,
            dl_format(arena, "has %d axes; %d can be read", a->rank, DLR_ARRAY_RANK));
        return;
    }
    if (a->type != DLR_EL_NONE) return;
    const char *name = rows[a->odd].name;
    const bool both = name && strcmp(name, a->stored) != 0;
    const char *why =
        dl_format(arena, "holds %s%s%s%s, not numbers that can be read", name ? name : a->stored,
                  both ? " (" : "", both ? a->stored : "", both ? ")" : "");
    a->refused = dlr_add_remedy(arena, format, a->name, a->odd, why);
}

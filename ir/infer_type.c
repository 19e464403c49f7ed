/* Checks that a type is legal by itself, whether it is declared, parsed or inferred. */
#include "ir/infer_rules.h"

/* The most elements of a tensor: offsets and byte counts then fit in 64 bits. */
static const int64_t max_count = (int64_t)1 << 47;

static bool check_layout(const dl_type *t, dl_shape_fault *fault) {
    bool legal = t->layout.kind == DL_ROW ||
                 (t->layout.kind == DL_CL && t->layout.steps >= 0 &&
                  t->rank > dl_layout_channels(t->layout)) ||
                 (t->layout.kind == DL_PANEL && t->rank >= 3 && t->layout.width >= 1 &&
                  t->layout.width <= DL_MAX_PANEL);
    return legal || dl_fault(fault, -1, "bad_range",
                             "no such layout of %d axes: channels-last needs two, panels need "
                             "three and a width of 1 to %d",
                             t->rank, DL_MAX_PANEL);
}

bool dl_infer_axes(const dl_type *t, dl_shape_fault *fault) {
    if ((unsigned)t->dtype >= DL_NDTYPES)
        return dl_fault(fault, -1, "type_mismatch", "no such element type (number %d)",
                        (int)t->dtype);
    if (t->rank < 0 || t->rank > DL_MAX_RANK)
        return dl_fault(fault, -1, "rank_mismatch", "a tensor has at most %d axes, not %d",
                        DL_MAX_RANK, t->rank);
    for (int i = 0; i < t->rank; i++) {
        dl_axis a = t->axis[i];
        if (!*a.name && a.size != 1)
            return dl_fault(fault, -1, "missing_axis",
                            "axis %d has no name, so its size must be 1, not %lld", i + 1,
                            (long long)a.size),
                   dl_fault_help(fault, "name the axis");
        if (*a.name && dl_type_axis(t, a.name) != i)
            return dl_fault(fault, -1, "duplicate_axis", "%s names the axis %s twice",
                            dl_type_text(t), a.name),
                   dl_fault_help(fault, "give every axis a name of its own");
        if (a.size < 0)
            return dl_fault(fault, -1, "bad_range", "axis %s has size %lld; a size is 0 or more",
                            a.name, (long long)a.size);
    }
    return check_layout(t, fault);
}

bool dl_infer_type(const dl_type *t, dl_shape_fault *fault) {
    if (!dl_infer_axes(t, fault)) return false;
    int64_t count = 1;
    for (int i = 0; i < t->rank; i++) {
        int64_t size = t->axis[i].size ? t->axis[i].size : 1;
        if (size > max_count / count)
            return dl_fault(fault, -1, "too_large",
                            "%s has more than 2^47 elements (reached at axis %s=%lld)",
                            dl_type_text(t), t->axis[i].name, (long long)t->axis[i].size),
                   dl_fault_help(fault, "make one of its axes smaller");
        count *= size;
    }
    return true;
}

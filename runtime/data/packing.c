#include "runtime/data/packing.h"

#include <math.h>

dlr_packing dlr_packing_of(const dlr_array_facts *facts) {
    static const char *const missing[2] = {"_FillValue", "missing_value"};
    const dlr_attribute *scale = dlr_array_attribute(facts, "scale_factor"),
                        *offset = dlr_array_attribute(facts, "add_offset");
    dlr_packing p = {1, 0, {NAN, NAN}, false};
    if (scale && isfinite(scale->number)) p.scale = scale->number;
    if (offset && isfinite(offset->number)) p.offset = offset->number;
    for (int i = 0; i < 2; i++) {
        const dlr_attribute *m = dlr_array_attribute(facts, missing[i]);
        if (m) p.missing[i] = m->number;
    }
    p.any = p.scale != 1 || p.offset != 0 || !isnan(p.missing[0]) || !isnan(p.missing[1]);
    return p;
}

double dlr_unpack(const dlr_packing *p, double stored) {
    for (int i = 0; i < 2; i++) /* f32 has them rounded */
        if (stored == p->missing[i] || stored == (double)(float)p->missing[i]) return NAN;
    return stored * p->scale + p->offset;
}

/* The shape rule of the Fourier transform. */
#include "ir/base/str.h"
#include "ir/fourier.h"
#include "ir/infer_rules.h"

/* The operand: floats of 32 or 64 bits, real or complex, with the axis. */
static bool check_operand(const dl_node *n, dl_fourier_mode mode, dl_shape_fault *fault) {
    const dl_type *x = dl_operand(n, 0);
    int at = dl_rule_axis(n, fault);
    if (at < 0) return false;
    if (x->dtype != DL_F32 && x->dtype != DL_F64)
        return dl_fault(fault, 0, "type_mismatch", "fourier is in f32 or f64, not of %s",
                        dl_type_text(x));
    if (x->axis[at].name == dl_fourier_axis())
        return dl_fault(fault, 0, "axis_mismatch",
                        "fourier goes along Z, the axis of a complex number's parts");
    if (mode != DL_FOURIER_R2C && !dl_fourier_is_complex(x))
        return dl_fault(fault, 0, "axis_mismatch",
                        "fourier takes complex numbers, whose last axis is Z=2, not %s",
                        dl_type_text(x));
    return mode != DL_FOURIER_R2C || dl_type_axis(x, dl_fourier_axis()) < 0 ||
           dl_fault(fault, 0, "axis_mismatch",
                    "fourier takes real numbers, but %s has the axis Z of a complex number",
                    dl_type_text(x));
}

bool dl_rule_fourier(const dl_node *n, dl_type *r, dl_shape_fault *fault) {
    const dl_type *x = dl_operand(n, 0);
    const dl_attr *size = dl_node_attr(n, DL_ATTR_size);
    int found = dl_fourier_find_mode(n);
    if (found < 0 || size->n != 1)
        return dl_fault(fault, -1, "bad_attribute",
                        "fourier's mode is r2c, c2r, fft or ifft, and its size one number");
    dl_fourier_mode mode = (dl_fourier_mode)found;
    if (!check_operand(n, mode, fault) || !dl_want_switch(n, DL_ATTR_twice, fault)) return false;
    int at = dl_type_axis(x, dl_node_name(n, DL_ATTR_axis));
    bool makes_modes = dl_fourier_makes_modes(mode), real = dl_fourier_is_real(mode);
    int64_t all = size->ints[0], start = dl_node_int(n, DL_ATTR_start),
            stop = dl_node_int(n, DL_ATTR_stop), own = x->axis[at].size;
    if (all < 1 || all > DL_FOURIER_MOST)
        return dl_fault(fault, -1, "bad_range", "fourier of size %lld; it is from 1 to %d",
                        (long long)all, (int)DL_FOURIER_MOST);
    bool sane = start <= 0 && start >= -all && stop >= 0 && stop <= all;
    int64_t samples = makes_modes ? own : stop, modes = makes_modes ? stop - start : own,
            most = real ? all / 2 + 1 : all;
    if (!sane || samples > all || modes > most || modes < -start || (real && start))
        return dl_fault(fault, -1, "bad_range",
                        "fourier of size %lld has %lld samples and %lld modes at most, not %lld "
                        "samples and %lld modes from %lld on",
                        (long long)all, (long long)all, (long long)most, (long long)samples,
                        (long long)modes, (long long)start);
    *r = dl_row_type(x);
    r->axis[at].size = makes_modes ? modes : samples;
    if (mode == DL_FOURIER_R2C && r->rank == DL_MAX_RANK)
        return dl_fault(fault, 0, "rank_mismatch", "fourier's result would have %d axes",
                        DL_MAX_RANK + 1);
    if (mode == DL_FOURIER_R2C) dl_type_push(r, "Z", 2);
    if (mode == DL_FOURIER_C2R) r->rank--;
    return true;
}

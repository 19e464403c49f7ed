/* The attributes of a Fourier transform and of its adjoint, for those who build nodes. */
#include "ir/builder.h"
#include "ir/fourier.h"

void dl_fourier_attrs(const dl_fourier_options *o, dl_attr attrs[DL_FOURIER_ATTRS]) {
    int i = 0;
    attrs[i++] = dl_attr_name(DL_ATTR_axis, o->axis);
    attrs[i++] = dl_attr_ints(DL_ATTR_size, 1, &o->size);
    attrs[i++] = dl_attr_int(DL_ATTR_start, -o->negative);
    attrs[i++] = dl_attr_int(DL_ATTR_stop, o->stop);
    attrs[i++] = dl_attr_float(DL_ATTR_value, o->scale);
    attrs[i++] = dl_attr_name(DL_ATTR_mode, dl_fourier_modes[o->mode]);
    attrs[i++] = dl_attr_int(DL_ATTR_twice, o->twice);
}

void dl_fourier_adjoint(const dl_node *n, dl_attr attrs[DL_FOURIER_ATTRS]) {
    static const dl_fourier_mode adjoint[] = {DL_FOURIER_C2R, DL_FOURIER_R2C, DL_FOURIER_IFFT,
                                              DL_FOURIER_FFT};
    dl_fourier f = dl_fourier_of(n);
    dl_fourier_options o = {.axis = dl_node_name(n, DL_ATTR_axis),
                            .mode = adjoint[f.mode],
                            .size = f.size,
                            .negative = f.negative,
                            .scale = f.scale,
                            .twice = f.twice};
    o.stop = dl_fourier_makes_modes(f.mode) ? f.samples : f.modes - f.negative;
    dl_fourier_attrs(&o, attrs);
}

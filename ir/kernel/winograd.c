#include "ir/kernel/winograd.h"

#include "ir/base/counts.h"

const char dl_winograd_name[] = "winograd 2x2", dl_direct_name[] = "direct";

static const dl_kinstr *anchor_of(const dl_kernel *k) {
    int anchor = dl_kernel_anchor(k);
    return anchor < 0 ? NULL : &k->instrs.at[anchor];
}

static bool are_floats(const dl_kernel *k, const dl_kinstr *c) {
    bool all = c->type == DL_F32;
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < c->nparts[side]; i++)
            all &= k->params.at[c->parts[side][i]].type.dtype == DL_F32;
    return all;
}

bool dl_winograd_mirrors(const dl_relation *r) {
    return r->axis[r->window[2].in].at[DL_RESULT_PLACE] >= 0;
}

dl_conv_sizes dl_winograd_sizes(const dl_relation *r) {
    const dl_conv_sizes s = dl_relation_sizes(r);
    dl_conv_sizes view = s;
    if (!dl_winograd_mirrors(r)) return view;
    view.c = s.o, view.o = s.c;
    for (int i = 0; i < 3; i++) {
        int64_t reach = s.dilation[i] * (s.tap[i] - 1);
        view.in[i] = s.out[i], view.out[i] = s.in[i];
        view.pad_lo[i] = reach - s.pad_lo[i], view.pad_hi[i] = reach - s.pad_hi[i];
    }
    return view;
}

bool dl_winograd_suits(const dl_kernel *k) {
    const dl_kinstr *c = anchor_of(k);
    if (!c || !dl_op_slides(c->op) || c->windows.groups > 1 || c->tf32 || !are_floats(k, c))
        return false;
    const dl_relation r = dl_kernel_relation(k, c);
    const dl_conv_sizes s = dl_relation_sizes(&r);
    for (int i = 1; i < 3; i++)
        if (s.tap[i] != 3 || s.stride[i] != 1 || s.dilation[i] != 1) return false;
    return s.stride[0] == 1 || !dl_winograd_mirrors(&r);
}

bool dl_winograd_named(const dl_kernel *k) {
    return k->schedule.variant && strcmp(k->schedule.variant, dl_winograd_name) == 0;
}

int64_t dl_winograd_tiles(const dl_kernel *k) {
    const dl_relation r = dl_kernel_relation(k, anchor_of(k));
    const dl_conv_sizes s = dl_winograd_sizes(&r);
    return s.samples * s.out[0] * dl_ceil_div(s.out[1], 2) * dl_ceil_div(s.out[2], 2);
}

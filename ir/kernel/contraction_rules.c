#include "ir/kernel/contraction_rules.h"

static dl_layout_need layout_needs(dl_op op, int place) {
    if (!dl_op_slides(op)) return DL_LAYOUT_STRIDED;
    return dl_op_tensor(op, place) == DL_TENSOR_W ? DL_LAYOUT_WEIGHTS : DL_LAYOUT_CL;
}

/* The axes that are kept: none at all or, of an image, its channels. */
static bool epilogue_takes(dl_op op, dl_op reduction, dl_dtype type, unsigned kept) {
    enum { CHANNELS = 1 << 1 };
    if (reduction != DL_OP_sum || !dl_dtype_is_float(type)) return false;
    return !kept || (kept == CHANNELS && dl_op_slides(op) && !dl_op_makes_weight(op));
}

const dl_contraction_rules dl_common_contraction_rules = {.layout_needs = layout_needs,
                                                          .epilogue_takes = epilogue_takes,
                                                          .in_memory_order = dl_op_makes_weight};

/* Prints libcublasLt's answers to our declarations without a GPU, for check_cublaslt.py: a line
 * each. Descriptions are made and filled as runtime/cuda/cublaslt.c does it; then it is asked to
 * begin.
 */
#include <stdio.h>

#include "runtime/cuda/cublaslt.h"

static int bad;
static void say(const char *what, int status, int want) {
    if (status != want) printf("%s: %d\n", what, status), bad++;
}

int main(void) {
    dl_error err = {0};
    const dlr_cublaslt *l = dlr_cublaslt_load(&err);
    if (!l) return printf("%s\n", err.message), 77;
    dlr_lt_desc desc;
    dlr_lt_layout layout;
    dlr_lt_preference preference;
    dlr_lt_handle handle = NULL;
    int op = DLR_LT_OP_T, type = DLR_LT_R_16BF, epilogue = DLR_LT_EPILOGUE_RELU_BIAS;
    int32_t batch = 3;
    int64_t next = 128;
    uint64_t at = 0x1000, room = 1 << 20;
    uint32_t bytes = 64, reductions = DLR_LT_REDUCTION_COMPUTE_TYPE;
    say("a product", l->MatmulDescCreate(&desc, DLR_LT_COMPUTE_32F_TF32, DLR_LT_R_32F), 0);
    say("operand A", l->MatmulDescSetAttribute(desc, DLR_LT_DESC_TRANSA, &op, sizeof op), 0);
    say("operand B", l->MatmulDescSetAttribute(desc, DLR_LT_DESC_TRANSB, &op, sizeof op), 0);
    say("epilogue",
        l->MatmulDescSetAttribute(desc, DLR_LT_DESC_EPILOGUE, &epilogue, sizeof epilogue), 0);
    say("bias", l->MatmulDescSetAttribute(desc, DLR_LT_DESC_BIAS_POINTER, &at, sizeof at), 0);
    say("its type", l->MatmulDescSetAttribute(desc, DLR_LT_DESC_BIAS_DATA_TYPE, &type, sizeof type),
        0);
    say("of one byte", l->MatmulDescSetAttribute(desc, DLR_LT_DESC_TRANSA, &op, 1),
        DLR_LT_INVALID_VALUE);
    say("a matrix", l->MatrixLayoutCreate(&layout, DLR_LT_R_16BF, 64, 32, 64), 0);
    say("batch",
        l->MatrixLayoutSetAttribute(layout, DLR_LT_LAYOUT_BATCH_COUNT, &batch, sizeof batch), 0);
    say("its step",
        l->MatrixLayoutSetAttribute(layout, DLR_LT_LAYOUT_BATCH_OFFSET, &next, sizeof next), 0);
    say("a preference", l->MatmulPreferenceCreate(&preference), 0);
    say("room",
        l->MatmulPreferenceSetAttribute(preference, DLR_LT_PREFERENCE_WORKSPACE, &room,
                                        sizeof room),
        0);
    say("reductions",
        l->MatmulPreferenceSetAttribute(preference, DLR_LT_PREFERENCE_REDUCTIONS, &reductions,
                                        sizeof reductions),
        0);
    for (int i = 0; i < 4; i++)
        say("alignment",
            l->MatmulPreferenceSetAttribute(preference, DLR_LT_PREFERENCE_ALIGNMENT_A + i, &bytes,
                                            sizeof bytes),
            0);
    say("their ends",
        l->MatmulPreferenceDestroy(preference) | l->MatrixLayoutDestroy(layout) |
            l->MatmulDescDestroy(desc),
        0);
    int status = l->Create(&handle);
    printf("%s: %d descriptions refused; it begins: %s\n", l->path, bad,
           status ? l->GetStatusString(status) : "yes");
    return bad != 0;
}

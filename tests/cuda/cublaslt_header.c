/* The runtime's own declarations of cuBLASLt (runtime/cuda/cublaslt.h) compared with its header,
 * for check_cublaslt.py: values and places are equal, and each function takes what the runtime
 * gives it. Compiled only, never linked. */
#include <cublasLt.h>

#include "runtime/cuda/cublaslt.h"

#define EQUAL(ours, theirs) _Static_assert((long)(ours) == (long)(theirs), #ours)
EQUAL(DLR_LT_SUCCESS, CUBLAS_STATUS_SUCCESS);
EQUAL(DLR_LT_NOT_INITIALIZED, CUBLAS_STATUS_NOT_INITIALIZED);
EQUAL(DLR_LT_ALLOC_FAILED, CUBLAS_STATUS_ALLOC_FAILED);
EQUAL(DLR_LT_INVALID_VALUE, CUBLAS_STATUS_INVALID_VALUE);
EQUAL(DLR_LT_EXECUTION_FAILED, CUBLAS_STATUS_EXECUTION_FAILED);
EQUAL(DLR_LT_NOT_SUPPORTED, CUBLAS_STATUS_NOT_SUPPORTED);
EQUAL(DLR_LT_R_32F, CUDA_R_32F);
EQUAL(DLR_LT_R_16F, CUDA_R_16F);
EQUAL(DLR_LT_R_16BF, CUDA_R_16BF);
EQUAL(DLR_LT_COMPUTE_32F, CUBLAS_COMPUTE_32F);
EQUAL(DLR_LT_COMPUTE_32F_TF32, CUBLAS_COMPUTE_32F_FAST_TF32);
EQUAL(DLR_LT_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSA);
EQUAL(DLR_LT_DESC_TRANSB, CUBLASLT_MATMUL_DESC_TRANSB);
EQUAL(DLR_LT_DESC_EPILOGUE, CUBLASLT_MATMUL_DESC_EPILOGUE);
EQUAL(DLR_LT_DESC_BIAS_POINTER, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
EQUAL(DLR_LT_DESC_BIAS_DATA_TYPE, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
EQUAL(DLR_LT_OP_T, CUBLAS_OP_T);
EQUAL(0, CUBLAS_OP_N);
EQUAL(DLR_LT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_DEFAULT);
EQUAL(DLR_LT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU);
EQUAL(DLR_LT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BIAS);
EQUAL(DLR_LT_EPILOGUE_RELU_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS);
EQUAL(DLR_LT_LAYOUT_BATCH_COUNT, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
EQUAL(DLR_LT_LAYOUT_BATCH_OFFSET, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
EQUAL(DLR_LT_PREFERENCE_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
EQUAL(DLR_LT_PREFERENCE_REDUCTIONS, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
EQUAL(DLR_LT_PREFERENCE_ALIGNMENT_A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
EQUAL(DLR_LT_PREFERENCE_ALIGNMENT_A + 1, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
EQUAL(DLR_LT_PREFERENCE_ALIGNMENT_A + 2, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
EQUAL(DLR_LT_PREFERENCE_ALIGNMENT_A + 3, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
EQUAL(DLR_LT_REDUCTION_COMPUTE_TYPE, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
EQUAL(sizeof(cublasStatus_t), sizeof(int));
EQUAL(sizeof(cudaDataType_t), sizeof(int));
EQUAL(sizeof(cublasComputeType_t), sizeof(int));
EQUAL(sizeof(cublasLtEpilogue_t), sizeof(int));
EQUAL(sizeof(cublasOperation_t), sizeof(int));
EQUAL(sizeof(cublasLtMatmulDescAttributes_t), sizeof(int));
EQUAL(sizeof(cublasLtMatrixLayoutAttribute_t), sizeof(int));
EQUAL(sizeof(cublasLtMatmulPreferenceAttributes_t), sizeof(int));

EQUAL(sizeof(dlr_lt_algorithm), sizeof(cublasLtMatmulAlgo_t));
EQUAL(sizeof(dlr_lt_heuristic), sizeof(cublasLtMatmulHeuristicResult_t));
#define SAME_PLACE(ours, theirs)                                                                   \
    EQUAL(offsetof(dlr_lt_heuristic, ours), offsetof(cublasLtMatmulHeuristicResult_t, theirs))
SAME_PLACE(algorithm, algo);
SAME_PLACE(workspace, workspaceSize);
SAME_PLACE(state, state);
SAME_PLACE(waves, wavesCount);
SAME_PLACE(reserved, reserved);

/* Each function of the table as a call of cuBLASLt's with the same arguments, only handles and
 * enums renamed. */
#define DECLARE(name, result, arguments) result call_##name arguments;
DLR_CUBLASLT_FUNCTIONS(DECLARE)
#define HANDLE    ((cublasLtHandle_t)handle)
#define DESC(d)   ((cublasLtMatmulDesc_t)(d))
#define LAYOUT(l) ((cublasLtMatrixLayout_t)(l))
#define FOUR      LAYOUT(a), LAYOUT(b), LAYOUT(c), LAYOUT(d)

size_t call_GetVersion(void) { return cublasLtGetVersion(); }
const char *call_GetStatusString(int status) {
    return cublasLtGetStatusString((cublasStatus_t)status);
}
int call_Create(dlr_lt_handle *handle) { return cublasLtCreate((cublasLtHandle_t *)handle); }
int call_Destroy(dlr_lt_handle handle) { return cublasLtDestroy(HANDLE); }
int call_MatmulDescCreate(dlr_lt_desc *desc, int compute, int scale) {
    return cublasLtMatmulDescCreate((cublasLtMatmulDesc_t *)desc, (cublasComputeType_t)compute,
                                    (cudaDataType_t)scale);
}
int call_MatmulDescDestroy(dlr_lt_desc desc) { return cublasLtMatmulDescDestroy(DESC(desc)); }
int call_MatmulDescSetAttribute(dlr_lt_desc desc, int what, const void *value, size_t size) {
    return cublasLtMatmulDescSetAttribute(DESC(desc), (cublasLtMatmulDescAttributes_t)what, value,
                                          size);
}
int call_MatrixLayoutCreate(dlr_lt_layout *layout, int type, uint64_t rows, uint64_t columns,
                            int64_t lead) {
    return cublasLtMatrixLayoutCreate((cublasLtMatrixLayout_t *)layout, (cudaDataType_t)type, rows,
                                      columns, lead);
}
int call_MatrixLayoutDestroy(dlr_lt_layout layout) {
    return cublasLtMatrixLayoutDestroy(LAYOUT(layout));
}
int call_MatrixLayoutSetAttribute(dlr_lt_layout layout, int what, const void *value, size_t size) {
    return cublasLtMatrixLayoutSetAttribute(LAYOUT(layout), (cublasLtMatrixLayoutAttribute_t)what,
                                            value, size);
}
int call_MatmulPreferenceCreate(dlr_lt_preference *preference) {
    return cublasLtMatmulPreferenceCreate((cublasLtMatmulPreference_t *)preference);
}
int call_MatmulPreferenceDestroy(dlr_lt_preference preference) {
    return cublasLtMatmulPreferenceDestroy((cublasLtMatmulPreference_t)preference);
}
int call_MatmulPreferenceSetAttribute(dlr_lt_preference preference, int what, const void *value,
                                      size_t size) {
    return cublasLtMatmulPreferenceSetAttribute((cublasLtMatmulPreference_t)preference,
                                                (cublasLtMatmulPreferenceAttributes_t)what, value,
                                                size);
}
int call_MatmulAlgoGetHeuristic(dlr_lt_handle handle, dlr_lt_desc desc, dlr_lt_layout a,
                                dlr_lt_layout b, dlr_lt_layout c, dlr_lt_layout d,
                                dlr_lt_preference preference, int most, dlr_lt_heuristic *found,
                                int *n) {
    return cublasLtMatmulAlgoGetHeuristic(HANDLE, DESC(desc), FOUR,
                                          (cublasLtMatmulPreference_t)preference, most,
                                          (cublasLtMatmulHeuristicResult_t *)found, n);
}
int call_MatmulAlgoCheck(dlr_lt_handle handle, dlr_lt_desc desc, dlr_lt_layout a, dlr_lt_layout b,
                         dlr_lt_layout c, dlr_lt_layout d, const dlr_lt_algorithm *algorithm,
                         dlr_lt_heuristic *found) {
    return cublasLtMatmulAlgoCheck(HANDLE, DESC(desc), FOUR,
                                   (const cublasLtMatmulAlgo_t *)algorithm,
                                   (cublasLtMatmulHeuristicResult_t *)found);
}
int call_Matmul(dlr_lt_handle handle, dlr_lt_desc desc, const void *alpha, const void *a,
                dlr_lt_layout a_layout, const void *b, dlr_lt_layout b_layout, const void *beta,
                const void *c, dlr_lt_layout c_layout, void *d, dlr_lt_layout d_layout,
                const dlr_lt_algorithm *algorithm, void *workspace, size_t size, dlr_cu_stream s) {
    return cublasLtMatmul(HANDLE, DESC(desc), alpha, a, LAYOUT(a_layout), b, LAYOUT(b_layout), beta,
                          c, LAYOUT(c_layout), d, LAYOUT(d_layout),
                          (const cublasLtMatmulAlgo_t *)algorithm, workspace, size,
                          (cudaStream_t)s);
}

/* Finds values that are not finite: their exponent is all ones. */
#include <string.h>

#include "runtime/formats/stored_internal.h"

enum { BLOCK = 1024 };

/* Scans blocks without a branch inside, which the compiler vectorizes; then finds the value in its
 * block. */
#define SCAN(name, T, exponent)                                                                    \
    static int64_t name(const char *data, int64_t n, bool *nan) {                                  \
        for (int64_t at = 0; at < n; at += BLOCK) {                                                \
            int64_t end = n - at < BLOCK ? n : at + BLOCK;                                         \
            T any = 0, v;                                                                          \
            for (int64_t i = at; i < end; i++)                                                     \
                memcpy(&v, data + i * (int64_t)sizeof v, sizeof v),                                \
                    any |= (T)((v & (T)(exponent)) == (T)(exponent));                              \
            for (int64_t i = at; any && i < end; i++) {                                            \
                memcpy(&v, data + i * (int64_t)sizeof v, sizeof v);                                \
                if ((v & (T)(exponent)) != (T)(exponent)) continue;                                \
                *nan = (T)(v << 1) != (T)((T)(exponent) << 1);                                     \
                return i;                                                                          \
            }                                                                                      \
        }                                                                                          \
        return -1;                                                                                 \
    }
SCAN(scan_f64, uint64_t, 0x7ff0000000000000)
SCAN(scan_f32, uint32_t, 0x7f800000)
SCAN(scan_f16, uint16_t, 0x7c00)
SCAN(scan_bf16, uint16_t, 0x7f80)

int64_t dlr_st_find_not_finite(dlr_st_dtype dtype, const void *data, int64_t n, bool *nan) {
    static int64_t (*const scans[DLR_ST_N_DTYPES])(const char *, int64_t,
                                                   bool *) = {[DLR_ST_F64] = scan_f64,
                                                              [DLR_ST_F32] = scan_f32,
                                                              [DLR_ST_F16] = scan_f16,
                                                              [DLR_ST_BF16] = scan_bf16};
    return scans[dtype] ? scans[dtype](data, n, nan) : -1;
}

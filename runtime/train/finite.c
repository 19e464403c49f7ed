#include "runtime/train/finite.h"

#include <math.h>

#include "runtime/formats/log.h"

bool dlr_finite_fail(const dlr_state *at, const char *what, double loss, const char *where,
                     dl_error *err) {
    return dl_fail(
        err, DL_NUMERIC,
        "%s loss is %s at step %lld, epoch %lld: stopped; checkpoints stay as they were%s. A lower "
        "start_lr may help; or the data hold values that are not finite",
        what, isnan(loss) ? "nan" : "infinite", (long long)at->iteration, (long long)at->epoch + 1,
        where);
}

bool dlr_finite_check_found(const dlr_state *at, const char *what, const char *found, bool skipped,
                            dl_error *err) {
    if (!found) return true;
    if (skipped) return dlr_log_info("%s is skipped: %s", what, found), true;
    return dl_fail(err, DL_NUMERIC,
                   "%s of step %lld, epoch %lld: %s: stopped (DLR_DEBUG=nan); checkpoints stay as "
                   "they were",
                   what, (long long)at->iteration, (long long)at->epoch + 1, found);
}

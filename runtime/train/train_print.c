/* A line of JSON a step, to follow another program's run. */
#include <math.h>

#include "ir/base/str.h"
#include "ir/base/tags.h"
#include "runtime/checkpoint/tensors.h"
#include "runtime/formats/json.h"
#include "runtime/train/run.h"

static void put_number(dl_buf *b, const char *name, double value) {
    dlr_json_put_key(b, name);
    if (isfinite(value))
        dl_putf(b, "%.9g", value);
    else
        dl_puts(b, "null");
}

void dlr_run_print_step(const dlr_run *r, double loss) {
    const dlr_scaler *scaler = &r->steps.scaler;
    if (!dlr_is_rank0(&r->o->ranks)) return;
    dl_buf b = {0};
    dl_putf(&b, "{\"" DL_TAG_STEP "\": %lld", (long long)r->steps.position);
    put_number(&b, DL_TAG_LOSS, loss);
    if (scaler->used.type)
        dl_putf(&b, ", \"" DL_TAG_LOSS_SCALE "\": %.17g, \"" DL_TAG_SKIPPED "\": %g", scaler->last,
                dlr_scalar(r->exec, scaler->skipped));
    for (int i = 0; i < r->trained.n; i++)
        put_number(&b, r->trained.terms[i].name, dlr_scalar(r->exec, r->trained.terms[i].now));
    dl_puts(&b, "}\n");
    dl_console_puts(r->o->console, b.at);
    dl_buf_free(&b);
}

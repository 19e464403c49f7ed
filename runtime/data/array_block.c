/* Blocks of arrays: the layout of a packed block, and the error for a block with a number that does
 * not fit the wanted type. Shared by all readers of array_file.c. */
#include "runtime/data/array_format.h"

void dlr_packed_steps(int rank, const int64_t *count, size_t bytes, ptrdiff_t *step) {
    ptrdiff_t each = (ptrdiff_t)bytes;
    for (int i = rank - 1; i >= 0; i--) step[i] = each, each *= count[i];
}

bool dlr_refuse_number(const dlr_source *s, const dlr_block *block, const int64_t *bad,
                       double value, dlr_element to, dl_error *err) {
    dl_buf place = {0};
    for (int i = 0; i < s->rank; i++)
        dl_putf(&place, "%s%lld", i ? ", " : "",
                (long long)(block->start[i] + bad[i] * block->stride[i]));
    dl_fail(err, DL_INPUT, "%s [%s] is %g, which is no whole number of type %s", s->label,
            place.at ? place.at : "", value, dlr_element_name(to));
    dl_buf_free(&place);
    return false;
}

/* Blocks of arrays: the layout of a packed block, and the error for a block with a number that does
 * not fit the wanted type. Shared by all readers of array_file.c. */
#include "runtime/data/array_format.h"

void dlr_packed_steps(int rank, const int64_t *count, const int *order, size_t bytes,
                      ptrdiff_t *step) {
    ptrdiff_t each = (ptrdiff_t)bytes;
    for (int i = rank - 1; i >= 0; i--) {
        const int axis = order ? order[i] : i;
        step[axis] = each, each *= count[axis];
    }
}

bool dlr_block_is_ordered(const dlr_source *s, const dlr_block *block, const int *order) {
    ptrdiff_t wanted[DLR_ARRAY_RANK], step[DLR_ARRAY_RANK];
    dlr_packed_steps(s->rank, block->count, block->order, 1, wanted);
    dlr_packed_steps(s->rank, block->count, order, 1, step);
    for (int i = 0; i < s->rank; i++)
        if (block->count[i] > 1 && wanted[i] != step[i]) return false;
    return true;
}

dlr_element_move dlr_block_move(const dlr_source *s, const dlr_block *block, dlr_element to,
                                void *out) {
    dlr_element_move m = {.rank = s->rank, .from_type = s->type, .to = out, .to_type = to};
    memcpy(m.count, block->count, sizeof m.count);
    dlr_packed_steps(s->rank, block->count, block->order, dlr_element_bytes(to), m.to_step);
    return m;
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

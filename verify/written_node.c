/* Runs one node of a written graph by its reference; a random op has its number among those of the
 * step. Runs (written.c) and fixed branches (branches.c) compute their nodes here. */
#include "verify/parts.h"

void dl_written_meaning(const dl_written *w, const dl_node *n, double *const *data) {
    dl_reference_draw draw = w->draw;
    draw.number += (uint32_t)w->numbers[n->out[0].id];
    dl_reference_node(n, (const double *const *)data, data[n->nin], &draw);
}

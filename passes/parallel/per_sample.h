/* Losses and metrics of each sample of a batch, as if it were alone. */
#ifndef DL_PER_SAMPLE_H
#define DL_PER_SAMPLE_H
#include "ir/graph.h"

/* Makes losses and metrics measures (DL_RESULT_MEASURE), [N] each, the loss first, and drops the
 * other results. In: a graph as the front end builds it. A sum, mean or extremum over the samples
 * becomes that of a batch of one sample. False, with the graph half rewritten: the graph relates
 * samples in another way, or draws random numbers, and the batch has more than one. */
bool dl_measure_per_sample(dl_graph *g);
#endif

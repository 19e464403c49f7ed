/* A model's layers as a picture (SVG): boxes in ranks from inputs to outputs, joined by curves. */
#ifndef DL_GRAPH_PICTURE_H
#define DL_GRAPH_PICTURE_H
#include "runtime/analyze/model_layers.h"

/* Appends the SVG text. Nothing in it refers to another file. */
void dl_put_graph_picture(dl_buf *b, dl_arena *arena, const dl_model_layers *m, const char *title);
#endif

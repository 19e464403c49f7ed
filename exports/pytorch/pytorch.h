/* The format pytorch of `dlc export`: a folder with one Python file, whose last class is the
 * network, and its weights as safetensors. */
#ifndef DL_EXPORT_PYTORCH_H
#define DL_EXPORT_PYTORCH_H
#include "exports/export.h"

extern const dl_export_format dl_export_pytorch;
#endif

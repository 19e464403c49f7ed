/* The format "c": a folder with a network as freestanding C11, for Fortran, too. */
#ifndef DL_C_EXPORT_H
#define DL_C_EXPORT_H
#include "exports/export.h"

extern const dl_export_format dl_export_c;
#endif

/* Unique names, from the system's random numbers and not from a seed. */
#ifndef DL_DRAW_H
#define DL_DRAW_H
#include <stdint.h>

#include "ir/base/arena.h"

/* 64 bits of the system's, or where it has none to give, of process and clock. */
uint64_t dl_draw_bits(void);
/* Eight small letters and digits, as Weights & Biases names runs and sweeps. In the arena. */
const char *dl_draw_name(dl_arena *arena);
#endif

/* The one clock for durations: it starts anywhere and never goes back. */
#ifndef DL_CLOCK_H
#define DL_CLOCK_H
#include <stdint.h>

int64_t dl_clock_ns(void);
double dl_clock_ms(void);
double dl_clock_seconds(void);
#endif

/* Phases of the learning rate: what the passes build its formula of, and the numbers that a run
 * gives them. A phase holds from its start until the next one begins; the last one stays. */
#ifndef DL_RATE_PHASES_H
#define DL_RATE_PHASES_H

typedef enum {
#define RATE_PHASE(id, help) DL_RATE_PHASE_##id,
#include "ir/base/rate_phases.def"
    DL_N_RATE_PHASES
} dl_rate_phase_kind;

enum { DL_MOST_RATE_PHASES = 16 };

/* A number of steps or epochs: a share of the run's, plus so many. */
typedef struct {
    double share, plus;
} dl_rate_count;

/* A rate: a multiple of start_lr, which `scaling` scales; a rate that it scales; or one as it is.
 */
typedef enum { DL_RATE_OF_START, DL_RATE_SCALED, DL_RATE_PLAIN } dl_rate_unit;
typedef struct {
    double value;
    dl_rate_unit unit;
} dl_rate_level;

typedef struct {
    dl_rate_phase_kind kind;
    dl_rate_count start, length; /* cycle: length of the way up; steps: of a stair */
    dl_rate_level from, to;
    double by;   /* power: the exponent; steps, restarts: a factor; cycle: a factor each step */
    double down; /* cycle: length of the way down */
    double fade; /* cycle: a factor each cycle */
} dl_rate_phase;
#endif

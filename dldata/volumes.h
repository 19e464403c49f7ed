/* The channels of the training data: `Nbody` from the particles, `Hydro` from a simple model of the
 * gas that follows them. docs/datasets/nbody.md has all formulas; the scales below are also written
 * to the file. */
#ifndef DLDATA_VOLUMES_H
#define DLDATA_VOLUMES_H
#include "dldata/nbody.h"

enum { NBODY_CHANNELS = 4, HYDRO_CHANNELS = 5 };

/* The gas. Temperatures in K, velocities in km/s. */
#define GAS_FILTER_MPC 0.75 /* pressure smoothing, rms in Mpc/h; at least one cell */
#define GAS_T0         1e4  /* of gas at the mean density */
#define GAS_GAMMA      1.6  /* T = T0 rho^(gamma - 1) before shocks: Hui & Gnedin (1997) */
#define GAS_SHOCK_K                                                                                \
    13.4 /* 3 mu m_p / 16 k_B in K/(km/s)^2 with mu = 0.59: a strong shock's temperature / v^2 */
#define GAS_SHOCK_FILTERS 2.0 /* a shock is this many filter lengths thick */

/* How the channels are scaled. */
#define SCALE_VELOCITY     300.0 /* km/s, Nbody 1 to 3 */
#define SCALE_LOG_DENSITY  14.0  /* Hydro 0 = ln(rho) / 14, so that exp(14 x) is the density */
#define SCALE_LOG_T        2.0   /* Hydro 1 = tanh(log10(T / 10^4 K) / 2) */
#define SCALE_GAS_VELOCITY 500.0 /* km/s: Hydro 2 to 4 = tanh(v / 500) */

/* Fills nbody[4][L][L][L] and hydro[5][L][L][L] from sorted particles at scale factor 1. Errors:
 * DL_RESOURCE. */
bool volumes_make(const nbody_setup *s, const particles *ps, float *nbody, float *hydro,
                  dl_error *err);
/* One line per channel: name, formula, unit. */
extern const char *const nbody_channel_names[NBODY_CHANNELS],
    *const hydro_channel_names[HYDRO_CHANNELS];
#endif

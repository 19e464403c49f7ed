/* The expanding background and the power spectrum of its initial fluctuations: flat Lambda-CDM
 * without radiation.
 *
 * Lengths are comoving Mpc/h, wave numbers h/Mpc, times in units of 1/H0. docs/datasets/nbody.md
 * derives the formulas. */
#ifndef DLDATA_COSMOLOGY_H
#define DLDATA_COSMOLOGY_H

typedef struct {
    /* matter (all of it) and baryons, in units of the critical density today */
    double omega_m, omega_b;
    double h;           /* H0 / (100 km/s/Mpc) */
    double n_s, sigma8; /* slope of the primordial spectrum; rms of the linear field today in
                           spheres of 8 Mpc/h */
    double amplitude;   /* set by cosmology_normalise */
} cosmology;

/* Rounded values of Planck Collaboration (2020), normalised. */
cosmology cosmology_planck(void);
/* Sets the amplitude so that cosmology_sigma(c, 8) is sigma8. */
void cosmology_normalise(cosmology *c);

/* H(a)/H0 at the scale factor a (1 today). */
double cosmology_expansion(const cosmology *c, double a);
/* Linear growth D(a), 1 today: Heath (1977), by quadrature. */
double cosmology_growth(const cosmology *c, double a);
/* Growth of momentum, G(a) = a^3 E(a) dD/da: the momentum a^2 dx/dt of a particle displaced by D(a)
 * psi is G(a) psi. */
double cosmology_momentum_growth(const cosmology *c, double a);

/* Transfer function without acoustic wiggles: Eisenstein & Hu (1998), equations 26 and 28 to 31.
 * T(0) = 1. */
double cosmology_transfer(const cosmology *c, double k);
/* Linear power spectrum today, (Mpc/h)^3, at k > 0. */
double cosmology_power(const cosmology *c, double k);
/* Rms of the linear density contrast today in spheres of the given radius. */
double cosmology_sigma(const cosmology *c, double radius);
#endif

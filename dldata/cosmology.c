#include "dldata/cosmology.h"

#include <math.h>

/* Composite Simpson rule with n (even) intervals. */
static double integrate(double (*f)(const cosmology *, double x, double p), const cosmology *c,
                        double p, double from, double to, int n) {
    double width = (to - from) / n, sum = f(c, from, p) + f(c, to, p);
    for (int i = 1; i < n; i++) sum += (i % 2 ? 4 : 2) * f(c, from + i * width, p);
    return sum * width / 3;
}

cosmology cosmology_planck(void) {
    cosmology c = {.omega_m = 0.31, .omega_b = 0.049, .h = 0.677, .n_s = 0.967, .sigma8 = 0.81};
    cosmology_normalise(&c);
    return c;
}

void cosmology_normalise(cosmology *c) {
    c->amplitude = 1;
    double sigma = cosmology_sigma(c, 8);
    c->amplitude = c->sigma8 * c->sigma8 / (sigma * sigma);
}

double cosmology_expansion(const cosmology *c, double a) {
    return sqrt(c->omega_m / (a * a * a) + 1 - c->omega_m);
}

/* da / (a E)^3 with a = s^2, which makes the integrand smooth at the origin. */
static double growth_integrand(const cosmology *c, double s, double unused) {
    (void)unused;
    double a = s * s, aE = sqrt(c->omega_m / a + (1 - c->omega_m) * a * a);
    return s > 0 ? 2 * s / (aE * aE * aE) : 0;
}

static double growth_integral(const cosmology *c, double a) {
    return integrate(growth_integrand, c, 0, 0, sqrt(a), 512);
}

double cosmology_growth(const cosmology *c, double a) {
    return cosmology_expansion(c, a) * growth_integral(c, a) / growth_integral(c, 1);
}

double cosmology_momentum_growth(const cosmology *c, double a) {
    double E = cosmology_expansion(c, a);
    double slope = -1.5 * c->omega_m / (a * a * a * a * E); /* dE/da */
    double D_slope =
        (slope * growth_integral(c, a) + 1 / (a * a * a * E * E)) / growth_integral(c, 1);
    return a * a * a * E * D_slope;
}

double cosmology_transfer(const cosmology *c, double k) {
    if (k <= 0) return 1;
    double om = c->omega_m * c->h * c->h, ob = c->omega_b * c->h * c->h,
           fb = c->omega_b / c->omega_m;
    double theta = 2.7255 / 2.7; /* temperature of the microwave background */
    double sound = 44.5 * log(9.83 / om) / sqrt(1 + 10 * pow(ob, 0.75)); /* sound horizon, Mpc */
    double alpha = 1 - 0.328 * log(431 * om) * fb + 0.38 * log(22.3 * om) * fb * fb;
    double ks = 0.43 * k * c->h * sound; /* k is h/Mpc, the sound horizon Mpc */
    double gamma = c->omega_m * c->h * (alpha + (1 - alpha) / (1 + ks * ks * ks * ks));
    double q = k * theta * theta / gamma;
    double L0 = log(2 * exp(1.0) + 1.8 * q), C0 = 14.2 + 731 / (1 + 62.5 * q);
    return L0 / (L0 + C0 * q * q);
}

double cosmology_power(const cosmology *c, double k) {
    double T = cosmology_transfer(c, k);
    return c->amplitude * pow(k, c->n_s) * T * T;
}

/* d(sigma^2) / d(ln k) for a top-hat sphere. */
static double sigma_integrand(const cosmology *c, double log_k, double radius) {
    double k = exp(log_k), x = k * radius;
    double window = x < 1e-2 ? 1 - x * x / 10 : 3 * (sin(x) - x * cos(x)) / (x * x * x);
    return k * k * k * cosmology_power(c, k) * window * window / (2 * M_PI * M_PI);
}

double cosmology_sigma(const cosmology *c, double radius) {
    return sqrt(integrate(sigma_integrand, c, radius, log(1e-5), log(1e3 / radius), 20000));
}

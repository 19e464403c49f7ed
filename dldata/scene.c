#include "dldata/scene.h"

#include "runtime/base/rng.h"

#include <math.h>
#include <stdbool.h>

const char *const scene_class_names[SCENE_CLASSES] = {
    "striped_disc",    "dotted_disc",  "striped_square", "dotted_square", "striped_triangle",
    "dotted_triangle", "striped_star", "dotted_star",    "striped_ring",  "dotted_ring"};

/* The random quantities of a picture: step numbers of its stream, combined with the split. */
enum { DRAW_SCENE, DRAW_NOISE, DRAW_LABELS, DRAWS };

static dlr_rng_place place(uint64_t seed, uint32_t split, int what, uint32_t item) {
    return (dlr_rng_place){seed, DLR_STREAM_IMAGES, split * DRAWS + (uint32_t)what, item};
}

int scene_label(uint64_t seed, uint32_t split, uint32_t number) {
    int order[SCENE_CLASSES];
    dlr_rng r = dlr_rng_at(place(seed, split, DRAW_LABELS, number / SCENE_CLASSES));
    for (int i = 0; i < SCENE_CLASSES; i++) { /* Fisher-Yates, inside out */
        int j = (int)dlr_rng_below(&r, (uint32_t)i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    return order[number % SCENE_CLASSES];
}

/* ---- the parts of a scene: lengths in halves of the picture's shorter side, from its center
 * ---- */

typedef struct {
    double r, g, b;
} colour;
typedef struct {
    double x, y;
} point;

typedef enum { DISC, SQUARE, TRIANGLE, STAR, RING } shape;

typedef struct {
    shape kind;
    point at;
    double size, cosine, sine;
    colour paint, other;
} thing;

enum { LATTICE = 9, MOST_CLUTTER = 7 };

typedef struct {
    bool dotted;
    double wave, phase, lean[2], sharp; /* of the texture: wave number, and its own direction */
    thing main, clutter[MOST_CLUTTER];
    int n_clutter, n_before; /* of which so many are in front of the main shape */
    double light[3], ambient, grain, contrast, bright;
    colour ground[2];
    double lattice[LATTICE][LATTICE], noise_wave;
} scene;

static double between(dlr_rng *r, double low, double high) {
    return low + (high - low) * (double)dlr_rng_float(r);
}

static colour any_colour(dlr_rng *r) {
    colour c;
    c.r = between(r, 0.05, 0.95), c.g = between(r, 0.05, 0.95), c.b = between(r, 0.05, 0.95);
    return c;
}

/* Another colour, clearly lighter or darker, so that textures are visible. */
static colour against(dlr_rng *r, colour c) {
    double luma = 0.3 * c.r + 0.59 * c.g + 0.11 * c.b,
           want = luma > 0.5 ? luma - 0.38 : luma + 0.38;
    colour other = any_colour(r);
    double shift = want - (0.3 * other.r + 0.59 * other.g + 0.11 * other.b);
    other.r += shift, other.g += shift, other.b += shift;
    return other;
}

static thing any_thing(dlr_rng *r, shape kind, double reach_x, double reach_y, double least,
                       double most) {
    thing t = {.kind = kind};
    double turn = between(r, 0, 2 * M_PI);
    t.at.x = between(r, -reach_x, reach_x);
    t.at.y = between(r, -reach_y, reach_y);
    t.size = between(r, least, most);
    t.cosine = cos(turn), t.sine = sin(turn);
    t.paint = any_colour(r);
    t.other = against(r, t.paint);
    return t;
}

static scene make_scene(uint64_t seed, uint32_t split, uint32_t number, int label, double wide,
                        double high) {
    dlr_rng r = dlr_rng_at(place(seed, split, DRAW_SCENE, number));
    scene s = {.dotted = label % 2};
    s.main = any_thing(&r, (shape)(label / 2), wide - 0.55, high - 0.55, 0.5, 0.85);
    double lean = between(&r, 0, 2 * M_PI), height = between(&r, 0.4, 1.2),
           from = between(&r, 0, 2 * M_PI);
    s.wave = between(&r, 7, 11), s.phase = between(&r, 0, 2 * M_PI), s.sharp = between(&r, 2, 6);
    s.lean[0] = cos(lean), s.lean[1] = sin(lean);
    double length = sqrt(1 + height * height);
    s.light[0] = cos(from) / length, s.light[1] = sin(from) / length, s.light[2] = height / length;
    s.ambient = between(&r, 0.25, 0.6), s.grain = between(&r, 3, 16);
    s.contrast = between(&r, 0.6, 1.1), s.bright = between(&r, -0.12, 0.12);
    s.ground[0] = any_colour(&r), s.ground[1] = any_colour(&r),
    s.noise_wave = between(&r, 0.8, 3.2);
    for (int i = 0; i < LATTICE * LATTICE; i++)
        s.lattice[i / LATTICE][i % LATTICE] = between(&r, 0, 1);
    s.n_clutter = 2 + (int)dlr_rng_below(&r, MOST_CLUTTER - 1);
    s.n_before = (int)dlr_rng_below(&r, 3);
    if (s.n_before > s.n_clutter) s.n_before = s.n_clutter;
    for (int i = 0; i < s.n_clutter; i++) {
        shape kind = (shape)dlr_rng_below(&r, RING + 1);
        /* small, so that it does not hide the main shape */
        bool before = i >= s.n_clutter - s.n_before;
        s.clutter[i] = any_thing(&r, kind, wide, high, 0.08, before ? 0.16 : 0.35);
    }
    return s;
}

/* ---- signed distances: negative inside, in the shape's own units ---- */

static point inside(const thing *t, double x, double y) {
    double dx = (x - t->at.x) / t->size, dy = (y - t->at.y) / t->size;
    return (point){t->cosine * dx + t->sine * dy, t->cosine * dy - t->sine * dx};
}

static double distance(shape kind, point p) {
    double radius = sqrt(p.x * p.x + p.y * p.y);
    switch (kind) {
    case DISC: return radius - 0.85;
    case SQUARE: return fmax(fabs(p.x), fabs(p.y)) - 0.75;
    case TRIANGLE: return fmax(-p.y, fmax(0.8660254 * p.x, -0.8660254 * p.x) + 0.5 * p.y) - 0.48;
    case RING: return fabs(radius - 0.62) - 0.24;
    case STAR: break;
    }
    /* The star has ten equal sectors, each between a tip (radius 1) and a notch (0.45): the line
     * through both. */
    double fifth = 2 * M_PI / 5, angle = atan2(p.y, p.x);
    angle = fabs(angle - fifth * round(angle / fifth));
    double nx = 0.45 * sin(fifth / 2), ny = 1 - 0.45 * cos(fifth / 2), n = sqrt(nx * nx + ny * ny);
    return ((radius * cos(angle) - 1) * nx + radius * sin(angle) * ny) / n;
}

static double smooth(double t) {
    t = fmin(fmax(t, 0), 1);
    return t * t * (3 - 2 * t);
}

static colour mix(colour a, colour b, double t) {
    return (colour){a.r + (b.r - a.r) * t, a.g + (b.g - a.g) * t, a.b + (b.b - a.b) * t};
}

static colour lit(colour c, double by) { return (colour){c.r * by, c.g * by, c.b * by}; }

/* ---- colours ---- */

/* Smooth noise from 0 to 1: a lattice of random values, repeated. */
static double noise(const scene *s, double x, double y) {
    double fx = floor(x), fy = floor(y), tx = smooth(x - fx), ty = smooth(y - fy);
    int i = (int)fx % LATTICE, j = (int)fy % LATTICE;
    if (i < 0) i += LATTICE;
    if (j < 0) j += LATTICE;
    int k = (i + 1) % LATTICE, l = (j + 1) % LATTICE;
    double low = s->lattice[j][i] + (s->lattice[j][k] - s->lattice[j][i]) * tx;
    double high = s->lattice[l][i] + (s->lattice[l][k] - s->lattice[l][i]) * tx;
    return low + (high - low) * ty;
}

static double texture(const scene *s, point p) {
    double along = s->wave * (s->lean[0] * p.x + s->lean[1] * p.y) + s->phase;
    double across = s->wave * (s->lean[0] * p.y - s->lean[1] * p.x);
    double wave = s->dotted ? 2 * sin(along) * sin(across) - 0.4 : sin(along);
    return 0.5 * (1 + tanh(s->sharp * wave));
}

/* Shading of a pillow: flat in the middle, falling off towards the edge, so that it follows the
 * shape. */
static double shade(const scene *s, const thing *t, point p, double d) {
    const double e = 0.02, edge = 0.3;
    double slope = fmin(fmax(1 + d / edge, 0), 1);
    double gx = (distance(t->kind, (point){p.x + e, p.y}) - d) / e;
    double gy = (distance(t->kind, (point){p.x, p.y + e}) - d) / e;
    double x = slope * (t->cosine * gx - t->sine * gy), y = slope * (t->sine * gx + t->cosine * gy);
    double n = sqrt(x * x + y * y + 1);
    double facing = (x * s->light[0] + y * s->light[1] + s->light[2]) / n;
    return s->ambient + (1.25 - s->ambient) * fmax(facing, 0);
}

static void put_thing(const scene *s, const thing *t, bool textured, double x, double y,
                      colour *c) {
    double dx = x - t->at.x, dy = y - t->at.y, reach = 1.2 * t->size + (textured ? 0.4 : 0);
    if (dx * dx + dy * dy > reach * reach) return; /* far from the shape and its shadow */
    if (textured) {
        point under = inside(t, x + 0.12 * s->light[0], y + 0.12 * s->light[1]);
        *c = lit(*c, 1 - 0.4 * smooth(0.5 - distance(t->kind, under) / 0.25));
    }
    point p = inside(t, x, y);
    double d = distance(t->kind, p);
    if (d < 0)
        *c = lit(textured ? mix(t->paint, t->other, texture(s, p)) : t->paint, shade(s, t, p, d));
}

static colour sample(const scene *s, double x, double y) {
    double level = 0.65 * noise(s, s->noise_wave * x + 4, s->noise_wave * y + 4) +
                   0.35 * noise(s, 3 * s->noise_wave * x, 3 * s->noise_wave * y);
    colour c = lit(mix(s->ground[0], s->ground[1], level),
                   0.8 + 0.2 * (s->light[0] * x + s->light[1] * y));
    int n_back = s->n_clutter - s->n_before;
    for (int i = 0; i < n_back; i++) put_thing(s, &s->clutter[i], false, x, y, &c);
    put_thing(s, &s->main, true, x, y, &c);
    for (int i = n_back; i < s->n_clutter; i++) put_thing(s, &s->clutter[i], false, x, y, &c);
    return c;
}

static unsigned char byte_of(const scene *s, double v, float grain) {
    v = 255 * (0.5 + s->bright + s->contrast * (v - 0.5)) + s->grain * (double)grain;
    return (unsigned char)(fmin(fmax(v, 0), 255) + 0.5);
}

void scene_draw(uint64_t seed, uint32_t split, uint32_t number, int width, int height,
                unsigned char *rgb) {
    enum { FINE = 2 }; /* samples a pixel, each way */
    double half = (width < height ? width : height) / 2.0, wide = width / 2.0 / half,
           high = height / 2.0 / half;
    scene s = make_scene(seed, split, number, scene_label(seed, split, number), wide, high);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            colour sum = {0, 0, 0};
            for (int k = 0; k < FINE * FINE; k++) {
                double sx = x + (k % FINE + 0.5) / FINE, sy = y + (k / FINE + 0.5) / FINE;
                colour c = sample(&s, sx / half - wide, sy / half - high);
                sum.r += c.r, sum.g += c.g, sum.b += c.b;
            }
            size_t at = ((size_t)y * (size_t)width + (size_t)x) * 3;
            float grain[3];
            dlr_normals(place(seed, split, DRAW_NOISE, number), at, 3, 0, 1, grain);
            rgb[at] = byte_of(&s, sum.r / (FINE * FINE), grain[0]);
            rgb[at + 1] = byte_of(&s, sum.g / (FINE * FINE), grain[1]);
            rgb[at + 2] = byte_of(&s, sum.b / (FINE * FINE), grain[2]);
        }
}

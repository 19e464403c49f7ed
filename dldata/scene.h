/* Labelled pictures drawn from random numbers: a lit, textured shape in clutter. The label is one
 * of five shapes in one of two textures. Colours, position, size, rotation, light, background,
 * clutter, contrast and noise are independent of it. */
#ifndef DLDATA_SCENE_H
#define DLDATA_SCENE_H
#include <stdint.h>

enum { SCENE_CLASSES = 10 };
extern const char *const scene_class_names[SCENE_CLASSES];

/* A picture is identified by seed, split (0 training, 1 validation) and number. Each block of ten
 * successive ones has all ten labels, in random order. */
int scene_label(uint64_t seed, uint32_t split, uint32_t number);
/* Draws the picture of scene_label into rgb[height][width][3]. */
void scene_draw(uint64_t seed, uint32_t split, uint32_t number, int width, int height,
                unsigned char *rgb);
#endif

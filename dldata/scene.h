/* Pictures with a label, drawn from random numbers: a lit, textured shape in clutter. The label
 * says which of five shapes in which of two textures; colours, place, size, turn, light,
 * background, clutter, contrast and noise say nothing about it. */
#ifndef DLDATA_SCENE_H
#define DLDATA_SCENE_H
#include <stdint.h>

enum { SCENE_CLASSES = 10 };
extern const char *const scene_class_names[SCENE_CLASSES];

/* Pictures are known by seed, split (0 training, 1 validation) and number; each ten that follow one
 * another have all ten labels, in an order drawn for them. */
int scene_label(uint64_t seed, uint32_t split, uint32_t number);
/* Draws the picture of scene_label into rgb[height][width][3]. */
void scene_draw(uint64_t seed, uint32_t split, uint32_t number, int width, int height,
                unsigned char *rgb);
#endif

/* For test_pictures.c's sources: a folder for files, and tests of data sets of pictures. */
#ifndef DL_PICTURE_SETS_H
#define DL_PICTURE_SETS_H
enum { SIDE = 32, PLANE = SIDE * SIDE, RECORD = 1 + 3 * PLANE };

extern char test_dir[];
const char *in_dir(const char *name);
void test_cifar(void);
void test_cifar_faults(void);
void test_folder(void);
#endif

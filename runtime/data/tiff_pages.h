/* Pages of TIFF and BigTIFF files: their directories, and their pixels. Private to array_tiff.c and
 * tiff_*.c. Source: "TIFF Revision 6.0", and its technical notes for floats and BigTIFF. */
#ifndef DLR_TIFF_PAGES_H
#define DLR_TIFF_PAGES_H
#include "ir/base/arena.h"
#include "ir/base/status.h"
#include "runtime/data/element.h"

typedef struct {
    int64_t at, n; /* where the values begin, how many there are */
    int bytes;     /* of a value */
} dlr_tiff_values;

typedef struct {
    int64_t width, height, samples, bits, format, compression, predictor, planes;
    int64_t bit_order, depth; /* 2: the lowest bit first; planes of a volume in one page */
    /* the pieces of the page: strips of `tile_height` rows, or tiles */
    int64_t tile_width, tile_height;
    bool tiled, reduced; /* reduced: a smaller version of another page */
    dlr_tiff_values offset, count;
    const char *text;    /* the description; NULL: none, or more than is read */
    const char *missing; /* GDAL's number for pixels without a value; NULL: none */
    bool metamorph;      /* planes follow the page that no directory has */
} dlr_tiff_page;

typedef struct {
    int fd;
    const char *path;
    int64_t size;
    bool big, large; /* byte order; BigTIFF */
} dlr_tiff;

/* Reads the header; *next is the place of the first directory. Errors: DL_INPUT, DL_IO. */
bool dlr_tiff_header(dlr_tiff *t, int64_t *next, dl_error *err);
/* Reads the directory at *next and moves *next to the one after it (0: none). */
bool dlr_tiff_directory(dl_arena *arena, const dlr_tiff *t, int64_t *next, dlr_tiff_page *page,
                        dl_error *err);
/* The type of its pixels; DLR_EL_NONE: not read. */
dlr_element dlr_tiff_element(const dlr_tiff_page *p);
/* Why it cannot be read, as the end of a sentence; or NULL. `only`: the file has no other page. */
const char *dlr_tiff_refuse(dl_arena *arena, const dlr_tiff_page *p, bool only);
/* Reads all its pixels in the file's byte order, [height, width, samples], or with planes
 * [samples, height, width]. Errors: DL_INPUT, DL_IO, DL_RESOURCE. */
bool dlr_tiff_pixels(const dlr_tiff *t, const dlr_tiff_page *p, void *out, dl_error *err);
/* tiff_unpack.c: unpacks a piece of at least `least` and at most `room` bytes. */
bool dlr_tiff_unpack(int64_t compression, const unsigned char *from, size_t bytes,
                     unsigned char *to, size_t room, size_t least);
/* Whether that compression is read. */
bool dlr_tiff_unpacks(int64_t compression);
#endif

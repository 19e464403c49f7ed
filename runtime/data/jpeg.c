#include "runtime/data/jpeg.h"

#include "ir/base/input.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <jerror.h>
#include <jpeglib.h>

typedef struct {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr faults;
    struct jpeg_progress_mgr progress;
    jmp_buf away;
    char message[JMSG_LENGTH_MAX];
    dl_code code;
    const char *name;
    int64_t height, width;
    bool header_alone;
    dlr_jpeg out;
} decoder;

/* ---- errors ---- */

static _Noreturn void leave(decoder *d, dl_code code) {
    d->code = code;
    longjmp(d->away, 1);
}

/* Replaces libjpeg's function, which would end the program. */
static void on_error(j_common_ptr c) {
    decoder *d = c->client_data;
    c->err->format_message(c, d->message);
    leave(d, c->err->msg_code == JERR_OUT_OF_MEMORY ? DL_RESOURCE : DL_INPUT);
}

/* Level -1 is damage that libjpeg conceals. It is an error here, unless the picture stays whole. */
static void on_message(j_common_ptr c, int level) {
    int code = c->err->msg_code;
    bool harmless = code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM ||
                    code == JWRN_JFIF_MAJOR || code == JWRN_TOO_MUCH_DATA;
    if (level < 0 && !harmless) on_error(c);
}

static void on_progress(j_common_ptr c) {
    decoder *d = c->client_data;
    if (d->jpeg.input_scan_number <= DLR_JPEG_MOST_SCANS) return;
    snprintf(d->message, sizeof d->message, "more than %d scans", DLR_JPEG_MOST_SCANS);
    leave(d, DL_INPUT);
}

/* ---- decoding ---- */

static void read_header(decoder *d, size_t n) {
    struct jpeg_decompress_struct *j = &d->jpeg;
    jpeg_read_header(j, TRUE);
    uint64_t points = (uint64_t)j->image_width * j->image_height;
    /* Every block of 64 pixels takes at least one bit. */
    if (points > DLR_JPEG_MOST_PIXELS || points / 512 > n + 1024) {
        snprintf(d->message, sizeof d->message,
                 "%u x %u points are more than are read, or than it can hold", j->image_width,
                 j->image_height);
        leave(d, DL_INPUT);
    }
}

static void choose_form(decoder *d) {
    struct jpeg_decompress_struct *j = &d->jpeg;
    bool four = j->jpeg_color_space == JCS_CMYK || j->jpeg_color_space == JCS_YCCK;
    j->out_color_space = four ? JCS_CMYK : JCS_RGB;
    j->dct_method = JDCT_ISLOW; /* gives the same bits with and without vector code */
    for (j->scale_num = 1, j->scale_denom = 8; j->scale_denom > 1; j->scale_denom /= 2) {
        jpeg_calc_output_dimensions(j);
        if (j->output_height >= d->height && j->output_width >= d->width) break;
    }
}

/* Converts a row of CMYK pixels, four bytes each, to RGB. */
static void write_row(const decoder *d, const unsigned char *row, unsigned char *rgb) {
    const struct jpeg_decompress_struct *j = &d->jpeg;
    for (JDIMENSION i = 0; i < j->output_width; i++, row += 4)
        for (int c = 0; c < 3; c++) {
            int v = row[c], black = row[3];
            if (!j->saw_Adobe_marker) v = 255 - v, black = 255 - black;
            *rgb++ = (unsigned char)((v * black + 127) / 255);
        }
}

static void decode_picture(decoder *d) {
    struct jpeg_decompress_struct *j = &d->jpeg;
    choose_form(d);
    jpeg_start_decompress(j);
    size_t stride = (size_t)j->output_width * 3;
    d->out.height = j->output_height, d->out.width = j->output_width;
    d->out.rgb = malloc(stride * j->output_height);
    if (!d->out.rgb) {
        snprintf(d->message, sizeof d->message, "no memory for %u x %u points", j->output_width,
                 j->output_height);
        leave(d, DL_RESOURCE);
    }
    JSAMPARRAY ink = NULL;
    if (j->out_color_space == JCS_CMYK)
        ink = j->mem->alloc_sarray((j_common_ptr)j, JPOOL_IMAGE, j->output_width * 4, 1);
    while (j->output_scanline < j->output_height) {
        JSAMPROW to = d->out.rgb + j->output_scanline * stride;
        jpeg_read_scanlines(j, ink ? ink : &to, 1);
        if (ink) write_row(d, ink[0], to);
    }
    jpeg_finish_decompress(j);
}

/* Functions below may leave by longjmp; `d` owns all that they have allocated. */
static bool decode(decoder *d, const unsigned char *bytes, size_t n) {
    if (setjmp(d->away)) return false;
    jpeg_create_decompress(&d->jpeg);
    jpeg_mem_src(&d->jpeg, bytes, n);
    d->jpeg.progress = &d->progress;
    read_header(d, n);
    if (!d->header_alone) decode_picture(d);
    return true;
}

static bool run(const unsigned char *bytes, size_t n, decoder *d, dl_error *err) {
    if (n == 0) return dl_fail(err, DL_INPUT, "%s is empty, and no JPEG file", d->name);
    d->jpeg.err = jpeg_std_error(&d->faults);
    d->jpeg.client_data = d;
    d->faults.error_exit = on_error, d->faults.emit_message = on_message;
    d->progress.progress_monitor = on_progress;
    bool ok = decode(d, bytes, n);
    jpeg_destroy_decompress(&d->jpeg);
    if (ok) return true;
    free(d->out.rgb);
    return dl_fail(err, d->code, "%s: not a JPEG file that can be read: %s", d->name, d->message);
}

bool dlr_jpeg_decode(const unsigned char *bytes, size_t n, const char *name, int64_t height,
                     int64_t width, dlr_jpeg *out, dl_error *err) {
    decoder d = {.name = name, .height = height, .width = width};
    if (!run(bytes, n, &d, err)) return false;
    *out = d.out;
    return true;
}

/* ---- files ---- */

static bool read_bytes(const char *path, int fd, off_t size, unsigned char **bytes, size_t *n,
                       dl_error *err) {
    if (size > DLR_JPEG_MOST_BYTES)
        return dl_fail(err, DL_INPUT, "%s is %lld bytes; a picture has %d at most", path,
                       (long long)size, DLR_JPEG_MOST_BYTES);
    *n = (size_t)size;
    *bytes = malloc(*n + 1);
    if (!*bytes) return dl_fail(err, DL_RESOURCE, "no memory for %s", path);
    return dl_read_at(fd, path, *bytes, *n, 0, err);
}

static bool run_file(const char *path, decoder *d, dl_error *err) {
    unsigned char *bytes = NULL;
    size_t n = 0;
    struct stat st;
    int fd = dl_file_open_stat(path, &st, err);
    if (fd < 0) return false;
    d->name = path;
    bool ok = read_bytes(path, fd, st.st_size, &bytes, &n, err);
    close(fd);
    ok = ok && run(bytes, n, d, err);
    free(bytes);
    return ok;
}

bool dlr_jpeg_read(const char *path, int64_t height, int64_t width, dlr_jpeg *out, dl_error *err) {
    decoder d = {.height = height, .width = width};
    if (!run_file(path, &d, err)) return false;
    *out = d.out;
    return true;
}

bool dlr_jpeg_check(const char *path, dl_error *err) {
    decoder d = {.header_alone = true};
    return run_file(path, &d, err);
}

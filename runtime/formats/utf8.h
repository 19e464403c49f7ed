/* Writing UTF-8; ir/base/utf8.h reads it. */
#ifndef DLR_UTF8_H
#define DLR_UTF8_H

/* Writes a valid code point (1 to 4 bytes, returned). */
int dlr_utf8_encode(unsigned code, char *out);
#endif

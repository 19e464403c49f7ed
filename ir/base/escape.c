#include "ir/base/escape.h"

#include <stdio.h>
#include <string.h>

#include "ir/base/utf8.h"

/* `special` characters become a backslash and their `letter`; `barred` characters, and those that
 * no syntax takes, become `escape`. */
static const struct {
    const char *special, *letter, *barred, *escape;
    bool by_code;  /* the escape is of a code point, not of each byte */
    bool replaces; /* what no syntax takes has no escape here either: it becomes U+FFFD */
} places[DL_NPLACES] = {
    [DL_IN_COMMENT] = {"", "", "*?\\", "\\x%02X", false, false},
    [DL_IN_LITERAL] = {"", "", "\"?\\", "\\%03o", false, false},
    [DL_IN_IR] = {"\"\\", "\"\\", "", "\\x%02X", false, false},
    [DL_IN_JSON] = {"\"\\\b\f\n\r\t", "\"\\bfnrt", "", "\\u%04x", true, false},
    [DL_IN_LINE] = {"", "", "", "\\x%02X", false, false},
    [DL_IN_XML] = {"", "", "&<>\"'", "&#%u;", true, true},
};

static unsigned code_of(const char *s, int n) {
    unsigned code = (unsigned char)*s & (n == 1 ? 0x7Fu : 0x7Fu >> n);
    for (int i = 1; i < n; i++) code = code << 6 | ((unsigned char)s[i] & 0x3F);
    return code;
}

/* Control characters (ISO 2022's second set is acted on by terminals, too), marks of direction,
 * line ends and characters without width. */
static bool is_invisible(unsigned c) {
    static const unsigned ranges[][2] = {{0, 0x1F},        {0x7F, 0x9F},     {0x61C, 0x61C},
                                         {0x200B, 0x200F}, {0x2028, 0x202E}, {0x2060, 0x206F},
                                         {0xFEFF, 0xFEFF}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (c >= ranges[i][0] && c <= ranges[i][1]) return true;
    return false;
}

int dl_foreign_piece(dl_place place, const char *s, size_t left, char piece[DL_PIECE]) {
    int n = dl_utf8_length(s, left);
    const char *special = *s ? strchr(places[place].special, *s) : NULL;
    bool barred = *s && strchr(places[place].barred, *s);
    *piece = 0;
    if (special)
        return snprintf(piece, DL_PIECE, "\\%c",
                        places[place].letter[special - places[place].special]),
               1;
    if (n && !barred && (!is_invisible(code_of(s, n)) || (place == DL_IN_LINE && *s == '\t'))) {
        memcpy(piece, s, (size_t)n);
        piece[n] = 0;
        return n;
    }
    if (places[place].by_code) {
        bool has_escape = n && (barred || !places[place].replaces);
        snprintf(piece, DL_PIECE, has_escape ? places[place].escape : "\xEF\xBF\xBD",
                 n ? code_of(s, n) : 0);
        return n ? n : 1;
    }
    for (int i = 0, at = 0; i < (n ? n : 1); i++)
        at += snprintf(piece + at, (size_t)(DL_PIECE - at), places[place].escape,
                       (unsigned char)s[i]);
    return n ? n : 1;
}

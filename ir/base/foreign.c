#include "ir/base/foreign.h"

void dl_put_foreign(dl_buf *out, dl_place place, const char *s) {
    char piece[DL_PIECE];
    for (size_t left = strlen(s); left;) {
        int n = dl_foreign_piece(place, s, left, piece);
        dl_puts(out, piece);
        s += n, left -= (size_t)n;
    }
}

const char *dl_shown(dl_arena *arena, const char *s) {
    dl_buf b = {0};
    dl_put_foreign(&b, DL_IN_LINE, s);
    const char *shown = dl_strndup(arena, b.at ? b.at : "", b.n);
    dl_buf_free(&b);
    return shown;
}

void dl_put_shell_word(dl_buf *out, const char *s) {
    if (*s && !strpbrk(s, " \t\n\"'\\$`*?[]{}()<>|&;#~!")) {
        dl_puts(out, s);
        return;
    }
    dl_puts(out, "'");
    for (; *s; s++) {
        if (*s == '\'')
            dl_puts(out, "'\\''");
        else
            dl_putn(out, s, 1);
    }
    dl_puts(out, "'");
}

bool dl_is_c_name(const char *s) {
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
    return n > 0 && !s[n] && !(*s >= '0' && *s <= '9');
}

#include "runtime/lsp/wire.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

enum { MOST_BYTES = 64 << 20, MOST_HEADER = 4096 };

/* The next byte, or -1 at the end; -2 with an error. */
static int next_byte(dl_lsp_wire *w, dl_error *why) {
    if (w->at == w->n) {
        ssize_t n;
        do n = read(w->fd, w->room, sizeof w->room);
        while (n < 0 && errno == EINTR);
        if (n < 0) return dl_fail_errno(why, DL_IO, "cannot read from the editor"), -2;
        w->at = 0, w->n = (size_t)n;
        if (n == 0) return -1;
    }
    return (unsigned char)w->room[w->at++];
}

/* A line of the header without its end; -1: the stream ends before it, -2: an error. */
static int read_line(dl_lsp_wire *w, dl_buf *line, dl_error *why) {
    line->n = 0, dl_puts(line, "");
    for (int c; (c = next_byte(w, why)) != '\n';) {
        if (c < 0)
            return c == -1 && line->n ? dl_fail(why, DL_INPUT, "a header ends early"), -2 : c;
        if (line->n > MOST_HEADER) return dl_fail(why, DL_INPUT, "a header is too long"), -2;
        dl_putn(line, (char[]){(char)c}, 1);
    }
    if (line->n && line->at[line->n - 1] == '\r') line->at[--line->n] = 0;
    return 0;
}

/* The length that the header states. */
static dl_lsp_read read_header(dl_lsp_wire *w, dl_buf *line, long long *length, dl_error *why) {
    static const char key[] = "content-length:";
    *length = -1;
    for (bool first = true;; first = false) {
        int got = read_line(w, line, why);
        if (got == -1 && first) return DL_LSP_END;
        if (got == -1) dl_fail(why, DL_INPUT, "a header ends early");
        if (got < 0) return DL_LSP_BROKEN;
        if (!line->n) break;
        if (strncasecmp(line->at, key, sizeof key - 1) == 0)
            *length = strtoll(line->at + sizeof key - 1, NULL, 10);
    }
    if (*length >= 0 && *length <= MOST_BYTES) return DL_LSP_MESSAGE;
    dl_fail(why, DL_INPUT, "a message has no Content-Length from 0 to %d", MOST_BYTES);
    return DL_LSP_BROKEN;
}

dl_lsp_read dl_lsp_read_message(dl_lsp_wire *w, dl_arena *arena, const dlr_json **message,
                                dl_error *why) {
    static const dlr_json_limits limits = {.depth = 64, .values = 1 << 20};
    dl_buf text = {0};
    long long length;
    dl_lsp_read got = read_header(w, &text, &length, why);
    text.n = 0;
    for (long long i = 0; got == DL_LSP_MESSAGE && i < length; i++) {
        int c = next_byte(w, why);
        if (c >= 0) {
            dl_putn(&text, (char[]){(char)c}, 1);
            continue;
        }
        if (c == -1) dl_fail(why, DL_INPUT, "a message ends early");
        got = DL_LSP_BROKEN;
    }
    if (got == DL_LSP_MESSAGE)
        *message = dlr_json_parse(arena, text.n ? text.at : "", text.n, limits, "message", why);
    dl_buf_free(&text);
    return got;
}

void dl_lsp_write(const dl_lsp_wire *w, const dl_buf *json) {
    dl_buf b = {0};
    dl_putf(&b, "Content-Length: %zu\r\n\r\n%s", json->n, json->at);
    dl_console_puts(w->out, b.at);
    dl_buf_free(&b);
}

static void put_id(dl_buf *b, const dlr_json *id) {
    dl_puts(b, "{\"jsonrpc\": \"2.0\", \"id\": ");
    if (id)
        dlr_json_put(b, id);
    else
        dl_puts(b, "null");
}

void dl_lsp_answer(const dl_lsp_wire *w, const dlr_json *id, const char *result) {
    dl_buf b = {0};
    put_id(&b, id);
    dl_puts(&b, ", \"result\": "), dl_puts(&b, result), dl_puts(&b, "}");
    dl_lsp_write(w, &b);
    dl_buf_free(&b);
}

void dl_lsp_refuse(const dl_lsp_wire *w, const dlr_json *id, int code, const char *message) {
    dl_buf b = {0};
    put_id(&b, id);
    dl_putf(&b, ", \"error\": {\"code\": %d, \"message\": ", code);
    dlr_json_put_string(&b, message);
    dl_puts(&b, "}}");
    dl_lsp_write(w, &b);
    dl_buf_free(&b);
}

/* Messages of the protocol: JSON after a header with its length. */
#ifndef DL_LSP_WIRE_H
#define DL_LSP_WIRE_H
#include "ir/base/console.h"
#include "runtime/formats/json.h"

typedef struct {
    int fd;
    const dl_console *out;
    char room[1 << 16];
    size_t at, n; /* bytes of room that are read, and not yet used */
} dl_lsp_wire;

typedef enum { DL_LSP_MESSAGE, DL_LSP_END, DL_LSP_BROKEN } dl_lsp_read;

/* Reads the next message; *message is NULL where its body is no JSON, which *why says. END: the
 * editor has closed the stream between two messages. BROKEN: the stream is no sequence of messages;
 * errors (DL_INPUT, DL_IO) in *why. */
dl_lsp_read dl_lsp_read_message(dl_lsp_wire *w, dl_arena *arena, const dlr_json **message,
                                dl_error *why);
/* Writes a message: the text of its JSON. */
void dl_lsp_write(const dl_lsp_wire *w, const dl_buf *json);
/* Writes the answer to the request of this id: `result` is JSON. */
void dl_lsp_answer(const dl_lsp_wire *w, const dlr_json *id, const char *result);
/* Writes an error in the place of an answer; the codes are JSON-RPC's. */
void dl_lsp_refuse(const dl_lsp_wire *w, const dlr_json *id, int code, const char *message);
enum {
    DL_LSP_PARSE_ERROR = -32700,
    DL_LSP_INVALID_REQUEST = -32600,
    DL_LSP_NO_METHOD = -32601,
    DL_LSP_INVALID_PARAMS = -32602,
    DL_LSP_FAILED = -32803,
};
#endif

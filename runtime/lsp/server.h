/* The server's side of the protocol: its state, and a table of methods. */
#ifndef DL_LSP_SERVER_H
#define DL_LSP_SERVER_H
#include "runtime/lsp/document.h"
#include "runtime/lsp/wire.h"

typedef struct {
    dl_arena *arena;
    dl_lsp_wire wire;
    const dl_target *target; /* that models are checked for when they are saved */
    DL_ARRAY(dl_lsp_document *) open;
    bool initialized, shut_down, exited;
} dl_lsp_server;

/* Takes a message: answers a request, heeds a notification. */
void dl_lsp_take(dl_lsp_server *s, const dlr_json *message);
void dl_lsp_close(dl_lsp_server *s);
#endif

#include "runtime/lsp/server.h"

#include "runtime/lsp/answers.h"

static const char capabilities[] =
    "{\"capabilities\": {\"textDocumentSync\": {\"openClose\": true, \"change\": 1, \"save\": "
    "true}, \"hoverProvider\": true, \"completionProvider\": {\"triggerCharacters\": [\">\", "
    "\"(\"]}, \"definitionProvider\": true, \"referencesProvider\": true, \"renameProvider\": "
    "{\"prepareProvider\": true}, \"documentSymbolProvider\": true, "
    "\"documentFormattingProvider\": true}, \"serverInfo\": {\"name\": \"dlc\"}}";

/* ---- documents ---- */

static const char *text_of(const dlr_json *object, const char *key) {
    const dlr_json *v = dlr_json_get(object, key);
    return v && v->kind == DLR_JSON_STRING ? v->string : NULL;
}

/* The open document of a request; *index -1, NULL: none. */
static dl_lsp_document *document_of(const dl_lsp_server *s, const dlr_json *params, int *index) {
    const char *uri = text_of(dlr_json_get(params, "textDocument"), "uri");
    for (*index = s->open.n - 1; *index >= 0; --*index)
        if (uri && strcmp(s->open.at[*index]->uri, uri) == 0) return s->open.at[*index];
    return NULL;
}

static void publish(const dl_lsp_server *s, const char *uri, const dl_lsp_document *d) {
    dl_buf b = {0};
    dl_puts(&b, "{\"jsonrpc\": \"2.0\", \"method\": \"textDocument/publishDiagnostics\", "
                "\"params\": {\"uri\": ");
    dlr_json_put_string(&b, uri), dl_puts(&b, ", \"diagnostics\": ");
    if (d)
        dl_lsp_put_diagnostics(&b, d);
    else
        dl_puts(&b, "[]");
    dl_puts(&b, "}}");
    dl_lsp_write(&s->wire, &b);
    dl_buf_free(&b);
}

/* The document has this text now. */
static void set_text(dl_lsp_server *s, const char *uri, const char *text, int index,
                     const dl_target *target) {
    dl_lsp_document *d = dl_lsp_document_open(uri, text, target);
    if (index >= 0) {
        dl_lsp_document_close(s->open.at[index]);
        s->open.at[index] = d;
    } else
        dl_push(s->arena, &s->open, d);
    publish(s, d->uri, d);
}

static void did_open(dl_lsp_server *s, const dlr_json *params) {
    const dlr_json *given = dlr_json_get(params, "textDocument");
    const char *uri = text_of(given, "uri"), *text = text_of(given, "text");
    int index;
    document_of(s, params, &index);
    if (uri && text) set_text(s, uri, text, index, NULL);
}

/* The whole text, as the server asked for: the last change holds. */
static void did_change(dl_lsp_server *s, const dlr_json *params) {
    int index;
    const dl_lsp_document *d = document_of(s, params, &index);
    const dlr_json *changes = dlr_json_get(params, "contentChanges");
    if (!d || !changes || changes->kind != DLR_JSON_ARRAY || !changes->n) return;
    const char *text = text_of(&changes->items[changes->n - 1], "text");
    if (text) set_text(s, d->uri, text, index, NULL);
}

static void did_save(dl_lsp_server *s, const dlr_json *params) {
    int index;
    const dl_lsp_document *d = document_of(s, params, &index);
    if (d) set_text(s, d->uri, d->source->text, index, s->target);
}

static void did_close(dl_lsp_server *s, const dlr_json *params) {
    int index;
    dl_lsp_document *d = document_of(s, params, &index);
    if (!d) return;
    publish(s, d->uri, NULL);
    dl_lsp_document_close(d);
    s->open.at[index] = s->open.at[--s->open.n];
}

static void do_exit(dl_lsp_server *s, const dlr_json *params) { (void)params, s->exited = true; }

/* ---- requests ---- */

static bool rename_to(dl_buf *b, const dl_lsp_document *d, uint32_t at, const dlr_json *params,
                      dl_error *err) {
    const char *name = text_of(params, "newName");
    return name ? dl_lsp_rename(b, d, at, name, err) : dl_fail(err, DL_INPUT, "no new name");
}

/* An answer about a place of a document, which cannot fail. */
typedef void answer_at(dl_buf *b, const dl_lsp_document *d, uint32_t at);

static void outline_at(dl_buf *b, const dl_lsp_document *d, uint32_t at) {
    (void)at, dl_lsp_outline(b, d);
}
static void format_at(dl_buf *b, const dl_lsp_document *d, uint32_t at) {
    (void)at, dl_lsp_format(b, d);
}

static const struct {
    const char *method;
    answer_at *answer; /* NULL: rename_to */
} requests[] = {{"textDocument/hover", dl_lsp_hover},
                {"textDocument/completion", dl_lsp_complete},
                {"textDocument/definition", dl_lsp_define},
                {"textDocument/references", dl_lsp_refer},
                {"textDocument/prepareRename", dl_lsp_prepare_rename},
                {"textDocument/rename", NULL},
                {"textDocument/documentSymbol", outline_at},
                {"textDocument/formatting", format_at}};

static const struct {
    const char *method;
    void (*heed)(dl_lsp_server *s, const dlr_json *params);
} notifications[] = {{"textDocument/didOpen", did_open},
                     {"textDocument/didChange", did_change},
                     {"textDocument/didSave", did_save},
                     {"textDocument/didClose", did_close},
                     {"exit", do_exit}};

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static void answer(dl_lsp_server *s, const dlr_json *id, int which, const dlr_json *params) {
    int index;
    const dl_lsp_document *d = document_of(s, params, &index);
    if (!d) {
        dl_lsp_refuse(&s->wire, id, DL_LSP_INVALID_PARAMS, "this document is not open");
        return;
    }
    uint32_t at = dl_lsp_byte(d->source, dlr_json_get(params, "position"));
    dl_buf b = {0};
    dl_error err = {0};
    bool ok = true;
    if (requests[which].answer)
        requests[which].answer(&b, d, at);
    else
        ok = rename_to(&b, d, at, params, &err);
    if (ok)
        dl_lsp_answer(&s->wire, id, b.at);
    else
        dl_lsp_refuse(&s->wire, id, DL_LSP_FAILED, err.message);
    dl_buf_free(&b);
}

static void request(dl_lsp_server *s, const dlr_json *id, const char *method,
                    const dlr_json *params) {
    if (s->shut_down) {
        dl_lsp_refuse(&s->wire, id, DL_LSP_INVALID_REQUEST, "the server is shut down");
    } else if (strcmp(method, "initialize") == 0) {
        s->initialized = true;
        dl_lsp_answer(&s->wire, id, capabilities);
    } else if (strcmp(method, "shutdown") == 0) {
        s->shut_down = true;
        dl_lsp_answer(&s->wire, id, "null");
    } else {
        for (int i = 0; i < COUNT(requests); i++)
            if (strcmp(requests[i].method, method) == 0) {
                answer(s, id, i, params);
                return;
            }
        dl_lsp_refuse(&s->wire, id, DL_LSP_NO_METHOD, "no such method");
    }
}

void dl_lsp_take(dl_lsp_server *s, const dlr_json *message) {
    const char *method = text_of(message, "method");
    const dlr_json *id = dlr_json_get(message, "id"), *params = dlr_json_get(message, "params");
    if (id && method) {
        request(s, id, method, params);
        return;
    }
    if (id && !method && !dlr_json_get(message, "result") && !dlr_json_get(message, "error"))
        dl_lsp_refuse(&s->wire, id, DL_LSP_INVALID_REQUEST, "a request has a method");
    for (int i = 0; method && i < COUNT(notifications); i++)
        if (strcmp(notifications[i].method, method) == 0) notifications[i].heed(s, params);
}

void dl_lsp_close(dl_lsp_server *s) {
    for (int i = 0; i < s->open.n; i++) dl_lsp_document_close(s->open.at[i]);
    s->open.n = 0;
}

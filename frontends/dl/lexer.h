/* Tokens of the scanner (lexer.l) in addition to the grammar's, and its interface. */
#ifndef DL_LEXER_H
#define DL_LEXER_H
#include "ir/base/status.h"
#include <stddef.h>

typedef enum {
    DL_RAW_SPACE = 1000,
    DL_RAW_TAB,
    DL_RAW_NEWLINE,
    DL_RAW_COMMENT,
    DL_RAW_STRAY,
    DL_RAW_BAD_NUMBER,
    DL_RAW_OPEN_STRING
} dl_raw_kind;

#ifndef YY_TYPEDEF_YY_SCANNER_T
#define YY_TYPEDEF_YY_SCANNER_T
typedef void *yyscan_t;
#endif
struct yy_buffer_state;
int dl_lex_lex_init(yyscan_t *scanner);
int dl_lex_lex_destroy(yyscan_t scanner);
struct yy_buffer_state *dl_lex__scan_bytes(const char *text, int n, yyscan_t scanner);
int dl_lex_lex(yyscan_t scanner);
int dl_lex_get_leng(yyscan_t scanner);
#endif

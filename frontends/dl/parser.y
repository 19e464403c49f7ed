/* The grammar: builds the tree of ast.h and decides nothing else. docs/reference/language.md describes it for
 * users. */
%code requires {
#include "frontends/dl/ast.h"
#define YYLLOC_DEFAULT(cur, rhs, n)                                                                          \
    ((cur) = (n) ? (dl_span){YYRHSLOC(rhs, 1).begin, YYRHSLOC(rhs, n).end}                                   \
                 : (dl_span){YYRHSLOC(rhs, 0).end, YYRHSLOC(rhs, 0).end})
}
%code {
#include <stdlib.h>

#include "frontends/dl/hints.h"
static int dl_yylex(DL_YYSTYPE *value, dl_span *where, dl_reader *p);
static void dl_yyerror(const dl_span *where, dl_reader *p, const char *message);
/* The bison stack is the only recursion; indent.c limits brackets, and this limits constructs
 * without brackets. */
#define YYMAXDEPTH 5000
#define YYMALLOC dl_malloc
#define YYFREE free
}
%define api.pure full
%define api.prefix {dl_yy}
%define api.token.prefix {T_}
%define api.location.type {dl_span}
%define parse.error custom
%define parse.lac full
%locations
%param {dl_reader *p}
%expect 0

%union {
    dl_ast *node;
    dl_ast_list list;
    const char *name;
    int64_t i;
    double f;
}

%token END 0 "the end of the file" NEWLINE "the end of the line" INDENT "an indented block"
       DEDENT "the end of the block"
%token <name> NAME "a name" STRING "a string" LABEL_TEXT "a label"
%token <i> INT "a whole number"
%token <f> FLOAT "a number"
%token MODULE "'module'" MODEL "'model'" INPUT "'input'" TARGET "'target'" PARAM "'param'" BUFFER "'buffer'" INIT "'init'"
       OUTPUT "'output'" OPTIMIZE "'optimize'" METRIC "'metric'" FIGURE "'figure'" RETURN "'return'" FOR "'for'" IN "'in'" IF "'if'"
       ELIF "'elif'" ELSE "'else'" PASS "'pass'" UNDO "'undo'" AND "'and'" OR "'or'" NOT "'not'" AS "'as'" TRUE "'true'"
       FALSE "'false'" NONE "'none'"
%token AT "'@'" LBRACE "'{'" RBRACE "'}'" PIPE "'|>'" PLUS_ASSIGN "'+='" POWER "'**'" FLOOR_DIV "'//'" EQ "'=='"
       NE "'!='" LE "'<='" GE "'>='" LT "'<'" GT "'>'" ASSIGN "'='" PLUS "'+'" MINUS "'-'" TIMES "'*'"
       DIVIDE "'/'" PERCENT "'%'" TILDE "'~'" LPAREN "'('" RPAREN "')'" LBRACKET "'['" RBRACKET "']'"
       COMMA "','" COLON "':'" DOT "'.'"

%type <node> item stmt simple compound if_tail expr pipe or and not comparison sum product unary power postfix
             atom arg subscript subscript_value slice type param tensor_param setting label_part dist
             else_tail
%type <list> items block stmts args args_opt subscripts params params_opt tensor_params tensor_params_opt settings
             names label_parts text_parts own_label optimized
%type <i> comparison_op

%start file
%%
file: items { p->file = dl_ast_new(p, DL_A_FILE, @$); p->file->body = $1; }
;
items: %empty { $$ = (dl_ast_list){0}; }
    | items item { $$ = dl_ast_push(p, $1, $2); }
;
item: MODULE NAME LPAREN params_opt RPAREN LPAREN tensor_params_opt RPAREN COLON block
        { $$ = dl_ast_named(p, DL_A_MODULE, @$, $2, @2, NULL); $$->items = $4; $$->more = $7; $$->body = $10; }
    | MODEL NAME LPAREN params_opt RPAREN COLON block
        { $$ = dl_ast_named(p, DL_A_MODEL, @$, $2, @2, NULL); $$->items = $4; $$->body = $7; }
    | stmt
;
block: simple NEWLINE { $$ = dl_ast_push(p, (dl_ast_list){0}, $1); }
    | NEWLINE INDENT stmts DEDENT { $$ = $3; }
;
stmts: stmt { $$ = dl_ast_push(p, (dl_ast_list){0}, $1); }
    | stmts stmt { $$ = dl_ast_push(p, $1, $2); }
;
stmt: simple NEWLINE
    | compound
    | error NEWLINE { yyerrok; $$ = dl_ast_bad(p, @$); }
    | error NEWLINE INDENT { yyerrok; } stmts DEDENT { $$ = dl_ast_bad(p, @$); }
;
compound: FOR NAME IN expr COLON block
        { $$ = dl_ast_named(p, DL_A_FOR, @$, $2, @2, $4); $$->body = $6; }
    | IF if_tail { $$ = $2; }
;
if_tail: expr COLON block else_tail
        { $$ = dl_ast_node(p, DL_A_IF, @$, $1, NULL, NULL); $$->body = $3;
          if ($4) $$->more = $4->body, dl_ast_deepen(p, $$, $4); }
;
else_tail: %empty { $$ = NULL; }
    | ELSE COLON block { $$ = dl_ast_new(p, DL_A_PASS, @$); $$->body = $3; }
    | ELIF if_tail
        { $$ = dl_ast_node(p, DL_A_PASS, @$, $2, NULL, NULL); $$->body = dl_ast_push(p, (dl_ast_list){0}, $2); }
;
simple: postfix ASSIGN expr { $$ = dl_ast_assign(p, @$, $1, $3); }
    | NAME COMMA names ASSIGN expr
        { dl_ast_list first = dl_ast_push(p, (dl_ast_list){0}, dl_ast_named(p, DL_A_NAME, @1, $1, @1, NULL));
          for (int i = 0; i < $3.list.n; i++) first = dl_ast_push(p, first, $3.list.at[i]);
          $$ = dl_ast_items(p, DL_A_UNPACK, @$, $5, first); }
    | NAME PLUS_ASSIGN expr { $$ = dl_ast_named(p, DL_A_AUGMENT, @$, $1, @1, $3); }
    | INPUT NAME COLON type { $$ = dl_ast_named(p, DL_A_INPUT, @$, $2, @2, $4); }
    | TARGET NAME COLON type { $$ = dl_ast_named(p, DL_A_TARGET, @$, $2, @2, $4); }
    | PARAM NAME own_label COLON type { $$ = dl_ast_own(p, DL_A_PARAMETER, @$, $2, @2, $3, $5); }
    | PARAM NAME own_label COLON type TILDE dist
        { $$ = dl_ast_own(p, DL_A_PARAMETER, @$, $2, @2, $3, $5); $$->b = $7; $$->op = T_TILDE; }
    | PARAM NAME own_label COLON type ASSIGN expr
        { $$ = dl_ast_own(p, DL_A_PARAMETER, @$, $2, @2, $3, $5); $$->b = $7; $$->op = T_ASSIGN; }
    | BUFFER NAME own_label COLON type { $$ = dl_ast_own(p, DL_A_BUFFER, @$, $2, @2, $3, $5); }
    | INIT names COLON settings { $$ = dl_ast_items(p, DL_A_INIT, @$, NULL, $2); $$->more = $4; }
    | OUTPUT expr { $$ = dl_ast_node(p, DL_A_OUTPUT, @$, $2, NULL, NULL); $$->at = @1; }
    | OUTPUT expr UNDO NAME
        { $$ = dl_ast_node(p, DL_A_OUTPUT, @$, $2, dl_ast_named(p, DL_A_NAME, @4, $4, @4, NULL), NULL); $$->at = @1; }
    | OUTPUT expr UNDO NONE
        { $$ = dl_ast_node(p, DL_A_OUTPUT, @$, $2, dl_ast_new(p, DL_A_NONE, @4), NULL); $$->at = @1; }
    | OPTIMIZE NAME optimized COLON expr
        { $$ = dl_ast_own(p, DL_A_OPTIMIZE, @$, $2, @2, $3, $5); }
    | METRIC NAME ASSIGN expr { $$ = dl_ast_named(p, DL_A_METRIC, @$, $2, @2, $4); }
    | METRIC STRING ASSIGN expr { $$ = dl_ast_named(p, DL_A_METRIC, @$, $2, @2, $4); }
    | METRIC text_parts ASSIGN expr { $$ = dl_ast_items(p, DL_A_METRIC, @$, $4, $2); $$->at = @2; }
    | FIGURE NAME ASSIGN expr { $$ = dl_ast_named(p, DL_A_FIGURE, @$, $2, @2, $4); }
    | FIGURE STRING ASSIGN expr { $$ = dl_ast_named(p, DL_A_FIGURE, @$, $2, @2, $4); }
    | FIGURE text_parts ASSIGN expr { $$ = dl_ast_items(p, DL_A_FIGURE, @$, $4, $2); $$->at = @2; }
    | RETURN expr { $$ = dl_ast_node(p, DL_A_RETURN, @$, $2, NULL, NULL); $$->at = @1; }
    | PASS { $$ = dl_ast_new(p, DL_A_PASS, @$); }
    | expr { $$ = dl_ast_node(p, DL_A_EXPR, @$, $1, NULL, NULL); }
;
own_label: %empty { $$ = (dl_ast_list){0}; }
    | AT label_parts { $$ = $2; }
    | LBRACE expr RBRACE /* w{i} is w @w{i} */
        { dl_ast *name = dl_ast_named(p, DL_A_STR, @0, $<name>0, @0, NULL);
          $$ = dl_ast_push(p, dl_ast_push(p, (dl_ast_list){0}, name), $2); }
;
optimized: %empty { $$ = (dl_ast_list){0}; }
    | AT label_parts { $$ = dl_ast_push(p, (dl_ast_list){0}, dl_ast_items(p, DL_A_LABEL, @$, NULL, $2)); }
    | optimized COMMA AT label_parts { $$ = dl_ast_push(p, $1, dl_ast_items(p, DL_A_LABEL, @4, NULL, $4)); }
;
names: NAME { $$ = dl_ast_push(p, (dl_ast_list){0}, dl_ast_named(p, DL_A_NAME, @1, $1, @1, NULL)); }
    | names COMMA NAME { $$ = dl_ast_push(p, $1, dl_ast_named(p, DL_A_NAME, @3, $3, @3, NULL)); }
;
settings: setting { $$ = dl_ast_push(p, (dl_ast_list){0}, $1); }
    | settings COMMA setting { $$ = dl_ast_push(p, $1, $3); }
;
setting: NAME TILDE dist { $$ = dl_ast_named(p, DL_A_SETTING, @$, $1, @1, $3); $$->op = T_TILDE; }
    | NAME ASSIGN expr { $$ = dl_ast_named(p, DL_A_SETTING, @$, $1, @1, $3); $$->op = T_ASSIGN; }
;
dist: postfix
;
type: NAME LBRACKET args_opt RBRACKET { $$ = dl_ast_items(p, DL_A_TYPE, @$, NULL, $3); $$->name = $1; $$->at = @1; }
    | LBRACKET args_opt RBRACKET { $$ = dl_ast_items(p, DL_A_TYPE, @$, NULL, $2); $$->at = @1; }
    | NAME { $$ = dl_ast_named(p, DL_A_TYPE, @$, $1, @1, NULL); $$->op = 1; }
;
params_opt: %empty { $$ = (dl_ast_list){0}; } | params | params COMMA ;
params: param { $$ = dl_ast_push(p, (dl_ast_list){0}, $1); }
    | params COMMA param { $$ = dl_ast_push(p, $1, $3); }
;
param: NAME { $$ = dl_ast_named(p, DL_A_PARAM, @$, $1, @1, NULL); }
    | NAME ASSIGN expr { $$ = dl_ast_named(p, DL_A_PARAM, @$, $1, @1, $3); }
;
tensor_params_opt: %empty { $$ = (dl_ast_list){0}; } | tensor_params | tensor_params COMMA ;
tensor_params: tensor_param { $$ = dl_ast_push(p, (dl_ast_list){0}, $1); }
    | tensor_params COMMA tensor_param { $$ = dl_ast_push(p, $1, $3); }
;
tensor_param: NAME { $$ = dl_ast_named(p, DL_A_PARAM, @$, $1, @1, NULL); }
    | NAME COLON type { $$ = dl_ast_named(p, DL_A_PARAM, @$, $1, @1, NULL); $$->b = $3; }
;

expr: pipe
    | pipe IF or ELSE expr { $$ = dl_ast_node(p, DL_A_COND, @$, $1, $3, $5); }
;
pipe: or
    | pipe PIPE postfix { $$ = dl_ast_op(p, DL_A_PIPE, @$, T_PIPE, @2, $1, $3); }
    | pipe AS LBRACKET args RBRACKET { $$ = dl_ast_items(p, DL_A_AS, @$, $1, $4); $$->at = @2; }
    | pipe AS NAME { $$ = dl_ast_named(p, DL_A_CAST, @$, $3, @3, $1); }
;
or: and
    | or OR and { $$ = dl_ast_op(p, DL_A_BINARY, @$, T_OR, @2, $1, $3); }
;
and: not
    | and AND not { $$ = dl_ast_op(p, DL_A_BINARY, @$, T_AND, @2, $1, $3); }
;
not: comparison
    | NOT not { $$ = dl_ast_op(p, DL_A_UNARY, @$, T_NOT, @1, $2, NULL); }
;
comparison: sum
    | sum comparison_op sum { $$ = dl_ast_op(p, DL_A_BINARY, @$, (int)$2, @2, $1, $3); }
;
comparison_op: EQ { $$ = T_EQ; } | NE { $$ = T_NE; } | LT { $$ = T_LT; } | LE { $$ = T_LE; }
    | GT { $$ = T_GT; } | GE { $$ = T_GE; }
;
sum: product
    | sum PLUS product { $$ = dl_ast_op(p, DL_A_BINARY, @$, T_PLUS, @2, $1, $3); }
    | sum MINUS product { $$ = dl_ast_op(p, DL_A_BINARY, @$, T_MINUS, @2, $1, $3); }
;
product: unary
    | product TIMES unary { $$ = dl_ast_op(p, DL_A_BINARY, @$, T_TIMES, @2, $1, $3); }
    | product DIVIDE unary { $$ = dl_ast_op(p, DL_A_BINARY, @$, T_DIVIDE, @2, $1, $3); }
    | product FLOOR_DIV unary { $$ = dl_ast_op(p, DL_A_BINARY, @$, T_FLOOR_DIV, @2, $1, $3); }
    | product PERCENT unary { $$ = dl_ast_op(p, DL_A_BINARY, @$, T_PERCENT, @2, $1, $3); }
;
unary: power
    | MINUS unary { $$ = dl_ast_op(p, DL_A_UNARY, @$, T_MINUS, @1, $2, NULL); }
    | PLUS unary { $$ = dl_ast_op(p, DL_A_UNARY, @$, T_PLUS, @1, $2, NULL); }
;
power: postfix
    | postfix POWER unary { $$ = dl_ast_op(p, DL_A_BINARY, @$, T_POWER, @2, $1, $3); }
;
postfix: atom
    | postfix LPAREN args_opt RPAREN { $$ = dl_ast_items(p, DL_A_CALL, @$, $1, $3); $$->at = @2; }
    | postfix LBRACKET subscripts RBRACKET { $$ = dl_ast_items(p, DL_A_INDEX, @$, $1, $3); $$->at = @2; }
    | postfix DOT NAME { $$ = dl_ast_named(p, DL_A_ATTR, @$, $3, @3, $1); }
    | postfix AT label_parts { $$ = dl_ast_items(p, DL_A_LABEL, @$, $1, $3); $$->at = (dl_span){@2.begin, @3.end}; }
;
label_parts: label_part { $$ = dl_ast_push(p, (dl_ast_list){0}, $1); }
    | label_parts label_part { $$ = dl_ast_push(p, $1, $2); }
;
label_part: LABEL_TEXT { $$ = dl_ast_named(p, DL_A_STR, @$, $1, @1, NULL); }
    | LBRACE expr RBRACE { $$ = $2; }
;
text_parts: LABEL_TEXT { $$ = dl_ast_push(p, (dl_ast_list){0}, dl_ast_named(p, DL_A_STR, @$, $1, @1, NULL)); }
    | text_parts label_part { $$ = dl_ast_push(p, $1, $2); }
;
atom: NAME { $$ = dl_ast_named(p, DL_A_NAME, @$, $1, @1, NULL); }
    | INT { $$ = dl_ast_new(p, DL_A_INT, @$); $$->i = $1; }
    | FLOAT { $$ = dl_ast_new(p, DL_A_FLOAT, @$); $$->f = $1; }
    | STRING { $$ = dl_ast_named(p, DL_A_STR, @$, $1, @1, NULL); }
    | text_parts { $$ = dl_ast_items(p, DL_A_TEXT, @$, NULL, $1); }
    | TRUE { $$ = dl_ast_new(p, DL_A_BOOL, @$); $$->i = 1; }
    | FALSE { $$ = dl_ast_new(p, DL_A_BOOL, @$); }
    | NONE { $$ = dl_ast_new(p, DL_A_NONE, @$); }
    | LPAREN expr RPAREN { $$ = $2; $$->span = @$; }
    | LBRACKET args_opt RBRACKET { $$ = dl_ast_items(p, DL_A_LIST, @$, NULL, $2); }
    | LBRACKET expr FOR NAME IN or RBRACKET
        { $$ = dl_ast_named(p, DL_A_COMP, @$, $4, @4, $2); $$->b = $6; dl_ast_deepen(p, $$, $6); }
    | LBRACKET expr FOR NAME IN or IF or RBRACKET
        { $$ = dl_ast_named(p, DL_A_COMP, @$, $4, @4, $2); $$->b = $6; $$->c = $8;
          dl_ast_deepen(p, $$, $6); dl_ast_deepen(p, $$, $8); }
;
args_opt: %empty { $$ = (dl_ast_list){0}; } | args | args COMMA ;
args: arg { $$ = dl_ast_push(p, (dl_ast_list){0}, $1); }
    | args COMMA arg { $$ = dl_ast_push(p, $1, $3); }
;
arg: expr { $$ = dl_ast_named(p, DL_A_ARG, @$, NULL, @1, $1); }
    | NAME ASSIGN expr { $$ = dl_ast_named(p, DL_A_ARG, @$, $1, @1, $3); }
;
subscripts: subscript { $$ = dl_ast_push(p, (dl_ast_list){0}, $1); }
    | subscripts COMMA subscript { $$ = dl_ast_push(p, $1, $3); }
;
subscript: subscript_value { $$ = dl_ast_named(p, DL_A_ARG, @$, NULL, @1, $1); }
    | NAME ASSIGN subscript_value { $$ = dl_ast_named(p, DL_A_ARG, @$, $1, @1, $3); }
;
subscript_value: expr | slice ;
slice: COLON { $$ = dl_ast_node(p, DL_A_SLICE, @$, NULL, NULL, NULL); }
    | expr COLON { $$ = dl_ast_node(p, DL_A_SLICE, @$, $1, NULL, NULL); }
    | COLON expr { $$ = dl_ast_node(p, DL_A_SLICE, @$, NULL, $2, NULL); }
    | expr COLON expr { $$ = dl_ast_node(p, DL_A_SLICE, @$, $1, $3, NULL); }
    | COLON COLON expr { $$ = dl_ast_node(p, DL_A_SLICE, @$, NULL, NULL, $3); }
    | expr COLON COLON expr { $$ = dl_ast_node(p, DL_A_SLICE, @$, $1, NULL, $4); }
    | COLON expr COLON expr { $$ = dl_ast_node(p, DL_A_SLICE, @$, NULL, $2, $4); }
    | expr COLON expr COLON expr { $$ = dl_ast_node(p, DL_A_SLICE, @$, $1, $3, $5); }
;
%%
#include "frontends/dl/parse.inc"

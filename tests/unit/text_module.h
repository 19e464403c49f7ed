/* For test_text.c's sources: parsing, and a module with every op and kind. */
#ifndef DL_TEXT_MODULE_H
#define DL_TEXT_MODULE_H
#include "ir/text/text.h"

dl_module *parse(dl_arena *arena, const char *text, dl_error *err);
dl_type make_type(dl_dtype d, int n, const dl_axis *axes);
dl_module *make_module(dl_arena *arena);
void test_faults(void);
void test_kernel_faults(void);
#endif

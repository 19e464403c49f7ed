/* The templates' facts: the last column of ops.def's rows of class TEMPLATE, CALL(results, family,
 * variants, shard). Who wants one for each op defines DL_TEMPLATE(id, call) and CALL, and includes
 * ops.def with OP as DL_TEMPLATE_ROW: the row of a template is DL_TEMPLATE(id, CALL(...)), and
 * other rows are nothing. */
#ifndef DL_TEMPLATES_H
#define DL_TEMPLATES_H
#define DL_CLASS_ROW_ELEM(...)
#define DL_CLASS_ROW_REDUCE(...)
#define DL_CLASS_ROW_CONTRACT(...)
#define DL_CLASS_ROW_MOVE(...)
#define DL_CLASS_ROW_SOURCE(...)
#define DL_CLASS_ROW_FUSED(...)
#define DL_CLASS_ROW_COLLECTIVE(...)
#define DL_CLASS_ROW_BODY(...)
#define DL_CLASS_ROW_HIGH(...)
#define DL_CLASS_ROW_TEMPLATE(id, ...) DL_TEMPLATE(id, __VA_ARGS__)
#define DL_TEMPLATE_ROW(id, text, arity, class, infer, grad, lower, amp, facts, attrs, expr)       \
    DL_CLASS_ROW_##class(id, expr)
#endif

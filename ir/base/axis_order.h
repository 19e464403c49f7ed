/* The order of the axes of a result, made of the orders of several operands. */
#ifndef DL_AXIS_ORDER_H
#define DL_AXIS_ORDER_H

/* Orders `count` axes, at most 32. before[i] is the set of axes that stand before axis i, at first
 * none. dl_order_add adds an operand, whose n axes stand in this order: two axes that an earlier
 * operand has ordered, even by way of others, stay so. dl_order_next gives the axis that follows
 * those placed: the first by number that no axis still to come stands before. */
void dl_order_add(unsigned *before, int count, const int *axes, int n);
int dl_order_next(const unsigned *before, int count, unsigned placed);
#endif

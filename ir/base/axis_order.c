#include "ir/base/axis_order.h"

void dl_order_add(unsigned *before, int count, const int *axes, int n) {
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++) {
            int a = axes[i], b = axes[j];
            if (before[a] >> b & 1) continue; /* an earlier operand has them the other way round */
            unsigned all = before[a] | 1u << a;
            for (int k = 0; k < count; k++)
                if (k == b || before[k] >> b & 1) before[k] |= all;
        }
}

int dl_order_next(const unsigned *before, int count, unsigned placed) {
    int i = 0;
    while (i < count && (placed >> i & 1 || before[i] & ~placed)) i++;
    return i;
}

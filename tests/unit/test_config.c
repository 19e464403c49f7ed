#include "tests/check.h"
int main(void) {
    CHECK(1);
    return dl_test_end();
}

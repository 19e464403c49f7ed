/* Arenas, buffers, names, hashes. */
#include <stdlib.h>

#include "ir/base/arena.h"
#include "ir/base/hash.h"
#include "ir/base/str.h"
#include "tests/check.h"

static void test_arena(void) {
    dl_arena *a = dl_arena_new(NULL), *child = dl_arena_new(a);
    char *big = dl_alloc(a, 1 << 20), *small = dl_alloc(child, 3);
    CHECK(big[0] == 0 && big[(1 << 20) - 1] == 0 && small[0] == 0);
    CHECK(((uintptr_t)dl_alloc(a, 1) & 15) == 0);
    DL_ARRAY(int) xs = {0};
    for (int i = 0; i < 1000; i++) dl_push(a, &xs, i);
    CHECK(xs.n == 1000 && xs.at[999] == 999 && xs.at[0] == 0);
    CHECK_STR(dl_format(a, "%d-%s", 7, "x"), "7-x");
    /* A child that moves outlives its first parent; a sanitizer sees what else would. */
    dl_arena *other = dl_arena_new(NULL), *sibling = dl_arena_new(a);
    strcpy(small, "ab");
    dl_arena_move(child, other);
    dl_arena_move(sibling, NULL);
    dl_arena_free(a);
    CHECK_STR(small, "ab");
    CHECK_STR(dl_strdup(child, "more"), "more");
    dl_arena_free(sibling);
    dl_arena_free(other);
}

static void test_str(void) {
    CHECK(dl_intern("abc") == dl_intern_n("abcd", 3) && dl_intern("abc") != dl_intern("abd"));
    const char *names[] = {"short", "short_opt", "base", "num_epochs"};
    CHECK_STR(dl_nearest("shrt", names, 4), "short");
    CHECK(dl_nearest("zzzzzz", names, 4) == NULL);
    double values[] = {0.02, 1e-8, 1.0 / 3, 2e-4, -0.0, 65536, 1e300};
    for (int i = 0; i < 7; i++) {
        dl_buf b = {0};
        dl_put_double(&b, values[i]);
        CHECK(strtod(b.at, NULL) == values[i], "%s", b.at);
        dl_buf_free(&b);
    }
}

int main(void) {
    test_arena();
    test_str();
    CHECK(dl_hash("abc", 3, 0) == dl_hash("abc", 3, 0) && dl_hash("abc", 3, 0) != dl_hash("abc", 3, 1));
    return dl_test_end();
}

/* Coordinates and groups of ranks. */
#include "ir/base/str.h"
#include "ir/ranks.h"
#include "tests/check.h"

/* The groups of a name as text: "0 1|2 3". */
static const char *groups_of(const dl_ranks *r, const char *group, dl_buf *b) {
    int members[64], world = dl_ranks_world(r), n = dl_ranks_count(r, group);
    b->n = 0;
    dl_puts(b, "");
    for (int rank = 0; rank < world; rank++) {
        dl_ranks_members(r, group, rank, members);
        if (members[0] != rank) continue; /* told already, by its first member */
        dl_puts(b, b->n ? "|" : "");
        for (int i = 0; i < n; i++) dl_putf(b, "%s%d", i ? " " : "", members[i]);
    }
    return b->at;
}

static void check_groups(int world, int tp, int cp, const char *order, const char *group,
                         const char *want) {
    dl_ranks r;
    dl_error err = {0};
    dl_buf b = {0};
    CHECK(dl_ranks_of(&r, world, tp, cp, order, &err), "%s", err.message);
    const char *got = groups_of(&r, group, &b);
    CHECK(strcmp(got, want) == 0, "%d ranks, tp %d, cp %d, %s: %s is %s, not %s", world, tp, cp,
          order, group, got, want);
    dl_buf_free(&b);
}

static void check_places(const char *order) {
    dl_ranks r;
    dl_error err = {0};
    CHECK(dl_ranks_of(&r, 24, 2, 3, order, &err), "%s", err.message);
    for (int rank = 0; rank < 24; rank++) {
        int at[DL_NRANK_PARTS], members[24];
        dl_ranks_place(&r, rank, at);
        CHECK(dl_ranks_at(&r, at) == rank, "%s: rank %d", order, rank);
        for (int p = 0; p < DL_NRANK_PARTS;
             p++) { /* a rank's place in a group of one part is its coordinate */
            dl_ranks_members(&r, dl_rank_parts[p], rank, members);
            CHECK(members[at[p]] == rank, "%s: rank %d in %s", order, rank, dl_rank_parts[p]);
        }
        for (int g = 0; g < DL_NRANK_GROUPS; g++) {
            int n = dl_ranks_count(&r, dl_rank_groups[g]), own = 0;
            dl_ranks_members(&r, dl_rank_groups[g], rank, members);
            for (int i = 0; i < n; i++) own += members[i] == rank;
            for (int i = 1; i < n; i++)
                CHECK(members[i - 1] < members[i], "%s: order", dl_rank_groups[g]);
            CHECK(own == 1, "%s: rank %d in %s", order, rank, dl_rank_groups[g]);
        }
    }
}

static void check_fault(int world, int tp, int cp, const char *order, const char *word) {
    dl_ranks r;
    dl_error err = {0};
    CHECK(!dl_ranks_of(&r, world, tp, cp, order, &err), "%s is taken", order);
    CHECK(err.code == DL_USAGE && strstr(err.message, word), "'%s' lacks %s", err.message, word);
}

int main(void) {
    /* system D's own example */
    check_groups(8, 4, 1, "tp-cp-dp", "tp", "0 1 2 3|4 5 6 7");
    check_groups(8, 4, 1, "tp-cp-dp", "dp", "0 4|1 5|2 6|3 7");
    check_groups(8, 4, 1, "tp-cp-dp", "cp", "0|1|2|3|4|5|6|7");
    check_groups(8, 4, 1, "tp-cp-dp", "tp-cp", "0 1 2 3|4 5 6 7");
    check_groups(8, 4, 1, "tp-cp-dp", "dp-cp", "0 4|1 5|2 6|3 7");
    check_groups(8, 2, 2, "tp-cp-dp", "cp", "0 2|1 3|4 6|5 7");
    check_groups(8, 2, 2, "tp-cp-dp", "dp-cp", "0 2 4 6|1 3 5 7");
    check_groups(8, 2, 2, "cp-tp-dp", "tp", "0 2|1 3|4 6|5 7");
    check_groups(8, 2, 2, "dp-tp-cp", "dp", "0 1|2 3|4 5|6 7");
    check_groups(8, 2, 2, "dp-cp-tp", "tp", "0 4|1 5|2 6|3 7");
    check_groups(4, 0, 0, "tp-cp-dp", "dp", "0 1 2 3");
    static const char *const orders[] = {"tp-cp-dp", "tp-dp-cp", "cp-tp-dp",
                                         "cp-dp-tp", "dp-tp-cp", "dp-cp-tp"};
    for (int i = 0; i < 6; i++) check_places(orders[i]);
    check_fault(8, 3, 1, "tp-cp-dp", "tensor_parallel");
    check_fault(8, 2, 3, "tp-cp-dp", "context_parallel");
    check_fault(8, -1, 1, "tp-cp-dp", "tensor_parallel");
    check_fault(8, 2, 1, "tp-xp-dp", "parallel_order");
    check_fault(8, 2, 1, "tp-dp", "parallel_order");
    check_fault(8, 2, 1, "tp-tp-dp", "parallel_order");
    check_fault(8, 2, 1, "tp-cp-dp-", "parallel_order");
    check_fault(8, 2, 1, "", "parallel_order");
    dl_ranks r;
    CHECK(dl_ranks_of(&r, 8, 2, 1, "tp-cp-dp", &(dl_error){0}) && !dl_ranks_count(&r, "xp"),
          "group xp");
    return dl_test_end();
}

/* Plans of ranks that go together, and such as do not: found out before the first step. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "ir/ranks.h"
#include "runtime/comm/exchange.h"
#include "tests/check.h"

enum { RANKS = 4 };

/* One rank, in a thread: two by two, tensor and data parallel. */
typedef struct {
    dlr_comm *comm;
    int rank;
    dl_plan plan;
    bool ok;
    dl_error err;
    dl_arena *arena;
} one_rank;

/* A sum of activations, then a bucket of three gradients, of a plan that is `wrong` in one respect.
 */
typedef enum { RIGHT, SWAPPED, MOVED, RENAMED, LARGER, TURNED, SHORTER, LATER, GATHERED } wrong;

static dl_plan_collective sum_of(dl_arena *arena, const char *group, int64_t each, int n,
                                 const char *const *of) {
    dl_plan_collective c = {.op = DL_OP_all_reduce,
                            .group = group,
                            .ranks = 2,
                            .dtype = DL_F32,
                            .outer = 1,
                            .inner = 1,
                            .size = each * n,
                            .own = each * n,
                            .where = ""};
    for (int i = 0; i < n; i++) dl_push(arena, &c.members, ((dl_plan_member){of[i], i * each}));
    return c;
}

static dl_plan plan_of(dl_arena *arena, int64_t tokens, wrong how) {
    const char *one[] = {"fc2.weight"}, *three[] = {"a.weight", "b.weight", "c.weight"};
    if (how == SWAPPED) three[1] = "c.weight", three[2] = "b.weight";
    if (how == RENAMED) three[2] = "d.weight";
    dl_plan_collective sum = sum_of(arena, "tp", tokens * 16, 1, one),
                       bucket = sum_of(arena, "dp", how == LARGER ? 48 : 32, how == SHORTER ? 2 : 3,
                                       three);
    if (how == LATER) bucket.ring_step = 1;
    if (how == GATHERED) bucket.op = DL_OP_all_gather;
    if (how == MOVED) bucket.members.at[1].first += 16;
    dl_plan_program train = {.name = "train"};
    dl_push(arena, &train.collectives, how == TURNED ? bucket : sum);
    dl_push(arena, &train.collectives, how == TURNED ? sum : bucket);
    dl_plan plan = {0};
    dl_push(arena, &plan.programs, train);
    return plan;
}

static void *compare(void *of) {
    one_rank *r = of;
    dl_ranks ranks;
    dlr_group groups[2] = {{.name = "tp", .size = 2}, {.name = "dp", .size = 2}};
    int members[2];
    r->ok = dl_ranks_of(&ranks, RANKS, 2, 1, "tp-cp-dp", &r->err);
    for (int i = 0; r->ok && i < 2; i++) {
        dl_ranks_members(&ranks, groups[i].name, r->rank, members);
        groups[i].number = dlr_comm_group(r->comm, 2, members, &r->err);
        r->ok = groups[i].number >= 0;
    }
    r->ok = r->ok && dlr_exchange_agree(&r->plan, &(dlr_ranks){r->comm, 2, groups}, &r->err);
    return NULL;
}

/* All ranks' plans, that of `other` wrong; *refused: how many ranks were told. */
static void check(wrong how, int other, const int64_t tokens[RANKS], const char *words, int told) {
    dlr_comm **comms = dlr_comm_local(RANKS, true);
    one_rank of[RANKS] = {0};
    pthread_t threads[RANKS];
    int refused = 0;
    for (int r = 0; r < RANKS; r++) {
        of[r] = (one_rank){.comm = comms[r], .rank = r, .arena = dl_arena_new(NULL)};
        of[r].plan = plan_of(of[r].arena, tokens[r], r == other ? how : RIGHT);
        CHECK(pthread_create(&threads[r], NULL, compare, &of[r]) == 0, "a thread");
    }
    for (int r = 0; r < RANKS; r++) pthread_join(threads[r], NULL);
    for (int r = 0; r < RANKS; r++) {
        refused += !of[r].ok;
        CHECK(of[r].ok || (of[r].err.code == DL_INPUT && strstr(of[r].err.message, words)),
              "%d, rank %d: %s", how, r, of[r].err.message);
    }
    CHECK(refused == told, "%d: %d ranks were told, not %d", how, refused, told);
    for (int r = 0; r < RANKS; r++) dlr_comm_close(comms[r], NULL), dl_arena_free(of[r].arena);
    free(comms);
}

int main(void) {
    /* ranks 0 and 1 share samples, and 2 and 3; their tokens may be other ones than the others' */
    static const int64_t even[] = {8, 8, 8, 8}, uneven[] = {8, 8, 7, 7}, odd[] = {8, 7, 8, 8};
    check(RIGHT, 0, even, "", 0);
    check(RIGHT, 0, uneven, "", 0);
    check(RIGHT, 0, odd, "the plan of rank 1 is not that of rank 0 (1 of 2",
          2); /* who sums with whom */
    static const wrong all[] = {SWAPPED, RENAMED, TURNED, SHORTER, LATER, GATHERED};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        check(all[i], 3, even, "the plan of rank 3 is not that of rank 0 (1 of 4", 4);
    static const wrong sizes[] = {MOVED, LARGER}; /* rank 1 sums gradients with rank 3 */
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check(sizes[i], 3, even, "the plan of rank 3 is not that of rank 1 (1 of 2", 2);
    return dl_test_end();
}

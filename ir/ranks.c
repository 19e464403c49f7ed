#include "ir/ranks.h"

#include <stdint.h>
#include <string.h>

const char *const dl_rank_parts[DL_NRANK_PARTS] = {"tp", "cp", "dp"};
const char *const dl_rank_groups[DL_NRANK_GROUPS] = {"dp", "tp", "cp", "tp-cp", "dp-cp"};

/* The coordinate whose name the text begins with, or -1. */
static int find_part(const char *text, size_t n) {
    for (int i = 0; i < DL_NRANK_PARTS; i++)
        if (strlen(dl_rank_parts[i]) == n && memcmp(text, dl_rank_parts[i], n) == 0) return i;
    return -1;
}

/* Parses "tp-cp-dp": the coordinates in `out`, their number in *n. False: it is something else, or
 * has one twice. */
static bool parse_parts(const char *text, dl_rank_part out[DL_NRANK_PARTS], int *n) {
    for (*n = 0;; text++) {
        size_t length = strcspn(text, "-");
        int part = find_part(text, length);
        if (part < 0 || *n == DL_NRANK_PARTS) return false;
        for (int i = 0; i < *n; i++)
            if (out[i] == (dl_rank_part)part) return false;
        out[(*n)++] = (dl_rank_part)part;
        text += length;
        if (!*text) return true;
    }
}

bool dl_ranks_of(dl_ranks *r, int world, int tp, int cp, const char *order, dl_error *err) {
    int parts;
    *r = (dl_ranks){.size = {[DL_RANKS_TP] = tp ? tp : 1, [DL_RANKS_CP] = cp ? cp : 1}};
    if (!order || !parse_parts(order, r->order, &parts) || parts != DL_NRANK_PARTS)
        return dl_fail(
            err, DL_USAGE,
            "parallel_order: %.100s: the parts tp, cp and dp, each once, as in tp-cp-dp (the first "
            "varies fastest)",
            order ? order : "");
    if (tp < 0 || cp < 0)
        return dl_fail(err, DL_USAGE, "%s: %d ranks",
                       tp < 0 ? "tensor_parallel" : "context_parallel", tp < 0 ? tp : cp);
    int64_t one = (int64_t)r->size[DL_RANKS_TP] * r->size[DL_RANKS_CP];
    if (world < 1 || world % one)
        return dl_fail(err, DL_USAGE,
                       "tensor_parallel=%d times context_parallel=%d: %d rank%s cannot be dealt "
                       "out to samples "
                       "in groups of %lld",
                       r->size[DL_RANKS_TP], r->size[DL_RANKS_CP], world, world == 1 ? "" : "s",
                       (long long)one);
    r->size[DL_RANKS_DP] = (int)(world / one);
    return true;
}

int dl_ranks_world(const dl_ranks *r) {
    return r->size[DL_RANKS_TP] * r->size[DL_RANKS_CP] * r->size[DL_RANKS_DP];
}

void dl_ranks_place(const dl_ranks *r, int rank, int at[DL_NRANK_PARTS]) {
    for (int i = 0; i < DL_NRANK_PARTS; i++) {
        at[r->order[i]] = rank % r->size[r->order[i]];
        rank /= r->size[r->order[i]];
    }
}

int dl_ranks_at(const dl_ranks *r, const int at[DL_NRANK_PARTS]) {
    int rank = 0;
    for (int i = DL_NRANK_PARTS - 1; i >= 0; i--)
        rank = rank * r->size[r->order[i]] + at[r->order[i]];
    return rank;
}

int dl_ranks_count(const dl_ranks *r, const char *group) {
    dl_rank_part parts[DL_NRANK_PARTS];
    int n, count = 1;
    if (!parse_parts(group, parts, &n)) return 0;
    for (int i = 0; i < n; i++) count *= r->size[parts[i]];
    return count;
}

void dl_ranks_members(const dl_ranks *r, const char *group, int rank, int *members) {
    dl_rank_part parts[DL_NRANK_PARTS];
    int n, own[DL_NRANK_PARTS], at[DL_NRANK_PARTS], found = 0;
    bool free[DL_NRANK_PARTS] = {0};
    if (!parse_parts(group, parts, &n)) return;
    for (int i = 0; i < n; i++) free[parts[i]] = true;
    dl_ranks_place(r, rank, own);
    for (int other = 0; other < dl_ranks_world(r); other++) {
        bool member = true;
        dl_ranks_place(r, other, at);
        for (int p = 0; p < DL_NRANK_PARTS; p++) member = member && (free[p] || at[p] == own[p]);
        if (member) members[found++] = other;
    }
}

/* The duties of every backend of runtime/comm/comm.h: collectives of all kinds and types, in
 * groups, with pieces that differ, many at once; to the last bit what a sum in order gives. Sums
 * that MPI makes itself: to their rounding, and the same bits on all ranks.
 *
 *     comm_check self | local N | turns N | mpi N      mpi: as a rank of N that a launcher started
 *     comm_check nccl N | cuda N      likewise, over NCCL: emulated devices, or the system's (77:
 * there is none)
 *     comm_check lost 1               a rank that is lost meanwhile, on emulated devices */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/base/hash.h"
#include "runtime/base/convert.h"
#include "runtime/comm/parts.h"
#include "tests/ranks/comm_check.h"

atomic_int passed, failed;

/* ---- what is expected, made again on each rank ---- */

enum { BLOCK = 512 }; /* elements that are converted at once */

static int64_t block_of(int64_t at, int64_t n) { return n - at < BLOCK ? n - at : BLOCK; }

/* Numbers of rank `rank` in collective `salt`: of many magnitudes, so that the order of a sum
 * shows. */
static void fill(dl_dtype type, void *to, int64_t n, int rank, int salt) {
    uint64_t seed = dl_hash(&(int[]){rank, salt}, 2 * sizeof(int), 0);
    double v[BLOCK], scale = dl_dtype_is_float(type) ? 1 : 1e6;
    for (int64_t at = 0; at < n; at += BLOCK) {
        for (int64_t i = 0; i < block_of(at, n); i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            v[i] = ((double)(seed >> 40) / 0x1p24 - 0.5) * (double)(1 << (seed >> 33 & 7)) * scale;
        }
        dlr_convert(type, (char *)to + at * dl_dtype_bytes(type), DL_F64, v, block_of(at, n));
    }
}

/* The sum of n arrays in order, or their largest, as a serial loop makes it: at most BLOCK
 * elements. */
static void serial_block(dl_dtype type, bool largest, int64_t count, int n, char **from,
                         int64_t skip, char *to) {
    double exact[BLOCK] = {0}, v[BLOCK];
    float narrow[BLOCK] = {0}, f[BLOCK];
    int64_t whole[BLOCK] = {0}, w[BLOCK] = {0};
    for (int m = 0; m < n; m++) {
        dlr_convert(DL_F64, v, type, from[m] + skip, count);
        dlr_convert(DL_F32, f, type, from[m] + skip, count);
        if (!dl_dtype_is_float(type)) dlr_convert(DL_I64, w, type, from[m] + skip, count);
        for (int64_t i = 0; i < count; i++)
            if (largest)
                exact[i] = m && exact[i] > v[i] ? exact[i] : v[i],
                narrow[i] = m && narrow[i] > f[i] ? narrow[i] : f[i],
                whole[i] = m && whole[i] > w[i] ? whole[i] : w[i];
            else if (m)
                exact[i] += v[i], narrow[i] += f[i], whole[i] += w[i];
            else
                exact[i] = v[i], narrow[i] = f[i], whole[i] = w[i];
    }
    if (type == DL_F64)
        memcpy(to, exact, (size_t)count * 8);
    else if (dl_dtype_is_float(type))
        dlr_convert(type, to, DL_F32, narrow, count);
    else
        dlr_convert(type, to, DL_I64, whole, count);
}

static void serial(dl_dtype type, bool largest, int64_t count, int n, char **from, char *to) {
    int64_t e = dl_dtype_bytes(type);
    for (int64_t at = 0; at < count; at += BLOCK)
        serial_block(type, largest, block_of(at, count), n, from, at * e, to + at * e);
}

/* ---- one collective ---- */

typedef struct {
    dlr_collective c;
    int salt, n, me;
    const int *ranks;
    int64_t counts[64], all; /* elements of a block of all members */
    char *from, *to;
    int64_t ticket;
    bool by_mpi; /* MPI makes the sum itself */
} job;

static const char *const kinds[] = {"all_reduce",     "all_reduce_max", "all_gather",
                                    "reduce_scatter", "broadcast",      "shift"};

static int64_t in_of(const job *j, int m) {
    return j->c.kind == DLR_SHIFT            ? j->counts[m]
           : j->c.kind == DLR_ALL_GATHER     ? j->c.outer * j->counts[m]
           : j->c.kind == DLR_REDUCE_SCATTER ? j->c.outer * j->all
                                             : j->c.count;
}

static int64_t out_of(const job *j) {
    return j->c.kind == DLR_SHIFT            ? j->counts[(j->me + j->n - 1) % j->n]
           : j->c.kind == DLR_ALL_GATHER     ? j->c.outer * j->all
           : j->c.kind == DLR_REDUCE_SCATTER ? j->c.outer * j->counts[j->me]
                                             : j->c.count;
}

/* Elements: of the whole, or of a piece of the largest member; pieces of `spread` differ. */
static void prepare(job *j, dlr_comm *comm, dlr_collective_kind kind, int group, int n,
                    const int *ranks, dl_dtype type, int64_t count, int64_t outer, int spread,
                    bool in_place, int salt) {
    int rank = dlr_comm_world(comm).rank;
    *j = (job){.c = {.kind = kind,
                     .group = group,
                     .type = type,
                     .outer = outer,
                     .count = count,
                     .root = salt % n,
                     .what = kinds[kind]},
               .salt = salt,
               .n = n,
               .ranks = ranks,
               .me = -1};
    for (int m = 0; m < n; m++) {
        j->counts[m] = spread == 2 ? (m % 2 ? count : 0)
                       : spread    ? count - count * m / (2 * n)
                                   : count;
        j->all += j->counts[m];
        if (ranks[m] == rank) j->me = m;
    }
    if (j->me < 0) return;
    j->by_mpi = comm->sums == DLR_SUMS_MPI && kind == DLR_ALL_REDUCE && group == 0 && n > 1 &&
                (type == DL_F32 || type == DL_F64);
    int64_t e = dl_dtype_bytes(type);
    j->from = malloc((size_t)(in_of(j, j->me) * e + 1));
    j->to = in_place ? j->from : malloc((size_t)(out_of(j) * e + 1));
    fill(type, j->from, in_of(j, j->me), j->me, salt);
    j->c.from = j->from, j->c.to = j->to, j->c.counts = j->counts;
}

static char *expected(const job *j) {
    int64_t e = dl_dtype_bytes(j->c.type), before = 0;
    char *want = malloc((size_t)(out_of(j) * e + 1)), *in[64];
    int only = j->c.kind == DLR_SHIFT       ? (j->me + j->n - 1) % j->n
               : j->c.kind == DLR_BROADCAST ? j->c.root
                                            : -1;
    if (only >= 0) { /* what one member gave */
        fill(j->c.type, want, out_of(j), only, j->salt);
        return want;
    }
    for (int m = 0; m < j->n; m++) {
        in[m] = malloc((size_t)(in_of(j, m) * e + 1));
        fill(j->c.type, in[m], in_of(j, m), m, j->salt);
    }
    for (int m = 0; m < j->me; m++) before += j->counts[m];
    if (j->c.kind == DLR_ALL_GATHER) {
        char *at = want;
        for (int64_t b = 0; b < j->c.outer; b++)
            for (int m = 0; m < j->n; m++) {
                memcpy(at, in[m] + b * j->counts[m] * e, (size_t)(j->counts[m] * e));
                at += j->counts[m] * e;
            }
    } else if (j->c.kind == DLR_REDUCE_SCATTER)
        for (int64_t b = 0; b < j->c.outer; b++) {
            char *at[64];
            for (int m = 0; m < j->n; m++) at[m] = in[m] + (b * j->all + before) * e;
            serial(j->c.type, false, j->counts[j->me], j->n, at, want + b * j->counts[j->me] * e);
        }
    else
        serial(j->c.type, j->c.kind == DLR_ALL_REDUCE_MAX, j->c.count, j->n, in, want);
    for (int m = 0; m < j->n; m++) free(in[m]);
    return want;
}

static void start(job *j, dlr_comm *comm) {
    if (j->me >= 0) j->ticket = dlr_comm_start(comm, &j->c);
}

/* Two orders of a sum of n terms differ by twice the rounding of n - 1 additions at most (Higham
 * 2002, section 4.2), whose terms are below `LARGEST`. */
static void expect_near(const job *j, dlr_comm *comm, const char *want) {
    const double LARGEST = 64, unit = j->c.type == DL_F64 ? 0x1p-53 : 0x1p-24,
                 bound = 2 * unit * (j->n - 1) * j->n * LARGEST;
    double got[BLOCK], ordered[BLOCK], worst = 0;
    int64_t e = dl_dtype_bytes(j->c.type);
    dl_error err = {0};
    for (int64_t at = 0; at < j->c.count; at += BLOCK) {
        int64_t block = block_of(at, j->c.count);
        dlr_convert(DL_F64, got, j->c.type, j->to + at * e, block);
        dlr_convert(DL_F64, ordered, j->c.type, want + at * e, block);
        for (int64_t i = 0; i < block; i++) {
            const double off = fabs(got[i] - ordered[i]);
            if (!(off <= worst)) worst = off; /* NaN, too */
        }
    }
    EXPECT(worst <= bound, "a sum by MPI of %lld %s is off by %g, at most %g",
           (long long)j->c.count, dl_dtype_name(j->c.type), worst, bound);
    EXPECT(dlr_comm_same(comm, 0, dl_hash(j->to, (size_t)(j->c.count * e), 0), "MPI's sum", &err),
           "%s", err.message);
}

static void finish(job *j, dlr_comm *comm) {
    dl_error err = {0};
    if (j->me < 0) return;
    bool done = dlr_comm_wait(comm, j->ticket, &err);
    EXPECT(done, "%s", err.message);
    char *want = expected(j);
    int64_t e = dl_dtype_bytes(j->c.type);
    if (done && j->by_mpi)
        expect_near(j, comm, want);
    else
        EXPECT(done && memcmp(j->to, want, (size_t)(out_of(j) * e)) == 0,
               "%s of %s, %lld elements, group %d of %d, outer %lld", kinds[j->c.kind],
               dl_dtype_name(j->c.type), (long long)j->c.count, j->c.group, j->n,
               (long long)j->c.outer);
    free(want);
    if (j->to != j->from) free(j->to);
    free(j->from);
}

/* ---- the suite: a rank's steps, cut where all have started and none has waited ---- */

enum { GROUPS = 4, MOST_JOBS = 64, MOST_RANKS = 64 };

typedef struct {
    dlr_comm *comm;
    int groups, number[GROUPS], n[GROUPS], ranks[GROUPS][MOST_RANKS];
    job jobs[MOST_JOBS];
    int n_jobs, salt;
    int64_t by_mpi; /* sums that MPI is to make, so far */
} rank_state;

static void make_groups(rank_state *s) {
    dlr_world w = dlr_comm_world(s->comm);
    dl_error err = {0};
    for (int g = 0; g < GROUPS; g++) {
        int n = 0;
        for (int r = 0; r < w.size; r++)
            if (g == 0)
                s->ranks[g][n++] = r;
            else if (g == 1)
                s->ranks[g][n++] = w.size - 1 - r; /* sums in another order */
            else if (r % 2 == g % 2)
                s->ranks[g][n++] = r;
        s->n[g] = n;
        if (n) s->number[g] = g ? dlr_comm_group(s->comm, n, s->ranks[g], &err) : 0;
        EXPECT(!n || s->number[g] >= 0, "%s", err.message);
    }
    int twice[] = {0, 0}, outside[] = {w.size};
    EXPECT(dlr_comm_group(s->comm, w.size > 1 ? 2 : 1, w.size > 1 ? twice : outside, &err) == -1);
}

static void add(rank_state *s, dlr_collective_kind kind, int g, dl_dtype type, int64_t count,
                int64_t outer, int spread, bool in_place) {
    if (!s->n[g]) return;
    prepare(&s->jobs[s->n_jobs++], s->comm, kind, s->number[g], s->n[g], s->ranks[g], type, count,
            outer, spread, in_place, ++s->salt);
    s->by_mpi += s->jobs[s->n_jobs - 1].by_mpi;
}

/* Jobs of round `round`; false: there is none. */
static bool plan_round(rank_state *s, int round) {
    static const int64_t sizes[] = {0, 1, 7, 1000, 4096, 65537, 300001};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    s->n_jobs = 0;
    if (round < SIZES) { /* every kind and group, several at once */
        for (int g = 0; g < GROUPS; g++)
            for (int k = 0; k < DLR_NCOLLECTIVES; k++)
                add(s, (dlr_collective_kind)k, g, DL_F32, sizes[round], 1, 0, false);
        return true;
    }
    round -= SIZES;
    if (round < DL_BOOL) { /* every type, pieces of one block and of three */
        for (int k = 0; k < DLR_NCOLLECTIVES; k++)
            for (int i = 1; i < 5; i += 2)
                add(s, (dlr_collective_kind)k, 0, (dl_dtype)round, sizes[i] + 30,
                    k == DLR_ALL_GATHER || k == DLR_REDUCE_SCATTER ? i : 1, 0, false);
        return true;
    }
    round -= DL_BOOL;
    if (round < 3) { /* pieces that differ, along inner axes, some empty */
        for (int64_t outer = 1; outer < 6; outer += 2)
            for (int i = 1; i < 5; i++)
                for (int k = 0; k < DLR_NCOLLECTIVES; k++)
                    if (k == DLR_ALL_GATHER || k == DLR_REDUCE_SCATTER ||
                        (k == DLR_SHIFT && outer == 1))
                        add(s, (dlr_collective_kind)k, i % 2, i % 2 ? DL_F32 : DL_BF16, sizes[i],
                            outer, round, false);
        return true;
    }
    round -= 3;
    if (round < 2) { /* in place, small and large among each other */
        for (int i = 0; i < 40; i++)
            add(s, i % 3 ? DLR_ALL_REDUCE : DLR_BROADCAST, i % 2, DL_F32, sizes[i * 5 % SIZES], 1,
                0, true);
        return true;
    }
    if (round == 2) add(s, DLR_ALL_REDUCE, 0, DL_F32, 1000003, 1, 0, false);
    return round == 2;
}

static void finish_round(rank_state *s, int round) {
    for (int i = 0; i < s->n_jobs; i++)
        finish(&s->jobs[round % 2 ? i : s->n_jobs - 1 - i], s->comm);
}

void *run_rank(void *of) {
    rank_state s = {.comm = of};
    dlr_world w = dlr_comm_world(of);
    dl_error err = {0};
    const bool has_mpi = strncmp(dlr_comm_backend(of), "Open MPI", 8) == 0 ||
                         strncmp(dlr_comm_backend(of), "MPICH", 5) == 0;
    make_groups(&s);
    for (int sums = DLR_SUMS_FIXED; sums <= DLR_SUMS_MPI; sums++) {
        dlr_comm_set_sums(of, (dlr_sums)sums);
        for (int round = 0; plan_round(&s, round); round++) {
            for (int i = 0; i < s.n_jobs; i++) start(&s.jobs[i], of);
            finish_round(&s, round);
        }
        EXPECT(dlr_comm_counted(of).by_mpi == s.by_mpi, "%lld sums by MPI, for %lld",
               (long long)dlr_comm_counted(of).by_mpi, (long long)s.by_mpi);
        if (!has_mpi) break;
    }
    EXPECT((s.by_mpi > 0) == (has_mpi && w.size > 1));
    dlr_comm_set_sums(of, DLR_SUMS_FIXED);
    int most = -1;
    EXPECT(dlr_comm_agree(of, w.rank == w.size - 1 ? 7 : 0, &most, &err) && most == 7, "%s",
           err.message);
    EXPECT(dlr_comm_barrier(of, &err), "%s", err.message);
    EXPECT(dlr_comm_same(of, 0, 12345, "the plan", &err), "%s", err.message);
    bool same = dlr_comm_same(of, 0, w.rank == 1 ? 2 : 1, "the plan", &err);
    EXPECT(w.size == 1
               ? same
               : !same && err.code == DL_INPUT && strstr(err.message, "the plan of rank 1 is not"),
           "%s", err.message);
    return NULL;
}

/* All ranks in this thread, one after the other: everybody starts, then everybody waits. */
static void run_in_turns(int n, dlr_comm **comms) {
    rank_state *s = calloc((size_t)n, sizeof *s);
    for (int r = 0; r < n; r++) s[r].comm = comms[r], make_groups(&s[r]);
    for (int round = 0; plan_round(&s[0], round); round++) {
        for (int r = 1; r < n; r++) plan_round(&s[r], round);
        for (int r = 0; r < n; r++)
            for (int i = 0; i < s[r].n_jobs; i++) start(&s[r].jobs[i], comms[r]);
        for (int r = 0; r < n; r++) finish_round(&s[r], round);
    }
    if (n > 1) { /* who waits before all have started is told so */
        dl_error err = {0};
        float x = 1;
        dlr_collective c = {
            .type = DL_F32, .count = 1, .from = &x, .to = &x, .what = "all_reduce of x"};
        EXPECT(!dlr_comm_wait(comms[0], dlr_comm_start(comms[0], &c), &err));
        EXPECT(err.code == DL_PEER && strstr(err.message, "rank 1") &&
                   strstr(err.message, "all_reduce of x"),
               "%s", err.message);
        for (int r = 1; r < n; r++) dlr_comm_start(comms[r], &c);
        int64_t done = dlr_comm_start(comms[1], &c), none = dlr_comm_start(comms[1], &c);
        for (int r = 0; r < n; r++)
            if (r != 1) dlr_comm_start(comms[r], &c);
        dlr_comm_leave(comms[0], "its disk is full");
        err = (dl_error){0};
        EXPECT(dlr_comm_wait(comms[1], done, &err), "%s",
               err.message); /* what was done before is */
        EXPECT(!dlr_comm_wait(comms[1], none, &err) && strstr(err.message, "rank 0 has left"), "%s",
               err.message);
    }
    free(s);
}

static void run_local(int n, bool threads) {
    dlr_comm **comms = dlr_comm_local(n, threads);
    if (threads) {
        pthread_t *thread = calloc((size_t)n, sizeof *thread);
        for (int i = 0; i < n; i++) pthread_create(&thread[i], NULL, run_rank, comms[i]);
        for (int i = 0; i < n; i++) pthread_join(thread[i], NULL);
        free(thread);
    } else
        run_in_turns(n, comms);
    for (int i = 0; i < n; i++) EXPECT(dlr_comm_close(comms[i], NULL));
    free(comms);
}

/* A request that is no collective is reported, and nothing hangs. */
static void check_refusals(void) {
    dlr_comm **one = dlr_comm_local(1, false);
    float x = 0;
    dl_error err = {0};
    dlr_collective c = {
        .type = DL_F32, .count = -1, .from = &x, .to = &x, .what = "all_reduce of y"};
    EXPECT(!dlr_comm_all(one[0], &c, &err) && err.code == DL_INTERNAL &&
               strstr(err.message, "all_reduce of y"),
           "%s", err.message);
    dlr_comm_close(one[0], NULL);
    free(one);
}

/* Calls that differ in what all members must agree on have other hashes. */
static void check_hashes(void) {
    static const int64_t even[] = {8, 8}, odd[] = {9, 7};
    const dlr_collective sum = {.type = DL_F32, .count = 16, .what = "x"},
                         pieces = {.kind = DLR_ALL_GATHER, .outer = 2, .counts = even};
    dlr_collective c[] = {sum, sum, sum, sum, sum, sum, pieces, pieces, pieces, pieces, pieces};
    enum { N = sizeof c / sizeof *c };
    c[1].type = DL_I32, c[2].count = 17, c[3].kind = DLR_ALL_REDUCE_MAX;
    c[4].kind = c[5].kind = DLR_BROADCAST, c[5].root = 1;
    c[7].outer = 1, c[8].counts = odd, c[9].kind = DLR_REDUCE_SCATTER, c[10].type = DL_I64;
    for (int i = 0; i < N; i++)
        for (int k = 0; k < i; k++)
            EXPECT(dlr_collective_hash(&c[i], 2) != dlr_collective_hash(&c[k], 2), "%d and %d", i,
                   k);
    EXPECT(dlr_collective_hash(&sum, 2) != dlr_collective_hash(&sum, 3));
}

/* The largest of several numbers is NaN where one of them is, whoever gives it. */
static void check_largest_nan(void) {
    static const dl_dtype types[] = {DL_F32, DL_F64, DL_F16, DL_BF16};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int m = 0; m < 3; m++) {
            double v[3][2] = {{1, 2}, {5, 4}, {3, -6}}, got[2], stored[3][2], most[2];
            const void *from[3] = {stored[0], stored[1], stored[2]};
            v[m][1] = NAN;
            for (int k = 0; k < 3; k++) dlr_convert(types[t], stored[k], DL_F64, v[k], 2);
            dlr_sum(types[t], true, 2, 3, from, most);
            dlr_convert(DL_F64, got, types[t], most, 2);
            EXPECT(got[0] == 5 && isnan(got[1]), "%s, NaN of member %d: %g, %g",
                   dl_dtype_name(types[t]), m, got[0], got[1]);
        }
}

int main(int argc, char **argv) {
    int n = argc > 2 ? atoi(argv[2]) : 1;
    if (argc > 1 && !strcmp(argv[1], "local"))
        run_local(n, true), check_largest_nan();
    else if (argc > 1 && !strcmp(argv[1], "turns"))
        run_local(n, false), check_refusals(), check_hashes();
    else {
        dl_error err = {0};
        dlr_comm *comm = dlr_comm_open(&(dlr_world_options){.timeout = 120}, &err);
        if (!comm) {
            printf("%s\n", err.message);
            return err.code;
        }
        EXPECT(dlr_comm_world(comm).size == n, "a world of %d", dlr_comm_world(comm).size);
        if (argc > 1 && (!strcmp(argv[1], "nccl") || !strcmp(argv[1], "cuda"))) {
            if (!run_nccl(comm, !strcmp(argv[1], "nccl"))) return 77;
        } else if (argc > 1 && !strcmp(argv[1], "lost")) {
            run_lost(comm);
        } else
            run_rank(comm);
        EXPECT(dlr_comm_close(comm, NULL));
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0 || !passed;
}

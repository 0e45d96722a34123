/* lab/bench/comm_bench.c: ping-pong between rank 0 and a peer, and all-to-all. Rank 0 measures
 * the times. Ranks that do not take part in a measurement wait for rank 0. */
#include "lab/bench/comm_bench.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "lab/stats.h"

enum { SMALL = 8, ROUNDS = 16, MOST = 16 << 20 };
static const int64_t sizes[] = {64 << 10, 1 << 20, MOST};
static const char between_ranks[] = "the messages of a measurement";

typedef struct bench {
    mf_world *w;
    int rank, ranks, repetitions;
    void (*show)(void *arg, const mf_comm_bench *r);
    void *arg;
    char *out, *in;        /* [MOST] */
    double *seconds;       /* [repetitions] */
    mf_comm_piece *pieces; /* [2 ranks] */
} bench;

/* Waits for all ranks. No rank begins a measurement before all have ended the one before. */
static int meet(bench *b)
{
    return mf_world_agree(b->w, MF_OK);
}

/* Rank 0 sends n bytes to the peer, and the peer sends n bytes back. */
static int bounce(bench *b, int peer, int64_t n)
{
    const mf_comm_piece out = {b->rank == 0 ? peer : 0, b->out, n},
                        in = {b->rank == 0 ? peer : 0, b->in, n};
    if (b->rank != 0 && b->rank != peer) return MF_OK;
    for (int half = 0; half < 2; half++) {
        const bool sends = (b->rank == 0) == (half == 0);
        const int rc = sends ? mf_world_exchange(b->w, between_ranks, 1, &out, 0, NULL)
                             : mf_world_exchange(b->w, between_ranks, 0, NULL, 1, &in);
        if (rc != MF_OK) return rc;
    }
    return MF_OK;
}

static int measure_pair(bench *b, const char *between, int peer, int64_t n)
{
    const int rounds = n == SMALL ? ROUNDS : 1;
    int rc = meet(b);
    if (rc == MF_OK) rc = bounce(b, peer, n); /* the first exchange opens the connections */
    for (int i = 0; rc == MF_OK && i < b->repetitions; i++) {
        const double began = mf_clock();
        for (int j = 0; rc == MF_OK && j < rounds; j++)
            rc = bounce(b, peer, n);
        b->seconds[i] = (mf_clock() - began) / rounds / 2;
    }
    if (rc != MF_OK || b->rank != 0) return rc;
    const double s = mf_median(b->seconds, b->repetitions);
    b->show(b->arg, &(mf_comm_bench){.what = n == SMALL ? "latency" : "bandwidth",
                                     .between = between,
                                     .ranks = 2,
                                     .bytes = n,
                                     .us = 1e6 * s,
                                     .gb_per_s = (double)n / s / 1e9});
    return MF_OK;
}

static bool takes_part(const bench *b, int rank, bool node)
{
    return !node || mf_world_place(b->w, rank)->node == mf_world_place(b->w, 0)->node;
}

/* Sends n bytes to each other rank that takes part, from the same memory for all of them, and
 * receives n bytes from each. */
static int all_to_all(bench *b, bool node, int64_t n, int parts)
{
    mf_comm_piece *send = b->pieces, *recv = b->pieces + b->ranks;
    int k = 0;
    if (!takes_part(b, b->rank, node)) return MF_OK;
    for (int r = 0; r < b->ranks; r++) {
        if (r == b->rank || !takes_part(b, r, node)) continue;
        send[k] = (mf_comm_piece){r, b->out, n};
        recv[k] = (mf_comm_piece){r, b->in + k * (MOST / parts), n};
        k++;
    }
    return mf_world_exchange(b->w, between_ranks, k, send, k, recv);
}

static int measure_all(bench *b, const char *between, bool node, int parts, int64_t size)
{
    const int64_t n = size / parts > 0 ? size / parts : 1;
    int rc = meet(b);
    if (rc == MF_OK) rc = all_to_all(b, node, n, parts);
    for (int i = 0; rc == MF_OK && i < b->repetitions; i++) {
        rc = meet(b);
        const double began = mf_clock();
        if (rc == MF_OK) rc = all_to_all(b, node, n, parts);
        b->seconds[i] = mf_clock() - began;
    }
    if (rc != MF_OK || b->rank != 0) return rc;
    const double s = mf_median(b->seconds, b->repetitions);
    b->show(b->arg, &(mf_comm_bench){.what = "all_to_all",
                                     .between = between,
                                     .ranks = parts,
                                     .bytes = n,
                                     .us = 1e6 * s,
                                     .gb_per_s = (double)n * (parts - 1) / s / 1e9});
    return MF_OK;
}

/* Measures with the first rank on the node of rank 0 if `node`, else with the first rank on
 * another node. Measures nothing if there is no such rank. */
static int measure(bench *b, bool node)
{
    const char *between = node ? "node" : "nodes";
    int peer = 0, parts = 0, rc = MF_OK;
    for (int r = b->ranks - 1; r > 0; r--)
        if (takes_part(b, r, true) == node) peer = r;
    for (int r = 0; r < b->ranks; r++)
        parts += takes_part(b, r, node);
    if (peer == 0) return MF_OK;
    rc = measure_pair(b, between, peer, SMALL);
    for (size_t i = 0; rc == MF_OK && i < sizeof sizes / sizeof *sizes; i++)
        rc = measure_pair(b, between, peer, sizes[i]);
    for (size_t i = 0; rc == MF_OK && i < sizeof sizes / sizeof *sizes; i++)
        rc = measure_all(b, between, node, parts, sizes[i]);
    return rc;
}

int mf_comm_bench_run(mf_world *w, int repetitions,
                      void (*show)(void *arg, const mf_comm_bench *r), void *arg)
{
    bench b = {.w = w,
               .rank = mf_world_rank(w),
               .ranks = mf_world_ranks(w),
               .repetitions = repetitions,
               .show = show,
               .arg = arg};
    if (b.ranks == 1)
        return mf_fail(MF_EUSAGE, "bench comm: one process has no peer; expected a launcher "
                                  "with at least 2: mpirun -n 2 moefw bench comm");
    b.out = mf_alloc(MOST, 1);
    b.in = mf_alloc(MOST, 1);
    b.seconds = mf_alloc((size_t)repetitions, sizeof *b.seconds);
    b.pieces = mf_alloc(2 * (size_t)b.ranks, sizeof *b.pieces);
    int rc = mf_world_agree(w, b.out && b.in && b.seconds && b.pieces ? MF_OK : MF_ENOMEM);
    if (rc == MF_OK) rc = measure(&b, true);
    if (rc == MF_OK) rc = measure(&b, false);
    if (rc == MF_OK) rc = meet(&b);
    mf_free(b.out);
    mf_free(b.in);
    mf_free(b.seconds);
    mf_free(b.pieces);
    return rc;
}

/* train/parallel/launch_check.c: ranks that compute something else would give a run that nobody
 * has asked for, without any error. So they compare digests before the first step. */
#include "train/parallel/launch_check.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/file/paths.h"
#include "base/log.h"
#include "base/mem.h"
#include "train/run/provenance.h"

enum { PROGRAM, CONFIGURATION, PLUGINS, KERNELS, DATA, DIGESTS };
static const char *const names[DIGESTS] = {
    "another program", "another configuration", "other plugins",
    "other kernels (processor or MOEFW_ISA)", "other data"};

typedef struct digests {
    char digest[DIGESTS][33];
} digests;

/* Adds to a stream, whose text is hashed at the end. */
typedef struct text {
    char *bytes;
    size_t n;
    FILE *f;
} text;

static int end_text(text *t, int rc, char digest[33])
{
    if (fclose(t->f) != 0 && rc == MF_OK) rc = mf_fail(MF_ENOMEM, "no memory to compare ranks");
    if (rc == MF_OK) mf_hash_bytes(t->bytes, t->n, digest);
    free(t->bytes);
    return rc;
}

static int begin_text(text *t)
{
    *t = (text){0};
    t->f = open_memstream(&t->bytes, &t->n);
    return t->f ? MF_OK : mf_fail(MF_ENOMEM, "no memory to compare ranks");
}

static int hash_config(const mf_session *s, char digest[33])
{
    text t;
    int rc = begin_text(&t);
    return rc == MF_OK ? end_text(&t, mf_config_write(s->config, t.f), digest) : rc;
}

static int hash_plugins(const mf_provenance *p, char digest[33])
{
    text t;
    int rc = begin_text(&t);
    for (int i = 0; rc == MF_OK && i < p->n_plugins; i++)
        fprintf(t.f, "%s %s %s\n", p->plugins[i].kind, p->plugins[i].name, p->plugins[i].hash);
    return rc == MF_OK ? end_text(&t, rc, digest) : rc;
}

/* Writes what tells corpora apart: sizes, and digests of all tokens or, if they are many, of
 * evenly spaced pieces. */
static void put_data(const mf_corpus *c, FILE *f)
{
    enum { PIECES = 64, PIECE = 1 << 20 };
    char digest[33];
    for (int i = 0; i < MF_SPLITS; i++)
        fprintf(f, "%lld %lld %lld\n", (long long)c->split[i].begin, (long long)c->split[i].end,
                (long long)c->split[i].tokens);
    const int64_t all = c->tokens * c->id_bytes;
    const int64_t step = all > (int64_t)PIECES * PIECE ? all / PIECES : PIECE;
    for (int64_t at = 0; at < all; at += step) {
        const int64_t left = all - at;
        mf_hash_bytes((const char *)c->ids + at, (size_t)(left < PIECE ? left : PIECE), digest);
        fprintf(f, "%s\n", digest);
    }
}

static int hash_data(const mf_session *s, char digest[33])
{
    text t;
    int rc = begin_text(&t);
    if (rc != MF_OK) return rc;
    if (s->corpus) put_data(s->corpus, t.f);
    return end_text(&t, rc, digest);
}

static int take_digests(const mf_session *s, digests *f)
{
    const mf_provenance *p = mf_provenance_now(s->model);
    memset(f, 0, sizeof *f);
    int rc = mf_hash_file(mf_paths_library(), f->digest[PROGRAM]);
    if (rc == MF_OK) rc = hash_config(s, f->digest[CONFIGURATION]);
    if (rc == MF_OK) rc = hash_plugins(p, f->digest[PLUGINS]);
    if (rc == MF_OK) rc = hash_data(s, f->digest[DATA]);
    mf_hash_bytes(p->kernels, strlen(p->kernels), f->digest[KERNELS]);
    return rc;
}

static int compare(mf_world *w, const digests *all)
{
    for (int r = 1; r < mf_world_ranks(w); r++)
        for (int i = 0; i < DIGESTS; i++)
            if (strcmp(all[r].digest[i], all[0].digest[i]) != 0)
                return mf_fail(MF_EPLUGIN,
                               "rank %d (%s) has %s than rank 0 (%s); expected the same files "
                               "and variables on all ranks",
                               r, mf_world_place(w, r)->host, names[i],
                               mf_world_place(w, 0)->host);
    return MF_OK;
}

static int judge_size(mf_world *w, const mf_session *s)
{
    const int64_t leaves = s->config->train.accumulate;
    const int ranks = mf_world_ranks(w);
    if (s->device)
        return mf_fail(MF_ECONFIG,
                       "train.device = %s: expected cpu in a run of %d ranks, which exchange "
                       "memory of the host",
                       s->config->train.device, ranks);
    if (ranks > leaves)
        return mf_fail(MF_ECONFIG,
                       "%d ranks, but train.accumulate = %lld: each rank needs a micro-batch; "
                       "expected at most %lld ranks, or train.accumulate = %d with a smaller "
                       "train.batch",
                       ranks, (long long)leaves, (long long)leaves, ranks);
    return MF_OK;
}

int mf_launch_check(mf_world *w, const mf_session *s)
{
    digests mine;
    if (mf_world_ranks(w) == 1) return MF_OK;
    digests *all = mf_alloc((size_t)mf_world_ranks(w), sizeof *all);
    int rc = all ? take_digests(s, &mine) : MF_ENOMEM;
    rc = mf_world_agree(w, rc);
    if (rc == MF_OK) {
        rc = mf_world_gather(w, "digests of the ranks", &mine, sizeof mine, all);
        if (rc == MF_OK) rc = compare(w, all);
        if (rc == MF_OK) rc = judge_size(w, s);
        if (rc == MF_EPLUGIN || rc == MF_ECONFIG) rc = mf_world_agree(w, rc);
    }
    mf_free(all);
    return rc;
}

/* ---- threads ---- */

int mf_launch_threads(mf_world *w)
{
    cpu_set_t mine, both;
    const int rank = mf_world_rank(w), ranks = mf_world_ranks(w);
    if (ranks == 1 || getenv("OMP_NUM_THREADS")) return 0;
    cpu_set_t *all = mf_alloc((size_t)ranks, sizeof *all);
    if (!all || sched_getaffinity(0, sizeof mine, &mine) != 0 ||
        mf_world_gather(w, "the cores of the ranks", &mine, sizeof mine, all) != MF_OK) {
        mf_free(all);
        mf_error_clear();
        return 1;
    }
    int sharing = 0;
    for (int r = 0; r < ranks; r++) {
        CPU_AND(&both, &mine, &all[r]);
        sharing +=
            mf_world_place(w, r)->node == mf_world_place(w, rank)->node && CPU_COUNT(&both) > 0;
    }
    mf_free(all);
    const int cores = CPU_COUNT(&mine), threads = cores / (sharing > 0 ? sharing : 1);
    if (rank == 0 && cores == 1 &&
        sysconf(_SC_NPROCESSORS_ONLN) > mf_world_place(w, rank)->node_ranks)
        mf_log(MF_LOG_WARN,
               "the launcher binds each rank to one core of several: ranks run one "
               "thread (mpirun --bind-to none gives them the others)");
    return threads > 0 ? threads : 1;
}

/* run/launch_check.c: if ranks computed different things, the run would not follow any
 * configuration, and there would be no error. Therefore the ranks compare digests before the
 * first step. */
#include "run/launch_check.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/file/paths.h"
#include "base/log.h"
#include "base/mem.h"
#include "run/folder/provenance.h"

enum { PROGRAM, CONFIGURATION, PLUGINS, KERNELS, DATA, DIGESTS };
static const char *const names[DIGESTS] = {
    "another program", "another configuration", "other plugins",
    "other kernels (processor or MOEFW_ISA)", "other data"};

typedef struct digests {
    char digest[DIGESTS][33];
} digests;

static int hash_config(const mf_session *s, char digest[33])
{
    char *text;
    size_t n;
    int rc = mf_config_text(s->config, "the configuration of a rank", &text, &n);
    if (rc == MF_OK) mf_hash_bytes(text, n, digest);
    mf_free(text);
    return rc;
}

/* Extends a digest plugin by plugin: hashes the previous digest and the plugin's kind, name
 * and hash. */
static int hash_plugins(const mf_provenance *p, char digest[33])
{
    for (int i = 0; i < p->n_plugins; i++) {
        const mf_provenance_plugin *q = &p->plugins[i];
        char *line = mf_strf("%s%s %s %s", digest, q->kind, q->name, q->hash);
        if (!line) return MF_ENOMEM;
        mf_hash_bytes(line, strlen(line), digest);
        mf_free(line);
    }
    return MF_OK;
}

static int take_digests(mf_session *s, digests *f)
{
    const mf_provenance *p = mf_provenance_now(s->model);
    memset(f, 0, sizeof *f);
    int rc = mf_hash_file(mf_paths_library(), f->digest[PROGRAM]);
    if (rc == MF_OK) rc = hash_config(s, f->digest[CONFIGURATION]);
    if (rc == MF_OK) rc = hash_plugins(p, f->digest[PLUGINS]);
    mf_hash_bytes(p->kernels, strlen(p->kernels), f->digest[KERNELS]);
    mf_provenance_name_data(s);
    memcpy(f->digest[DATA], s->data.all, sizeof f->digest[DATA]);
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
    if (ranks <= leaves) return MF_OK;
    const int64_t examples = leaves * s->config->train.batch;
    const int64_t batch = examples > ranks ? examples / ranks : 1;
    return mf_fail(
        MF_ECONFIG,
        "%d ranks, but train.accumulate = %lld: each rank needs a micro-batch; expected "
        "at most %lld ranks, or train.accumulate = %d and train.batch = %lld, which is "
        "%s%lld examples a step",
        ranks, (long long)leaves, (long long)leaves, ranks, (long long)batch,
        batch * ranks == examples ? "again " : "", (long long)(batch * ranks));
}

int mf_launch_shares(const mf_config *c, int ranks, int *ret)
{
    const int optimizer = (int)c->train.optimizer;
    const int64_t n = c->parallel.expert;
    *ret = n < ranks ? (int)n : ranks;
    if (*ret == 1) return MF_OK;
    if (ranks % *ret != 0)
        return mf_fail(MF_ECONFIG,
                       "parallel.expert = %lld with %d ranks: expected a number that divides "
                       "them, or at least their number",
                       (long long)n, ranks);
    const char *why = c->parallel.optimizer != MF_PARALLEL_SHARDED
                          ? "parallel.optimizer = sharded"
                      : optimizer == MF_OPTIMIZER_MUON || optimizer == MF_OPTIMIZER_ADAFACTOR
                          ? "train.optimizer = adamw, adam or lion"
                      : c->trace.every > 0 ? "trace.every = 0"
                                           : NULL;
    return why ? mf_fail(MF_ECONFIG, "parallel.expert = %lld: expected %s",
                         (long long)c->parallel.expert, why)
               : MF_OK;
}

int mf_launch_experts(const mf_config *c, int *ret_rank, int *ret_ranks)
{
    mf_launch l;
    *ret_rank = 0;
    *ret_ranks = 1;
    if (strcmp(c->parallel.comm, "self") == 0 || !mf_launch_find(&l)) return MF_OK;
    const int rc = mf_launch_shares(c, l.ranks, ret_ranks);
    if (rc == MF_OK) *ret_rank = l.rank % *ret_ranks;
    return rc;
}

/* Sets the world of the model's experts. They were divided by the rank numbers of the launcher,
 * so the world must have the same numbers. */
static int join_experts(mf_world *w, mf_session *s)
{
    mf_expert_ranks *e = &s->model->expert_ranks;
    if (!mf_experts_shared(e)) return MF_OK;
    const int rank = mf_world_rank(w), ranks = mf_world_ranks(w);
    if (e->rank != rank % e->ranks || ranks % e->ranks != 0)
        return mf_fail(MF_EUSAGE,
                       "parallel.expert: by the launcher this is rank %d of %d that share the "
                       "experts, and %s calls it rank %d of %d",
                       e->rank, e->ranks, mf_world_name(w), rank, ranks);
    if (s->config->data.padding != 0 && mf_session_masked(s))
        return mf_fail(MF_ECONFIG,
                       "parallel.expert: expected data.padding = max, since all ranks run "
                       "graphs of one length at a time");
    e->world = w;
    e->first = rank - e->rank;
    return MF_OK;
}

int mf_launch_check(mf_world *w, mf_session *s)
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
        if (rc == MF_OK) rc = join_experts(w, s);
        if (rc == MF_EPLUGIN || rc == MF_ECONFIG || rc == MF_EUSAGE) rc = mf_world_agree(w, rc);
    }
    mf_free(all);
    return rc;
}

/* ---- threads ---- */

int mf_launch_threads(mf_world *w, int *ret)
{
    cpu_set_t mine, both;
    const int rank = mf_world_rank(w), ranks = mf_world_ranks(w);
    *ret = 0;
    if (ranks == 1) return MF_OK;
    cpu_set_t *all = mf_alloc((size_t)ranks, sizeof *all);
    int rc = mf_world_agree(w, all ? MF_OK : MF_ENOMEM);
    if (sched_getaffinity(0, sizeof mine, &mine) != 0) CPU_ZERO(&mine);
    if (rc == MF_OK) rc = mf_world_gather(w, "the cores of the ranks", &mine, sizeof mine, all);
    int sharing = 0;
    for (int r = 0; rc == MF_OK && all && r < ranks; r++) {
        CPU_AND(&both, &mine, &all[r]);
        sharing +=
            mf_world_place(w, r)->node == mf_world_place(w, rank)->node && CPU_COUNT(&both) > 0;
    }
    mf_free(all);
    if (rc != MF_OK || getenv("OMP_NUM_THREADS")) return rc;
    const int cores = CPU_COUNT(&mine), threads = cores / (sharing > 0 ? sharing : 1);
    if (rank == 0 && cores == 1 &&
        sysconf(_SC_NPROCESSORS_ONLN) > mf_world_place(w, rank)->node_ranks)
        mf_log(MF_LOG_WARN,
               "the launcher binds each rank to one core of several: ranks run one "
               "thread (mpirun --bind-to none gives them the others)");
    *ret = threads > 0 ? threads : 1;
    return MF_OK;
}

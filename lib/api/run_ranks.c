/* api/run_ranks.c: joins the processes (ranks) of a run. Rank 0 writes the run directory. It
 * tells the other ranks whether a run directory exists. */
#include "api/run_internal.h"

#include "base/error.h"
#include "base/thread/parallel.h"
#include "run/launch_check.h"

int mf_run_join(moefw_run *run, int rc)
{
    const mf_config *c = run->session ? run->session->config : run->config;
    if (!run->joins) return rc;
    run->joins = false;
    const int joined = mf_world_open(c ? c->parallel.comm : "auto",
                                     c ? c->parallel.patience : 60, &run->world);
    run->alone = joined != MF_OK && rc == MF_OK;
    if (joined != MF_OK) return rc == MF_OK ? joined : rc;
    rc = mf_world_agree(run->world, rc);
    if (rc == MF_OK && run->world) rc = mf_launch_check(run->world, run->session);
    int threads = 0;
    if (rc == MF_OK) rc = mf_launch_threads(run->world, &threads);
    if (rc != MF_OK || run->threads != 0) return rc;
    run->threads = threads;
    mf_parallel_set_threads(threads);
    return MF_OK;
}

int mf_run_share_dir(moefw_run *run, int rc)
{
    int32_t keeps = run->dir != NULL;
    if (mf_world_ranks(run->world) == 1) return rc;
    rc = mf_world_agree(run->world, rc);
    if (rc == MF_OK) rc = mf_world_tell(run->world, "the run directory", &keeps, sizeof keeps);
    run->keeps = keeps != 0;
    return rc;
}

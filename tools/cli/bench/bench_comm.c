/* cli/bench/bench_comm.c: moefw bench comm: all ranks measure, rank 0 prints.
 *
 * The section [parallel] comes from the default preset and --set. Their other sections have
 * no effect. */
#include "cli/bench/bench_comm.h"
#include <stdio.h>
#include "base/error.h"
#include "base/log.h"
#include "io/json.h"
#include "cli/ranks.h"
#include "lab/bench/comm_bench.h"

typedef struct output {
    mf_world *w;
    bool json, begun;
} output;

static void print_json(const mf_world *w, const mf_comm_bench *r)
{
    mf_jw *j = mf_jw_new();
    if (!j) return;
    mf_jw_object(j);
    mf_jw_kv_string(j, "what", r->what);
    mf_jw_kv_string(j, "between", r->between);
    mf_jw_kv_string(j, "comm", mf_world_name(w));
    mf_jw_kv_int(j, "ranks", r->ranks);
    mf_jw_kv_int(j, "bytes", r->bytes);
    mf_jw_kv_real(j, "us", r->us);
    mf_jw_kv_real(j, "gb_per_s", r->gb_per_s);
    mf_jw_end(j);
    (void)mf_cli_print_json(j); /* a failure here (out of memory) ends the program with
                                 * an error */
}

static void show(void *arg, const mf_comm_bench *r)
{
    output *o = arg;
    if (o->json) {
        print_json(o->w, r);
    } else {
        if (!o->begun)
            printf("%d ranks by %s\n%-10s %-7s %5s %10s %12s %9s\n", mf_world_ranks(o->w),
                   mf_world_name(o->w), "what", "between", "ranks", "bytes", "us", "GB/s");
        printf("%-10s %-7s %5d %10lld %12.2f %9.3f\n", r->what, r->between, r->ranks,
               (long long)r->bytes, r->us, r->gb_per_s);
    }
    o->begun = true;
    fflush(stdout);
}

int mf_bench_comm(const mf_cli *cli)
{
    const int repetitions = (int)mf_cli_int(cli, "repetitions", 21);
    mf_config *config = NULL;
    mf_world *w = NULL;
    if (repetitions < 1)
        return mf_fail(MF_EUSAGE, "--repetitions=0: expected at least 1 for bench comm");
    if (mf_ranks_other(NULL, NULL)) mf_log_set_level(MF_LOG_ERROR);
    int rc = mf_cli_config(cli, NULL, &config);
    if (rc != MF_OK) {
        mf_ranks_end(NULL, NULL, false, rc);
        return rc;
    }
    rc = mf_world_open(config->parallel.comm, config->parallel.patience, &w);
    const bool alone = rc != MF_OK;
    output o = {.w = w, .json = mf_cli_json(cli)};
    if (rc == MF_OK) rc = mf_comm_bench_run(w, repetitions, show, &o);
    if (rc != MF_OK) mf_ranks_end(w, config->parallel.comm, alone, rc);
    mf_world_close(w);
    mf_config_free(config);
    return rc;
}

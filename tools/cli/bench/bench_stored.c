/* cli/bench/bench_stored.c: moefw bench stored: how fast decoding reads weights in the types in
 * which files store them. A line is printed as soon as its type has been measured. */
#include "base/text/wrap.h"
#include "cli/bench/bench_stored.h"
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/thread/parallel.h"
#include "io/json.h"
#include "graph/graph.h"
#include "kernels/kernel.h"
#include "lab/bench/stored_bench.h"

static void print_json(const mf_stored_bench *r)
{
    mf_jw *w = mf_jw_new();
    if (!w) return;
    mf_jw_object(w);
    mf_jw_kv_string(w, "what", "stored");
    mf_jw_kv_string(w, "type", r->type);
    mf_jw_kv_string(w, "isa", mf_kernels_isa());
    mf_jw_kv_int(w, "threads", mf_parallel_threads());
    mf_jw_kv_int(w, "experts", r->experts);
    mf_jw_kv_int(w, "out", r->out);
    mf_jw_kv_int(w, "in", r->in);
    mf_jw_kv_int(w, "bytes", r->bytes);
    mf_jw_kv_real(w, "gb_per_s", r->gb);
    mf_jw_kv_real(w, "read_gb_per_s", r->read_gb);
    mf_jw_kv_real(w, "share", r->share);
    mf_jw_kv_real(w, "share_min", r->share_lo);
    mf_jw_kv_real(w, "share_max", r->share_hi);
    mf_jw_end(w);
    (void)mf_cli_print_json(w); /* a failure here (out of memory) ends the program with
                                 * an error */
}

static void show(void *arg, const mf_stored_bench *r)
{
    if (*(const bool *)arg)
        print_json(r);
    else
        printf("%-9s %7lld %8.1f %6.1f %7.1f %6.2f  %.2f to %.2f\n", r->type,
               (long long)r->experts, 1e-6 * (double)r->bytes, r->gb, r->read_gb, r->share,
               r->share_lo, r->share_hi);
    fflush(stdout);
}

int mf_bench_stored(const mf_cli *cli)
{
    const int pairs = (int)mf_cli_int(cli, "repetitions", 21);
    const bool bf16 = strcmp(mf_cli_text(cli, "dtype", "f32"), "bf16") == 0;
    bool json = mf_cli_json(cli);
    if (pairs < 1)
        return mf_fail(MF_EUSAGE, "--repetitions=0: expected at least 1 for bench stored");
    mf_parallel_set_threads((int)mf_cli_int(cli, "threads", 0));
    const int rc = mf_backend_init();
    if (rc != MF_OK) return rc;
    if (!json) {
        mf_wrap_line(stdout, 2,
                     "%d thread(s), %s; a row (%s) for each of 8 experts [2048,2048], beside a "
                     "loop that reads the same bytes",
                     mf_parallel_threads(), mf_kernels_isa(), bf16 ? "bf16" : "f32");
        printf("type      experts       MB   GB/s reading  share  of %d pairs\n", pairs);
    }
    return mf_stored_bench_run(pairs, bf16, show, &json);
}

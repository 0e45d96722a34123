/* moefw bench gemm: measures gemms of the sizes that models have, on the CPU or on a device.
 * Each result is shown beside the highest rate of the processor or the device. */
#include "base/text/wrap.h"
#include "cli/bench/bench_gemm.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/thread/parallel.h"
#include "io/json.h"
#include "cli/cli_model.h"
#include "graph/device/device.h"
#include "kernels/kernel.h"
#include "lab/bench/gemm_bench.h"
#include "run/backend.h"
#include "run/run_config.h"

typedef struct {
    mf_machine_limits limits;
    mf_device *device; /* NULL: the CPU */
    bool json;
} gemms;

static void print_gemm(void *arg, const mf_gemm_bench *r)
{
    const gemms *p = arg;
    const double peak =
        strcmp(r->types, "bf16") == 0 ? p->limits.peak_bf16_gflops : p->limits.peak_gflops;
    const double fraction = r->gflops / peak;
    if (!p->json) {
        printf("%-6s %-5s %3lld %6lld %6lld %6lld %10.4f %9.1f", r->what, r->types,
               (long long)r->groups, (long long)r->m, (long long)r->n, (long long)r->k, r->ms,
               r->gflops);
        if (isnan(fraction))
            puts("      -");
        else
            printf(" %6.1f %%\n", 100 * fraction);
        fflush(stdout);
        return;
    }
    mf_jw *w = mf_jw_new();
    if (!w) return;
    mf_jw_object(w);
    mf_jw_kv_string(w, "what", "gemm");
    mf_jw_kv_string(w, "form", r->what);
    mf_jw_kv_string(w, "types", r->types);
    mf_jw_kv_string(w, "by", p->device ? mf_device_name(p->device) : mf_kernels_gemm());
    if (!p->device) mf_jw_kv_string(w, "isa", mf_kernels_isa());
    mf_jw_kv_int(w, "threads", mf_parallel_threads());
    mf_jw_kv_int(w, "groups", r->groups);
    mf_jw_kv_int(w, "m", r->m);
    mf_jw_kv_int(w, "n", r->n);
    mf_jw_kv_int(w, "k", r->k);
    mf_jw_kv_real(w, "ms", r->ms);
    mf_jw_kv_real(w, "gflops", r->gflops);
    mf_jw_kv_real(w, "fraction_of_peak", fraction);
    mf_jw_kv_real(w, "peak_gflops", peak);
    mf_jw_kv_real(w, "read_gb_per_s", p->limits.read_gb);
    mf_jw_end(w);
    (void)mf_cli_print_json(w); /* a failure here (out of memory) ends the program with
                                 * an error */
    fflush(stdout);
}

/* Prints the line above the table, which shows the limits. */
static void print_limits(const gemms *p)
{
    const mf_machine_limits *l = &p->limits;
    mf_line line = {0};
    if (!p->device) {
        mf_line_add(&line,
                    "%d thread(s): registers multiply %.1f GFLOP/s in f32 and %.1f in bf16, ",
                    mf_parallel_threads(), l->peak_gflops, l->peak_bf16_gflops);
        if (!isnan(l->read_gb)) mf_line_add(&line, "memory is read at %.1f GB/s; ", l->read_gb);
        mf_line_add(&line, "gemms by %s, %s", mf_kernels_gemm(), mf_kernels_isa());
    } else {
        mf_line_add(&line, "device %s: ", mf_device_name(p->device));
        if (isnan(l->peak_gflops))
            mf_line_add(&line, "no peak is known");
        else
            mf_line_add(&line,
                        "%.0f GFLOP/s in f32 and %.0f in bf16 by its data sheet or clock",
                        l->peak_gflops, l->peak_bf16_gflops);
        if (!isnan(l->read_gb)) mf_line_add(&line, "; copies move %.1f GB/s", l->read_gb);
    }
    mf_wrap_line(stdout, 2, "%s", line.text);
    puts("form   types   E      m      n      k         ms  GFLOP/s of peak");
}

int mf_bench_gemms(const mf_cli *cli)
{
    gemms p = {.json = mf_cli_json(cli)};
    mf_config *c; /* from the default preset; sets device and threads */
    const int repetitions = (int)mf_cli_int(cli, "repetitions", 7);
    if (repetitions < 1)
        return mf_fail(MF_EUSAGE, "--repetitions=0: expected at least 1 for bench gemm");
    const double most = mf_cli_real(cli, "most", 0),
                 least = (double)mf_gemm_bench_least() / 1e6;
    if (most > 0 && most < least)
        return mf_fail(MF_EUSAGE,
                       "--most=%g: the smallest gemm has %g million multiply-adds: expected at "
                       "least so many",
                       most, least);
    int rc = mf_cli_config(cli, NULL, &c);
    if (rc != MF_OK) return rc;
    mf_parallel_set_threads((int)mf_cli_int(cli, "threads", 0));
    rc = mf_backend_open(c->train.device, &p.device);
    if (rc != MF_OK) rc = mf_fail_context(rc, "train.device = %s", c->train.device);
    if (rc == MF_OK) rc = mf_machine_limits_measure(p.device, most == 0, &p.limits);
    if (rc == MF_OK && !p.json) print_limits(&p);
    if (rc == MF_OK)
        rc = mf_gemm_bench_run(p.device, (int64_t)(1e6 * most), repetitions, print_gemm, &p);
    mf_device_close(p.device);
    mf_config_free(c);
    return rc;
}

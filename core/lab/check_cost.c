/* What a plugin costs: memory that it does not give back, and time. */
#include <malloc.h>
#include <stdio.h>
#include <time.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "lab/checks.h"
#include "lab/standin.h"

/* The address sanitizer has a heap of its own, and counts it. */
extern size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

/* Bytes in use by everybody, plugins included (they may call malloc). */
static size_t bytes_in_use(void)
{
    if (__sanitizer_get_current_allocated_bytes != NULL)
        return __sanitizer_get_current_allocated_bytes();
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

/* Instances that come and go keep nothing. */
static mf_verdict check_instances(const mf_rig_spec *spec, char detail[MF_CHECK_DETAIL])
{
    enum { WARM = 3, INSTANCES = 40, SLACK = 2048 };
    size_t before = 0;
    for (int i = 0; i < WARM + INSTANCES; i++) {
        mf_rig *rig = NULL;
        if (i == WARM) before = bytes_in_use();
        int rc = mf_rig_new(spec, &rig);
        mf_rig_free(rig);
        if (rc != MF_OK) return mf_check_broke(detail, "in another instance");
    }
    const size_t after = bytes_in_use();
    if (after <= before + SLACK) return MF_CHECK_PASS;
    return mf_check_failed(
        detail,
        "%d instances that came and went keep %zu bytes: expected none (what "
        "init takes, fini gives back)",
        INSTANCES, after - before);
}

/* After some steps to warm up, a hundred more allocate nothing and keep nothing; nor do
 * instances that are gone. */
mf_verdict mf_check_leaks(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    enum { WARM = 30, STEPS = 100, SLACK = 2048 };
    mf_rig_spec spec = mf_check_spec(plugin);
    mf_rig *rig = NULL;
    spec.training = spec.gradients = true;
    int rc = mf_rig_new(&spec, &rig);
    for (int i = 0; i < WARM && rc == MF_OK; i++)
        rc = mf_rig_step(rig);
    const uint64_t calls = mf_alloc_count();
    const size_t before = bytes_in_use();
    for (int i = 0; i < STEPS && rc == MF_OK; i++)
        rc = mf_rig_step(rig);
    const uint64_t made = mf_alloc_count() - calls;
    const size_t after = bytes_in_use();
    mf_rig_free(rig);
    if (rc != MF_OK) return mf_check_broke(detail, "in a training step");
    if (after > before + SLACK)
        return mf_check_failed(detail, "%d steps keep %zu bytes more: expected none", STEPS,
                               after - before);
    if (made > 0)
        return mf_check_failed(detail, "%d steps allocate %llu times: expected never", STEPS,
                               (unsigned long long)made);
    spec.only_init = true;
    mf_verdict v = check_instances(&spec, detail);
    if (v == MF_CHECK_PASS)
        snprintf(detail, MF_CHECK_DETAIL,
                 "%d steps keep nothing, nor do instances that are gone", STEPS);
    return v;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Shortest of several runs of each, in seconds; in turns, so that a busy machine hurts both. */
static int time_runs(const mf_rig_spec *one, const mf_rig_spec *other, double ret[2])
{
    mf_rig *rigs[2] = {NULL, NULL};
    int rc = mf_rig_new(one, &rigs[0]);
    if (rc == MF_OK) rc = mf_rig_new(other, &rigs[1]);
    const double begin = now();
    ret[0] = ret[1] = 1e9;
    for (int i = 0; i < 40 && rc == MF_OK && (i < 10 || now() - begin < 0.4); i++) {
        const double t = now();
        rc = mf_rig_run(rigs[i % 2], NULL);
        if (now() - t < ret[i % 2]) ret[i % 2] = now() - t;
    }
    mf_rig_free(rigs[0]);
    mf_rig_free(rigs[1]);
    return rc;
}

static int time_calls(const mf_rig_spec *spec, double *ret)
{
    enum { CALLS = 200 };
    mf_rig *rig = NULL;
    int rc = mf_rig_new(spec, &rig);
    if (rc == MF_OK) rc = mf_rig_run(rig, NULL);
    const double begin = now();
    for (int i = 0; i < CALLS && rc == MF_OK; i++)
        rc = mf_rig_after(rig);
    *ret = (now() - begin) / CALLS;
    mf_rig_free(rig);
    return rc;
}

/* For information: nothing fails for being slow. A training step's forward and backward pass of
 * a layer with the plugin in its place, and with the stand-in there; on one thread, because a
 * busy machine makes threads wait for each other. */
mf_verdict mf_check_speed(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    mf_rig_spec spec = mf_check_spec(plugin);
    spec.batch = 8, spec.seq = 64, spec.dim = 128, spec.experts = 8;
    spec.training = spec.gradients = true;
    /* A regularizer is compared with its absence. */
    mf_rig_spec plain = spec;
    plain.plugin = plugin->kind == MF_EXPERT ? mf_standin_expert() : mf_standin_router();
    if (plain.plugin == NULL) return mf_check_broke(detail, "the stand-in");

    const int threads = mf_parallel_threads();
    const bool controller = plugin->kind == MF_CONTROLLER;
    double seconds[2] = {0, 0};
    mf_parallel_set_threads(1);
    int rc = controller ? time_calls(&spec, seconds) : time_runs(&spec, &plain, seconds);
    mf_parallel_set_threads(threads);
    if (rc != MF_OK) return mf_check_broke(detail, "in a larger batch");
    if (controller)
        snprintf(detail, MF_CHECK_DETAIL, "%.1f us a call", 1e6 * seconds[0]);
    else
        snprintf(detail, MF_CHECK_DETAIL,
                 "%.0f ns a token and thread; a layer takes %.2f times as long as with %s",
                 1e9 * seconds[0] / (spec.batch * spec.seq), seconds[0] / seconds[1],
                 plugin->kind == MF_ROUTER   ? "one linear layer as router"
                 : plugin->kind == MF_EXPERT ? "one matrix as expert"
                                             : "no regularizer");
    return MF_CHECK_PASS;
}

/* The cost of a plugin: memory that it does not release, allocations in steps, and time. The
 * first two are failures. Time is only reported. */
#include <malloc.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/thread/parallel.h"
#include "lab/check/checks.h"
#include "lab/bench/stub.h"

/* Bytes allocated in the heap of the address sanitizer; NULL without that sanitizer. */
extern size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

/* Additional bytes that may be in use, because sizes of blocks are rounded up. */
enum { SLACK = 2048 };

#if defined __GLIBC__
enum { BLOCKS_ARE_COUNTED = true };
#else
/* only pages of the process can be counted, which hides small leaks */
enum { BLOCKS_ARE_COUNTED = false };
#endif

/* Bytes in use by the whole process, including plugins, because they may call malloc; 0: they
 * are not counted. */
static size_t bytes_in_use(void)
{
    if (__sanitizer_get_current_allocated_bytes)
        return __sanitizer_get_current_allocated_bytes();
#if defined __GLIBC__
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
#else
    return 0;
#endif
}

/* Creates and frees n instances. *ret_kept: number of bytes by which the allocated memory
 * has grown. */
static int come_and_go(const mf_harness_spec *spec, int n, size_t *ret_kept)
{
    const size_t before = bytes_in_use();
    for (int i = 0; i < n; i++) {
        mf_harness *harness = NULL;
        int rc = mf_harness_new(spec, &harness);
        mf_harness_free(harness);
        if (rc != MF_OK) return rc;
    }
    const size_t after = bytes_in_use();
    *ret_kept = after > before ? after - before : 0;
    return MF_OK;
}

/* Creating and freeing instances must not lose memory. The C library may keep freed blocks for
 * later, and these count as in use. So a single loss proves nothing; only a second loss fails
 * the check. */
static mf_verdict check_instances(const mf_harness_spec *spec, char detail[MF_CHECK_DETAIL])
{
    enum { WARM = 3, INSTANCES = 40 };
    size_t kept = 0;
    int rc = come_and_go(spec, WARM, &kept);
    for (int i = 0; i < 2 && rc == MF_OK; i++) {
        rc = come_and_go(spec, INSTANCES, &kept);
        if (rc == MF_OK && kept <= SLACK) return MF_CHECK_PASS;
    }
    if (rc != MF_OK) return mf_check_broke(detail, "in another instance");
    return mf_check_failed(
        detail,
        "%d instances that came and went keep %zu bytes: expected none (what "
        "init takes, fini gives back)",
        INSTANCES, kept);
}

/* After some warm-up steps, hundreds of further steps must allocate nothing, and freed
 * instances must release all memory. */
mf_verdict mf_check_leaks(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    enum { WARM = 30, STEPS = 300 };
    mf_harness_spec spec = mf_check_spec(plugin);
    mf_harness *harness = NULL;
    spec.training = spec.gradients = true;
    int rc = mf_harness_new(&spec, &harness);
    for (int i = 0; i < WARM && rc == MF_OK; i++)
        rc = mf_harness_step(harness);
    const uint64_t calls = mf_alloc_count();
    const size_t before = bytes_in_use();
    for (int i = 0; i < STEPS && rc == MF_OK; i++)
        rc = mf_harness_step(harness);
    const uint64_t made = mf_alloc_count() - calls;
    const size_t after = bytes_in_use();
    mf_harness_free(harness);
    if (rc != MF_OK) return mf_check_broke(detail, "in a training step");
    if (after > before + SLACK)
        return mf_check_failed(detail, "%d steps keep %zu bytes more: expected none", STEPS,
                               after - before);
    if (made > 0)
        return mf_check_failed(detail, "%d steps allocate %llu times: expected never", STEPS,
                               (unsigned long long)made);
    if (!BLOCKS_ARE_COUNTED && !__sanitizer_get_current_allocated_bytes) {
        snprintf(detail, MF_CHECK_DETAIL,
                 "%d steps do not call the allocator of the program; this C library does not "
                 "count its blocks, so leaks cannot be seen",
                 STEPS);
        return MF_CHECK_SKIP;
    }
    spec.only_init = true;
    mf_verdict v = check_instances(&spec, detail);
    if (v == MF_CHECK_PASS)
        snprintf(detail, MF_CHECK_DETAIL,
                 "%d steps keep nothing, nor do instances that are gone", STEPS);
    return v;
}

/* Shortest times in seconds of several runs of both harnesses. The runs alternate, so that
 * other load on the machine affects both. */
static int time_runs(const mf_harness_spec *one, const mf_harness_spec *other, double ret[2])
{
    mf_harness *harnesses[2] = {NULL, NULL};
    int rc = mf_harness_new(one, &harnesses[0]);
    if (rc == MF_OK) rc = mf_harness_new(other, &harnesses[1]);
    const double begin = mf_clock();
    ret[0] = ret[1] = 1e9;
    for (int i = 0; i < 40 && rc == MF_OK && (i < 10 || mf_clock() - begin < 0.4); i++) {
        const double t = mf_clock();
        rc = mf_harness_run(harnesses[i % 2], NULL);
        if (mf_clock() - t < ret[i % 2]) ret[i % 2] = mf_clock() - t;
    }
    mf_harness_free(harnesses[0]);
    mf_harness_free(harnesses[1]);
    return rc;
}

static int time_calls(const mf_harness_spec *spec, double *ret)
{
    enum { CALLS = 200 };
    mf_harness *harness = NULL;
    int rc = mf_harness_new(spec, &harness);
    if (rc == MF_OK) rc = mf_harness_run(harness, NULL);
    const double begin = mf_clock();
    for (int i = 0; i < CALLS && rc == MF_OK; i++)
        rc = mf_harness_after(harness);
    *ret = (mf_clock() - begin) / CALLS;
    mf_harness_free(harness);
    return rc;
}

/* Time of the forward and backward pass of a layer with the plugin, and with the stub instead
 * of it; for a controller, time of a call. The time is only reported. No plugin fails because
 * it is slow. One thread is used, because on a busy machine threads wait for each other. */
mf_verdict mf_check_speed(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    mf_harness_spec spec = mf_check_spec(plugin);
    spec.batch = 8, spec.seq = 64, spec.dim = 128;
    mf_check_sizes(&spec, 8, spec.top_k);
    spec.training = spec.gradients = true;
    mf_harness_spec plain = spec;
    if (plugin->kind == MF_ADAPTER) /* the same blocks without the adapter */
        plain.unadapted = true;
    else
        plain.plugin = plugin->kind == MF_EXPERT ? mf_stub_expert() : mf_stub_router();
    if (!plain.plugin) return mf_check_broke(detail, "the stub");
    if (plain.plugin != plugin) plain.given = NULL;

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
                 "%.0f ns/token and thread; %s takes %.2f times as long as with %s",
                 1e9 * seconds[0] / (spec.batch * spec.seq),
                 plugin->kind == MF_ADAPTER ? "a block" : "a layer", seconds[0] / seconds[1],
                 plugin->kind == MF_ROUTER    ? "one linear layer as router"
                 : plugin->kind == MF_EXPERT  ? "one matrix as expert"
                 : plugin->kind == MF_ADAPTER ? "no adapter"
                                              : "no regularizer");
    return MF_CHECK_PASS;
}

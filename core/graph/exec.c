/* graph/exec.c: functions that ops can call during a run (threads, random numbers), and the
 * messages of faults that kernels record.
 *
 * Kernels return nothing: they record the first fault in memory of the device. This file writes
 * the message of a fault, so the message does not depend on where the kernel ran. */
#include "graph/exec.h"

#include "base/float_control.h"
#include "base/thread/parallel.h"
#include "base/rng.h"
#include "kernels/kernel.h"

#include <stdatomic.h>
#include <stdio.h>

/* The tiles of a plugin's op. A tile must leave its thread's floating-point control unchanged,
 * because later computations of the same thread depend on it. */
typedef struct watched {
    void (*fn)(void *arg, int64_t tile);
    void *arg;
    /* before << 32 | after, from a tile that changed the control; 0: no tile changed it */
    _Atomic uint64_t change;
} watched;

static void watched_tile(void *arg, int64_t tile)
{
    watched *w = arg;
    const unsigned before = mf_float_control();
    w->fn(w->arg, tile);
    const unsigned now = mf_float_control();
    if (now == before) return;
    mf_float_control_set(before);
    atomic_store_explicit(&w->change, (uint64_t)before << 32 | now, memory_order_relaxed);
}

static void exec_parallel(const mf_exec *x, int64_t tiles, void (*fn)(void *arg, int64_t tile),
                          void *arg)
{
    mf_launch *l = (mf_launch *)(uintptr_t)x;
    if (!l->third_party) {
        mf_parallel(tiles, fn, arg);
        return;
    }
    watched w = {fn, arg, 0};
    mf_parallel(tiles, watched_tile, &w);
    const uint64_t change = atomic_load_explicit(&w.change, memory_order_relaxed);
    if (change == 0) return;
    l->float_before = (unsigned)(change >> 32);
    l->float_after = (unsigned)change;
}

static void exec_uniform(const mf_exec *x, uint64_t stream, uint64_t first, int64_t n,
                         float *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = mf_rng_uniform(x->seed, stream, x->step, first + (uint64_t)i);
}

static void exec_normal(const mf_exec *x, uint64_t stream, uint64_t first, int64_t n,
                        float *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = mf_rng_normal(x->seed, stream, x->step, first + (uint64_t)i);
}

void mf_launch_init(mf_launch *l, const struct mf_kernels *kernels, bool training,
                    uint64_t seed, uint64_t step)
{
    *l = (mf_launch){
        .exec =
            {
                .size = sizeof l->exec,
                .training = training,
                .seed = seed,
                .step = step,
                .kernels = kernels,
                .parallel = exec_parallel,
                .rng_uniform = exec_uniform,
                .rng_normal = exec_normal,
            },
    };
}

/* ---- faults ---- */

static int range_message(const mf_fault *s, char *text, size_t size)
{
    static const char *const names[MF_WHAT_COUNT] = {
        [MF_WHAT_INDEX] = "index",   [MF_WHAT_ROW] = "row",     [MF_WHAT_ROW_A] = "row_a",
        [MF_WHAT_ROW_B] = "row_b",   [MF_WHAT_TOKEN] = "token", [MF_WHAT_PLACE] = "place",
        [MF_WHAT_EXPERT] = "expert", [MF_WHAT_LABEL] = "label", [MF_WHAT_KV_LEN] = "kv_len",
    };
    const long long at = s->index, lo = s->lo < -1 ? -1 : s->lo, hi = s->hi, found = s->value;
    if (s->what == MF_WHAT_ID) {
        snprintf(text, size, "token %lld: expected an id in 0 .. %lld, found %lld", at, hi - 1,
                 found);
        return MF_EINPUT;
    }
    if (s->what == MF_WHAT_TARGET) {
        snprintf(text, size, "row %lld: expected a target below %lld, found %lld", at, hi,
                 found);
        return MF_EINPUT;
    }
    snprintf(text, size, "row %lld: expected %s in %lld .. %lld, found %lld", at,
             names[s->what], lo, hi - 1, found);
    return MF_EPLUGIN;
}

int mf_fault_message(const mf_fault *s, char *text, size_t size)
{
    const long long at = s->index, lo = s->lo, hi = s->hi, found = s->value;
    switch (s->kind) {
    case MF_FAULT_RANGE:
        return range_message(s, text, size);
    case MF_FAULT_CACHE:
        snprintf(text, size,
                 "sequence %lld: expected %lld rows within a cache of %lld, found them at %lld",
                 at, lo, hi, found);
        return MF_ERUN;
    case MF_FAULT_ORDER:
        snprintf(text, size,
                 "row %lld of expert %lld: expected tokens in rising order in 0 .. %lld, "
                 "found %lld",
                 at, lo, hi - 1, found);
        return MF_EPLUGIN;
    default:
        snprintf(text, size,
                 "expected offsets that rise from 0 or more to at most %lld rows, found "
                 "offset[%lld] = %lld",
                 hi, at, found);
        return MF_EPLUGIN;
    }
}

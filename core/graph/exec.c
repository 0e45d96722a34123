/* graph/exec.c: what ops may ask of the run: threads and random numbers. */
#include "graph/exec.h"

#include "base/parallel.h"
#include "base/rng.h"

static void exec_parallel(const mf_exec *x, int64_t tiles, void (*fn)(void *arg, int64_t tile),
                          void *arg)
{
    (void)x;
    mf_parallel(tiles, fn, arg);
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

void mf_exec_init(mf_exec *x, const struct mf_kernels *kernels, bool training, uint64_t seed,
                  uint64_t step)
{
    *x = (mf_exec){
        .size = sizeof *x,
        .training = training,
        .seed = seed,
        .step = step,
        .kernels = kernels,
        .parallel = exec_parallel,
        .rng_uniform = exec_uniform,
        .rng_normal = exec_normal,
    };
}

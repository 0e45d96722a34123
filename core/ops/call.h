/* ops/call.h: shorthand for the forward and backward functions of core's ops.
 *
 * An op checks nothing here that infer has checked; it hands pointers and sizes to one kernel
 * of the set that the run uses.
 */
#ifndef MF_OPS_CALL_H
#define MF_OPS_CALL_H

#include <moefw/op.h>
#include "base/parallel.h"
#include "base/rng.h"
#include "graph/graph.h"
#include "kernels/kernel.h"

/* The run's kernel set. */
static inline const mf_kernels *mf_call_kernels(const mf_call *call)
{
    return call->exec->kernels;
}
static inline mf_kctx mf_call_kctx(const mf_call *call)
{
    mf_kctx x = {mf_parallel, mf_rng_block, call->exec->seed, call->exec->step,
                 mf_parallel_threads()};
    return x;
}
static inline bool mf_call_is_bf16(const mf_call *call, int i)
{
    return call->in[i].dtype == MF_BF16;
}
/* The weight of a product, input 1, is in panels. */
static inline bool mf_call_panels(const mf_call *call)
{
    return call->in[1].reserved & MF_VIEW_PANELS;
}
/* Data of an input; NULL when it is absent. */
static inline const float *mf_call_f32(const mf_call *call, int i)
{
    return (const float *)call->in[i].data;
}
static inline const int32_t *mf_call_i32(const mf_call *call, int i)
{
    return (const int32_t *)call->in[i].data;
}
static inline float *mf_call_out(const mf_call *call, int i)
{
    return (float *)call->out[i].data;
}
static inline int32_t *mf_call_out_i32(const mf_call *call, int i)
{
    return (int32_t *)call->out[i].data;
}

#endif

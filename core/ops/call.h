/* ops/call.h: short helper functions for the forward and backward functions of core's ops.
 *
 * The ops' functions do not repeat the checks of infer, and never read the elements of a
 * tensor: they launch kernels of the run's set with pointers and sizes. */
#ifndef MF_OPS_CALL_H
#define MF_OPS_CALL_H

#include <moefw/op.h>
#include "base/thread/parallel.h"
#include "base/rng.h"
#include "graph/exec.h"
#include "graph/graph.h"
#include "kernels/kernel.h"

/* Returns the kernel set of the run. */
static inline const mf_kernels *mf_call_kernels(const mf_call *call)
{
    return call->exec->kernels;
}
/* Returns the launch context for kernels that this op calls. */
static inline mf_kctx mf_call_kctx(const mf_call *call)
{
    const mf_launch *launch = mf_call_launch(call);
    return (mf_kctx){.parallel = mf_parallel,
                     .rng_block = mf_rng_block,
                     .key = launch->key,
                     .threads = mf_parallel_threads(),
                     .fault = launch->fault,
                     .stream = launch->stream,
                     .node = launch->node};
}
/* Runs a kernel with these arguments, as MF_RUN does. */
#define MF_RUN_OP(call, fn, ...)                                                               \
    do {                                                                                       \
        const mf_kctx op_context = mf_call_kctx(call);                                         \
        MF_RUN(mf_call_kernels(call), &op_context, fn, __VA_ARGS__);                           \
    } while (0)
static inline bool mf_call_is_bf16(const mf_call *call, int i)
{
    return call->in[i].dtype == MF_BF16;
}
/* Returns the type of a value in the form that kernels use. */
static inline mf_cast_type mf_call_type(const mf_view *v)
{
    return (mf_cast_type)v->dtype;
}
/* Whether the weight of a gemm (input 1) is stored in panels. */
static inline bool mf_call_packed(const mf_call *call)
{
    return call->in[1].reserved & MF_VIEW_PANELS;
}
/* Returns the stored form of the weight in input i; NULL if input i is no stored weight. */
static inline const mf_stored *mf_call_stored(const mf_call *call, int i)
{
    return call->in[i].reserved & MF_VIEW_STORED ? call->in[i].data : NULL;
}
/* Returns the data of an input; NULL if the input is absent. */
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

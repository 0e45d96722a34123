/* moefw/op.h: ops, core's and plugins' alike.
 *
 * An op is one constant table entry: how shapes follow from shapes, how values are computed,
 * and how gradients are: either composed of other ops (grad) or by a fused function (backward).
 * An op that has neither may stand only where no gradient must pass; elsewhere adding it fails
 * at once, naming op, plugin and layer.
 *
 * Functions of an op run on worker threads' behalf: they must not allocate, must not keep
 * pointers, and must give the same bits on every call with the same inputs. Randomness comes
 * from mf_exec's rng functions, parallelism from mf_exec's parallel.
 */
#ifndef MOEFW_OP_H
#define MOEFW_OP_H

#include <moefw/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MF_OP_MAX_IN   8
#define MF_OP_MAX_OUT  4
#define MF_OP_MAX_ARGS (MF_OP_MAX_IN + 2 * MF_OP_MAX_OUT) /* of a fused backward call */

/* Given while the graph is built: input types in, output types out. */
typedef struct mf_infer {
    uint32_t size;
    int32_t n_in, n_out;        /* n_out: set by infer, 1 .. MF_OP_MAX_OUT */
    const mf_view *in;          /* data is NULL; an absent optional input has rank -1 */
    mf_view *out;               /* set dtype and shape of each output */
    const mf_attr *attr;
    const void *user;           /* mf_opdef.user of a custom op */
    size_t work_bytes;          /* scratch that forward wants, set by infer; default 0 */
    size_t backward_work_bytes; /* scratch that backward wants */
    /* Records the reason and returns MF_ESHAPE: return in->fail(in, "expected ..., found
     * ..."). */
    int (*fail)(const struct mf_infer *in, const char *fmt, ...);
    /* Set by infer of matrix products: additions and multiplications of forward and of
     * backward; default 0. Only reported, as the yardstick of what a model costs. */
    double flops, backward_flops;
} mf_infer;

/* The run that a call belongs to. */
typedef struct mf_exec {
    uint32_t size;
    uint32_t training; /* 1 in a training step, 0 in evaluation and generation */
    uint64_t seed, step;
    const struct mf_kernels *kernels; /* core's own ops only; opaque to plugins */
    /* Runs fn(arg, t) for t in [0, tiles), spread over threads. Cut tiles by shape only. */
    void (*parallel)(const struct mf_exec *x, int64_t tiles,
                     void (*fn)(void *arg, int64_t tile), void *arg);
    /* n numbers of the stream, beginning at `first`: the same at any thread count. */
    void (*rng_uniform)(const struct mf_exec *x, uint64_t stream, uint64_t first, int64_t n,
                        float *out);
    void (*rng_normal)(const struct mf_exec *x, uint64_t stream, uint64_t first, int64_t n,
                       float *out);
} mf_exec;

/* Given while the graph runs.
 * forward:  in[0 .. n_in) inputs, out[0 .. n_out) outputs.
 * backward: in = the op's inputs, then its outputs, then the gradients of its outputs (a
 *           gradient nobody needs has data NULL and counts as zero); out = gradients of its
 *           inputs, data NULL where not wanted. Every wanted output is to be fully written. */
typedef struct mf_call {
    uint32_t size;
    int32_t n_in, n_out;
    const mf_view *in;
    mf_view *out;
    const mf_attr *attr;
    const void *user;
    void *work;      /* the bytes that infer asked for, 64-aligned, content undefined */
    uint64_t stream; /* random stream of this node: stable across rebuilds of the graph */
    const mf_exec *exec;
    /* Records the reason and returns code: return call->fail(call, MF_EPLUGIN, "..."). */
    int (*fail)(const struct mf_call *call, int code, const char *fmt, ...);
} mf_call;

/* What a composed gradient may look at. dout[i] is NULL when nothing flows into output i. */
typedef struct mf_gradient {
    uint32_t size;
    int32_t n_in, n_out;
    mf_tensor *const *in;
    mf_tensor *const *out;
    mf_tensor *const *dout;
    mf_tensor **din;       /* to be set where wants[i] is true; NULL means zero */
    const bool *wants;
    const mf_attr *attr;
    const void *user;
} mf_gradient;

#define MF_OP_NO_GRAD 1u   /* outputs never carry a gradient (argmax, sorts, counts) */
#define MF_OP_INPLACE 2u   /* out[0] may share memory with in[0] (same bytes per element) */
#define MF_OP_RANDOM  4u   /* reads the random stream */
#define MF_OP_STATE   8u   /* out[0] is in[0] (a leaf), written in place; never moved or
                              dropped */
#define MF_OP_ALIAS   16u  /* out[0] is in[0]'s memory under another shape; forward is not
                              called */
#define MF_OP_CHEAP   32u  /* costs little beside a product, and its own gradient reads its
                              inputs: train.recompute = light computes it again instead of
                              keeping it */
#define MF_OP_ROWS    128u /* its gradient is a few rows of input 0: where others have given
                              that input a gradient, op NAME_accumulate(gradient, inputs 1 ..,
                              gradient of output 0) adds them to it in place */
/* Backward may write the gradient of input 0 over that of output 0, which it has read by then
 * at every place that it writes. */
#define MF_OP_GRAD_INPLACE 256u
/* out[0] may share memory with in[1] as well, where that has as many elements. */
#define MF_OP_INPLACE_SECOND 512u
/* Backward gives output 0 again, the same bits, where the call has room for it behind the
 * gradients of the inputs: n_out is then one more than the op has inputs. It may lie over the
 * gradient of output 0, which has been read by then at every place that is written. Ops of one
 * output. */
#define MF_OP_GIVES_AGAIN 1024u
#define MF_OP_NARROW  64u  /* a product: graphs that compute in bf16 hand it its bf16_in as
                              bf16 */

typedef struct mf_opdef {
    uint32_t size;
    uint32_t flags;
    const char *name;
    const char *formula; /* one line for humans: "y = x W^T + b" */
    int (*infer)(mf_infer *in);
    int (*forward)(const mf_call *call);
    int (*grad)(mf_graph *g, const mf_gradient *at); /* composed, or NULL */
    int (*backward)(const mf_call *call);            /* fused, or NULL */
    /* Bit i set: backward reads input / output i. What it does not read may be overwritten
     * before the backward pass comes. */
    uint32_t backward_in, backward_out;
    uint32_t diff_in; /* bit i set: a gradient may flow into input i (float inputs only) */
    /* Bit i set: backward may write the gradient of input i over the data of input i, which it
     * has read by then at every place that it writes. */
    uint32_t backward_over;
    const void *user; /* handed to every call; constant data of the plugin, or NULL */
    /* Bit i set: input i may be bf16; those that are floats then have one type. Elsewhere, and
     * where some of them are f32, bf16 values are widened before the op sees them: an op that
     * knows f32 alone leaves this 0. */
    uint32_t bf16_in;
    uint32_t reserved;
} mf_opdef;

#ifdef __cplusplus
}
#endif
#endif

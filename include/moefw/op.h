/* moefw/op.h: ops of core and of plugins.
 *
 * An op is one constant table. It defines how the output shapes follow from the input shapes,
 * and how the values and the gradients are computed. Gradients are composed of other ops (grad)
 * or computed by a fused function (backward). An op with neither may only be used where no
 * gradient must pass. Elsewhere adding the op fails at once, with op, plugin and layer named.
 *
 * forward and backward run in the middle of a step. They must not allocate, must not keep
 * pointers, and must compute the same bits on every call with the same inputs. Random numbers
 * come from mf_exec's rng functions, parallelism from mf_exec's parallel. */
#ifndef MOEFW_OP_H
#define MOEFW_OP_H

#include <moefw/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MF_OP_MAX_IN  8
#define MF_OP_MAX_OUT 4
/* greatest number of tensors in one call of backward */
#define MF_OP_MAX_ARGS (MF_OP_MAX_IN + 2 * MF_OP_MAX_OUT)

/* The arguments of infer, while the graph is built: input types and shapes in, output types and
 * shapes out. */
typedef struct mf_infer {
    uint32_t size;
    int32_t n_in, n_out; /* number of inputs; number of outputs, set by infer, 1
                          * .. MF_OP_MAX_OUT */
    const mf_view *in;   /* data is NULL; an absent optional input has rank -1 */
    mf_view *out;        /* infer sets dtype and shape of each output */
    const mf_attr *attr;
    const void *user; /* mf_opdef.user of a custom op */
    /* bytes of scratch memory for forward, set by infer; default 0 */
    size_t work_bytes;
    /* bytes of scratch memory for backward, set by infer; default 0 */
    size_t backward_work_bytes;
    /* Records the reason and returns MF_ESHAPE. Usage: return in->fail(in, "expected ..., but
     * found ..."). */
    int (*fail)(const struct mf_infer *in, const char *fmt, ...);
    /* Set by infer of a gemm: number of floating-point operations of forward and of backward;
     * default 0. They are only reported, as a measure of a model's cost. */
    double flops, backward_flops;
} mf_infer;

/* The run of a graph to which a call belongs. */
typedef struct mf_exec {
    uint32_t size;
    uint32_t training; /* 1 in a training step, 0 in evaluation and generation */
    uint64_t seed, step;
    const struct mf_kernels *kernels; /* for core's own ops; opaque to plugins */
    /* Runs fn(arg, t) for t in [0, tiles), distributed over threads. The number of tiles must
     * depend only on shapes, never on the number of threads. */
    void (*parallel)(const struct mf_exec *x, int64_t tiles,
                     void (*fn)(void *arg, int64_t tile), void *arg);
    /* Writes n numbers of the stream, from number `first` on. The numbers do not depend on the
     * number of threads. */
    void (*rng_uniform)(const struct mf_exec *x, uint64_t stream, uint64_t first, int64_t n,
                        float *out);
    void (*rng_normal)(const struct mf_exec *x, uint64_t stream, uint64_t first, int64_t n,
                       float *out);
} mf_exec;

/* The arguments of forward and backward, while the graph runs.
 * forward:  in[0 .. n_in) inputs, out[0 .. n_out) outputs.
 * backward: in = the op's inputs, then its outputs, then the gradients of its outputs (data is
 *           NULL where no gradient reaches the output; it counts as zero); out = gradients of
 *           its inputs (data is NULL where the gradient is not requested).
 * The function must write every element of each requested output. */
typedef struct mf_call {
    uint32_t size;
    int32_t n_in, n_out;
    const mf_view *in;
    mf_view *out;
    const mf_attr *attr;
    const void *user;
    /* scratch memory of the size that infer set, 64-byte aligned, content undefined */
    void *work;
    /* random stream of this node; it stays the same when the graph is built again */
    uint64_t stream;
    const mf_exec *exec;
    /* Records the reason and returns code: return call->fail(call, MF_EPLUGIN, "..."). */
    int (*fail)(const struct mf_call *call, int code, const char *fmt, ...);
} mf_call;

/* The stream in which a launch function queues its work. */
typedef struct mf_on_device {
    uint32_t size;
    const char *device; /* mf_device_op.device of the entry that was chosen */
    /* The device's stream, of a type that the backend declares ("cuda": cudaStream_t). Work in
     * this stream runs in order with all other work of the run. */
    void *stream;
} mf_on_device;

/* ---- device code of an op, as data ----
 *
 * A plugin may contain kernels that its author has compiled, as bytes of its own file. The
 * plugin is not linked with any library of CUDA, and loads on machines without CUDA.
 * moefw/kernel.cuh is for the source file of the kernels. MF_DEVICE_IMAGE puts the output of
 * the compiler into the plugin. */

/* The only parameter of each kernel: the arguments of the op's function, with data and work in
 * memory of the device. A kernel that was compiled with older headers gets only the
 * first bytes. */
typedef struct mf_kernel_args {
    uint32_t size;
    int32_t n_in, n_out;
    int32_t reserved;
    mf_view in[MF_OP_MAX_ARGS]; /* with the meaning of mf_call.in */
    mf_view out[MF_OP_MAX_IN];  /* with the meaning of mf_call.out */
    mf_attr attr;               /* mf_kernel_launch.attr */
    void *work;
    /* Not 0 if an earlier op of this run has failed. Indices may then be wrong, and a kernel
     * that uses them as addresses must return. The run ends with the message of that op. */
    const int32_t *fault;
} mf_kernel_args;

/* One launch. A function of the op's plugin fills it in. */
typedef struct mf_kernel_launch {
    uint32_t size;
    uint32_t grid[3];      /* number of blocks, initially 1 each; if one is 0, nothing
                            * is launched */
    uint32_t block[3];     /* number of threads of a block, initially 1 each */
    uint32_t shared_bytes; /* bytes of dynamic shared memory; initially 0 */
    mf_attr attr;          /* initially the attributes of the op; the kernel gets the values
                            * that the function leaves here */
} mf_kernel_launch;

typedef struct mf_device_kernel {
    uint32_t size;
    const char *name; /* name of the kernel in the image; NULL ends a list, in which all entries
                       * have the same size */
    /* Fills in *ret from the shapes. It is called on the host and must not read or write data
     * or work. It may refuse: return call->fail(call, MF_EPLUGIN, "..."). */
    int (*launch)(const mf_call *call, mf_kernel_launch *ret);
} mf_device_kernel;

#define MF_DEVICE_KERNELS 8 /* greatest number of kernels in a list */

typedef struct mf_device_code {
    uint32_t size;
    /* The bytes from image to image_end are constant data of the plugin. For "cuda": a fat
     * binary (nvcc -fatbin) or an ELF file of one architecture (nvcc -cubin). */
    const void *image, *image_end;
    /* Kernels that are launched one after another. backward: NULL if op->backward is NULL. */
    const mf_device_kernel *forward, *backward;
} mf_device_code;

/* How an op runs on a device other than the host. The functions are called on the host, with a
 * call whose data and work are memory of the device. They queue work in the stream and return,
 * without waiting and without reading or writing this memory. The queued work may depend on the
 * step only through device memory, because it may be recorded once and repeated. */
typedef struct mf_device_op {
    uint32_t size;
    const char *device; /* "cuda"; NULL ends a list, in which all entries have the same size */
    int (*forward)(const mf_call *call, const mf_on_device *on);
    int (*backward)(const mf_call *call,
                    const mf_on_device *on); /* NULL if op->backward is NULL */
    /* Used instead of functions: forward and backward are NULL, and core launches these
     * kernels. The op draws no random numbers (MF_OP_RANDOM). NULL: there is no such code. */
    const mf_device_code *code;
} mf_device_op;

#if defined(__GNUC__) && defined(__ELF__)
/* Declares NAME and NAME_end, between which are the bytes of a file (a string literal), for
 * image and image_end. The compiler searches for the file as for an included file. */
#define MF_DEVICE_IMAGE(name, file)                                                            \
    __asm__(".pushsection .rodata\n.balign 64\n.globl " #name "\n.hidden " #name               \
            "\n.globl " #name "_end\n.hidden " #name "_end\n" #name ":\n.incbin \"" file       \
            "\"\n" #name "_end:\n.byte 0\n.popsection\n");                                     \
    extern __attribute__((visibility("hidden"))) const unsigned char name[], name##_end[]
#endif

/* The arguments of grad. dout[i] is NULL if no gradient reaches output i. */
typedef struct mf_gradient {
    uint32_t size;
    int32_t n_in, n_out;
    mf_tensor *const *in;
    mf_tensor *const *out;
    mf_tensor *const *dout;
    mf_tensor **din; /* grad sets din[i] if wants[i] is true; NULL means zero */
    const bool *wants;
    const mf_attr *attr;
    const void *user;
} mf_gradient;

#define MF_OP_NO_GRAD 1u /* outputs never have a gradient (argmax, sorts, counts) */
#define MF_OP_INPLACE 2u /* out[0] may share memory with in[0], if their sizes are equal */
#define MF_OP_RANDOM  4u /* uses random numbers */
/* out[0] is in[0] (a parameter, a buffer or an input of the graph), written in place; the node
 * is never moved or dropped. */
#define MF_OP_STATE 8u
/* out[0] is in[0]'s memory with another shape; forward is not called. */
#define MF_OP_ALIAS 16u
/* The op costs little compared with a gemm, and its gradient reads its inputs. With
 * train.recompute = light or block its output is recomputed and not kept. */
#define MF_OP_CHEAP 32u
/* The gradient of input 0 is zero except in a few rows. `user` points to another op (an
 * mf_opdef) with the inputs (gradient of input 0, inputs 1 .., gradient of output 0). If other
 * ops contribute to the gradient of input 0, this second op adds the rows to the gradient
 * in place. */
#define MF_OP_ROWS 128u
/* Backward may write the gradient of input 0 over that of output 0: it reads each element
 * before it overwrites the element. */
#define MF_OP_GRAD_INPLACE 256u
/* out[0] may also share memory with in[1], if their sizes are equal. */
#define MF_OP_INPLACE_SECOND 512u
/* Backward can recompute output 0 with the same bits. It does so if n_out is the number of
 * inputs plus 1: the last output, after the gradients of the inputs, is then the memory for
 * output 0. This may be the memory of output 0's gradient, so backward must read each element
 * of the gradient before it overwrites the element. Only ops with one output may have
 * this flag. */
#define MF_OP_RECOMPUTES_OUT 1024u
/* Since 0.2. Straight-through: the op's gradient intentionally differs from the derivative of
 * its values, as in rounding that passes the gradient unchanged. `plugin check` then does not
 * compare the two, but checks everything else. */
#define MF_OP_STRAIGHT_THROUGH 2048u
/* A gemm: graphs that compute in bf16 convert its inputs in bf16_in to bf16. */
#define MF_OP_GEMM 64u

/* The role of an op. Searches in a graph use the role, not the op's name. */
typedef enum mf_op_role {
    MF_ROLE_NONE = 0,
    MF_ROLE_LINEAR = 1,         /* y = x W^T + b: in[0] x, in[1] W */
    MF_ROLE_GROUPED_LINEAR = 2, /* y = W x + b for rows grouped by expert: in[0] x, in[1] W,
                                 * in[2] offsets */
    MF_ROLE_GROUPED_ATTENTION = 3,
    /* Roles of ops that the graph itself adds; only ops of core have them. */
    MF_ROLE_ADD = 4,
    MF_ROLE_CAST = 5,
    MF_ROLE_ASSIGN = 6,
    MF_ROLE_ACCUMULATE = 7,
    MF_ROLE_DISPATCH_ROWS = 8 /* y[p] = x[token[p]]: in[0] x, in[1] token */
} mf_op_role;

typedef struct mf_opdef {
    uint32_t size;
    uint32_t flags;
    const char *name;
    const char *formula; /* one readable line: "y = x W^T + b" */
    int (*infer)(mf_infer *in);
    int (*forward)(const mf_call *call);
    int (*grad)(mf_graph *g, const mf_gradient *at); /* gradient composed of ops, or NULL */
    int (*backward)(const mf_call *call);            /* fused gradient, or NULL */
    /* Bit i set: backward reads input / output i. Values that backward does not read may be
     * overwritten before the backward pass. */
    uint32_t backward_in, backward_out;
    uint32_t diff_in; /* bit i set: a gradient may flow into input i (float inputs only) */
    /* Bit i set: backward may write the gradient of input i over the data of input i, because
     * backward reads each element before it overwrites the element. */
    uint32_t backward_over;
    const void *user; /* passed to every call; constant data of the plugin, or NULL */
    /* Bit i set: input i may be bf16. All float inputs with a bit set have the same type in a
     * call: bf16 if all of them are bf16 (see also MF_OP_GEMM), else f32. bf16 values of other
     * inputs are converted to f32. An op that supports only f32 leaves this 0. */
    uint32_t bf16_in;
    uint32_t role; /* mf_op_role, since 0.2; 0 in tables of earlier versions */
    /* One entry for each device that the op supports, and a last entry with device NULL; or
     * NULL. On a device without an entry the op runs on the host, with copies of its data
     * before and after. This is logged once. Since 0.2. */
    const mf_device_op *launch;
} mf_opdef;

/* ---- since 0.2: an op with inputs to check it on (mf_plugin.examples) ---- */

/* `plugin check` runs the op alone on such inputs. It checks shapes, that the bits do not
 * depend on the number of threads, and that nothing is written outside of outputs and work. It
 * also compares gradients with differences. */
typedef struct mf_op_example {
    uint32_t size;
    int32_t n_in; /* number of inputs, including absent inputs */
    const mf_opdef *op;
    mf_shape shape[MF_OP_MAX_IN]; /* rank -1: the input is absent */
    mf_dtype dtype[MF_OP_MAX_IN]; /* MF_F32 or MF_I32 */
    /* Values are drawn from lo .. hi, as whole numbers for i32; if both are 0, from -2 .. 2.
     * Where the op is differentiable, choose ranges without kinks and jumps. */
    double lo[MF_OP_MAX_IN], hi[MF_OP_MAX_IN];
    mf_attr attr;
} mf_op_example;

#ifdef __cplusplus
}
#endif
#endif

/* moefw/ops.h: the ops of core as inline functions; the text above each is its contract.
 *
 * All take the graph and give a new value, or NULL after any failure (the graph keeps the first
 * one: end with `return mf->status(g)`). Every op with float outputs has a gradient unless
 * marked [no gradient]. "rows" of a tensor are its last dimension's vectors: softmax of [B,T,E]
 * works on each of the B T rows. Broadcasting is numpy's: shapes align at the last dimension,
 * sizes equal or 1.
 *
 * The functions reach the host through the slot `mf`, which this header declares for a plugin
 * of one file. Elsewhere define MF_HOST_SLOT to an expression of type const mf_host * first.
 */
#ifndef MOEFW_OPS_H
#define MOEFW_OPS_H

#include <moefw/host.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef MF_HOST_SLOT
#if defined(__GNUC__)
__attribute__((unused))
#endif
static const mf_host *mf;
#define MF_HOST_SLOT mf
#endif

static inline mf_attr mf_attr0(void)
{
    mf_attr a;
    for (int i = 0; i < MF_ATTR_INTS; i++)
        a.i[i] = 0;
    for (int i = 0; i < MF_ATTR_REALS; i++)
        a.f[i] = 0;
    return a;
}
static inline mf_tensor *mf_op1(mf_graph *g, const char *name, mf_tensor *a,
                                const mf_attr *attr)
{
    return MF_HOST_SLOT->op(g, name, 1, &a, attr, 1, NULL);
}
static inline mf_tensor *mf_op2(mf_graph *g, const char *name, mf_tensor *a, mf_tensor *b,
                                const mf_attr *attr)
{
    mf_tensor *in[2];
    in[0] = a;
    in[1] = b;
    return MF_HOST_SLOT->op(g, name, 2, in, attr, 1, NULL);
}
static inline mf_tensor *mf_op3(mf_graph *g, const char *name, mf_tensor *a, mf_tensor *b,
                                mf_tensor *c, const mf_attr *attr)
{
    mf_tensor *in[3];
    in[0] = a;
    in[1] = b;
    in[2] = c;
    return MF_HOST_SLOT->op(g, name, 3, in, attr, 1, NULL);
}
static inline mf_tensor *mf_op4(mf_graph *g, const char *name, mf_tensor *a, mf_tensor *b,
                                mf_tensor *c, mf_tensor *d, const mf_attr *attr)
{
    mf_tensor *in[4];
    in[0] = a;
    in[1] = b;
    in[2] = c;
    in[3] = d;
    return MF_HOST_SLOT->op(g, name, 4, in, attr, 1, NULL);
}

/* Usual start values of parameters. */
static inline mf_init mf_init_of(mf_init_kind kind, double a, uint32_t flags)
{
    mf_init i;
    i.kind = (uint32_t)kind;
    i.flags = flags;
    i.a = a;
    return i;
}
#define MF_NORMAL(std)  mf_init_of(MF_INIT_NORMAL, std, 0)
#define MF_ZEROS        mf_init_of(MF_INIT_ZERO, 0, MF_PARAM_NO_DECAY)
#define MF_CONST(value) mf_init_of(MF_INIT_CONST, value, MF_PARAM_NO_DECAY)

/* ------------------------------------------------------------------ products */

/* y [...,out] = x [...,in] w[out,in]^T + b[out]; b may be NULL. */
static inline mf_tensor *mf_linear(mf_graph *g, mf_tensor *x, mf_tensor *w, mf_tensor *b)
{
    return mf_op3(g, "linear", x, w, b, NULL);
}
/* y = scale op(a) op(b), rank 2, or rank 3 with equal first dimension (a product for each
 * index). op transposes the last two dimensions where trans_ is true. */
static inline mf_tensor *mf_matmul(mf_graph *g, mf_tensor *a, bool trans_a, mf_tensor *b,
                                   bool trans_b, double scale)
{
    mf_attr t = mf_attr0();
    t.i[0] = trans_a;
    t.i[1] = trans_b;
    t.f[0] = scale;
    return mf_op2(g, "matmul", a, b, &t);
}
/* Rows grouped by expert: y[r] = w[e] x[r] + b[e] for offset[e] <= r < offset[e+1]; zero rows
 * past offset[E]. x [R,in], w [E,out,in], offset [E+1] i32, b [E,out] or NULL -> [R,out]. */
static inline mf_tensor *mf_grouped_linear(mf_graph *g, mf_tensor *x, mf_tensor *w,
                                           mf_tensor *offset, mf_tensor *b)
{
    return mf_op4(g, "grouped_linear", x, w, offset, b, NULL);
}

/* ------------------------------------------------------------------ elementwise */

#define MF_BINARY(fn, op)                                                                      \
    static inline mf_tensor *fn(mf_graph *g, mf_tensor *a, mf_tensor *b)                       \
    {                                                                                          \
        return mf_op2(g, op, a, b, NULL);                                                      \
    }
#define MF_UNARY(fn, op)                                                                       \
    static inline mf_tensor *fn(mf_graph *g, mf_tensor *x)                                     \
    {                                                                                          \
        return mf_op1(g, op, x, NULL);                                                         \
    }
MF_BINARY(mf_add, "add") /* a + b, broadcast */
MF_BINARY(mf_sub, "sub")
MF_BINARY(mf_mul, "mul")
MF_BINARY(mf_div, "div")
MF_BINARY(mf_maximum, "maximum") /* the gradient goes to the larger; to a when equal */
MF_BINARY(mf_minimum, "minimum")
MF_BINARY(mf_greater, "greater") /* 1 where a > b, else 0 [no gradient] */
MF_UNARY(mf_exp, "exp")
MF_UNARY(mf_ln, "log") /* natural logarithm */
MF_UNARY(mf_sqrt, "sqrt")
MF_UNARY(mf_square, "square")
MF_UNARY(mf_reciprocal, "reciprocal")
MF_UNARY(mf_abs, "abs")             /* gradient 0 at 0 */
MF_UNARY(mf_relu, "relu")           /* gradient 0 at 0 */
MF_UNARY(mf_gelu, "gelu")           /* x Phi(x), by erf */
MF_UNARY(mf_gelu_tanh, "gelu_tanh") /* the tanh approximation (GPT-2) */
MF_UNARY(mf_silu, "silu")           /* x sigmoid(x) */
MF_UNARY(mf_sigmoid, "sigmoid")
MF_UNARY(mf_tanh, "tanh")
MF_UNARY(mf_softplus, "softplus")   /* ln(1 + e^x) */
MF_UNARY(mf_normal_cdf, "normal_cdf") /* Phi(x) */
MF_UNARY(mf_xlogx, "xlogx")         /* x ln x, 0 at 0 (value and gradient) */
MF_UNARY(mf_sign, "sign")           /* -1, 0, 1 [no gradient] */
MF_UNARY(mf_stop_gradient, "stop_gradient") /* x forward, nothing backward */

/* y = a x + b with constants a, b */
static inline mf_tensor *mf_affine(mf_graph *g, mf_tensor *x, double a, double b)
{
    mf_attr t = mf_attr0();
    t.f[0] = a;
    t.f[1] = b;
    return mf_op1(g, "affine", x, &t);
}
static inline mf_tensor *mf_scale(mf_graph *g, mf_tensor *x, double a)
{
    return mf_affine(g, x, a, 0);
}
/* min(max(x, lo), hi); gradient 0 outside */
static inline mf_tensor *mf_clamp(mf_graph *g, mf_tensor *x, double lo, double hi)
{
    mf_attr t = mf_attr0();
    t.f[0] = lo;
    t.f[1] = hi;
    return mf_op1(g, "clamp", x, &t);
}
/* silu(a) b (Shazeer 2020, eq. 6). With b NULL, a is [...,2h]: its first half gates the
 * second. */
static inline mf_tensor *mf_swiglu(mf_graph *g, mf_tensor *a, mf_tensor *b)
{
    return mf_op2(g, "swiglu", a, b, NULL);
}
/* gate silu(a) b, gate [...,1] f32: a number a row. */
static inline mf_tensor *mf_swiglu_gated(mf_graph *g, mf_tensor *a, mf_tensor *b,
                                         mf_tensor *gate)
{
    return gate ? mf_op3(g, "swiglu", a, b, gate, NULL) : mf_swiglu(g, a, b);
}

/* ------------------------------------------------------------------ reductions, shape */

/* Bit i of axes: dimension i is summed over; MF_ALL: all, to a scalar (rank 0). keep leaves
 * reduced dimensions with size 1. */
#define MF_ALL 15u
static inline mf_tensor *mf_reduce(mf_graph *g, const char *op, mf_tensor *x, unsigned axes,
                                   bool keep)
{
    mf_attr t = mf_attr0();
    t.i[0] = axes;
    t.i[1] = keep;
    return mf_op1(g, op, x, &t);
}
static inline mf_tensor *mf_sum(mf_graph *g, mf_tensor *x, unsigned axes, bool keep)
{
    return mf_reduce(g, "sum", x, axes, keep);
}
static inline mf_tensor *mf_mean(mf_graph *g, mf_tensor *x, unsigned axes, bool keep)
{
    return mf_reduce(g, "mean", x, axes, keep);
}
/* largest of each row; the gradient goes to the first largest: [...,n] -> [...,1] */
static inline mf_tensor *mf_row_max(mf_graph *g, mf_tensor *x)
{
    return mf_op1(g, "row_max", x, NULL);
}
/* ln sum e^x of each row, stable: [...,n] -> [...,1] */
static inline mf_tensor *mf_logsumexp(mf_graph *g, mf_tensor *x)
{
    return mf_op1(g, "logsumexp", x, NULL);
}
/* Same elements in row-major order, another shape. No copy. */
static inline mf_tensor *mf_reshape(mf_graph *g, mf_tensor *x, mf_shape to)
{
    mf_attr t = mf_attr0();
    t.i[0] = to.rank;
    for (int i = 0; i < MF_MAX_RANK; i++)
        t.i[1 + i] = to.dim[i];
    return mf_op1(g, "reshape", x, &t);
}
/* Repeats along dimensions of size 1 (and new leading ones) up to the shape. */
static inline mf_tensor *mf_broadcast(mf_graph *g, mf_tensor *x, mf_shape to)
{
    mf_attr t = mf_attr0();
    t.i[0] = to.rank;
    for (int i = 0; i < MF_MAX_RANK; i++)
        t.i[1 + i] = to.dim[i];
    return mf_op1(g, "broadcast", x, &t);
}
/* Dimension i of the result is dimension perm_i of x; give as many as x has. */
static inline mf_tensor *mf_transpose(mf_graph *g, mf_tensor *x, int p0, int p1, int p2, int p3)
{
    mf_attr t = mf_attr0();
    t.i[0] = p0;
    t.i[1] = p1;
    t.i[2] = p2;
    t.i[3] = p3;
    return mf_op1(g, "transpose", x, &t);
}
/* Elements start .. start+count-1 of a dimension. */
static inline mf_tensor *mf_slice(mf_graph *g, mf_tensor *x, int axis, int64_t start,
                                  int64_t count)
{
    mf_attr t = mf_attr0();
    t.i[0] = axis;
    t.i[1] = start;
    t.i[2] = count;
    return mf_op1(g, "slice", x, &t);
}
/* n <= MF_OP_MAX_IN values one after the other along a dimension. */
static inline mf_tensor *mf_concat(mf_graph *g, int n, mf_tensor *const *x, int axis)
{
    mf_attr t = mf_attr0();
    t.i[0] = axis;
    return MF_HOST_SLOT->op(g, "concat", n, x, &t, 1, NULL);
}
/* To another type; i32 -> f32 exact below 2^24; no gradient through integers. */
static inline mf_tensor *mf_cast(mf_graph *g, mf_tensor *x, mf_dtype to)
{
    mf_attr t = mf_attr0();
    t.i[0] = to;
    return mf_op1(g, "cast", x, &t);
}

/* ------------------------------------------------------------------ softmax, norms,
 * attention */

MF_UNARY(mf_softmax, "softmax")         /* of each row */
MF_UNARY(mf_log_softmax, "log_softmax") /* of each row */

/* w x / sqrt(mean(x^2) + eps); eps_outside: w x / (sqrt(mean(x^2)) + eps). w [n] or NULL.
 * (Zhang, Sennrich 2019, eq. 4) */
static inline mf_tensor *mf_rmsnorm(mf_graph *g, mf_tensor *x, mf_tensor *w, double eps,
                                    bool eps_outside)
{
    mf_attr t = mf_attr0();
    t.i[0] = eps_outside;
    t.f[0] = eps;
    return mf_op2(g, "rmsnorm", x, w, &t);
}
/* (x - mean) / sqrt(var + eps) w + b, var of the whole row (divide by n). w, b [n] or NULL. */
static inline mf_tensor *mf_layernorm(mf_graph *g, mf_tensor *x, mf_tensor *w, mf_tensor *b,
                                      double eps)
{
    mf_attr t = mf_attr0();
    t.f[0] = eps;
    return mf_op3(g, "layernorm", x, w, b, &t);
}
/* The same of rows grouped by expert, w and b [E,n]; offset as for mf_grouped_linear. x [R,n]
 * -> [R,n], zero past offset[E]. */
static inline mf_tensor *mf_grouped_layernorm(mf_graph *g, mf_tensor *x, mf_tensor *offset,
                                              mf_tensor *w, mf_tensor *b, double eps)
{
    mf_attr t = mf_attr0();
    t.f[0] = eps;
    return mf_op4(g, "grouped_layernorm", x, offset, w, b, &t);
}
/* Rows divided by their Euclidean length, at least eps. */
static inline mf_tensor *mf_l2_normalize(mf_graph *g, mf_tensor *x, double eps)
{
    mf_attr t = mf_attr0();
    t.f[0] = eps;
    return mf_op1(g, "l2_normalize", x, &t);
}
/* Scaled dot-product attention (Vaswani et al. 2017, eq. 1), grouped-query where kv_heads <
 * heads. q [B T, heads hd], k and v [B S, kv_heads hd] -> [B T, heads hd]; B = batch. Or q
 * packed [B T, (heads + 2 kv_heads) hd] with k = v = NULL.
 * mask [B S] f32 or NULL: keys with 0 are not seen. kv_len [B] i32 or NULL: only the first
 * kv_len keys of a sequence are seen. causal: query t sees keys up to L - T + t, L = kv_len or
 * S. */
static inline mf_tensor *mf_attention(mf_graph *g, mf_tensor *q, mf_tensor *k, mf_tensor *v,
                                      mf_tensor *mask, mf_tensor *kv_len, int batch, int heads,
                                      int kv_heads, bool causal, double scale)
{
    mf_attr t = mf_attr0();
    mf_tensor *in[5];
    in[0] = q;
    in[1] = k;
    in[2] = v;
    in[3] = mask;
    in[4] = kv_len;
    t.i[0] = batch;
    t.i[1] = heads;
    t.i[2] = kv_heads;
    t.i[3] = causal;
    t.f[0] = scale;
    return MF_HOST_SLOT->op(g, "attention", 5, in, &t, 1, NULL);
}
/* Attention of rows grouped by expert, as mf_expert_in has them: q [R, heads hd], offset [E+1]
 * and token [R] i32, B = batch sequences of S tokens each; every expert has keys and values of
 * its own. own false: kv [B S, E 2 heads hd], for each expert keys and then values of all
 * tokens; a row sees the tokens of its sequence that mask [B S] (NULL: all) does not hide,
 * causal: those up to its own. own true: kv [R, 2 heads hd]; a row sees the rows of its expert;
 * mask NULL, causal false. -> [R, heads hd], zero past offset[E]. */
static inline mf_tensor *mf_grouped_attention(mf_graph *g, mf_tensor *q, mf_tensor *kv,
                                              mf_tensor *offset, mf_tensor *token,
                                              mf_tensor *mask, int batch, int heads,
                                              bool causal, bool own, double scale)
{
    mf_attr t = mf_attr0();
    mf_tensor *in[5];
    in[0] = q;
    in[1] = kv;
    in[2] = offset;
    in[3] = token;
    in[4] = mask;
    t.i[0] = batch;
    t.i[1] = heads;
    t.i[2] = causal;
    t.i[3] = own;
    t.f[0] = scale;
    return MF_HOST_SLOT->op(g, "grouped_attention", 5, in, &t, 1, NULL);
}
/* Rotary positions (Su et al. 2021, eq. 34) on the first n_heads heads of x [N, >= n_heads hd],
 * the rest copied. position [N] i32. half: pairs (i, i + hd/2); else interleaved (2i, 2i+1). */
static inline mf_tensor *mf_rope(mf_graph *g, mf_tensor *x, mf_tensor *position, int head_dim,
                                 int n_heads, bool half, double theta)
{
    mf_attr t = mf_attr0();
    t.i[0] = head_dim;
    t.i[1] = n_heads;
    t.i[2] = half;
    t.f[0] = theta;
    return mf_op2(g, "rope", x, position, &t);
}

/* ------------------------------------------------------------------ rows and indices */

/* rows of table [V,d] by ids (any shape, i32) -> [...,d] */
static inline mf_tensor *mf_embedding(mf_graph *g, mf_tensor *table, mf_tensor *ids)
{
    return mf_op2(g, "embedding", table, ids, NULL);
}
/* y[m] = x[index[m]], zero where index < 0. x [N,d], index [M] i32 -> [M,d] */
static inline mf_tensor *mf_gather_rows(mf_graph *g, mf_tensor *x, mf_tensor *index)
{
    return mf_op2(g, "gather_rows", x, index, NULL);
}
/* y[index[m]] += x[m], summed in the order of m; index < 0 skipped. -> [n,d] */
static inline mf_tensor *mf_scatter_rows(mf_graph *g, mf_tensor *x, mf_tensor *index, int64_t n)
{
    mf_attr t = mf_attr0();
    t.i[0] = n;
    return mf_op2(g, "scatter_rows", x, index, &t);
}
/* Row by row: y[n,j] = x[n, index[n,j]]; 0 where index < 0. x [N,E], index [N,k] -> [N,k] */
static inline mf_tensor *mf_take(mf_graph *g, mf_tensor *x, mf_tensor *index)
{
    return mf_op2(g, "take", x, index, NULL);
}
/* Row by row: y[n, index[n,j]] += x[n,j]. x, index [N,k] -> [N,width] */
static inline mf_tensor *mf_put(mf_graph *g, mf_tensor *x, mf_tensor *index, int64_t width)
{
    mf_attr t = mf_attr0();
    t.i[0] = width;
    return mf_op2(g, "put", x, index, &t);
}
/* Indices of the k largest of each row, largest first, ties to the lower index; NaN sorts last.
 * [N,E] -> [N,k] i32 [no gradient] */
static inline mf_tensor *mf_topk(mf_graph *g, mf_tensor *x, int64_t k)
{
    mf_attr t = mf_attr0();
    t.i[0] = k;
    return mf_op1(g, "topk", x, &t);
}
/* 1 at the index, else 0: i32 [...] -> f32 [...,n] [no gradient] */
static inline mf_tensor *mf_one_hot(mf_graph *g, mf_tensor *index, int64_t n)
{
    mf_attr t = mf_attr0();
    t.i[0] = n;
    return mf_op1(g, "one_hot", index, &t);
}
/* How often each of 0..n-1 stands in index (i32, negatives skipped), each counted with its
 * weight (f32, same shape) or 1 when weight is NULL -> f32 [n]. Gradient to the weights. */
static inline mf_tensor *mf_bincount(mf_graph *g, mf_tensor *index, mf_tensor *weight,
                                     int64_t n)
{
    mf_attr t = mf_attr0();
    t.i[0] = n;
    return mf_op2(g, "bincount", index, weight, &t);
}

/* ------------------------------------------------------------------ randomness, loss */

/* Uniform in [0,1) / standard normal numbers of this node's stream, new at each step. */
static inline mf_tensor *mf_random(mf_graph *g, const char *op, mf_shape shape)
{
    mf_attr t = mf_attr0();
    t.i[0] = shape.rank;
    for (int i = 0; i < MF_MAX_RANK; i++)
        t.i[1 + i] = shape.dim[i];
    return MF_HOST_SLOT->op(g, op, 0, NULL, &t, 1, NULL);
}
static inline mf_tensor *mf_uniform(mf_graph *g, mf_shape shape)
{
    return mf_random(g, "uniform", shape);
}
static inline mf_tensor *mf_gaussian(mf_graph *g, mf_shape shape)
{
    return mf_random(g, "gaussian", shape);
}
/* In training x u / (1 - p) with u Bernoulli(1 - p); in evaluation x. */
static inline mf_tensor *mf_dropout(mf_graph *g, mf_tensor *x, double p)
{
    mf_attr t = mf_attr0();
    t.f[0] = p;
    return mf_op1(g, "dropout", x, &t);
}
/* Mean of -ln softmax(logits)[target] over rows, weighted by weight [N] (NULL: 1); rows with
 * target < 0 do not count; 0 when none does. logits [N,V], target [N] i32 -> scalar. */
static inline mf_tensor *mf_cross_entropy(mf_graph *g, mf_tensor *logits, mf_tensor *target,
                                          mf_tensor *weight)
{
    return mf_op3(g, "cross_entropy", logits, target, weight, NULL);
}

#undef MF_BINARY
#undef MF_UNARY
#ifdef __cplusplus
}
#endif
#endif

/* moefw/ops.h: the ops of core as inline functions; the comment above each is its contract.
 *
 * All functions take the graph and return a new value, or NULL after any failure (the graph
 * keeps the first failure: end with `return mf->status(g)`). Every op with float outputs has a
 * gradient unless it is marked [no gradient]. The rows of a tensor are the vectors along its
 * last dimension: softmax of [B,T,E] works on each of the B T rows. Broadcasting follows numpy:
 * shapes align at the last dimension, sizes are equal or 1.
 *
 * The functions call the host through the slot `mf`, which this header declares for a plugin
 * with one source file. Other code defines MF_HOST_SLOT before it includes this header: an
 * expression that is a pointer to a const mf_host. */
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
#define MF_PLACES    /* calls pass their file and line: see the end of this file */
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

/* Makes an mf_init. The macros below are the usual initial values of parameters. */
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

/* ------------------------------------------------------------------ gemm */

/* y [...,out] = x [...,in] w[out,in]^T + b[out]; b may be NULL. */
static inline mf_tensor *mf_linear(mf_graph *g, mf_tensor *x, mf_tensor *w, mf_tensor *b)
{
    return mf_op3(g, "linear", x, w, b, NULL);
}
/* y = scale op(a) op(b), rank 2, or rank 3 with equal first dimension (one gemm for each
 * index). op transposes the last two dimensions if trans_a or trans_b is true. */
static inline mf_tensor *mf_matmul(mf_graph *g, mf_tensor *a, bool trans_a, mf_tensor *b,
                                   bool trans_b, double scale)
{
    mf_attr t = mf_attr0();
    t.i[0] = trans_a;
    t.i[1] = trans_b;
    t.f[0] = scale;
    return mf_op2(g, "matmul", a, b, &t);
}
/* Rows grouped by expert: y[r] = w[e] x[r] + b[e] for offset[e] <= r < offset[e+1]. Rows past
 * offset[E] are zero, and, since 0.2, also rows before offset[0]. Therefore mf_slice(offset, 0,
 * i, n + 1) selects the n experts from i on, so that experts of one layer may differ. x [R,in],
 * w [E,out,in], offset [E+1] i32, b [E,out] or NULL -> [R,out]. */
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
/* The next seven functions take two values of a float type, or, since 0.2, two of i32. With i32
 * they compute modulo 2^32, quotients are rounded towards zero, a / 0 = 0, and there is [no
 * gradient]. Shapes are broadcast. The result has the type of the inputs. */
MF_BINARY(mf_add, "add") /* a + b */
MF_BINARY(mf_sub, "sub")
MF_BINARY(mf_mul, "mul")
MF_BINARY(mf_div, "div")
MF_BINARY(mf_maximum, "maximum") /* the gradient goes to the larger value; to a if both
                                  * are equal */
MF_BINARY(mf_minimum, "minimum") /* the gradient goes to the smaller value; to a if both
                                  * are equal */
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
MF_UNARY(mf_softplus, "softplus")           /* ln(1 + e^x) */
MF_UNARY(mf_normal_cdf, "normal_cdf")       /* Phi(x) */
MF_UNARY(mf_xlogx, "xlogx")                 /* x ln x, 0 at 0 (value and gradient) */
MF_UNARY(mf_sign, "sign")                   /* -1, 0, 1 [no gradient] */
MF_UNARY(mf_stop_gradient, "stop_gradient") /* x in the forward pass, no gradient */

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
/* silu(a) b (Shazeer 2020, eq. 6). With b NULL, a is [...,2h]: silu of its first half times its
 * second half. */
static inline mf_tensor *mf_swiglu(mf_graph *g, mf_tensor *a, mf_tensor *b)
{
    return mf_op2(g, "swiglu", a, b, NULL);
}
/* gate silu(a) b, gate [...,1] f32: one number per row. */
static inline mf_tensor *mf_swiglu_gated(mf_graph *g, mf_tensor *a, mf_tensor *b,
                                         mf_tensor *gate)
{
    return gate ? mf_op3(g, "swiglu", a, b, gate, NULL) : mf_swiglu(g, a, b);
}

/* ------------------------------------------------------------------ reductions, shape */

/* Bit i of axes: reduce over dimension i; MF_ALL: reduce over all, to a scalar (rank 0). keep:
 * the reduced dimensions stay, with size 1. */
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
/* The largest element of each row: [...,n] -> [...,1]. If several are largest, the first gets
 * the gradient. */
static inline mf_tensor *mf_row_max(mf_graph *g, mf_tensor *x)
{
    return mf_op1(g, "row_max", x, NULL);
}
/* ln sum e^x of each row, numerically stable: [...,n] -> [...,1] */
static inline mf_tensor *mf_logsumexp(mf_graph *g, mf_tensor *x)
{
    return mf_op1(g, "logsumexp", x, NULL);
}
/* Returns the same elements in row-major order, with another shape, without a copy. */
static inline mf_tensor *mf_reshape(mf_graph *g, mf_tensor *x, mf_shape to)
{
    mf_attr t = mf_attr0();
    t.i[0] = to.rank;
    for (int i = 0; i < MF_MAX_RANK; i++)
        t.i[1 + i] = to.dim[i];
    return mf_op1(g, "reshape", x, &t);
}
/* Repeats x along dimensions of size 1 (and along new leading dimensions) to the new shape. */
static inline mf_tensor *mf_broadcast(mf_graph *g, mf_tensor *x, mf_shape to)
{
    mf_attr t = mf_attr0();
    t.i[0] = to.rank;
    for (int i = 0; i < MF_MAX_RANK; i++)
        t.i[1 + i] = to.dim[i];
    return mf_op1(g, "broadcast", x, &t);
}
/* Dimension i of the result is dimension p_i of x. Pass as many p_i as x has dimensions. */
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
/* Joins n <= MF_OP_MAX_IN values, one after another, along a dimension. */
static inline mf_tensor *mf_concat(mf_graph *g, int n, mf_tensor *const *x, int axis)
{
    mf_attr t = mf_attr0();
    t.i[0] = axis;
    return MF_HOST_SLOT->op(g, "concat", n, x, &t, 1, NULL);
}
/* Converts to another type; i32 -> f32 is exact below 2^24; no gradient through integers. */
static inline mf_tensor *mf_cast(mf_graph *g, mf_tensor *x, mf_dtype to)
{
    mf_attr t = mf_attr0();
    t.i[0] = to;
    return mf_op1(g, "cast", x, &t);
}

/* ---------------------------------------------------------------- softmax, norms, attention */

MF_UNARY(mf_softmax, "softmax")         /* softmax of each row */
MF_UNARY(mf_log_softmax, "log_softmax") /* ln softmax of each row */

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
/* (x - mean) / sqrt(var + eps) w + b, var over the row (divided by n). w, b [n] or NULL. */
static inline mf_tensor *mf_layernorm(mf_graph *g, mf_tensor *x, mf_tensor *w, mf_tensor *b,
                                      double eps)
{
    mf_attr t = mf_attr0();
    t.f[0] = eps;
    return mf_op3(g, "layernorm", x, w, b, &t);
}
/* mf_layernorm of rows grouped by expert, with w and b [E,n] by expert; offset as for
 * mf_grouped_linear. x [R,n] -> [R,n], zero outside of the groups. */
static inline mf_tensor *mf_grouped_layernorm(mf_graph *g, mf_tensor *x, mf_tensor *offset,
                                              mf_tensor *w, mf_tensor *b, double eps)
{
    mf_attr t = mf_attr0();
    t.f[0] = eps;
    return mf_op4(g, "grouped_layernorm", x, offset, w, b, &t);
}
/* Divides each row by its Euclidean length, or by eps if eps is larger. */
static inline mf_tensor *mf_l2_normalize(mf_graph *g, mf_tensor *x, double eps)
{
    mf_attr t = mf_attr0();
    t.f[0] = eps;
    return mf_op1(g, "l2_normalize", x, &t);
}
/* Scaled dot-product attention (Vaswani et al. 2017, eq. 1), grouped-query if kv_heads <
 * heads. q [B T, heads hd], k and v [B S, kv_heads hd] -> [B T, heads hd]; B = batch, hd =
 * width of a head. Or q packed [B T, (heads + 2 kv_heads) hd] with k = v = NULL. mask [B S]
 * f32 or NULL: no query attends to keys with 0. kv_len [B] i32 or NULL: queries attend only
 * to the first kv_len keys of a sequence. causal: query t attends to keys up to L - T + t, L
 * = kv_len or S. */
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
/* Attention for assignments grouped by expert, as in mf_expert_in: q [R, heads hd], offset
 * [E+1] and token [R] i32, B = batch sequences of S tokens each. Every expert has its own keys
 * and values. own false: kv [B S, E 2 heads hd], for each expert the keys and then the values
 * of all tokens. A query attends to the tokens of its sequence whose mask [B S] is not 0 (NULL:
 * to all), and if causal only to tokens up to its own token. own true: kv [R, 2 heads hd]. A
 * query attends to all assignments of its expert; mask must be NULL and causal false. The
 * result is [R, heads hd], zero past offset[E]. */
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
/* Rotary position embedding (Su et al. 2021, eq. 34) of the first n_heads heads of x
 * [N, >= n_heads hd]; the other heads are copied. position [N] i32. half: pairs (i, i + hd/2);
 * else interleaved (2i, 2i+1). */
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

/* Selects the rows of table [V,d] with these ids (any shape, i32) -> [...,d] */
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
/* For each row: y[n,j] = x[n, index[n,j]]; 0 where index < 0. x [N,E], index [N,k] -> [N,k] */
static inline mf_tensor *mf_take(mf_graph *g, mf_tensor *x, mf_tensor *index)
{
    return mf_op2(g, "take", x, index, NULL);
}
/* For each row: y[n, index[n,j]] += x[n,j]; index < 0 skipped. x, index [N,k] -> [N,width] */
static inline mf_tensor *mf_put(mf_graph *g, mf_tensor *x, mf_tensor *index, int64_t width)
{
    mf_attr t = mf_attr0();
    t.i[0] = width;
    return mf_op2(g, "put", x, index, &t);
}
/* Indices of the k largest elements of each row, largest first, ties to the lower index; NaN
 * sorts last. [N,E] -> [N,k] i32 [no gradient] */
static inline mf_tensor *mf_topk(mf_graph *g, mf_tensor *x, int64_t k)
{
    mf_attr t = mf_attr0();
    t.i[0] = k;
    return mf_op1(g, "topk", x, &t);
}
/* Sorts each row in falling or ascending order, equal elements in the order of the row, NaN
 * last; x [N,n]. *ret_index, unless NULL, receives the indices [N,n] i32 [no gradient]. The
 * gradient of each element of the result goes to the element of x from which it came. */
static inline mf_tensor *mf_sort(mf_graph *g, mf_tensor *x, bool falling, mf_tensor **ret_index)
{
    mf_tensor *key = falling ? x : mf_scale(g, x, -1);
    mf_tensor *index = x ? mf_topk(g, key, MF_HOST_SLOT->shape(x).dim[1]) : NULL;
    if (ret_index) *ret_index = index;
    return mf_take(g, x, index);
}
/* 0, 1, .. n-1 as i32 [n] [no gradient]. n >= 1. mf_topk returns the same indices for n
 * equal numbers. */
static inline mf_tensor *mf_arange(mf_graph *g, int64_t n)
{
    const float zero = 0;
    mf_tensor *same = MF_HOST_SLOT->constant(g, MF_F32, mf_shape2(1, 1), &zero);
    same = mf_broadcast(g, same, mf_shape2(1, n));
    return mf_reshape(g, mf_topk(g, same, n), mf_shape1(n));
}
/* 1 at the index, else 0: i32 [...] -> f32 [...,n] [no gradient] */
static inline mf_tensor *mf_one_hot(mf_graph *g, mf_tensor *index, int64_t n)
{
    mf_attr t = mf_attr0();
    t.i[0] = n;
    return mf_op1(g, "one_hot", index, &t);
}
/* Counts how often each of 0..n-1 occurs in index (i32, negatives are skipped). Each occurrence
 * counts with its weight (f32, same shape), or 1 if weight is NULL -> f32 [n]. The gradient
 * goes to the weights. */
static inline mf_tensor *mf_bincount(mf_graph *g, mf_tensor *index, mf_tensor *weight,
                                     int64_t n)
{
    mf_attr t = mf_attr0();
    t.i[0] = n;
    return mf_op2(g, "bincount", index, weight, &t);
}
/* Since 0.3: counts how many elements of each column of x [T,E] lie in each of `bins` bins (1
 * .. 8192) between lo and hi -> f32 [E,bins] of integers. The bins are those of mf_score_count.
 * Rows whose mask (f32 [T] or NULL) is 0 are not counted. bias (f32 [E] or NULL): its smallest
 * element is added to lo, its largest to hi. [no gradient] */
static inline mf_tensor *mf_score_bins(mf_graph *g, mf_tensor *x, mf_tensor *mask,
                                       mf_tensor *bias, int64_t bins, double lo, double hi)
{
    mf_attr t = mf_attr0();
    t.i[0] = bins;
    t.f[0] = lo;
    t.f[1] = hi;
    return mf_op3(g, "score_bins", x, mask, bias, &t);
}

/* ------------------------------------------------------------------ randomness, loss */

/* Uniform numbers in [0,1) or standard normal numbers of this node's stream. They are new in
 * each step. [no gradient] */
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
/* In training x u / (1 - p) with u drawn from Bernoulli(1 - p); in evaluation x. */
static inline mf_tensor *mf_dropout(mf_graph *g, mf_tensor *x, double p)
{
    mf_attr t = mf_attr0();
    t.f[0] = p;
    return mf_op1(g, "dropout", x, &t);
}
/* Mean of -ln softmax(logits)[target] over rows, weighted by weight [N] (NULL: 1); rows with
 * target < 0 do not count; 0 if no row counts. logits [N,V], target [N] i32 -> scalar. */
static inline mf_tensor *mf_cross_entropy(mf_graph *g, mf_tensor *logits, mf_tensor *target,
                                          mf_tensor *weight)
{
    return mf_op3(g, "cross_entropy", logits, target, weight, NULL);
}

/* ------------------------------------------------------------------ ops of the plugin */

/* Adds an op of the plugin: mf_host.custom. */
static inline mf_tensor *mf_custom(mf_graph *g, const mf_opdef *def, int n_in,
                                   mf_tensor *const *in, const mf_attr *attr, int n_out,
                                   mf_tensor **ret_out)
{
    return MF_HOST_SLOT->custom(g, def, n_in, in, attr, n_out, ret_out);
}
/* Returns x. In each run the shape, range and first elements of x are logged under the name,
 * which must live as long as the plugin. This is for debugging, because it costs time. */
static inline mf_tensor *mf_print(mf_graph *g, mf_tensor *x, const char *name)
{
    if (MF_HAS(MF_HOST_SLOT, mf_host, print)) MF_HOST_SLOT->print(g, x, name);
    return x;
}
static inline mf_graph *mf_at(mf_graph *g, const char *file, int32_t line)
{
    if (MF_HAS(MF_HOST_SLOT, mf_host, at)) MF_HOST_SLOT->at(g, file, line);
    return g;
}

#undef MF_BINARY
#undef MF_UNARY
#ifdef __cplusplus
}
#endif

/* ------------------------------------------------------------------ source locations */

/* In a plugin each call passes its file and line, so that errors of the op name them. If a
 * plugin defines MF_NO_PLACES before it includes this header, its calls pass neither. */
#if defined(MF_PLACES) && !defined(MF_NO_PLACES)
#define MF_HERE(g)                   mf_at(g, __FILE__, __LINE__)
#define mf_op1(g, ...)               mf_op1(MF_HERE(g), __VA_ARGS__)
#define mf_op2(g, ...)               mf_op2(MF_HERE(g), __VA_ARGS__)
#define mf_op3(g, ...)               mf_op3(MF_HERE(g), __VA_ARGS__)
#define mf_op4(g, ...)               mf_op4(MF_HERE(g), __VA_ARGS__)
#define mf_linear(g, ...)            mf_linear(MF_HERE(g), __VA_ARGS__)
#define mf_matmul(g, ...)            mf_matmul(MF_HERE(g), __VA_ARGS__)
#define mf_grouped_linear(g, ...)    mf_grouped_linear(MF_HERE(g), __VA_ARGS__)
#define mf_add(g, ...)               mf_add(MF_HERE(g), __VA_ARGS__)
#define mf_sub(g, ...)               mf_sub(MF_HERE(g), __VA_ARGS__)
#define mf_mul(g, ...)               mf_mul(MF_HERE(g), __VA_ARGS__)
#define mf_div(g, ...)               mf_div(MF_HERE(g), __VA_ARGS__)
#define mf_maximum(g, ...)           mf_maximum(MF_HERE(g), __VA_ARGS__)
#define mf_minimum(g, ...)           mf_minimum(MF_HERE(g), __VA_ARGS__)
#define mf_greater(g, ...)           mf_greater(MF_HERE(g), __VA_ARGS__)
#define mf_exp(g, ...)               mf_exp(MF_HERE(g), __VA_ARGS__)
#define mf_ln(g, ...)                mf_ln(MF_HERE(g), __VA_ARGS__)
#define mf_sqrt(g, ...)              mf_sqrt(MF_HERE(g), __VA_ARGS__)
#define mf_square(g, ...)            mf_square(MF_HERE(g), __VA_ARGS__)
#define mf_reciprocal(g, ...)        mf_reciprocal(MF_HERE(g), __VA_ARGS__)
#define mf_abs(g, ...)               mf_abs(MF_HERE(g), __VA_ARGS__)
#define mf_relu(g, ...)              mf_relu(MF_HERE(g), __VA_ARGS__)
#define mf_gelu(g, ...)              mf_gelu(MF_HERE(g), __VA_ARGS__)
#define mf_gelu_tanh(g, ...)         mf_gelu_tanh(MF_HERE(g), __VA_ARGS__)
#define mf_silu(g, ...)              mf_silu(MF_HERE(g), __VA_ARGS__)
#define mf_sigmoid(g, ...)           mf_sigmoid(MF_HERE(g), __VA_ARGS__)
#define mf_tanh(g, ...)              mf_tanh(MF_HERE(g), __VA_ARGS__)
#define mf_softplus(g, ...)          mf_softplus(MF_HERE(g), __VA_ARGS__)
#define mf_normal_cdf(g, ...)        mf_normal_cdf(MF_HERE(g), __VA_ARGS__)
#define mf_xlogx(g, ...)             mf_xlogx(MF_HERE(g), __VA_ARGS__)
#define mf_sign(g, ...)              mf_sign(MF_HERE(g), __VA_ARGS__)
#define mf_stop_gradient(g, ...)     mf_stop_gradient(MF_HERE(g), __VA_ARGS__)
#define mf_affine(g, ...)            mf_affine(MF_HERE(g), __VA_ARGS__)
#define mf_scale(g, ...)             mf_scale(MF_HERE(g), __VA_ARGS__)
#define mf_clamp(g, ...)             mf_clamp(MF_HERE(g), __VA_ARGS__)
#define mf_swiglu(g, ...)            mf_swiglu(MF_HERE(g), __VA_ARGS__)
#define mf_swiglu_gated(g, ...)      mf_swiglu_gated(MF_HERE(g), __VA_ARGS__)
#define mf_reduce(g, ...)            mf_reduce(MF_HERE(g), __VA_ARGS__)
#define mf_sum(g, ...)               mf_sum(MF_HERE(g), __VA_ARGS__)
#define mf_mean(g, ...)              mf_mean(MF_HERE(g), __VA_ARGS__)
#define mf_row_max(g, ...)           mf_row_max(MF_HERE(g), __VA_ARGS__)
#define mf_logsumexp(g, ...)         mf_logsumexp(MF_HERE(g), __VA_ARGS__)
#define mf_reshape(g, ...)           mf_reshape(MF_HERE(g), __VA_ARGS__)
#define mf_broadcast(g, ...)         mf_broadcast(MF_HERE(g), __VA_ARGS__)
#define mf_transpose(g, ...)         mf_transpose(MF_HERE(g), __VA_ARGS__)
#define mf_slice(g, ...)             mf_slice(MF_HERE(g), __VA_ARGS__)
#define mf_concat(g, ...)            mf_concat(MF_HERE(g), __VA_ARGS__)
#define mf_cast(g, ...)              mf_cast(MF_HERE(g), __VA_ARGS__)
#define mf_softmax(g, ...)           mf_softmax(MF_HERE(g), __VA_ARGS__)
#define mf_log_softmax(g, ...)       mf_log_softmax(MF_HERE(g), __VA_ARGS__)
#define mf_rmsnorm(g, ...)           mf_rmsnorm(MF_HERE(g), __VA_ARGS__)
#define mf_layernorm(g, ...)         mf_layernorm(MF_HERE(g), __VA_ARGS__)
#define mf_grouped_layernorm(g, ...) mf_grouped_layernorm(MF_HERE(g), __VA_ARGS__)
#define mf_l2_normalize(g, ...)      mf_l2_normalize(MF_HERE(g), __VA_ARGS__)
#define mf_attention(g, ...)         mf_attention(MF_HERE(g), __VA_ARGS__)
#define mf_grouped_attention(g, ...) mf_grouped_attention(MF_HERE(g), __VA_ARGS__)
#define mf_rope(g, ...)              mf_rope(MF_HERE(g), __VA_ARGS__)
#define mf_embedding(g, ...)         mf_embedding(MF_HERE(g), __VA_ARGS__)
#define mf_gather_rows(g, ...)       mf_gather_rows(MF_HERE(g), __VA_ARGS__)
#define mf_scatter_rows(g, ...)      mf_scatter_rows(MF_HERE(g), __VA_ARGS__)
#define mf_take(g, ...)              mf_take(MF_HERE(g), __VA_ARGS__)
#define mf_put(g, ...)               mf_put(MF_HERE(g), __VA_ARGS__)
#define mf_topk(g, ...)              mf_topk(MF_HERE(g), __VA_ARGS__)
#define mf_sort(g, ...)              mf_sort(MF_HERE(g), __VA_ARGS__)
#define mf_arange(g, ...)            mf_arange(MF_HERE(g), __VA_ARGS__)
#define mf_one_hot(g, ...)           mf_one_hot(MF_HERE(g), __VA_ARGS__)
#define mf_bincount(g, ...)          mf_bincount(MF_HERE(g), __VA_ARGS__)
#define mf_score_bins(g, ...)        mf_score_bins(MF_HERE(g), __VA_ARGS__)
#define mf_random(g, ...)            mf_random(MF_HERE(g), __VA_ARGS__)
#define mf_uniform(g, ...)           mf_uniform(MF_HERE(g), __VA_ARGS__)
#define mf_gaussian(g, ...)          mf_gaussian(MF_HERE(g), __VA_ARGS__)
#define mf_dropout(g, ...)           mf_dropout(MF_HERE(g), __VA_ARGS__)
#define mf_cross_entropy(g, ...)     mf_cross_entropy(MF_HERE(g), __VA_ARGS__)
#define mf_custom(g, ...)            mf_custom(MF_HERE(g), __VA_ARGS__)
#define mf_print(g, ...)             mf_print(MF_HERE(g), __VA_ARGS__)
#endif
#endif

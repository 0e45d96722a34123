/* kernels/kernel.h: the table of numeric kernels, by backend.
 *
 * A kernel gets pointers, sizes and strides, never a tensor. Each is declared once, in
 * kernels.def, with its formula. `ref` implements all of them with plain loops and double
 * accumulators: it is the truth. Another set begins as a copy of `ref` and puts its faster ones
 * over it, so a set may be incomplete but never has a hole.
 *
 * What a launch may assume (a backend that queues kernels copies the arguments by these rules):
 *   - Every pointer argument is memory of the device, with these exceptions: the launch
 *     context, the descriptors (const mf_gemm *, const mf_X_args *) and arrays with a length
 *     in the declaration (const int64_t dim[4]) are host memory, which the launch copies.
 *   - Pointers within a descriptor are memory of the device.
 *   - A kernel returns nothing and allocates nothing: work memory is handed in. What it finds
 *     wrong it records in the context's fault.
 *   - An optional pointer is NULL; what that means is said where the kernel is declared.
 * No result depends on the number of threads: sums have a fixed order, and tiling does not
 * change results. Kernels may be called from any thread; calls that share no output may run at
 * the same time.
 */
#ifndef MF_KERNEL_H
#define MF_KERNEL_H

#include "kernels/bf16.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a kernel found wrong with the data that it was given. It lives on the device, is set to
 * zeros before a step, and keeps the first fault: kernels write nothing here once `kind` is
 * set. The host reads it (core/graph/exec.h makes the message). */
typedef enum mf_fault_kind {
    MF_FAULT_NONE,
    MF_FAULT_RANGE,  /* element `index` of an i32 input is `value`, not in lo .. hi-1 */
    MF_FAULT_OFFSET, /* offset[index] = value: they must rise from 0 to at most hi */
    MF_FAULT_CACHE,  /* sequence `index` is to write lo positions of a cache of hi, at value */
    MF_FAULT_ORDER   /* assignment `index` of expert lo: its token, value, is not in 0 .. hi-1,
                         or is lower than the one before it */
} mf_fault_kind;

/* What the elements are whose range is wrong. */
typedef enum mf_fault_what {
    MF_WHAT_INDEX,
    MF_WHAT_ROW,
    MF_WHAT_ROW_A,
    MF_WHAT_ROW_B,
    MF_WHAT_TOKEN,
    MF_WHAT_PLACE,
    MF_WHAT_EXPERT,
    MF_WHAT_LABEL,
    MF_WHAT_KV_LEN,
    MF_WHAT_ID,     /* of a token, to embed */
    MF_WHAT_TARGET, /* class that a loss wants */
    MF_WHAT_COUNT
} mf_fault_what;

typedef struct mf_fault {
    int32_t kind; /* mf_fault_kind */
    int32_t what; /* mf_fault_what, of MF_FAULT_RANGE */
    int32_t node; /* mf_kctx.node of the launch that found it */
    int32_t reserved;
    int64_t index, value, lo, hi;
} mf_fault;

/* What random kernels draw by. It lives on the device, because it changes with each run, and
 * launches may be recorded and repeated. */
typedef struct mf_draw_key {
    uint64_t seed, step;
} mf_draw_key;

/* Where a kernel runs: the launch context, handed to each as its first argument. A launch
 * copies it; what it points to is memory of the device, but for the two functions. */
typedef struct mf_kctx {
    /* Runs fn(arg, t) for all t in [0, tiles). */
    void (*parallel)(int64_t tiles, void (*fn)(void *arg, int64_t tile), void *arg);
    /* One Philox block: words 4 block .. 4 block + 3 of the stream (base/rng.h). */
    void (*rng_block)(uint64_t seed, uint64_t stream, uint64_t step, uint64_t block,
                      uint32_t out[4]);
    const mf_draw_key *key; /* of random kernels; NULL where there are none */
    int threads; /* that share the tiles; 0: not known. Tiles may depend on it, not results */
    mf_fault *fault; /* on the device; NULL: nobody reads it */
    void *stream;    /* of the device; NULL on the host */
    int32_t node;    /* the node of a graph that this launch belongs to, for the fault */
} mf_kctx;

/* A fault was found before. Kernels that use indices, targets or offsets return at once then,
 * so that nothing is read or written out of bounds; for the same reason they are launched only
 * behind the kernels that check these. */
static inline bool mf_kctx_failed(const mf_kctx *x)
{
    return x->fault && x->fault->kind != MF_FAULT_NONE;
}
/* Records a fault, unless there is one. */
static inline void mf_kctx_fail(const mf_kctx *x, mf_fault fault)
{
    if (!x->fault || x->fault->kind != MF_FAULT_NONE) return;
    fault.node = x->node;
    *x->fault = fault;
}

/* Kernels that take a `type` read and write the arrays that are void
 * pointers in that type: they convert bf16 to f32 on reading, compute in f32 and round to
 * nearest even on writing, once. */
/* Types of elements; the values are mf_dtype's. A kernel's `type` is f32 or bf16, but for cast,
 * which knows all. */
typedef enum mf_cast_type { MF_CAST_F32, MF_CAST_BF16, MF_CAST_I32, MF_CAST_U8 } mf_cast_type;

static inline int64_t mf_cast_size(int type)
{
    return type == MF_CAST_U8 ? 1 : type == MF_CAST_BF16 ? 2 : 4;
}

/* ---- functions of the elementwise kernels ----
 * y = f(x; a, b), and dy/dx as map1_grad has it, written by x and y. */
typedef enum mf_map1_fn {
    MF_MAP_EXP,        /* e^x;                       y */
    MF_MAP_LOG,        /* ln x;                      1 / x */
    MF_MAP_SQRT,       /* sqrt x;                    1 / (2 y) */
    MF_MAP_SQUARE,     /* x^2;                       2 x */
    MF_MAP_RECIPROCAL, /* 1 / x;                     -y^2 */
    MF_MAP_ABS,        /* |x|;                       sign x */
    MF_MAP_RELU,       /* max(x, 0);                 0 where x <= 0, else 1 */
    MF_MAP_GELU,       /* x Phi(x);                  Phi(x) + x phi(x) */
    MF_MAP_GELU_TANH,  /* x (1 + tanh u) / 2, u = sqrt(2 / pi) (x + 0.044715 x^3) */
    MF_MAP_SILU,       /* x s(x), s the sigmoid;     s (1 + x (1 - s)) */
    MF_MAP_SIGMOID,    /* 1 / (1 + e^-x);            y (1 - y) */
    MF_MAP_TANH,       /* tanh x;                    1 - y^2 */
    MF_MAP_SOFTPLUS,   /* ln(1 + e^x);               s(x) */
    MF_MAP_NORMAL_CDF, /* Phi(x) = (1 + erf(x / sqrt 2)) / 2;  phi(x) = e^(-x^2 / 2) /
                          sqrt(2 pi) */
    MF_MAP_XLOGX,      /* x ln x, 0 at 0;            ln x + 1, 0 at 0 */
    MF_MAP_SIGN,       /* -1, 0, 1;                  0 */
    MF_MAP_AFFINE,     /* a x + b;                   a */
    MF_MAP_CLAMP,      /* min(max(x, a), b);         1 where a <= x <= b, else 0 */
    MF_MAP1_COUNT
} mf_map1_fn;

typedef enum mf_map2_fn {
    MF_MAP_ADD,
    MF_MAP_SUB,
    MF_MAP_MUL,
    MF_MAP_DIV,
    MF_MAP_MAXIMUM, /* NaN if either is */
    MF_MAP_MINIMUM,
    MF_MAP_GREATER, /* 1 where a > b, else 0 */
    MF_MAP2_COUNT
} mf_map2_fn;

/* Functions of a row x [n]; m is its largest element, NaN if there is one.
 * SOFTMAX      y = e^(x - m) / sum e^(x - m);   dx = y (dy - <y, dy>)
 * LOG_SOFTMAX  y = x - m - ln sum e^(x - m);    dx = dy - e^y sum dy
 * LOGSUMEXP    y = m + ln sum e^(x - m), one number, m where that is infinite;
 *              dx = e^(x - y) dy
 * MAX          y = m, one number;  dx = dy at the first largest element, 0 elsewhere */
typedef enum mf_row_fn {
    MF_ROW_SOFTMAX,
    MF_ROW_LOG_SOFTMAX,
    MF_ROW_LOGSUMEXP,
    MF_ROW_MAX
} mf_row_fn;

typedef enum mf_random_kind { MF_RANDOM_UNIFORM, MF_RANDOM_NORMAL } mf_random_kind;

/* ---- gemm ---- */

/* A matrix that a gemm reads. Stored row r begins at data + ld * r, or at data + ld * row[r]
 * where `row` is given; it is all zeros where row[r] < 0. */
typedef struct mf_gemm_operand {
    const void *data;
    mf_cast_type type; /* f32 or bf16 */
    bool trans;        /* op(a) is the transpose of what is stored */
    bool packed;       /* of b: [n,k], dense and of a's type, as pack_weights of this set left
                          it; then b.trans, by BATCH or ROWS, no b.row */
    int64_t ld;        /* from a stored row to the next, in elements */
    const int32_t *row;
    int64_t step; /* from the operand of one group to that of the next, in elements */
} mf_gemm_operand;

typedef struct mf_gemm_result {
    void *data;
    mf_cast_type type; /* f32 or bf16; sums are in f32 and rounded once */
    int64_t ld, step;  /* as those of an operand */
} mf_gemm_result;

/* What the groups of a gemm share out among themselves; i counts them.
 *   BATCH  nothing: a + i a.step, b + i b.step, bias + i step_bias, c + i c.step
 *   ROWS   rows offset[i] .. offset[i+1] of op(a) and of c, with b + i b.step and bias + i
 *          step_bias; m counts the rows of c, those past offset[groups] become 0, whatever
 *          beta is
 *   INNER  inner indices offset[i] .. offset[i+1], giving c + i c.step, without bias; k counts
 *          them all, those past offset[groups] are not read
 * offset [groups + 1] rises from 0 (check_offset); of BATCH it is NULL. */
typedef enum mf_gemm_by { MF_BY_BATCH, MF_BY_ROWS, MF_BY_INNER } mf_gemm_by;

/* What is done to elements of c before they are written. */
typedef enum mf_gemm_epilogue { MF_EPILOGUE_NONE } mf_gemm_epilogue;

/* c = alpha op(a) op(b) + bias + beta c, op(a) [m,k], op(b) [k,n], c [m,n], all row-major as
 * stored. Where one operand is bf16 the other is rounded to bf16 too, with as_bf16 both. */
typedef struct mf_gemm {
    int64_t m, n, k;
    mf_gemm_operand a, b;
    mf_gemm_result c;
    float alpha, beta; /* beta is 0 (c is not read) or 1 */
    const float *bias; /* [n] or NULL */
    int64_t step_bias; /* from the bias of one group to that of the next */
    mf_gemm_by by;
    int64_t groups; /* 0 stands for 1 */
    const int32_t *offset;
    bool as_bf16;
    mf_gemm_epilogue epilogue;
} mf_gemm;

/* ---- norms ---- */

/* Of each row of a [rows,n]; y, dy, da likewise.
 *   RMS    y = w a / sqrt(mean(a^2) + eps), or with eps_outside w a / (sqrt(mean(a^2)) + eps)
 *          (Zhang, Sennrich 2019, eq. 4)
 *   LAYER  y = w (a - mean) / sqrt(var + eps) + b, var = mean((a - mean)^2)
 *          (Ba et al. 2016, eq. 4)
 *   L2     y = a / max(|a|, eps), |a| the Euclidean length; without w, b and groups
 * w, b [n] or NULL (1, 0). With `offset` [groups + 1] rows offset[e] .. offset[e+1] have w and
 * b [groups,n] at e; rows past the last group become 0. Backward reads a, w, dy and writes da,
 * dw, db, each NULL where not wanted; it wants work: mf_norm_work(n) bytes. */
typedef enum mf_norm_fn { MF_NORM_FN_RMS, MF_NORM_FN_LAYER, MF_NORM_FN_L2 } mf_norm_fn;

typedef struct mf_norm_args {
    mf_norm_fn kind;
    int64_t rows, n;
    float eps;
    bool eps_outside;
    mf_cast_type type; /* of y and dy; f32 for L2 and with groups */
    const float *a, *w, *b;
    void *y;
    const void *dy; /* this and below: of backward */
    float *da, *dw, *db;
    void *work;
    int64_t groups; /* with offset; else 0 */
    const int32_t *offset;
} mf_norm_args;

/* ---- scratch of the kernels that take work: bytes, 64-aligned ---- */
/* sum3: terms of one partial sum; a double for each, when there is more than one a result. */
static inline int64_t mf_sum3_chunk(int64_t inner)
{
    return inner >= 16 ? 512 : 8192;
}
static inline size_t mf_sum3_work(int64_t outer, int64_t n, int64_t inner)
{
    int64_t chunks = (n + mf_sum3_chunk(inner) - 1) / mf_sum3_chunk(inner);
    return chunks > 1 ? (size_t)(outer * chunks * inner) * sizeof(double) : 0;
}
/* bincount, joint_count: a table of counts for each tile of rows. */
static inline int64_t mf_count_tiles(int64_t rows)
{
    return rows <= 8192 ? 1 : rows >= 16 * 8192 ? 16 : rows / 8192;
}
static inline size_t mf_count_work(int64_t rows, int64_t bins)
{
    return (size_t)(mf_count_tiles(rows) * bins) * sizeof(double);
}
static inline size_t mf_capacity_work(int64_t rows, int64_t experts)
{
    return (size_t)(rows + experts + 1) * sizeof(int32_t);
}
static inline size_t mf_reassign_work(int64_t rows, int64_t experts)
{
    return (size_t)(rows + 2 * experts + 1) * sizeof(int32_t);
}
#define MF_STATS_TOKENS 256 /* tokens of one tile of routing_stats */
#define MF_STATS_SUMS   4   /* its scalars */
static inline size_t mf_routing_stats_work(int64_t tokens, int64_t rows, int64_t experts)
{
    int64_t tiles = (tokens > rows ? tokens : rows) / MF_STATS_TOKENS + 1;
    return (size_t)(tiles * (3 * experts + MF_STATS_SUMS)) * sizeof(double) +
           (size_t)tokens * sizeof(int32_t);
}

/* Of attention and its gradient: T queries and S keys in each of `batch` sequences. Rows are b
 * T + t and b S + s; head h lies at column h head_dim; strides are the widths of the rows, so
 * that q, k, v may lie side by side in one matrix. Query head h uses key head h / (heads /
 * kv_heads). Query t of sequence b sees key s when s < L, L = kv_len[b] or S; mask[b S + s] is
 * not 0; if causal, s <= L - T + t; and, where queries are not one a place, s <= reach[b T +
 * t], which must not fall from one query of a sequence to the next. A query that sees nothing
 * gives zeros. */
#define MF_MAX_HEAD_DIM 512
typedef struct mf_attention_args {
    int64_t batch, t, s, heads, kv_heads, head_dim;
    int64_t ldq, ldk, ldv; /* row strides of q and dq, k and dk, v and dv */
    bool causal;
    float scale;
    const float *q, *k, *v;
    const float *mask;     /* [batch S] or NULL */
    const int32_t *kv_len; /* [batch], each 0 .. S; or NULL */
    const int32_t *reach;  /* [batch T], rising; or NULL */
    float *y;              /* [batch T, heads head_dim]; read by backward */
    float *lse;          /* [batch T, heads]: ln sum e^score, -inf for none; NULL: not wanted */
    const float *dy;     /* this and below: of backward */
    float *dq, *dk, *dv; /* NULL where not wanted */
} mf_attention_args;

/* Attention of assignments grouped by expert, each expert over its own keys and values. Rows of
 * q and y are assignments: those of expert e at offset[e] .. offset[e+1] - 1 in the order of
 * their tokens, token[p] in 0 .. batch s - 1. Heads are as in mf_attention_args.
 *   own = false  kv [batch s, experts 2 heads head_dim]: keys, then values, of expert e at
 *                column e 2 heads head_dim. An assignment sees the tokens of its sequence,
 *                token[p] / s, that mask [batch s] (NULL: none) does not hide; causal: those up
 *                to its own
 *   own = true   kv [rows, 2 heads head_dim]: it sees all assignments of its expert
 * y [rows, heads head_dim], lse [rows, heads]: 0 past offset[experts], and so are dq, dkv. With
 * own = false MF_FAULT_ORDER for an assignment whose token is not as said.
 * work: mf_grouped_attention_work */
typedef struct mf_grouped_attention_args {
    int64_t rows, experts, batch, s, heads, head_dim; /* s: of own = false */
    bool own, causal;
    float scale;
    const int32_t *offset, *token;
    const float *q, *kv, *mask;
    float *y, *lse;  /* read by backward */
    const float *dy; /* this and below: of backward; dq, dkv NULL where not wanted */
    float *dq, *dkv;
    void *work;
} mf_grouped_attention_args;

static inline size_t mf_grouped_attention_work(int64_t rows, int64_t experts, int64_t batch)
{
    return (size_t)(rows + experts * batch + 1) * sizeof(int32_t);
}

/* Loss of a linear head, without a matrix of logits: logits = x w^T + bias, loss and row_loss
 * as cross_entropy gives them of the targets and weights. dx, dw, dbias are gradients of the
 * loss, each NULL where not wanted. x [rows,d], w [vocab,d] and dx are of `type`, all else is
 * f32. Rows with target < 0 cost nothing. work: mf_linear_cross_entropy_work */
typedef struct mf_linear_cross_entropy_args {
    int64_t rows, d, vocab;
    mf_cast_type type;
    const void *x, *w;
    const float *bias;     /* [vocab] or NULL */
    const int32_t *target; /* [rows], below vocab */
    const float *weight;   /* [rows] or NULL: 1 */
    float *loss;           /* one number */
    float *row_loss;       /* [rows] or NULL */
    void *dx;
    float *dw, *dbias;
    void *work;
} mf_linear_cross_entropy_args;

/* Rows go through in chunks. Logits of a small vocabulary stay in second caches. Those of a
 * large one do not: then what counts is that w and dw go through memory, and w through copies,
 * once a chunk. */
static inline int64_t mf_linear_cross_entropy_chunk(int64_t rows, int64_t vocab)
{
    const int64_t row = (int64_t)sizeof(float) * vocab, far = ((int64_t)160 << 20) / row;
    int64_t most = vocab <= 2048 ? ((int64_t)1 << 20) / row / 64 * 64 : far < 1280 ? far : 1280;
    if (most < 512) most = 512;
    const int64_t chunks = (rows + most - 1) / most; /* equal ones */
    return chunks > 1 ? (rows + 8 * chunks - 1) / (8 * chunks) * 8 : rows;
}
static inline size_t mf_align64(int64_t bytes)
{
    return (size_t)(bytes + 63) / 64 * 64;
}
/* want_dx, want_dbias: these are not NULL. */
static inline size_t mf_linear_cross_entropy_work(int64_t rows, int64_t d, int64_t vocab,
                                                  int type, bool want_dx, bool want_dbias)
{
    const int64_t chunk = mf_linear_cross_entropy_chunk(rows, vocab);
    const size_t x = mf_align64(chunk * d * mf_cast_size(type));
    size_t bytes =
        mf_align64(chunk * vocab * 4) + x + 4 * mf_align64(chunk * 4) + mf_align64(rows * 4);
    if (want_dx) bytes += x;
    if (want_dbias)
        bytes += mf_align64(vocab * 4) + mf_align64((int64_t)mf_sum3_work(1, chunk, vocab));
    return bytes;
}

/* What changes from one optimizer step to the next. It lives on the device. */
typedef struct mf_adamw_now {
    double lr, weight_decay, clip;   /* clip <= 0: no clipping */
    double grad_scale;               /* multiplies gradients first */
    double correction1, correction2; /* 1 - beta^step */
} mf_adamw_now;

/* AdamW of one range of parameters. What is not given as a number is read on the device when
 * the kernel runs, so that the host need not wait for it. */
typedef struct mf_adamw_args {
    double beta1, beta2, eps;
    double lr_scale;    /* multiplies now->lr */
    double decay_scale; /* multiplies now->weight_decay: 1 or 0 */
    bool l2;            /* decay goes through the gradient, as in plain Adam */
    const mf_adamw_now *now;
    /* norm = sqrt(sumsq[0]) grad_scale. Nothing is done where the norm is not finite, or
     * loss[0] is not, or where a fault is recorded; gradients are multiplied by clip / norm
     * where clip > 0 and the norm is above it. Either pointer may be NULL: then the norm is 0,
     * the loss finite. */
    const double *sumsq;
    const float *loss;
} mf_adamw_args;

/* The numbers that a range is updated with, once the device has been read. */
typedef struct mf_adamw_factors {
    double scale; /* of gradients; 0: the step is skipped */
    double lr, weight_decay, l2, correction1, correction2;
} mf_adamw_factors;

/* Called by kernels. */
static inline mf_adamw_factors mf_adamw_resolve(const mf_kctx *x, const mf_adamw_args *p)
{
    const mf_adamw_now *now = p->now;
    const double norm = p->sumsq ? sqrt(p->sumsq[0]) * now->grad_scale : 0;
    const double decay = now->weight_decay * p->decay_scale;
    mf_adamw_factors f = {.lr = now->lr * p->lr_scale,
                          .weight_decay = p->l2 ? 0 : decay,
                          .l2 = p->l2 ? decay : 0,
                          .correction1 = now->correction1,
                          .correction2 = now->correction2};
    if (!isfinite(norm) || (p->loss && !isfinite(p->loss[0])) || mf_kctx_failed(x)) return f;
    f.scale = now->clip > 0 && norm > now->clip ? now->grad_scale * (now->clip / norm)
                                                : now->grad_scale;
    return f;
}

/* Bytes of work memory that kernels ask for. */
#define MF_SUMSQ_TILES 256
#define MF_SUMSQ_WORK  (MF_SUMSQ_TILES * sizeof(double))
#define MF_NORM_TILES  16
static inline size_t mf_norm_work(int64_t n)
{
    return (size_t)(2 * MF_NORM_TILES * n) * sizeof(float);
}
static inline size_t mf_kernel_embedding_work(int64_t vocab, int64_t count)
{
    return (size_t)(vocab + 1 + count) * sizeof(int32_t);
}

typedef struct mf_kernels {
    const char *name; /* "ref", "cpu" */
    /* Asked on the host: whether pack_weights has a layout for weights [n,k] of this type. */
    bool (*can_pack)(int type, int64_t n, int64_t k);
#define MF_KERNEL(fn, args) void(*fn) args;
#include "kernels/kernels.def"
#undef MF_KERNEL
} mf_kernels;

extern const mf_kernels mf_kernels_ref;

/* ref + what kernels/cpu does better, for the best instruction set of this machine, or the one
 * that the environment variable MOEFW_ISA names. NULL when that name is unknown, or not to be
 * had on this machine, or when mf_kernels_gemm gives NULL: the caller reports it, with
 * mf_kernels_isas for what was expected.
 * Judged on the first call, which must be on one thread. Results differ between instruction
 * sets, within rounding; on one of them they are the same bits always. */
const mf_kernels *mf_kernels_cpu(void);
/* Instruction sets that this build has and this machine runs, best first, NULL-terminated. */
const char *const *mf_kernels_isas(void);
/* The one that mf_kernels_cpu uses; NULL where it returns NULL. */
const char *mf_kernels_isa(void);
/* The BLAS library under the cpu set: name, version, build, the kernels it chose. */
const char *mf_kernels_blas(void);
/* Who computes plain gemms in the cpu set: "own", "openblas" or "onednn", as the environment
 * variable MOEFW_GEMM says; own by default where vectors are wider than four numbers. A library
 * leaves to own what it does not do: gathered rows and few rows, and of bf16 all but oneDNN's
 * pairs of bf16. NULL when the variable names nobody, or one that cannot be used. */
const char *mf_kernels_gemm(void);
/* Why the library that was named cannot be used; NULL: it can, or none was. */
const char *mf_kernels_gemm_refused(void);
/* Those names, NULL-terminated. */
const char *const *mf_kernels_gemms(void);
/* "oneDNN 2.6.3 (OpenMP)", or why it cannot be used. Loads it. */
const char *mf_kernels_onednn(void);
/* For tests and benchmarks: as if MOEFW_GEMM were this (NULL or "": unset); false as
 * mf_kernels_gemm has NULL. To be called on one thread, after mf_kernels_cpu. */
bool mf_kernels_use_gemm(const char *name);
/* Multiply-adds of f32 on registers in the calling thread, with the widest vectors of the set,
 * so many rounds of them; returns how many operations: what no gemm can be faster than. */
double mf_kernels_multiply(int64_t rounds);
/* For tests and benchmarks: the cpu set compiled for one of mf_kernels_isas; NULL if unknown.
 * Overwritten by the next call. */
const mf_kernels *mf_kernels_cpu_for(const char *isa);

/* The set by name: "ref", "cpu"; NULL or "" means cpu. NULL for an unknown name: the caller,
 * who read MOEFW_KERNELS, reports it. */
const mf_kernels *mf_kernels_select(const char *name);

#endif

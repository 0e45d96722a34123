/* kernels/kernel.h: the table of numeric kernels, by backend.
 *
 * A kernel gets pointers, sizes and strides, never a tensor, in one struct of arguments. Each
 * kernel is declared once, in kernels.def, with its formula, its arguments and its cost. `ref`
 * implements all kernels with plain loops and double accumulators; tests compare the other sets
 * with it. `cpu` begins as a copy of `ref` and replaces kernels by faster ones, so it is
 * complete, too.
 *
 * A launch may assume the following (a backend that queues kernels copies the arguments by
 * these rules):
 *   - The launch context and the arguments are host memory, which the launch copies.
 *   - Pointers in the arguments are memory of the device, except pointers to an mf_stored,
 *     which is host memory that does not change.
 *   - A kernel returns nothing and allocates nothing: the caller provides its work memory. An
 *     error that a kernel finds in its data is recorded in the context's fault.
 *   - A field that the caller does not set is 0 or NULL. An optional pointer may be NULL; the
 *     kernel's declaration describes the meaning.
 *
 * No result depends on the number of threads: sums have a fixed order, and tiling does not
 * change results. Kernels may be called from any thread; calls that share no output may run at
 * the same time.
 *
 * Kernels that use indices do nothing after a fault (an index out of range, offsets that fall).
 * The graph writes the message (graph/exec.c), on the host after each node, on a device after
 * the run. AdamW computes the clip factor, and whether the step is skipped, in the memory where
 * norm and loss are. So the host need not wait for a kernel within a step. */
#ifndef MF_KERNEL_H
#define MF_KERNEL_H

#include "bf16.h"
#include "f16.h"
#include "stored.h"
#include "stored_value.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A fault that a kernel found in its data. It is in memory of the device, is set to zeros
 * before a step, and keeps the first fault: once `kind` is set, kernels do not write it. The
 * host reads it (mf_fault_message of core/graph/exec.h writes the message). */
typedef enum mf_fault_kind {
    MF_FAULT_NONE,
    MF_FAULT_RANGE,  /* element `index` of an i32 input is `value`, not in lo .. hi-1 */
    MF_FAULT_OFFSET, /* offset[index] is value: below 0, above hi or below the
                      * previous offset */
    MF_FAULT_CACHE,  /* sequence `index` would write lo positions at position value; its cache
                      * has hi positions */
    MF_FAULT_ORDER   /* in expert lo, the token of assignment `index` is value, which is not in
                      * 0 .. hi-1, or is lower than the previous token */
} mf_fault_kind;

/* Kind of the element that is out of range. */
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
    MF_WHAT_ID,     /* id of a token, for an embedding */
    MF_WHAT_TARGET, /* class, for a loss */
    MF_WHAT_COUNT
} mf_fault_what;

typedef struct mf_fault {
    int32_t kind; /* mf_fault_kind */
    int32_t what; /* mf_fault_what, for MF_FAULT_RANGE */
    int32_t node; /* mf_kctx.node of the launch that found the fault */
    int32_t reserved;
    int64_t index, value, lo, hi;
} mf_fault;

/* The key of random kernels. It is in memory of the device, because it changes with each run
 * while launches may be recorded and repeated. */
typedef struct mf_draw_key {
    uint64_t seed, step;
} mf_draw_key;

/* The launch context: the first argument of each kernel. A launch copies it. `key` and `fault`
 * point to memory of the device. */
typedef struct mf_kctx {
    /* Runs fn(arg, t) for all t in [0, tiles). */
    void (*parallel)(int64_t tiles, void (*fn)(void *arg, int64_t tile), void *arg);
    /* Computes one Philox block: words 4 block .. 4 block + 3 of the stream (base/rng.h). */
    void (*rng_block)(uint64_t seed, uint64_t stream, uint64_t step, uint64_t block,
                      uint32_t out[4]);
    const mf_draw_key *key; /* key of random kernels; NULL if there are no random kernels */
    /* number of threads that share the tiles; 0: unknown. Tiles may depend on it, but results
     * must not depend on it. */
    int threads;
    mf_fault *fault; /* memory on the device; NULL: faults are not recorded */
    void *stream;    /* the device's stream; NULL on the host */
    int32_t node;    /* node of the graph to which this launch belongs, for the fault */
} mf_kctx;

/* Whether a fault was found before. Kernels that use indices, targets or offsets then return at
 * once, so they do not read or write out of bounds. For the same reason they are launched only
 * after the kernels that check their indices, targets and offsets. */
MF_ON_DEVICE static inline bool mf_kctx_failed(const mf_kctx *x)
{
    return x->fault && x->fault->kind != MF_FAULT_NONE;
}
/* Records a fault, unless a fault is already recorded. */
MF_ON_DEVICE static inline void mf_kctx_fail(const mf_kctx *x, mf_fault fault)
{
    if (!x->fault || x->fault->kind != MF_FAULT_NONE) return;
    fault.node = x->node;
    *x->fault = fault;
}

/* Types of elements, with the values of mf_dtype. Kernels with an argument `type` read and
 * write their void pointer arrays in that type. `type` is f32 or bf16, in map2 also i32; cast
 * accepts all types. Kernels convert bf16 to f32 when they read it, compute in f32 or double,
 * and round once to bf16, to nearest even, when they write it. */
typedef enum mf_cast_type { MF_CAST_F32, MF_CAST_BF16, MF_CAST_I32, MF_CAST_U8 } mf_cast_type;

MF_ON_DEVICE static inline int64_t mf_cast_size(int type)
{
    return type == MF_CAST_U8 ? 1 : type == MF_CAST_BF16 ? 2 : 4;
}

/* ---- functions of the elementwise kernels ----
 * y = f(x; a, b);  dy/dx, which map1_grad computes from x or from y, as the formula says
 * (GELU_TANH: from x). */
typedef enum mf_map1_fn {
    MF_MAP_EXP,        /* e^x;                       y */
    MF_MAP_LOG,        /* ln x;                      1 / x */
    MF_MAP_SQRT,       /* sqrt x;                    1 / (2 y) */
    MF_MAP_SQUARE,     /* x^2;                       2 x */
    MF_MAP_RECIPROCAL, /* 1 / x;                     -y^2 */
    MF_MAP_ABS,        /* |x|;                       sign x */
    MF_MAP_RELU,       /* max(x, 0);                 0 where y <= 0, else 1 */
    MF_MAP_GELU,       /* x Phi(x);                  Phi(x) + x phi(x) */
    MF_MAP_GELU_TANH,  /* x (1 + tanh u) / 2, u = sqrt(2 / pi) (x + 0.044715 x^3) */
    MF_MAP_SILU,       /* x s(x), s the sigmoid;     s (1 + x (1 - s)) */
    MF_MAP_SIGMOID,    /* 1 / (1 + e^-x);            y (1 - y) */
    MF_MAP_TANH,       /* tanh x;                    1 - y^2 */
    MF_MAP_SOFTPLUS,   /* ln(1 + e^x);               s(x) */
    MF_MAP_NORMAL_CDF, /* Phi(x) = (1 + erf(x / sqrt 2)) / 2;
                          phi(x) = e^(-x^2 / 2) / sqrt(2 pi) */
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
    MF_MAP_MAXIMUM, /* MAXIMUM and MINIMUM: NaN if a or b is NaN */
    MF_MAP_MINIMUM,
    MF_MAP_GREATER, /* 1 where a > b, else 0 */
    MF_MAP2_COUNT
} mf_map2_fn;

/* Functions of a row x [n]; m is its largest element, NaN if the row has one.
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

typedef enum mf_norm_fn { MF_NORM_FN_RMS, MF_NORM_FN_LAYER, MF_NORM_FN_L2 } mf_norm_fn;

/* ---- gemm ---- */

/* A gemm of at most this many rows waits for its weights alone. Sets that fuse compute such
 * gemms with a norm of `a` if a has at most MF_FEW_NORMED elements. */
#define MF_FEW        16
#define MF_FEW_NORMED 16384
#define MF_FEW_ROUTED 4096 /* probabilities, and assignments, that token_route has */

/* A matrix that a gemm reads. Stored row r begins at data + ld * r. If `row` is not NULL, it
 * begins at data + ld * row[r], and it is all zeros if row[r] < 0. */
typedef struct mf_gemm_operand {
    const void *data;
    mf_cast_type type; /* f32 or bf16 */
    bool trans;        /* op(a) is the transpose of the stored matrix */
    /* Only for b: weights [n,k], dense and of a's type, that pack_weights of this set has
     * written. In this case b.trans must be set, the groups must be BATCH or ROWS, and b.row
     * must be NULL. */
    bool packed;
    int64_t ld; /* distance of stored rows, in elements */
    const int32_t *row;
    int64_t step; /* distance of the operands of successive groups, in elements */
} mf_gemm_operand;

typedef struct mf_gemm_result {
    void *data;
    mf_cast_type type; /* f32 or bf16; sums are in f32 or double, and rounded once */
    int64_t ld, step;  /* distances, as in mf_gemm_operand */
} mf_gemm_result;

/* How a gemm is divided into groups; group i computes
 *   BATCH  its own matrices: a + i a.step, b + i b.step, bias + i step_bias, c + i c.step
 *   ROWS   rows offset[i] .. offset[i+1] - 1 of op(a) and of c, with b + i b.step and bias + i
 *          step_bias; m counts the rows of c; rows before offset[0] and from offset[groups] on
 *          become 0, whatever beta is
 *   INNER  c + i c.step from inner indices offset[i] .. offset[i+1] - 1, without bias; k counts
 *          all inner indices, but those in no group are not read
 * offset [groups + 1] never falls (check_offset); it is NULL for BATCH. */
typedef enum mf_gemm_by { MF_BY_BATCH, MF_BY_ROWS, MF_BY_INNER } mf_gemm_by;

/* What a gemm does with elements of c, in addition to writing them. All values except NONE
 * require that the set supports them (can_swiglu).
 *   SWIGLU  also writes y[i,j] = gate[i] silu(c[i,j]) c[i,h+j], c [m,2h], y [m,h], from
 *           elements of c rounded to its type; writes c itself only if `keep`
 *   SUM     c [m/per,n] in f32, c[t] = from[t] (NULL: 0) + sum over q < per of row
 *           place[t per + q] of the gemm, where that is not negative. Only by rows, and of few
 *           rows in bf16, in sets that fuse */
typedef enum mf_gemm_epilogue {
    MF_EPILOGUE_NONE,
    MF_EPILOGUE_SWIGLU,
    MF_EPILOGUE_SUM
} mf_gemm_epilogue;

/* c = alpha op(a) op(b) + bias + beta c, with op(a) [m,k], op(b) [k,n], c [m,n], all stored
 * row-major. If one operand is bf16, the other is rounded to bf16, too. With as_bf16 both
 * operands are rounded. */
typedef struct mf_gemm {
    int64_t m, n, k;
    mf_gemm_operand a, b;
    mf_gemm_result c;
    float alpha, beta; /* beta is 0 (c is not read) or 1 */
    const float *bias; /* [n] or NULL */
    int64_t step_bias; /* distance of the biases of successive groups */
    mf_gemm_by by;
    int64_t groups; /* 0 means 1 */
    const int32_t *offset;
    bool as_bf16;
    mf_gemm_epilogue epilogue;
    mf_gemm_result y;  /* this field and the following fields are for the epilogue */
    const float *gate; /* [m]; NULL: 1 */
    bool keep;
    /* with beta 1: what is added in place of c, with c's distances; NULL: c itself. Only for
     * sets that fuse, for one group, and c in f32 */
    const float *from;
    const int32_t *place; /* [m], with SUM */
    int64_t per;
    /* Whether rows of a, which is f32 with ld k, are normed (as by `norm`, with these
     * arguments) before they are rounded to bf16, the type of b. Only for sets that fuse, and
     * few rows */
    bool norms, eps_outside;
    mf_norm_fn norm;
    float eps;
    const float *norm_w, *norm_b;
} mf_gemm;

/* ---- sizes of work memory in bytes; the memory is 64-byte aligned ---- */
/* sum3: number of terms in one partial sum. The work memory has a double for each partial sum
 * if a result has more than one partial sum. */
MF_ON_DEVICE static inline int64_t mf_sum3_chunk(int64_t inner)
{
    return inner >= 16 ? 512 : 8192;
}
static inline size_t mf_sum3_work(int64_t outer, int64_t n, int64_t inner)
{
    int64_t chunks = (n + mf_sum3_chunk(inner) - 1) / mf_sum3_chunk(inner);
    return chunks > 1 ? (size_t)(outer * chunks * inner) * sizeof(double) : 0;
}
/* bincount, joint_count: a table of counts for each tile of rows. */
MF_ON_DEVICE static inline int64_t mf_count_tiles(int64_t rows)
{
    return rows <= 8192 ? 1 : rows >= 16 * 8192 ? 16 : rows / 8192;
}
static inline size_t mf_count_work(int64_t rows, int64_t bins)
{
    return (size_t)(mf_count_tiles(rows) * bins) * sizeof(double);
}
/* score_bins: the range of the bins. */
typedef struct mf_bin_range {
    double lo, width;
} mf_bin_range;
MF_ON_DEVICE static inline mf_bin_range mf_bin_range_of(int64_t experts, int64_t bins,
                                                        double lo, double hi, const float *bias)
{
    float least = bias ? bias[0] : 0, most = least;
    for (int64_t e = 1; bias && e < experts; e++) {
        if (bias[e] < least) least = bias[e];
        if (bias[e] > most) most = bias[e];
    }
    mf_bin_range r;
    r.lo = lo + (double)least;
    r.width = (hi + (double)most - r.lo) / (double)bins;
    return r;
}
/* Returns the bin of a value. Numbers below the range, and NaN, are in bin 0; numbers above the
 * range are in the last bin. */
MF_ON_DEVICE static inline int64_t mf_bin_of(float value, mf_bin_range r, int64_t bins)
{
    const double at = floor(((double)value - r.lo) / r.width);
    return !(at > 0) ? 0 : at < (double)bins ? (int64_t)at : bins - 1;
}
static inline size_t mf_score_bins_work(int64_t experts, int64_t bins)
{
    return sizeof(mf_bin_range) + (size_t)(experts * bins) * sizeof(int32_t);
}
static inline size_t mf_capacity_work(int64_t rows, int64_t experts)
{
    return (size_t)(rows + experts + 1) * sizeof(int32_t);
}
static inline size_t mf_reassign_work(int64_t rows, int64_t experts)
{
    return (size_t)(rows + 2 * experts + 1) * sizeof(int32_t);
}
#define MF_STATS_TOKENS 256 /* number of tokens in one tile of routing_stats */
#define MF_STATS_SUMS   4   /* number of scalars of routing_stats */
static inline size_t mf_routing_stats_work(int64_t tokens, int64_t rows, int64_t experts)
{
    int64_t tiles = (tokens > rows ? tokens : rows) / MF_STATS_TOKENS + 1;
    return (size_t)(tiles * (3 * experts + MF_STATS_SUMS)) * sizeof(double) +
           (size_t)tokens * sizeof(int32_t);
}

#define MF_MAX_HEAD_DIM 576
static inline size_t mf_grouped_attention_work(int64_t rows, int64_t experts, int64_t batch)
{
    return (size_t)(rows + experts * batch + 1) * sizeof(int32_t);
}

/* linear_cross_entropy: number of rows in a chunk. Logits of a small vocabulary stay in the L2
 * cache. With a large vocabulary they do not stay; the cost of a chunk is then that w and dw
 * are read from memory, and w is copied.
 *
 * most_logits > 0: the bytes of logits that a chunk may have, instead of these rules. On a GPU
 * no cache holds the logits, and few chunks read w and dw less often. */
static inline int64_t mf_linear_cross_entropy_chunk(int64_t rows, int64_t vocab,
                                                    int64_t most_logits)
{
    const int64_t row = (int64_t)sizeof(float) * vocab, far = ((int64_t)160 << 20) / row;
    int64_t most = vocab <= 2048 ? ((int64_t)1 << 20) / row / 64 * 64 : far < 1280 ? far : 1280;
    if (most_logits > 0) most = most_logits / row;
    if (most < 512) most = 512;
    const int64_t chunks = (rows + most - 1) / most; /* chunks have equal sizes, except the
                                                      * last one */
    return chunks > 1 ? (rows + 8 * chunks - 1) / (8 * chunks) * 8 : rows;
}
static inline size_t mf_align64(int64_t bytes)
{
    return (size_t)(bytes + 63) / 64 * 64;
}
/* most_logits of GPUs: four chunks of a step of GPT-2 with 16,384 tokens. */
#define MF_GPU_LOGITS ((int64_t)1 << 30)
/* Distance of rows of logits on a device, a multiple of 16 bytes. */
static inline int64_t mf_linear_cross_entropy_pitch(int64_t vocab)
{
    return (vocab + 3) / 4 * 4;
}
/* Whether a block of a GPU, which may have `shared` bytes of shared memory, keeps a row of
 * logits there. Sums over the row have a part of it; a short row is the work of one warp. */
static inline bool mf_linear_cross_entropy_keeps(int64_t vocab, int64_t shared)
{
    return vocab > 1024 && 4 * mf_linear_cross_entropy_pitch(vocab) + 1024 <= shared;
}
/* want_dx, want_dbias: whether dx and dbias are not NULL. */
static inline size_t mf_linear_cross_entropy_work(int64_t rows, int64_t d, int64_t vocab,
                                                  int type, int64_t most_logits, bool want_dx,
                                                  bool want_dbias)
{
    const int64_t chunk = mf_linear_cross_entropy_chunk(rows, vocab, most_logits),
                  pitch = mf_linear_cross_entropy_pitch(vocab);
    const size_t x = mf_align64(chunk * d * mf_cast_size(type));
    size_t bytes =
        mf_align64(chunk * pitch * 4) + x + 4 * mf_align64(chunk * 4) + mf_align64(rows * 4);
    if (want_dx) bytes += x;
    if (want_dbias)
        bytes += mf_align64(pitch * 4) + mf_align64((int64_t)mf_sum3_work(1, chunk, pitch));
    return bytes;
}

/* ---- optimizers ---- */

/* Values that change from step to step. They are in memory of the device. */
typedef struct mf_update_now {
    double lr, weight_decay, clip;   /* clip <= 0: no clipping */
    double grad_scale;               /* gradients are first multiplied by it */
    double correction1, correction2; /* 1 - beta^step */
    double step;                     /* number of this step, from 1 */
} mf_update_now;

/* The settings of an optimizer for one range of parameters. The memory behind the pointers is
 * read on the device when the kernel runs, so that the host need not wait for these values. */
typedef struct mf_update_args {
    double beta1, beta2, eps;
    double lr_scale;    /* factor on now->lr */
    double decay_scale; /* factor on now->weight_decay: 1 or 0 */
    bool l2;            /* adamw: decay is added to the gradient, as in Adam */
    const mf_update_now *now;
    /* norm = sqrt(sumsq[0]) grad_scale. The step is skipped if the norm or loss[0] is not
     * finite, or if a fault is recorded. Gradients are multiplied by clip / norm if clip > 0
     * and the norm is above clip. If sumsq is NULL, the norm is 0; if loss is NULL, it counts
     * as finite. */
    const double *sumsq;
    const float *loss;
} mf_update_args;

/* One of several ranges that a kernel processes in one call. The factors are those of
 * mf_update_args. */
typedef struct mf_update_range {
    int64_t first, count; /* in values, copies and gradients */
    int64_t at[2];        /* first element in m, in v */
    int64_t tile;         /* number of tiles of the ranges before this one */
    double lr_scale, decay_scale;
} mf_update_range;
#define MF_UPDATE_TILE 4096 /* elements of a tile; the last tile of a range may have fewer */

/* Adds a range to a table [n], behind which there is room for another one. */
static inline void mf_update_range_add(mf_update_range *table, int64_t n, mf_update_range r)
{
    const mf_update_range *last = n > 0 ? &table[n - 1] : NULL;
    r.tile = last ? last->tile + (last->count + MF_UPDATE_TILE - 1) / MF_UPDATE_TILE : 0;
    table[n] = r;
}

/* The values for the update of a range, computed from values in memory of the device. */
typedef struct mf_update_factors {
    double scale; /* factor on gradients; 0: the step is skipped */
    double lr, weight_decay, l2, correction1, correction2;
} mf_update_factors;

/* Computes the factors; kernels call this. */
MF_ON_DEVICE static inline mf_update_factors mf_update_resolve(const mf_kctx *x,
                                                               const mf_update_args *p)
{
    const mf_update_now *now = p->now;
    const double norm = p->sumsq ? sqrt(p->sumsq[0]) * now->grad_scale : 0;
    const double decay = now->weight_decay * p->decay_scale;
    mf_update_factors f = {.scale = 0,
                           .lr = now->lr * p->lr_scale,
                           .weight_decay = p->l2 ? 0 : decay,
                           .l2 = p->l2 ? decay : 0,
                           .correction1 = now->correction1,
                           .correction2 = now->correction2};
    if (!isfinite(norm) || (p->loss && !isfinite(p->loss[0])) || mf_kctx_failed(x)) return f;
    f.scale = now->clip > 0 && norm > now->clip ? now->grad_scale * (now->clip / norm)
                                                : now->grad_scale;
    return f;
}

/* Adafactor's constants, with the values of Shazeer and Stern 2018. Only eps1 differs: it is
 * the distance of f32 numbers at 1, as in PyTorch. */
#define MF_ADAFACTOR_POWER 0.8
#define MF_ADAFACTOR_EPS1  1.1920928955078125e-7
#define MF_ADAFACTOR_EPS2  1e-3
#define MF_ADAFACTOR_CLIP  1.0

/* The values that Adafactor computes from `now`. fresh: the weight of the new squares in their
 * means. relative: the factor on lr, at most 1. It keeps the relative step, relative times lr,
 * at most 1 / sqrt(step). */
typedef struct mf_adafactor_factors {
    double fresh, relative;
} mf_adafactor_factors;

MF_ON_DEVICE static inline mf_adafactor_factors mf_adafactor_resolve(const mf_update_args *p)
{
    const double step = p->now->step, most = p->now->lr * p->lr_scale * sqrt(step);
    const mf_adafactor_factors f = {.fresh = pow(step, -MF_ADAFACTOR_POWER),
                                    .relative = most > 1 ? 1 / most : 1};
    return f;
}
/* Returns the number of elements of v of one group: means of the rows and of the columns, or of
 * each element. */
MF_ON_DEVICE static inline int64_t mf_adafactor_state(int64_t rows, int64_t columns)
{
    return rows > 0 ? rows + columns : columns;
}
/* adafactor: number of row tiles of a group, each with partial sums in the work memory. */
#define MF_ADAFACTOR_TILES 16
static inline size_t mf_adafactor_work(int64_t groups, int64_t columns)
{
    return (size_t)(groups * (MF_ADAFACTOR_TILES * (columns + 2) + 2)) * sizeof(double);
}

/* Sizes of the work memory of sumsq, norm_backward and embedding_grad. */
#define MF_SUMSQ_TILES 256
#define MF_SUMSQ_WORK  (MF_SUMSQ_TILES * sizeof(double)) /* of one range */
#define MF_NORM_TILES  16
static inline size_t mf_norm_work(int64_t n)
{
    return (size_t)(2 * MF_NORM_TILES * n) * sizeof(float);
}
/* For sets that fuse: the longest rows of norm_backward with add, copy or sum, and the number
 * of partial sums of a column; work memory for such sums of n columns of several arrays. */
#define MF_NORM_ADD_MOST 4096
#define MF_SUM_TILES     128
static inline size_t mf_sums_work(int64_t arrays, int64_t n)
{
    return (size_t)(arrays * MF_SUM_TILES * n) * sizeof(float);
}
static inline size_t mf_kernel_embedding_work(int64_t vocab, int64_t count)
{
    return (size_t)(vocab + 1 + count) * sizeof(int32_t);
}

/* ---- kernels ---- */

#define MF_KERNEL(fn, set, cost, ...)                                                          \
    typedef struct mf_##fn##_args {                                                            \
        __VA_ARGS__                                                                            \
    } mf_##fn##_args;
#define MF_KERNEL_AS(fn, args, ...) typedef args mf_##fn##_args;
#include "kernels/kernels.def"

typedef struct mf_kernels {
    const char *name; /* for example "ref" or "cpu" */
    /* Called on the host: whether pack_weights has a layout for weights [n,k] of this type. */
    bool (*can_pack)(int type, int64_t n, int64_t k);
    /* Called on the host: whether gemm computes g with its epilogue SWIGLU. NULL: never. */
    bool (*can_swiglu)(const mf_gemm *g);
    /* For linear_cross_entropy: its argument most_logits. */
    int64_t most_logits;
    /* Whether the set has what graph/plan/fuse_*.c need: arguments and kernels that kernels.def
     * and mf_gemm have for sets that fuse. */
    bool fuses;
#define MF_KERNEL(fn, ...) void (*fn)(const mf_kctx *x, const mf_##fn##_args *a);
#include "kernels/kernels.def"
    /* Computes sums of the tiles in which sumsq adds a range of `total` elements, for callers
     * that have only some of the tiles. *ret_tile: number of elements of a tile; the last tile
     * may have fewer. part [count]: the sums of tiles first .. first + count - 1 of a. The sum
     * of the range is the sums of all tiles, added to 0 in their order. NULL: the set has one
     * tile, like `ref`. */
    void (*sumsq_tiles)(const mf_kctx *x, int64_t total, int64_t first, int64_t count,
                        const float *a, int64_t *ret_tile, double *part);
} mf_kernels;

/* The arguments for range i alone of a call with several ranges. */
static inline mf_adamw_args mf_adamw_range(const mf_adamw_args *a, int64_t i)
{
    const mf_update_range *r = &a->range[i];
    mf_adamw_args one = *a;
    one.range = NULL, one.count = r->count;
    one.update.lr_scale = r->lr_scale, one.update.decay_scale = r->decay_scale;
    one.value += r->first, one.grad += r->first, one.m += r->at[0], one.v += r->at[1];
    if (a->copy) one.copy += r->first;
    return one;
}
static inline mf_sumsq_args mf_sumsq_range(const mf_sumsq_args *a, int64_t i)
{
    mf_sumsq_args one = *a;
    one.range = NULL, one.count = a->range[i].count;
    one.a += a->range[i].first, one.add = a->add || i > 0;
    return one;
}

/* MF_RUN(set, context, NAME, .field = value, ...) runs a kernel of a set; fields that are not
 * set are 0 or NULL. MF_FOUR: the elements of an array, for a field of four elements. */
#define MF_RUN(set, x, fn, ...) (set)->fn(x, &(mf_##fn##_args){__VA_ARGS__})
#define MF_FOUR(v)                                                                             \
    {                                                                                          \
        (v)[0], (v)[1], (v)[2], (v)[3]                                                         \
    }

extern const mf_kernels mf_kernels_ref;

/* Returns the cpu set: the kernels of ref, replaced by those of kernels/cpu that exist for the
 * instruction set. This is the best instruction set of this machine, or the one in the
 * environment variable MOEFW_ISA. Returns NULL if that name is unknown or its instructions are
 * not available, or if mf_kernels_gemm returns NULL; the caller reports this, with
 * mf_kernels_isas for the valid names. The first call makes the choice, opens the library that
 * computes gemms, if there is one, and must be made while there is one thread. Results differ
 * between instruction sets by rounding. On one machine, with one instruction set and one
 * MOEFW_GEMM, they always have the same bits. */
const mf_kernels *mf_kernels_cpu(void);
/* Sets how many threads will call kernels at the same time (default: 1). A library that needs
 * memory for each thread allocates it when it is opened. Call this before mf_kernels_cpu. */
void mf_kernels_expect_threads(int threads);
/* Prepares the calling thread to compute with the cpu set, which packs operands in memory of
 * the thread; false: no memory. After this call, tiles of the thread cannot fail because this
 * memory is missing. */
bool mf_kernels_begin_thread(void);
/* Returns the instruction sets that this build contains and this machine can run, best first;
 * NULL ends the list. */
const char *const *mf_kernels_isas(void);
/* Returns the instruction set of mf_kernels_cpu; NULL if mf_kernels_cpu returns NULL. */
const char *mf_kernels_isa(void);
/* Returns a text about OpenBLAS: name, version, build, and the kernels that it chose, or the
 * reason why it cannot be used. Loads the library. */
const char *mf_kernels_blas(void);
/* Returns the code that computes plain gemms in the cpu set: "own" or "openblas", from the
 * environment variable MOEFW_GEMM. The default is "own" if vectors have more than four numbers,
 * or if OpenBLAS is missing, else "openblas". Some gemms are never passed to a library but
 * computed by our own kernels: gemms with gathered rows, with few rows or columns, and in bf16.
 * NULL: the variable has an unknown name, or a name that cannot be used. */
const char *mf_kernels_gemm(void);
/* Returns why the library that MOEFW_GEMM names, or OpenBLAS if it is the default, cannot be
 * used. NULL: it can be used, or no library is requested. */
const char *mf_kernels_gemm_refused(void);
/* Returns the valid names of MOEFW_GEMM; NULL ends the list. */
const char *const *mf_kernels_gemms(void);
/* For tests and benchmarks: acts as if MOEFW_GEMM had this value (NULL or "": unset). Returns
 * false if mf_kernels_gemm would return NULL. Call this after the first call of mf_kernels_cpu,
 * and while no other thread uses kernels. */
bool mf_kernels_use_gemm(const char *name);
/* Runs `rounds` rounds of multiply-adds on registers in the calling thread, with the widest
 * vectors of the set; bf16: with the unit that multiplies bf16 in large gemms of the set, which
 * are matrix registers, pairs of bf16, or the vectors of f32. Returns the number of operations.
 * Their rate is an upper bound for gemms of the type. */
double mf_kernels_multiply(bool bf16, int64_t rounds);
/* For tests and benchmarks: returns the cpu set compiled for one of mf_kernels_isas; NULL if
 * the name is not in that list. The next call overwrites it. */
const mf_kernels *mf_kernels_cpu_for(const char *isa);

/* Returns a set by name: "ref", "cpu"; NULL or "" means "cpu". NULL for an unknown name, or if
 * mf_kernels_cpu returns NULL; the caller reports this, because it has read MOEFW_KERNELS. */
const mf_kernels *mf_kernels_select(const char *name);

#endif

/* kernels/kernel.h: the table of numeric kernels, by backend.
 *
 * A kernel gets raw pointers, sizes and strides, never a tensor. Each is declared once, in
 * kernels.def, with its formula. `ref` implements all of them with plain loops and double
 * accumulators: it is the truth. Another set begins as a copy of `ref` and puts its faster ones
 * over it, so a set may be incomplete but never has a hole. The CUDA backend has the same table
 * over device pointers.
 *
 * Rules: no allocation (work memory is handed in); no result depends on the number of threads:
 * sums are in a fixed order, and tiles are cut so that no number notices.
 */
#ifndef MF_KERNEL_H
#define MF_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where a kernel runs: handed to each as its first argument. */
typedef struct mf_kctx {
    /* Runs fn(arg, t) for all t in [0, tiles). */
    void (*parallel)(int64_t tiles, void (*fn)(void *arg, int64_t tile), void *arg);
    /* One Philox block: words 4 block .. 4 block + 3 of the stream (base/rng.h). */
    void (*rng_block)(uint64_t seed, uint64_t stream, uint64_t step, uint64_t block,
                      uint32_t out[4]);
    uint64_t seed, step; /* of random kernels */
    int threads; /* that share the tiles; 0: not known. How products are cut may depend on
                            it, what they give may not. */
} mf_kctx;

/* The upper half of a float. Kernels named _bf16 read and write some of their arrays so; they
 * widen on reading, compute in f32 and round to nearest even on writing, once. */
typedef uint16_t mf_bf16;

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
    MF_MAP_NORMAL_CDF, /* Phi(x) = (1 + erf(x / sqrt 2)) / 2;  phi(x) = e^(-x^2 / 2) / sqrt(2
                          pi) */
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

/* Types that cast knows; the values are mf_dtype's. */
typedef enum mf_cast_type { MF_CAST_F32, MF_CAST_BF16, MF_CAST_I32, MF_CAST_U8 } mf_cast_type;

/* Any product: c = alpha op(a) op(b) + bias + beta c, op(a) [m,k], op(b) [k,n], c [m,n], of
 * `parts` parts i that are
 *   BATCH  apart in all: a + i step_a, b + i step_b, bias + i step_bias, c + i step_c
 *   ROWS   rows offset[i] .. offset[i+1] of op(a) and of c, with b + i step_b, bias + i
 *          step_bias; m counts the rows of c, those past offset[parts] become 0, whatever beta
 *          is
 *   INNER  the inner indices offset[i] .. offset[i+1], giving c + i step_c, without bias; k
 *          counts them all. Those past offset[parts] are not read.
 * offset [parts+1] rises from 0 (of BATCH: NULL). Matrices are row-major as stored: a is [m,k],
 * or [k,m] when trans_a; b is [k,n], or [n,k] when trans_b. Where one operand is bf16 the other
 * is rounded to bf16 too, with as_bf16 both. Sums are in f32, rounded to type_c once. */
typedef enum mf_product_by { MF_BY_BATCH, MF_BY_ROWS, MF_BY_INNER } mf_product_by;

typedef struct mf_product {
    int64_t m, n, k;
    bool trans_a, trans_b;
    mf_cast_type type_a, type_b, type_c; /* each MF_CAST_F32 or MF_CAST_BF16 */
    bool as_bf16;
    /* b, [n,k], dense and of a's type, is as pack_weights of this set left it; then trans_b, by
     * BATCH or ROWS, no row_b. */
    bool panels_b;
    const void *a, *b;
    void *c;
    int64_t lda, ldb, ldc;        /* row strides of what is stored, in elements */
    const int32_t *row_a, *row_b; /* stored row r is in row row_a[r] of memory; it is 0
                                            where that is < 0; NULL: in row r */
    float alpha, beta;            /* beta is 0 (c is not read) or 1 */
    const float *bias;            /* [n] or NULL */
    mf_product_by by;
    int64_t parts; /* 0 stands for 1 */
    const int32_t *offset;
    int64_t step_a, step_b, step_c, step_bias; /* in elements */
} mf_product;

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

typedef struct mf_adamw_args {
    double lr, beta1, beta2, eps, weight_decay, grad_scale;
    double l2; /* decay that goes through the gradient, as in plain Adam */
    double correction1, correction2; /* 1 - beta^step */
} mf_adamw_args;

/* Bytes of work memory that kernels ask for. */
#define MF_NORM_TILES 16
static inline size_t mf_kernel_norm_work(int64_t n)
{
    return (size_t)(2 * MF_NORM_TILES * n) * sizeof(float);
}
static inline size_t mf_kernel_embedding_work(int64_t vocab, int64_t count)
{
    return (size_t)(vocab + 1 + count) * sizeof(int32_t);
}

typedef struct mf_kernels {
    const char *name; /* "ref", "cpu" */
#define MF_KERNEL(ret, fn, args) ret(*fn) args;
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
/* The product library under the cpu set: name, version, build, the kernels it chose. */
const char *mf_kernels_blas(void);
/* Who computes plain products in the cpu set: "own", "openblas" or "onednn", as the environment
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
 * so many rounds of them; returns how many operations: what no product can be faster than. */
double mf_kernels_multiply(int64_t rounds);
/* For tests and benchmarks: the cpu set compiled for one of mf_kernels_isas; NULL if unknown.
 * Overwritten by the next call. */
const mf_kernels *mf_kernels_cpu_for(const char *isa);

/* The set by name: "ref", "cpu"; NULL or "" means cpu. NULL for an unknown name: the caller,
 * who read MOEFW_KERNELS, reports it. */
const mf_kernels *mf_kernels_select(const char *name);

#endif

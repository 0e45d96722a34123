/* cost.h: the cost of a call of each kernel on a GPU, computed from its arguments:
 * mf_NAME_cost, from the list in kernels.def, and functions that several of its
 * formulas use. */
#ifndef MF_KERNEL_COST_H
#define MF_KERNEL_COST_H

#include "kernels/kernel.h"

typedef struct mf_cost {
    int64_t launches, bytes, flops;
} mf_cost;

/* Launches, bytes and operations of a call; values that are omitted are 0. */
#define MF_COST(...) mf_cost_of((const int64_t[3]){__VA_ARGS__})

static inline mf_cost mf_cost_of(const int64_t count[3])
{
    return (mf_cost){.launches = count[0], .bytes = count[1], .flops = count[2]};
}

/* Returns the number of elements of an operand, which repeats where its stride is 0; stride
 * NULL: it repeats nowhere. */
static inline int64_t mf_elements(const int64_t dim[4], const int64_t *stride)
{
    int64_t n = 1;
    for (int i = 0; i < 4; i++)
        n *= stride && stride[i] == 0 ? 1 : dim[i];
    return n;
}

static inline bool mf_row_is_one(int fn)
{
    return fn == MF_ROW_MAX || fn == MF_ROW_LOGSUMEXP;
}

/* Returns the launches of index_lists, which is also the first part of other kernels: it reads
 * all indices once for each group of values. */
static inline int64_t mf_list_launches(int64_t m, int64_t n)
{
    return m <= 0 ? 1 : n <= 1024 ? 5 : 7;
}
static inline int64_t mf_list_bytes(int64_t m, int64_t n)
{
    return 4 * (4 * m + 3 * n);
}

/* mf_gemm_own: whether our own kernels compute a gemm, and not cuBLASLt. The next function:
 * whether it is computed in bf16. The general kernel, which multiplies in f32, computes a gemm
 * of two types. */
static inline bool mf_gemm_own(const mf_gemm *g)
{
    return g->by != MF_BY_BATCH || g->a.row || g->b.row || g->norms;
}
static inline bool mf_gemm_bf16(const mf_gemm *g)
{
    return g->as_bf16 || g->norms || (g->a.type == MF_CAST_BF16 && g->b.type == MF_CAST_BF16);
}
/* Returns the launches of a gemm. A dense gemm of bf16 is two launches if one long dimension
 * along stored rows is no multiple of eight (kernels/cuda/lt.c). */
static inline int64_t mf_gemm_launches(const mf_gemm *g)
{
    enum { LONG = 2048, EIGHT = 8 };
    const int odd = (g->n >= LONG && g->n % EIGHT != 0) +
                    (g->a.trans && g->m >= LONG && g->m % EIGHT != 0) +
                    ((!g->a.trans || g->b.trans) && g->k >= LONG && g->k % EIGHT != 0);
    if (mf_gemm_own(g))
        return g->by == MF_BY_ROWS && (!mf_gemm_bf16(g) || g->m > MF_FEW) ? 2 : 1;
    return mf_gemm_bf16(g) && g->groups <= 1 && odd == 1 ? 2 : 1;
}
static inline mf_cost mf_cost_of_gemm(const mf_gemm *g)
{
    const int64_t groups = g->groups > 1 ? g->groups : 1,
                  each = g->by == MF_BY_BATCH ? groups : 1;
    /* a group without rows reads no weights */
    const int64_t of_b = g->by != MF_BY_ROWS ? each : g->m < groups ? g->m : groups;
    const int64_t of_c = g->by == MF_BY_INNER ? groups : each;
    int64_t c = of_c * g->m * g->n * mf_cast_size(g->c.type) * (g->beta != 0 ? 2 : 1);
    if (g->epilogue == MF_EPILOGUE_SWIGLU)
        c = (g->keep ? c : 0) + g->m * g->n / 2 * mf_cast_size(g->y.type);
    if (g->epilogue == MF_EPILOGUE_SUM) c = 8 * (g->m / g->per) * g->n + 4 * g->m;
    return MF_COST(mf_gemm_launches(g),
                   each * g->m * g->k * mf_cast_size(g->a.type) +
                       of_b * g->k * g->n * mf_cast_size(g->b.type) + c +
                       4 * g->k * (!!g->norm_w + !!g->norm_b),
                   2 * each * g->m * g->n * g->k);
}

/* mf_norm_sums: whether norm_backward sums over columns. The next function: whether it reads dy
 * once more, because da, which overwrites dy, is computed last. */
static inline bool mf_norm_sums(const mf_norm_args *a)
{
    return (a->dw || a->db) && a->kind != MF_NORM_FN_L2;
}
static inline bool mf_norm_twice(const mf_norm_args *a)
{
    return mf_norm_sums(a) && (const void *)a->da == a->dy;
}
static inline bool mf_norm_adds(const mf_norm_args *a)
{
    return a->add || a->copy || a->sum;
}
static inline mf_cost mf_cost_of_norm_backward(const mf_norm_args *a)
{
    const int64_t size = a->rows * a->n, in = 4 + mf_cast_size(a->type),
                  sums = !!a->dw + !!a->db + !!a->sum;
    if (mf_norm_adds(a))
        return MF_COST(1 + (sums > 0), size * (in + 4 + (a->add ? 4 : 0) + (a->copy ? 2 : 0)) +
                                           sums * a->n * 4 * (2 * MF_SUM_TILES + 1));
    return MF_COST(1 + mf_norm_sums(a) * (2 - !!a->offset) + mf_norm_twice(a),
                   size * (in * (1 + mf_norm_sums(a) + mf_norm_twice(a)) + (a->da ? 4 : 0)));
}

static inline int64_t mf_attention_pairs(const mf_attention_args *a)
{
    const int64_t heads = a->batch * a->heads;
    return heads * a->t * a->s - (a->causal ? heads * a->t * (a->t - 1) / 2 : 0);
}
static inline int64_t mf_attention_bytes(const mf_attention_args *a)
{
    return (a->bf16 ? 2 : 4) * a->batch * a->head_dim * 2 *
           (a->t * a->heads + a->s * a->kv_heads);
}
/* Returns the width of a head in the kernels of bf16; 0: the kernels of f32 compute
 * the call. */
static inline int64_t mf_attention_width(const mf_attention_args *a)
{
    if (!a->bf16 || a->head_dim % 8 != 0 || a->head_dim > 256) return 0;
    return a->head_dim <= 64 ? 64 : a->head_dim <= 128 ? 128 : 256;
}
/* Returns the number of pairs of an assignment and a key, times the width. If each expert has
 * its own keys, each expert is assumed to have an equal share of the assignments. */
static inline int64_t mf_grouped_attention_terms(const mf_grouped_attention_args *a)
{
    const int64_t width = a->heads * a->head_dim;
    return a->own ? a->rows * a->rows * width / a->experts : a->rows * a->s * width;
}

#define MF_KERNEL(fn, set, cost, ...)                                                          \
    static inline mf_cost mf_##fn##_cost(const mf_##fn##_args *a)                              \
    {                                                                                          \
        (void)a;                                                                               \
        return cost;                                                                           \
    }
#include "kernels/kernels.def"

#endif

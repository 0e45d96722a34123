/* grouped.c: products by group, as mf_product has them. */
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vec.h"

void MF_SIMD(grouped_linear)(const mf_kctx *x, int64_t groups, int64_t rows, int64_t n,
                             int64_t k, const int32_t *offset, const float *a, const float *w,
                             const float *bias, float *y)
{
    const mf_product p = {.m = rows,
                          .n = n,
                          .k = k,
                          .trans_b = true,
                          .a = a,
                          .b = w,
                          .c = y,
                          .lda = k,
                          .ldb = k,
                          .ldc = n,
                          .alpha = 1,
                          .bias = bias,
                          .by = MF_BY_ROWS,
                          .parts = groups,
                          .offset = offset,
                          .step_b = n * k,
                          .step_bias = n};
    MF_SIMD(product)(x, &p);
}

void MF_SIMD(grouped_linear_dx)(const mf_kctx *x, int64_t groups, int64_t rows, int64_t n,
                                int64_t k, const int32_t *offset, const float *dy,
                                const float *w, float *da)
{
    const mf_product p = {.m = rows,
                          .n = k,
                          .k = n,
                          .a = dy,
                          .b = w,
                          .c = da,
                          .lda = n,
                          .ldb = k,
                          .ldc = k,
                          .alpha = 1,
                          .by = MF_BY_ROWS,
                          .parts = groups,
                          .offset = offset,
                          .step_b = n * k};
    MF_SIMD(product)(x, &p);
}

void MF_SIMD(grouped_weight_grad)(const mf_kctx *x, int64_t groups, int64_t rows, int64_t n,
                                  int64_t k, const int32_t *offset, const float *dy,
                                  const float *a, float *dw)
{
    const mf_product p = {.m = n,
                          .n = k,
                          .k = rows,
                          .trans_a = true,
                          .a = dy,
                          .b = a,
                          .c = dw,
                          .lda = n,
                          .ldb = k,
                          .ldc = k,
                          .alpha = 1,
                          .by = MF_BY_INNER,
                          .parts = groups,
                          .offset = offset,
                          .step_c = n * k};
    MF_SIMD(product)(x, &p);
}

#define SUM_COLS 512

typedef struct sums {
    int64_t n, across;
    const int32_t *offset;
    const void *a;
    float *y;
} sums;

V_INLINE void sum_part(const sums *p, int64_t tile, bool bf16)
{
    int64_t e = tile / p->across, j = tile % p->across * SUM_COLS;
    int64_t cols = p->n - j < SUM_COLS ? p->n - j : SUM_COLS;
    float *y = p->y + e * p->n + j;
    memset(y, 0, (size_t)cols * sizeof(float));
    for (int64_t r = p->offset[e]; r < p->offset[e + 1]; r++) {
        const void *a = v_at(p->a, r * p->n + j, bf16);
        int64_t i = 0;
        for (; i + VL <= cols; i += VL)
            v_store(y + i, v_load(y + i) + v_get(a, i, bf16));
        if (i < cols)
            v_store_n(y + i, v_load_n(y + i, cols - i) + v_get_n(a, i, cols - i, bf16),
                      cols - i);
    }
}

static void sum_tile(void *arg, int64_t tile)
{
    sum_part(arg, tile, false);
}

static void sum_bf16_tile(void *arg, int64_t tile)
{
    sum_part(arg, tile, true);
}

void MF_SIMD(group_sum)(const mf_kctx *x, int64_t groups, int64_t rows, int64_t n,
                        const int32_t *offset, const float *a, float *y)
{
    (void)rows;
    sums p = {n, (n + SUM_COLS - 1) / SUM_COLS, offset, a, y};
    x->parallel(groups * p.across, sum_tile, &p);
}

void MF_SIMD(group_sum_bf16)(const mf_kctx *x, int64_t groups, int64_t rows, int64_t n,
                             const int32_t *offset, const mf_bf16 *a, float *y)
{
    (void)rows;
    sums p = {n, (n + SUM_COLS - 1) / SUM_COLS, offset, a, y};
    x->parallel(groups * p.across, sum_bf16_tile, &p);
}

/* grouped.c: products whose weight depends on the group that a row lies in. */
#include <string.h>

#include "kernels/ref/ref.h"

static void zero_rows(int64_t from, int64_t to, int64_t n, float *y)
{
    memset(y + from * n, 0, (size_t)((to - from) * n) * sizeof(float));
}

void mf_ref_grouped_linear(const mf_kctx *x, int64_t groups, int64_t rows, int64_t n, int64_t k,
                           const int32_t *offset, const float *a, const float *w,
                           const float *bias, float *y)
{
    for (int64_t e = 0; e < groups; e++)
        mf_ref_linear(x, offset[e + 1] - offset[e], n, k, a + offset[e] * k, w + e * n * k,
                      bias != NULL ? bias + e * n : NULL, y + offset[e] * n);
    zero_rows(offset[groups], rows, n, y);
}

void mf_ref_grouped_linear_dx(const mf_kctx *x, int64_t groups, int64_t rows, int64_t n,
                              int64_t k, const int32_t *offset, const float *dy, const float *w,
                              float *da)
{
    for (int64_t e = 0; e < groups; e++)
        mf_ref_matmul(x, false, false, offset[e + 1] - offset[e], k, n, 1, dy + offset[e] * n,
                      n, w + e * n * k, k, 0, da + offset[e] * k, k);
    zero_rows(offset[groups], rows, k, da);
}

void mf_ref_grouped_weight_grad(const mf_kctx *x, int64_t groups, int64_t rows, int64_t n,
                                int64_t k, const int32_t *offset, const float *dy,
                                const float *a, float *dw)
{
    (void)rows;
    for (int64_t e = 0; e < groups; e++)
        mf_ref_matmul(x, true, false, n, k, offset[e + 1] - offset[e], 1, dy + offset[e] * n, n,
                      a + offset[e] * k, k, 0, dw + e * n * k, k);
}

void mf_ref_group_sum(const mf_kctx *x, int64_t groups, int64_t rows, int64_t n,
                      const int32_t *offset, const float *a, float *y)
{
    (void)x, (void)rows;
    for (int64_t e = 0; e < groups; e++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t r = offset[e]; r < offset[e + 1]; r++)
                sum += a[r * n + j];
            y[e * n + j] = (float)sum;
        }
}

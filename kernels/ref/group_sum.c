/* group_sum.c: sums of the rows of each group, in double, in the order of the rows. The sum of
 * an empty group is 0. */
#include "kernels/ref/ref.h"

void mf_ref_group_sum(const mf_kctx *x, int type, int64_t groups, int64_t rows, int64_t n,
                      const int32_t *offset, const void *a, float *y)
{
    (void)rows;
    if (mf_kctx_failed(x)) return;
    for (int64_t e = 0; e < groups; e++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t r = offset[e]; r < offset[e + 1]; r++)
                sum += ref_load(type, a, r * n + j);
            y[e * n + j] = (float)sum;
        }
}

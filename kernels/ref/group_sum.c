/* group_sum.c: sums of the rows of each group, in double, in the order of the rows. The sum of
 * an empty group is 0. */
#include "kernels/ref/ref.h"

void mf_ref_group_sum(const mf_kctx *x, const mf_group_sum_args *a)
{
    if (mf_kctx_failed(x)) return;
    for (int64_t e = 0; e < a->groups; e++)
        for (int64_t j = 0; j < a->n; j++) {
            double sum = 0;
            for (int64_t r = a->offset[e]; r < a->offset[e + 1]; r++)
                sum += ref_load(a->type, a->a, r * a->n + j);
            a->y[e * a->n + j] = (float)sum;
        }
}

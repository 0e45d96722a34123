/* group_sum.c: sums of the rows of each group. A tile computes some columns of one group, and
 * adds the group's rows in order. */
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vec.h"

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

void MF_SIMD(group_sum)(const mf_kctx *x, const mf_group_sum_args *a)
{
    if (mf_kctx_failed(x)) return;
    sums p = {a->n, (a->n + SUM_COLS - 1) / SUM_COLS, a->offset, a->a, a->y};
    x->parallel(a->groups * p.across, a->type == MF_CAST_BF16 ? sum_bf16_tile : sum_tile, &p);
}

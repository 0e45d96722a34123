/* cross_entropy.c: the loss of classifiers and language models (formulas: kernels.def).
 *
 * One thread computes a row from beginning to end. Sums over rows are in double, in the order
 * of the rows. */
#include "kernels/cpu/simd/rows.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vec.h"

typedef struct entropy {
    int64_t rows, n, per;
    const float *logits, *weight, *lse, *drow;
    const int32_t *target;
    float each; /* gradient of the loss of a row whose weight is 1 */
    float *row_loss, *ret_lse, *dlogits;
} entropy;

V_INLINE float largest(int64_t n, const float *a)
{
    vf m0 = v_set(-INFINITY), m1 = m0, m2 = m0, m3 = m0;
    int64_t j = 0;
    for (; j + 4 * VL <= n; j += 4 * VL) {
        m0 = v_max(m0, v_load(a + j));
        m1 = v_max(m1, v_load(a + j + VL));
        m2 = v_max(m2, v_load(a + j + 2 * VL));
        m3 = v_max(m3, v_load(a + j + 3 * VL));
    }
    float max = v_hmax(v_max(v_max(m0, m1), v_max(m2, m3)));
    for (; j < n; j++)
        max = max > a[j] ? max : a[j];
    return max;
}

V_INLINE float log_sum_exp(int64_t n, const float *a)
{
    vf s0 = {0}, s1 = {0};
    const float max = largest(n, a);
    float sum;
    int64_t j;
    for (j = 0; j + 2 * VL <= n; j += 2 * VL) {
        s0 += v_exp(v_load(a + j) - max);
        s1 += v_exp(v_load(a + j + VL) - max);
    }
    for (sum = v_sum(s0 + s1); j < n; j += VL) {
        float t[VL];
        int64_t left = n - j < VL ? n - j : VL;
        v_store(t, v_exp((left < VL ? v_load_n(a + j, left) : v_load(a + j)) - max));
        for (int64_t i = 0; i < left; i++)
            sum += t[i];
    }
    return max + logf(sum);
}

static void forward_tile(void *arg, int64_t tile)
{
    const entropy *p = arg;
    int64_t from = tile * p->per, to = rows_end(p->rows, from, p->per);
    for (int64_t i = from; i < to; i++) {
        const float *row = p->logits + i * p->n;
        float lse = log_sum_exp(p->n, row);
        p->ret_lse[i] = lse;
        p->row_loss[i] = p->target[i] >= 0 ? lse - row[p->target[i]] : 0;
    }
}

static double sum_weights(int64_t rows, const int32_t *target, const float *weight)
{
    double sum = 0;
    for (int64_t i = 0; i < rows; i++)
        if (target[i] >= 0) sum += weight != NULL ? weight[i] : 1.0f;
    return sum;
}

void MF_SIMD(cross_entropy)(const mf_kctx *x, const mf_cross_entropy_args *a)
{
    entropy p = {.rows = a->rows,
                 .n = a->n,
                 .per = rows_per_tile(a->n),
                 .logits = a->logits,
                 .target = a->target,
                 .row_loss = a->row_loss,
                 .ret_lse = a->lse};
    if (mf_kctx_failed(x)) return;
    x->parallel(rows_tiles(a->rows, a->n), forward_tile, &p);
    double total = 0, weights = sum_weights(a->rows, a->target, a->weight);
    for (int64_t i = 0; i < a->rows; i++)
        if (a->target[i] >= 0)
            total += (a->weight != NULL ? (double)a->weight[i] : 1.0) * a->row_loss[i];
    *a->loss = weights != 0 ? (float)(total / weights) : 0;
}

static void backward_tile(void *arg, int64_t tile)
{
    const entropy *p = arg;
    int64_t n = p->n, from = tile * p->per, to = rows_end(p->rows, from, p->per);
    for (int64_t i = from; i < to; i++) {
        const float *row = p->logits + i * n;
        float *d = p->dlogits + i * n, lse = p->lse[i];
        if (p->target[i] < 0) {
            memset(d, 0, (size_t)n * sizeof(float));
            continue;
        }
        float g = (p->weight != NULL ? p->weight[i] : 1) * p->each +
                  (p->drow != NULL ? p->drow[i] : 0);
        int64_t j = 0;
        for (; j + VL <= n; j += VL)
            v_store(d + j, v_exp(v_load(row + j) - lse) * g);
        if (j < n) v_store_n(d + j, v_exp(v_load_n(row + j, n - j) - lse) * g, n - j);
        d[p->target[i]] -= g;
    }
}

void MF_SIMD(cross_entropy_backward)(const mf_kctx *x, const mf_cross_entropy_backward_args *a)
{
    if (mf_kctx_failed(x)) return;
    double weights = sum_weights(a->rows, a->target, a->weight);
    entropy p = {.rows = a->rows,
                 .n = a->n,
                 .per = rows_per_tile(a->n),
                 .logits = a->logits,
                 .weight = a->weight,
                 .lse = a->lse,
                 .drow = a->drow,
                 .target = a->target,
                 .each = a->dloss != NULL && weights != 0 ? (float)(*a->dloss / weights) : 0,
                 .dlogits = a->dlogits};
    if (a->dlogits != NULL) x->parallel(rows_tiles(a->rows, a->n), backward_tile, &p);
    for (int64_t i = 0; i < a->rows && a->dweight != NULL; i++)
        a->dweight[i] = a->target[i] >= 0 ? p.each * (a->row_loss[i] - *a->loss) : 0;
}

/* Returns the loss of a row and overwrites the row with its gradient. Both use the same e^x.
 * The row stays in the second-level cache; meanwhile the row `ahead` elements later
 * is prefetched. */
V_INLINE float row_over(int64_t n, int64_t ahead, float *a, int32_t target, float g)
{
    const float max = largest(n, a), own = a[target];
    vf s0 = {0}, s1 = {0};
    int64_t j = 0;
    for (; j + 2 * VL <= n; j += 2 * VL) {
        __builtin_prefetch(a + ahead + j);
        __builtin_prefetch(a + ahead + j + VL);
        vf e0 = v_exp(v_load(a + j) - max), e1 = v_exp(v_load(a + j + VL) - max);
        v_store(a + j, e0);
        v_store(a + j + VL, e1);
        s0 += e0;
        s1 += e1;
    }
    float sum = v_sum(s0 + s1);
    for (int64_t i = j; j < n; j += VL) {
        const int64_t left = n - j < VL ? n - j : VL;
        v_store_n(a + j, v_exp(v_load_n(a + j, left) - max), left);
        for (; i < j + left; i++)
            sum += a[i];
    }
    const float scale = g / sum;
    for (j = 0; j + VL <= n; j += VL)
        v_store(a + j, v_load(a + j) * scale);
    if (j < n) v_store_n(a + j, v_load_n(a + j, n - j) * scale, n - j);
    a[target] -= g;
    return max + logf(sum) - own;
}

typedef struct over {
    int64_t rows, n, per;
    float *logits, *row_loss;
    const int32_t *target;
    const float *g;
} over;

static void over_tile(void *arg, int64_t tile)
{
    const over *p = arg;
    const int64_t from = tile * p->per, to = rows_end(p->rows, from, p->per);
    for (int64_t i = from; i < to; i++)
        p->row_loss[i] = row_over(p->n, i + 1 < p->rows ? p->n : 0, p->logits + i * p->n,
                                  p->target[i], p->g[i]);
}

void MF_SIMD(cross_entropy_over)(const mf_kctx *x, int64_t rows, int64_t n, float *logits,
                                 const int32_t *target, const float *g, float *row_loss)
{
    if (mf_kctx_failed(x)) return;
    over p = {rows, n, rows_per_tile(n), logits, row_loss, target, g};
    x->parallel(rows_tiles(rows, n), over_tile, &p);
}

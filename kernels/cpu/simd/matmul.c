/* matmul.c: dense products over a fixed grid of tiles. */
#include "kernels/cpu/blas.h"
#include "kernels/cpu/simd/grid.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vec.h"

typedef struct product {
    bool trans_a, trans_b;
    int64_t m, n, k;
    float alpha, beta;
    const float *a, *b, *bias;
    float *c;
    int64_t lda, ldb, ldc;
    int64_t step_a, step_b, step_c; /* from one product of a batch to the next */
    grid grid;
} product;

static void product_tile(void *arg, int64_t tile)
{
    const product *p = arg;
    int64_t each = p->grid.rows * p->grid.cols, index = tile / each;
    tile %= each;
    int64_t i = tile / p->grid.cols * p->grid.bm, j = tile % p->grid.cols * p->grid.bn;
    int64_t rows = p->m - i < p->grid.bm ? p->m - i : p->grid.bm;
    int64_t cols = p->n - j < p->grid.bn ? p->n - j : p->grid.bn;
    float *c = p->c + index * p->step_c + i * p->ldc + j;
    MF_SIMD(gemm)
    (p->trans_a, p->trans_b, rows, cols, p->k, p->alpha,
     p->a + index * p->step_a + (p->trans_a ? i : i * p->lda), p->lda,
     p->b + index * p->step_b + (p->trans_b ? j * p->ldb : j), p->ldb, p->beta, c, p->ldc);
    if (p->bias != NULL) v_add_to_rows(rows, cols, p->bias + j, c, p->ldc);
}

static void run(const mf_kctx *x, product *p, int64_t batch)
{
    p->grid = grid_of(p->m, p->n, p->k);
    mf_blas_one_thread();
    x->parallel(batch * p->grid.rows * p->grid.cols, product_tile, p);
}

void MF_SIMD(matmul)(const mf_kctx *x, bool trans_a, bool trans_b, int64_t m, int64_t n,
                     int64_t k, float alpha, const float *a, int64_t lda, const float *b,
                     int64_t ldb, float beta, float *c, int64_t ldc)
{
    product p = {.trans_a = trans_a,
                 .trans_b = trans_b,
                 .m = m,
                 .n = n,
                 .k = k,
                 .alpha = alpha,
                 .beta = beta,
                 .a = a,
                 .b = b,
                 .c = c,
                 .lda = lda,
                 .ldb = ldb,
                 .ldc = ldc};
    run(x, &p, 1);
}

void MF_SIMD(matmul_batch)(const mf_kctx *x, int64_t batch, bool trans_a, bool trans_b,
                           int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                           const float *b, float *c)
{
    product p = {.trans_a = trans_a,
                 .trans_b = trans_b,
                 .m = m,
                 .n = n,
                 .k = k,
                 .alpha = alpha,
                 .a = a,
                 .b = b,
                 .c = c,
                 .lda = trans_a ? m : k,
                 .ldb = trans_b ? k : n,
                 .ldc = n,
                 .step_a = m * k,
                 .step_b = n * k,
                 .step_c = m * n};
    run(x, &p, batch);
}

void MF_SIMD(linear)(const mf_kctx *x, int64_t m, int64_t n, int64_t k, const float *a,
                     const float *w, const float *bias, float *y)
{
    product p = {.trans_b = true,
                 .m = m,
                 .n = n,
                 .k = k,
                 .alpha = 1,
                 .a = a,
                 .b = w,
                 .bias = bias,
                 .c = y,
                 .lda = k,
                 .ldb = k,
                 .ldc = n};
    run(x, &p, 1);
}

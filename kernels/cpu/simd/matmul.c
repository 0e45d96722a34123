/* matmul.c: dense products over a fixed grid of tiles. */
#include "kernels/cpu/blas.h"
#include "kernels/cpu/simd/grid.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vec.h"

typedef struct product {
    bool trans_a, trans_b;
    int64_t m, n, k;
    float alpha, beta;
    const float *a, *b;
    int64_t lda, ldb, ldc;
    float *c;
    grid grid;
} product;

static void product_tile(void *arg, int64_t tile)
{
    const product *p = arg;
    int64_t i = tile / p->grid.cols * p->grid.bm, j = tile % p->grid.cols * p->grid.bn;
    int64_t rows = p->m - i < p->grid.bm ? p->m - i : p->grid.bm;
    int64_t cols = p->n - j < p->grid.bn ? p->n - j : p->grid.bn;
    MF_SIMD(gemm)(p->trans_a, p->trans_b, rows, cols, p->k, p->alpha,
                  p->a + (p->trans_a ? i : i * p->lda), p->lda,
                  p->b + (p->trans_b ? j * p->ldb : j), p->ldb, p->beta, p->c + i * p->ldc + j,
                  p->ldc);
}

void MF_SIMD(matmul)(const mf_kctx *x, bool trans_a, bool trans_b, int64_t m, int64_t n,
                     int64_t k, float alpha, const float *a, int64_t lda, const float *b,
                     int64_t ldb, float beta, float *c, int64_t ldc)
{
    product p = {trans_a, trans_b, m, n, k, alpha, beta, a, b, lda, ldb, ldc, c, grid_of(m, n, k)};
    mf_blas_one_thread();
    x->parallel(p.grid.rows * p.grid.cols, product_tile, &p);
}

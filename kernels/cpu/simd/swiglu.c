/* swiglu.c: gated linear unit with silu. */
#include "kernels/cpu/simd/rows.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vec.h"

typedef struct swiglu {
    int64_t rows, n, per, lda, ldb;
    const float *a, *b, *dy;
    float *y, *da, *db;
} swiglu;

V_INLINE vf sigmoid(vf a)
{
    return 1.0f / (1.0f + v_exp(-a));
}

static void forward_tile(void *arg, int64_t tile)
{
    const swiglu *p = arg;
    int64_t n = p->n, from = tile * p->per, to = rows_end(p->rows, from, p->per);
    for (int64_t i = from; i < to; i++) {
        const float *a = p->a + i * p->lda, *b = p->b + i * p->ldb;
        float *y = p->y + i * n;
        int64_t j = 0;
        for (; j + VL <= n; j += VL) {
            vf u = v_load(a + j);
            v_store(y + j, u * sigmoid(u) * v_load(b + j));
        }
        if (j < n) {
            vf u = v_load_n(a + j, n - j);
            v_store_n(y + j, u * sigmoid(u) * v_load_n(b + j, n - j), n - j);
        }
    }
}

void MF_SIMD(swiglu)(const mf_kctx *x, int64_t rows, int64_t n, const float *a, int64_t lda,
                     const float *b, int64_t ldb, float *y)
{
    swiglu p = {.rows = rows,
                .n = n,
                .per = rows_per_tile(n),
                .lda = lda,
                .ldb = ldb,
                .a = a,
                .b = b,
                .y = y};
    x->parallel(rows_tiles(rows, n), forward_tile, &p);
}

static void backward_tile(void *arg, int64_t tile)
{
    const swiglu *p = arg;
    int64_t n = p->n, from = tile * p->per, to = rows_end(p->rows, from, p->per);
    for (int64_t i = from; i < to; i++) {
        const float *a = p->a + i * p->lda, *b = p->b + i * p->ldb, *dy = p->dy + i * n;
        for (int64_t j = 0; j < n; j += VL) {
            int64_t left = n - j;
            bool full = left >= VL;
            vf u = full ? v_load(a + j) : v_load_n(a + j, left);
            vf v = full ? v_load(b + j) : v_load_n(b + j, left);
            vf g = full ? v_load(dy + j) : v_load_n(dy + j, left);
            vf s = sigmoid(u), da = g * v * s * (1.0f + u * (1.0f - s)), db = g * u * s;
            if (p->da != NULL)
                full ? v_store(p->da + i * p->lda + j, da)
                     : v_store_n(p->da + i * p->lda + j, da, left);
            if (p->db != NULL)
                full ? v_store(p->db + i * p->ldb + j, db)
                     : v_store_n(p->db + i * p->ldb + j, db, left);
        }
    }
}

void MF_SIMD(swiglu_backward)(const mf_kctx *x, int64_t rows, int64_t n, const float *a,
                              int64_t lda, const float *b, int64_t ldb, const float *dy,
                              float *da, float *db)
{
    swiglu p = {.rows = rows,
                .n = n,
                .per = rows_per_tile(n),
                .lda = lda,
                .ldb = ldb,
                .a = a,
                .b = b,
                .dy = dy,
                .da = da,
                .db = db};
    x->parallel(rows_tiles(rows, n), backward_tile, &p);
}

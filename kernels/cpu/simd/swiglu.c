/* swiglu.c: gated linear unit with silu.
 *
 * The loops are written once and compiled for f32 and bf16. If a graph did not keep the output,
 * the backward kernel recomputes it with the same bits as in the forward pass. */
#include "kernels/cpu/simd/rows.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vec.h"

typedef struct swiglu {
    int64_t rows, n, per, lda, ldb;
    const void *a, *b, *dy;
    const float *gate;
    void *y, *da, *db;
    float *dgate;
} swiglu;

V_INLINE vf sigmoid(vf a)
{
    return 1.0f / (1.0f + v_exp(-a));
}

V_INLINE void forward_part(const swiglu *p, int64_t tile, bool bf16)
{
    int64_t n = p->n, from = tile * p->per, to = rows_end(p->rows, from, p->per);
    for (int64_t i = from; i < to; i++) {
        const void *a = v_at(p->a, i * p->lda, bf16), *b = v_at(p->b, i * p->ldb, bf16);
        void *y = v_at(p->y, i * n, bf16);
        const vf share = v_set(p->gate != NULL ? p->gate[i] : 1);
        int64_t j = 0;
        for (; j + VL <= n; j += VL) {
            __builtin_prefetch(v_at(a, j + ROWS_AHEAD, bf16));
            __builtin_prefetch(v_at(b, j + ROWS_AHEAD, bf16));
            vf u = v_get(a, j, bf16);
            v_put(y, j, u * sigmoid(u) * v_get(b, j, bf16) * share, bf16);
        }
        if (j < n) {
            vf u = v_get_n(a, j, n - j, bf16);
            v_put_n(y, j, u * sigmoid(u) * v_get_n(b, j, n - j, bf16) * share, n - j, bf16);
        }
    }
}

static void forward_tile(void *arg, int64_t tile)
{
    forward_part(arg, tile, false);
}

static void forward_bf16_tile(void *arg, int64_t tile)
{
    forward_part(arg, tile, true);
}

void MF_SIMD(swiglu)(const mf_kctx *x, const mf_swiglu_args *a)
{
    swiglu p = {.rows = a->rows,
                .n = a->n,
                .per = rows_per_tile(a->n),
                .lda = a->lda,
                .ldb = a->ldb,
                .a = a->a,
                .b = a->b,
                .gate = a->gate,
                .y = a->y};
    x->parallel(rows_tiles(a->rows, a->n),
                a->type == MF_CAST_BF16 ? forward_bf16_tile : forward_tile, &p);
}

V_INLINE void put(void *to, int64_t j, vf v, int64_t left, bool bf16)
{
    if (to == NULL) return;
    if (left >= VL)
        v_put(to, j, v, bf16);
    else
        v_put_n(to, j, v, left, bf16);
}

V_INLINE void backward_part(const swiglu *p, int64_t tile, bool bf16)
{
    int64_t n = p->n, from = tile * p->per, to = rows_end(p->rows, from, p->per);
    for (int64_t i = from; i < to; i++) {
        const void *a = v_at(p->a, i * p->lda, bf16), *b = v_at(p->b, i * p->ldb, bf16);
        const void *dy = v_at(p->dy, i * n, bf16);
        void *to_a = p->da != NULL ? v_at(p->da, i * p->lda, bf16) : NULL;
        void *to_b = p->db != NULL ? v_at(p->db, i * p->ldb, bf16) : NULL;
        void *y = p->y != NULL ? v_at(p->y, i * n, bf16) : NULL;
        const vf share = v_set(p->gate != NULL ? p->gate[i] : 1);
        vf sum = v_set(0);
        for (int64_t j = 0; j < n; j += VL) {
            int64_t left = n - j;
            bool full = left >= VL;
            vf u = full ? v_get(a, j, bf16) : v_get_n(a, j, left, bf16);
            vf v = full ? v_get(b, j, bf16) : v_get_n(b, j, left, bf16);
            vf g = full ? v_get(dy, j, bf16) : v_get_n(dy, j, left, bf16);
            vf s = sigmoid(u), out = u * s * v;
            sum = v_fma(g, out, sum); /* g is 0 in lanes past the end of the row */
            g *= share;
            vf da = g * v * s * (1.0f + u * (1.0f - s)), db = g * u * s;
            put(to_a, j, da, left, bf16);
            put(to_b, j, db, left, bf16);
            put(y, j, out * share, left, bf16);
        }
        if (p->dgate != NULL) p->dgate[i] = v_sum(sum);
    }
}

static void backward_tile(void *arg, int64_t tile)
{
    backward_part(arg, tile, false);
}

static void backward_bf16_tile(void *arg, int64_t tile)
{
    backward_part(arg, tile, true);
}

void MF_SIMD(swiglu_backward)(const mf_kctx *x, const mf_swiglu_backward_args *a)
{
    swiglu p = {a->rows, a->n,   rows_per_tile(a->n),
                a->lda,  a->ldb, a->a,
                a->b,    a->dy,  a->gate,
                a->y,    a->da,  a->db,
                a->dgate};
    x->parallel(rows_tiles(a->rows, a->n),
                a->type == MF_CAST_BF16 ? backward_bf16_tile : backward_tile, &p);
}

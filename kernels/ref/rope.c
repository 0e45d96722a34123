/* rope.c: rotary positions, and appending to a key-value cache, which changes nothing unless
 * all rows fit. */
#include <math.h>
#include <string.h>

#include "kernels/ref/ref.h"

void mf_ref_rope(const mf_kctx *x, const mf_rope_args *p)
{
    (void)x;
    const int64_t pairs = p->turned / 2;
    const int type = p->bf16 ? MF_CAST_BF16 : MF_CAST_F32;
    const int64_t size = mf_cast_size(type);
    for (int64_t r = 0; r < p->rows; r++) {
        const int64_t row = r * p->width;
        if (p->y != p->a)
            memcpy((char *)p->y + row * size, (const char *)p->a + row * size,
                   (size_t)(p->width * size));
        for (int64_t i = 0; i < pairs; i++) {
            double angle = p->position[r] *
                           pow(p->theta, -2.0 * (double)i / (double)p->turned) *
                           (p->factor != NULL ? (double)p->factor[i] : 1);
            double c = p->magnitude * cos(angle), s = p->magnitude * sin(angle);
            if (p->inverse) s = -s;
            for (int64_t h = 0; h < p->n_heads; h++) {
                int64_t at = row + h * p->head_dim + p->first;
                int64_t j = at + (p->half ? i : 2 * i), k = p->half ? j + pairs : j + 1;
                double u = ref_load(type, p->y, j), v = ref_load(type, p->y, k);
                ref_store(type, p->y, j, (float)(u * c - v * s));
                ref_store(type, p->y, k, (float)(u * s + v * c));
            }
        }
    }
}

void mf_ref_cache_append(const mf_kctx *x, const mf_cache_append_args *a)
{
    for (int64_t b = 0; b < a->batch; b++)
        if (a->pos[b] < 0 || a->pos[b] > a->s - a->t)
            mf_kctx_fail(x, (mf_fault){.kind = MF_FAULT_CACHE,
                                       .index = b,
                                       .value = a->pos[b],
                                       .lo = a->t,
                                       .hi = a->s});
    if (mf_kctx_failed(x)) return;
    for (int64_t b = 0; b < a->batch; b++)
        memcpy(a->cache + (b * a->s + a->pos[b]) * a->n, a->a + b * a->t * a->n,
               (size_t)(a->t * a->n) * sizeof(float));
}

/* rope.c: rotary positions, and appending to a key-value cache, which changes nothing unless
 * all rows fit. */
#include <math.h>
#include <string.h>

#include "kernels/ref/ref.h"

void mf_ref_rope(const mf_kctx *x, const mf_rope_args *p)
{
    (void)x;
    const int64_t pairs = p->turned / 2;
    for (int64_t r = 0; r < p->rows; r++) {
        const float *a = p->a + r * p->width;
        float *y = p->y + r * p->width;
        if (y != a) memcpy(y, a, (size_t)p->width * sizeof(float));
        for (int64_t i = 0; i < pairs; i++) {
            double angle = p->position[r] *
                           pow(p->theta, -2.0 * (double)i / (double)p->turned) *
                           (p->factor != NULL ? (double)p->factor[i] : 1);
            double c = p->magnitude * cos(angle), s = p->magnitude * sin(angle);
            if (p->inverse) s = -s;
            for (int64_t h = 0; h < p->n_heads; h++) {
                int64_t at = h * p->head_dim + p->first;
                int64_t j = at + (p->half ? i : 2 * i), k = p->half ? j + pairs : j + 1;
                double u = y[j], v = y[k];
                y[j] = (float)(u * c - v * s);
                y[k] = (float)(u * s + v * c);
            }
        }
    }
}

void mf_ref_cache_append(const mf_kctx *x, int64_t batch, int64_t s, int64_t t, int64_t n,
                         const int32_t *pos, const float *a, float *cache)
{
    for (int64_t b = 0; b < batch; b++)
        if (pos[b] < 0 || pos[b] > s - t)
            mf_kctx_fail(x, (mf_fault){.kind = MF_FAULT_CACHE,
                                        .index = b,
                                        .value = pos[b],
                                        .lo = t,
                                        .hi = s});
    if (mf_kctx_failed(x)) return;
    for (int64_t b = 0; b < batch; b++)
        memcpy(cache + (b * s + pos[b]) * n, a + b * t * n, (size_t)(t * n) * sizeof(float));
}

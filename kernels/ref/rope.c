/* rope.c: rotary positions, and appending to a key-value cache, which changes nothing unless
 * all rows fit. */
#include <math.h>
#include <string.h>

#include "kernels/ref/ref.h"

void mf_ref_rope(const mf_kctx *x, int64_t rows, int64_t width, int64_t head_dim,
                 int64_t n_heads, bool half, bool inverse, double theta,
                 const int32_t *position, const float *a, float *y)
{
    (void)x;
    int64_t pairs = head_dim / 2, turned = n_heads * head_dim;
    for (int64_t r = 0; r < rows; r++, a += width, y += width) {
        for (int64_t i = 0; i < pairs; i++) {
            double angle = position[r] * pow(theta, -2.0 * (double)i / (double)head_dim);
            double c = cos(angle), s = inverse ? -sin(angle) : sin(angle);
            for (int64_t h = 0; h < n_heads; h++) {
                int64_t p = h * head_dim + (half ? i : 2 * i), q = half ? p + pairs : p + 1;
                double u = a[p], v = a[q];
                y[p] = (float)(u * c - v * s);
                y[q] = (float)(u * s + v * c);
            }
        }
        if (y != a) memcpy(y + turned, a + turned, (size_t)(width - turned) * sizeof(float));
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

/* train/parallel/gradient_bf16.c: converts gradients in chunks that stay in the cache, so no
 * second copy of the gradients is needed. */
#include "train/parallel/gradient_bf16.h"
#include <string.h>
#include "kernels/kernel.h"

static int64_t chunk_at(int64_t at, int64_t n)
{
    return n - at < MF_GRADIENT_CHUNK ? n - at : MF_GRADIENT_CHUNK;
}

void mf_gradient_round(mf_device *d, float *x, int64_t n, uint16_t *room)
{
    const mf_kernels *k = mf_device_kernels(d, NULL);
    const mf_kctx c = mf_device_context(d);
    for (int64_t at = 0; at < n; at += MF_GRADIENT_CHUNK) {
        const int64_t size = chunk_at(at, n);
        MF_RUN(k, &c, cast, .n = size, .from = MF_CAST_F32, .to = MF_CAST_BF16, .in = x + at,
               .out = room);
        MF_RUN(k, &c, cast, .n = size, .from = MF_CAST_BF16, .to = MF_CAST_F32, .in = room,
               .out = x + at);
    }
}

void mf_gradient_pack(float *x, int64_t n, uint16_t *room)
{
    const mf_kernels *k = mf_device_kernels(NULL, NULL);
    const mf_kctx c = mf_device_context(NULL);
    for (int64_t at = 0; at < n; at += MF_GRADIENT_CHUNK) {
        const int64_t size = chunk_at(at, n);
        MF_RUN(k, &c, cast, .n = size, .from = MF_CAST_F32, .to = MF_CAST_BF16, .in = x + at,
               .out = room);
        memcpy((uint16_t *)(void *)x + at, room, (size_t)size * sizeof *room);
    }
}

void mf_gradient_unpack(const void *x, int64_t n, float *to)
{
    const mf_kctx c = mf_device_context(NULL);
    MF_RUN(mf_device_kernels(NULL, NULL), &c, cast, .n = n, .from = MF_CAST_BF16,
           .to = MF_CAST_F32, .in = x, .out = to);
}

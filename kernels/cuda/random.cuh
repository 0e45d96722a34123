/* random.cuh: random numbers with the bits that the CPU draws: word i of a stream is word i %
 * 4 of Philox block i / 4 (base/rng.h). */
#pragma once
#include "base.cuh"

/* Philox4x32-10 (Salmon et al., SC'11); block: counter and key as mf_rng_block has them. */
MF_INLINE void mf_philox(mf_draw_key key, uint64_t stream, uint64_t block, uint32_t out[4])
{
    uint64_t fold =
        stream; /* spreads the bits of small stream numbers (Stafford's variant 13) */
    fold = (fold ^ (fold >> 30)) * 0xBF58476D1CE4E5B9u;
    fold = (fold ^ (fold >> 27)) * 0x94D049BB133111EBu;
    fold ^= fold >> 31;
    const uint64_t high = key.step ^ fold;
    uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32);
    uint32_t c2 = (uint32_t)high, c3 = (uint32_t)(high >> 32);
    uint32_t k0 = (uint32_t)key.seed, k1 = (uint32_t)(key.seed >> 32);
    MF_UNROLL
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        const uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1, c3 = (uint32_t)p0, c0 = n0, c2 = n2;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

MF_INLINE float mf_uniform_of(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

/* Box-Muller: two words give two normals, the cosine first. */
MF_INLINE void mf_normals_of(uint32_t first, uint32_t second, float out[2])
{
    const double u = ((double)first + 1) * 0x1p-32, r = sqrt(-2 * log(u));
    const double turn = 2 * ((double)second * 0x1p-32);
    out[0] = (float)(r * cospi(turn)), out[1] = (float)(r * sinpi(turn));
}

/* A thread has the four numbers of one block. */
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_random(int kind, const mf_draw_key *key, uint64_t stream, int64_t n, float *out)
{
    const int64_t block = mf_thread(), first = block * 4;
    uint32_t word[4];
    float v[4];
    if (first >= n) return;
    mf_philox(*key, stream, (uint64_t)block, word);
    if (kind == MF_RANDOM_UNIFORM) {
        MF_UNROLL
        for (int i = 0; i < 4; i++)
            v[i] = mf_uniform_of(word[i]);
    } else {
        mf_normals_of(word[0], word[1], v);
        mf_normals_of(word[2], word[3], v + 2);
    }
    MF_UNROLL
    for (int i = 0; i < 4; i++)
        if (first + i < n) out[first + i] = v[i];
}

__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_dropout(const mf_draw_key *key, uint64_t stream, int64_t n, float p, const float *in,
                  float *out)
{
    const int64_t block = mf_thread(), first = block * 4;
    const float scale = 1 / (1 - p);
    uint32_t word[4];
    if (first >= n) return;
    mf_philox(*key, stream, (uint64_t)block, word);
    MF_UNROLL
    for (int i = 0; i < 4; i++)
        if (first + i < n)
            out[first + i] = mf_uniform_of(word[i]) >= p ? in[first + i] * scale : 0;
}

extern "C" void mf_cuda_random(const mf_kctx *x, const mf_random_args *a)
{
    if (a->n > 0)
        MF_LAUNCH(mf_cu_random, mf_grid(a->n, MF_THREADS * 4), dim3(MF_THREADS), 0, x, a->kind,
                  x->key, a->stream, a->n, a->out);
}

extern "C" void mf_cuda_dropout(const mf_kctx *x, const mf_dropout_args *a)
{
    if (a->n > 0)
        MF_LAUNCH(mf_cu_dropout, mf_grid(a->n, MF_THREADS * 4), dim3(MF_THREADS), 0, x, x->key,
                  a->stream, a->n, a->p, a->in, a->out);
}

/* base/rng.c: Philox4x32-10, and the numbers that are drawn from it. There is no state: each
 * number follows from (seed, stream, step, index) alone.
 *
 * Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC'11,
 * section 3.3. */
#include "base/rng.h"

#include <math.h>

__extension__ typedef unsigned __int128 u128;

void mf_philox4x32_10(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    enum { ROUNDS = 10 };
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        uint32_t n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u; /* 2^32 (golden ratio - 1) */
        k1 += 0xBB67AE85u; /* 2^32 (sqrt(3) - 1) */
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

uint64_t mf_rng_stream(const char *name)
{
    uint64_t h = 0xCBF29CE484222325u;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001B3u;
    return h;
}

/* A bijection that spreads every bit of the stream number (Stafford's variant 13 of
 * MurmurHash3's finalizer). Without it, stream ^ step would collide for small numbers and
 * similar names. */
static uint64_t fold(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

void mf_rng_block(uint64_t seed, uint64_t stream, uint64_t step, uint64_t block,
                  uint32_t out[4])
{
    uint64_t high = step ^ fold(stream);
    uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)high,
                           (uint32_t)(high >> 32)};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    mf_philox4x32_10(counter, key, out);
}

uint32_t mf_rng_u32(uint64_t seed, uint64_t stream, uint64_t step, uint64_t index)
{
    uint32_t w[4];
    mf_rng_block(seed, stream, step, index / 4, w);
    return w[index % 4];
}

uint64_t mf_rng_below(uint64_t seed, uint64_t stream, uint64_t step, uint64_t index, uint64_t n)
{
    uint32_t w[4];
    size_t i = (size_t)(index % 2) * 2;
    mf_rng_block(seed, stream, step, index / 2, w);
    return (uint64_t)(((u128)((uint64_t)w[i + 1] << 32 | w[i]) * n) >> 64);
}

static float uniform_of(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

/* (a + 1) / 2^32 is in (0,1], so the logarithm is finite. The pair is computed in double, its
 * values reach 6.6, and rounding to float hides how math libraries differ in the last bit. */
void mf_rng_normal_pair(uint32_t a, uint32_t b, float out[2])
{
    double r = sqrt(-2.0 * log(((double)a + 1.0) * 0x1p-32));
    double angle = 6.283185307179586476925 * ((double)b * 0x1p-32);
    out[0] = (float)(r * cos(angle));
    out[1] = (float)(r * sin(angle));
}

float mf_rng_uniform(uint64_t seed, uint64_t stream, uint64_t step, uint64_t index)
{
    return uniform_of(mf_rng_u32(seed, stream, step, index));
}

float mf_rng_normal(uint64_t seed, uint64_t stream, uint64_t step, uint64_t index)
{
    uint32_t w[4];
    float pair[2];
    size_t i = (size_t)(index % 4) & ~(size_t)1;
    mf_rng_block(seed, stream, step, index / 4, w);
    mf_rng_normal_pair(w[i], w[i + 1], pair);
    return pair[index % 2];
}

void mf_rng_uniforms(uint64_t seed, uint64_t stream, uint64_t step, uint64_t from, float *out,
                     size_t n)
{
    for (size_t i = 0; i < n; i += 4) {
        uint32_t w[4];
        size_t m = n - i < 4 ? n - i : 4;
        mf_rng_block(seed, stream, step, (from + i) / 4, w);
        for (size_t j = 0; j < m; j++)
            out[i + j] = uniform_of(w[j]);
    }
}

void mf_rng_fill_normal(uint64_t seed, uint64_t stream, uint64_t step, float *out, size_t n)
{
    mf_rng_normals(seed, stream, step, 0, out, n);
}

void mf_rng_permutation(uint64_t seed, uint64_t stream, uint64_t step, int32_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (int32_t)i;
    for (size_t i = n; i-- > 1;) {
        size_t j = (size_t)mf_rng_below(seed, stream, step, i, i + 1);
        int32_t swap = out[i];
        out[i] = out[j];
        out[j] = swap;
    }
}

uint64_t mf_rng_shuffled(uint64_t seed, uint64_t stream, uint64_t step, uint64_t n,
                         uint64_t index)
{
    enum { ROUNDS = 6 };
    int half = 1; /* number of bits in each of the two parts of the index */
    while (half < 32 && n > UINT64_C(1) << (2 * half))
        half++;
    const uint64_t mask = (UINT64_C(1) << half) - 1;
    do {
        uint64_t left = index >> half, right = index & mask;
        for (uint64_t round = 0; round < ROUNDS; round++) {
            uint32_t r[4];
            mf_rng_block(seed, stream, step, round << 32 | right, r);
            const uint64_t next = (left ^ r[0]) & mask;
            left = right;
            right = next;
        }
        index = left << half | right;
    } while (index >= n);
    return index;
}

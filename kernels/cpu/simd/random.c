/* random.c: numbers of a stream, VL / 2 Philox blocks at once.
 *
 * This is base/rng.c's mf_rng_block written over vectors: key = seed, counter = (block, step ^ the
 * folded stream), Philox4x32-10 (Salmon et al., SC'11, section 3.3). check_kernels holds it to the
 * scalar one, which the context hands in, bit for bit.
 */
#include "kernels/cpu/simd/rows.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vecmath.h"

typedef uint64_t vl __attribute__((vector_size(4 * VL))); /* VL / 2 words, each in 64 bits */
#define BLOCKS (VL / 2)
#define WORDS  (4 * BLOCKS)

typedef struct draw {
    uint64_t seed, high; /* key; upper half of the counter */
    int64_t n;
    float p, scale;
    const float *in;
    float *out;
} draw;

static uint64_t fold(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

V_INLINE vl spread(uint64_t x)
{
    return x - (vl){0};
}

/* Product of the lower halves. */
V_INLINE vl multiply(vl a, vl b)
{
#if defined(__AVX512F__)
    return (vl)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
    return (vl)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#else
    return (a & 0xffffffffu) * (b & 0xffffffffu);
#endif
}

/* Words of the blocks first .. first + BLOCKS - 1, in the order of the stream. */
V_INLINE void words(const draw *p, uint64_t first, uint32_t out[WORDS])
{
    const vl low = spread(0xffffffffu), m0 = spread(0xD2511F53u), m1 = spread(0xCD9E8D57u);
    vl block, c0, c1, c2 = spread(p->high & 0xffffffffu), c3 = spread(p->high >> 32);
    uint32_t k0 = (uint32_t)p->seed, k1 = (uint32_t)(p->seed >> 32);
    for (int i = 0; i < BLOCKS; i++)
        block[i] = first + (uint64_t)i;
    c0 = block & low;
    c1 = block >> 32;
    for (int round = 0; round < 10; round++) {
        vl p0 = multiply(m0, c0), p1 = multiply(m1, c2);
        vl n0 = (p1 >> 32) ^ c1 ^ spread(k0), n2 = (p0 >> 32) ^ c3 ^ spread(k1);
        c1 = p1 & low;
        c3 = p0 & low;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    vl a = c0 | c1 << 32, b = c2 | c3 << 32;
    for (int i = 0; i < BLOCKS; i++) {
        uint64_t pair[2] = {a[i], b[i]};
        for (int w = 0; w < 4; w++)
            out[4 * i + w] = (uint32_t)(pair[w / 2] >> (w % 2 * 32));
    }
}

V_INLINE void uniforms(const draw *p, uint64_t first, float out[WORDS])
{
    uint32_t w[WORDS];
    words(p, first, w);
    for (int i = 0; i < WORDS; i += VL) {
        vu bits;
        memcpy(&bits, w + i, sizeof bits);
        v_store(out + i, __builtin_convertvector((vi)(bits >> 8), vf) * 0x1p-24f);
    }
}

static void uniform_tile(void *arg, int64_t tile)
{
    const draw *p = arg;
    int64_t j = tile * ROWS_TILE, to = rows_end(p->n, j, ROWS_TILE);
    float u[WORDS];
    for (; j < to; j += WORDS) {
        uniforms(p, (uint64_t)j / 4, u);
        memcpy(p->out + j, u, (size_t)(to - j < WORDS ? to - j : WORDS) * sizeof(float));
    }
}

static void dropout_tile(void *arg, int64_t tile)
{
    const draw *p = arg;
    int64_t j = tile * ROWS_TILE, to = rows_end(p->n, j, ROWS_TILE);
    float u[WORDS];
    for (; j < to; j += WORDS) {
        uniforms(p, (uint64_t)j / 4, u);
        for (int i = 0; i < WORDS && j + i < to; i += VL) {
            int64_t left = to - j - i;
            bool full = left >= VL;
            vf x = full ? v_load(p->in + j + i) : v_load_n(p->in + j + i, left);
            vf y = v_select(v_load(u + i) >= p->p, x * p->scale, v_set(0));
            full ? v_store(p->out + j + i, y) : v_store_n(p->out + j + i, y, left);
        }
    }
}

/* Through libm in double, as the reference: bits must be those of base/rng.c. */
static void gaussian_tile(void *arg, int64_t tile)
{
    const draw *p = arg;
    int64_t j = tile * ROWS_TILE, to = rows_end(p->n, j, ROWS_TILE);
    for (; j < to; j += WORDS) {
        uint32_t w[WORDS];
        words(p, (uint64_t)j / 4, w);
        for (int i = 0; i < WORDS && j + i < to; i += 2) {
            double r = sqrt(-2 * log(((double)w[i] + 1) * 0x1p-32));
            double angle = 6.283185307179586476925 * ((double)w[i + 1] * 0x1p-32);
            p->out[j + i] = (float)(r * cos(angle));
            if (j + i + 1 < to) p->out[j + i + 1] = (float)(r * sin(angle));
        }
    }
}

static void run(const mf_kctx *x, uint64_t stream, void (*tile)(void *, int64_t), draw p)
{
    p.seed = x->seed;
    p.high = x->step ^ fold(stream);
    x->parallel((p.n + ROWS_TILE - 1) / ROWS_TILE, tile, &p);
}

void MF_SIMD(uniform)(const mf_kctx *x, uint64_t stream, int64_t n, float *out)
{
    run(x, stream, uniform_tile, (draw){.n = n, .out = out});
}

void MF_SIMD(gaussian)(const mf_kctx *x, uint64_t stream, int64_t n, float *out)
{
    run(x, stream, gaussian_tile, (draw){.n = n, .out = out});
}

void MF_SIMD(dropout)(const mf_kctx *x, uint64_t stream, int64_t n, float p, const float *in,
                      float *out)
{
    run(x, stream, dropout_tile,
        (draw){.n = n, .p = p, .scale = 1 / (1 - p), .in = in, .out = out});
}

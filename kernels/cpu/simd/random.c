/* random.c: random numbers of a stream, VL Philox blocks at a time.
 *
 * This is mf_rng_block of base/rng.c for vectors: Philox4x32-10 (Salmon et al., SC'11, section
 * 3.3) with key = seed and counter = (block, step ^ the folded stream). check_kernels compares
 * it bit for bit with the scalar function in the context. */
#include "kernels/cpu/simd/rows.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vecmath.h"

typedef uint64_t vl __attribute__((vector_size(4 * VL))); /* VL / 2 words, each in 64 bits */
#define WORDS (4 * VL)                                    /* number of words of VL blocks */

typedef struct draw {
    uint64_t seed, high; /* key, and upper half of the counter */
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

/* Multiplies the lower 32 bits of each lane. */
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

/* IOTA is 0, 1, 2, ... LOWER and UPPER interleave the lower or upper halves of a and b. */
#if VL == 16
#define IOTA                                                                                   \
    {                                                                                          \
        0, 1, 2, 3, 4, 5, 6, 7                                                                 \
    }
#define LOWER(a, b) V_SHUFFLE(vl, a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define UPPER(a, b) V_SHUFFLE(vl, a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#elif VL == 8
#define IOTA                                                                                   \
    {                                                                                          \
        0, 1, 2, 3                                                                             \
    }
#define LOWER(a, b) V_SHUFFLE(vl, a, b, 0, 4, 1, 5)
#define UPPER(a, b) V_SHUFFLE(vl, a, b, 2, 6, 3, 7)
#else
#define IOTA                                                                                   \
    {                                                                                          \
        0, 1                                                                                   \
    }
#define LOWER(a, b) V_SHUFFLE(vl, a, b, 0, 2)
#define UPPER(a, b) V_SHUFFLE(vl, a, b, 1, 3)
#endif

/* Computes the words of blocks first .. first + VL - 1, in the order of the stream. Two vectors
 * are computed at a time to hide the latency of multiply instructions. */
V_INLINE void words(const draw *p, uint64_t first, uint32_t out[WORDS])
{
    const vl low = spread(0xffffffffu), m0 = spread(0xD2511F53u), m1 = spread(0xCD9E8D57u);
    const vl iota = IOTA;
    vl c0[2], c1[2], c2[2], c3[2];
    uint32_t k0 = (uint32_t)p->seed, k1 = (uint32_t)(p->seed >> 32);
    V_UNROLL for (int v = 0; v < 2; v++)
    {
        vl block = spread(first + (uint64_t)v * (VL / 2)) + iota;
        c0[v] = block & low;
        c1[v] = block >> 32;
        c2[v] = spread(p->high & 0xffffffffu);
        c3[v] = spread(p->high >> 32);
    }
    for (int round = 0; round < 10; round++) {
        V_UNROLL for (int v = 0; v < 2; v++)
        {
            vl p0 = multiply(m0, c0[v]), p1 = multiply(m1, c2[v]);
            c0[v] = (p1 >> 32) ^ c1[v] ^ spread(k0);
            c2[v] = (p0 >> 32) ^ c3[v] ^ spread(k1);
            c1[v] = p1 & low;
            c3[v] = p0 & low;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    V_UNROLL for (int v = 0; v < 2; v++)
    {
        /* words 0, 1 and words 2, 3 of the blocks */
        vl a = c0[v] | c1[v] << 32, b = c2[v] | c3[v] << 32;
        vl in_turn[2] = {LOWER(a, b), UPPER(a, b)};
        memcpy(out + v * 2 * VL, in_turn, sizeof in_turn);
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

/* This uses libm in double, as the reference does, because the bits must equal those
 * of base/rng.c. */
static void normal_tile(void *arg, int64_t tile)
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
    p.seed = x->key->seed;
    p.high = x->key->step ^ fold(stream);
    x->parallel((p.n + ROWS_TILE - 1) / ROWS_TILE, tile, &p);
}

void MF_SIMD(random)(const mf_kctx *x, const mf_random_args *a)
{
    run(x, a->stream, a->kind == MF_RANDOM_UNIFORM ? uniform_tile : normal_tile,
        (draw){.n = a->n, .out = a->out});
}

void MF_SIMD(dropout)(const mf_kctx *x, const mf_dropout_args *a)
{
    run(x, a->stream, dropout_tile,
        (draw){.n = a->n, .p = a->p, .scale = 1 / (1 - a->p), .in = a->in, .out = a->out});
}

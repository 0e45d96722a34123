/* vec.h: vectors of VL floats, for loops that are written once and compiled for each
 * instruction set.
 *
 * vf is VL floats (4, 8 or 16), vi the same number of int32, vd VL/2 doubles. + - * / and
 * comparisons are operators of the compiler (a comparison returns a vi of 0 and -1); this file
 * and vecmath.h have the other operations. v_load_n reads a tail without accessing memory after
 * it; v_store_n writes a tail. Sums over lanes have a fixed order. */
#ifndef MF_SIMD_VEC_H
#define MF_SIMD_VEC_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define VL 16
#elif defined(__AVX2__)
#define VL 8
#else
#define VL 4
#endif

#define V_INLINE static inline __attribute__((always_inline, unused))

typedef float vf __attribute__((vector_size(4 * VL)));
typedef int32_t vi __attribute__((vector_size(4 * VL)));
typedef uint32_t vu __attribute__((vector_size(4 * VL)));
typedef double vd __attribute__((vector_size(4 * VL)));
/* Lanes of a and b by their numbers, constants of type `mask` (vi; for 64 bits a vector of
 * int64_t). GCC 11 has another function for this. */
#if defined(__clang__) || __GNUC__ >= 12
#define V_SHUFFLE(mask, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define V_SHUFFLE(mask, a, b, ...) __builtin_shuffle(a, b, (mask){__VA_ARGS__})
#endif

/* The numbers 0, 1, .. VL-1. */
#if VL == 16
#define V_LANES ((vi){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
#elif VL == 8
#define V_LANES ((vi){0, 1, 2, 3, 4, 5, 6, 7})
#else
#define V_LANES ((vi){0, 1, 2, 3})
#endif

/* Unrolls the next loop, whose count must be a constant. */
#if defined(__clang__)
#define V_UNROLL _Pragma("unroll")
#else
#define V_UNROLL _Pragma("GCC unroll 16")
#endif

/* ---- memory ---- */
V_INLINE vf v_load(const float *p)
{
    vf v;
    memcpy(&v, p, sizeof(v));
    return v;
}
V_INLINE void v_store(float *p, vf v)
{
    memcpy(p, &v, sizeof(v));
}
V_INLINE vi v_loadi(const int32_t *p)
{
    vi v;
    memcpy(&v, p, sizeof(v));
    return v;
}
V_INLINE vf v_set(float x)
{
    return x - (vf){0}; /* this keeps the sign of -0; x + 0 would not */
}
V_INLINE vi v_seti(int32_t x)
{
    return x - (vi){0};
}
V_INLINE vd v_setd(double x)
{
    return x - (vd){0};
}
/* Loads n < VL floats; all other lanes are 0. */
V_INLINE vf v_load_n(const float *p, int64_t n)
{
#if defined(__AVX512F__)
    return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#else
    float t[VL] = {0};
    for (int64_t i = 0; i < n; i++)
        t[i] = p[i];
    return v_load(t);
#endif
}
V_INLINE void v_store_n(float *p, vf v, int64_t n)
{
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), v);
#else
    float t[VL];
    v_store(t, v);
    for (int64_t i = 0; i < n; i++)
        p[i] = t[i];
#endif
}

/* Loads n <= VL floats, for loops over memory that need no separate code for the rest. */
V_INLINE vf v_load_to(const float *p, int64_t n)
{
    return n == VL ? v_load(p) : v_load_n(p, n);
}
V_INLINE void v_store_to(float *p, vf v, int64_t n)
{
    if (n == VL)
        v_store(p, v);
    else
        v_store_n(p, v, n);
}

/* ---- bf16 in memory, f32 in vectors ----
 *
 * Rounding is to nearest even, a NaN stays a NaN, and the bits are the same on
 * every processor. */
V_INLINE vf v_load_bf16(const uint16_t *p)
{
#if defined(__AVX512F__)
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)p)), 16));
#elif defined(__AVX2__)
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)p)), 16));
#else
    vi v = {0};
    for (int i = 0; i < VL; i++)
        v[i] = p[i];
    return (vf)(v << 16);
#endif
}
/* Returns the bf16 of each number in the lower half of its word; the upper half
 * is undefined. */
V_INLINE vi v_to_bf16(vf x)
{
    const vi bits = (vi)x, odd = (bits >> 16) & 1, nan = (vi)(x != x);
    return ((bits + 0x7fff + odd) >> 16 & ~nan) | (((bits >> 16) | 0x40) & nan);
}
V_INLINE void v_store_bf16(uint16_t *p, vf x)
{
    vi top = v_to_bf16(x);
#if defined(__AVX512F__)
    _mm256_storeu_si256((void *)p, _mm512_cvtepi32_epi16((__m512i)top));
#else
    for (int i = 0; i < VL; i++)
        p[i] = (uint16_t)top[i];
#endif
}
V_INLINE vf v_load_bf16_n(const uint16_t *p, int64_t n)
{
    uint16_t t[VL] = {0};
    for (int64_t i = 0; i < n; i++)
        t[i] = p[i];
    return v_load_bf16(t);
}
V_INLINE void v_store_bf16_n(uint16_t *p, vf v, int64_t n)
{
    uint16_t t[VL];
    v_store_bf16(t, v);
    for (int64_t i = 0; i < n; i++)
        p[i] = t[i];
}
/* Returns element i of an array that is bf16 or f32, for loops that are written once for both
 * types. `bf16` must be a constant for the compiler. */
V_INLINE vf v_get(const void *p, int64_t i, bool bf16)
{
    return bf16 ? v_load_bf16((const uint16_t *)p + i) : v_load((const float *)p + i);
}
V_INLINE vf v_get_n(const void *p, int64_t i, int64_t n, bool bf16)
{
    return bf16 ? v_load_bf16_n((const uint16_t *)p + i, n) : v_load_n((const float *)p + i, n);
}
V_INLINE void v_put(void *p, int64_t i, vf v, bool bf16)
{
    if (bf16)
        v_store_bf16((uint16_t *)p + i, v);
    else
        v_store((float *)p + i, v);
}
V_INLINE void v_put_n(void *p, int64_t i, vf v, int64_t n, bool bf16)
{
    if (bf16)
        v_store_bf16_n((uint16_t *)p + i, v, n);
    else
        v_store_n((float *)p + i, v, n);
}
/* Returns the address of element i. */
V_INLINE void *v_at(const void *p, int64_t i, bool bf16)
{
    return (char *)(uintptr_t)p + i * (bf16 ? 2 : 4);
}

/* ---- arithmetic ---- */
/* Returns a b + c. It is rounded once if the processor supports this, otherwise twice. */
V_INLINE vf v_fma(vf a, vf b, vf c)
{
#if defined(__AVX512F__)
    return _mm512_fmadd_ps(a, b, c);
#elif defined(__AVX2__)
    return _mm256_fmadd_ps(a, b, c);
#else
    return a * b + c;
#endif
}
V_INLINE vd v_fmad(vd a, vd b, vd c)
{
#if defined(__AVX512F__)
    return _mm512_fmadd_pd(a, b, c);
#elif defined(__AVX2__)
    return _mm256_fmadd_pd(a, b, c);
#else
    return a * b + c;
#endif
}
/* mask ? a : b, lane by lane */
V_INLINE vf v_select(vi mask, vf a, vf b)
{
    return (vf)((mask & (vi)a) | (~mask & (vi)b));
}
/* Returns the larger number; b if one of them is NaN. */
V_INLINE vf v_max(vf a, vf b)
{
#if defined(__AVX512F__)
    return _mm512_max_ps(a, b);
#else
    return v_select(a > b, a, b);
#endif
}
V_INLINE vf v_min(vf a, vf b)
{
#if defined(__AVX512F__)
    return _mm512_min_ps(a, b);
#else
    return v_select(a < b, a, b);
#endif
}
V_INLINE vf v_sqrt(vf a)
{
#if defined(__AVX512F__)
    return _mm512_sqrt_ps(a);
#elif defined(__AVX2__)
    return _mm256_sqrt_ps(a);
#else
    for (int i = 0; i < VL; i++)
        a[i] = sqrtf(a[i]);
    return a;
#endif
}

/* ---- across lanes: combines lane i with i + w, for w = VL / 2 down to 1 ---- */
#if defined(__AVX2__)
#define V_ACROSS(op)                                                                           \
    __m128 q = _mm_##op##_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));          \
    q = _mm_##op##_ps(q, _mm_movehl_ps(q, q));                                                 \
    return _mm_cvtss_f32(_mm_##op##_ss(q, _mm_shuffle_ps(q, q, 1)));
#if defined(__AVX512F__)
#define V_HALVES(op)                                                                           \
    __m256 h = _mm256_##op##_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
#else
#define V_HALVES(op) __m256 h = a;
#endif
#endif
V_INLINE float v_sum(vf a)
{
#if defined(__AVX2__)
    V_HALVES(add)
    V_ACROSS(add)
#else
    float t[VL];
    v_store(t, a);
    for (int w = VL / 2; w > 0; w /= 2)
        for (int i = 0; i < w; i++)
            t[i] += t[i + w];
    return t[0];
#endif
}
#if defined(__AVX512F__)
/* Returns the sums of four vectors, each with the bits of v_sum. */
V_INLINE __m128 v_sum_4(const vf a[4])
{
    __m128 q[4];
    V_UNROLL
    for (int y = 0; y < 4; y++) {
        const __m256 h =
            _mm256_add_ps(_mm512_castps512_ps256(a[y]), _mm512_extractf32x8_ps(a[y], 1));
        q[y] = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    }
    _MM_TRANSPOSE4_PS(q[0], q[1], q[2], q[3]);
    return _mm_add_ps(_mm_add_ps(q[0], q[2]), _mm_add_ps(q[1], q[3]));
}
/* Returns a vector whose lane 4 i + y is the sum of row[i][y], with the bits of v_sum. Sixteen
 * sums together take a third of the instructions of sixteen v_sum. */
V_INLINE vf v_sum_4x4(const vf *const row[4])
{
    vf r[4];
    V_UNROLL
    for (int y = 0; y < 4; y++) {
        const vf a = row[0][y], b = row[1][y], c = row[2][y], d = row[3][y];
        const vf p = _mm512_shuffle_f32x4(a, b, 0x44) + _mm512_shuffle_f32x4(a, b, 0xee);
        const vf q = _mm512_shuffle_f32x4(c, d, 0x44) + _mm512_shuffle_f32x4(c, d, 0xee);
        r[y] = _mm512_shuffle_f32x4(p, q, 0x88) + _mm512_shuffle_f32x4(p, q, 0xdd);
    }
    V_UNROLL
    for (int y = 0; y < 4; y += 2) {
        const __m512d a = _mm512_castps_pd(r[y]), b = _mm512_castps_pd(r[y + 1]);
        r[y / 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b)) +
                   _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
    }
    return _mm512_shuffle_ps(r[0], r[1], 0x88) + _mm512_shuffle_ps(r[0], r[1], 0xdd);
}
#endif
V_INLINE float v_hmax(vf a)
{
#if defined(__AVX2__)
    V_HALVES(max)
    V_ACROSS(max)
#else
    float t[VL];
    v_store(t, a);
    for (int w = VL / 2; w > 0; w /= 2)
        for (int i = 0; i < w; i++)
            t[i] = t[i] > t[i + w] ? t[i] : t[i + w];
    return t[0];
#endif
}

/* ---- rows ---- */
/* y += a. */
V_INLINE void v_add_to(int64_t n, const float *a, float *y)
{
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        v_store(y + i, v_load(y + i) + v_load(a + i));
    if (i < n) v_store_n(y + i, v_load_n(y + i, n - i) + v_load_n(a + i, n - i), n - i);
}
/* Adds a to each of the rows. */
V_INLINE void v_add_to_rows(int64_t rows, int64_t n, const float *a, float *y, int64_t ldy)
{
    for (int64_t r = 0; r < rows; r++)
        v_add_to(n, a, y + r * ldy);
}
/* Returns the sum of a b, in four interleaved sums. */
V_INLINE float v_dot(int64_t n, const float *a, const float *b)
{
    vf s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
    int64_t i = 0;
    for (; i + 4 * VL <= n; i += 4 * VL) {
        s0 = v_fma(v_load(a + i), v_load(b + i), s0);
        s1 = v_fma(v_load(a + i + VL), v_load(b + i + VL), s1);
        s2 = v_fma(v_load(a + i + 2 * VL), v_load(b + i + 2 * VL), s2);
        s3 = v_fma(v_load(a + i + 3 * VL), v_load(b + i + 3 * VL), s3);
    }
    for (; i + VL <= n; i += VL)
        s0 = v_fma(v_load(a + i), v_load(b + i), s0);
    if (i < n) s1 = v_fma(v_load_n(a + i, n - i), v_load_n(b + i, n - i), s1);
    return v_sum((s0 + s1) + (s2 + s3));
}

/* ---- functions ---- */
/* Returns e^x for x <= 88; see v_exp. x = n ln 2 + r with |r| <= ln 2 / 2; e^r = 1 + r + r^2
 * p(r), where p is our own minimax polynomial for the relative error of the result (3e-9); n is
 * added to the exponent. */
V_INLINE vf v_exp_low(vf x)
{
    const float shift = 12582912.0f; /* 1.5 2^23: adding it rounds to an integer */
    vf t = v_fma(x, v_set(1.44269504f), v_set(shift));
    vf n = t - shift;
    vf r = v_fma(n, v_set(-0.693145751953125f), x); /* 16 bits of ln 2: n times it is exact */
    r = v_fma(n, v_set(-1.42860677e-6f), r);
    vf p = v_set(1.3814599e-3f);
    p = v_fma(p, r, v_set(8.3687166e-3f));
    p = v_fma(p, r, v_set(4.1668389e-2f));
    p = v_fma(p, r, v_set(0.16666521f));
    p = v_fma(p, r, v_set(0.49999994f));
    p = v_fma(p, r, v_set(1.0f));
    p = v_fma(p, r, v_set(1.0f));
#if defined(__AVX512F__)
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, v_set(-87.33f), _CMP_NLT_UQ), p, n);
#else
    /* If x is far below this range, y is meaningless, but then it is not used. */
    vu e = (vu)t - (vu)v_set(shift);
    vf y = (vf)((vu)p + (e << 23));
    y = v_select(x < v_set(-87.33f), (vf){0}, y);
    return v_select(x == x, y, x);
#endif
}

/* Returns e^x within 2 units in the last place. The result is 0 below -87.33, where it would be
 * subnormal: subnormal numbers cost some hundred cycles each, and softmax has many of them. Inf
 * and NaN have the same results as in expf. */
V_INLINE vf v_exp(vf x)
{
#if defined(__AVX512F__)
    return v_exp_low(_mm512_min_ps(v_set(89.0f), x)); /* the minimum keeps a NaN */
#else
    vf y = v_exp_low(v_min(x, v_set(88.7228f)));
    y = v_select(x > v_set(88.7228f), v_set(INFINITY), y);
    return v_select(x == x, y, x);
#endif
}

#endif

/* coded.c: weights whose neighbouring inputs are neighbours in memory and that packed.c does
 * not read: MF_STORED_F8_E4M3, MF_STORED_F8_E5M2, MF_STORED_INT4. A piece of a row is decoded
 * to f32 in the first cache, and then multiplied with all rows of x. */
#include "kernels/cpu/simd/stored/codes.h"
#include "kernels/cpu/simd/stored/stored.h"
#if VL == 16 && defined(MF_HAVE_AVX512BF16)
#include "kernels/cpu/simd/stored/packed_few.h"
#endif

#define PIECE 512  /* number of inputs that are decoded at a time */
#define AHEAD 4096 /* prefetch distance in bytes */

static inline int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Writes n numbers times `scale`. The type must be a constant for the compiler. */
V_INLINE void f8_run(mf_stored_type type, const uint8_t *from, int64_t n, float scale,
                     float *to)
{
    const float factor = scale * f8_factor(type);
    /* If the factor would overflow, it is multiplied in two steps. */
    const bool twice = !(factor <= 3.4e38f && factor >= -3.4e38f);
    const vf first = v_set(twice ? f8_factor(type) : factor), second = v_set(scale);
    for (int64_t i = 0; i < n; i += 2 * VL) {
        uint8_t padded[2 * VL] = {0};
        const uint8_t *at = from + i;
        vf w[2];
        if (n - i < 2 * VL) {
            memcpy(padded, at, (size_t)(n - i));
            at = padded;
        }
        f8_numbers(type, at, w);
        for (int h = 0; h < 2 && i + h * VL < n; h++) {
            vf v = w[h] * first;
            if (twice) v *= second;
            v_store_to(to + i + h * VL, v, min64(VL, n - i - h * VL));
        }
    }
}

/* Writes inputs i0 .. i1 - 1 of row o, group by group. */
V_INLINE void f8_row(mf_stored_type type, const mf_stored_part *p, int64_t in, int64_t o,
                     int64_t i0, int64_t i1, float *to)
{
    const uint8_t *row = (const uint8_t *)p->data + o * in;
    const int64_t scales = o / p->scale_rows * p->groups;
    for (int64_t i = i0, end; i < i1; i = end) {
        const int64_t g = i / p->group_size;
        end = min64((g + 1) * p->group_size, i1);
        f8_run(type, row + i, end - i, mf_stored_scale(p, scales + g), to + i - i0);
    }
}

/* Writes n weights, a multiple of 8. */
V_INLINE void int4_run(const uint8_t *from, int64_t n, int zero, float scale, float *to)
{
    int64_t i = 0;
#if VL > 4
    for (; i + 32 <= n; i += 32) {
        const __m128i bytes = _mm_loadu_si128((const void *)(from + i / 2)),
                      low = _mm_and_si128(bytes, _mm_set1_epi8(15)),
                      high = _mm_and_si128(_mm_srli_epi16(bytes, 4), _mm_set1_epi8(15));
        uint8_t codes[32];
        _mm_storeu_si128((void *)codes, _mm_unpacklo_epi8(low, high));
        _mm_storeu_si128((void *)(codes + 16), _mm_unpackhi_epi8(low, high));
        for (int v = 0; v < 32; v += VL)
            v_store(to + i + v, code_floats(code_bytes(codes + v, VL) - zero) * scale);
    }
#endif
    for (; i < n; i++)
        to[i] = (float)((from[i / 2] >> 4 * (i % 2) & 15) - zero) * scale;
}

static void int4_row(const mf_stored_part *p, int64_t in, int64_t o, int64_t i0, int64_t i1,
                     float *to)
{
    const uint8_t *row = (const uint8_t *)p->data + o * in / 2;
    for (int64_t i = i0, end; i < i1; i = end) {
        const int64_t g = i / p->group_size;
        end = min64((g + 1) * p->group_size, i1);
        const int zero =
            p->zeros ? mf_stored_bits(p->zeros, o / 8 * p->groups + g, 4 * (o % 8), 4) : 8;
        int4_run(row + i / 2, end - i, zero, mf_stored_scale(p, o * p->groups + g),
                 to + i - i0);
    }
}

static void decode(const mf_stored_part *p, int64_t in, int64_t o, int64_t i0, int64_t i1,
                   float *to)
{
    if (p->type == MF_STORED_INT4)
        int4_row(p, in, o, i0, i1, to);
    else if (p->type == MF_STORED_F8_E4M3)
        f8_row(MF_STORED_F8_E4M3, p, in, o, i0, i1, to);
    else
        f8_row(MF_STORED_F8_E5M2, p, in, o, i0, i1, to);
}

void MF_SIMD(stored_unpack_coded)(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1,
                                  int64_t i0, int64_t i1, float *out, int64_t ld)
{
    for (int64_t o = o0; o < o1; o++)
        decode(p, in, o, i0, i1, out + (o - o0) * ld);
}

/* ---- few rows of x ---- */

#if VL > 4
/* Adds inputs i .. end - 1 of a row of W, which share a scale, to the sums of `rows` rows
 * of x. A number that is NaN is only found: it has another value in these sums. */
V_INLINE void f8_group(mf_stored_type type, int rows, const uint8_t *w, int64_t i, int64_t end,
                       float scale, const float *x, int64_t ldx, f8_found *ret_found,
                       vf total[STORED_FEW])
{
    const bool e4m3 = type == MF_STORED_F8_E4M3;
    vf sum[STORED_FEW][2], v[4];
    f8_found found = *ret_found;
    V_UNROLL
    for (int r = 0; r < rows; r++)
        sum[r][0] = sum[r][1] = (vf){0};
    for (; i + 4 * VL <= end; i += 4 * VL) {
        prefetch_weights(w + i + AHEAD);
        if (e4m3) found = f8_nans(found, w + i);
        f8_finite(type, w + i, v);
        V_UNROLL
        for (int r = 0; r < rows; r++) {
            V_UNROLL
            for (int k = 0; k < 4; k++)
                sum[r][k % 2] = v_fma(v_load(x + r * ldx + i + k * VL), v[k], sum[r][k % 2]);
        }
    }
    if (i < end) {
        uint8_t rest[4 * VL] = {0};
        memcpy(rest, w + i, (size_t)(end - i));
        if (e4m3) found = f8_nans(found, rest);
        f8_finite(type, rest, v);
        for (int r = 0; r < rows; r++)
            for (int64_t k = 0; i + k * VL < end; k++)
                sum[r][0] =
                    v_fma(v_load_to(x + r * ldx + i + k * VL, min64(VL, end - i - k * VL)),
                          v[k], sum[r][0]);
    }
    *ret_found = found;
    V_UNROLL
    for (int r = 0; r < rows; r++)
        total[r] = v_fma(v_set(scale), (sum[r][0] + sum[r][1]) * f8_factor(type), total[r]);
}

V_INLINE void f8_few(mf_stored_type type, int rows, const mf_stored_part *p, int64_t in,
                     int64_t o, const float *x, int64_t ldx, float *y, int64_t ldy)
{
    const uint8_t *w = (const uint8_t *)p->data + o * in;
    const int64_t scales = o / p->scale_rows * p->groups;
    const int64_t size = p->group_size, groups = p->groups;
    const bool plain = p->scale_type == MF_SCALE_F32;
    vf total[STORED_FEW];
    f8_found found = {0};
    V_UNROLL
    for (int r = 0; r < rows; r++)
        total[r] = (vf){0};
    for (int64_t g = 0; g < groups; g++)
        f8_group(type, rows, w, g * size, min64((g + 1) * size, in),
                 plain ? ((const float *)p->scales)[scales + g]
                       : mf_stored_scale(p, scales + g),
                 x, ldx, &found, total);
    const bool nan = type == MF_STORED_F8_E4M3 && f8_any(found);
    for (int r = 0; r < rows; r++)
        y[r * ldy] = nan ? NAN : v_sum(total[r]);
}

#define F8_FEW(type, rows) f8_few(type, rows, p, in, o, x, ldx, y + o - o0, ldy)
#define F8_FEW_OF(type)                                                                        \
    (rows == 1   ? F8_FEW(type, 1)                                                             \
     : rows == 2 ? F8_FEW(type, 2)                                                             \
     : rows == 3 ? F8_FEW(type, 3)                                                             \
                 : F8_FEW(type, 4))
#endif

void MF_SIMD(stored_few_coded)(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1,
                               int64_t rows, bool bf16, const float *x, int64_t ldx, float *y,
                               int64_t ldy)
{
    float w[PIECE] __attribute__((aligned(64)));
    const int64_t bits = p->type == MF_STORED_INT4 ? 4 : 8;
    (void)bf16;
#if VL == 16 && defined(MF_HAVE_AVX512BF16)
    if (bits == 8 && (p->groups == 1 || p->group_size % 64 == 0) &&
        __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512bf16")) {
        MF_SIMD(f8_few_vbmi)(p, in, o0, o1, rows, bf16, x, ldx, y, ldy);
        return;
    }
#endif
#if VL > 4
    if (p->type != MF_STORED_INT4) {
        for (int64_t o = o0; o < o1; o++)
            if (p->type == MF_STORED_F8_E4M3)
                F8_FEW_OF(MF_STORED_F8_E4M3);
            else
                F8_FEW_OF(MF_STORED_F8_E5M2);
        return;
    }
#endif
    for (int64_t o = o0; o < o1; o++)
        for (int64_t i = 0; i < in; i += PIECE) {
            const int64_t n = min64(PIECE, in - i);
            const char *ahead = (const char *)p->data + (o * in + i) * bits / 8 + AHEAD;
            for (int64_t k = 0; k < n * bits / 8; k += 64)
                prefetch_weights(ahead + k);
            decode(p, in, o, i, i + n, w);
            for (int64_t r = 0; r < rows; r++) {
                float *to = &y[r * ldy + o - o0];
                *to = (i > 0 ? *to : 0) + v_dot(n, x + r * ldx + i, w);
            }
        }
}

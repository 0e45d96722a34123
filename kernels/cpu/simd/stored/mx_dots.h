/* mx_dots.h: dot products of a few rows with weights of MXFP4, read directly from memory. A
 * byte contains two inputs of one output, and neighbouring bytes contain neighbouring inputs.
 * Sums over parts of a block are exact integers, which are then scaled and added in f32. The
 * file is included once for each way to multiply bytes, like packed_dots.h, whose functions
 * it uses. */
#ifndef MF_SIMD_MX_DOTS_H
#define MF_SIMD_MX_DOTS_H

#include "kernels/cpu/simd/stored/packed_dots.h"

#define MX_AHEAD 6144 /* bytes between a load and its prefetch */

#if VL == 16

#define MX_BYTES        (4 * VL)       /* bytes of a vector, for the numbers of a span */
#define MX_PIECE        (4 * MX_BYTES) /* bytes of a piece, whose scales are one vector */
#define MX_SCALES_AHEAD 1024

/* Adds to the sums of mr rows the sums over a span of a row of weights, which are low and high,
 * for inputs of even and of odd index. more: they are what must be multiplied plus OFFSET. x:
 * the span of the first row. */
V_INLINE void span_dots(int mr, int nd, vi low, vi high, bool more, vf scale, const span *x,
                        int64_t ldx, vf sum[2])
{
    V_UNROLL
    for (int r = 0; r < mr; r++) {
        const span *row = x + r * ldx;
        vi all = {0};
        V_UNROLL
        for (int d = nd - 1; d >= 0; d--) {
            pair_sum part = {DOTS_VNNI ? all << 8 : (vi){0}};
            add_dots(&part, low, v_loadi((const int32_t *)row->digit[d][0]));
            add_dots(&part, high, v_loadi((const int32_t *)row->digit[d][1]));
            all = DOTS_VNNI ? part.sum : whole_sum(all << 8, &part);
        }
        if (more) all += v_loadi(row->offset);
        /* The scales are applied one after the other, because both at once may be too small
         * for f32. */
        sum[r] = v_fma(__builtin_convertvector(all, vf) * row->scale, scale, sum[r]);
    }
}

/* Adds to the sums of mr rows the sums over vector h of a piece of a row of weights, of which
 * `bytes` bytes exist. scales: scales of the piece. x: spans of the piece of the first row. */
V_INLINE void mx_vector(int mr, int nd, int h, const uint8_t *q, int64_t bytes, vf scales,
                        const span *x, int64_t ldx, vf sum[2])
{
    const vi word = mx_bytes(q, bytes), low = mx_values(word & LOW_BYTES),
             high = mx_values((vi)((vu)word >> 4) & LOW_BYTES);
    prefetch_weights(q + MX_AHEAD);
    span_dots(mr, nd, low, high, true, mx_scales_of(scales, h), x + h, ldx, sum);
}

/* Adds to the sums of mr rows the sums over `bytes` bytes of a row of weights; bytes is
 * MX_PIECE or the rest of the row. e: scales of these bytes. x: the first span of these bytes
 * of the first row. */
V_INLINE void mx_piece(int mr, int nd, const uint8_t *q, const uint8_t *e, int64_t bytes,
                       const span *x, int64_t ldx, vf sum[2])
{
    const vf scales = mx_scales(e, bytes / 16);
    prefetch_weights(e + MX_SCALES_AHEAD);
    if (bytes == MX_PIECE) {
        V_UNROLL
        for (int h = 0; h < MX_PIECE / MX_BYTES; h++)
            mx_vector(mr, nd, h, q + h * MX_BYTES, MX_BYTES, scales, x, ldx, sum);
    } else {
        for (int h = 0; h * MX_BYTES < bytes; h++)
            mx_vector(mr, nd, h, q + h * MX_BYTES,
                      bytes - h * MX_BYTES < MX_BYTES ? bytes - h * MX_BYTES : MX_BYTES, scales,
                      x, ldx, sum);
    }
}

/* The sums over four rows of weights, before their lanes are added. */
typedef struct row_sums {
    vf row[2][4];
} row_sums;

/* Adds the lanes of the sums over row o of n, and writes them times `unit` with those of the
 * rows before, four at a time, which takes fewer operations. */
V_INLINE void put_sums(int mr, int64_t o, int64_t n, const vf sum[2], float unit, row_sums *all,
                       float *y, int64_t ldy)
{
    V_UNROLL
    for (int r = 0; r < mr; r++) {
        if (o / 4 * 4 + 4 > n) {
            y[r * ldy + o] = v_sum(sum[r]) * unit;
            continue;
        }
        all->row[r][o % 4] = sum[r];
        if (o % 4 == 3)
            _mm_storeu_ps(y + r * ldy + o - 3,
                          _mm_mul_ps(v_sum_4(all->row[r]), _mm_set1_ps(unit)));
    }
}

#else

#define MX_PIECE (SPAN / 2)

/* Returns 2^(e - 127) of four neighbouring blocks, but Inf for e = 255. Lanes 0 and 1 have
 * the scale of the first block, 4 and 5 of the second, 2 and 3 of the third, 6 and 7 of
 * the last. */
V_INLINE vf mx_scales(const uint8_t *e)
{
    const __m256i highest =
        _mm256_setr_epi8(-1, -1, -1, 0, -1, -1, -1, 0, -1, -1, -1, 2, -1, -1, -1, 2, -1, -1, -1,
                         1, -1, -1, -1, 1, -1, -1, -1, 3, -1, -1, -1, 3);
    const __m256i power = _mm256_shuffle_epi8((__m256i)word_at(e), highest);
    return (vf)_mm256_max_epu32(_mm256_srli_epi32(power, 1), _mm256_set1_epi32(MX_QUIET));
}

/* Returns the sum of pairs, which are signed, times `factor`. */
V_INLINE vu mx_sum(const pair_sum *p, int16_t factor)
{
    return (vu)_mm256_madd_epi16((__m256i)p->sum, _mm256_set1_epi16(factor));
}

/* Adds to the sums of mr rows the sums over a span of a row of weights. Two vectors of weights
 * are four blocks. After their halves of eight bytes have changed places, both vectors have the
 * same blocks in the same lanes, so one conversion and one vector of scales are enough for
 * both. x: the span of the first row. Sums may exceed 32 bits until the offset is added. */
V_INLINE void mx_span(int mr, int nd, const uint8_t *q, const uint8_t *e, const span *x,
                      int64_t ldx, vf sum[2])
{
    const __m256i first = _mm256_loadu_si256((const void *)q),
                  second = _mm256_loadu_si256((const void *)(q + 32));
    const vi a = (vi)_mm256_unpacklo_epi64(first, second),
             b = (vi)_mm256_unpackhi_epi64(first, second);
    const vi w[4] = {mx_values(a & LOW_BYTES), mx_values((vi)((vu)a >> 4) & LOW_BYTES),
                     mx_values(b & LOW_BYTES), mx_values((vi)((vu)b >> 4) & LOW_BYTES)};
    const vf scale = mx_scales(e);
    V_UNROLL
    for (int r = 0; r < mr; r++) {
        const span *row = x + r * ldx;
        pair_sum part[DIGITS] = {{{0}}, {{0}}, {{0}}};
        V_UNROLL
        for (int k = 0; k < 4; k++) {
            V_UNROLL
            for (int d = nd - 1; d >= 0; d--)
                add_dots(&part[d], w[k],
                         v_loadi((const void *)&row->digit[d][k % 2][k / 2 * 4 * VL]));
        }
        vu all = mx_sum(&part[nd - 1], 256) + mx_sum(&part[nd - 2], 1);
        if (nd == 3) all = (all << 8) + mx_sum(&part[0], 1);
        const vi exact = (vi)(all + (vu)v_loadi(row->offset));
        /* The scales are applied one after the other, because both at once may be too small
         * for f32. */
        sum[r] = v_fma(__builtin_convertvector(exact, vf) * row->scale, scale, sum[r]);
    }
}

/* Does the same as mx_piece for AVX-512 above. Scales are not prefetched, because this would
 * slow down reading the weights. */
V_INLINE void mx_piece(int mr, int nd, const uint8_t *q, const uint8_t *e, int64_t bytes,
                       const span *x, int64_t ldx, vf sum[2])
{
    uint8_t weights[MX_PIECE] = {0}, scales[MX_PIECE / 16] = {0};
    if (bytes == MX_PIECE) {
        prefetch_weights(q + MX_AHEAD);
        mx_span(mr, nd, q, e, x, ldx, sum);
        return;
    }
    memcpy(weights, q, (size_t)bytes);
    memcpy(scales, e, (size_t)bytes / 16);
    mx_span(mr, nd, weights, scales, x, ldx, sum);
}

/* Returns the result of the sums over a row of weights with `in` inputs. If a scale is 255, the
 * sum is Inf or NaN, and the result must be NaN. */
V_INLINE float mx_end(const uint8_t *e, int64_t in, vf sum)
{
    const float all = v_sum(sum);
    return isfinite(all) || !memchr(e, 255, (size_t)in / 32) ? all : NAN;
}

#endif

/* Multiplies mr = 1 or 2 rows. Rows of weights are read one after the other, in the order
 * of memory. */
V_INLINE void mx_run(int mr, int nd, const mf_stored_part *p, int64_t in, int64_t o0,
                     int64_t o1, const span *x, float *y, int64_t ldy)
{
    const int64_t ldx = spans_of(in);
    const uint8_t *q = (const uint8_t *)p->data + o0 * (in / 2),
                  *e = (const uint8_t *)p->scales + o0 * (in / 32);
#if VL == 16
    row_sums all;
#endif
    for (int64_t o = o0; o < o1; o++, q += in / 2, e += in / 32) {
        vf sum[2] = {{0}, {0}};
        int64_t at = 0;
        for (; at + MX_PIECE <= in / 2; at += MX_PIECE)
            mx_piece(mr, nd, q + at, e + at / 16, MX_PIECE, x + at / (SPAN / 2), ldx, sum);
        if (at < in / 2)
            mx_piece(mr, nd, q + at, e + at / 16, in / 2 - at, x + at / (SPAN / 2), ldx, sum);
#if VL == 16
        put_sums(mr, o - o0, o1 - o0, sum, MX_UNIT, &all, y, ldy);
#else
        V_UNROLL
        for (int r = 0; r < mr; r++)
            y[r * ldy + o - o0] = mx_end(e, in, sum[r]) * MX_UNIT;
#endif
    }
}

/* These are separate functions, so that each can use all registers. */
#define MX_ROWS(mr, nd)                                                                        \
    static __attribute__((noinline)) void mx_##mr##_##nd(const mf_stored_part *p, int64_t in,  \
                                                         int64_t o0, int64_t o1,               \
                                                         const span *x, float *y, int64_t ldy) \
    {                                                                                          \
        mx_run(mr, nd, p, in, o0, o1, x, y, ldy);                                              \
    }
MX_ROWS(1, 2)
MX_ROWS(1, 3)
MX_ROWS(2, 2)
MX_ROWS(2, 3)

typedef void span_rows(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1,
                       const span *x, float *y, int64_t ldy);

/* Calls of[rows - 1][nd - 2] for one or two rows. With more than two rows, the weights are read
 * from the cache after the first rows. */
static void span_rows_few(span_rows *const of[2][2], const mf_stored_part *p, int64_t in,
                          int64_t o0, int64_t o1, int64_t rows, int nd, const span *x, float *y,
                          int64_t ldy)
{
    const int64_t ldx = spans_of(in), most = rows > 2 ? 16 : o1 - o0;
    for (int64_t o = o0; o < o1; o += most)
        for (int64_t r = 0; r < rows; r += 2)
            of[rows - r >= 2][nd - 2](p, in, o, o1 - o < most ? o1 : o + most, x + r * ldx,
                                      y + r * ldy + o - o0, ldy);
}

static void mx_few(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1, int64_t rows,
                   int nd, const span *x, float *y, int64_t ldy)
{
    static span_rows *const of[2][2] = {{mx_1_2, mx_1_3}, {mx_2_2, mx_2_3}};
    span_rows_few(of, p, in, o0, o1, rows, nd, x, y, ldy);
}

#endif

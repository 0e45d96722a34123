/* planes.h: stored weights of any type as planes of bf16, in the lane panels of amx_pack.h;
 * a part of stored/amx.c.
 *
 * A weight is the exact sum of its planes: the first plane has its 8 highest bits, each
 * further plane has the next 8 bits of the rest. A weight that is not finite is in the first
 * plane, and the other planes are 0. Processors multiply bf16 below 2^-126 as 0, so planes
 * end there, too. */
#ifndef MF_SIMD_PLANES_H
#define MF_SIMD_PLANES_H

#include "kernels/cpu/simd/gemm/amx_pack.h"
#include "kernels/cpu/simd/stored/four_bits.h"

#define PLANES 3 /* maximum number of planes */

/* Lanes n .. n + width - 1 of a part, at most LANES, and inner indices k0 .. k1 - 1. Lanes are
 * rows of the part and inner indices are its inputs. With `back`, lanes are inputs and inner
 * indices are rows; with pairs these are the rows 2 k + half. If lanes are rows of a part with
 * pairs, lane l is row n + 2 l, and lane VL + l is row n + 2 l + 1. */
typedef struct slice {
    const mf_stored_part *p;
    int64_t in;
    bool back;
    int half;
    int64_t n, width, k0, k1;
} slice;

V_INLINE int planes_of(mf_stored_type type)
{
    return type == MF_STORED_F32                               ? 3
           : type == MF_STORED_BF16 || type == MF_STORED_MXFP4 ? 1
                                                               : 2;
}

/* Whether lanes are rows of the matrix in the file, so that inner indices are neighbours. */
static bool lanes_are_rows(const slice *s)
{
    const bool outputs =
        s->p->type == MF_STORED_MXFP4 || (s->p->type != MF_STORED_GPTQ4 && !s->p->transposed);
    return outputs != s->back;
}

/* ---- planes ---- */

/* Computes the planes of v, each in the upper halves of words; the lower halves are 0. */
V_INLINE void split(mf_stored_type type, vf v, vi plane[PLANES])
{
    const int planes = planes_of(type);
    const __m512i upper = _mm512_set1_epi32((int)0xffff0000);
    plane[0] = (vi)_mm512_and_si512((__m512i)v, upper);
    if (type == MF_STORED_F32) /* The first plane may keep no bit of a NaN. */
        plane[0] =
            (vi)_mm512_mask_or_epi32((__m512i)plane[0], _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q),
                                     (__m512i)plane[0], _mm512_set1_epi32(0x400000));
    if (planes == 1) return;
    vf rest = v - (vf)plane[0];
    rest = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(rest, rest, _CMP_ORD_Q), rest);
    plane[1] = (vi)_mm512_and_si512((__m512i)rest, upper);
    if (planes == 2) return;
    plane[2] = (vi)_mm512_and_si512((__m512i)(rest - (vf)plane[1]), upper);
}

/* Lines of LANES lanes, with RUN inner indices each. A run of one row of a file is read before
 * the next row, because the distance of rows is often a power of two. */
#define RUN      256
#define LINES_LD (RUN + DEEP)
#define LINES    (LANES * LINES_LD) /* number of elements of the lines of a plane */

/* Writes 32 inner indices of a line. */
V_INLINE void put_line(mf_stored_type type, const vf v[2], uint16_t *to)
{
    const __m512i upper =
        _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29,
                         27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    vi a[PLANES], b[PLANES];
    split(type, v[0], a);
    split(type, v[1], b);
    V_UNROLL
    for (int q = 0; q < planes_of(type); q++)
        _mm512_store_si512(to + q * LINES,
                           _mm512_permutex2var_epi16((__m512i)a[q], upper, (__m512i)b[q]));
}

/* Writes words of VL lanes, from the numbers of inner indices 2 q and 2 q + 1. */
V_INLINE void put_words(mf_stored_type type, vf even, vf odd, float *to, int64_t plane)
{
    vi a[PLANES], b[PLANES];
    split(type, even, a);
    split(type, odd, b);
    V_UNROLL
    for (int q = 0; q < planes_of(type); q++)
        v_store(to + q * plane, (vf)((vi)((vu)a[q] >> 16) | b[q]));
}

/* ---- numbers of a row of the file ---- */

V_INLINE __mmask16 mask_to(int64_t n)
{
    return n >= VL ? 0xffff : n > 0 ? (__mmask16)((1u << n) - 1) : 0;
}

/* Returns columns c .. c + VL - 1 of a row, of which n exist; all others are 0. MXFP4: c must
 * be a multiple of VL. */
V_INLINE vf row_numbers(mf_stored_type type, const mf_stored_part *p, int64_t in, int64_t row,
                        int64_t c, int64_t n)
{
    const __mmask16 m = mask_to(n);
    if (type == MF_STORED_MXFP4) {
        const int64_t at = row * in + c;
        if (m == 0) return (vf){0};
        return mx_inputs((const uint8_t *)p->data + at / 2) *
               mx_power(((const uint8_t *)p->scales)[at / 32]);
    }
    const char *from =
        (const char *)p->data + (row * p->ld + c) * (type == MF_STORED_F32 ? 4 : 2);
    if (type == MF_STORED_F32) return _mm512_maskz_loadu_ps(m, from);
    const __m256i h = _mm256_maskz_loadu_epi16(m, from);
    if (type == MF_STORED_F16) return _mm512_cvtph_ps(h);
    return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16);
}

V_INLINE vf every_other(vf a, vf b, int odd)
{
    const vi even = 2 * V_LANES;
    return _mm512_permutex2var_ps(a, (__m512i)(even + odd), b);
}

/* ---- lanes that are rows of the file ---- */

/* Reads two vectors of row r of the slice, beginning with inner index k, of which n exist. */
V_INLINE void row_vectors(mf_stored_type type, bool apart, const slice *s, int64_t r, int64_t k,
                          int64_t n, vf v[2])
{
    V_UNROLL
    for (int h = 0; h < 2; h++) {
        const int64_t c = (apart ? 2 : 1) * (k + h * VL), some = (apart ? 2 : 1) * (n - h * VL);
        v[h] = row_numbers(type, s->p, s->in, s->n + r, c, some);
        if (apart)
            v[h] = every_other(
                v[h], row_numbers(type, s->p, s->in, s->n + r, c + VL, some - VL), s->half);
    }
}

/* Prefetches the next run of a row, or the first run of a row of the next panel. */
V_INLINE void fetch_run(mf_stored_type type, const slice *s, int64_t row, int64_t k)
{
    const int64_t size = type == MF_STORED_F32 ? 4 : 2;
    const bool more = k + RUN < s->k1;
    const char *at = (const char *)s->p->data +
                     size * ((more ? row : row + LANES) * s->p->ld + (more ? k + RUN : s->k0));
    for (int64_t i = 0; i < RUN * size; i += 64)
        __builtin_prefetch(at + i, 0, 2);
}

/* Writes the first n elements of each line, which are those of the inner indices from k on. */
V_INLINE void lines_of_rows(mf_stored_type type, const slice *s, int64_t k, int64_t n,
                            uint16_t *to)
{
    const bool pairs = s->p->pairs;
    for (int l = 0; l < LANES; l++) {
        const int64_t r = !pairs || s->back ? l : 2 * (l % VL) + l / VL;
        vf v[2] = {{0}, {0}};
        if (type != MF_STORED_MXFP4 && r < s->width) fetch_run(type, s, s->n + r, k);
        for (int64_t i = 0; i < n && r < s->width; i += DEEP) {
            if (pairs && s->back)
                row_vectors(type, true, s, r, k + i, n - i, v);
            else if (n - i < DEEP)
                row_vectors(type, false, s, r, k + i, n - i, v);
            else
                row_vectors(type, false, s, r, k + i, DEEP, v);
            put_line(type, v, to + l * LINES_LD + i);
        }
    }
}

/* Like lines_of_rows, for GPTQ4 with `back`. Lanes are inputs, and n is a multiple of 32. */
static void lines_of_gptq(const slice *s, int64_t k, int64_t n, uint16_t *to)
{
    const mf_stored_part *p = s->p;
    const bool pairs = s->p->pairs;
    const int64_t step = pairs ? 2 : 1, c = k * step;
    int64_t now = -1;
    vf scale[2], shift[2];
    vu word[2];
    for (int l = 0; l < LANES; l++, to += LINES_LD) {
        const int64_t i = s->n + l;
        vf v[2] = {{0}, {0}};
        if (l >= s->width) {
            put_line(MF_STORED_GPTQ4, v, to);
            continue;
        }
        const int64_t g = p->group_of ? p->group_of[i] : i / p->group_size;
        for (int h = 0; h < 2 && (l % 8 == 0 || g != now); h++) {
            vf a[2], b[2];
            vi w[2];
            for (int z = 0; z < step; z++) {
                const int64_t at = c + (step * h + z) * VL, some = step * n - (at - c);
                const __mmask16 m = mask_to(some);
                w[z] = (vi)_mm512_maskz_loadu_epi32(m, (const uint32_t *)p->data +
                                                           i / 8 * p->rows + at);
                a[z] = b[z] = (vf){0};
                if (some <= 0) continue;
                a[z] = gptq_scales(p, g, at, some < VL ? some : VL);
                b[z] = -a[z] * gptq_zeros(p, g, at, some < VL ? some : VL);
            }
            word[h] = (vu)(pairs ? (vi)every_other((vf)w[0], (vf)w[1], s->half) : w[0]);
            scale[h] = pairs ? every_other(a[0], a[1], s->half) : a[0];
            shift[h] = pairs ? every_other(b[0], b[1], s->half) : b[0];
        }
        now = g;
        for (int h = 0; h < 2; h++) {
            const vi q = (vi)(word[h] >> (uint32_t)(4 * (l % 8))) & 15;
            v[h] = v_fma(__builtin_convertvector(q, vf), scale[h], shift[h]);
            if (n < DEEP) v[h] = _mm512_maskz_mov_ps(mask_to(n - h * VL), v[h]);
        }
        put_line(MF_STORED_GPTQ4, v, to);
    }
}

/* Transposes 32 inner indices of 16 lanes, `ld` elements apart, like turn_words. It uses no
 * list of addresses, because the processor would have to wait for the list. */
V_INLINE void turn_lines(const uint16_t *at, int64_t ld, float *out)
{
    V_UNROLL
    for (int q = 0; q < TILE_WORDS; q += 4, at += 8) {
        __m512i a[4];
        V_UNROLL
        for (int r = 0; r < 4; r++)
            a[r] =
                pieces(at + r * ld, at + (4 + r) * ld, at + (8 + r) * ld, at + (12 + r) * ld);
        put_four(a, out + q * LANES);
    }
}

/* Fills a panel from lines that are already in the file. */
static void fill_from_lines(const slice *s, float *out)
{
    const int64_t ld = s->p->ld;
    const uint16_t *at = (const uint16_t *)s->p->data + s->n * ld + s->k0;
    for (int64_t k = s->k0; k < s->k1; k += DEEP, at += DEEP, out += TILE_WORDS * LANES) {
        turn_lines(at, ld, out);
        turn_lines(at + VL * ld, ld, out + VL);
        for (int l = 0; l < LANES; l++)
            __builtin_prefetch(at + l * ld + 8 * DEEP);
    }
}

/* Converts lines to words. */
V_INLINE void fill_from_rows(mf_stored_type type, const slice *s, float *out, int64_t plane)
{
    uint16_t lines[PLANES * LINES] __attribute__((aligned(64)));
    if (type == MF_STORED_BF16 && !s->p->pairs && s->width == LANES &&
        (s->k1 - s->k0) % DEEP == 0) {
        fill_from_lines(s, out);
        return;
    }
    for (int64_t k = s->k0; k < s->k1; k += RUN) {
        const int64_t n = s->k1 - k < RUN ? s->k1 - k : RUN;
        if (type == MF_STORED_GPTQ4) {
            for (int64_t i = 0; i < n; i += DEEP)
                lines_of_gptq(s, k + i, n - i, lines + i);
        } else {
            lines_of_rows(type, s, k, n, lines);
        }
        for (int64_t i = 0; i < n; i += DEEP, out += TILE_WORDS * LANES)
            for (int q = 0; q < planes_of(type); q++)
                for (int h = 0; h < 2; h++)
                    turn_lines(lines + q * LINES + h * VL * LINES_LD + i, LINES_LD,
                               out + q * plane + h * VL);
    }
}

/* ---- inner indices that are rows of the file ---- */

/* Reads the numbers of all lanes at inner index k; 0 from k1 on. */
V_INLINE void lanes_at(mf_stored_type type, const slice *s, int64_t k, vf v[2])
{
    const bool pairs = s->p->pairs;
    v[0] = v[1] = (vf){0};
    if (k >= s->k1) return;
    const int64_t row = pairs && s->back ? 2 * k + s->half : k;
    v[0] = row_numbers(type, s->p, s->in, row, s->n, s->width);
    v[1] = row_numbers(type, s->p, s->in, row, s->n + VL, s->width - VL);
    if (!pairs || s->back) return;
    const vf first = v[0];
    v[0] = every_other(first, v[1], 0);
    v[1] = every_other(first, v[1], 1);
}

/* Fills a panel with bf16 of the file, without conversion. A panel has one cache line of each
 * row. The lines of the next panel, which are beside these lines, are prefetched. */
static void fill_from_column_lines(const slice *s, float *out)
{
    const uint16_t *at = (const uint16_t *)s->p->data + s->k0 * s->p->ld + s->n;
    const int64_t end = s->k0 + (s->k1 - s->k0 + DEEP - 1) / DEEP * DEEP;
    for (int64_t k = s->k0; k < end; k += 2, at += 2 * s->p->ld, out += LANES) {
        const __m512i none = _mm512_setzero_si512();
        const __m512i even = k < s->k1 ? _mm512_loadu_si512(at) : none,
                      odd = k + 1 < s->k1 ? _mm512_loadu_si512(at + s->p->ld) : none;
        __builtin_prefetch(at + LANES, 0, 2);
        __builtin_prefetch(at + s->p->ld + LANES, 0, 2);
        put_pairs(even, odd, out);
    }
}

V_INLINE void fill_from_columns(mf_stored_type type, const slice *s, float *out, int64_t plane)
{
    if (type == MF_STORED_BF16 && !s->p->pairs && s->width == LANES) {
        fill_from_column_lines(s, out);
        return;
    }
    const int64_t end = s->k0 + (s->k1 - s->k0 + DEEP - 1) / DEEP * DEEP;
    for (int64_t k = s->k0; k < end; k += 2, out += LANES) {
        vf even[2], odd[2];
        lanes_at(type, s, k, even);
        lanes_at(type, s, k + 1, odd);
        put_words(type, even[0], odd[0], out, plane);
        put_words(type, even[1], odd[1], out + VL, plane);
    }
}

/* Scale and zero of a group of inputs, for all lanes: W = scale (q - zero). */
typedef struct lane_group {
    vf scale[2], zero[2];
} lane_group;

static lane_group lane_group_of(const slice *s, int64_t g)
{
    const mf_stored_part *p = s->p;
    lane_group to = {{{0}, {0}}, {{0}, {0}}};
    for (int h = 0; h * VL < s->width; h++) {
        const int64_t o = s->n + h * VL, some = s->width - h * VL < VL ? s->width - h * VL : VL;
        to.scale[h] = gptq_scales(p, g, o, some);
        to.zero[h] = gptq_zeros(p, g, o, some);
    }
    if (s->p->pairs) {
        const lane_group l = to;
        for (int h = 0; h < 2; h++) {
            to.scale[h] = every_other(l.scale[0], l.scale[1], h);
            to.zero[h] = every_other(l.zero[0], l.zero[1], h);
        }
    }
    return to;
}

/* Reads the words of eight inputs from i on, of all lanes; the two lines at `ahead`
 * are prefetched. */
V_INLINE void gptq_words(const slice *s, int64_t i, const uint32_t *ahead, vu word[2])
{
    const uint32_t *from = (const uint32_t *)s->p->data + i / 8 * s->p->rows + s->n;
    word[0] = (vu)_mm512_maskz_loadu_epi32(mask_to(s->width), from);
    word[1] = (vu)_mm512_maskz_loadu_epi32(mask_to(s->width - VL), from + VL);
    __builtin_prefetch(ahead, 0, 2);
    __builtin_prefetch(ahead + VL, 0, 2);
    if (s->p->pairs) {
        const vf a = (vf)word[0], b = (vf)word[1];
        word[0] = (vu)every_other(a, b, 0);
        word[1] = (vu)every_other(a, b, 1);
    }
}

/* Fills a panel with planes of GPTQ4 if lanes are rows of the part. Groups of inputs may be in
 * any order. */
static void fill_gptq(const slice *s, float *out, int64_t plane)
{
    const mf_stored_part *p = s->p;
    const int64_t first = p->group_of ? 0 : s->k0 / p->group_size,
                  end = p->group_of ? p->groups : (s->k1 - 1) / p->group_size + 1;
    lane_group *groups =
        __builtin_alloca_with_align((size_t)(end - first) * sizeof *groups, 512);
    for (int64_t g = first; g < end; g++)
        groups[g - first] = lane_group_of(s, g);
    int64_t i = s->k0;
    for (; i < s->k1; i += 8) {
        vu word[2];
        gptq_words(s, i, (const uint32_t *)p->data + i / 8 * p->rows + s->n + LANES, word);
        for (int j = 0; j < 8; j += 2, out += LANES) {
            vf v[2][2];
            V_UNROLL
            for (int z = 0; z < 2; z++) {
                const int64_t at = i + j + z;
                const lane_group *g =
                    &groups[(p->group_of ? p->group_of[at] : at / p->group_size) - first];
                V_UNROLL
                for (int h = 0; h < 2; h++)
                    v[z][h] = v_fma(__builtin_convertvector(
                                        (vi)(word[h] >> (uint32_t)(4 * (j + z))) & 15, vf),
                                    g->scale[h], -g->zero[h] * g->scale[h]);
            }
            put_words(MF_STORED_GPTQ4, v[0][0], v[1][0], out, plane);
            put_words(MF_STORED_GPTQ4, v[0][1], v[1][1], out + VL, plane);
        }
    }
    for (; (i - s->k0) % DEEP != 0; i += 2, out += LANES)
        for (int q = 0; q < 2; q++) {
            v_store(out + q * plane, (vf){0});
            v_store(out + q * plane + VL, (vf){0});
        }
}

/* ---- any slice ---- */

/* Writes the planes of a slice as lane panels, `plane` words apart. Lanes that do not exist
 * are undefined. */
static void fill_planes(const slice *s, float *out, int64_t plane)
{
    const bool rows = lanes_are_rows(s);
    switch (s->p->type) {
    case MF_STORED_F32:
        rows ? fill_from_rows(MF_STORED_F32, s, out, plane)
             : fill_from_columns(MF_STORED_F32, s, out, plane);
        break;
    case MF_STORED_BF16:
        rows ? fill_from_rows(MF_STORED_BF16, s, out, plane)
             : fill_from_columns(MF_STORED_BF16, s, out, plane);
        break;
    case MF_STORED_F16:
        rows ? fill_from_rows(MF_STORED_F16, s, out, plane)
             : fill_from_columns(MF_STORED_F16, s, out, plane);
        break;
    case MF_STORED_GPTQ4:
        if (rows)
            fill_from_rows(MF_STORED_GPTQ4, s, out, plane);
        else
            fill_gptq(s, out, plane);
        break;
    default:
        rows ? fill_from_rows(MF_STORED_MXFP4, s, out, plane)
             : fill_from_columns(MF_STORED_MXFP4, s, out, plane);
    }
}

#endif

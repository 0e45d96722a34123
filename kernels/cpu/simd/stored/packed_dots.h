/* packed_dots.h: exact sums over a unit of inputs of digits of rows times GPTQ4 weights, read
 * directly from memory; a part of packed_units.h. It is included once for each way to multiply
 * bytes: by dot products of four bytes (DOTS_VNNI 1), or by pairs of bytes. */
#ifndef MF_SIMD_PACKED_DOTS_H
#define MF_SIMD_PACKED_DOTS_H

#include "kernels/cpu/simd/stored/digits.h"
#include "kernels/cpu/simd/stored/four_bits.h"

#define LOW_BYTES v_seti(0x0f0f0f0f)

/* ---- bytes multiplied with bytes: u in 0 .. 31, with VNNI 0 .. 255; s in -128 .. 127 ---- */

/* Returns the 32 bits at p in each lane. */
V_INLINE vi word_at(const void *p)
{
    int32_t word;
    memcpy(&word, p, sizeof word);
    return v_seti(word);
}

#if DOTS_VNNI
typedef struct pair_sum {
    vi sum;
} pair_sum;
V_INLINE void add_dots(pair_sum *to, vi u, vi s)
{
    to->sum = (vi)_mm512_dpbusd_epi32((__m512i)to->sum, (__m512i)u, (__m512i)s);
}
V_INLINE vi whole_sum(vi before, const pair_sum *p)
{
    return before + p->sum;
}
#else
/* Sums of pairs in 16 bits. They cannot overflow in eight calls of add_dots with u < 16, or in
 * four calls with u < 32. */
typedef struct pair_sum {
    vi sum;
} pair_sum;
V_INLINE void add_dots(pair_sum *to, vi u, vi s)
{
#if VL == 16
    to->sum =
        (vi)_mm512_add_epi16((__m512i)to->sum, _mm512_maddubs_epi16((__m512i)u, (__m512i)s));
#else
    to->sum =
        (vi)_mm256_add_epi16((__m256i)to->sum, _mm256_maddubs_epi16((__m256i)u, (__m256i)s));
#endif
    /* GCC would reorder a long sum as a tree, and would then need more registers than
     * there are. */
    __asm__("" : "+x"(to->sum));
}
V_INLINE vi whole_sum(vi before, const pair_sum *p)
{
#if VL == 16
    return before + (vi)_mm512_madd_epi16((__m512i)p->sum, _mm512_set1_epi16(1));
#else
    return before + (vi)_mm256_madd_epi16((__m256i)p->sum, _mm256_set1_epi16(1));
#endif
}
#endif

/* ---- GPTQ: a word is eight inputs of one output, neighbouring words are outputs ---- */

/* Number of word rows at a time. The sums of pairs of four word rows fit into 16 bits. */
#define STEP_WORDS 4

/* Inputs that belong to one group of weights and one span, and n outputs. A word row is what
 * the file has for the same inputs of all outputs. */
typedef struct packed_unit {
    const uint32_t *q; /* the first word row at the first output */
    int64_t ldq, inputs, n;
    int64_t ahead;           /* number of word rows between a load and its prefetch */
    int64_t near;            /* the same for a second one, into the first cache (GPTQ8) */
    const span *x;           /* span of the first row */
    int64_t ldx;             /* distance of rows of x, in spans */
    int64_t input;           /* index of the first input in the span */
    const mf_stored_part *p; /* the part, its group of inputs, and the first output */
    int64_t g, o;
    float *y;
    int64_t ldy;
    bool first; /* true: y is written; false: y is added to */
} packed_unit;

/* Returns the sums of VL outputs from v on, a multiple of VL, for row r of x and digit d. */
V_INLINE int32_t *packed_sum(int32_t *sum, int mr, int nd, int64_t v, int r, int d)
{
    return sum + v * mr * nd + (r * nd + d) * VL;
}

/* The digits of a row that are multiplied with one word row. */
typedef struct gptq_digits {
    vi even[DIGITS], odd[DIGITS];
} gptq_digits;

/* r: row of x; i: word row in the span. */
V_INLINE gptq_digits gptq_digits_of(int nd, const packed_unit *u, int r, int64_t i)
{
    const span *x = u->x + r * u->ldx;
    const int at = digits_at((int)(4 * i));
    gptq_digits s;
    V_UNROLL
    for (int d = 0; d < nd; d++) {
        s.even[d] = word_at(&x->digit[d][0][at]);
        s.odd[d] = word_at(&x->digit[d][1][at]);
    }
    return s;
}

/* Whether the digits of a step are copied to all lanes once, not for each vector of outputs.
 * With AVX2 a copy to all lanes, even
 * from memory, occupies one of the units that multiply and add. So loading an earlier copy is
 * faster. AVX-512 multiplies with a number from memory at no cost. */
#define GPTQ_HELD (VL == 8)

/* Number of vectors of outputs at a time, which load the digits together. */
#define GPTQ_VECTORS(mr) (VL == 8 && (mr) == 1 ? 2 : 1)

/* Adds word rows w .. w + words - 1 of nv vectors of outputs, beginning with output v. n: the
 * number of outputs, less than a vector only if nv is 1. `fresh`: there are no sums yet. held:
 * digits of [mr, words] if GPTQ_HELD is true. */
V_INLINE void gptq_vectors(int mr, int nd, int words, int nv, bool fresh, const packed_unit *u,
                           int64_t w, int64_t v, int64_t n, const gptq_digits *held,
                           int32_t *sum)
{
    const uint32_t *q = u->q + w * u->ldq + v;
    pair_sum part[2][4][DIGITS];
    V_UNROLL
    for (int k = 0; k < nv; k++) {
        V_UNROLL
        for (int r = 0; r < mr; r++) {
            V_UNROLL
            for (int d = 0; d < nd; d++)
                part[k][r][d].sum = DOTS_VNNI && !fresh
                                        ? v_loadi(packed_sum(sum, mr, nd, v + k * VL, r, d))
                                        : (vi){0};
        }
    }
    V_UNROLL
    for (int i = 0; i < words; i++, q += u->ldq) {
        vi low[2], high[2];
        prefetch_weights(q + u->ahead * u->ldq);
        V_UNROLL
        for (int k = 0; k < nv; k++) {
            const vi word = n < VL ? (vi)v_load_n((const float *)(const void *)q, n)
                                   : v_loadi((const int32_t *)q + k * VL);
            low[k] = word & LOW_BYTES;
            high[k] = (vi)((vu)word >> 4) & LOW_BYTES;
        }
        V_UNROLL
        for (int r = 0; r < mr; r++) {
            const gptq_digits x = GPTQ_HELD ? held[r * words + i]
                                            : gptq_digits_of(nd, u, r, u->input / 8 + w + i);
            V_UNROLL
            for (int d = 0; d < nd; d++) {
                V_UNROLL
                for (int k = 0; k < nv; k++)
                    add_dots(&part[k][r][d], low[k], x.even[d]);
                V_UNROLL
                for (int k = 0; k < nv; k++)
                    add_dots(&part[k][r][d], high[k], x.odd[d]);
            }
        }
    }
    V_UNROLL
    for (int k = 0; k < nv; k++) {
        V_UNROLL
        for (int r = 0; r < mr; r++) {
            V_UNROLL
            for (int d = 0; d < nd; d++) {
                int32_t *to = packed_sum(sum, mr, nd, v + k * VL, r, d);
                const vi before = DOTS_VNNI || fresh ? (vi){0} : v_loadi(to);
                v_store((float *)(void *)to, (vf)whole_sum(before, &part[k][r][d]));
            }
        }
    }
}

V_INLINE void gptq_step(int mr, int nd, int words, bool fresh, const packed_unit *u, int64_t w,
                        int32_t *sum)
{
    const int nv = GPTQ_VECTORS(mr);
    gptq_digits held[8];
    int64_t v = 0;
    V_UNROLL
    for (int r = 0; r < mr; r++) {
        V_UNROLL
        for (int i = 0; i < words; i++)
            if (GPTQ_HELD) held[r * words + i] = gptq_digits_of(nd, u, r, u->input / 8 + w + i);
    }
    for (; v + nv * VL <= u->n; v += nv * VL)
        gptq_vectors(mr, nd, words, nv, fresh, u, w, v, nv * VL, held, sum);
    for (; nv > 1 && v + VL <= u->n; v += VL)
        gptq_vectors(mr, nd, words, 1, fresh, u, w, v, VL, held, sum);
    if (v < u->n) gptq_vectors(mr, nd, words, 1, fresh, u, w, v, u->n - v, held, sum);
}

/* Multiplies mr = 1, 2 or 4 rows of nd digits. Words are read row by row, in the order
 * of memory. */
V_INLINE void gptq_run(int mr, int nd, const packed_unit *u, int32_t *sum)
{
    const int64_t words = u->inputs / 8;
    int64_t w = 0;
    if (words >= STEP_WORDS) {
        gptq_step(mr, nd, STEP_WORDS, true, u, 0, sum);
        for (w = STEP_WORDS; w + STEP_WORDS <= words; w += STEP_WORDS)
            gptq_step(mr, nd, STEP_WORDS, false, u, w, sum);
    }
    for (; w < words; w++)
        if (w == 0)
            gptq_step(mr, nd, 1, true, u, w, sum);
        else
            gptq_step(mr, nd, 1, false, u, w, sum);
}

#endif

/* packed_dots.h: dot products of a few rows with weights of four bits, straight from memory. It
 * is included once for each way to multiply bytes: by dot products of four bytes (DOTS_VNNI 1),
 * or by pairs of bytes.
 *
 * Rows are spans (digits.h). Weights are read once, in the order in which they lie in memory;
 * sums over a span are exact integers, which are then scaled and added in f32, span by span. So
 * bits depend neither on the tiling nor on the other rows. */
#ifndef MF_SIMD_PACKED_DOTS_H
#define MF_SIMD_PACKED_DOTS_H

#include "kernels/cpu/simd/stored/digits.h"
#include "kernels/cpu/simd/stored/four_bits.h"

#define LOW_BYTES  v_seti(0x0f0f0f0f)
#define FEW_GROUPS (VL == 16 ? 4 : 2) /* vectors of outputs, or rows of weights, at once */

/* ---- bytes multiplied with bytes: u in 0 .. 24, s in -128 .. 127 ---- */

/* The 32 bits at p in each lane. */
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
/* Sums of pairs in 16 bits: they cannot overflow in eight calls of add_dots with u < 16, or in
 * two with u < 25. */
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

#define PAIR_WORDS 4 /* word rows of 32 inputs, whose sums of pairs fit into 16 bits */

/* What one call of gptq_run multiplies: the inputs of `words` word rows, which share a group of
 * weights and a span, with vectors of outputs. */
typedef struct gptq_unit {
    const uint32_t *q; /* first word row, first output */
    int64_t ldq, words;
    const span *x;          /* of the first row */
    int64_t ldx;            /* distance of rows, in spans */
    int64_t word;           /* word row in the span */
    const uint32_t *zeros;  /* of the group, all outputs of the part */
    const uint16_t *scales; /* of the group, from the first output on */
    int64_t o;              /* first output, for zeros */
    float *y;
    int64_t ldy;
    bool first; /* y is written, else added to */
} gptq_unit;

V_INLINE void gptq_sums(int mr, int nv, const gptq_unit *u, vi sum[4][4][DIGITS])
{
    for (int64_t w0 = 0; w0 < u->words; w0 += PAIR_WORDS) {
        const int64_t wend = w0 + PAIR_WORDS < u->words ? w0 + PAIR_WORDS : u->words;
        pair_sum part[4][4][DIGITS];
        V_UNROLL
        for (int r = 0; r < mr; r++) {
            V_UNROLL
            for (int v = 0; v < nv; v++) {
                V_UNROLL
                for (int d = 0; d < DIGITS; d++)
                    part[r][v][d].sum = DOTS_VNNI ? sum[r][v][d] : (vi){0};
            }
        }
        for (int64_t w = w0; w < wend; w++) {
            const uint32_t *q = u->q + w * u->ldq;
            const int64_t at = 4 * (u->word + w);
            V_UNROLL
            for (int v = 0; v < nv; v++) {
                const vi word = v_loadi((const int32_t *)q + v * VL), low = word & LOW_BYTES,
                         high = (vi)((vu)word >> 4) & LOW_BYTES;
                __builtin_prefetch(q + (v + 4 * nv) * VL, 0, 2); /* see mx_vector */
                V_UNROLL
                for (int r = 0; r < mr; r++) {
                    const span *x = u->x + r * u->ldx;
                    V_UNROLL
                    for (int d = 0; d < DIGITS; d++) {
                        add_dots(&part[r][v][d], low, word_at(&x->digit[d][0][at]));
                        add_dots(&part[r][v][d], high, word_at(&x->digit[d][1][at]));
                    }
                }
            }
        }
        V_UNROLL
        for (int r = 0; r < mr; r++) {
            V_UNROLL
            for (int v = 0; v < nv; v++) {
                V_UNROLL
                for (int d = 0; d < DIGITS; d++)
                    sum[r][v][d] =
                        DOTS_VNNI ? part[r][v][d].sum : whole_sum(sum[r][v][d], &part[r][v][d]);
            }
        }
    }
}

/* mr rows and nv vectors of outputs; n: outputs of the last vector. */
V_INLINE void gptq_run(int mr, int nv, const gptq_unit *u, int64_t n)
{
    vi sum[4][4][DIGITS];
    V_UNROLL
    for (int r = 0; r < mr; r++) {
        V_UNROLL
        for (int v = 0; v < nv; v++) {
            V_UNROLL
            for (int d = 0; d < DIGITS; d++)
                sum[r][v][d] = (vi){0};
        }
    }
    gptq_sums(mr, nv, u, sum);
    V_UNROLL
    for (int v = 0; v < nv; v++) {
        const bool part = v == nv - 1 && n < VL;
        const vf zero = gptq_zeros(u->zeros, u->o + v * VL, part ? n : VL);
        const vf scale = v_load_f16(u->scales + v * VL, part ? n : VL);
        V_UNROLL
        for (int r = 0; r < mr; r++) {
            const span *x = u->x + r * u->ldx;
            float *y = u->y + r * u->ldy + v * VL;
            vf all = {0};
            V_UNROLL
            for (int d = DIGITS - 1; d >= 0; d--) {
                float digits = 0;
                for (int64_t w = 0; w < u->words; w += 4)
                    digits += x->digit_sum[d][u->word + w];
                const vf exact = __builtin_convertvector(sum[r][v][d], vf) - zero * digits;
                all = d == DIGITS - 1 ? exact : all * 256 + exact;
            }
            const vf s = scale * x->scale;
            if (u->first)
                all *= s;
            else
                all = v_fma(all, s, part ? v_load_n(y, n) : v_load(y));
            if (part)
                v_store_n(y, all, n);
            else
                v_store(y, all);
        }
    }
}

static void gptq_tail(int mr, const gptq_unit *u, int64_t n)
{
    uint32_t words[SPAN / 8 * VL] = {0};
    gptq_unit t = *u;
    for (int64_t w = 0; w < u->words; w++)
        memcpy(words + w * VL, u->q + w * u->ldq, (size_t)n * sizeof *words);
    t.q = words;
    t.ldq = VL;
    mr == 1 ? gptq_run(1, 1, &t, n) : gptq_run(2, 1, &t, n);
}

/* mr = 1, 2 or 4 rows; all outputs of the tile. */
V_INLINE void gptq_outputs(int mr, gptq_unit u, int64_t n)
{
    const int nv = FEW_GROUPS * (mr == 4 ? 2 : 4) / 4;
    int64_t o = 0;
    const gptq_unit at = u;
    for (; o < n; o += (n - o >= nv * VL ? nv : 1) * VL) {
        u.q = at.q + o;
        u.scales = at.scales + o;
        u.y = at.y + o;
        u.o = at.o + o;
        if (n - o >= nv * VL)
            gptq_run(mr, nv, &u, VL);
        else if (n - o >= VL)
            gptq_run(mr, 1, &u, VL);
        else
            for (int r = 0; r < mr; r += 2) {
                gptq_unit two = u;
                two.x += r * u.ldx;
                two.y += r * u.ldy;
                gptq_tail(mr < 2 ? 1 : 2, &two, n - o);
            }
    }
}

static void gptq_few(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1, int64_t rows,
                     const span *x, float *y, int64_t ldy)
{
    const int64_t unit = p->group_size < SPAN ? p->group_size : SPAN;
    for (int64_t i = 0; i < in; i += unit) {
        const int64_t g = i / p->group_size, end = i + unit < in ? i + unit : in;
        gptq_unit u = {.q = (const uint32_t *)p->data + i / 8 * p->rows + o0,
                       .ldq = p->rows,
                       .words = (end - i) / 8,
                       .ldx = spans_of(in),
                       .word = i % SPAN / 8,
                       .zeros = (const uint32_t *)p->zeros + g * (p->rows / 8),
                       .scales = (const uint16_t *)p->scales + g * p->rows + o0,
                       .o = o0,
                       .ldy = ldy,
                       .first = i == 0};
        for (int64_t r = 0, mr; r < rows; r += mr) {
            mr = VL == 16 && rows - r >= 4 ? 4 : rows - r >= 2 ? 2 : 1;
            u.x = x + r * u.ldx + i / SPAN;
            u.y = y + r * ldy;
            if (mr == 1) gptq_outputs(1, u, o1 - o0);
            if (mr == 2) gptq_outputs(2, u, o1 - o0);
#if VL == 16
            if (mr == 4) gptq_outputs(4, u, o1 - o0);
#endif
        }
    }
}

/* ---- MXFP4: a byte is two inputs of one output, neighbouring bytes are inputs ---- */

#define MX_BYTES (4 * VL)              /* of a vector */
#define MX_PARTS (SPAN / 2 / MX_BYTES) /* vectors of a span */

/* Sums of mr rows and no rows of weights over vector h of span s, which has `bytes` bytes. */
V_INLINE void mx_vector(int mr, int no, const mf_stored_part *p, int64_t in, int64_t o,
                        int64_t s, int h, int64_t bytes, const span *x, int64_t ldx,
                        vf sum[4][4])
{
    const int64_t ld = in / 2, at = s * (SPAN / 2) + h * MX_BYTES;
    V_UNROLL
    for (int j = 0; j < no; j++) {
        const uint8_t *q = (const uint8_t *)p->data + (o + j) * ld + at,
                      *e = (const uint8_t *)p->scales + (o + j) * (in / 32) + at / 16;
        const vi word = mx_bytes(q, bytes), low = mx_values(word & LOW_BYTES),
                 high = mx_values((vi)((vu)word >> 4) & LOW_BYTES);
        const vf scale = mx_scales(e, bytes / 16);
        /* into the second cache, then into the first: one prefetch alone cannot be far enough
         * ahead without being in the way of the loads */
        __builtin_prefetch(q + 8 * no * ld, 0, 2);
        __builtin_prefetch(q + no * ld);
        __builtin_prefetch(e + no * (in / 32));
        V_UNROLL
        for (int r = 0; r < mr; r++) {
            const span *row = x + r * ldx + s;
            vi all = {0};
            V_UNROLL
            for (int d = DIGITS - 1; d >= 0; d--) {
                pair_sum part = {DOTS_VNNI ? all << 8 : (vi){0}};
                add_dots(&part, low, v_loadi((const int32_t *)&row->digit[d][0][h * MX_BYTES]));
                add_dots(&part, high,
                         v_loadi((const int32_t *)&row->digit[d][1][h * MX_BYTES]));
                all = DOTS_VNNI ? part.sum : whole_sum(all << 8, &part);
            }
            all -= v_loadi(&row->sum[h * VL]) * MX_OFFSET;
            /* one scale after the other: both at once may be too small for f32 */
            sum[r][j] = v_fma(__builtin_convertvector(all, vf) * row->scale, scale, sum[r][j]);
        }
    }
}

V_INLINE void mx_run(int mr, int no, const mf_stored_part *p, int64_t in, int64_t o,
                     const span *x, float *y, int64_t ldy)
{
    vf sum[4][4];
    int64_t s = 0;
    V_UNROLL
    for (int r = 0; r < mr; r++) {
        V_UNROLL
        for (int j = 0; j < no; j++)
            sum[r][j] = (vf){0};
    }
    for (; s < in / SPAN; s++) {
        V_UNROLL
        for (int h = 0; h < MX_PARTS; h++)
            mx_vector(mr, no, p, in, o, s, h, MX_BYTES, x, spans_of(in), sum);
    }
    for (int64_t h = 0, left = in % SPAN / 2; left > 0; h++, left -= MX_BYTES)
        mx_vector(mr, no, p, in, o, s, (int)h, left < MX_BYTES ? left : MX_BYTES, x,
                  spans_of(in), sum);
    V_UNROLL
    for (int r = 0; r < mr; r++) {
        V_UNROLL
        for (int j = 0; j < no; j++)
            y[r * ldy + j] = v_sum(sum[r][j]) * MX_UNIT;
    }
}

static void mx_few(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1, int64_t rows,
                   const span *x, float *y, int64_t ldy)
{
    const int64_t ldx = spans_of(in);
    for (int64_t o = o0; o < o1;) {
        const int no = o1 - o >= FEW_GROUPS ? FEW_GROUPS : 1;
        for (int64_t r = 0, mr; r < rows; r += mr) {
            float *to = y + r * ldy + o - o0;
            mr = rows - r >= 2 ? 2 : 1;
            if (no == 1 && mr == 1) mx_run(1, 1, p, in, o, x + r * ldx, to, ldy);
            if (no == 1 && mr == 2) mx_run(2, 1, p, in, o, x + r * ldx, to, ldy);
            if (no > 1 && mr == 1) mx_run(1, FEW_GROUPS, p, in, o, x + r * ldx, to, ldy);
            if (no > 1 && mr == 2) mx_run(2, FEW_GROUPS, p, in, o, x + r * ldx, to, ldy);
        }
        o += no;
    }
}

#endif

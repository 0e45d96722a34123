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
#define FEW_GROUPS (VL == 16 ? 4 : 2) /* rows of weights at once */

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

/* Word rows at once. One reads memory in order; sums of pairs of four fit into 16 bits. */
#define STEP_WORDS (DOTS_VNNI && mr == 1 ? 1 : 4)
#define GPTQ_OUTPUTS 1024 /* outputs whose sums stay in the first cache */
#define GPTQ_AHEAD   6144 /* bytes between a load and its prefetch, at least */

/* The inputs of `words` word rows, which share a group of weights and a span, and n outputs. */
typedef struct gptq_unit {
    const uint32_t *q; /* first word row, first output */
    int64_t ldq, words, n;
    int64_t ahead; /* word rows between a load and its prefetch */
    const span *x; /* of the first row */
    int64_t ldx;   /* distance of rows, in spans */
    int64_t word;  /* word row in the span */
    const uint32_t *zeros;  /* of the group, all outputs of the part */
    const uint16_t *scales; /* of the group, from the first output on */
    int64_t o;              /* first output, for zeros */
    float *y;
    int64_t ldy;
    bool first; /* y is written, else added to */
} gptq_unit;

/* The sums of VL outputs from v on, a multiple of VL, of row r of x and digit d. */
V_INLINE int32_t *gptq_sum(int32_t *sum, int mr, int64_t v, int r, int d)
{
    return sum + v * mr * DIGITS + (r * DIGITS + d) * VL;
}

/* Adds word rows w .. w + words - 1 of VL outputs, n of which exist, from output v on. With
 * `fresh` nothing has been added before. */
V_INLINE void gptq_vector(int mr, int words, bool fresh, const gptq_unit *u, int64_t w,
                          int64_t v, int64_t n, int32_t *sum)
{
    const uint32_t *q = u->q + w * u->ldq + v;
    const int64_t at = 4 * (u->word + w);
    pair_sum part[4][DIGITS];
    V_UNROLL
    for (int r = 0; r < mr; r++) {
        V_UNROLL
        for (int d = 0; d < DIGITS; d++)
            part[r][d].sum =
                DOTS_VNNI && !fresh ? v_loadi(gptq_sum(sum, mr, v, r, d)) : (vi){0};
    }
    V_UNROLL
    for (int i = 0; i < words; i++, q += u->ldq) {
        const vi word = n < VL ? (vi)v_load_n((const float *)(const void *)q, n)
                               : v_loadi((const int32_t *)q);
        const vi low = word & LOW_BYTES, high = (vi)((vu)word >> 4) & LOW_BYTES;
        __builtin_prefetch(q + u->ahead * u->ldq);
        V_UNROLL
        for (int r = 0; r < mr; r++) {
            const span *x = u->x + r * u->ldx;
            V_UNROLL
            for (int d = 0; d < DIGITS; d++) {
                add_dots(&part[r][d], low, word_at(&x->digit[d][0][at + 4 * i]));
                add_dots(&part[r][d], high, word_at(&x->digit[d][1][at + 4 * i]));
            }
        }
    }
    V_UNROLL
    for (int r = 0; r < mr; r++) {
        V_UNROLL
        for (int d = 0; d < DIGITS; d++) {
            int32_t *to = gptq_sum(sum, mr, v, r, d);
            const vi before = DOTS_VNNI || fresh ? (vi){0} : v_loadi(to);
            v_store((float *)(void *)to, (vf)whole_sum(before, &part[r][d]));
        }
    }
}

V_INLINE void gptq_step(int mr, int words, bool fresh, const gptq_unit *u, int64_t w,
                        int32_t *sum)
{
    int64_t v = 0;
    for (; v + VL <= u->n; v += VL)
        gptq_vector(mr, words, fresh, u, w, v, VL, sum);
    if (v < u->n) gptq_vector(mr, words, fresh, u, w, v, u->n - v, sum);
}

/* Scales the sums of VL outputs, n of which exist, from output v on. */
V_INLINE void gptq_scale(int mr, const gptq_unit *u, int64_t v, int64_t n, int32_t *sum)
{
    const vf zero = gptq_zeros(u->zeros, u->o + v, n), scale = v_load_f16(u->scales + v, n);
    V_UNROLL
    for (int r = 0; r < mr; r++) {
        const span *x = u->x + r * u->ldx;
        float *y = u->y + r * u->ldy + v;
        vf all = {0};
        V_UNROLL
        for (int d = DIGITS - 1; d >= 0; d--) {
            float digits = 0;
            for (int64_t w = 0; w < u->words; w += 4)
                digits += x->digit_sum[d][u->word + w];
            const vf exact =
                __builtin_convertvector(v_loadi(gptq_sum(sum, mr, v, r, d)), vf) -
                zero * digits;
            all = d == DIGITS - 1 ? exact : all * 256 + exact;
        }
        const vf s = scale * x->scale;
        v_store_to(y, u->first ? all * s : v_fma(all, s, v_load_to(y, n)), n);
    }
}

/* mr = 1, 2 or 4 rows. Words are read row by row, in the order in which they lie in memory. */
V_INLINE void gptq_run(int mr, const gptq_unit *u, int32_t *sum)
{
    int64_t w = 0;
    if (u->words >= STEP_WORDS) {
        gptq_step(mr, STEP_WORDS, true, u, 0, sum);
        for (w = STEP_WORDS; w + STEP_WORDS <= u->words; w += STEP_WORDS)
            gptq_step(mr, STEP_WORDS, false, u, w, sum);
    }
    for (; w < u->words; w++)
        if (w == 0)
            gptq_step(mr, 1, true, u, w, sum);
        else
            gptq_step(mr, 1, false, u, w, sum);
    for (int64_t v = 0; v < u->n; v += VL)
        gptq_scale(mr, u, v, u->n - v < VL ? u->n - v : VL, sum);
}

/* At most GPTQ_OUTPUTS / rows outputs, rows 1, 2 or 4. */
static void gptq_outputs(const mf_stored_part *p, int64_t in, int64_t o0, int64_t n, int mr,
                         const span *x, float *y, int64_t ldy)
{
    int32_t sum[DIGITS * GPTQ_OUTPUTS] __attribute__((aligned(64)));
    const int64_t unit = p->group_size < SPAN ? p->group_size : SPAN,
                  some = (GPTQ_AHEAD + n * 4 - 1) / (n * 4),
                  ahead = (some + STEP_WORDS - 1) / STEP_WORDS * STEP_WORDS;
    for (int64_t i = 0; i < in; i += unit) {
        const int64_t g = i / p->group_size, end = i + unit < in ? i + unit : in;
        const gptq_unit u = {.q = (const uint32_t *)p->data + i / 8 * p->rows + o0,
                             .ldq = p->rows,
                             .words = (end - i) / 8,
                             .n = n,
                             .ahead = ahead,
                             .x = x + i / SPAN,
                             .ldx = spans_of(in),
                             .word = i % SPAN / 8,
                             .zeros = (const uint32_t *)p->zeros + g * (p->rows / 8),
                             .scales = (const uint16_t *)p->scales + g * p->rows + o0,
                             .o = o0,
                             .y = y,
                             .ldy = ldy,
                             .first = i == 0};
        if (mr == 1) gptq_run(1, &u, sum);
        if (mr == 2) gptq_run(2, &u, sum);
#if VL == 16
        if (mr == 4) gptq_run(4, &u, sum);
#endif
    }
}

static void gptq_few(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1, int64_t rows,
                     const span *x, float *y, int64_t ldy)
{
    for (int64_t r = 0, mr; r < rows; r += mr) {
        mr = VL == 16 && rows - r >= 4 ? 4 : rows - r >= 2 ? 2 : 1;
        const int64_t most = GPTQ_OUTPUTS / mr;
        for (int64_t o = o0; o < o1; o += most)
            gptq_outputs(p, in, o, o1 - o < most ? o1 - o : most, (int)mr,
                         x + r * spans_of(in), y + r * ldy + o - o0, ldy);
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
            all -= v_loadi(&row->sum[h * VL]);
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

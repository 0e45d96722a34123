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

#define LOW_BYTES v_seti(0x0f0f0f0f)

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

/* The digits of a row that are multiplied with one word row. */
typedef struct gptq_digits {
    vi even[DIGITS], odd[DIGITS];
} gptq_digits;

/* r: row of x; i: word row in the span. */
V_INLINE gptq_digits gptq_digits_of(const gptq_unit *u, int r, int64_t i)
{
    const span *x = u->x + r * u->ldx;
    gptq_digits s;
    V_UNROLL
    for (int d = 0; d < DIGITS; d++) {
        s.even[d] = word_at(&x->digit[d][0][4 * i]);
        s.odd[d] = word_at(&x->digit[d][1][4 * i]);
    }
    return s;
}

/* Adds word rows w .. w + words - 1 of VL outputs, n of which exist, from output v on. With
 * `fresh` nothing has been added before. only: the digits, if there are one row and one word
 * row; so they stay in registers for all outputs. */
V_INLINE void gptq_vector(int mr, int words, bool fresh, const gptq_unit *u, int64_t w,
                          int64_t v, int64_t n, const gptq_digits *only, int32_t *sum)
{
    const uint32_t *q = u->q + w * u->ldq + v;
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
            const gptq_digits x =
                mr == 1 && words == 1 ? *only : gptq_digits_of(u, r, u->word + w + i);
            V_UNROLL
            for (int d = 0; d < DIGITS; d++) {
                add_dots(&part[r][d], low, x.even[d]);
                add_dots(&part[r][d], high, x.odd[d]);
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
    const gptq_digits x = gptq_digits_of(u, 0, u->word + w);
    int64_t v = 0;
    for (; v + VL <= u->n; v += VL)
        gptq_vector(mr, words, fresh, u, w, v, VL, &x, sum);
    if (v < u->n) gptq_vector(mr, words, fresh, u, w, v, u->n - v, &x, sum);
}

/* Scales the sums of VL outputs, n of which exist, from output v on. digits: of each row and
 * digit the sum over the unit. */
V_INLINE void gptq_scale(int mr, const gptq_unit *u, int64_t v, int64_t n,
                         float digits[4][DIGITS], int32_t *sum)
{
    const vf zero = gptq_zeros(u->zeros, u->o + v, n), scale = v_load_f16(u->scales + v, n);
    V_UNROLL
    for (int r = 0; r < mr; r++) {
        float *y = u->y + r * u->ldy + v;
        vf all = {0};
        V_UNROLL
        for (int d = DIGITS - 1; d >= 0; d--) {
            const vf exact =
                __builtin_convertvector(v_loadi(gptq_sum(sum, mr, v, r, d)), vf) -
                zero * digits[r][d];
            all = d == DIGITS - 1 ? exact : all * 256 + exact;
        }
        const vf s = scale * (u->x + r * u->ldx)->scale;
        v_store_to(y, u->first ? all * s : v_fma(all, s, v_load_to(y, n)), n);
    }
}

V_INLINE void gptq_scale_all(int mr, const gptq_unit *u, int32_t *sum)
{
    float digits[4][DIGITS];
    int64_t v = 0;
    V_UNROLL
    for (int r = 0; r < mr; r++) {
        V_UNROLL
        for (int d = 0; d < DIGITS; d++) {
            digits[r][d] = 0;
            for (int64_t w = 0; w < u->words; w += 4)
                digits[r][d] += (u->x + r * u->ldx)->digit_sum[d][u->word + w];
        }
    }
    for (; v + VL <= u->n; v += VL)
        gptq_scale(mr, u, v, VL, digits, sum);
    if (v < u->n) gptq_scale(mr, u, v, u->n - v, digits, sum);
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
    gptq_scale_all(mr, u, sum);
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

#define MX_BYTES        (4 * VL)              /* of a vector */
#define MX_PARTS        (SPAN / 2 / MX_BYTES) /* vectors of a span */
#define MX_RUN          (VL / 4)              /* vectors whose scales are one vector */
#define MX_AHEAD        6144                  /* bytes between a load and its prefetch */
#define MX_SCALES_AHEAD 1024

/* Adds to the sums of mr rows those over vector h of a run of a row of weights, of which
 * `bytes` bytes exist. scales: of the run. x: spans of the run of the first row. */
V_INLINE void mx_vector(int mr, int h, const uint8_t *q, int64_t bytes, vf scales,
                        const span *x, int64_t ldx, vf sum[2])
{
    const int at = h % MX_PARTS * MX_BYTES;
    const vi word = mx_bytes(q, bytes), low = mx_values(word & LOW_BYTES),
             high = mx_values((vi)((vu)word >> 4) & LOW_BYTES);
    const vf scale = mx_scales_of(scales, h);
    __builtin_prefetch(q + MX_AHEAD);
    V_UNROLL
    for (int r = 0; r < mr; r++) {
        const span *row = x + r * ldx + h / MX_PARTS;
        const vi offset = v_loadi(&row->offset[at / 4]);
        vi each[DIGITS];
        V_UNROLL
        for (int d = 0; d < DIGITS; d++) {
            const bool begin = DOTS_VNNI && d == 0;
            pair_sum part = {begin ? offset : (vi){0}};
            add_dots(&part, low, v_loadi((const int32_t *)&row->digit[d][0][at]));
            add_dots(&part, high, v_loadi((const int32_t *)&row->digit[d][1][at]));
            each[d] = whole_sum(!begin && d == 0 ? offset : (vi){0}, &part);
        }
        /* digits apart, since one chain of all dot products takes longer than reading */
        const vi all = (each[2] << 16) + (each[1] << 8) + each[0];
        /* one scale after the other: both at once may be too small for f32 */
        sum[r] = v_fma(__builtin_convertvector(all, vf) * row->scale, scale, sum[r]);
    }
}

/* mr = 1 or 2 rows. Rows of weights are read one after the other, in the order in which they
 * lie in memory, and scales are converted for a run of vectors at once. */
V_INLINE void mx_run(int mr, const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1,
                     const span *x, float *y, int64_t ldy)
{
    const int64_t ldx = spans_of(in);
    const uint8_t *q = (const uint8_t *)p->data + o0 * (in / 2),
                  *e = (const uint8_t *)p->scales + o0 * (in / 32);
    for (int64_t o = o0; o < o1; o++) {
        const span *at = x;
        vf sum[2] = {{0}, {0}};
        int64_t left = in / 2;
        for (; left >= MX_RUN * MX_BYTES; left -= MX_RUN * MX_BYTES) {
            const vf scales = mx_scales(e, VL);
            __builtin_prefetch(e + MX_SCALES_AHEAD);
            V_UNROLL
            for (int h = 0; h < MX_RUN; h++)
                mx_vector(mr, h, q + h * MX_BYTES, MX_BYTES, scales, at, ldx, sum);
            q += MX_RUN * MX_BYTES;
            e += VL;
            at += MX_RUN / MX_PARTS;
        }
        if (left > 0) {
            const vf scales = mx_scales(e, left / 16);
            for (int h = 0; h * MX_BYTES < left; h++)
                mx_vector(mr, h, q + h * MX_BYTES,
                          left - h * MX_BYTES < MX_BYTES ? left - h * MX_BYTES : MX_BYTES,
                          scales, at, ldx, sum);
            q += left;
            e += left / 16;
        }
        V_UNROLL
        for (int r = 0; r < mr; r++)
            y[r * ldy + o - o0] = v_sum(sum[r]) * MX_UNIT;
    }
}

/* Apart, so that each has the registers for itself. */
static __attribute__((noinline)) void mx_one(const mf_stored_part *p, int64_t in, int64_t o0,
                                             int64_t o1, const span *x, float *y)
{
    mx_run(1, p, in, o0, o1, x, y, 0);
}

static __attribute__((noinline)) void mx_two(const mf_stored_part *p, int64_t in, int64_t o0,
                                             int64_t o1, const span *x, float *y, int64_t ldy)
{
    mx_run(2, p, in, o0, o1, x, y, ldy);
}

/* Weights that more than two rows need come from the cache then. */
static void mx_few(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1, int64_t rows,
                   const span *x, float *y, int64_t ldy)
{
    const int64_t ldx = spans_of(in), most = rows > 2 ? 16 : o1 - o0;
    for (int64_t o = o0; o < o1; o += most)
        for (int64_t r = 0; r < rows; r += 2) {
            const int64_t end = o1 - o < most ? o1 : o + most;
            float *to = y + r * ldy + o - o0;
            if (rows - r >= 2)
                mx_two(p, in, o, end, x + r * ldx, to, ldy);
            else
                mx_one(p, in, o, end, x + r * ldx, to);
        }
}

#endif

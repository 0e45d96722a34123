/* gptq_many.c: GPTQ weights times many rows of bf16.
 *
 * Weights stay integers: a shift and a mask extract them from the words of the file. SPAN
 * numbers of a row at a time become integers, too. Sums over a span, or over a group of weights
 * if it is shorter, are exact in 32 bits; they are scaled and added in f32, span by span. So
 * bits depend neither on the tiling nor on other rows. The processor decides how integers are
 * multiplied: many_bytes.h, many_pairs.h. */
#include "kernels/cpu/simd/vec.h"

#if VL == 16
#include "kernels/cpu/simd/stored/many_bytes.h"
#else
#include "kernels/cpu/simd/stored/many_pairs.h"
#endif

/* A span of all rows. Scales are powers of two. */
typedef struct rows_span {
    terms x[STORED_MANY];
    float scale[STORED_MANY]; /* x = scale X; NaN if a number of the span is not finite */
    int32_t sum[SPAN / QUARTER][STORED_MANY]; /* sum of X over a quarter */
    int32_t sum_all[STORED_MANY];
} rows_span;

/* The scale and zero of a group, for COLUMNS outputs: W = scale (q - zero). */
typedef struct columns_group {
    vf scale[2];
    vi zero[2];
} columns_group;

/* ---- rows as integers ---- */

/* Returns 1 / scale of a span, 0 if a number is not finite. largest: bits of the
 * largest |x|. */
static float inverse_of(uint32_t largest, float *ret_scale)
{
    const uint32_t least = 0x1000; /* 2^-95: with this minimum both scales are normal numbers */
    const uint32_t bits = largest < least ? least : largest, part = bits & 0x7f;
    /* largest power of two with which the largest number is at most MOST */
    const uint32_t too_large = (1u << BITS) + (part << BITS >> 7) > MOST,
                   power = 127 + 127 + BITS - (bits >> 7) - too_large;
    const uint32_t as_float = power << 23;
    float inverse;
    memcpy(&inverse, &as_float, sizeof inverse);
    *ret_scale = largest < 0x7f80 ? 1 / inverse : NAN;
    return largest < 0x7f80 ? inverse : 0;
}

/* Writes the n numbers of x, at most SPAN, as row r. */
static void row_terms(const uint16_t *x, int64_t n, int64_t r, rows_span *to)
{
    uint16_t padded[SPAN];
    int32_t sum[SPAN / QUARTER];
    if (n < SPAN) {
        memset(padded, 0, sizeof padded);
        memcpy(padded, x, (size_t)n * sizeof *x);
        x = padded;
    }
    const float inverse = inverse_of(largest_of(x), &to->scale[r]);
    integers_of(x, inverse, &to->x[r], sum);
    to->sum_all[r] = 0;
    for (int q = 0; q < SPAN / QUARTER; q++) {
        to->sum[q][r] = sum[q];
        to->sum_all[r] += sum[q];
    }
}

/* ---- sums ---- */

/* The words to multiply: the words of a group and of a span, of COLUMNS outputs, with rows that
 * begin at the first row of each array. */
typedef struct step {
    const uint32_t *word; /* [WORD_ROWS words,COLUMNS] */
    int64_t words;
    const columns_group *group;
    const int8_t *x; /* the first row, beginning with the first word */
    const float *scale;
    const int32_t *sum; /* sum of X over the words */
    float *y;           /* [rows,COLUMNS] */
    bool first;         /* true: y is written; false: y is added to */
} step;

/* Scales the sums of rows, and writes them (first) or adds them to y. `first` must be a
 * constant for the compiler. */
V_INLINE void put_rows(int mr, bool first, const step *s, vi sum[MR][2])
{
    const columns_group g = *s->group; /* copies of the values, because writing y cannot
                                        * change copies */
    const float *scale = s->scale;
    const int32_t *of_x = s->sum;
    float *y = s->y;
    V_UNROLL
    for (int r = 0; r < mr; r++) {
        const vf of_row = v_set(scale[r]);
        const vi all = v_seti(of_x[r]);
        V_UNROLL
        for (int v = 0; v < 2; v++) {
            float *to = y + r * COLUMNS + v * VL;
            const vi exact = sum[r][v] - g.zero[v] * all;
            const vf scaled = __builtin_convertvector(exact, vf) * g.scale[v];
            v_store(to, first ? scaled * of_row : v_fma(scaled, of_row, v_load(to)));
        }
    }
}

V_INLINE void run_rows(int mr, int64_t words, const step *s)
{
    vi sum[MR][2];
    V_UNROLL
    for (int r = 0; r < mr; r++) {
        V_UNROLL
        for (int v = 0; v < 2; v++)
            sum[r][v] = (vi){0};
    }
    add_words(mr, words, s->word, s->x, sum);
    if (s->first)
        put_rows(mr, true, s, sum);
    else
        put_rows(mr, false, s, sum);
}

/* One version is for all words of a span, the other for any number of words. */
#define ROWS_OF(mr)                                                                            \
    static void rows_##mr(const step *s)                                                       \
    {                                                                                          \
        if (s->words == WORDS)                                                                 \
            run_rows(mr, WORDS, s);                                                            \
        else                                                                                   \
            run_rows(mr, s->words, s);                                                         \
    }
ROWS_OF(1)
ROWS_OF(2)
ROWS_OF(3)
ROWS_OF(4)
ROWS_OF(5)
ROWS_OF(6)
#if MR > 6
ROWS_OF(7)
ROWS_OF(8)
ROWS_OF(9)
ROWS_OF(10)
ROWS_OF(11)
ROWS_OF(12)
#endif
static void (*const rows_of_number[MR])(const step *) = {
    rows_1, rows_2, rows_3, rows_4,  rows_5,  rows_6,
#if MR > 6
    rows_7, rows_8, rows_9, rows_10, rows_11, rows_12,
#endif
};

/* ---- columns ---- */

/* Copies the words of a span, beginning with input i, of n outputs from o on, with zeros up
 * to COLUMNS. */
static void words_of(const mf_stored_part *p, int64_t i, int64_t words, int64_t o, int64_t n,
                     uint32_t *to)
{
    const uint32_t *from = (const uint32_t *)p->data + i / 8 * p->rows + o;
    if (n == COLUMNS) {
        spread_words(from, p->rows, words, to);
    } else {
        uint32_t padded[WORDS * COLUMNS] = {0};
        for (int64_t w = 0; w < words; w++)
            memcpy(padded + w * COLUMNS, from + w * p->rows, (size_t)n * sizeof *padded);
        spread_words(padded, COLUMNS, words, to);
    }
    /* Neighbouring outputs, which fit into the first cache, are prefetched next, and then the
     * next span. */
    for (int64_t w = 0; w < words; w++)
        for (int64_t v = 0; v < COLUMNS; v += VL) {
            __builtin_prefetch(from + w * p->rows + COLUMNS + v, 0, 3);
            __builtin_prefetch(from + (w + WORDS) * p->rows + v, 0, 2);
        }
}

static columns_group group_of(const mf_stored_part *p, int64_t g, int64_t o, int64_t n)
{
    columns_group c = {{{0}, {0}}, {{0}, {0}}};
    for (int64_t v = 0; v * VL < n; v++) {
        const int64_t at = o + v * VL, some = n - v * VL < VL ? n - v * VL : VL;
        c.scale[v] = gptq_scales(p, g, at, some);
        c.zero[v] = __builtin_convertvector(gptq_zeros(p, g, at, some), vi);
    }
    return c;
}

/* Computes sums of X over quarters q to end - 1. */
static const int32_t *sum_quarters(const rows_span *x, int64_t rows, int64_t q, int64_t end,
                                   int32_t *to)
{
    if (end - q == 1) return x->sum[q];
    for (int64_t r = 0; r < rows; r++) {
        to[r] = 0;
        for (int64_t k = q; k < end; k++)
            to[r] += x->sum[k][r];
    }
    return to;
}

/* Multiplies a span for n outputs from o on, n at most COLUMNS. */
static void multiply(const mf_stored_part *p, int64_t i, int64_t words, int64_t o, int64_t n,
                     int64_t rows, const rows_span *x, float *y)
{
    const bool parts = p->groups > 1 && p->group_size < SPAN;
    const int64_t size = parts ? p->group_size / 8 : WORDS, panels = (rows + MR - 1) / MR;
    uint32_t all[WORD_ROWS * WORDS * COLUMNS] __attribute__((aligned(64)));
    int32_t some[STORED_MANY];
    words_of(p, i, words, o, n, all);
    for (int64_t w = 0; w < words; w += size) {
        const int64_t end = w + size < words ? w + size : words;
        const columns_group group = group_of(p, (i + 8 * w) / p->group_size, o, n);
        const int32_t *sum =
            parts ? sum_quarters(x, rows, w / 4, (end + 3) / 4, some) : x->sum_all;
        for (int64_t k = 0, r = 0; k < panels; k++) {
            const int64_t mr = (rows - r + panels - k - 1) / (panels - k);
            const step s = {.word = all + w * WORD_ROWS * COLUMNS,
                            .words = end - w,
                            .group = &group,
                            .x = (const int8_t *)&x->x[r] + WORD_BYTES * w,
                            .scale = x->scale + r,
                            .sum = sum + r,
                            .y = y + r * COLUMNS,
                            .first = i + w == 0};
            rows_of_number[mr - 1](&s);
            r += mr;
        }
    }
}

void MF_SIMD(stored_many_gptq4)(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1,
                                int64_t rows, const uint16_t *x, int64_t ldx, float *y)
{
    rows_span span;
    for (int64_t i = 0; i < in; i += SPAN) {
        const int64_t n = in - i < SPAN ? in - i : SPAN;
        for (int64_t r = 0; r < rows; r++)
            row_terms(x + r * ldx + i, n, r, &span);
        for (int64_t o = o0; o < o1; o += COLUMNS)
            multiply(p, i, n / 8, o, o1 - o < COLUMNS ? o1 - o : COLUMNS, rows, &span,
                     y + (o - o0) * rows);
    }
}

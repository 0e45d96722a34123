/* few.h: gemms of few rows, whose sums run along vectors, so that b is read once and in place.
 * It is a part of the engine.
 *
 * Rows of b are often a power of two apart. Four of them, and what is prefetched for the next
 * four, would share one set of the first cache, so the prefetch is to the second. It is spread
 * over all passes through four rows, because memory would wait in the later passes otherwise.
 * The rows of a are copied to other distances. */
#ifndef MF_SIMD_GEMM_FEW_H
#define MF_SIMD_GEMM_FEW_H

/* Pairs of bf16 take half as many instructions, so that the copy that run_block makes of b pays
 * only from more rows on. */
#define FEW       (ENGINE_BF16 ? 24 : 8)
#define MOST_DOTS (VL == 16 ? ENGINE_BF16 ? 6 : 4 : 2) /* number of rows of a at a time */
#define DOTS      4                                    /* number of rows of b at a time */
#define FEW_WORDS (2048 * FEW) /* maximum number of words for the rows of a */

typedef struct few {
    const gemm_tile *b;
    const float *a;    /* copied rows */
    int64_t rs;        /* distance of these rows, in words */
    int64_t whole;     /* number of words that are read as whole vectors where they lie */
    const char *ahead; /* the next line to prefetch */
    int lines;         /* number of lines to prefetch for each vector of words */
} few;

/* Computes the elements of c for rows x to x + mr of a and j to j + nr of b. */
V_INLINE void dots(int mr, int nr, few *f, int x, int64_t j)
{
    const gemm_tile *b = f->b;
    const char *ahead = f->ahead;
    const float *a = f->a + x * f->rs;
    vf s[MOST_DOTS][DOTS], r = {0};
    const char *row[DOTS];
    for (int y = 0; y < nr; y++)
        row[y] = at_element(&b->b, j + y, b->k0);
    V_UNROLL
    for (int t = 0; t < mr; t++) {
        V_UNROLL
        for (int y = 0; y < nr; y++)
            s[t][y] = (vf){0};
    }
    int64_t q = 0;
    for (; q < f->whole; q += VL) {
        vf w[DOTS];
        V_UNROLL
        for (int y = 0; y < nr; y++)
            memcpy(&w[y], row[y] + 4 * q, sizeof w[y]);
        if (f->lines == DOTS) {
            V_UNROLL
            for (int e = 0; e < DOTS; e++)
                __builtin_prefetch(ahead + 64 * e, 0, 2);
            ahead += 64 * DOTS;
        } else {
            for (int e = 0; e < f->lines; e++, ahead += 64)
                __builtin_prefetch(ahead, 0, 2);
        }
        V_UNROLL
        for (int t = 0; t < mr; t++) {
            vf v = v_load(a + t * f->rs + q);
            V_UNROLL
            for (int y = 0; y < nr; y++)
                s[t][y] = word_dot(v, w[y], s[t][y]);
        }
    }
    f->ahead = ahead;
    for (int64_t p = b->k0 + q * PER_WORD; p < b->k1; p += PER_WORD * VL, q += VL) {
        for (int y = 0; y < nr; y++) {
            vf w = words_along(&b->b, b->rounded, j + y, p, b->k1 - p);
            for (int t = 0; t < mr; t++)
                s[t][y] = word_dot(v_load(a + t * f->rs + q), w, s[t][y]);
        }
    }
    V_UNROLL
    for (int t = 0; t < mr; t++) {
#if defined(__AVX512F__)
        if (nr == DOTS) {
            put(b, b->i0 + x + t, j, nr, _mm512_castps128_ps512(v_sum_4(s[t])), true);
            continue;
        }
#endif
        for (int y = 0; y < nr; y++)
            r[y] = v_sum(s[t][y]);
        put(b, b->i0 + x + t, j, nr, r, true);
    }
}

/* Like dots, for four rows of b and at most MOST_DOTS rows of a; returns how many. */
static int some_dots(few *f, int x, int64_t j)
{
    const int64_t left = f->b->i1 - f->b->i0 - x;
    switch (left < MOST_DOTS ? left : MOST_DOTS) {
#if VL == 16 && ENGINE_BF16
    case 6:
        dots(6, DOTS, f, x, j);
        return 6;
    case 5:
        dots(5, DOTS, f, x, j);
        return 5;
#endif
#if VL == 16
    case 4:
        dots(4, DOTS, f, x, j);
        return 4;
    case 3:
        dots(3, DOTS, f, x, j);
        return 3;
#endif
    case 2:
        dots(2, DOTS, f, x, j);
        return 2;
    }
    dots(1, DOTS, f, x, j);
    return 1;
}

static bool few_rows(const gemm_tile *b)
{
    const int64_t m = b->i1 - b->i0;
    return b->rows <= FEW && b->a.along && b->b.along && b->b.index == NULL &&
           m * (div_up(b->k1 - b->k0, PER_WORD) + 2 * VL) <= FEW_WORDS;
}

static void run_few(const gemm_tile *b)
{
    const int m = (int)(b->i1 - b->i0);
    const int64_t k = b->k1 - b->k0;
    const row_panel s =
        copy_rows(&b->a, b->rounded, b->i0, m, b->k0, b->k1, mf_cpu_room(MF_ROOM_TILE));
    few f = {.b = b,
             .a = (const float *)(const void *)s.at,
             .rs = s.rs / 4,
             .lines = (int)div_up(DOTS * MOST_DOTS, m + MOST_DOTS - 1)};
    if (rows_lie(&b->b, b->rounded, PER_WORD)) f.whole = k / (PER_WORD * VL) * VL;
    int64_t j = b->j0;
    for (; j + DOTS <= b->j1; j += DOTS) {
        f.ahead = at_element(&b->b, j + DOTS, b->k0);
        for (int x = 0; x < m;)
            x += some_dots(&f, x, j);
    }
    for (; j < b->j1; j++)
        for (int x = 0; x < m; x++)
            dots(1, 1, &f, x, j);
}

#endif

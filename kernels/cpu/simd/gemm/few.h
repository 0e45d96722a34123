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
/* number of lines in a vector of each of DOTS rows of b */
#define LINES (DOTS * VL * 4 / 64)

typedef struct few {
    const gemm_tile *b;
    const float *a;    /* copied rows */
    int64_t rs;        /* distance of these rows, in words */
    int64_t whole;     /* number of words that are read as whole vectors where they lie */
    const char *ahead; /* the next line to prefetch */
} few;

#if defined(__AVX512F__)
/* Writes four elements from column j on of each of n rows; r: the elements of row i, then those
 * of row i + 1, and so on. */
V_INLINE void put_four(const gemm_tile *b, int64_t i, int n, int64_t j, vf r)
{
    float element[VL];
    uint16_t half[VL];
    if (b->beta != 0) {
        v_store(element, r);
        for (int t = 0; t < n; t++)
            put(b, i + t, j, 4, v_load_n(element + 4 * t, 4), true);
        return;
    }
    r *= b->alpha;
    if (b->bias != NULL) r += _mm512_broadcast_f32x4(_mm_loadu_ps(b->bias + j));
    if (b->type_c == MF_CAST_F32) {
        v_store(element, r);
        for (int t = 0; t < n; t++)
            memcpy(place(b, i + t, j), element + 4 * t, 4 * sizeof *element);
        return;
    }
    v_store_bf16(half, r);
    for (int t = 0; t < n; t++)
        memcpy(place(b, i + t, j), half + 4 * t, 4 * sizeof *half);
}
#endif

/* Computes the elements of c for rows x to x + mr of a and j to j + nr of b, and prefetches
 * `lines` lines for each vector of words. Their number must be a constant: with a loop that the
 * compiler does not unroll, the processor waits for b as if nothing were prefetched. */
V_INLINE void dots(int mr, int nr, int lines, few *f, int x, int64_t j)
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
        V_UNROLL
        for (int e = 0; e < lines; e++)
            __builtin_prefetch(ahead + 64 * e, 0, 2);
        ahead += 64 * lines;
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
#if defined(__AVX512F__)
    if (nr == DOTS) {
        V_UNROLL
        for (int t = 0; t < mr; t += 4) {
            const vf *four[4];
            V_UNROLL
            for (int i = 0; i < 4; i++)
                four[i] = s[t + i < mr ? t + i : mr - 1];
            put_four(b, b->i0 + x + t, mr - t < 4 ? mr - t : 4, j, v_sum_4x4(four));
        }
        return;
    }
#endif
    V_UNROLL
    for (int t = 0; t < mr; t++) {
        for (int y = 0; y < nr; y++)
            r[y] = v_sum(s[t][y]);
        put(b, b->i0 + x + t, j, nr, r, true);
    }
}

/* The functions prefetch 1, 2 or 4 lines. Each has its own loop, because a common one has too
 * few registers for all addresses. */
typedef void dots_fn(few *f, int x, int64_t j);
#define DOTS_OF(mr)                                                                            \
    static __attribute__((noinline)) void dots_##mr##_1(few *f, int x, int64_t j)              \
    {                                                                                          \
        dots(mr, DOTS, 1, f, x, j);                                                            \
    }                                                                                          \
    static __attribute__((noinline)) void dots_##mr##_2(few *f, int x, int64_t j)              \
    {                                                                                          \
        dots(mr, DOTS, 2, f, x, j);                                                            \
    }                                                                                          \
    static __attribute__((noinline)) void dots_##mr##_4(few *f, int x, int64_t j)              \
    {                                                                                          \
        dots(mr, DOTS, 4, f, x, j);                                                            \
    }
/* clang-format off */
DOTS_OF(1) DOTS_OF(2)
#if VL == 16
DOTS_OF(3) DOTS_OF(4)
#if ENGINE_BF16
DOTS_OF(5) DOTS_OF(6)
#endif
#endif
static dots_fn *const some_dots[MOST_DOTS][3] = {
#define TRIPLE(mr) {dots_##mr##_1, dots_##mr##_2, dots_##mr##_4}
    TRIPLE(1), TRIPLE(2),
#if VL == 16
    TRIPLE(3), TRIPLE(4),
#if ENGINE_BF16
    TRIPLE(5), TRIPLE(6),
#endif
#endif
#undef TRIPLE
};
/* clang-format on */

/* Computes DOTS columns of c in passes of equal numbers of rows, which share the prefetches. */
static void some_columns(few *f, int m, int64_t j)
{
    const int passes = (m + MOST_DOTS - 1) / MOST_DOTS;
    int lines = LINES;
    for (int i = 0; i < passes; i++) {
        const int x = m * i / passes, rows = m * (i + 1) / passes - x;
        const int share = (lines + passes - i - 1) / (passes - i);
        some_dots[rows - 1][share / 2](f, x, j); /* no share: 1 line, of what follows */
        lines -= share;
    }
}

/* A share of the rows of a group must be computed as the whole group is. */
static bool few_rows(const gemm_tile *b)
{
    return b->rows <= FEW && b->a.along && b->b.along && b->b.index == NULL &&
           b->rows * (div_up(b->k1 - b->k0, PER_WORD) + 2 * VL) <= FEW_WORDS;
}

/* Returns the address of row j of b or, behind the last row of this tile, of the row of the
 * next tile that is read in its place. */
static const char *ahead_of(const gemm_tile *b, int64_t j)
{
    const gemm_tile *next = b->next;
    if (j < b->j1 || next == NULL) return at_element(&b->b, j, b->k0);
    return at_element(&next->b, next->j0 + j - b->j1, next->k0);
}

static void run_few(const gemm_tile *b)
{
    const int m = (int)(b->i1 - b->i0);
    const int64_t k = b->k1 - b->k0;
    const row_panel s =
        copy_rows(&b->a, b->rounded, b->i0, m, b->k0, b->k1, mf_cpu_room(MF_ROOM_TILE));
    few f = {.b = b, .a = (const float *)(const void *)s.at, .rs = s.rs / 4};
    if (rows_lie(&b->b, b->rounded, PER_WORD)) f.whole = k / (PER_WORD * VL) * VL;
    int64_t j = b->j0;
    for (; j + DOTS <= b->j1; j += DOTS) {
        f.ahead = ahead_of(b, j + DOTS);
        some_columns(&f, m, j);
    }
    for (; j < b->j1; j++)
        for (int x = 0; x < m; x++)
            dots(1, 1, 0, &f, x, j);
}

#endif

/* packed.h: tiles whose b was packed beforehand (pack_weights.c); a part of the engine.
 *
 * Each matrix [n,k] is stored in panels of LANES rows as [words of k][LANES]. If n is no
 * multiple of LANES, the last panel is [words][n % LANES]. Without packed weights, the engine
 * packs such panels for each gemm. A word is one f32 or two bf16. Both engines read this
 * layout. The f32 engine converts a panel of bf16 to f32 while it multiplies the first rows;
 * AMX reads panels of pairs without conversion (amx.c). Panels are stored in the order in which
 * they are multiplied, so memory is read once, from beginning to end. Sums have the same bits
 * as those of run_block. */
#ifndef MF_SIMD_GEMM_PACKED_H
#define MF_SIMD_GEMM_PACKED_H

#include "kernels/cpu/simd/gemm/prefetch.h"
#include "kernels/cpu/simd/gemm/store.h"

#define PANEL_ROWS 256  /* maximum number of rows at a time */
#define NEAR_ROWS  3    /* up to this number of rows, reading panels takes most of the time */
#define NEAR_WORDS 8192 /* maximum number of words of at most NEAR_ROWS rows together */
/* prefetch distance in a panel, in bytes, for gemms of up to NEAR_ROWS rows; the processor's
 * own prefetch stops at the end of a page */
#define SOON 4096

typedef struct panel_work {
    const gemm_tile *b;
    int64_t r0, r1, row_panels; /* limits of the rows at a time */
    /* words: of the inner index; kc: per block of it; rs: from one copied row to the next */
    int64_t words, kc, rs;
    bool direct;
    const float *copied; /* NULL: rows are read in place */
    float *sums;         /* [rows][LANES]; not used if `direct` is set */
    int64_t j, width;    /* the present panel */
} panel_work;

/* Returns the stored bytes of a word. For the f32 engine a word may be half of a pair
 * of bf16. */
V_INLINE int64_t stored_size(const gemm_tile *b)
{
    return !ENGINE_BF16 && b->b.type == MF_CAST_BF16 ? 2 : 4;
}

/* Returns the address of word q in the panel of `width` lanes that begins with lane j. */
V_INLINE const char *panel_at(const gemm_tile *b, int64_t j, int64_t width, int64_t q)
{
    return (const char *)at_element(&b->b, j, 0) + q * width * stored_size(b);
}

/* Returns the address of the weights that are multiplied after this tile; NULL: unknown. */
V_INLINE const char *after(const gemm_tile *b)
{
    return b->next != NULL && b->next->b.packed ? at_element(&b->next->b, b->next->j0, 0)
                                                : NULL;
}

static panel_work panel_work_of(const gemm_tile *b, float *copied, float *sums)
{
    const int64_t words = div_up(b->k1, PER_WORD);
    const bool lie =
        rows_lie(&b->a, b->rounded, b->k1) &&
        (b->i1 - b->i0 <= NEAR_ROWS || b->a.ld * (ENGINE_BF16 ? 2 : 4) % 4096 != 0);
    return (panel_work){.b = b,
                        .words = words,
                        .kc = even_part(words, KC, 1),
                        .rs = div_up(words, VL) * VL + VL,
                        .direct = b->type_c == MF_CAST_F32,
                        .copied = lie ? NULL : copied,
                        .sums = sums};
}

static void panel_rows(panel_work *w, int64_t r0, int64_t r1, float *copied)
{
    const gemm_tile *b = w->b;
    w->r0 = r0;
    w->r1 = r1;
    w->row_panels = div_up(r1 - r0, MR);
    if (w->copied != NULL) copy_rows(&b->a, b->rounded, r0, (int)(r1 - r0), 0, b->k1, copied);
}

/* Prepares the micro-kernel for rows from i on and words p .. pend - 1 of the panel, without
 * the address of the panel. */
V_INLINE tile panel_tile(const panel_work *w, int64_t i, int64_t p, int64_t pend)
{
    const gemm_tile *b = w->b;
    const bool first = p == 0;
    tile u = {.words = pend - p, .ldv = w->width, .width = w->width, .alpha = b->alpha};
    if (w->copied != NULL)
        u.s =
            (row_panel){(const char *)(w->copied + (i - w->r0) * w->rs + p), 4 * w->rs, false};
    else
        u.s = (row_panel){at_element(&b->a, i, p * PER_WORD), b->a.ld * (ENGINE_BF16 ? 2 : 4),
                          false};
    u.c = w->direct ? place(b, i, w->j) : w->sums + (i - w->r0) * LANES;
    u.ldc = w->direct ? b->ldc : LANES;
    u.bias = first && w->direct && b->bias != NULL ? b->bias + w->j : NULL;
    u.add = !first || (w->direct && b->beta != 0);
    return u;
}

static void put_sums(const panel_work *w)
{
    gemm_tile last = *w->b;
    if (w->direct) return;
    last.alpha = 1;
    for (int64_t i = w->r0; i < w->r1; i++)
        for (int64_t l = 0; l < w->width; l += VL)
            put(&last, i, w->j + l, w->width - l, v_load(w->sums + (i - w->r0) * LANES + l),
                true);
}

/* ---- many rows ---- */

#if !ENGINE_BF16 && VL == 16
/* Multiplies two words of each of mr rows, beginning with word u, with pairs of bf16 that are
 * converted to f32. Writes the converted panel to `to`, for the following rows. */
V_INLINE void run_pair(int mr, int nr, int u, const char *const s[4], int64_t rs,
                       const char *from, float *to, vf sum[14][NR])
{
    const __m512i high = _mm512_set1_epi32(-65536);
    V_UNROLL
    for (int h = 0; h < 2; h++) {
        vf w[NR];
        V_UNROLL
        for (int j = 0; j < nr; j++) {
            const __m512i pair = _mm512_loadu_si512(from + j * 4 * VL);
            w[j] = (vf)(h == 0 ? _mm512_slli_epi32(pair, 16) : _mm512_and_si512(pair, high));
            v_store(to + (h * nr + j) * VL, w[j]);
        }
        V_UNROLL
        for (int i = 0; i < mr; i++) {
            vf one = word_spread_from(s[i / 4] + (i % 4) * rs + 4 * (u + h));
            V_UNROLL
            for (int j = 0; j < nr; j++)
                sum[i][j] = v_fma(one, w[j], sum[i][j]);
        }
    }
}

/* Like run_tile, for a panel of pairs at `from`; writes the panel in f32 to `wide`. */
V_INLINE void run_converting(int mr, int nr, const tile *t, const char *from, float *wide)
{
    const int64_t rs = t->s.rs, pair = 4 * nr * VL;
    const char *s[4] = {t->s.at, t->s.at + 4 * rs, t->s.at + 8 * rs, t->s.at + 12 * rs};
    const char *const *ahead = t->ahead;
    vf sum[14][NR];
    V_UNROLL
    for (int i = 0; i < mr; i++) {
        V_UNROLL
        for (int j = 0; j < nr; j++)
            sum[i][j] = (vf){0};
    }
    int64_t q = 0;
    for (; q + PIECE_WORDS <= t->words; ahead++)
        for (const char *line = *ahead, *end = line + PIECE; line < end; line += 64, q += 4) {
            __builtin_prefetch(line, 0, 2);
            __builtin_prefetch(line + t->beside, 0, 2);
            run_pair(mr, nr, 0, s, rs, from, wide, sum);
            run_pair(mr, nr, 2, s, rs, from + pair, wide + 2 * nr * VL, sum);
            from += 2 * pair;
            wide += 4 * nr * VL;
            V_UNROLL
            for (int i = 0; i < 4; i++)
                s[i] += 16;
        }
    for (; q < t->words; q += 2, from += pair, wide += 2 * nr * VL) {
        run_pair(mr, nr, 0, s, rs, from, wide, sum);
        V_UNROLL
        for (int i = 0; i < 4; i++)
            s[i] += 8;
    }
    run_end(mr, nr, t, sum);
}

#define CONVERTING_OF(mr)                                                                      \
    static void convert_##mr##_1(const tile *t, const char *from, float *wide)                 \
    {                                                                                          \
        run_converting(mr, 1, t, from, wide);                                                  \
    }                                                                                          \
    static void convert_##mr##_2(const tile *t, const char *from, float *wide)                 \
    {                                                                                          \
        run_converting(mr, 2, t, from, wide);                                                  \
    }
/* clang-format off */
CONVERTING_OF(1) CONVERTING_OF(2) CONVERTING_OF(3) CONVERTING_OF(4) CONVERTING_OF(5)
CONVERTING_OF(6) CONVERTING_OF(7) CONVERTING_OF(8) CONVERTING_OF(9) CONVERTING_OF(10)
CONVERTING_OF(11) CONVERTING_OF(12) CONVERTING_OF(13) CONVERTING_OF(14)
static void (*const converting[MR][NR])(const tile *t, const char *from, float *wide) = {
#define WIDE(mr) {convert_##mr##_1, convert_##mr##_2}
    WIDE(1), WIDE(2), WIDE(3), WIDE(4), WIDE(5), WIDE(6), WIDE(7), WIDE(8), WIDE(9), WIDE(10),
    WIDE(11), WIDE(12), WIDE(13), WIDE(14)
};
/* clang-format on */
#endif

/* Multiplies all rows with words p .. pend - 1 of the panel. next: address of the following
 * words, which are prefetched; NULL: unknown. wide: memory for the panel in f32. */
static void run_panel(const panel_work *w, int64_t p, int64_t pend, const char *next,
                      float *wide)
{
    const gemm_tile *b = w->b;
    const char *from = panel_at(b, w->j, w->width, p), *pieces[KC / PIECE_WORDS];
    const int64_t most = (pend - p) / PIECE_WORDS;
    const int64_t all = div_up((pend - p) * w->width * stored_size(b), PIECE);
    const bool two = all > most * w->row_panels;
    const int64_t count = two ? div_up(all, 2) : all, each = div_up(count, w->row_panels);
    int64_t left = next != NULL ? count : 0;
    const bool half = stored_size(b) == 2;
    for (int64_t t = 0; t < w->row_panels; t++) {
        const int64_t rows = w->r1 - w->r0, i = w->r0 + t * rows / w->row_panels;
        const int mr = (int)(w->r0 + (t + 1) * rows / w->row_panels - i);
        tile u = panel_tile(w, i, p, pend);
        u.v = half ? wide : (const float *)(const void *)from;
        u.ahead = pieces;
        u.beside = two ? count * PIECE : 0;
        for (int64_t n = 0; n < most; n++) {
            const bool more = n < each && left > 0;
            pieces[n] = more ? next : (const char *)pieces; /* the list itself is already in
                                                             * the cache */
            if (more) {
                next += PIECE;
                left--;
            }
        }
        for (int r = 0; r < mr && p == 0; r++) {
            __builtin_prefetch(u.c + r * u.ldc, 1);
            __builtin_prefetch(u.c + r * u.ldc + w->width - 1, 1);
        }
#if !ENGINE_BF16 && VL == 16
        if (half && t == 0) {
            converting[mr - 1][w->width > VL](&u, from, wide);
            continue;
        }
#endif
        tiles[mr - 1][w->width > VL](&u);
    }
}

_Static_assert(PANEL_WORDS + KC * LANES + PANEL_ROWS * LANES <= MF_ROOM_TILE_SIZE,
               "room for copies and sums");
static void __attribute__((noinline)) many_panels(const gemm_tile *b)
{
    float *copied = mf_cpu_room(MF_ROOM_TILE), *wide = copied + PANEL_WORDS,
          *sums = wide + KC * LANES;
    panel_work w = panel_work_of(b, copied, sums);
    const int64_t fit =
        w.copied == NULL || PANEL_WORDS / w.rs > PANEL_ROWS ? PANEL_ROWS : PANEL_WORDS / w.rs;
    const int64_t each = even_part(b->i1 - b->i0, fit, 1);
    for (int64_t i = b->i0; i < b->i1; i += each) {
        panel_rows(&w, i, i + each < b->i1 ? i + each : b->i1, copied);
        for (w.j = b->j0; w.j < b->j1; w.j += LANES) {
            w.width = b->j1 - w.j < LANES ? b->j1 - w.j : LANES;
            for (int64_t p = 0; p < w.words; p += w.kc) {
                const int64_t pend = p + w.kc < w.words ? p + w.kc : w.words;
                const bool last = pend == w.words && w.j + w.width == b->j1;
                const char *next = last ? after(b) : panel_at(b, w.j, w.width, pend);
                run_panel(&w, p, pend, next, wide);
            }
            put_sums(&w);
        }
    }
}

/* ---- few rows ---- */

/* Multiplies mr rows with all words of t. Prefetches the `there` bytes from t->v on, SOON bytes
 * ahead, and then the bytes at `next`. */
V_INLINE void few_words(int mr, int nr, const tile *t, int64_t there, const char *next)
{
    const int64_t rs = t->s.rs, step = 4 * nr * VL, near = (there - SOON) / step;
    const char *s[4] = {t->s.at, NULL, NULL, NULL}, *at = (const char *)t->v,
               *ahead = at + SOON;
    vf sum[14][NR];
    V_UNROLL
    for (int i = 0; i < mr; i++) {
        V_UNROLL
        for (int j = 0; j < nr; j++)
            sum[i][j] = (vf){0};
    }
    int64_t q = 0, count = near < t->words ? near : t->words;
    for (int part = 0; part < 2; part++) {
        for (; q < count; q++, at += step, ahead += step, s[0] += 4) {
            V_UNROLL
            for (int j = 0; j < nr; j++)
                __builtin_prefetch(ahead + j * 4 * VL);
            run_word(mr, nr, false, 0, s, rs, (const float *)(const void *)at, sum);
        }
        count = t->words;
        ahead = next != NULL ? next : at;
    }
    run_end(mr, nr, t, sum);
}

static void few_tile(int mr, const tile *t, int64_t there, const char *next)
{
    if (t->width > VL)
        mr == 1   ? few_words(1, 2, t, there, next)
        : mr == 2 ? few_words(2, 2, t, there, next)
                  : few_words(3, 2, t, there, next);
    else
        mr == 1   ? few_words(1, 1, t, there, next)
        : mr == 2 ? few_words(2, 1, t, there, next)
                  : few_words(3, 1, t, there, next);
}

static void __attribute__((noinline)) few_panels(const gemm_tile *b)
{
    float *copied = mf_cpu_room(MF_ROOM_TILE), *sums = copied + NEAR_WORDS;
    panel_work w = panel_work_of(b, copied, sums);
    panel_rows(&w, b->i0, b->i1, copied);
    for (w.j = b->j0; w.j < b->j1; w.j += LANES) {
        w.width = b->j1 - w.j < LANES ? b->j1 - w.j : LANES;
        for (int64_t p = 0; p < w.words; p += w.kc) {
            const int64_t pend = p + w.kc < w.words ? p + w.kc : w.words;
            const int64_t there = 4 * ((b->j1 - w.j) * w.words - p * w.width);
            tile u = panel_tile(&w, b->i0, p, pend);
            u.v = (const float *)(const void *)panel_at(b, w.j, w.width, p);
            few_tile((int)(b->i1 - b->i0), &u, there, after(b));
        }
        put_sums(&w);
    }
}

static void run_panels(const gemm_tile *b)
{
    const int64_t m = b->i1 - b->i0, row = div_up(b->k1, PER_WORD) + 2 * VL;
    if (m <= NEAR_ROWS && m * row <= NEAR_WORDS && stored_size(b) == 4)
        few_panels(b);
    else
        many_panels(b);
}

#endif

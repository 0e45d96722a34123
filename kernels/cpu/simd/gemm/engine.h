/* engine.h: the engine of gemms: packing and the micro-kernel. It is included once with
 * ENGINE_BF16 0 (f32), and once with ENGINE_BF16 1 for processors that multiply pairs of bf16.
 *
 * The engine processes words of 32 bits. A word is one f32, or two bf16 that are neighbours
 * along the inner index and are multiplied and added by one instruction. One operand is on the
 * rows side: words of MR rows at a time are broadcast to vectors, from the operand itself if
 * possible (rows_lie), otherwise from a copy. The other operand is on the lanes side: LANES of
 * its words at a time, packed into panels [words][LANES]. The sums of MR x LANES elements stay
 * in registers. Normally a is on the rows side. If the gemm is crossed, b is on the rows side,
 * and the result is transposed when it is written to c. This is faster if otherwise b would be
 * transposed for few rows.
 *
 * Gemms are our own (kernels/cpu/simd/gemm): one kernel with one descriptor, mf_gemm, for f32
 * and bf16, batched and grouped gemms, weight gradients and gathered rows. Each element of C is
 * one chain of multiply-adds in blocks that depend only on the inner dimension. So its bits do
 * not depend on other rows, except in gemms with very few rows. The next panels are prefetched
 * during the arithmetic, because waiting for the last cache takes too long. bf16 is converted
 * to f32 when it is packed, unless the processor multiplies pairs of bf16 faster.
 *
 * With AMX the engine uses matrix registers (amx.c), whose instructions the tests emulate. They
 * multiply at 15 times the rate of f32, so packing limits the speed. The side that is packed
 * only once stays in the second cache, and the operand that is cheaper to transpose is on the
 * rows side (amx_cost.h). If there are few lanes, rows are read in place.
 * mf_generator_pack_weights packs the weights of a model that is only read, once and in place;
 * no graph may read such a parameter in another way. */
#ifndef MF_SIMD_GEMM_ENGINE_H
#define MF_SIMD_GEMM_ENGINE_H

#include "kernels/cpu/cache.h"
#include "kernels/cpu/simd/gemm/prefetch.h"
#include "kernels/cpu/simd/gemm/store.h"
#include "kernels/cpu/simd/gemm/pack.h"
#include "kernels/cpu/workspace.h"

#define PANEL_WORDS (KC * 512)
_Static_assert(PANEL_WORDS + 16 + 2 * GROUP * VL * KC <= MF_ROOM_TILE_SIZE,
               "room for panels and copies");
/* up to this number of row panels, lanes can stay in place */
#define IN_PLACE 2

/* ---- the micro-kernel: MR x LANES elements ---- */

typedef struct tile {
    row_panel s;
    int64_t words;
    const float *v; /* lanes: LANES words at distance ldv */
    int64_t ldv;
    float *c; /* c = alpha sums + bias (+ c if add) */
    int64_t ldc, width;
    float alpha;
    const float *bias;
    bool add;
    const char *const *ahead; /* addresses to prefetch, one every PIECE_WORDS words */
    int64_t beside;           /* distance in bytes to a second address for each address;
                               * 0: none */
} tile;

/* Multiplies word u of each of mr rows with nr vectors of lanes, and adds to the sums. Four
 * pointers and a stride are enough to address all rows. */
V_INLINE void run_word(int mr, int nr, bool packed, int u, const char *const s[4], int64_t rs,
                       const float *v, vf sum[14][NR])
{
    const int64_t step = packed ? 4 * VL : 4, rs3 = 3 * rs;
    vf w[NR];
    V_UNROLL
    for (int j = 0; j < nr; j++)
        w[j] = v_load(v + j * VL);
    V_UNROLL
    for (int i = 0; i < mr; i++) {
        vf one =
            word_spread_from(packed ? s[0] + u * step + 4 * i
                                    : s[i / 4] + (i % 4 == 3 ? rs3 : i % 4 * rs) + u * step);
        V_UNROLL
        for (int j = 0; j < nr; j++)
            sum[i][j] = word_dot(one, w[j], sum[i][j]);
    }
}

/* Processes four words at a time, with a quarter of the additions to pointers. These additions
 * use the same ports as multiply instructions. */
V_INLINE void run_four(int mr, int nr, bool packed, const char *s[4], int64_t rs,
                       const float *at, int64_t ldv, vf sum[14][NR])
{
    run_word(mr, nr, packed, 0, s, rs, at, sum);
    run_word(mr, nr, packed, 1, s, rs, at + ldv, sum);
    run_word(mr, nr, packed, 2, s, rs, at + 2 * ldv, sum);
    run_word(mr, nr, packed, 3, s, rs, at + 3 * ldv, sum);
    V_UNROLL
    for (int i = 0; i < 4; i++)
        s[i] += packed ? 16 * VL : 16;
}

V_INLINE void run_words(int mr, int nr, bool packed, int64_t count, const char *s[4],
                        int64_t rs, const float *at, int64_t ldv, const char *const *ahead,
                        int64_t beside, vf sum[14][NR])
{
    for (; count >= PIECE_WORDS; count -= PIECE_WORDS, ahead++) {
        for (const char *line = *ahead, *end = line + PIECE; line < end;
             line += 64, at += 4 * ldv) {
            __builtin_prefetch(line, 0, 2);
            __builtin_prefetch(line + beside, 0, 2);
            run_four(mr, nr, packed, s, rs, at, ldv, sum);
        }
    }
    for (; count >= 4; count -= 4, at += 4 * ldv)
        run_four(mr, nr, packed, s, rs, at, ldv, sum);
    for (; count > 0; count--, at += ldv) {
        run_word(mr, nr, packed, 0, s, rs, at, sum);
        V_UNROLL
        for (int i = 0; i < 4; i++)
            s[i] += packed ? 4 * VL : 4;
    }
}

/* Writes sums to c. The members of t determine scale, bias and addition. */
V_INLINE void run_end(int mr, int nr, const tile *t, vf sum[14][NR])
{
    V_UNROLL
    for (int i = 0; i < mr; i++) {
        V_UNROLL
        for (int j = 0; j < nr; j++) {
            float *to = t->c + i * t->ldc + j * VL;
            int64_t n = t->width - j * VL;
            vf r = sum[i][j] * t->alpha;
            if (n >= VL) {
                if (t->bias != NULL) r += v_load(t->bias + j * VL);
                if (t->add) r += v_load(to);
                v_store(to, r);
            } else if (n > 0) {
                if (t->bias != NULL) r += v_load_n(t->bias + j * VL, n);
                if (t->add) r += v_load_n(to, n);
                v_store_n(to, r, n);
            }
        }
    }
}

V_INLINE void run_tile(int mr, int nr, bool packed, const tile *t)
{
    const int64_t rs = t->s.rs;
    const char *s[4] = {t->s.at, t->s.at + 4 * rs, t->s.at + 8 * rs, t->s.at + 12 * rs};
    vf sum[14][NR];
    V_UNROLL
    for (int i = 0; i < mr; i++) {
        V_UNROLL
        for (int j = 0; j < nr; j++)
            sum[i][j] = (vf){0};
    }
    run_words(mr, nr, packed, t->words, s, rs, t->v, t->ldv, t->ahead, t->beside, sum);
    run_end(mr, nr, t, sum);
}

#define TILES_OF(mr)                                                                           \
    static void tile_##mr##_1(const tile *t)                                                   \
    {                                                                                          \
        t->s.packed ? run_tile(mr, 1, true, t) : run_tile(mr, 1, false, t);                    \
    }                                                                                          \
    static void tile_##mr##_2(const tile *t)                                                   \
    {                                                                                          \
        t->s.packed ? run_tile(mr, 2, true, t) : run_tile(mr, 2, false, t);                    \
    }
/* clang-format off */
TILES_OF(1) TILES_OF(2) TILES_OF(3) TILES_OF(4)
#if MR > 4
TILES_OF(5) TILES_OF(6)
#endif
#if MR > 6
TILES_OF(7) TILES_OF(8) TILES_OF(9) TILES_OF(10) TILES_OF(11) TILES_OF(12) TILES_OF(13)
TILES_OF(14)
#endif
static void (*const tiles[MR][NR])(const tile *t) = {
#define PAIR(mr) {tile_##mr##_1, tile_##mr##_2}
    PAIR(1), PAIR(2), PAIR(3), PAIR(4),
#if MR > 4
    PAIR(5), PAIR(6),
#endif
#if MR > 6
    PAIR(7), PAIR(8), PAIR(9), PAIR(10), PAIR(11), PAIR(12), PAIR(13), PAIR(14)
#endif
};
/* clang-format on */

/* ---- a tile ---- */

/* Returns the size of equal parts of n: at most `most`, and a multiple of `unit`. */
static int64_t even_part(int64_t n, int64_t most, int64_t unit)
{
    int64_t parts = div_up(n, most);
    return div_up(div_up(n, parts > 0 ? parts : 1), unit) * unit;
}

/* Returns the number of lanes to pack at a time, so that their panels leave space for rows in
 * the second-level cache. It is a multiple of LANES. */
static int64_t lanes_of(int64_t words)
{
    const int64_t fit = mf_cpu_second_cache() / 8 * 5 / (int64_t)sizeof(float);
    const int64_t lanes = (fit < PANEL_WORDS ? fit : PANEL_WORDS) / words / LANES * LANES;
    return lanes > LANES ? lanes : LANES;
}

/* Returns the approximate number of cycles for m rows on the rows side and n lanes. */
static double cost(const gemm_side *row, const gemm_side *lane, double m, double n, double k)
{
    double row_panels = ceil(m / MR), mr = m / row_panels, vectors = ceil(n / VL);
    double each = (mr + 1) * 0.5; /* cycles per word for a row panel and a vector of lanes */
    if (each < 2) each = 2;
    double copy = n * (lane->along ? 0.4 : row_panels > 1 ? 0.2 : 0);
    if (!row->along || row->index != NULL) copy += m * 0.2;
    return k * (row_panels * vectors * each + copy);
}

/* State of the work on a tile. The present part has the lanes l .. lane_end - 1 and the inner
 * indices p .. pend - 1. */
typedef struct work {
    const gemm_tile *b;
    const gemm_side *row, *lane;
    bool crossed, direct, lie, there; /* lie: rows are read in place; there: lanes are read
                                       * in place */
    int64_t r0, r1, row_panels;       /* limits of the rows side */
    int64_t l0, l1, lc, kc;           /* l0, l1: all lanes; lc, kc: lanes and inner indices
                                       * per part */
    int64_t l, lane_end, p, pend, words;
    float *panels, *copied;
    /* size of each half of `copied`; groups of row panels use the halves alternately */
    int64_t half;
    /* Row panels from `copy` on are copied while the panels before them are multiplied. Inner
     * indices below `asked` are prefetched, and those below `done` are copied. */
    int64_t copy, asked, done;
    int64_t border[GROUP + 1]; /* first rows of the row panels from `copy` on, and their end */
    int64_t each;              /* number of pieces of `soon` that one call of the
                         * micro-kernel prefetches */
    agenda soon, later;        /* rows of the next row panels, and lanes of the next part */
    bool idle;                 /* both agendas are done */
} work;

static int64_t row_panel_begin(const work *w, int64_t t)
{
    return w->r0 + t * (w->r1 - w->r0) / w->row_panels;
}

static float *copies_of(const work *w, int64_t t)
{
    return w->copied + t / GROUP % 2 * w->half;
}

/* Returns the end of the group of row panels that are copied together with row panel t. */
static int64_t row_panels_end(const work *w, int64_t t)
{
    const int64_t end = t + (w->row->along ? 1 : GROUP);
    return end < w->row_panels ? end : w->row_panels;
}

/* Begins to copy the group of row panels that begins with row panel t, if there is one. */
static void begin_copy(work *w, int64_t t)
{
    const int64_t end = row_panels_end(w, t);
    w->copy = t;
    w->asked = w->done = w->p;
    for (int64_t i = t; i <= end; i++)
        w->border[i - t] = row_panel_begin(w, i);
}

/* Copies the group of row panels that begins with w->copy, up to inner index p. */
static void copy_row_panels(work *w, int64_t p)
{
    if (p < w->pend) p -= (p - w->p) % PER_WORD;
    if (p <= w->done) return;
    pack_row_panels(w->row, w->b->rounded, w->border, row_panels_end(w, w->copy) - w->copy,
                    w->p, w->pend, w->done, p, copies_of(w, w->copy));
    w->done = p;
}

static row_panel row_panel_of(work *w, int64_t t)
{
    const bool rounded = w->b->rounded;
    const int64_t i = row_panel_begin(w, t), mr = row_panel_begin(w, t + 1) - i;
    if (w->lie)
        return (row_panel){at_element(w->row, i, w->p), w->row->ld * (ENGINE_BF16 ? 2 : 4),
                           false};
    if (w->row->along) return copy_rows(w->row, rounded, i, (int)mr, w->p, w->pend, w->copied);
    return (row_panel){(const char *)(copies_of(w, t) + t % GROUP * w->words * VL), 4, true};
}

/* Prefetches the cache lines of c for rows i .. i + mr - 1 and lanes j .. j + width - 1. */
V_INLINE void fetch_tile(const work *w, int64_t i, int mr, int64_t j, int64_t width)
{
    const gemm_tile *b = w->b;
    const int64_t size = b->type_c == MF_CAST_F32 ? 4 : 2, step = b->ldc * size;
    const char *at = place(b, w->crossed ? j : i, w->crossed ? i : j);
    const int64_t bytes = (w->crossed ? mr : width) * size;
    for (int64_t r = w->crossed ? width : mr; r > 0; r--, at += step) {
        __builtin_prefetch(at, 1);
        __builtin_prefetch(at + bytes - 1, 1);
    }
}

/* Selects the addresses that the next call prefetches: first those of `soon`, then those
 * of `later`. */
V_INLINE void fetch_pieces(work *w, const char **pieces)
{
    const int64_t most = w->words / PIECE_WORDS;
    int64_t n = 0;
    /* the last call has prefetched these rows */
    if (w->copy < w->row_panels && !w->row->along) {
        copy_row_panels(w, w->asked);
        w->asked = w->soon.row;
    }
    if (w->idle) return;
    n += next_pieces(&w->soon, w->each < most ? w->each : most, pieces);
    n += next_pieces(&w->later, most - n, pieces + n);
    w->idle = n == 0;
    for (; n < most; n++)
        pieces[n] = (const char *)pieces; /* this address is already in the cache */
}

static void run_row_panel(work *w, int64_t t)
{
    const gemm_tile *b = w->b;
    const bool first = w->p == b->k0;
    const int64_t i = row_panel_begin(w, t);
    const int mr = (int)(row_panel_begin(w, t + 1) - i);
    float buffer[VL * LANES] __attribute__((aligned(64)));
    const char *pieces[KC / PIECE_WORDS];
    w->idle = false;
    tile u = {.s = row_panel_of(w, t),
              .words = w->words,
              .c = buffer,
              .ldc = LANES,
              .width = LANES,
              .alpha = 1,
              .ahead = pieces};
    for (int64_t j = w->l; j < w->lane_end; j += LANES) {
        const int64_t width = w->lane_end - j < LANES ? w->lane_end - j : LANES;
        const bool there = w->there && width == LANES;
        u.v = there ? at_element(w->lane, w->p, j) : w->panels + (j - w->l) * w->words;
        u.ldv = there ? w->lane->ld : LANES;
        if (w->direct) {
            u.c = place(b, i, j);
            u.ldc = b->ldc;
            u.width = width;
            u.alpha = b->alpha;
            u.bias = first && b->bias != NULL ? b->bias + j : NULL;
            u.add = !first || b->beta != 0;
        }
        fetch_tile(w, i, mr, j, width);
        fetch_pieces(w, pieces);
        tiles[mr - 1][width > VL](&u);
        if (!w->direct) put_tile(b, w->crossed, i, mr, j, width, buffer, first);
    }
}

static void pack_panels(const work *w)
{
    int64_t from = w->there ? w->l + (w->lane_end - w->l) / LANES * LANES : w->l;
    float *to = w->panels + (from - w->l) * w->words;
    if (w->lane->along)
        pack_along(w->lane, w->b->rounded, from, w->lane_end, w->p, w->pend, to);
    else
        pack_across(w->lane, w->b->rounded, from, w->lane_end, w->p, w->pend, to);
}

/* Selects the part that begins with lane l and inner index p. */
static void set_part(work *w, int64_t l, int64_t p)
{
    w->l = l;
    w->lane_end = l + w->lc < w->l1 ? l + w->lc : w->l1;
    w->p = p;
    w->pend = p + w->kc < w->b->k1 ? p + w->kc : w->b->k1;
    w->words = div_up(w->pend - p, PER_WORD);
    w->lie = rows_lie(w->row, w->b->rounded, w->pend - p) &&
             (w->row->ld * (ENGINE_BF16 ? 2 : 4) % 4096 != 0 || w->lane_end - l <= 2 * LANES);
}

/* Begins the work on a tile with its first part. */
static work work_of(const gemm_tile *b)
{
    const int64_t m = b->i1 - b->i0, n = b->j1 - b->j0, k = b->k1 - b->k0;
    const double transposing = 0.4 * (double)m * (double)n;
    const bool crossed =
        cost(&b->b, &b->a, (double)n, (double)m, (double)k / PER_WORD) + transposing <
        cost(&b->a, &b->b, (double)m, (double)n, (double)k / PER_WORD);
    work w = {.b = b,
              .row = crossed ? &b->b : &b->a,
              .lane = crossed ? &b->a : &b->b,
              .crossed = crossed,
              .direct = !crossed && b->type_c == MF_CAST_F32,
              .r0 = crossed ? b->j0 : b->i0,
              .r1 = crossed ? b->j1 : b->i1,
              .l0 = crossed ? b->i0 : b->j0,
              .l1 = crossed ? b->i1 : b->j1,
              .kc = PER_WORD * even_part(div_up(k, PER_WORD), KC, 1)};
    /* Rows that are not read in place are copied once per part, so a part then has as many
     * lanes as the cache allows. */
    const bool lie =
        rows_lie(w.row, b->rounded, PER_WORD) && w.row->ld * (ENGINE_BF16 ? 2 : 4) % 4096 != 0;
    const int64_t most = lie ? BLOCK_LANES : lanes_of(div_up(w.kc, PER_WORD));
    w.lc = even_part(w.l1 - w.l0, most, LANES);
    w.row_panels = div_up(w.r1 - w.r0, MR);
    w.there = !ENGINE_BF16 && w.row_panels <= IN_PLACE && !w.lane->along &&
              w.lane->index == NULL && w.lane->type == MF_CAST_F32 && !b->rounded;
    set_part(&w, w.l0, b->k0);
    return w;
}

/* Sets *ret to the part after the part of w, in the same tile or in the next one. Returns false
 * if there is none. */
static bool next_part(const work *w, work *ret)
{
    *ret = *w;
    if (w->pend < w->b->k1)
        set_part(ret, w->l, w->pend);
    else if (w->lane_end < w->l1)
        set_part(ret, w->lane_end, w->b->k0);
    else if (w->b->next != NULL && w->b->next->k1 > w->b->next->k0)
        *ret = work_of(w->b->next);
    else
        return false;
    return true;
}

static agenda rows_agenda(const work *w, int64_t t)
{
    return agenda_of(w->row, row_panel_begin(w, t), row_panel_begin(w, row_panels_end(w, t)),
                     w->p, w->pend);
}

static void run_part(work *w, const work *next)
{
    pack_panels(w);
    w->later = (agenda){0};
    if (next != NULL)
        w->later = agenda_of(next->lane, next->l, next->lane_end, next->p, next->pend);
    begin_copy(w, 0);
    for (int64_t t = 0; t < w->row_panels;) {
        const int64_t end = row_panels_end(w, t);
        w->each = KC;
        w->soon = (agenda){0};
        if (!w->row->along) {
            const int64_t count = (end - t) * div_up(w->lane_end - w->l, LANES);
            copy_row_panels(w, w->pend);
            begin_copy(w, end);
            w->each = div_up(w->pend - w->p, count > 1 ? count - 1 : 1);
        }
        if (end < w->row_panels)
            w->soon = rows_agenda(w, end);
        else if (next != NULL)
            w->soon = rows_agenda(next, 0);
        for (; t < end; t++)
            run_row_panel(w, t);
    }
}

/* Computes a block. The copies of lanes and of rows are next to each other, with the lengths
 * that this tile needs, so that it accesses few pages. */
static void __attribute__((noinline)) run_block(const gemm_tile *b)
{
    work w = work_of(b), next;
    const int64_t words = div_up(w.kc, PER_WORD);
    float *panels = mf_cpu_room(MF_ROOM_TILE), *copied = panels + div_up(w.lc * words, 16) * 16;
    w.half = GROUP * VL * words;
    for (bool more = true; more; w = next) {
        w.panels = panels;
        w.copied = copied;
        more = next_part(&w, &next);
        run_part(&w, more ? &next : NULL);
        if (more && next.b != b) break;
    }
}

/* ---- packed b ---- */

#include "kernels/cpu/simd/gemm/packed.h"

/* ---- very few rows ---- */

#include "kernels/cpu/simd/gemm/few.h"

/* ---- f32 sums for a bf16 c ---- */

#define SUMS     (320 * 512) /* at most MF_ROOM_SUMS_SIZE */
#define SUM_COLS 512
_Static_assert(SUMS <= MF_ROOM_SUMS_SIZE, "room for sums");

/* If the inner index has several blocks, the sums of a part of c stay in f32 until the last
 * block. The part has at most SUMS elements (640 KiB), so that it stays in the second-level
 * cache. Each part copies its rows and lanes. */
static void __attribute__((noinline)) run_by_sums(const gemm_tile *b)
{
    float *sums = mf_cpu_room(MF_ROOM_SUMS);
    const int64_t cols = even_part(b->j1 - b->j0, SUM_COLS, LANES);
    /* VL more, because rows at a power of two would share few sets of the cache */
    const int64_t ld = cols + VL;
    const int64_t rows = even_part(b->i1 - b->i0, SUMS / ld, 1);
    for (int64_t j = b->j0; j < b->j1; j += cols)
        for (int64_t i = b->i0; i < b->i1; i += rows) {
            gemm_tile part = *b, last = *b; /* part writes to sums, last to c */
            part.i0 = i;
            part.i1 = i + rows < b->i1 ? i + rows : b->i1;
            part.j0 = j;
            part.j1 = j + cols < b->j1 ? j + cols : b->j1;
            part.c = sums;
            part.type_c = MF_CAST_F32;
            part.ldc = ld;
            part.beta = 0;
            part.bias = NULL;
            run_block(&part);
            last.alpha = 1;
            for (int64_t r = part.i0; r < part.i1; r++)
                for (int64_t col = j; col < part.j1; col += VL) {
                    int64_t left = part.j1 - col;
                    const float *from = sums + (r - i) * ld + col - j;
                    put(&last, r, col, left, left < VL ? v_load_n(from, left) : v_load(from),
                        true);
                }
        }
}

static void no_sums(const gemm_tile *b)
{
    for (int64_t i = b->i0; i < b->i1; i++)
        for (int64_t j = b->j0; j < b->j1; j += VL)
            put(b, i, j, b->j1 - j, (vf){0}, true);
}

static void gemm_tile_run(const gemm_tile *b)
{
    if (b->k1 <= b->k0)
        no_sums(b);
    else if (b->b.packed)
        run_panels(b);
    else if (few_rows(b))
        run_few(b);
    else if (b->type_c != MF_CAST_F32 && b->k1 - b->k0 > PER_WORD * KC)
        run_by_sums(b);
    else
        run_block(b);
}

#endif

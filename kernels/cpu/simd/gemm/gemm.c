/* gemm.c: cuts gemms into tiles, by their shapes and the number of threads. A tile is one block
 * of c, or a share of the rows or columns of every group. So tiles have equal work even if the
 * groups have different sizes. Tiling does not change results (tile.h). Libraries do not
 * guarantee this, so their tiles depend only on shapes. */
#include "kernels/cpu/library.h"
#include "kernels/cpu/simd/gemm/amx_cost.h"
#include "kernels/cpu/simd/gemm/tile.h"
#include "kernels/cpu/simd/vec.h"

#define UNIT      32    /* tiles begin at multiples of this number of columns */
#define GOOD_ROWS 64    /* minimum number of rows of a tile, if rows are divided */
#define FEW_ROWS  16    /* up to this number of rows, reading b takes most of the time */
#define READ      65536 /* elements of b per tile if there are at most FEW_ROWS rows */
/* Each tile copies the rows if there are at most FEW_ROWS, so it has at least this number of
 * columns a row, unless there would be fewer than two tiles a thread. */
#define COLUMNS 16
#define UNKNOWN 8 /* number of threads to assume if it is unknown */

/* Measured numbers of cycles. */
#define COPY   0.4   /* cycles to copy an element, which passes the second-level cache twice */
#define TURN   0.5   /* additional cycles to transpose an element */
#define BEGIN  2000  /* cycles to begin a tile */
#define SPREAD 16000 /* cycles to wake threads */
/* The same for a word of two bf16, which is put together from two rows. With smaller numbers
 * of tiles than for f32, because each copies its words, weight gradients are 1.1 to 1.2 times
 * as fast on processors that multiply words at the rate of f32. */
#define COPY_PAIR 1
/* Share of a tile's time that the first thread to end waits for the last thread, because other
 * processes stop threads for a while. With smaller tiles threads wait less. The values are
 * assumptions: on hosts where they matter, measured times vary by more than their effect. */
#define LATE      0.15
#define LATE_PAIR 0.05

typedef struct cut {
    const mf_gemm *p;
    int64_t parts;
    int64_t down, across, bm, bn; /* number of tiles in each direction, and their sizes */
    int64_t tiles;
    bool bf16;  /* operands are bf16 or are converted to it */
    bool pairs; /* pairs of bf16 are multiplied */
} cut;

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static int64_t div_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Returns the cycles that a tile of m x n elements of c takes, if it needs b of `parts` groups.
 * Its columns of b are copied. Its rows of a are read or copied once for each set of columns
 * that the engine processes at a time. */
static double cycles_of(const cut *c, bool copied, double m, double n, double parts)
{
    const mf_gemm *p = c->p;
    const int64_t words = c->pairs ? div_up(p->k, 2) : p->k;
    /* that of a group; not for f32, whose tiles were measured without it */
    const int64_t inner = c->pairs && p->by == MF_BY_INNER ? div_up(words, c->parts) : words;
    const double copy = c->pairs ? COPY_PAIR : COPY;
    const double lanes = copied ? MF_SIMD(gemm_lanes)(inner) : BLOCK_LANES;
    const double each = copied ? copy : n < BLOCK_LANES ? 0.15 : 0.05;
    const double b = n * (p->b.trans ? copy + TURN : copy);
    return (double)words * (m * n / 32 * 1.05 + m * ceil(n / lanes) * each + b * parts) + BEGIN;
}

/* Like cycles_of, for a tile that AMX computes. */
static double amx_cycles_of(const mf_gemm *p, double m, double n, double parts)
{
    amx_way way;
    const double others = (parts - 1) * n * amx_lane_cycles(p->b.trans) * (double)p->k;
    return amx_cycles(!p->a.trans, p->b.trans, m, n, (double)p->k, &way) + others + BEGIN;
}

static bool by_amx(const cut *c)
{
    const int64_t rows = c->p->by == MF_BY_ROWS ? c->p->m / c->parts : c->p->m;
    return c->bf16 && MF_SIMD(gemm_amx) != NULL && rows > FEW_ROWS;
}

/* Chooses the tiles with which all threads finish first, if each thread computes the same
 * number of tiles. MF_BY_BATCH: each group has its own tiles. MF_BY_ROWS: a tile belongs to all
 * groups of which its share of the rows contains rows. */
static void cut_sides(cut *c, int64_t threads)
{
    static const uint8_t ways[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};
    const mf_gemm *p = c->p;
    const bool copied =
        p->b.packed ? false : p->a.trans || p->a.row != NULL || c->bf16 || p->a.ld % 1024 == 0;
    const int64_t count = p->by == MF_BY_BATCH ? c->parts : 1;
    const bool amx = by_amx(c);
    double best = 0;
    for (int d = 0; d < (int)sizeof ways && (d == 0 || p->m / ways[d] >= GOOD_ROWS); d++) {
        /* If packed b has columns for all threads, rows are not divided, and b is read once. */
        if (p->b.packed && d > 0 && p->n / UNIT >= threads) break;
        for (int a = 0; a < (int)sizeof ways && (a == 0 || p->n / ways[a] >= UNIT); a++) {
            const int64_t down = ways[d], across = ways[a], tiles = down * across * count;
            if (down * across > 1 && tiles > 4 * threads) break;
            const double m = ceil((double)p->m / (double)down),
                         n = ceil((double)p->n / (double)across);
            const double parts =
                p->by == MF_BY_ROWS ? ceil((double)c->parts / (double)down) : 1;
            const double each =
                amx ? amx_cycles_of(p, m, n, parts) : cycles_of(c, copied, m, n, parts);
            double cycles = (double)div_up(tiles, threads) * each;
            if (tiles > 1) cycles += (c->pairs ? LATE_PAIR : LATE) * each + SPREAD;
            if (best != 0 && cycles >= best) continue;
            best = cycles;
            c->down = down;
            c->across = across;
        }
    }
}

static void cut_up(cut *c, int threads)
{
    const mf_gemm *p = c->p;
    const int64_t reads =
        p->n * p->k / READ * (p->by == MF_BY_ROWS ? min64(c->parts, p->m) : 1);
    const int64_t rows = p->by == MF_BY_ROWS ? p->m / c->parts : p->m;
    if (threads <= 0) threads = UNKNOWN;
    if (p->by != MF_BY_INNER && rows <= FEW_ROWS) {
        const int64_t wide = p->n / (COLUMNS * (rows > 1 ? rows : 1));
        c->down = 1;
        c->across = min64(reads, min64(8 * threads, wide > 2 * threads ? wide : 2 * threads));
        c->across = min64(c->across, p->n / UNIT);
        if (c->across < 1) c->across = 1;
    } else {
        cut_sides(c, threads);
    }
    c->bn = div_up(div_up(p->n, c->across), UNIT) * UNIT;
    c->across = div_up(p->n, c->bn);
    c->bm = div_up(p->m, c->down);
    c->tiles = (p->by == MF_BY_BATCH ? c->parts : 1) * c->down * c->across;
}

static const void *step(mf_cast_type type, const void *from, int64_t elements)
{
    return (const char *)from + elements * (type == MF_CAST_F32 ? 4 : 2);
}

static gemm_tile block_of(const cut *c, int64_t part, int64_t i0, int64_t i1, int64_t j0,
                          int64_t j1)
{
    const mf_gemm *p = c->p;
    gemm_tile b = {.a = {p->a.data, p->a.type, p->a.ld, !p->a.trans, p->a.row,
                         p->a.trans ? p->m : p->k, false},
                   .b = {p->b.data, p->b.type, p->b.ld, p->b.trans, p->b.row,
                         p->b.trans ? p->k : p->n, p->b.packed},
                   .i0 = i0,
                   .i1 = i1,
                   .j0 = j0,
                   .j1 = j1,
                   .k1 = p->k,
                   .rows = p->m,
                   .cols = p->n,
                   .type_c = p->c.type,
                   .ldc = p->c.ld,
                   .alpha = p->alpha,
                   .beta = p->beta,
                   .rounded = c->bf16,
                   .by_inner = p->by == MF_BY_INNER && p->groups > 0};
    int64_t at = i0 * p->c.ld + j0;
    if (p->by == MF_BY_BATCH) b.a.at = step(p->a.type, p->a.data, part * p->a.step);
    if (p->by != MF_BY_INNER) {
        b.b.at = step(p->b.type, p->b.data, part * p->b.step);
        b.bias = p->bias != NULL ? p->bias + part * p->step_bias : NULL;
        if (p->by == MF_BY_ROWS) b.rows = p->offset[part + 1] - p->offset[part];
    } else {
        b.k0 = p->offset[part];
        b.k1 = p->offset[part + 1];
    }
    if (p->by != MF_BY_ROWS) at += part * p->c.step;
    b.c = (char *)p->c.data + at * (p->c.type == MF_CAST_F32 ? 4 : 2);
    return b;
}

static void zero_rows(const mf_gemm *p, int64_t i0, int64_t i1, int64_t j0, int64_t j1)
{
    const size_t size = p->c.type == MF_CAST_F32 ? 4 : 2;
    for (int64_t i = i0; i < i1; i++)
        memset((char *)p->c.data + (size_t)(i * p->c.ld + j0) * size, 0,
               (size_t)(j1 - j0) * size);
}

/* Returns the first row of share `s`; *ret_group: the group of this row. Shares have equal
 * sizes, but a share begins at a group border if one is near, so that no group has only a few
 * rows in a share. */
static int64_t share(const cut *c, int64_t s, int64_t *ret_group)
{
    const int32_t *offset = c->p->offset;
    const int64_t first = offset[0], used = offset[c->parts] - first;
    int64_t each = div_up(used, c->down), e = 0, at = first + min64(s * each, used);
    while (e < c->parts && offset[e + 1] <= at)
        e++;
    if (e < c->parts && at - offset[e] <= each / 16)
        at = offset[e];
    else if (e < c->parts && offset[e + 1] - at <= each / 16)
        at = offset[++e];
    *ret_group = e;
    return at;
}

/* Position in the loop over the blocks of a tile. */
typedef struct walk {
    int64_t part; /* group of the next block; MF_BY_ROWS: the group of row i */
    int64_t i, i1, j0, j1;
} walk;

static walk walk_of(const cut *c, int64_t t)
{
    const mf_gemm *p = c->p;
    const int64_t down = t % c->down, across = t / c->down % c->across;
    walk w = {.part = t / c->down / c->across, /* 0 except for MF_BY_BATCH */
              .i = down * c->bm,
              .j0 = across * c->bn};
    w.i1 = min64(w.i + c->bm, p->m);
    w.j1 = min64(w.j0 + c->bn, p->n);
    if (p->by == MF_BY_ROWS) {
        int64_t next;
        w.i1 = share(c, down + 1, &next);
        w.i = share(c, down, &w.part);
    }
    return w;
}

/* Sets *ret to the next block, and moves w behind it; returns false if there is no
 * next block. */
static bool next_block(const cut *c, walk *w, gemm_tile *ret)
{
    const mf_gemm *p = c->p;
    int64_t i = w->i, end = w->i1;
    if (p->by == MF_BY_ROWS) {
        while (i < w->i1 && p->offset[w->part + 1] <= i)
            w->part++;
        if (i >= w->i1) return false;
        w->i = end = min64(p->offset[w->part + 1], w->i1);
    } else if (w->part >= c->parts) {
        return false;
    }
    *ret = block_of(c, w->part, i, end, w->j0, w->j1);
    if (p->by != MF_BY_ROWS) w->part += p->by == MF_BY_INNER ? 1 : c->parts;
    return true;
}

static void tile(void *arg, int64_t t)
{
    const cut *c = arg;
    walk w = walk_of(c, t), behind = w;
    gemm_tile two[2];
    bool more = next_block(c, &w, &two[0]);
    if (t + 1 < c->tiles) behind = walk_of(c, t + 1);
    for (int at = 0; more; at ^= 1) {
        more = next_block(c, &w, &two[at ^ 1]);
        if (more || (t + 1 < c->tiles && next_block(c, &behind, &two[at ^ 1])))
            two[at].next = &two[at ^ 1];
        MF_SIMD(gemm_tile)(&two[at]);
    }
    if (c->p->by != MF_BY_ROWS) return;
    if (t % c->down == 0) zero_rows(c->p, 0, c->p->offset[0], w.j0, w.j1);
    if (t % c->down == c->down - 1) zero_rows(c->p, w.i1, c->p->m, w.j0, w.j1);
}

void MF_SIMD(gemm)(const mf_kctx *x, const mf_gemm *p)
{
    if (mf_kctx_failed(x)) return;
    cut c = {.p = p,
             .parts = p->groups > 0 ? p->groups : 1,
             .bf16 = p->as_bf16 || p->a.type == MF_CAST_BF16 || p->b.type == MF_CAST_BF16};
    if (p->m <= 0 || p->n <= 0) return;
    c.pairs = c.bf16 && MF_SIMD(pairs_pay)() && !by_amx(&c);
    cut_up(&c, mf_library_chosen(VL > 4) ? 0 : x->threads);
    x->parallel(c.tiles, tile, &c);
}

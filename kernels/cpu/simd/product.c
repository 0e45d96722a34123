/* product.c: products cut into tiles, by their shapes and by how many threads share them. A
 * tile is one block of c, or its share of the rows or columns of every group: so tiles are
 * equal however unequal the groups are. No number of c notices where it was cut (product.h);
 * libraries do not promise that, and their tiles are cut by shape alone.
 */
#include "kernels/cpu/library.h"
#include "kernels/cpu/simd/product.h"
#include "kernels/cpu/simd/vec.h"

#define UNIT      32    /* columns of a tile are a multiple */
#define GOOD_ROWS 64    /* of a tile at least */
#define FEW_ROWS  16    /* up to here reading b is what takes the time */
#define READ      65536 /* numbers of b a tile then */
#define MAX_READS 64    /* tiles then */
#define UNKNOWN   8     /* threads, where nobody says */

/* Cycles (measured). */
#define COPY   0.4   /* a number, through the second cache twice */
#define TURN   0.5   /* more to transpose it */
#define BEGIN  2000  /* of a tile */
#define SPREAD 16000 /* to wake threads */

typedef struct cut {
    const mf_product *p;
    int64_t parts;
    int64_t down, across, bm, bn; /* tiles and their sides */
    int64_t tiles;
    bool half; /* operands are or become bf16 */
} cut;

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static int64_t div_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Cycles of a tile of m x n numbers of c, of so many parts. Its columns of b are copied; its
 * rows of a are read, or copied, once for every part of the columns that the engine takes at
 * once. */
static double cycles_of(const mf_product *p, bool copied, double m, double n, double parts)
{
    const double lanes = copied ? MF_SIMD(product_lanes)(p->k) : BLOCK_LANES;
    const double each = copied ? COPY : n < BLOCK_LANES ? 0.15 : 0.05;
    const double b = n * (p->trans_b ? COPY + TURN : COPY);
    return (double)p->k * (m * n / 32 * 1.05 + m * ceil(n / lanes) * each + b * parts) + BEGIN;
}

/* Tiles such that all threads are done soonest, when each does the same number of them. Of
 * BATCH every part has its own; of ROWS a tile is of the parts that its share of the rows
 * belongs to. */
static void cut_sides(cut *c, int64_t threads)
{
    static const uint8_t ways[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};
    const mf_product *p = c->p;
    const bool copied =
        p->panels_b ? false : p->trans_a || p->row_a != NULL || c->half || p->lda % 1024 == 0;
    const int64_t count = p->by == MF_BY_BATCH ? c->parts : 1;
    double best = 0;
    for (int d = 0; d < (int)sizeof ways && (d == 0 || p->m / ways[d] >= GOOD_ROWS); d++) {
        if (p->panels_b && d > 0 && p->n / UNIT >= threads) break; /* no weight is read twice */
        for (int a = 0; a < (int)sizeof ways && (a == 0 || p->n / ways[a] >= UNIT); a++) {
            const int64_t down = ways[d], across = ways[a], tiles = down * across * count;
            if (down * across > 1 && tiles > 4 * threads) break;
            const double m = ceil((double)p->m / (double)down),
                         n = ceil((double)p->n / (double)across);
            const double parts =
                p->by == MF_BY_ROWS ? ceil((double)c->parts / (double)down) : 1;
            const double cycles =
                (double)div_up(tiles, threads) * cycles_of(p, copied, m, n, parts) +
                (tiles > 1 ? SPREAD : 0);
            if (best != 0 && cycles >= best) continue;
            best = cycles;
            c->down = down;
            c->across = across;
        }
    }
}

static void cut_up(cut *c, int threads)
{
    const mf_product *p = c->p;
    const int64_t reads =
        p->n * p->k / READ * (p->by == MF_BY_ROWS ? min64(c->parts, p->m) : 1);
    if (p->by != MF_BY_INNER && (p->by == MF_BY_ROWS ? p->m / c->parts : p->m) <= FEW_ROWS) {
        c->down = 1;
        c->across = min64(min64(reads, MAX_READS), p->n / UNIT);
        if (c->across < 1) c->across = 1;
    } else {
        cut_sides(c, threads > 0 ? threads : UNKNOWN);
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

static product_block block_of(const cut *c, int64_t part, int64_t i0, int64_t i1, int64_t j0,
                              int64_t j1)
{
    const mf_product *p = c->p;
    product_block b = {
        .a = {p->a, p->type_a, p->lda, !p->trans_a, p->row_a, p->trans_a ? p->m : p->k,
              false},
        .b = {p->b, p->type_b, p->ldb, p->trans_b, p->row_b, p->trans_b ? p->k : p->n,
              p->panels_b},
        .i0 = i0,
        .i1 = i1,
        .j0 = j0,
        .j1 = j1,
        .k1 = p->k,
        .rows = p->m,
        .cols = p->n,
        .type_c = p->type_c,
        .ldc = p->ldc,
        .alpha = p->alpha,
        .beta = p->beta,
        .rounded = c->half};
    int64_t at = i0 * p->ldc + j0;
    if (p->by == MF_BY_BATCH) b.a.at = step(p->type_a, p->a, part * p->step_a);
    if (p->by != MF_BY_INNER) {
        b.b.at = step(p->type_b, p->b, part * p->step_b);
        b.bias = p->bias != NULL ? p->bias + part * p->step_bias : NULL;
        if (p->by == MF_BY_ROWS) b.rows = p->offset[part + 1] - p->offset[part];
    } else {
        b.k0 = p->offset[part];
        b.k1 = p->offset[part + 1];
    }
    if (p->by != MF_BY_ROWS) at += part * p->step_c;
    b.c = (char *)p->c + at * (p->type_c == MF_CAST_F32 ? 4 : 2);
    return b;
}

static void zero_rows(const mf_product *p, int64_t i0, int64_t j0, int64_t j1)
{
    const size_t size = p->type_c == MF_CAST_F32 ? 4 : 2;
    for (int64_t i = i0; i < p->m; i++)
        memset((char *)p->c + (size_t)(i * p->ldc + j0) * size, 0, (size_t)(j1 - j0) * size);
}

/* Where share `s` of the rows begins: an equal part, moved to the border of a group when that
 * is near, so that no group leaves a few rows over. */
static int64_t share(const cut *c, int64_t s, int64_t *ret_group)
{
    const int32_t *offset = c->p->offset;
    int64_t used = offset[c->parts], each = div_up(used, c->down), e = 0;
    int64_t at = min64(s * each, used);
    while (e < c->parts && offset[e + 1] <= at)
        e++;
    if (e < c->parts && at - offset[e] <= each / 16)
        at = offset[e];
    else if (e < c->parts && offset[e + 1] - at <= each / 16)
        at = offset[++e];
    *ret_group = e;
    return at;
}

/* A walk through the blocks of a tile. */
typedef struct walk {
    int64_t part; /* of the next block; of ROWS the group of row i */
    int64_t i, i1, j0, j1;
} walk;

static walk walk_of(const cut *c, int64_t t)
{
    const mf_product *p = c->p;
    const int64_t down = t % c->down, across = t / c->down % c->across;
    walk w = {.part = t / c->down / c->across, /* 0 but for BATCH */
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

/* false: there is none. */
static bool next_block(const cut *c, walk *w, product_block *ret)
{
    const mf_product *p = c->p;
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
    product_block two[2];
    bool more = next_block(c, &w, &two[0]);
    if (t + 1 < c->tiles) behind = walk_of(c, t + 1);
    for (int at = 0; more; at ^= 1) {
        more = next_block(c, &w, &two[at ^ 1]);
        if (more || (t + 1 < c->tiles && next_block(c, &behind, &two[at ^ 1])))
            two[at].next = &two[at ^ 1];
        MF_SIMD(product_block)(&two[at]);
    }
    if (c->p->by == MF_BY_ROWS && t % c->down == c->down - 1) zero_rows(c->p, w.i1, w.j0, w.j1);
}

void MF_SIMD(product)(const mf_kctx *x, const mf_product *p)
{
    cut c = {.p = p,
             .parts = p->parts > 0 ? p->parts : 1,
             .half = p->as_bf16 || p->type_a == MF_CAST_BF16 || p->type_b == MF_CAST_BF16};
    if (p->m <= 0 || p->n <= 0) return;
    cut_up(&c, mf_library_chosen(VL > 4) != NULL ? 0 : x->threads);
    mf_library_one_thread();
    x->parallel(c.tiles, tile, &c);
}

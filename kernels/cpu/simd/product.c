/* product.c: products cut into tiles, by their shapes alone. A tile is one block of c, or its share
 * of the rows or columns of every group: so tiles are equal however unequal the groups are.
 */
#include "kernels/cpu/library.h"
#include "kernels/cpu/simd/product.h"
#include "kernels/cpu/simd/vec.h"

#define UNIT         32 /* columns of a tile are a multiple */
#define GOOD_ROWS    64 /* of a tile at least */
#define MAX_TILES    64
#define ENOUGH_TILES 8     /* for few threads */
#define FEW_ROWS     16    /* up to here reading b is what takes the time */
#define READ         65536 /* numbers of b a tile then */
#define MAX_READS    64    /* tiles then */

typedef struct cut {
    const mf_product *p;
    int64_t parts, sets;          /* INNER: tile s of a block takes parts s, s + sets, .. */
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

/* How many tiles so many operations are worth: each costs some microseconds to start, and every cut
 * has operands copied once more. */
static int64_t tiles_for(double flops)
{
    int64_t tiles = 1;
    while (tiles < 8 && flops > 4e6 * (double)tiles)
        tiles *= 2;
    while (tiles < MAX_TILES && flops > 200e6 * (double)tiles)
        tiles *= 2;
    return tiles;
}

/* Cycles an inner index that so many tiles cost: each tile down has b copied once more, each one
 * across has a read once more, or copied. Of few tiles not every thread gets its share. */
static double cost_of(const cut *c, double m, double n, double down, double across)
{
    const mf_product *p = c->p;
    const bool copied = p->trans_a || p->row_a != NULL || c->half || p->lda % 1024 == 0;
    const double cols = n / across, times = across * ceil(cols / BLOCK_LANES);
    const double each = copied ? 0.35 : cols < BLOCK_LANES ? 0.15 : 0.05;
    const double tiles = down * across, idle = tiles < 16 ? 0.05 : tiles < 32 ? 0.01 : 0;
    return n * down * (p->trans_b ? 0.5 : 0.4) + m * times * each + m * n / 32 * idle;
}

/* `want` tiles, or fewer where they are large and that is cheaper. */
static void cut_sides(cut *c, int64_t m, int64_t n, int64_t want)
{
    double best = 0;
    c->down = c->across = 1;
    for (; want > 1 && (best == 0 || want >= ENOUGH_TILES); want /= 2)
        for (int64_t down = 1; down <= want; down *= 2) {
            const int64_t across = want / down;
            if ((down > 1 && m / down < GOOD_ROWS) || (across > 1 && n / across < UNIT))
                continue;
            const double cost = cost_of(c, (double)m, (double)n, (double)down, (double)across);
            if (best == 0 || cost < best) {
                best = cost;
                c->down = down;
                c->across = across;
            }
        }
}

static void cut_up(cut *c)
{
    const mf_product *p = c->p;
    const double flops = 2.0 * (double)p->m * (double)p->n * (double)p->k;
    int64_t reads = p->n * p->k / READ, rows = p->m;
    c->sets = 1;
    if (p->by == MF_BY_BATCH) {
        cut_sides(c, p->m, p->n, div_up(tiles_for(flops * (double)c->parts), c->parts));
    } else if (p->by == MF_BY_ROWS) {
        cut_sides(c, p->m, p->n, tiles_for(flops));
        reads *= min64(c->parts, p->m);
        rows = p->m / c->parts;
    } else {
        cut_sides(c, p->m, p->n, tiles_for(flops));
        c->sets = min64(c->parts, div_up(tiles_for(flops), c->down * c->across));
        rows = FEW_ROWS + 1;
    }
    if (rows <= FEW_ROWS) {
        c->down = 1;
        c->across = min64(min64(reads, MAX_READS), p->n / UNIT);
        if (c->across < 1) c->across = 1;
    }
    c->bn = div_up(div_up(p->n, c->across), UNIT) * UNIT;
    c->across = div_up(p->n, c->bn);
    c->bm = div_up(p->m, c->down);
    c->tiles = (p->by == MF_BY_BATCH ? c->parts : 1) * c->sets * c->down * c->across;
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
        .a = {p->a, p->type_a, p->lda, !p->trans_a, p->row_a, p->trans_a ? p->m : p->k},
        .b = {p->b, p->type_b, p->ldb, p->trans_b, p->row_b, p->trans_b ? p->k : p->n},
        .i0 = i0,
        .i1 = i1,
        .j0 = j0,
        .j1 = j1,
        .k1 = p->k,
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

/* Where share `s` of the rows begins: an equal part, moved to the border of a group when that is
 * near, so that no group leaves a few rows over. */
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
    const int64_t set = t % c->sets, down = t / c->sets % c->down;
    const int64_t across = t / c->sets / c->down % c->across;
    walk w = {.part = p->by == MF_BY_INNER ? set : t / c->sets / c->down / c->across,
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
    if (p->by != MF_BY_ROWS) w->part += p->by == MF_BY_INNER ? c->sets : c->parts;
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
    if (c->p->by == MF_BY_ROWS && t / c->sets % c->down == c->down - 1)
        zero_rows(c->p, w.i1, w.j0, w.j1);
}

void MF_SIMD(product)(const mf_kctx *x, const mf_product *p)
{
    cut c = {.p = p,
             .parts = p->parts > 0 ? p->parts : 1,
             .half = p->as_bf16 || p->type_a == MF_CAST_BF16 || p->type_b == MF_CAST_BF16};
    if (p->m <= 0 || p->n <= 0) return;
    cut_up(&c);
    mf_library_one_thread();
    x->parallel(c.tiles, tile, &c);
}

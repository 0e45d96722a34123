/* product.c: products cut into tiles, by their shapes alone. A tile is one block of c, or its share
 * of the rows or columns of every group: so tiles are equal however unequal the groups are.
 */
#include "kernels/cpu/library.h"
#include "kernels/cpu/simd/product.h"
#include "kernels/cpu/simd/vec.h"

#define UNIT       32  /* columns of a tile are a multiple */
#define GOOD_COLS  128 /* of a tile: with fewer, a is read too often */
#define GOOD_ROWS  64  /* of a tile at least */
#define MAX_TILES  64
#define MAX_COPIED 16    /* tiles, where cutting has rows copied more often */
#define FEW_ROWS   16    /* up to here reading b is what takes the time */
#define READ       65536 /* numbers of b a tile then */
#define MAX_READS  64    /* tiles then */

typedef struct cut {
    const mf_product *p;
    int64_t parts, sets;          /* INNER: tile s of a block takes parts s, s + sets, .. */
    int64_t down, across, bm, bn; /* tiles and their sides */
    bool half;                    /* operands are or become bf16 */
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

/* A tile down has b copied once more, one across has rows of a read once more, or copied. */
static void cut_sides(cut *c, int64_t m, int64_t n, int64_t want)
{
    /* rows of a, for each block across */
    const bool copied =
        c->p->trans_a || c->p->row_a != NULL || c->half || c->p->lda % 1024 == 0;
    const double copy_a = copied ? 1 : 0.25, good = copied ? 2 * GOOD_COLS : GOOD_COLS;
    const double copy_b = c->p->trans_b ? 1 : 0.75;
    double best = 0;
    c->down = c->across = 1;
    if (copied) want = min64(want, MAX_COPIED);
    for (; best == 0 && want > 1; want /= 2)
        for (int64_t down = 1; down <= want; down *= 2) {
            const int64_t across = want / down;
            if ((down > 1 && m / down < GOOD_ROWS) || (across > 1 && n / across < UNIT))
                continue;
            const double blocks = fmax((double)across, (double)n / good);
            const double narrow = (double)n / (double)across < good ? 2 : 1;
            const double cost =
                copy_b * (double)(n * down) + copy_a * (double)m * blocks * narrow;
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

static void rows_tile(const cut *c, int64_t s, int64_t j0, int64_t j1)
{
    int64_t e, next, i = share(c, s, &e), to = share(c, s + 1, &next);
    for (; i < to; e++) {
        int64_t end = min64(c->p->offset[e + 1], to);
        if (end <= i) continue;
        product_block b = block_of(c, e, i, end, j0, j1);
        MF_SIMD(product_block)(&b);
        i = end;
    }
    if (s == c->down - 1) zero_rows(c->p, c->p->offset[c->parts], j0, j1);
}

static void tile(void *arg, int64_t t)
{
    const cut *c = arg;
    const mf_product *p = c->p;
    int64_t set = t % c->sets, down = t / c->sets % c->down;
    int64_t across = t / c->sets / c->down % c->across,
            part = t / c->sets / c->down / c->across;
    int64_t j0 = across * c->bn, j1 = min64(j0 + c->bn, p->n);
    int64_t i0 = down * c->bm, i1 = min64(i0 + c->bm, p->m);
    if (p->by == MF_BY_ROWS) {
        rows_tile(c, down, j0, j1);
    } else if (p->by == MF_BY_BATCH) {
        product_block b = block_of(c, part, i0, i1, j0, j1);
        MF_SIMD(product_block)(&b);
    } else {
        for (int64_t e = set; e < c->parts; e += c->sets) {
            product_block b = block_of(c, e, i0, i1, j0, j1);
            MF_SIMD(product_block)(&b);
        }
    }
}

void MF_SIMD(product)(const mf_kctx *x, const mf_product *p)
{
    cut c = {.p = p,
             .parts = p->parts > 0 ? p->parts : 1,
             .half = p->as_bf16 || p->type_a == MF_CAST_BF16 || p->type_b == MF_CAST_BF16};
    if (p->m <= 0 || p->n <= 0) return;
    cut_up(&c);
    mf_library_one_thread();
    x->parallel((p->by == MF_BY_BATCH ? c.parts : 1) * c.sets * c.down * c.across, tile, &c);
}

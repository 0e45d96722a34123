/* grouped.c: products by group, all tiles of all groups in one loop.
 *
 * A tile is (block of columns, block of rows of one group). Blocks of columns are the outer
 * index: each stretch of tiles then holds the same share of every group, so that threads, which
 * get stretches, have equal work however unequal the groups are.
 */
#include "kernels/cpu/blas.h"
#include "kernels/cpu/simd/grid.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vec.h"

#define MAX_ROWS  768 /* of a tile: beyond, packing the weight again costs next to nothing */
#define MIN_COLS  128
#define MIN_FLOPS 2e6

typedef struct grouped {
    int64_t groups, rows, n, k; /* y [rows,n] from a [rows,k] */
    const int32_t *offset;
    const float *a, *w, *bias;
    float *y;
    bool trans_w;         /* w[e] is [n,k], else [k,n] */
    int64_t bn, segments; /* columns a tile; blocks of rows over all groups */
} grouped;

static int64_t row_blocks(const int32_t *offset, int64_t e)
{
    return grid_div_up(offset[e + 1] - offset[e], MAX_ROWS);
}

/* Columns a tile, from sizes alone. */
static int64_t column_block(int64_t groups, int64_t rows, int64_t n, int64_t k)
{
    int64_t each = grid_div_up(rows, groups > 0 ? groups : 1);
    if (each <= GRID_FEW_ROWS) return grid_of(each, n, k).bn;
    int64_t tall = each < MAX_ROWS ? each : MAX_ROWS, cols = 1;
    int64_t blocks = groups * grid_div_up(each, MAX_ROWS);
    while ((cols < 4 || blocks * cols < GRID_MAX_TILES) && n / (2 * cols) >= MIN_COLS &&
           2.0 * (double)tall * (double)n * (double)k / (double)(2 * cols) >= MIN_FLOPS)
        cols *= 2;
    return grid_div_up(grid_div_up(n, cols), 32) * 32;
}

static void grouped_tile(void *arg, int64_t tile)
{
    const grouped *p = arg;
    int64_t across = grid_div_up(p->n, p->bn);
    if (tile == p->segments * across) { /* the last: rows of no group */
        int64_t from = p->offset[p->groups];
        memset(p->y + from * p->n, 0, (size_t)((p->rows - from) * p->n) * sizeof(float));
        return;
    }
    int64_t j = tile / p->segments * p->bn, part = tile % p->segments, e = 0;
    while (part >= row_blocks(p->offset, e))
        part -= row_blocks(p->offset, e++);
    int64_t count = p->offset[e + 1] - p->offset[e];
    int64_t bm = grid_div_up(grid_div_up(count, row_blocks(p->offset, e)), 16) * 16;
    int64_t i = p->offset[e] + part * bm, left = p->offset[e + 1] - i;
    int64_t rows = left < bm ? left : bm, cols = p->n - j < p->bn ? p->n - j : p->bn;
    float *y = p->y + i * p->n + j;
    if (rows <= 0) return;
    MF_SIMD(gemm)
    (false, p->trans_w, rows, cols, p->k, 1, p->a + i * p->k, p->k,
     p->w + e * p->n * p->k + (p->trans_w ? j * p->k : j), p->trans_w ? p->k : p->n, 0, y,
     p->n);
    if (p->bias != NULL) v_add_to_rows(rows, cols, p->bias + e * p->n + j, y, p->n);
}

static void run(const mf_kctx *x, grouped *p)
{
    p->bn = column_block(p->groups, p->rows, p->n, p->k);
    for (int64_t e = 0; e < p->groups; e++)
        p->segments += row_blocks(p->offset, e);
    mf_blas_one_thread();
    x->parallel(p->segments * grid_div_up(p->n, p->bn) + 1, grouped_tile, p);
}

void MF_SIMD(grouped_linear)(const mf_kctx *x, int64_t groups, int64_t rows, int64_t n,
                             int64_t k, const int32_t *offset, const float *a, const float *w,
                             const float *bias, float *y)
{
    grouped p = {.groups = groups,
                 .rows = rows,
                 .n = n,
                 .k = k,
                 .offset = offset,
                 .a = a,
                 .w = w,
                 .bias = bias,
                 .y = y,
                 .trans_w = true};
    run(x, &p);
}

void MF_SIMD(grouped_linear_dx)(const mf_kctx *x, int64_t groups, int64_t rows, int64_t n,
                                int64_t k, const int32_t *offset, const float *dy,
                                const float *w, float *da)
{
    grouped p = {.groups = groups,
                 .rows = rows,
                 .n = k,
                 .k = n,
                 .offset = offset,
                 .a = dy,
                 .w = w,
                 .y = da};
    run(x, &p);
}

typedef struct weight_grad {
    int64_t groups, n, k;
    const int32_t *offset;
    const float *dy, *a;
    float *dw;
    grid grid;
} weight_grad;

static void weight_tile(void *arg, int64_t tile)
{
    const weight_grad *p = arg;
    int64_t e = tile % p->groups, block = tile / p->groups;
    int64_t i = block / p->grid.cols * p->grid.bm, j = block % p->grid.cols * p->grid.bn;
    int64_t rows = p->n - i < p->grid.bm ? p->n - i : p->grid.bm;
    int64_t cols = p->k - j < p->grid.bn ? p->k - j : p->grid.bn;
    int64_t from = p->offset[e], count = p->offset[e + 1] - from;
    MF_SIMD(gemm)
    (true, false, rows, cols, count, 1, p->dy + from * p->n + i, p->n, p->a + from * p->k + j,
     p->k, 0, p->dw + (e * p->n + i) * p->k + j, p->k);
}

void MF_SIMD(grouped_weight_grad)(const mf_kctx *x, int64_t groups, int64_t rows, int64_t n,
                                  int64_t k, const int32_t *offset, const float *dy,
                                  const float *a, float *dw)
{
    weight_grad p = {
        groups, n, k,  offset,
        dy,     a, dw, grid_limited(n, k, grid_div_up(rows, groups > 0 ? groups : 1), 4)};
    mf_blas_one_thread();
    x->parallel(groups * p.grid.rows * p.grid.cols, weight_tile, &p);
}

#define SUM_COLS 512

typedef struct sums {
    int64_t n, across;
    const int32_t *offset;
    const float *a;
    float *y;
} sums;

static void sum_tile(void *arg, int64_t tile)
{
    const sums *p = arg;
    int64_t e = tile / p->across, j = tile % p->across * SUM_COLS;
    int64_t cols = p->n - j < SUM_COLS ? p->n - j : SUM_COLS;
    float *y = p->y + e * p->n + j;
    memset(y, 0, (size_t)cols * sizeof(float));
    for (int64_t r = p->offset[e]; r < p->offset[e + 1]; r++)
        v_add_to(cols, p->a + r * p->n + j, y);
}

void MF_SIMD(group_sum)(const mf_kctx *x, int64_t groups, int64_t rows, int64_t n,
                        const int32_t *offset, const float *a, float *y)
{
    (void)rows;
    sums p = {n, grid_div_up(n, SUM_COLS), offset, a, y};
    x->parallel(groups * p.across, sum_tile, &p);
}

/* grouped.c: products by group, cut so that tiles are equal however unequal the groups are.
 *
 * A tile of rows is an equal share of all rows, whichever groups they belong to: it makes one
 * product for each group that it meets. A tile of a weight's gradient is one block of the
 * weights, of every group or of each so-and-so-manyth.
 */
#include "kernels/cpu/blas.h"
#include "kernels/cpu/simd/grid.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vec.h"

#define MIN_ROWS  64 /* of a tile: fewer would read the weights too often */
#define MIN_COLS  128
#define MAX_TILES 64 /* where reading the weights is what takes the time */

typedef struct grouped {
    int64_t groups, rows, n, k; /* y [rows,n] from a [rows,k] */
    const int32_t *offset;
    const float *a, *w, *bias;
    float *y;
    bool trans_w;           /* w[e] is [n,k], else [k,n] */
    int64_t down, bn, cols; /* tiles of rows; columns of a tile, tiles across */
} grouped;

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Tiles, from sizes alone. */
static void cut(grouped *p)
{
    int64_t groups = min64(p->groups, p->rows);
    int64_t tiles = grid_tiles(2.0 * (double)p->rows * (double)p->n * (double)p->k);
    p->down = min64(p->rows / MIN_ROWS, tiles);
    p->cols = 1;
    if (p->down < 1) { /* few rows: each group's weights are read once */
        p->down = 1;
        p->cols = groups * p->k * p->n / GRID_TILE_READ;
        p->cols = min64(min64(p->cols, MAX_TILES), p->n / 32);
    } else {
        while (p->down * p->cols < tiles && p->n / (2 * p->cols) >= MIN_COLS)
            p->cols *= 2;
    }
    p->bn = grid_div_up(grid_div_up(p->n, p->cols > 0 ? p->cols : 1), 32) * 32;
    p->cols = grid_div_up(p->n, p->bn);
}

/* Where tile `part` of the rows begins: an equal share, moved to the border of a group when that
 * is near, so that no group leaves a few rows over. */
static int64_t share(const grouped *p, int64_t part, int64_t *ret_group)
{
    int64_t used = p->offset[p->groups], each = grid_div_up(used, p->down), e = 0;
    int64_t at = min64(part * grid_div_up(each, 16) * 16, used);
    while (e < p->groups && p->offset[e + 1] <= at)
        e++;
    if (e < p->groups && at - p->offset[e] <= each / 16)
        at = p->offset[e];
    else if (e < p->groups && p->offset[e + 1] - at <= each / 16)
        at = p->offset[++e];
    *ret_group = e;
    return at;
}

static void grouped_tile(void *arg, int64_t tile)
{
    const grouped *p = arg;
    int64_t part = tile / p->cols, j = tile % p->cols * p->bn, e, next;
    int64_t cols = min64(p->n - j, p->bn), i = share(p, part, &e),
            to = share(p, part + 1, &next);
    for (; i < to; e++) {
        int64_t end = min64(p->offset[e + 1], to), rows = end - i;
        if (rows <= 0) continue;
        float *y = p->y + i * p->n + j;
        MF_SIMD(gemm)
        (false, p->trans_w, rows, cols, p->k, 1, p->a + i * p->k, p->k,
         p->w + e * p->n * p->k + (p->trans_w ? j * p->k : j), p->trans_w ? p->k : p->n, 0, y,
         p->n);
        if (p->bias != NULL) v_add_to_rows(rows, cols, p->bias + e * p->n + j, y, p->n);
        i = end;
    }
    if (part == p->down - 1)
        for (i = p->offset[p->groups]; i < p->rows; i++)
            memset(p->y + i * p->n + j, 0, (size_t)cols * sizeof(float));
}

static void run(const mf_kctx *x, grouped *p)
{
    cut(p);
    mf_blas_one_thread();
    x->parallel(p->down * p->cols, grouped_tile, p);
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
    int64_t groups, n, k, sets; /* sets: tile s of a block takes the groups s, s + sets, .. */
    const int32_t *offset;
    const float *dy, *a;
    float *dw;
    grid grid;
} weight_grad;

static void weight_tile(void *arg, int64_t tile)
{
    const weight_grad *p = arg;
    int64_t block = tile / p->sets;
    int64_t i = block / p->grid.cols * p->grid.bm, j = block % p->grid.cols * p->grid.bn;
    int64_t rows = min64(p->n - i, p->grid.bm), cols = min64(p->k - j, p->grid.bn);
    for (int64_t e = tile % p->sets; e < p->groups; e += p->sets) {
        int64_t from = p->offset[e], count = p->offset[e + 1] - from;
        MF_SIMD(gemm)
        (true, false, rows, cols, count, 1, p->dy + from * p->n + i, p->n,
         p->a + from * p->k + j, p->k, 0, p->dw + (e * p->n + i) * p->k + j, p->k);
    }
}

void MF_SIMD(grouped_weight_grad)(const mf_kctx *x, int64_t groups, int64_t rows, int64_t n,
                                  int64_t k, const int32_t *offset, const float *dy,
                                  const float *a, float *dw)
{
    weight_grad p = {.groups = groups,
                     .n = n,
                     .k = k,
                     .offset = offset,
                     .dy = dy,
                     .a = a,
                     .dw = dw,
                     .grid = grid_limited(n, k, grid_div_up(rows, groups > 0 ? groups : 1), 4)};
    int64_t blocks = p.grid.rows * p.grid.cols;
    p.sets = min64(groups, grid_div_up(GRID_MAX_TILES, blocks));
    mf_blas_one_thread();
    x->parallel(blocks * p.sets, weight_tile, &p);
}

#define SUM_COLS 512

typedef struct sums {
    int64_t n, across;
    const int32_t *offset;
    const void *a;
    float *y;
} sums;

V_INLINE void sum_part(const sums *p, int64_t tile, bool bf16)
{
    int64_t e = tile / p->across, j = tile % p->across * SUM_COLS;
    int64_t cols = p->n - j < SUM_COLS ? p->n - j : SUM_COLS;
    float *y = p->y + e * p->n + j;
    memset(y, 0, (size_t)cols * sizeof(float));
    for (int64_t r = p->offset[e]; r < p->offset[e + 1]; r++) {
        const void *a = v_at(p->a, r * p->n + j, bf16);
        int64_t i = 0;
        for (; i + VL <= cols; i += VL)
            v_store(y + i, v_load(y + i) + v_get(a, i, bf16));
        if (i < cols)
            v_store_n(y + i, v_load_n(y + i, cols - i) + v_get_n(a, i, cols - i, bf16),
                      cols - i);
    }
}

static void sum_tile(void *arg, int64_t tile)
{
    sum_part(arg, tile, false);
}

static void sum_bf16_tile(void *arg, int64_t tile)
{
    sum_part(arg, tile, true);
}

void MF_SIMD(group_sum)(const mf_kctx *x, int64_t groups, int64_t rows, int64_t n,
                        const int32_t *offset, const float *a, float *y)
{
    (void)rows;
    sums p = {n, grid_div_up(n, SUM_COLS), offset, a, y};
    x->parallel(groups * p.across, sum_tile, &p);
}

void MF_SIMD(group_sum_bf16)(const mf_kctx *x, int64_t groups, int64_t rows, int64_t n,
                             const int32_t *offset, const mf_bf16 *a, float *y)
{
    (void)rows;
    sums p = {n, grid_div_up(n, SUM_COLS), offset, a, y};
    x->parallel(groups * p.across, sum_bf16_tile, &p);
}

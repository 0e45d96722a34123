/* grid.h: how a product is cut into tiles: by its shape, never by the number of threads. */
#ifndef MF_SIMD_GRID_H
#define MF_SIMD_GRID_H

#include <stdint.h>

typedef struct grid {
    int64_t bm, bn;     /* rows and columns of a tile, the last ones smaller */
    int64_t rows, cols; /* tiles down and across */
} grid;

#define GRID_MAX_TILES 16
#define GRID_TILE_READ 65536 /* floats of b a tile, where reading b is what takes the time */
#define GRID_FEW_ROWS  16

static inline int64_t grid_div_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* How many tiles a product of so many flops is worth: tiles must be large against the cost of
 * starting one (some microseconds), and every cut has operands packed once more. */
static inline int64_t grid_tiles(double flops)
{
    return flops > 2e9     ? GRID_MAX_TILES
           : flops > 256e6 ? 8
           : flops > 32e6  ? 4
           : flops > 8e6   ? 2
                           : 1;
}

/* For [m,k] x [k,n]. Every tile packs its part of both operands, so tiles down cost k n of
 * copying each and tiles across k m: the cheapest of the splits into the wanted number is taken.
 * A product of few rows is cut into columns, as many as it takes, since it is bound by reading b.
 * Sides are multiples of 16 and 32, so that library kernels meet no ragged edges inside. */
static inline grid grid_limited(int64_t m, int64_t n, int64_t k, int64_t max_tiles)
{
    int64_t want, down = 1;
    if (m <= GRID_FEW_ROWS) {
        int64_t bn = grid_div_up(GRID_TILE_READ, k > 0 ? k : 1);
        bn = grid_div_up(bn, 32) * 32;
        return (grid){m > 0 ? m : 1, bn, 1, grid_div_up(n, bn)};
    }
    want = grid_tiles(2.0 * (double)m * (double)n * (double)k);
    want = want < max_tiles ? want : max_tiles;
    double best = 0;
    for (int64_t d = 1; d <= want; d *= 2) {
        int64_t across = want / d;
        if ((d > 1 && m / d < 32) || (across > 1 && n / across < 64)) continue;
        double cost = (double)d * (double)n + (double)across * (double)m;
        if (best == 0 || cost < best) {
            best = cost;
            down = d;
        }
    }
    if (best == 0) want = 1; /* too small in both directions to be cut that often */
    grid g;
    g.bm = grid_div_up(grid_div_up(m, down), 16) * 16;
    g.bn = grid_div_up(grid_div_up(n, want / down), 32) * 32;
    g.rows = grid_div_up(m, g.bm);
    g.cols = grid_div_up(n, g.bn);
    return g;
}

static inline grid grid_of(int64_t m, int64_t n, int64_t k)
{
    return grid_limited(m, n, k, GRID_MAX_TILES);
}

#endif

/* rows.h: loops over rows, cut into tiles by shape. Each file defines the body of one tile. */
#ifndef MF_SIMD_ROWS_H
#define MF_SIMD_ROWS_H

#include <stdint.h>

/* Number of elements per tile. This is enough work to compensate for passing a tile to
 * another thread. */
#define ROWS_TILE 32768
/* Prefetch distance in elements. It reaches into the next page, where the processor's own
 * prefetch stops. */
#define ROWS_AHEAD 1024

static inline int64_t rows_per_tile(int64_t n)
{
    return n < ROWS_TILE ? ROWS_TILE / (n > 0 ? n : 1) : 1;
}
static inline int64_t rows_tiles(int64_t rows, int64_t n)
{
    int64_t per = rows_per_tile(n);
    return (rows + per - 1) / per;
}
static inline int64_t rows_end(int64_t rows, int64_t from, int64_t per)
{
    return rows - from < per ? rows : from + per;
}

#endif

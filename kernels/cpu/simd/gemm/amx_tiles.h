/* amx_tiles.h: matrix registers (tiles), and the sums of 32 rows times 32 lanes that four of
 * these registers hold; a part of amx.c and of stored/amx.c. amx_pack.h defines the panels.
 *
 * Each register that is loaded is multiplied twice. Registers are loaded from the second cache
 * at three quarters of the rate of the instructions, if their lines are neighbours. Lines whose
 * distance is a power of two remove each other from the first cache. So rows are copied unless
 * they are multiplied with only few lanes. */
#ifndef MF_SIMD_GEMM_AMX_TILES_H
#define MF_SIMD_GEMM_AMX_TILES_H

#include "kernels/cpu/simd/gemm/amx_instructions.h"
#include "kernels/cpu/simd/gemm/amx_pack.h"

/* ---- 32 rows and lanes ---- */

/* The memory that is prefetched to the second cache: rows of `length` bytes, `gap` bytes apart.
 * `lines` lines are prefetched for every 16 words that are multiplied; `left` lines remain. */
typedef struct fetcher {
    const char *at, *end; /* end: end of the present row */
    int64_t length, gap, lines, left;
} fetcher;

/* A row panel and a lane panel. The words of the lane panel are ldv apart (32, or 16 for a last
 * panel of packed weights). If rows are read in place, `rows` is their first element, and they
 * are `ld` bytes apart; otherwise ld is 0. */
typedef struct panels {
    const char *rows, *lanes;
    int64_t ld, ldv, words;
    /* These are flags. If they were bytes, the compiler would write them with a store for which
     * add_panels must wait, which takes 15 % of the time of short inner indices. */
    int64_t more_rows, more_lanes; /* the panel has more than 16 rows or lanes */
    int64_t rows_far;              /* rows are loaded from the second cache, and lanes from
                                    * the first */
    fetcher *soon;
} panels;

static void clear_sums(void)
{
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
}

/* Prefetches 8 lines, `step` bytes apart; returns the address behind the last line. */
V_INLINE const char *fetch_lines(const char *at, int64_t step)
{
    V_UNROLL
    for (int i = 0; i < 8; i++, at += step)
        __builtin_prefetch(at);
    return at;
}

V_INLINE void fetch_ahead(fetcher *a)
{
    const char *at = a->at, *end = a->end;
    const int64_t count = a->lines < a->left ? a->lines : a->left;
    for (int64_t n = 0; n < count; n++) {
        __builtin_prefetch(at, 0, 2);
        at += 64;
        if (at < end) continue;
        at = end + a->gap;
        end = at + a->length;
    }
    a->at = at;
    a->end = end;
    a->left -= count;
}

/* Multiplies two panels. in_place must be a constant for the compiler. Prefetches the side
 * that is not loaded from the first cache; if rows are read in place, prefetches the next
 * row panel. */
V_INLINE void add_panels_as(const panels *p, bool in_place)
{
    const int64_t rows = in_place ? p->ld : 64, below = TILE_ROWS * rows,
                  next_row = in_place ? 64 : 8 * TILE, lanes = 4 * p->ldv,
                  next_lane = TILE_WORDS * lanes, step = in_place ? rows : 64,
                  next_far = in_place || p->rows_far ? next_row : next_lane;
    const char *row = p->rows, *lane = p->lanes,
               *far = in_place      ? row + ROW_PANEL * rows
                      : p->rows_far ? row + 2 * next_row
                                    : lane + 2 * next_lane;
    if (p->more_rows && p->more_lanes) {
        for (int64_t q = 0; q < p->words;
             q += TILE_WORDS, row += next_row, lane += next_lane, far += next_far) {
            TILE_LOAD(6, lane, lanes);
            TILE_LOAD(4, row, rows);
            TILE_DOT(0, 4, 6);
            const char *at = fetch_lines(far, step);
            TILE_LOAD(7, lane + 64, lanes);
            TILE_DOT(1, 4, 7);
            at = fetch_lines(at, step);
            TILE_LOAD(5, row + below, rows);
            TILE_DOT(2, 5, 6);
            at = fetch_lines(at, step);
            TILE_DOT(3, 5, 7);
            fetch_lines(at, step);
            fetch_ahead(p->soon);
        }
        return;
    }
    for (int64_t q = 0; q < p->words;
         q += TILE_WORDS, row += next_row, lane += next_lane, far += next_far) {
        TILE_LOAD(4, row, rows);
        TILE_LOAD(6, lane, lanes);
        TILE_DOT(0, 4, 6);
        const char *at = fetch_lines(fetch_lines(far, step), step);
        if (p->more_rows) {
            TILE_LOAD(5, row + below, rows);
            TILE_DOT(2, 5, 6);
            fetch_lines(fetch_lines(at, step), step);
        }
        if (p->more_lanes) {
            TILE_LOAD(7, lane + 64, lanes);
            TILE_DOT(1, 4, 7);
            if (p->more_rows) TILE_DOT(3, 5, 7);
        }
        fetch_ahead(p->soon);
    }
}

/* This is a separate function, so that the compiler does not save registers for
 * both versions. */
static void __attribute__((noinline, unused)) add_in_place(const panels *p)
{
    add_panels_as(p, true);
}
static void __attribute__((noinline)) add_packed(const panels *p)
{
    add_panels_as(p, false);
}

/* Writes the sums [32][ld]. */
static void store_sums(float *to, int64_t ld)
{
    const int64_t bytes = ld * (int64_t)sizeof *to;
    TILE_STORE(0, to, bytes);
    TILE_STORE(1, to + 16, bytes);
    TILE_STORE(2, to + TILE_ROWS * ld, bytes);
    TILE_STORE(3, to + TILE_ROWS * ld + 16, bytes);
}

#endif

/* prefetch.h: lists the addresses that the micro-kernel prefetches while it multiplies: parts
 * of operands that it reads later. It is a part of the engine.
 *
 * The latency of the last-level cache is some hundred cycles. Rows of an operand are too short
 * and too many for the processor's own prefetch. So each address of the list represents a piece
 * of PIECE bytes; the loop over the inner index prefetches one line of the piece every
 * four words. */
#ifndef MF_SIMD_GEMM_PREFETCH_H
#define MF_SIMD_GEMM_PREFETCH_H

#include "kernels/cpu/simd/gemm/pack.h"

#define PIECE 512 /* bytes of a piece: 8 lines */
/* number of words of the inner index during which a piece is prefetched */
#define PIECE_WORDS 32

/* A part of an operand, and how far it has been prefetched. */
typedef struct agenda {
    gemm_side side;
    int64_t row, end;     /* stored rows that remain */
    int64_t from, to, at; /* columns of each row; next column of row `row` */
} agenda;

/* Begins the list for the elements of a side from i to before iend, over the inner indices from
 * p to before pend. */
static inline agenda agenda_of(const gemm_side *s, int64_t i, int64_t iend, int64_t p,
                               int64_t pend)
{
    agenda a = {.side = *s, .row = s->along ? i : p, .end = s->along ? iend : pend};
    a.from = a.at = s->along ? p : i;
    a.to = s->along ? pend : iend;
    return a;
}

/* Writes the addresses of the next pieces, at most `most`, and advances. Returns the number
 * of addresses. */
V_INLINE int64_t next_pieces(agenda *a, int64_t most, const char **ret)
{
    const int64_t width = a->side.type == MF_CAST_F32 ? PIECE / 4 : PIECE / 2;
    int64_t n = 0;
    while (n < most && a->row < a->end) {
        const int64_t row = stored_row(&a->side, a->row);
        const char *at = at_element(&a->side, row < 0 ? 0 : row, a->at);
        for (; n < most && a->at < a->to; a->at += width, at += PIECE)
            ret[n++] = at;
        if (a->at >= a->to) {
            a->row++;
            a->at = a->from;
        }
    }
    return n;
}

#endif

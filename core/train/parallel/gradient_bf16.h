/* train/parallel/gradient_bf16.h: gradients of micro-batches in bf16 (parallel.gradient).
 *
 * The gradient of each micro-batch is rounded to bf16 before it is added to others, in every
 * run, also of one process; sums are f32. So a gradient of one micro-batch can travel in half
 * the bytes, and the sum of all has the same bits whether it does or not.
 *
 * A piece of several micro-batches travels as f32. Rounding the sums, too, would let all pieces
 * travel as bf16, and lose precision at each level of the tree. Gradients of experts that ranks
 * share do not travel and are not rounded. */
#ifndef MF_TRAIN_GRADIENT_BF16_H
#define MF_TRAIN_GRADIENT_BF16_H

#include "graph/device/device.h"
#include "train/parallel/tree.h"

/* Elements that are converted at a time. */
enum { MF_GRADIENT_CHUNK = 1 << 18 };

/* Bytes of a piece of so many elements; bf16: gradients are rounded to it, so those of one
 * micro-batch travel in it. */
static inline int64_t mf_piece_bytes(mf_piece piece, int64_t elements, bool bf16)
{
    return elements * (bf16 && piece.end - piece.first == 1 ? 2 : 4);
}

/* Rounds x[n] to values of bf16. room [MF_GRADIENT_CHUNK]; both on device d. Queued. */
void mf_gradient_round(mf_device *d, float *x, int64_t n, uint16_t *room);
/* On the host: writes x[n] as bf16 to the first half of its own memory; and reads it. */
void mf_gradient_pack(float *x, int64_t n, uint16_t *room);
void mf_gradient_unpack(const void *x, int64_t n, float *to);

#endif

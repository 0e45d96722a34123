/* train/parallel/gradient_bf16.h: gradients of micro-batches in bf16 (parallel.gradient).
 *
 * The gradient of each micro-batch is rounded to bf16 before it is added to others. This is
 * done in every run, also with one process; sums are f32. So a gradient of one micro-batch can
 * be sent in half the bytes, and the total has the same bits whether it is sent or not.
 *
 * A piece of several micro-batches is sent as f32. Rounding the sums, too, would allow sending
 * all pieces as bf16, but would lose precision at each level of the tree. Gradients of experts
 * that ranks share are not sent and not rounded. */
#ifndef MF_TRAIN_GRADIENT_BF16_H
#define MF_TRAIN_GRADIENT_BF16_H

#include "graph/device/device.h"
#include "train/parallel/tree.h"

/* Number of elements that are converted at a time. */
enum { MF_GRADIENT_CHUNK = 1 << 18 };

/* Returns the bytes of a piece of `elements` elements. bf16: gradients are rounded to bf16, so
 * the gradient of one micro-batch is sent as bf16. */
static inline int64_t mf_piece_bytes(mf_piece piece, int64_t elements, bool bf16)
{
    return elements * (bf16 && piece.end - piece.first == 1 ? 2 : 4);
}

/* Rounds x[n] to values of bf16. room [MF_GRADIENT_CHUNK] is work memory; both are on device d.
 * The work is queued. */
void mf_gradient_round(mf_device *d, float *x, int64_t n, uint16_t *room);
/* On the host: mf_gradient_pack writes x[n] as bf16 to the first half of the memory of x; the
 * next function reads it back. */
void mf_gradient_pack(float *x, int64_t n, uint16_t *room);
void mf_gradient_unpack(const void *x, int64_t n, float *to);

#endif

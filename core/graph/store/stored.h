/* graph/store/stored.h: sizes of stored weights, and their copies on devices. */
#ifndef MF_GRAPH_STORED_H
#define MF_GRAPH_STORED_H

#include "graph/store/param.h"
#include "kernels/kernel.h"

/* number of pointers of a part: data, scales, zeros, group_of */
enum { MF_STORED_POINTERS = 4 };

/* Computes the bytes behind each pointer of a part of a weight with `in` inputs, whose numbers
 * have been checked. The result is 0 for pointers that the type of the part does not use. */
void mf_stored_sizes(const mf_stored_part *p, int64_t in, uint64_t ret[MF_STORED_POINTERS]);
/* Whether the kernels of devices other than the host can read a weight. They have no decoding
 * for the types behind MXFP4, for scales in bf16, and for whole zeros. */
bool mf_stored_fits_devices(const mf_stored *w);
/* Returns the pointers of a part, in the same order as the sizes. */
void mf_stored_pointers(const mf_stored_part *p, const void *ret[MF_STORED_POINTERS]);

/* Returns the bytes on a device of the weights to which parameters of the store are bound. */
size_t mf_store_stored_bytes(const mf_store *s);

#endif

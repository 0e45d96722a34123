/* graph/store/stored.h: sizes of stored weights, and their copies on devices. */
#ifndef MF_GRAPH_STORED_H
#define MF_GRAPH_STORED_H

#include "graph/store/param.h"
#include "kernels/stored.h"

enum { MF_STORED_POINTERS = 4 }; /* of a part: data, scales, zeros, group_of */

/* Bytes behind the pointers of a part of a weight with `in` inputs, whose numbers have been
 * checked; 0 where its type has none. */
void mf_stored_sizes(const mf_stored_part *p, int64_t in, uint64_t ret[MF_STORED_POINTERS]);
void mf_stored_pointers(const mf_stored_part *p, const void *ret[MF_STORED_POINTERS]);

#endif

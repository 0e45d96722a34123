/* comm/expert_merge.h: the rows of all ranks that share the experts, as one batch.
 *
 * An expert then multiplies the rows of all senders at once (parallel.exact = no). The gemms
 * are larger, and the order of sums depends on the number of ranks. */
#ifndef MF_COMM_EXPERT_MERGE_H
#define MF_COMM_EXPERT_MERGE_H

#include "comm/expert_ranks.h"

/* x [ranks R, d], f32 or bf16, from mf_expert_send -> [ranks R, d]. The result has first the
 * rows of the first local expert, rank after rank, then the rows of the second expert, and so
 * on, with zeros after the last row. */
mf_tensor *mf_expert_merge(mf_graph *g, const mf_expert_routes *r, mf_tensor *x);
/* Moves the same rows back to the order that mf_expert_return expects. */
mf_tensor *mf_expert_unmerge(mf_graph *g, const mf_expert_routes *r, mf_tensor *y);
/* Returns the offsets of the merged rows, [E/ranks+1] i32. */
mf_tensor *mf_expert_merged_offset(mf_graph *g, const mf_expert_routes *r);

#endif

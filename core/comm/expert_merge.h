/* comm/expert_merge.h: the rows of all ranks that share the experts, as one batch.
 *
 * An expert then multiplies the rows of all senders at once (parallel.exact = no): larger
 * gemms, and sums whose order depends on the number of ranks. */
#ifndef MF_COMM_EXPERT_MERGE_H
#define MF_COMM_EXPERT_MERGE_H

#include "comm/expert_ranks.h"

/* x [ranks R, d], f32 or bf16, as mf_expert_send gives it -> [ranks R, d]: first the rows of
 * the first local expert, rank after rank, then those of the second, ..; zeros behind them. */
mf_tensor *mf_expert_merge(mf_graph *g, const mf_expert_routes *r, mf_tensor *x);
/* Moves the same rows back to the order that mf_expert_return expects. */
mf_tensor *mf_expert_unmerge(mf_graph *g, const mf_expert_routes *r, mf_tensor *y);
/* [E/ranks+1] i32: the offsets of the merged rows. */
mf_tensor *mf_expert_merged_offset(mf_graph *g, const mf_expert_routes *r);

#endif

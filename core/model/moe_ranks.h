/* model/moe_ranks.h: the experts of an MoE layer that several ranks share (parallel.expert). */
#ifndef MF_MODEL_MOE_RANKS_H
#define MF_MODEL_MOE_RANKS_H

#include "model/moe.h"

/* As mf_instance_expert, on the rows of all ranks that share the experts; each has a part of
 * them. One rank's rows after the other's, so that each gemm has the rows that it has in one
 * process; with e->merged those of all ranks at once. Returns the results of the own rows, or
 * NULL: mf_graph_status says why. */
mf_tensor *mf_moe_shared_experts(const mf_moe_layer *layer, const mf_expert_ranks *e,
                                 mf_graph *g, const mf_expert_in *in);

#endif

/* model/block.h: the parts of a transformer block, as parameters and as graph nodes. Functions
 * that add nodes return NULL if the graph has failed. */
#ifndef MF_MODEL_BLOCK_H
#define MF_MODEL_BLOCK_H

#include "model/model.h"

/* Declares the parameters of embedding, positions, attention, norms, dense feed-forward blocks
 * and heads. In between it makes the adapters of MF_ADAPT_ATTENTION and MF_ADAPT_BLOCK. */
int mf_blocks_declare(mf_model *m);

/* Returns the block whose attention weights this block uses. This is the block itself, or with
 * share_layers the first block. */
int32_t mf_block_attention_source(const mf_model *m, int32_t layer);
/* Returns the block whose experts or feed-forward layer this block uses. This is the block
 * itself, or with share_layers the first block of the same kind. */
int32_t mf_block_source(const mf_model *m, int32_t layer);

/* Applies the norm whose parameters have this name, for example "layers.3.norm1" or "norm".
 * for_gemms: gemms read the result, so it is bf16 if gemms read bf16. */
mf_tensor *mf_block_norm(const mf_model *m, mf_graph *g, const char *name, mf_tensor *x,
                         bool for_gemms);
/* x [T,d] -> attention output [T,d], before the residual sum. If all heads of the layer are
 * pruned, returns the bias [d], or NULL without a bias. */
mf_tensor *mf_block_attention(const mf_model *m, mf_model_graph *mg, int32_t layer,
                              mf_tensor *x);
/* x [T,d] -> [T,d]: the feed-forward layer of a block without experts. */
mf_tensor *mf_block_dense(const mf_model *m, mf_graph *g, int32_t layer, mf_tensor *x);
/* tokens -> [T,d]. Positions are added if the model uses a table of positions. */
mf_tensor *mf_block_embed(const mf_model *m, mf_model_graph *mg);
/* x [T,d] -> [B,d]: the vector of each sequence that the heads of tasks read. */
mf_tensor *mf_block_pool(const mf_model *m, mf_model_graph *mg, mf_tensor *x);
/* [n,d] -> [n,V], logits of tokens */
mf_tensor *mf_block_head(const mf_model *m, mf_graph *g, mf_tensor *x);
/* x [n,d] -> [n,classes], or [n,1] for a number, by the head of task i (model.h). */
mf_tensor *mf_block_task_head(const mf_model *m, mf_graph *g, int i, mf_tensor *x);
/* x [T,d] -> mean loss of the targets, without the matrix of logits. Sets mg->row_loss if a
 * plugin reads the losses of tokens; the head must then have no bias. */
mf_tensor *mf_block_head_loss(const mf_model *m, mf_model_graph *mg, mf_tensor *x);

#endif

/* model/block.h: the parts of a transformer block, as parameters and as graph nodes. */
#ifndef MF_MODEL_BLOCK_H
#define MF_MODEL_BLOCK_H

#include "model/model.h"

/* Declares the parameters of everything but plugins: embedding, positions, attention, norms,
 * dense feed-forward blocks, gates, skips, head. */
int mf_blocks_declare(mf_model *m);

/* The block whose attention weights this one uses: itself, or with share_layers the first. */
int32_t mf_block_attention_source(const mf_model *m, int32_t layer);
/* The block whose experts, or feed-forward, this one uses: itself, or with share_layers the
 * first block of its kind. */
int32_t mf_block_source(const mf_model *m, int32_t layer);

/* Norm of a name: "layers.3.norm1", "norm". for_products: its result goes into products alone,
 * so that it is bf16 where they are. */
mf_tensor *mf_block_norm(const mf_model *m, mf_graph *g, const char *name, mf_tensor *x,
                         bool for_products);
/* x [T,d] -> attention output [T,d], before the residual sum; of a layer whose heads are all
 * pruned the bias [d], or NULL without one. */
mf_tensor *mf_block_attention(const mf_model *m, mf_model_graph *mg, int32_t layer,
                              mf_tensor *x);
/* Dense feed-forward of a layer without experts. */
mf_tensor *mf_block_dense(const mf_model *m, mf_graph *g, int32_t layer, mf_tensor *x);
/* tokens -> [T,d] with positions added where the model adds them. */
mf_tensor *mf_block_embed(const mf_model *m, mf_model_graph *mg);
/* U-Net skip into a layer of the decoder half: Linear([h_encoder; h]), or, as the published
 * code has it, h + scale Linear([h; h_encoder]). To be left out while m->skip_scale is 0. */
mf_tensor *mf_block_skip(const mf_model *m, mf_graph *g, int32_t layer, mf_tensor *h,
                         mf_tensor *encoder);
/* x [T,d] -> [B,d]: what a sequence is classified by. */
mf_tensor *mf_block_pool(const mf_model *m, mf_model_graph *mg, mf_tensor *x);
/* [n,d] -> [n,V], of tokens */
mf_tensor *mf_block_head(const mf_model *m, mf_graph *g, mf_tensor *x);
/* [n,d] -> [n,classes] or, of a number, [n,1], by the head of task i (model.h). */
mf_tensor *mf_block_task_head(const mf_model *m, mf_graph *g, int i, mf_tensor *x);
/* x [T,d] -> mean loss of the targets, without logits in memory. */
mf_tensor *mf_block_head_loss(const mf_model *m, mf_model_graph *mg, mf_tensor *x);

#endif

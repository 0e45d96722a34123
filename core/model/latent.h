/* model/latent.h: attention whose keys and values come from one latent vector per token
 * (multi-head latent attention; DeepSeek-AI 2024, section 2.1).
 *
 * Parameters in layers.N.attention, with H heads, d = dim, r = rope_dims, v = value_dim (width
 * of a value) and n + r = head_dim (width of a key, whose last r columns are rotated):
 *     q.weight [H (n + r), d]; with latent_q = p > 0: q_down.weight [p, d],
 *     q_latent_norm.weight [p], q_up.weight [H (n + r), p]
 *     kv_down.weight [latent + r, d], kv_latent_norm.weight [latent]
 *     k_up.weight [H n, latent], v_up.weight [H v, latent]
 *     with attention_bias: kv_down.bias [latent + r], q_down.bias [p]
 *
 * Without a cache, keys and values of all heads are computed from the latent vectors. With a
 * cache, the weights of keys are applied to the queries, and the weights of values are applied
 * to the weighted sums, so a token reads only the latent vectors. Both ways compute the same
 * numbers up to rounding. */
#ifndef MF_MODEL_LATENT_H
#define MF_MODEL_LATENT_H

#include "model/model.h"
#include "ops/layers/attention.h"

/* Declares the parameters of a layer. Errors are those of mf_store_declare. */
int mf_latent_declare(mf_model *m, int32_t layer, mf_init init);
/* The linear layers that adapters may change: attention.q, or q_a (down) and q_b (up), then
 * kv_a (down) and kv_b. The weight of kv_b contains for each head first the rows of keys, then
 * the rows of values. If a name is NULL, the model does not have that layer. */
enum { MF_LATENT_SITES = 5 };
void mf_latent_sites(const mf_model_config *c, mf_linear_site ret[MF_LATENT_SITES]);
/* Returns the width of a token in the cache: latent + rope_dims. */
int64_t mf_latent_width(const mf_model_config *c);
/* in [T,d] -> [T, H v]. args contains mask, kv_len, batch, causal, window and scale. layer: the
 * block; from: the block that owns the weights. */
mf_tensor *mf_latent_attention(const mf_model *m, mf_model_graph *mg, int32_t layer,
                               int32_t from, mf_tensor *in, const mf_attend_args *args);

#endif

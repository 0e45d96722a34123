/* delta/delta.h: what takes the place of attention in some blocks.
 *
 * In those of model.delta_layers this is the gated delta rule (Yang et al. 2024, arXiv
 * 2412.06464). Each of H value heads has a matrix S [k,v], which reads and writes a token's
 * vectors q, k, v:
 *
 *     S = e^g S,   S = S + b k (v - S^T k)^T,   y = S^T q,
 *     g = -e^a_log softplus(a + dt_bias),   b = sigmoid(b)
 *
 * q, k and v come from the block's input by a linear layer, a convolution over time by channel,
 * and silu. q and k have length 1, and q is divided by the root of its width. a, b and the gate
 * z come from linear layers. The result is W (w y / rms(y) silu(z)).
 *
 * Parameters: layers.N.delta.{qkv,z,a,b,out}.weight, with delta_grouped {qkvz,ba,out}.weight,
 * delta.conv.weight [channels,1,taps], delta.norm.weight [v], delta.{a_log,dt_bias} [H].
 *
 * In those of model.conv_layers it is a short convolution (LFM2, Liquid AI 2025): b, c and x
 * come from the block's input by one linear layer, and the result is W (c conv(b x)).
 * Parameters: layers.N.conv.{in,out}.weight, conv.conv.weight [d,1,taps], with conv_bias also
 * their biases. */
#ifndef MF_DELTA_DELTA_H
#define MF_DELTA_DELTA_H

#include "model/model.h"

/* Whether the block has one of them in place of attention. */
bool mf_delta_has(const mf_model_config *c, int32_t layer);
/* Declares the parameters of a block. inner, out: initial values of the linear layers before
 * and after it. */
int mf_delta_declare(mf_model *m, int32_t layer, mf_init inner, mf_init out);
/* Declares what a block keeps of earlier tokens: the inputs of the convolution, and S. */
int mf_delta_cache(const mf_model *m, int32_t layer, mf_cache *cache);
/* x [T,d] -> [T,d], before the residual sum. */
mf_tensor *mf_delta_build(const mf_model *m, mf_model_graph *mg, int32_t layer, mf_tensor *x);

#endif

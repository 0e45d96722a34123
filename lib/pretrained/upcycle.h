/* pretrained/upcycle.h: a model with experts that computes the same function as a dense model.
 *
 * Every dense block becomes an MoE layer whose experts all have the block's weights. The choice
 * of experts therefore does not matter if the gates of a token sum to 1 (Komatsuzaki et al.
 * 2023). With expert.plugin=lora_experts the experts share the block's weights. These weights
 * are frozen, like all other parameters of the dense model. */
#ifndef MF_PRETRAINED_UPCYCLE_H
#define MF_PRETRAINED_UPCYCLE_H

#include "pretrained/keys.h"
#include "run/session.h"

/* Adds the settings of the new model to k. text: "experts=4,top_k=2", and any other keys as
 * SECTION.KEY=VALUE. MF_EUSAGE if the text has another form, or if the model has experts
 * already; MF_ENOMEM. */
int mf_upcycle_settings(const mf_session *dense, const char *text, mf_keys *k);
/* Copies all weights of the dense model; routers and low-rank changes keep their initial
 * values. MF_EUSAGE if a parameter has no counterpart, because a setting of the text
 * requires it. */
int mf_upcycle_fill(const mf_session *dense, mf_session *experts);

#endif

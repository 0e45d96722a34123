/* pretrained/upcycle.h: a model with experts that computes the same as a dense one.
 *
 * Every dense block becomes an MoE layer whose experts all have the block's weights, so the
 * choice does not matter while the gates of a token sum to 1 (Komatsuzaki et al. 2023). With
 * expert.plugin=lora_experts the experts share the block's weights, which are frozen with all
 * else that the dense model has. */
#ifndef MF_PRETRAINED_UPCYCLE_H
#define MF_PRETRAINED_UPCYCLE_H

#include "pretrained/keys.h"
#include "run/session.h"

/* Adds the settings of the new model to k. text: "experts=4,top_k=2", and any other keys as
 * SECTION.KEY=VALUE. MF_EUSAGE if the text has another form, or if the model has experts
 * already; MF_ENOMEM. */
int mf_upcycle_settings(const mf_session *dense, const char *text, mf_keys *k);
/* Copies all weights of the dense model; routers and low-rank changes keep their initial
 * values. MF_EUSAGE if a parameter has no counterpart: a setting of the text asks for it. */
int mf_upcycle_fill(const mf_session *dense, mf_session *experts);

#endif

/* lab/analyze/outputs.h: how much the experts of a layer differ in what they compute. Every
 * expert computes the same tokens, whichever the router would choose. */
#ifndef MF_LAB_ANALYZE_OUTPUTS_H
#define MF_LAB_ANALYZE_OUTPUTS_H

#include "base/mem.h"
#include "lab/analyze/analysis.h"
#include "lab/trace/trace.h"
#include "model/model.h"

/* Compares outputs f [E, n, dim] of E experts for n tokens. Fills the fields of *ret except
 * values and sd. Arrays are in the arena. MF_ENOMEM. */
int mf_outputs_compare(const float *f, int32_t experts, int32_t n, int64_t dim, mf_arena *arena,
                       mf_expert_outputs *ret);

/* Computes the outputs of the experts of MoE layer i of the model, for tokens of a trace of one
 * batch that has the routers' inputs, and those of the layer with the router's own choice.
 * Fails like the plugins and their graphs. */
int mf_expert_outputs_of(mf_model *m, int i, const mf_trace *t, mf_arena *arena,
                         mf_expert_outputs *ret);

#endif

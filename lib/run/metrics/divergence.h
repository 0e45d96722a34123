/* run/metrics/divergence.h: how much the predictions of two models differ. */
#ifndef MF_RUN_DIVERGENCE_H
#define MF_RUN_DIVERGENCE_H

#include "data/batch.h"
#include "model/model.h"

/* Computes the sum over the targets of a batch of KL(a, b) of the predicted probabilities, in
 * nats. Both graphs must keep their logits and must have run on the batch. NaN if numbers are
 * predicted. Equal logits give 0. MF_EINVAL if a graph keeps no logits, MF_ENOMEM. */
int mf_predictions_divergence(const mf_batch *batch, const mf_model_graph *a,
                              const mf_model_graph *b, double *ret);

#endif

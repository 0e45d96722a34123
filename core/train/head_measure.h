/* train/head_measure.h: measures gated attention heads: the loss without each of them, and the
 * gradients of their weights. */
#ifndef MF_TRAIN_HEAD_MEASURE_H
#define MF_TRAIN_HEAD_MEASURE_H

#include "model/heads.h"
#include "train/run/session.h"

/* For each active head, adds weight x (task loss without it - task loss) for the inputs of a
 * graph with try_heads; sum [layers, heads]. Takes one forward pass per head, and one more. */
int mf_heads_try(mf_model_graph *probe, const mf_run *run, const mf_head_record *active,
                 double weight, double *sum);
/* Writes relu of these values divided by the largest, 0 .. 1, into the record. */
void mf_heads_importance(mf_head_record *r, const double *sum);

/* Measures gradient norms, as the mean over `batches` batches of a split (0: all) in the form
 * that training steps would have them, and importance by the mean loss of these batches. Both
 * go into the record, which tells the active heads. The session must have gradients. */
int mf_heads_measure(mf_session *s, mf_split split, int64_t batches, int64_t step,
                     mf_head_record *r);

#endif

/* train/head_measure.h: what attention heads are worth: the loss with one of them left out, and
 * the gradients of their weights. Of models whose heads are gated.
 */
#ifndef MF_TRAIN_HEAD_MEASURE_H
#define MF_TRAIN_HEAD_MEASURE_H

#include "model/heads.h"
#include "train/session.h"

/* Adds, for each head that is active, weight x (task loss without it - task loss) of what was
 * fed to a graph of try_heads; sum [layers, heads]. One run forward a head, and one. */
int mf_heads_try(mf_model_graph *probe, const mf_run *run, const mf_head_record *active,
                 double weight, double *sum);
/* relu of these over the largest, 0 .. 1, into the record. */
void mf_heads_importance(mf_head_record *r, const double *sum);

/* Gradient norms, the mean over so many batches of a split (0: all), as steps of training would
 * find them, and importance by the mean loss of these batches; both into the record, which says
 * what heads are active. The session: one with gradients. */
int mf_heads_measure(mf_session *s, mf_split split, int64_t batches, int64_t step,
                     mf_head_record *r);

#endif

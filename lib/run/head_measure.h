/* run/head_measure.h: measures attention heads that can be switched off: the loss without
 * each of them, and the norms of their gradients. */
#ifndef MF_RUN_HEAD_MEASURE_H
#define MF_RUN_HEAD_MEASURE_H

#include "run/observers/head_tally.h"
#include "run/session.h"

/* Adds weight x (task loss without the head - task loss) to sum [layers, heads] for each active
 * head. probe: a graph built with try_heads whose inputs are filled. run has forward_only set.
 * Runs one forward pass per active head and one more. */
int mf_heads_try(mf_model_graph *probe, const mf_run *run, const mf_head_record *active,
                 double weight, double *sum);
/* Writes the importance of each head into the record: relu(sum) divided by the largest
 * relu(sum). The result is in [0,1]; it is 0 for all heads if no sum is positive. */
void mf_heads_importance(mf_head_record *r, const double *sum);

/* Measures gradient norms and importance over at most `batches` batches of a split (0: all),
 * and writes them into the record. Gradient norms are means over batches of the norm of the
 * gradient of one batch; importance follows from the mean loss per target. The record must
 * contain the active heads, and the session must have gradients. */
int mf_heads_measure(mf_session *s, mf_split split, int64_t batches, int64_t step,
                     mf_head_record *r);

#endif

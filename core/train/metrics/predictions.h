/* train/metrics/predictions.h: what heads answered against what is true, task by task, summed
 * over batches.
 *
 *   classify  loss: mean cross entropy of the rows that have a class; accuracy and macro F1
 *   regress   loss: mean squared error of the rows that have a number; Pearson's r, Spearman's
 *             rho
 */
#ifndef MF_TRAIN_ANSWERS_H
#define MF_TRAIN_ANSWERS_H

#include "data/batch.h"
#include "model/model.h"
#include "train/metrics/metrics.h"

typedef struct mf_predictions mf_predictions;

/* For the model's tasks; *ret NULL where it has none. rows: at most so many between two
 * clears. */
int mf_predictions_new(const mf_model *m, int64_t rows, mf_predictions **ret);
/* All but new takes NULL, and does nothing then. */
void mf_predictions_free(mf_predictions *a);
void mf_predictions_clear(mf_predictions *a);
/* After a run of a graph that keeps its logits. */
void mf_predictions_add(mf_predictions *a, const mf_batch *batch, const mf_model_graph *mg);
/* Fills what records say of tasks; what they point to is the answers' own, until the next
 * score. */
void mf_predictions_score(mf_predictions *a, mf_metrics_record *r);
/* Examples of the first task that have a class, and those predicted right; 0 for numbers. */
void mf_predictions_hits(const mf_predictions *a, double *ret_rows, double *ret_hits);

#endif

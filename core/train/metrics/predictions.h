/* train/metrics/predictions.h: compares predictions with the truth, by task, over all batches.
 *
 *   classify  loss: mean cross entropy of the examples that have a class; accuracy, macro F1
 *   regress   loss: mean squared error of the examples that have a number; Pearson's r,
 *             Spearman's rho */
#ifndef MF_TRAIN_PREDICTIONS_H
#define MF_TRAIN_PREDICTIONS_H

#include "data/batch.h"
#include "model/model.h"
#include "train/metrics/metrics.h"

typedef struct mf_predictions mf_predictions;

/* Allocates sums for the tasks of a model; *ret is NULL if it has none. rows: largest number of
 * examples between two calls of mf_predictions_clear. */
int mf_predictions_new(const mf_model *m, int64_t rows, mf_predictions **ret);
/* This function and those below accept NULL and then do nothing. */
void mf_predictions_free(mf_predictions *a);
void mf_predictions_clear(mf_predictions *a);
/* To be called after a run of a graph that keeps its logits. */
void mf_predictions_add(mf_predictions *a, const mf_batch *batch, const mf_model_graph *mg);
/* Fills the scores of all tasks into the record. Pointers in it are valid until the
 * next call. */
void mf_predictions_score(mf_predictions *a, mf_metrics_record *r);
/* Number of examples of the first task that have a class, and of those predicted correctly;
 * both 0 for numbers. */
void mf_predictions_hits(const mf_predictions *a, double *ret_rows, double *ret_hits);

#endif

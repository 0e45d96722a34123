/* run/metrics/predictions.h: compares predictions with labels, by task, over several batches.
 *
 *   classify  loss: mean cross entropy of the examples that have a class; accuracy, macro F1
 *   regress   loss: mean squared error of the examples that have a number; Pearson's r,
 *             Spearman's rho */
#ifndef MF_RUN_PREDICTIONS_H
#define MF_RUN_PREDICTIONS_H

#include "data/batch.h"
#include "model/model.h"
#include "run/metrics/metrics.h"

typedef struct mf_predictions mf_predictions;

/* Allocates sums for the tasks of a model; *ret is NULL if the model has no such task (language
 * models). rows: largest number of examples between two calls of mf_predictions_clear.
 * MF_ECONFIG if rows is over INT32_MAX. */
int mf_predictions_new(const mf_model *m, int64_t rows, mf_predictions **ret);
/* This function and those below accept NULL for `a` and then do nothing. With NULL,
 * mf_predictions_hits returns zeros. */
void mf_predictions_free(mf_predictions *a);
void mf_predictions_clear(mf_predictions *a);
/* The predictions of one run as numbers. mf_predictions_put writes the predictions of the last
 * run of mg, which keeps its logits, to out [mf_predictions_numbers]. mf_predictions_take adds
 * such numbers to the sums. batch: the batch of that run; rows: number of examples of
 * each batch. */
int64_t mf_predictions_numbers(const mf_predictions *a, int64_t rows);
void mf_predictions_put(const mf_predictions *a, const mf_batch *batch,
                        const mf_model_graph *mg, double *out);
void mf_predictions_take(mf_predictions *a, int64_t rows, const double *in);
/* Writes the scores of all tasks into the record. Pointers in the record are valid until the
 * next call. */
void mf_predictions_score(mf_predictions *a, mf_metrics_record *r);
/* Computes the number of examples of the first task that have a class, and the number of those
 * that were predicted correctly. Both are 0 if the task predicts numbers. */
void mf_predictions_hits(const mf_predictions *a, double *ret_rows, double *ret_hits);

#endif

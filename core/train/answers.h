/* train/answers.h: what heads answered against what is true, task by task, summed over batches.
 *
 *   classify  loss: mean cross entropy of the rows that have a class; accuracy and macro F1
 *   regress   loss: mean squared error of the rows that have a number; Pearson's r, Spearman's
 *             rho
 */
#ifndef MF_TRAIN_ANSWERS_H
#define MF_TRAIN_ANSWERS_H

#include "data/batch.h"
#include "model/model.h"
#include "train/metrics.h"

typedef struct mf_answers mf_answers;

/* For the model's tasks; *ret NULL where it has none. rows: at most so many between two
 * clears. */
int mf_answers_new(const mf_model *m, int64_t rows, mf_answers **ret);
/* All but new takes NULL, and does nothing then. */
void mf_answers_free(mf_answers *a);
void mf_answers_clear(mf_answers *a);
/* After a run of a graph that keeps its logits. */
void mf_answers_add(mf_answers *a, const mf_batch *batch, const mf_model_graph *mg);
/* Fills what records say of tasks; what they point to is the answers' own, until the next
 * score. */
void mf_answers_score(mf_answers *a, mf_metrics_record *r);
/* Rows of the first task that have a class, and those guessed right; 0 for numbers. */
void mf_answers_hits(const mf_answers *a, double *ret_rows, double *ret_hits);

#endif

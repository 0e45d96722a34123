/* train/observers/observers.h: the observers that every run has, one per file.
 *
 * Each function makes an observer and adds it to the trainer, which then owns it. An observer
 * that would do nothing in this run is not added. trainer.c determines their order. */
#ifndef MF_TRAIN_OBSERVERS_H
#define MF_TRAIN_OBSERVERS_H

#include "train/trainer.h"

int mf_observe_routing(mf_trainer *t);     /* statistics of layers, assignments over capacity */
int mf_observe_heads(mf_trainer *t);       /* gates, entropy, gradients, importance of heads */
int mf_observe_predictions(mf_trainer *t); /* of classifiers and regression, during training */
int mf_observe_traces(mf_trainer *t);      /* [trace] every: routing of validation batches */
int mf_observe_controllers(mf_trainer *t); /* plugins' after_step, controllers */
/* config.ini, manifest, tokenizer, initial weights */
int mf_observe_run_files(mf_trainer *t);
int mf_observe_metrics_log(mf_trainer *t); /* records, and metrics.jsonl */
int mf_observe_memory_log(mf_trainer *t);  /* memory.jsonl */
int mf_observe_history(mf_trainer *t);     /* past records, for controllers */
int mf_observe_checkpoints(mf_trainer *t); /* by train.save_every, and RUN/best */
int mf_observe_samples(mf_trainer *t);     /* routing of a text, for pictures */
int mf_observe_limits(mf_trainer *t); /* train.time_limit, mf_trainer_options.should_stop */

/* ---- evaluation: by train.eval_every, at the end, and on request of the caller ---- */

typedef struct mf_evaluation mf_evaluation;
int mf_observe_evaluation(mf_trainer *t, mf_evaluation **ret);
/* Evaluates training data if train.eval_train is set; otherwise *ret_measured is false. */
int mf_evaluation_train(mf_evaluation *e, mf_trainer *t, mf_metrics_record *r,
                        bool *ret_measured);
/* Evaluates the validation split. To be called after mf_evaluation_train with the same weights,
 * because gaps in the record compare the two. batches: at most so many; 0: all. */
int mf_evaluation_val(mf_evaluation *e, mf_trainer *t, int64_t batches, mf_metrics_record *r);
/* loss of the last evaluation; NaN: none yet */
double mf_evaluation_loss(const mf_evaluation *e);
/* Evaluator of the validation split; NULL without one. */
mf_evaluator *mf_evaluation_evaluator(const mf_evaluation *e);
/* Mutual information of experts and labels for each MoE layer at the end of training; NaN
 * without labels. */
void mf_evaluation_nmi(const mf_evaluation *e, const double **ret_nmi,
                       const double **ret_random);

#endif

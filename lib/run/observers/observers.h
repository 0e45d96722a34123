/* run/observers/observers.h: the observers that every run has, one per file.
 *
 * Each function makes an observer and adds it to the trainer, which then owns it. Some
 * functions add no observer if this run does not need it. run/training.c determines the order
 * of the observers. */
#ifndef MF_RUN_OBSERVERS_H
#define MF_RUN_OBSERVERS_H

#include "run/routes/routes.h"
#include "run/training.h"

int mf_observe_routing(mf_trainer *t); /* statistics of layers, assignments over capacity */
/* train.routes = trace: how far the router agrees. from NULL: no observer is needed. */
int mf_observe_routes(mf_trainer *t, mf_routes *from);
int mf_observe_heads(mf_trainer *t);       /* gates, entropy, gradients, importance of heads */
int mf_observe_predictions(mf_trainer *t); /* predictions for examples, during training */
int mf_observe_traces(mf_trainer *t);      /* trace.every: routing of validation batches */
int mf_observe_controllers(mf_trainer *t); /* plugins' after_step, controllers */
/* config.ini, manifest.json, tokenizer.json, weights.json of a new run */
int mf_observe_run_files(mf_trainer *t);
/* Writes these files for a session that has no trainer. MF_EIO, MF_ENOMEM. */
int mf_run_files_write(mf_session *s, const mf_rundir *dir);
int mf_observe_metrics_log(mf_trainer *t); /* records, and metrics.jsonl */
int mf_observe_memory_log(mf_trainer *t);  /* memory.jsonl */
int mf_observe_tensorboard(mf_trainer *t); /* log.tensorboard: event files */
int mf_observe_mlflow(mf_trainer *t);      /* log.mlflow: records for a server */
int mf_observe_history(mf_trainer *t);     /* metric history, for controllers */
int mf_observe_checkpoints(mf_trainer *t); /* RUN/ckpt and RUN/best */
int mf_observe_samples(mf_trainer *t);     /* routing of a text, for pictures */
int mf_observe_gradients(mf_trainer *t);   /* names parameters that get no gradient */
int mf_observe_limits(mf_trainer *t); /* train.time_limit, mf_training_options.should_stop */

/* ---- evaluation: by train.eval_every, at the end, and on request of the caller ---- */

typedef struct mf_evaluation mf_evaluation;
int mf_observe_evaluation(mf_trainer *t, mf_evaluation **ret);
/* Evaluates training data if train.eval_train is set; otherwise *ret_measured is false. */
int mf_evaluation_train(mf_evaluation *e, mf_trainer *t, mf_metrics_record *r,
                        bool *ret_measured);
/* Evaluates the validation split. Call this after mf_evaluation_train with the same weights,
 * because gaps in the record compare the two results. batches: greatest number of batches;
 * 0: all. */
int mf_evaluation_val(mf_evaluation *e, mf_trainer *t, int64_t batches, mf_metrics_record *r);
/* Evaluates as after the last step. r contains the validation of these weights with `batches`.
 * It is unchanged if the last evaluation needs the same number of batches. */
int mf_evaluation_val_last(mf_evaluation *e, mf_trainer *t, int64_t batches,
                           mf_metrics_record *r);
/* Task loss of the last validation; NaN: none yet. */
double mf_evaluation_loss(const mf_evaluation *e);
/* The floor in the record of the last validation (metrics.h); NaN: unknown. */
double mf_evaluation_floor(const mf_evaluation *e);
/* The loss of the last validation in bits per byte of text; NaN: unknown. */
double mf_evaluation_bits(const mf_evaluation *e);
/* Number of batches of the validation after the last step; 0 without a validation split. */
int64_t mf_evaluation_last(const mf_evaluation *e, const mf_trainer *t);
/* Evaluator of the validation split; NULL without one. */
mf_evaluator *mf_evaluation_evaluator(const mf_evaluation *e);
/* Two arrays [n_moe] of the observer, filled in at the end of training: for each MoE layer the
 * NMI of experts and labels, and the NMI of random experts. NaN without labels. */
void mf_evaluation_nmi(const mf_evaluation *e, const double **ret_nmi,
                       const double **ret_random);

#endif

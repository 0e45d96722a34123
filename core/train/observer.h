/* train/observer.h: who takes part in training beside the loop.
 *
 * The loop (train/trainer.h) takes optimizer steps and knows nothing else. Metrics, evaluation,
 * checkpoints, controllers, samples and traces are observers: a table of hooks and a state of
 * their own. The hooks of one kind are called in the order in which the observers were added,
 * all on the thread that calls the trainer. What observers tell each other about a step goes
 * through mf_step_result: an observer reads what those before it have filled in.
 *
 * In step s:   wants -> before_step -> (after_batch for each micro-batch) -> after_step ->
 *              graphs are rebuilt if something asked for it, and then after_rebuild ->
 *              between, in which evaluations (after_eval) and checkpoints (save, on_save) fall
 */
#ifndef MF_TRAIN_OBSERVER_H
#define MF_TRAIN_OBSERVER_H

#include "model/heads.h"
#include "train/checkpoint/checkpoint.h"
#include "train/metrics/metrics.h"
#include "train/metrics/predictions.h"

typedef struct mf_trainer mf_trainer;

/* What somebody will read of a step. It is asked before the step, so that statistics are
 * computed in these steps only. The metric nodes of the graph run when anything is wanted. */
enum {
    MF_WANT_ROUTING = 1, /* mf_step_result.layers */
    MF_WANT_HEADS = 2,   /* mf_step_result.heads */
    MF_WANT_METRICS = 4  /* what plugins keep as metrics (mf_host.metric) */
};

/* One step. Owned by the trainer; valid until the next step. */
typedef struct mf_step_result {
    int64_t step;           /* optimizer steps so far, with this one */
    unsigned wanted;        /* MF_WANT_... of this step */
    const mf_batch *batch;  /* of the last micro-batch, */
    mf_model_graph *graph;  /* and the graph that it went through */
    double loss, task_loss; /* nats a token, means over micro-batches; loss includes
                                    regularizers */
    double grad_norm;       /* before clipping */
    double lr;
    bool skipped;   /* the optimizer step was not taken: a value was not finite */
    int64_t tokens; /* of this step */
    int n_regularizers;
    mf_named_value *regularizers; /* unweighted; a NULL name: not in this model */

    /* ---- filled in by observers, in this order ---- */
    int32_t n_layers;             /* MoE layers */
    const mf_layer_stats *layers; /* of the newest step in which they were wanted */
    double dropped, reassigned;   /* assignments over capacity, all layers */
    const mf_head_record *heads;  /* of the newest step in which they were wanted; NULL: heads
                                     are not gated */
    bool importance;              /* heads->stats[].importance was measured in this step */
    mf_predictions *predictions;  /* NULL unless one is asked of each example */
    double examples, hits;        /* of the first task: with a class; predicted right */
    int n_controllers;
    const mf_controller_record *controllers;
    double tokens_per_s;             /* since the last record; evaluations are not counted */
    const mf_metrics_record *record; /* NULL unless train.log_every asks for this step's */
} mf_step_result;

/* Any hook may be NULL. One that does not return MF_OK ends the step, and run, with that. */
typedef struct mf_observer {
    const char *name;
    /* Once, before the first step, and after load and recall. */
    int (*begin)(void *self, mf_trainer *t);
    /* What is to be known of step number `step` (from 1)? */
    unsigned (*wants)(void *self, const mf_trainer *t, int64_t step);
    /* r: step and wanted are set. */
    int (*before_step)(void *self, mf_trainer *t, mf_step_result *r);
    /* A micro-batch has gone forward and backward: its graph still holds its values. Losses are
     * known after the step. */
    int (*after_batch)(void *self, mf_trainer *t, mf_step_result *r);
    int (*after_step)(void *self, mf_trainer *t, mf_step_result *r);
    int (*after_rebuild)(void *self, mf_trainer *t);
    /* The step is over: for what is no part of it, such as evaluations and checkpoints. */
    int (*between)(void *self, mf_trainer *t);
    /* r->split: "val", or "train_eval" (train.eval_train). */
    int (*after_eval)(void *self, mf_trainer *t, const mf_metrics_record *r);
    /* A checkpoint of this step is in the run directory. */
    int (*on_save)(void *self, mf_trainer *t);
    /* All steps are done. */
    int (*end)(void *self, mf_trainer *t);

    /* ---- what must survive ---- */
    /* Adds to what a checkpoint holds; files that go with it are on disk afterwards. */
    int (*save)(void *self, mf_trainer *t, mf_state *s);
    /* A run goes on: reads what save wrote. An older checkpoint may lack it. */
    int (*load)(void *self, mf_trainer *t, const mf_state *s);
    /* A run goes on: each record of its metrics up to the checkpoint, in order. */
    int (*recall)(void *self, mf_trainer *t, const mf_metrics_record *r);
    void (*free)(void *self);
} mf_observer;

#endif

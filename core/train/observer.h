/* train/observer.h: the interface of observers, which take part in training.
 *
 * The loop (train/trainer.h) takes optimizer steps and does nothing else. Metrics, evaluation,
 * checkpoints, controllers, samples and traces are observers: each is a table of hooks with its
 * own state. Hooks of one kind are called in the order in which the observers were added
 * (`free` in the opposite order), on the thread that calls the trainer. Observers exchange
 * values of a step in mf_step_result: each observer reads the fields that earlier observers
 * have filled in.
 *
 * In step s: wants -> before_step -> (after_batch, measure for each micro-batch) ->
 *               (fold for each micro-batch, in order) -> after_step -> after_rebuild, if a
 *               plugin or a live option requested a rebuild of graphs -> between, which may
 *               evaluate (judge_eval, after_eval) and save checkpoints (save, on_save)
 * For the last micro-batch of a process, after_batch and measure are called when the optimizer
 * step is done, so there is only one wait for the device. With several ranks they are called
 * before the ranks exchange their results.
 *
 * A step is a sum over micro-batches that does not depend on which process ran them. Gradients
 * and tallies of plugins (train/parallel/tally_sum.h) are summed in a tree
 * (train/parallel/tree.h). All other measurements of a micro-batch are a list of numbers
 * (numbers, measure, fold), which are added in the order of the micro-batches. The loss is a
 * mean over the tokens of the step, so the mean of a micro-batch is multiplied by its share of
 * these tokens (train/parallel/shares.h). */
#ifndef MF_TRAIN_OBSERVER_H
#define MF_TRAIN_OBSERVER_H

#include "base/named_value.h"
#include "model/heads.h"
#include "train/batch.h"

typedef struct mf_trainer mf_trainer;

/* Types that only the observers of a run with files use (lib/run). */
struct mf_state;
struct mf_metrics_record;
struct mf_predictions;
struct mf_controller_record;

/* The parts of a step that an observer will read. The loop calls `wants` before the step, so
 * statistics are computed only in steps that need them. Metric nodes of the graph run if any
 * part is requested. */
enum {
    MF_WANT_ROUTING = 1, /* mf_step_result.layers */
    MF_WANT_HEADS = 2,   /* mf_step_result.heads */
    MF_WANT_METRICS = 4  /* metrics that plugins keep (mf_host.metric) */
};

/* The results of one step. The trainer owns them; they are valid until the next step. */
typedef struct mf_step_result {
    int64_t step;          /* number of optimizer steps, including this one */
    unsigned wanted;       /* flags MF_WANT_... of this step */
    const mf_batch *batch; /* the last micro-batch */
    mf_model_graph *graph; /* graph of the last micro-batch */
    /* means over everything that the step counts: nats per token, or per example for
     * classifiers; squared error for regress. loss includes regularizers. */
    double loss, task_loss;
    double grad_norm; /* norm of the gradient before clipping */
    double lr;
    bool skipped;   /* the optimizer step was not taken, because a value was not finite */
    int64_t tokens; /* number of tokens of this step, without padding */
    int n_regularizers;
    mf_named_value *regularizers; /* values without their weights; name NULL: the model does not
                                   * have the regularizer */

    int32_t n_layers;             /* number of MoE layers */
    const mf_layer_stats *layers; /* statistics of the latest step in which they
                                   * were requested */
    const mf_layer_stats *shared; /* with share_layers: statistics of all MoE layers together;
                                   * else NULL */
    double dropped, reassigned;   /* numbers of assignments of this step, summed over layers */
    /* statistics of the latest step in which they were requested; NULL: heads cannot be
     * switched off */
    const struct mf_head_record *heads;
    bool importance; /* heads->stats[].importance was measured in this step */
    struct mf_predictions *predictions; /* NULL for language models */
    double examples, hits; /* of the first task: number of examples with a class, and of
                            * correct predictions */
    int n_controllers;
    const struct mf_controller_record *controllers;
    double tokens_per_s; /* tokens per second since the last record, without the time
                          * of evaluations */
    /* NULL unless this is the first step, the last step, or a step that
     * train.log_every selects */
    const struct mf_metrics_record *record;
} mf_step_result;

/* Any hook may be NULL. If a hook returns an error, the step fails with its code, and the run
 * cannot continue. */
typedef struct mf_observer {
    const char *name;
    /* Called once, before the first step, and after load and recall. */
    int (*begin)(void *self, mf_trainer *t);
    /* Returns the MF_WANT_ flags of step number `step` (from 1). */
    unsigned (*wants)(void *self, const mf_trainer *t, int64_t step);
    /* Called before the first micro-batch. In *r only step and wanted are set. */
    int (*before_step)(void *self, mf_trainer *t, mf_step_result *r);
    /* Called after the forward and backward pass of a micro-batch, while its graph still has
     * the values. Losses are known only after the step. */
    int (*after_batch)(void *self, mf_trainer *t, mf_step_result *r);
    /* The measurements of a micro-batch are a list of numbers, because another process may have
     * run the micro-batch. `numbers` returns how many numbers `measure` writes in this step.
     * `measure` is called right after the micro-batch. `fold` gets the numbers of each
     * micro-batch of the step, in order. */
    int64_t (*numbers)(void *self, const mf_trainer *t, const mf_step_result *r);
    int (*measure)(void *self, mf_trainer *t, mf_step_result *r, double *out);
    int (*fold)(void *self, mf_trainer *t, mf_step_result *r, const double *in);
    int (*after_step)(void *self, mf_trainer *t, mf_step_result *r);
    /* after_step calls plugins, so changes of the state of the process are undone after it. */
    bool runs_plugins;
    int (*after_rebuild)(void *self, mf_trainer *t);
    /* Called when the step is complete, for work that does not belong to a step, such as
     * evaluations and checkpoints. */
    int (*between)(void *self, mf_trainer *t);
    /* Called after each validation. If it ends training (mf_trainer_end_here), the validation
     * of the last step replaces this validation, and after_eval gets only the last one. */
    int (*judge_eval)(void *self, mf_trainer *t, const struct mf_metrics_record *r);
    /* Called after each evaluation. r->split: "val", or "train_eval" (train.eval_train). */
    int (*after_eval)(void *self, mf_trainer *t, const struct mf_metrics_record *r);
    /* Called after each batch of a validation, with the number of batches done and in total. */
    int (*after_eval_batch)(void *self, mf_trainer *t, int64_t done, int64_t total);
    /* Called when a checkpoint of this step has been saved in the run directory. */
    int (*on_save)(void *self, mf_trainer *t);
    /* Called after the last step. */
    int (*end)(void *self, mf_trainer *t);

    /* ---- state in checkpoints ---- */
    /* Adds the observer's state to a checkpoint, and syncs files that belong to it. */
    int (*save)(void *self, mf_trainer *t, struct mf_state *s);
    /* On resume: reads the state that save wrote. An older checkpoint may not contain it. */
    int (*load)(void *self, mf_trainer *t, const struct mf_state *s);
    /* On resume: receives each metrics record up to the checkpoint, in order. */
    int (*recall)(void *self, mf_trainer *t, const struct mf_metrics_record *r);
    void (*free)(void *self);
} mf_observer;

#endif

/* train/trainer_internal.h: the struct of the trainer, only for trainer.c, trainer_step.c and
 * trainer_ranks.c. Observers use train/trainer.h. */
#ifndef MF_TRAIN_TRAINER_INTERNAL_H
#define MF_TRAIN_TRAINER_INTERNAL_H

#include "plugin/guard.h"
#include "train/length_buckets.h"
#include "train/optim/optim.h"
#include "train/parallel/gradient_exchange.h"
#include "train/parallel/gradient_norm.h"
#include "train/parallel/shares.h"
#include "train/parallel/tally_sum.h"
#include "train/trainer.h"

/* The message of a rank to the other ranks, sent once in each step. */
typedef struct mf_mark {
    int32_t code;             /* status of its micro-batches */
    int32_t stop, save, late; /* a signal to stop, a request to save, the end
                               * by train.time_limit */
} mf_mark;

struct mf_trainer {
    mf_train_job job;
    mf_world *world;
    mf_trainer_owner owner;
    mf_length_buckets *buckets;
    mf_shares *shares; /* weights of the micro-batches; NULL: a step has one micro-batch */
    mf_optim *optim;
    mf_observed *observers; /* [n_observers] */
    int n_observers, cap_observers;
    bool begun;
    mf_guard guard; /* the state of the process at mf_trainer_begin, if `guarded` */
    bool guarded;

    /* the position and the live options, which checkpoints contain */
    int64_t step;                  /* number of optimizer steps so far */
    int64_t tokens;                /* number of tokens trained so far */
    int64_t skipped;               /* number of consecutive skipped steps */
    double wall_before;            /* seconds before the resume */
    int64_t tokens_before;         /* number of tokens before mf_trainer_begin */
    double lr, weight_decay, clip; /* live options */

    bool foretold;         /* the time of a step was checked */
    double started, apart; /* clock at mf_trainer_begin; seconds between steps since then */
    bool ended;            /* training ends here, as if all steps were done */
    int status;            /* the code with which training ended early */
    int stop;              /* MF_OK, or the code with which training ends after this step */
    char why[128];
    mf_step_result now;      /* results of the present step */
    mf_model_graph **graphs; /* [accumulate] the graph that ran each micro-batch of the step */
    float *loss_sum;         /* on the device: sum of the losses of these micro-batches */
    /* The micro-batches that this process runs: share.first, share.first + stride, .. stride is
     * 1; if ranks share the experts, it is the number of ranks. */
    mf_piece share;
    int64_t stride;
    /* Ranks share the experts, and this rank has no micro-batch of its own while the other
     * ranks run their last one. */
    bool runs_on;
    mf_tally_sum *tallies;             /* tallies of plugins; NULL: there are none */
    mf_gradient_sum *sum, *expert_sum; /* expert_sum: sum for shared experts; else NULL */
    struct mf_recorder *recorder;   /* recordings of the launches of micro-batches; NULL: they
                                   * are queued */
    mf_partition partition;         /* with several ranks: what each rank owns */
    mf_gradient_exchange *exchange; /* NULL: this process runs all micro-batches */
    /* if several groups of ranks share the experts: partition between the ranks that have the
     * same experts */
    mf_partition expert_partition;
    mf_gradient_exchange *expert_exchange; /* exchange for expert_partition; else NULL */
    mf_gradient_norm *norm;                /* NULL: this process updates all parameters */
    /* an exchange has begun, and the ranks have not exchanged their marks yet */
    bool exchanging;
    mf_mark *marks;        /* [ranks] */
    mf_mark asked;         /* the requests to any rank in this step */
    mf_comm_piece *pieces; /* [6 ranks] */
    double *numbers;       /* [accumulate][n_numbers] measurements of the micro-batches */
    int64_t n_numbers, numbers_room;
    double speed; /* tokens per second of the training, set by mf_trainer_finish */
};

/* The two parts of a step. mf_trainer_gradients runs the micro-batches of this process.
 * mf_trainer_update sums their results, takes the optimizer step and fills t->now. own: the
 * caller's batches, or NULL. rc: the status of the first part, which the ranks send to
 * each other. */
int mf_trainer_gradients(mf_trainer *t, const mf_batch *const *own);
int mf_trainer_update(mf_trainer *t, const mf_batch *const *own, int rc);

/* ---- trainer_ranks.c ---- */
/* Sets the share of this rank, allocates the sums of its gradients and what the exchange needs,
 * and releases the moments that other ranks keep. */
int mf_trainer_ranks_new(mf_trainer *t);
void mf_trainer_ranks_free(mf_trainer *t);
/* Exchanges status and numbers of the micro-batches. rc: the status of this rank. Returns the
 * status on which all ranks agree. */
int mf_trainer_meet(mf_trainer *t, int rc);
/* With several ranks: measures the summed gradient and takes the optimizer step. After this
 * call all ranks have the new values. */
int mf_trainer_update_shared(mf_trainer *t, const mf_optim_step *s);

#endif

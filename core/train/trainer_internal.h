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

/* The message of a rank to the others, once in each step. */
typedef struct mf_mark {
    int32_t code;             /* status of its micro-batches */
    int32_t stop, save, late; /* a signal to stop, a request to save, train.time_limit */
} mf_mark;

struct mf_trainer {
    mf_train_job job;
    mf_world *world;
    mf_trainer_owner owner;
    mf_length_buckets *buckets;
    mf_shares *shares; /* weights of the micro-batches; NULL: a step has one */
    mf_optim *optim;
    mf_observed *observers; /* [n_observers] */
    int n_observers, cap_observers;
    bool begun;
    mf_guard guard; /* the state of the process at begin, if `guarded` */
    bool guarded;

    /* the position and the live options, which checkpoints contain */
    int64_t step;                  /* optimizer steps so far */
    int64_t tokens;                /* trained so far */
    int64_t skipped;               /* number of consecutive skipped steps */
    double wall_before;            /* seconds before the resume */
    int64_t tokens_before;         /* tokens before mf_trainer_begin */
    double lr, weight_decay, clip; /* live options */

    bool foretold;         /* whether the time of a step was checked */
    double started, apart; /* clock at begin; seconds between steps since then */
    bool ended;            /* training ends here, as after all steps */
    int status;            /* the code with which training ended early */
    int stop;              /* MF_OK, or the code with which training ends after this step */
    char why[128];
    mf_step_result now;      /* the present step */
    mf_model_graph **graphs; /* [accumulate] the graph that ran each micro-batch of the step */
    float *loss_sum;         /* on the device: sum of the losses of these micro-batches */
    /* the micro-batches that this process runs: share.first, share.first + stride, ..; stride
     * is 1, or, where ranks share the experts, the number of ranks */
    mf_piece share;
    int64_t stride;
    /* ranks share the experts: this one has no micro-batch of its own while the others run
     * their last one */
    bool runs_on;
    mf_tally_sum *tallies;             /* of plugins; NULL: they have none */
    mf_gradient_sum *sum, *expert_sum; /* expert_sum: of shared experts; else NULL */
    struct mf_recorder *recorder; /* of the launches of micro-batches; NULL: they are queued */
    mf_partition partition;       /* with several ranks: what each of them owns */
    mf_gradient_exchange *exchange; /* NULL: this process runs all of them */
    /* several groups of ranks share the experts: between the ranks that have the same ones */
    mf_partition expert_partition;
    mf_gradient_exchange *expert_exchange; /* else NULL */
    mf_gradient_norm *norm;                /* NULL: this process updates all parameters */
    /* an exchange has begun, and the ranks have not met yet */
    bool exchanging;
    mf_mark *marks;        /* [ranks] */
    mf_mark asked;         /* the requests to any rank in this step */
    mf_comm_piece *pieces; /* [6 ranks] */
    double *numbers;       /* [accumulate][n_numbers] what is measured of the micro-batches */
    int64_t n_numbers, numbers_room;
    double speed; /* set by finish */
};

/* The two parts of a step: runs the micro-batches of this process; then sums their results,
 * takes the optimizer step and fills t->now. own: the caller's batches, or NULL. rc: the status
 * of the first part, which the ranks tell each other. */
int mf_trainer_gradients(mf_trainer *t, const mf_batch *const *own);
int mf_trainer_update(mf_trainer *t, const mf_batch *const *own, int rc);

/* ---- trainer_ranks.c ---- */
/* Sets the share of this rank, allocates the sums of its gradients and what the exchange needs,
 * and gives up the moments that other ranks keep. */
int mf_trainer_ranks_new(mf_trainer *t);
void mf_trainer_ranks_free(mf_trainer *t);
/* Exchanges status and numbers of the micro-batches. rc: the status of this rank. Returns the
 * agreed one. */
int mf_trainer_meet(mf_trainer *t, int rc);
/* With several ranks: measures the summed gradient and takes the optimizer step; afterwards all
 * ranks have the values. */
int mf_trainer_update_shared(mf_trainer *t, const mf_optim_step *s);

#endif

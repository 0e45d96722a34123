/* train/train_config.h: the sections of the INI file that describe what a run does ([train]),
 * what its report contains ([report]), and how its routing is recorded ([trace]). */
#ifndef MF_TRAIN_TRAIN_CONFIG_H
#define MF_TRAIN_TRAIN_CONFIG_H

#include "config/section.h"

typedef enum mf_best_by {
    MF_BEST_LOSS,
    MF_BEST_ACCURACY,
    MF_BEST_MACRO_F1,
    MF_BEST_MSE,
    MF_BEST_PEARSON,
    MF_BEST_SPEARMAN
} mf_best_by;
typedef enum mf_schedule {
    MF_SCHEDULE_COSINE,
    MF_SCHEDULE_LINEAR,
    MF_SCHEDULE_CONSTANT,
    MF_SCHEDULE_STEP,
    MF_SCHEDULE_WSD
} mf_schedule;

/* values of train.optimizer */
typedef enum mf_optimizer {
#define MF_OPTIMIZER_METHOD(constant, name, method) MF_OPTIMIZER_##constant,
#include "train/optim/optimizers.def"
#undef MF_OPTIMIZER_METHOD
} mf_optimizer;

typedef enum mf_muon_scale { MF_MUON_MATCH_RMS, MF_MUON_ORIGINAL } mf_muon_scale;

typedef enum mf_on_usr1 { MF_USR1_SAVE, MF_USR1_STOP } mf_on_usr1;

typedef struct mf_train_config {
    int64_t steps; /* 0: computed from epochs */
    double epochs;
    int64_t batch, accumulate;
    int64_t optimizer; /* mf_optimizer */
    double lr, lr_min; /* lr_min: fraction of lr at the end of a cosine or linear schedule */
    int64_t schedule, warmup;
    int64_t step_size;  /* schedule = step: number of steps between two reductions */
    double step_epochs; /* number of epochs, which replaces step_size; 0: step_size is used */
    double step_gamma;
    double decay_share; /* schedule = wsd: share of the steps after warmup in which the
                         * rate decays */
    double weight_decay, beta1, beta2, eps, clip, dropout;
    double momentum, muon_lr;  /* for optimizer = muon; muon_lr 0: lr is used */
    int64_t muon_scale;        /* mf_muon_scale */
    int64_t dropout_embedding; /* dropout also on embeddings; default yes */
    int64_t seed;
    int64_t log_every, eval_every;
    int64_t eval_batches, final_batches; /* number of batches; 0: the whole split */
    double eval_epochs;                  /* number of epochs between validations; 0: eval_every
                                          * is used */
    int64_t eval_train; /* evaluate training data, too, before each validation */
    int64_t keep_best;  /* keep RUN/best, the checkpoint of the best validation */
    int64_t patience;   /* number of validations without a better result after which training
                         * ends; 0: no limit */
    int64_t best_by;    /* mf_best_by: the measure of the best validation */
    int64_t decay_all;  /* apply weight decay also to norms, biases and embeddings */
    /* Number of tokens by which evaluation windows overlap. At least this number of tokens
     * precedes each predicted token, except in the first window. */
    int64_t eval_context;
    int64_t save_every, keep;
    /* seconds, and the step, after which training saves a checkpoint and ends with MF_ELIMIT;
     * 0: none */
    double time_limit;
    int64_t stop_at;
    int64_t on_usr1;  /* mf_on_usr1 */
    int64_t dtype;    /* mf_dtype that gemms read: MF_F32 or MF_BF16 */
    const char *from; /* run that supplies the initial weights; "": none */
    int64_t routes;   /* experts of tokens: 0 by the router, 1 by the trace routes_from */
    const char *routes_from;
    const char *freeze; /* patterns of frozen parameters; "": none */
    int64_t recompute;  /* mf_recompute: 0 none, 1 light, 2 block */
    const char *device;
    int64_t threads;    /* number of threads; 0: all cores */
    int64_t nan_policy; /* 0 stop, 1 skip (up to 3 in a row) */
} mf_train_config;

typedef struct mf_device_config {
    int64_t strict; /* refuse graphs with ops that would run on the host */
    int64_t record; /* record the launches of a step, and replay them */
} mf_device_config;

typedef struct mf_report_config {
    int64_t enabled;       /* write report.html at the end */
    int64_t samples;       /* number of evaluations with a sample (run/sample/sample_steps.h) */
    const char *sample_at; /* list of such evaluations; "": `samples` decides */
} mf_report_config;

typedef struct mf_trace_config {
    int64_t every; /* record the routing of each n-th evaluation batch; 0: off */
} mf_trace_config;

typedef enum mf_parallel_optimizer {
    MF_PARALLEL_SHARDED,
    MF_PARALLEL_WHOLE
} mf_parallel_optimizer;

typedef enum mf_parallel_gradient { MF_PARALLEL_F32, MF_PARALLEL_BF16 } mf_parallel_gradient;

typedef struct mf_parallel_config {
    const char *comm;  /* communicator: auto, self, a module's name or file */
    double patience;   /* seconds after which a rank that does not answer ends the run */
    int64_t optimizer; /* mf_parallel_optimizer */
    int64_t bucket;    /* size in MiB of the gradients that are sent at once */
    int64_t expert;    /* maximum number of ranks that share the experts; 1: each rank has
                        * all experts */
    int64_t gradient;  /* mf_parallel_gradient */
    int64_t exact;     /* results have the bits of one process; 0: shared experts merge rows */
    double room;       /* no effect; memory for rows of shared experts is enough for any load */
} mf_parallel_config;

/* Returns parallel.bucket in elements. */
static inline int64_t mf_config_bucket(const mf_parallel_config *c)
{
    return c->bucket * ((1 << 20) / (int64_t)sizeof(float));
}

typedef struct mf_log_config {
    int64_t tensorboard;           /* write RUN/tensorboard */
    const char *mlflow;            /* address of an MLflow server; "": none */
    const char *mlflow_experiment; /* name of the experiment of the run */
} mf_log_config;

typedef struct mf_calls_config {
    int64_t patience; /* maximum seconds of a call of a plugin; 0: no limit */
} mf_calls_config;

#endif

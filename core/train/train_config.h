/* train/train_config.h: the sections of the INI that say what a run does: [train], and what it
 * keeps for the page written at its end ([report]) and of its routing ([trace]). */
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
    MF_SCHEDULE_STEP
} mf_schedule;

/* What train.dtype can be: "f32", "bf16", NULL. */
extern const char *const mf_config_dtypes[];

typedef struct mf_train_config {
    int64_t steps; /* 0: from epochs */
    double epochs;
    int64_t batch, accumulate;
    int64_t optimizer; /* 0 adamw, 1 adam (no decoupled decay) */
    double lr, lr_min; /* lr_min: fraction of lr at the end of cosine and linear */
    int64_t schedule, warmup;
    int64_t step_size;  /* schedule = step: every so many steps */
    double step_epochs; /* the same in passes over the data; 0: step_size */
    double step_gamma;
    double weight_decay, beta1, beta2, eps, clip, dropout;
    int64_t dropout_embedding; /* also on what goes into the first block; yes */
    int64_t seed;
    int64_t log_every, eval_every, eval_batches; /* eval_batches 0: the whole split */
    double eval_epochs;   /* validate every so many passes; 0: eval_every */
    int64_t eval_train;   /* measure training data beside each validation */
    int64_t keep_best;    /* RUN/best: the checkpoint of the best validation */
    int64_t best_by;      /* mf_best_by: which that is */
    int64_t decay_all;    /* weight decay of norms, biases and embeddings, too */
    int64_t eval_context; /* tokens by which evaluation windows overlap: each is predicted
                             with at least so many before it */
    int64_t save_every, keep;
    double time_limit;  /* seconds, 0: none; then checkpoint and exit 75 */
    int64_t dtype;      /* mf_dtype of what products take: MF_F32 or MF_BF16 */
    const char *from;   /* run whose weights this one begins with; "": none */
    const char *freeze; /* patterns of parameters that do not learn; "": none */
    int64_t recompute;  /* mf_recompute: 0 none, 1 light, 2 block */
    const char *device;
    int64_t threads;    /* 0: all cores */
    int64_t nan_policy; /* 0 stop, 1 skip (up to 3 in a row) */
} mf_train_config;

typedef struct mf_report_config {
    int64_t enabled;       /* write report.html at the end */
    int64_t samples;       /* evaluations at which routing is sampled (train/sample_steps.h) */
    const char *sample_at; /* their numbers; "": samples of them */
} mf_report_config;

typedef struct mf_trace_config {
    int64_t every; /* record routing each n-th evaluation batch; 0: off */
} mf_trace_config;

extern const mf_section mf_train_section, mf_report_section, mf_trace_section;

#endif

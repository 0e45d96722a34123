/* train/job.h: describes what is trained. */
#ifndef MF_TRAIN_JOB_H
#define MF_TRAIN_JOB_H

#include "train/batch.h"
#include "train/train_config.h"

/* The pointers must outlive the trainer. */
typedef struct mf_train_job {
    mf_model *model; /* must have gradients and moments */
    const mf_train_config *train;
    const mf_parallel_config *parallel;
    bool record;            /* record the launches of a step, and replay them */
    int64_t steps;          /* number of optimizer steps of the whole run; 0: not planned */
    mf_batch_source source; /* fill NULL: the caller of a step passes the batches of the step */
    bool masked;            /* batches may have padding */
    bool packed;            /* an example may hold several documents */
    const mf_given_routes *given; /* experts of the batches' tokens; NULL: routers decide */
    bool by_length;               /* batches of short examples run shorter graphs */
} mf_train_job;

#endif

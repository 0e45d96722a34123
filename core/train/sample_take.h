/* train/sample_take.h: takes the sample of train/sample.h from a model as it is now. */
#ifndef MF_TRAIN_SAMPLE_TAKE_H
#define MF_TRAIN_SAMPLE_TAKE_H

#include "train/evaluate.h"

typedef struct mf_sample_take {
    mf_session *session;
    const mf_evaluator *evaluator; /* evaluator of the validation split, with its last run */
    const mf_graph *arena_of;      /* a graph that does not run at the same time, or NULL */
    int64_t step;
    /* At the end of training: with counts by label, attention weights, and these
     * [n_moe] values. */
    bool last;
    const double *nmi, *nmi_random;
} mf_sample_take;

/* Runs the model forward once and writes the file. */
int mf_sample_take_to(const mf_sample_take *t, const char *path);

#endif

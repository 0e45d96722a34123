/* run/sample/sample_take.h: makes a sample (run/sample/sample.h) from a model in its
 * present state. */
#ifndef MF_RUN_SAMPLE_TAKE_H
#define MF_RUN_SAMPLE_TAKE_H

#include "run/evaluate.h"

typedef struct mf_sample_take {
    mf_session *session;
    const mf_evaluator *evaluator; /* evaluator of the validation split, after it has run */
    /* graph whose arena is reused; the two graphs never run at the same time; may be NULL */
    const mf_graph *arena_of;
    int64_t step;
    /* whether this is the sample at the end of training, which also contains counts by label,
     * attention weights, and the values nmi and nmi_random [n_moe] */
    bool last;
    const double *nmi, *nmi_random;
} mf_sample_take;

/* Builds a graph, runs one forward pass and writes the file. */
int mf_sample_take_to(const mf_sample_take *t, const char *path);

#endif

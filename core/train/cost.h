/* train/cost.h: what a run would take, from its own plan, before anything of it is there. */
#ifndef MF_TRAIN_COST_H
#define MF_TRAIN_COST_H

#include "train/session.h"

typedef struct mf_cost {
    int64_t params, params_active;
    size_t memory; /* bytes resident at the highest point of training, program and data included */
} mf_cost;

/* Of a bare session (session.h): training, with evaluation, when it has data to train on; else one
 * evaluation. */
int mf_cost_of(mf_session *s, mf_cost *ret);

#endif

/* train/cost.h: what a run would take, from its own plan, before anything of it is there. */
#ifndef MF_TRAIN_COST_H
#define MF_TRAIN_COST_H

#include "train/session.h"

typedef struct mf_cost {
    int64_t params, params_active;
    mf_model_module module[MF_MODEL_MODULES]; /* by module */
    int n_modules;
    /* Bytes resident at the highest point of training, program and data included; 0: not
     * known. */
    size_t memory;
} mf_cost;

/* Of a bare session (session.h). Without data to train on memory is not known. */
int mf_cost_of(mf_session *s, mf_cost *ret);
/* modules: [{module, loaded, inference, bytes_loaded, bytes_inference}], into the open object.
 * Bytes of the numbers as checkpoints hold them, f32. */
void mf_cost_put_modules(mf_jw *w, int n, const mf_model_module *module);

#endif

/* run/cost.h: memory and parameters of a run, computed before it starts. */
#ifndef MF_RUN_COST_H
#define MF_RUN_COST_H

#include "run/session.h"
#include "run/modules.h"

typedef struct mf_cost {
    int64_t params, params_active;
    mf_model_module module[MF_MODEL_MODULES]; /* parameters by module */
    int n_modules;
    /* Greatest memory of the process during training, in bytes, with data and with weights that
     * stay in files, without pages of program and libraries; 0: unknown. */
    size_t memory;
    size_t values, graphs, sums; /* parts of `memory`: parameters, a micro-batch, sums
                                  * of gradients */
    /* The same three parts on another device, without the memory of its backend; 0: the device
     * is the CPU, or unknown. */
    size_t device;
    /* Weights that stay in files outside the run: number of elements, bytes, types
     * ("BF16, F32"). */
    int64_t stored;
    uint64_t stored_bytes;
    char stored_types[48];
} mf_cost;

/* Computes the cost of a session without weights (bare, see session.h). Without training data
 * the memory is unknown. Errors: those of mf_model_graph_new. */
int mf_cost_of(mf_session *s, mf_cost *ret);
/* Computes the bytes of the rank that needs the most memory in a run of `ranks`; 0: unknown.
 * There must not be more ranks than micro-batches. sharing: number of ranks that share the
 * experts; MF_ECONFIG if they cannot. MF_ENOMEM. */
int mf_cost_of_rank(mf_session *s, const mf_cost *c, int ranks, int sharing, size_t *ret);
/* Whether training needs more memory than this machine has. If so, `out` says how much, and
 * which keys reduce the largest part. */
bool mf_cost_exceeds(const mf_cost *c, char *out, size_t size);
/* Writes the list "modules": [{module, loaded, inference, bytes_loaded, bytes_inference}] into
 * the open object of w. Bytes are those of f32 values, as in checkpoints. */
void mf_cost_put_modules(mf_jw *w, int n, const mf_model_module *module);

#endif

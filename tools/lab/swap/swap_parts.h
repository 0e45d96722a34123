/* lab/swap/swap_parts.h: declarations that the files of this folder share.
 *
 * The routers of a model are built in a graph of their own. Its inputs are the inputs that the
 * old model's routers receive. So a fit and a comparison never run the experts of the
 * new model. */
#ifndef MF_LAB_SWAP_PARTS_H
#define MF_LAB_SWAP_PARTS_H

#include "lab/swap/swap.h"
#include "run/session.h"

/* The two models, on the same batches. */
typedef struct mf_swap_pair {
    mf_session *before, *after;
    bool *swapped; /* [n_moe] whether the layer gets a new router */
    mf_batch *batch;
    mf_model_graph *old; /* graph of `before`, with traces and logits */
} mf_swap_pair;

/* The routers of `after`, in a graph of their own. */
typedef struct mf_swap_routers {
    mf_graph *g;
    mf_router_in in;
    int32_t n;
    mf_tensor **x;    /* [n] inputs [T,d] */
    mf_tensor **prob; /* [n] inputs [T,E]: probabilities to fit; NULL without a fit */
    mf_moe_out *out;  /* [n] */
    mf_tensor *loss;  /* sum over layers; NULL without a fit */
} mf_swap_routers;

/* Whether a parameter of `after` belongs to a router that is swapped. */
bool mf_swap_has(const mf_swap_pair *pair, const mf_param *p);
/* Builds the graph; with `fit` also the loss and its gradients. Fails with MF_EUSAGE if a
 * router has no probabilities to fit. The caller frees *ret. */
int mf_swap_routers_new(const mf_swap_pair *pair, bool fit, mf_swap_routers **ret);
void mf_swap_routers_free(mf_swap_routers *r);
/* Runs the old model on the pair's batch, and copies the inputs of its routers. */
int mf_swap_run_old(const mf_swap_pair *pair, mf_swap_routers *r, int64_t step);

/* Fits the new routers on `batches` batches of the training split. */
int mf_swap_fit(mf_swap_pair *pair, int64_t batches, double lr);
/* Compares the models on at most `batches` batches of the validation split. whole: computes all
 * metrics; otherwise only kl_start of the layers. */
int mf_swap_measure(mf_swap_pair *pair, int64_t batches, bool whole, mf_swap_report *r);

#endif

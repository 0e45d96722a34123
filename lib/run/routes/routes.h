/* run/routes/routes.h: experts of training tokens from a trace (train.routes = trace), for
 * weights that learn from texts which another program generated and routed.
 *
 * A token has a record if a sequence of the trace begins with the tokens of the token's example
 * up to it: so records do not depend on the order of examples, and a prefix that several
 * sequences share has one record. All other tokens, as the last one of a generated text, which
 * no program ran, go where the router sends them. */
#ifndef MF_RUN_ROUTES_H
#define MF_RUN_ROUTES_H

#include "model/model.h"
#include "train/batch.h"

typedef struct mf_routes mf_routes;

/* Reads layers, tokens and chosen experts of a trace. MF_EINPUT, with file and tensor, if it is
 * no trace, or not of a model with these layers, experts and assignments per token, if its
 * assignments are a list, or if a token has the same expert twice; MF_ECONFIG if the model is
 * not causal. The model must outlive the routes. */
int mf_routes_open(const char *path, const mf_model *m, mf_routes **ret);
void mf_routes_close(mf_routes *r); /* NULL is allowed */
const mf_given_routes *mf_routes_given(const mf_routes *r);
int64_t mf_routes_sequences(const mf_routes *r);
/* Number of records that a batch had; they are those of the latest batch. */
int64_t mf_routes_recorded(const mf_routes *r);
/* MF_EINPUT if a graph had another number of assignments per token than the trace. */
int mf_routes_status(const mf_routes *r);

#endif

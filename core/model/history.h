/* model/history.h: what a router that reads earlier tokens (MF_ROUTER_SEQUENCE) is shown while
 * a text is decoded with a cache.
 *
 * Its inputs of all tokens so far stay in the cache, a fixed number of places for each
 * sequence. The router sees all places in every run, the ones without a token with mask 0, and
 * the rows of the run's own tokens are taken from what it returns. So its graph is that of a
 * run without a cache on a longer sequence, and its results are the same.
 */
#ifndef MF_MODEL_HISTORY_H
#define MF_MODEL_HISTORY_H

#include "graph/graph.h"
#include <moefw/routing.h>

/* The places of a cache, and where this run's tokens go; all layers share it. */
typedef struct mf_history {
    mf_store *store; /* has the inputs of each layer */
    mf_tensor *pos;  /* [B] i32: places before the first token of the run */
    mf_tensor *len;  /* [B] i32: places up to its last */
    int32_t places;  /* in each sequence, those before `start` included */
    int32_t start;   /* the first place of a text: those before it are in no sequence */
} mf_history;

/* Declares the inputs of a layer's router, of width dim. */
int mf_history_declare(mf_store *store, int32_t layer, int64_t places, int64_t dim);
/* in: the run's own tokens. *ret_in: what the router gets; *ret_row [T] i32: the rows of the
 * run's tokens in its results. Fails as the graph does. */
int mf_history_open(const mf_history *h, mf_graph *g, int32_t layer, const mf_router_in *in,
                    mf_router_in *ret_in, mf_tensor **ret_row);
/* Sets the router's part of r to those rows of whole. MF_EPLUGIN if it lists tokens. */
int mf_history_take(mf_graph *g, const mf_routing *whole, mf_tensor *row, mf_routing *r);

#endif

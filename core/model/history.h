/* model/history.h: the inputs of a router that reads earlier tokens (MF_ROUTER_SEQUENCE), while
 * a text is decoded with a cache.
 *
 * The cache keeps the router's inputs of all tokens so far; it has a fixed number of positions
 * for each sequence. In every run the router reads all positions, and positions without a token
 * have mask 0. Only the results for the tokens of the run itself are used. So the router's
 * graph is the same as without a cache on a longer sequence, and its results are the same. */
#ifndef MF_MODEL_HISTORY_H
#define MF_MODEL_HISTORY_H

#include "graph/graph.h"
#include <moefw/routing.h>

/* Describes the positions of a cache and of the run's tokens. All layers share this struct. */
typedef struct mf_history {
    mf_store *store; /* store that holds the router's inputs of each layer */
    mf_tensor *pos;  /* [B] i32: position of the run's first token */
    mf_tensor *len;  /* [B] i32: number of positions up to the run's last token */
    int32_t places;  /* number of positions per sequence, including those before `start` */
    int32_t start;   /* first position of a text; positions before it belong to no sequence */
} mf_history;

/* Declares the buffers for a layer's router: its input x [places, dim] and token ids [places,
 * 1]. `places` is the number of positions of all sequences together. */
int mf_history_declare(mf_store *store, int32_t layer, int64_t places, int64_t dim);
/* in: the router's input for the run's own tokens. Sets *ret_in to the router's input for all
 * positions, and *ret_row [T] i32 to the rows of the run's tokens in the router's results.
 * Returns the graph's status, which may be a failure. */
int mf_history_open(const mf_history *h, mf_graph *g, int32_t layer, const mf_router_in *in,
                    mf_router_in *ret_in, mf_tensor **ret_row);
/* Sets the router's part of r, except losses, to the rows `row` of `whole`. MF_EPLUGIN if the
 * router set token or dispatch. */
int mf_history_take(mf_graph *g, const mf_routing *whole, mf_tensor *row, mf_routing *r);

#endif

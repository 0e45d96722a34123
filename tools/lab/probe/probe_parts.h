/* lab/probe/probe_parts.h: declarations that the files of this folder share. */
#ifndef MF_LAB_PROBE_PARTS_H
#define MF_LAB_PROBE_PARTS_H

#include "data/batch.h"
#include "lab/probe/probe.h"
#include "run/session.h"

/* ---- changes in a graph with mf_model_shape.probe (probe_apply.c) ---- */

/* What the run without a change has chosen. */
typedef struct mf_probe_base {
    int32_t *chosen; /* [rows] experts, k for each token, best first; NULL: not kept */
    double sd;       /* standard deviation of the scores */
} mf_probe_base;

/* Sets the inputs of every layer to no change. */
int mf_probe_clear(const mf_model *m, mf_model_graph *mg);
/* Sets the inputs of the layers of the change; `base` has the layers of the model. A TOP_K
 * change has no inputs. mf_probe_clear_of sets these layers to no change again. */
int mf_probe_apply(const mf_model *m, mf_model_graph *mg, const mf_probe_change *c,
                   const mf_probe_base *base);
int mf_probe_clear_of(const mf_model *m, mf_model_graph *mg, const mf_probe_change *c);
/* Fails with MF_EUSAGE if the router of a layer does not allow the change. */
int mf_probe_judge(const mf_model *m, const mf_model_graph *mg, const mf_probe_change *c);
/* The same for changes that are made together, which the graph's inputs keep. */
int mf_probe_judge_all(const mf_model *m, mf_model_graph *mg, const mf_probe_list *l,
                       const mf_probe_base *base);

/* Draws `wanted` of the numbers 0..of-1 (0: all of them), in rising order. MF_ENOMEM. */
int mf_probe_pick(mf_arena *arena, int64_t of, int64_t wanted, uint64_t draw, int64_t **ret,
                  int64_t *ret_n);

/* ---- clusters (probe_texts.c) ---- */

/* Numbers the clusters of batches that are given in rising order. */
typedef struct mf_probe_texts {
    mf_batcher *batcher;
    int32_t end;             /* the id that ends a document of a stream; -1: none */
    bool by_row;             /* a cluster is an example */
    bool windows;            /* a cluster is a window: the text has no ends of documents */
    int64_t n;               /* clusters so far */
    int64_t document, batch; /* of the example before */
} mf_probe_texts;

/* cluster: [N] the cluster of each position of the batch, or [B] with by_row. */
void mf_probe_texts_take(mf_probe_texts *t, int64_t number, const mf_batch *b,
                         int32_t *cluster);

#endif

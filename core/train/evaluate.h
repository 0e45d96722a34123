/* train/evaluate.h: loss and routing over a split, in order, padding excluded. */
#ifndef MF_TRAIN_EVALUATE_H
#define MF_TRAIN_EVALUATE_H

#include "train/metrics/metrics.h"
#include "train/run/session.h"
#include "train/trace.h"

typedef struct mf_evaluator mf_evaluator;

/* The graph is built here, once. arena_of: the training graph, whose memory evaluation uses
 * between its runs (graph.h); NULL: memory of its own. */
int mf_evaluator_new(mf_session *s, mf_split split, const mf_graph *arena_of,
                     mf_evaluator **ret);
void mf_evaluator_free(mf_evaluator *e);
/* The structure changed: build the graph again. arena_of: the new training graph, or NULL. */
int mf_evaluator_rebuild(mf_evaluator *e, const mf_graph *arena_of);
/* From now on every n-th batch of a run, the first one included, goes to the recorder as well;
 * NULL: no more. Rebuilds the graph. */
int mf_evaluator_record(mf_evaluator *e, mf_trace_recorder *recorder, int64_t every);

/* Runs at most so many batches (0: the whole split) and fills the record (split, losses, ppl,
 * bits_per_byte, tokens, regularizers, layers); what it points to stays valid until the next
 * run. */
int mf_evaluator_run(mf_evaluator *e, int64_t step, int64_t batches, mf_metrics_record *ret);
/* Adds to the record of the last run what is measured of attention heads beside entropy:
 * gradient norms and importance, over at most so many batches (0: the split). MF_EUSAGE where
 * heads are not gated. The session: one with gradients. */
int mf_evaluator_heads(mf_evaluator *e, int64_t step, int64_t batches);
/* Counts of expert by label of a layer over the last run, [experts, labels]; NULL without. */
const mf_moe_tally *mf_evaluator_tally(const mf_evaluator *e, int32_t moe_layer);
/* NMI when each counted row goes to a random expert instead: the yardstick beside `nmi`. */
double mf_random_nmi(const mf_moe_tally *t, uint64_t seed);

#endif

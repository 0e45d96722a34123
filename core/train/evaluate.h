/* train/evaluate.h: loss and routing over a split, in its order, without padding. */
#ifndef MF_TRAIN_EVALUATE_H
#define MF_TRAIN_EVALUATE_H

#include "train/metrics/metrics.h"
#include "train/run/session.h"
#include "train/trace.h"

typedef struct mf_evaluator mf_evaluator;

/* Builds the graph. arena_of: the training graph, whose arena the evaluation reuses; the two
 * must never run at the same time (graph.h). NULL: an arena of its own. */
int mf_evaluator_new(mf_session *s, mf_split split, const mf_graph *arena_of,
                     mf_evaluator **ret);
void mf_evaluator_free(mf_evaluator *e);
/* Rebuilds the graph after the structure changed. arena_of: the new training graph, or NULL. */
int mf_evaluator_rebuild(mf_evaluator *e, const mf_graph *arena_of);
/* Records the first batch of each later run, and every n-th batch after it, in the recorder.
 * NULL ends this. Rebuilds the graph. */
int mf_evaluator_record(mf_evaluator *e, mf_trace_recorder *recorder, int64_t every);

/* Evaluates at most `batches` batches (0: the whole split) and fills the record: split, losses,
 * ppl, bits_per_byte, tokens, regularizers, layers. Pointers in the record are valid until the
 * next run. */
int mf_evaluator_run(mf_evaluator *e, int64_t step, int64_t batches, mf_metrics_record *ret);
/* Adds measurements of attention heads to the record of the last run: gradient norms and
 * importance, over at most `batches` batches (0: the whole split). The session must have
 * gradients. MF_EUSAGE if heads cannot be switched off. */
int mf_evaluator_heads(mf_evaluator *e, int64_t step, int64_t batches);
/* Sums of an MoE layer over the last run, with counts of expert by label [experts, labels];
 * NULL if there are none. */
const mf_moe_tally *mf_evaluator_tally(const mf_evaluator *e, int32_t moe_layer);
/* NMI if each counted assignment went to a random expert instead, as a reference for `nmi`. */
double mf_random_nmi(const mf_moe_tally *t, uint64_t seed);

#endif

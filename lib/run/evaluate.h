/* run/evaluate.h: loss and routing over a split, in the order of the split. Padding is
 * not counted. */
#ifndef MF_RUN_EVALUATE_H
#define MF_RUN_EVALUATE_H

#include "comm/world.h"
#include "run/metrics/metrics.h"
#include "run/metrics/routing_tally.h"
#include "run/session.h"
#include "run/sample/trace.h"

typedef struct mf_evaluator mf_evaluator;

/* Makes an evaluator and builds its graph. The session must outlive it. arena_of: the training
 * graph, whose arena the evaluation reuses; the two graphs must never run at the same time
 * (graph.h). NULL: the evaluator has its own arena. Errors: those of mf_batcher_new
 * and mf_model_graph_new. */
int mf_evaluator_new(mf_session *s, mf_split split, const mf_graph *arena_of,
                     mf_evaluator **ret);
void mf_evaluator_free(mf_evaluator *e);
/* Rebuilds the graph after the structure changed. arena_of: the new training graph, or NULL. */
int mf_evaluator_rebuild(mf_evaluator *e, const mf_graph *arena_of);
/* Distributes the batches of later runs over the ranks. All ranks get the same record. All
 * ranks must then call mf_evaluator_run. MF_ENOMEM. */
int mf_evaluator_share(mf_evaluator *e, mf_world *world);
/* Each later run records its first batch and every batch whose number is a multiple of `every`
 * in the recorder. Batches without targets are skipped. NULL ends the recording. Rebuilds
 * the graph. */
int mf_evaluator_record(mf_evaluator *e, mf_trace_recorder *recorder, int64_t every);

/* Evaluates at most `batches` batches (0: the whole split) and fills the record, except times
 * and the fields of training steps. step: number of the step in the record. Pointers in the
 * record are valid until the next run. */
int mf_evaluator_run(mf_evaluator *e, int64_t step, int64_t batches, mf_metrics_record *ret);
/* Later runs of more than `batches` batches also measure their first `batches` batches. The
 * result is the field `curve` of the record. 0: this is switched off. */
void mf_evaluator_mark(mf_evaluator *e, int64_t batches);
/* Number of batches that a run of at most `batches` (0: the whole split) evaluates. */
int64_t mf_evaluator_batches(const mf_evaluator *e, int64_t batches);
/* Later runs call `each` after each batch, with the number of batches done and their total; an
 * error ends the run. NULL: nothing is called. */
void mf_evaluator_watch(mf_evaluator *e, int (*each)(void *arg, int64_t done, int64_t total),
                        void *arg);
/* The step whose random numbers batch b of an evaluation after `step` steps draws. If all
 * batches drew the numbers of the same step, they would have the same numbers at the
 * same positions. */
static inline uint64_t mf_evaluation_draws(uint64_t step, int64_t b)
{
    return step + ((uint64_t)b << 40);
}
/* Adds measurements of attention heads to the record of the last run: gradient norms and
 * importance, over at most `batches` batches (0: the whole split). The session must have
 * gradients. MF_EUSAGE if heads cannot be switched off. */
int mf_evaluator_heads(mf_evaluator *e, int64_t step, int64_t batches);
/* Sums of an MoE layer (an index from 0) over the last run; with labels they contain the counts
 * of expert by label, `joint` [experts, labels]. NULL if there is no such layer. */
const mf_moe_tally *mf_evaluator_tally(const mf_evaluator *e, int32_t moe_layer);
/* The NMI that would result if each counted assignment went to a random expert, as a reference
 * for `nmi`. NaN without labels, or if there is not enough memory. */
double mf_random_nmi(const mf_moe_tally *t, uint64_t seed);

#endif

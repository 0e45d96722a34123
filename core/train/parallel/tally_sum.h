/* train/parallel/tally_sum.h: sums the tallies of plugins (plugin/tallies.h) over the
 * micro-batches and ranks of a step, in f64.
 *
 * Whole numbers are added in any order, because their sum is exact. All other numbers are added
 * in the tree of the micro-batches (train/parallel/tree.h): a rank adds its own leaves and
 * sends the sums of its pieces, and every rank adds the pieces of all ranks. So all ranks have
 * the same bits, and so does a run with another number of ranks. */
#ifndef MF_TRAIN_TALLY_SUM_H
#define MF_TRAIN_TALLY_SUM_H

#include "comm/world.h"
#include "plugin/tallies.h"
#include "train/parallel/tree.h"

typedef struct mf_tally_sum mf_tally_sum;

/* Describes which rank runs which micro-batch. Rank r of `ranks` runs the micro-batches of
 * mf_tree_share. If the ranks take turns, it runs every ranks-th micro-batch from r on. */
typedef struct mf_tally_plan {
    int64_t leaves;
    int rank, ranks;
    bool turns;
} mf_tally_plan;

/* *ret is NULL if the model has no tally; the other functions accept NULL. MF_ENOMEM. */
int mf_tally_sum_new(mf_plughost *h, const mf_tally_plan *plan, mf_tally_sum **ret);
void mf_tally_sum_free(mf_tally_sum *s);
void mf_tally_sum_begin(mf_tally_sum *s);
/* Adds micro-batch `leaf`, which ran in graph g and was collected in the slot of the same
 * number. The leaves of this rank must be added in ascending order. */
void mf_tally_sum_add(mf_tally_sum *s, const mf_graph *g, int64_t leaf);
/* Returns what a rank sends to the others, and where it is received; bytes 0: nothing
 * is sent. */
mf_comm_piece mf_tally_sum_of(const mf_tally_sum *s, int peer, int rank);
/* Adds the sums of all ranks, and stores the result in the host (mf_plughost). */
void mf_tally_sum_fold(mf_tally_sum *s);

#endif

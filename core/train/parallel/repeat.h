/* train/parallel/repeat.h: whether a micro-batch has the same results when it runs again, and
 * on every rank.
 *
 * An op that uses rand or a clock, or keeps state outside of buffers, makes a run depend on who
 * runs which micro-batch, although all ranks have equal weights: the owner of a slice adds the
 * values that it receives. So from time to time all ranks run the same micro-batch, twice. */
#ifndef MF_TRAIN_REPEAT_H
#define MF_TRAIN_REPEAT_H

#include "comm/world.h"
#include "train/job.h"
#include "train/length_buckets.h"

/* Runs micro-batch `leaf` of the source twice on every rank. Overwrites
 * gradients, and leaves buffers as they were. MF_EPLUGIN, which is agreed: the results differ;
 * the message names the first op whose values do. All ranks must call this. */
int mf_repeat_judge(mf_world *w, const mf_train_job *job, mf_length_buckets *buckets,
                    int64_t leaf);

#endif

/* train/parallel/repeat.h: checks whether a micro-batch has the same results when it runs
 * again, and on every rank.
 *
 * An op may use rand or a clock, or keep state outside of buffers. Its results then depend on
 * which rank runs which micro-batch. The ranks' weights stay equal nevertheless, because the
 * owner of a slice adds the values that it receives. So from time to time all ranks run the
 * same micro-batch twice. */
#ifndef MF_TRAIN_REPEAT_H
#define MF_TRAIN_REPEAT_H

#include "comm/world.h"
#include "train/job.h"
#include "train/length_buckets.h"

/* Runs micro-batch `leaf` of the source twice on every rank. Overwrites gradients, and restores
 * buffers. MF_EPLUGIN, on which all ranks agree: the results differ; the message names the
 * first op whose values differ. All ranks must call this. */
int mf_repeat_judge(mf_world *w, const mf_train_job *job, mf_length_buckets *buckets,
                    int64_t leaf);

#endif

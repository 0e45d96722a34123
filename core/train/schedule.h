/* train/schedule.h: the learning rate as a function of the step. */
#ifndef MF_TRAIN_SCHEDULE_H
#define MF_TRAIN_SCHEDULE_H

#include "train/train_config.h"

/* Learning rate of update number `step` (0 .. steps-1) with base rate lr:
 *
 *   warmup    lr (step + 1) / warmup                      while step < warmup
 *   constant  lr
 *   linear    lr (1 - (1 - lr_min) u)
 *   cosine    lr (lr_min + (1 - lr_min) (1 + cos(pi u)) / 2)   (Loshchilov, Hutter 2017, eq. 5)
 *   wsd       lr (1 - (1 - lr_min) sqrt(v))           (Haegele et al. 2024, section 3)
 *   step      lr step_gamma^floor(step / step_size)
 *
 * u = (step - warmup) / (steps - warmup), at most 1, is the share of the steps after warmup
 * that are done. v is the share of the last decay_share (steps - warmup) steps that are done;
 * it is 0 before them. */
double mf_schedule_lr(const mf_train_config *c, double lr, int64_t step, int64_t steps);

#endif

/* train/sample_steps.h: the evaluations at which a stretch of text is pictured: report.samples
 * of
 * them, spread evenly, the first and the last among them, or those that report.sample_at lists.
 *
 * A function of the configuration and the number of steps alone, so that a run that was stopped
 * pictures the same ones when it goes on.
 */
#ifndef MF_MODEL_PICTURED_H
#define MF_MODEL_PICTURED_H

#include "train/train_config.h"

enum { MF_PICTURED_MAX = 16 };

/* Parses "1,5,15,20": increasing numbers from 1. False, with *ret_n at the first invalid one,
 * if the text is no such list or has more than MF_PICTURED_MAX. "" is an empty list. */
bool mf_sample_steps_list(const char *text, int64_t out[MF_PICTURED_MAX], int *ret_n);

/* Number of evaluations in a run of this many steps: after every eval_every-th step and the
 * last one. */
int64_t mf_evaluations(int64_t steps, int64_t eval_every);
/* Number of the evaluation after a step, from 1. */
int64_t mf_evaluation_at(int64_t steps, int64_t eval_every, int64_t step);
/* Whether evaluation `number` of `count` is one of them. */
bool mf_sample_steps(const mf_report_config *c, int64_t number, int64_t count);

#endif

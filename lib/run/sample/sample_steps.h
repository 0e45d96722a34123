/* run/sample/sample_steps.h: selects the evaluations after which the routing of a text is
 * written. They are the evaluations in report.sample_at, or report.samples evaluations, evenly
 * spaced from first to last (if only one is selected, the last).
 *
 * The selection depends only on the configuration and the number of steps, so a resumed run
 * selects the same evaluations. */
#ifndef MF_RUN_SAMPLE_STEPS_H
#define MF_RUN_SAMPLE_STEPS_H

#include "train/train_config.h"

enum { MF_PICTURED_MAX = 16 };

/* Parses "1,5,15,20": increasing numbers, each at least 1; *ret_n: their number. "" is an empty
 * list. Returns false if the text is not such a list or has more than MF_PICTURED_MAX numbers;
 * *ret_n is then the index of the first invalid number. */
bool mf_sample_steps_list(const char *text, int64_t out[MF_PICTURED_MAX], int *ret_n);

/* Number of evaluations in a run of `steps` steps: one after each step whose number is a
 * multiple of eval_every (0: none of them), and one after the last step. */
int64_t mf_evaluations(int64_t steps, int64_t eval_every);
/* Number of the evaluation after `step`, from 1. */
int64_t mf_evaluation_at(int64_t steps, int64_t eval_every, int64_t step);
/* Whether evaluation `number` of `count` is selected. */
bool mf_sample_steps(const mf_report_config *c, int64_t number, int64_t count);

#endif

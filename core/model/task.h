/* model/task.h: what is learned: of each token, or of each example. */
#ifndef MF_MODEL_TASK_H
#define MF_MODEL_TASK_H

#include <stdbool.h>
#include <stdint.h>

typedef enum mf_task { MF_TASK_LM, MF_TASK_CLASSIFY, MF_TASK_MLM, MF_TASK_REGRESS } mf_task;
#define MF_TASKS_MAX 8 /* further ones, beside the first: sections [task.NAME] */

/* Whether the task has one prediction per sequence (classify, regress), not one per token. */
static inline bool mf_task_by_row(int64_t task)
{
    return task == MF_TASK_CLASSIFY || task == MF_TASK_REGRESS;
}

#endif

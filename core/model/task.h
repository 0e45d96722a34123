/* model/task.h: the kinds of tasks. A task has one prediction per token or one per example. */
#ifndef MF_MODEL_TASK_H
#define MF_MODEL_TASK_H

#include <stdbool.h>
#include <stdint.h>

typedef enum mf_task { MF_TASK_LM, MF_TASK_CLASSIFY, MF_TASK_MLM, MF_TASK_REGRESS } mf_task;
#define MF_TASKS_MAX 8 /* maximum number of [task.NAME] sections */

/* Whether the task has one prediction per sequence (classify, regress) instead of one
 * per token. */
static inline bool mf_task_by_row(int64_t task)
{
    return task == MF_TASK_CLASSIFY || task == MF_TASK_REGRESS;
}

#endif

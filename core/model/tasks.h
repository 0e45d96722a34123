/* model/tasks.h: what is learned of whole examples: a class or a number each, by one head or
 * several on the same encoder.
 *
 *     loss = the task's own, or with further tasks the sum of weight x loss over all of them
 *     classify: mean cross entropy of the rows that have a class
 *     regress:  mean of (answer - number)^2 over the rows that have a number, 0 without any
 *
 * With one task the graph is that of one head, without weights (Caruana 1997 is the classic on
 * several).
 */
#ifndef MF_MODEL_TASKS_H
#define MF_MODEL_TASKS_H

#include "model/model.h"

/* Weights of tasks become live options: model.task_weight, task.NAME.weight. */
int mf_tasks_register(mf_model *m);
/* Fills n_tasks, kinds and inputs. */
void mf_tasks_inputs(const mf_model *m, mf_model_graph *mg);
/* x [B,d]: answers, losses, and the graph's logits and task_loss. */
void mf_tasks_build(mf_model *m, mf_model_graph *mg, mf_tensor *x);

#endif

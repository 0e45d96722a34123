/* model/tasks.h: predictions for whole examples. A prediction is a class or a number, from one
 * head or from several heads on the same encoder.
 *
 *     loss = the loss of model.task; with further tasks the sum of weight x loss over all tasks
 *     classify: mean cross entropy of the examples that have a class
 *     regress:  mean of (prediction - number)^2 over the examples that have a number; 0 if none
 *
 * With one task the graph has one head and no task weights (several tasks: Caruana 1997). */
#ifndef MF_MODEL_TASKS_H
#define MF_MODEL_TASKS_H

#include "model/model.h"

/* Sets m->task_weights. If there are several tasks, registers the weights as live options:
 * model.task_weight, task.NAME.weight. */
int mf_tasks_register(mf_model *m);
/* Adds the inputs of all tasks, and sets the graph's n_tasks, targets, and kinds of tasks. */
void mf_tasks_inputs(const mf_model *m, mf_model_graph *mg);
/* x [B,d]: adds predictions and losses, and sets the graph's logits and task_loss. */
void mf_tasks_build(mf_model *m, mf_model_graph *mg, mf_tensor *x);

/* Returns a loss times its share of the step (train/parallel/shares.h). Returns the loss itself
 * outside of training, and if a step has one micro-batch. share: a field of the model. */
mf_tensor *mf_tasks_share(const mf_model *m, const mf_model_graph *mg, mf_tensor *loss,
                          const double *share);

#endif

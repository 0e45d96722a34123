/* model/tasks.c: heads and losses of predictions for whole examples. With one task the graph
 * has no task weights, so its bits do not depend on these weights. */
#include "model/tasks.h"
#include <stdio.h>
#include "graph/shape.h"
#include "model/block.h"
#include "ops/layers/linear_cross_entropy.h"
#include "ops/ops.h"

int mf_model_tasks(const mf_model *m)
{
    return mf_task_by_row(m->config->model.task) ? 1 + m->config->n_tasks : 0;
}

mf_task mf_model_task_kind(const mf_model *m, int i)
{
    if (i == 0) return (mf_task)m->config->model.task;
    return m->config->tasks[i - 1].task == MF_FURTHER_REGRESS ? MF_TASK_REGRESS
                                                              : MF_TASK_CLASSIFY;
}

const char *mf_model_task_name(const mf_model *m, int i)
{
    return i == 0 ? "main" : m->config->tasks[i - 1].name;
}

int64_t mf_model_task_params(const mf_model *m, int i)
{
    const mf_model_dims *f = &m->dims;
    const int64_t out = mf_model_task_kind(m, i) == MF_TASK_REGRESS ? 1
                        : i == 0                                    ? f->classes
                                                                    : f->more_classes[i - 1];
    return out * (m->config->model.dim + 1);
}

int mf_tasks_register(mf_model *m)
{
    const mf_model_settings *c = m->config;
    char name[128];
    m->task_weights[0] = c->model.task_weight;
    if (mf_model_tasks(m) < 2) return MF_OK;
    int rc =
        mf_live_register_real(m->plugins, "model.task_weight", &m->task_weights[0], 0, 1e9);
    for (int i = 0; rc == MF_OK && i < c->n_tasks; i++) {
        m->task_weights[1 + i] = c->tasks[i].weight;
        snprintf(name, sizeof name, "task.%.64s.weight", c->tasks[i].name);
        rc = mf_live_register_real(m->plugins, name, &m->task_weights[1 + i], 0, 1e9);
    }
    return rc;
}

void mf_tasks_inputs(const mf_model *m, mf_model_graph *mg)
{
    const mf_shape batch = mf_shape1(mg->shape.batch);
    mg->n_tasks = mf_model_tasks(m);
    for (int i = 0; i < mg->n_tasks; i++) {
        mf_model_task *t = &mg->tasks[i];
        t->kind = mf_model_task_kind(m, i);
        if (t->kind == MF_TASK_CLASSIFY) {
            t->targets = mf_graph_input(mg->g, "targets", MF_I32, batch);
        } else {
            t->values = mf_graph_input(mg->g, "values", MF_F32, batch);
            t->counted = mf_graph_input(mg->g, "counted", MF_F32, batch);
        }
    }
    mg->targets = mg->tasks[0].targets;
}

static mf_tensor *squared_error(mf_graph *g, const mf_model_task *t)
{
    const bool was_bf16 = mf_graph_set_bf16(g, false); /* losses are computed in f32 */
    mf_tensor *out = mf_reshape(g, t->out, t->values->shape);
    mf_tensor *off = mf_mul(g, mf_square(g, mf_sub(g, out, t->values)), t->counted);
    mf_tensor *n = mf_clamp(g, mf_sum(g, t->counted, MF_ALL, false), 1, 1e30);
    mf_tensor *mean = mf_div(g, mf_sum(g, off, MF_ALL, false), n);
    mf_graph_set_bf16(g, was_bf16);
    return mean;
}

mf_tensor *mf_tasks_share(const mf_model *m, const mf_model_graph *mg, mf_tensor *loss,
                          const double *share)
{
    if (!m->options.shares || mg->shape.mode != MF_MODE_TRAIN) return loss;
    const bool was_bf16 = mf_graph_set_bf16(mg->g, false);
    mf_tensor *part = mf_mul(mg->g, loss, mf_graph_live(mg->g, share, "share"));
    mf_graph_set_bf16(mg->g, was_bf16);
    return part;
}

/* Returns the sum of weight x loss over the tasks. With one task it returns the task's loss
 * without a weight. */
static mf_tensor *sum_of_losses(mf_model *m, mf_model_graph *mg)
{
    mf_graph *g = mg->g;
    mf_graph_keep(mg->tasks[0].loss);
    mf_tensor *sum = mf_tasks_share(m, mg, mg->tasks[0].loss, m->task_shares);
    if (mg->n_tasks == 1) return sum;
    const bool was_bf16 = mf_graph_set_bf16(g, false);
    for (int i = 0; i < mg->n_tasks; i++) {
        mf_graph_keep(mg->tasks[i].loss);
        mf_tensor *weight = mf_graph_live(g, &m->task_weights[i], "weight");
        mf_tensor *part = mf_mul(g, mg->tasks[i].loss, weight);
        part = mf_tasks_share(m, mg, part, &m->task_shares[i]);
        sum = i == 0 ? part : mf_add(g, sum, part);
    }
    mf_graph_set_bf16(g, was_bf16);
    return sum;
}

void mf_tasks_build(mf_model *m, mf_model_graph *mg, mf_tensor *x)
{
    mf_graph *g = mg->g;
    const bool keep = mg->shape.want_logits;
    for (int i = 0; i < mg->n_tasks && mf_graph_status(g) == MF_OK; i++) {
        mf_model_task *t = &mg->tasks[i];
        t->out = mf_block_task_head(m, g, i, x);
        if (keep) mf_graph_keep(t->out);
        if (i == 0 && mg->wants_rows && t->kind == MF_TASK_CLASSIFY)
            t->loss = mf_cross_entropy_rows(g, t->out, t->targets, NULL, &mg->row_loss);
        else
            t->loss = t->kind == MF_TASK_CLASSIFY
                          ? mf_cross_entropy(g, t->out, t->targets, NULL)
                          : squared_error(g, t);
    }
    mg->task_loss = sum_of_losses(m, mg);
    if (!keep)
        for (int i = 0; i < mg->n_tasks; i++)
            mg->tasks[i].out = NULL;
    mg->logits = mg->tasks[0].out;
}

/* Figures of the predictions of classifiers and of regression models. A single run also has
 * figures of its tasks, of training, and of accuracy beside routing. If no record has the
 * values of a figure, the figure is omitted. */
#include "report/page/report_curves.h"

#define PICK(field)                                                                            \
    static double pick_##field(const mf_metrics_record *m, const void *arg)                    \
    {                                                                                          \
        (void)arg;                                                                             \
        return m->field;                                                                       \
    }
PICK(accuracy)
PICK(macro_f1)
PICK(pearson)
PICK(spearman)
PICK(train_loss)
PICK(train_accuracy)

static double pick_rmse(const mf_metrics_record *m, const void *arg)
{
    (void)arg;
    return sqrt(m->mse);
}

/* task_loss: the loss of the task with index *arg. task_score: its accuracy or Pearson's r. */
static double task_loss(const mf_metrics_record *m, const void *arg)
{
    const int i = *(const int *)arg;
    return i < m->n_tasks ? m->tasks[i].loss : NAN;
}

static double task_score(const mf_metrics_record *m, const void *arg)
{
    const int i = *(const int *)arg;
    if (i >= m->n_tasks) return NAN;
    return m->tasks[i].number ? m->tasks[i].pearson : m->tasks[i].accuracy;
}

static double entropy_of(const mf_layer_stats *s)
{
    return s->entropy;
}

static double gate_entropy_of(const mf_layer_stats *s)
{
    return s->gate_entropy;
}

/* Draws accuracy and F1 of classifiers; for a single run also the loss, on the right axis. */
static void classification(const mf_report *p)
{
    mf_curves c = {0};
    for (int i = 0; i < p->n; i++) {
        const mf_report_run *r = p->runs[i];
        const bool one = p->n == 1;
        mf_series *s = mf_curves_add(&c, one ? "accuracy" : r->name,
                                     mf_report_track(r, "val", pick_accuracy, NULL));
        if (s && !one) s->colour = i + 1;
        s = mf_curves_add(&c, one ? "macro F1" : NULL,
                          mf_report_track(r, "val", pick_macro_f1, NULL));
        if (s && !one) {
            s->dashed = true;
            s->colour = i + 1;
        }
        if (c.n > 0 && one) {
            s = mf_curves_add(&c, "loss (right)",
                              mf_report_track(r, "val", mf_report_pick_loss, NULL));
            if (s) s->right = true;
        }
    }
    mf_curves_figure(p, "Accuracy",
                     p->n > 1 ? "Full lines: accuracy; broken lines: macro F1." : NULL,
                     (mf_plot){.y_label = "share",
                               .right_label = mf_report_loss_unit(p->runs[0]),
                               .y_lo = 0,
                               .y_hi = 1},
                     &c);
}

/* Draws the correlations of regression; for a single run also the RMSE, on the right axis. */
static void numbers(const mf_report *p)
{
    mf_curves c = {0};
    for (int i = 0; i < p->n; i++) {
        const mf_report_run *r = p->runs[i];
        const bool one = p->n == 1;
        mf_series *s = mf_curves_add(&c, one ? "Pearson" : r->name,
                                     mf_report_track(r, "val", pick_pearson, NULL));
        if (s && !one) s->colour = i + 1;
        s = mf_curves_add(&c, one ? "Spearman" : NULL,
                          mf_report_track(r, "val", pick_spearman, NULL));
        if (s && !one) {
            s->dashed = true;
            s->colour = i + 1;
        }
        if (one) {
            s = mf_curves_add(&c, "RMSE (right)", mf_report_track(r, "val", pick_rmse, NULL));
            if (s) s->right = c.n > 1;
        }
    }
    mf_curves_figure(p, "Correlation of predictions and labels",
                     p->n > 1 ? "Full lines: Pearson; broken lines: Spearman." : NULL,
                     (mf_plot){.y_label = "correlation", .right_label = "RMSE"}, &c);
}

/* Draws one curve for each task of a run with several tasks. */
static void of_tasks(const mf_report *p, const char *title, const char *y_label,
                     const char *caption, mf_pick pick)
{
    const mf_metrics_record *last = mf_report_last(p->runs[0], "val");
    mf_curves c = {0};
    for (int i = 0; last && i < last->n_tasks; i++)
        mf_curves_add(&c, last->tasks[i].name, mf_report_track(p->runs[0], "val", pick, &i));
    mf_curves_figure(p, title, caption, (mf_plot){.y_label = y_label}, &c);
}

/* Draws loss and accuracy on the training examples since the last evaluation, on two axes. */
static void training_accuracy(const mf_report *p)
{
    mf_curves c = {0};
    const mf_report_run *r = p->runs[0];
    mf_curves_add(&c, "accuracy", mf_report_track(r, "val", pick_train_accuracy, NULL));
    if (c.n == 0) return;
    mf_series *s =
        mf_curves_add(&c, "loss (right)", mf_report_track(r, "val", pick_train_loss, NULL));
    if (s) s->right = true;
    mf_curves_figure(
        p, "Loss and accuracy in training", "Means over the steps between evaluations.",
        (mf_plot){.y_label = "share", .right_label = "loss", .y_lo = 0, .y_hi = 1}, &c);
}

/* Draws accuracy and F1, with the entropies of routing and gates on the right axis. */
static void accuracy_and_routing(const mf_report *p)
{
    mf_curves c = {0};
    const mf_report_run *r = p->runs[0];
    const mf_layer_pick mean = {entropy_of, -1}, gates = {gate_entropy_of, -1};
    mf_curves_add(&c, "accuracy", mf_report_track(r, "val", pick_accuracy, NULL));
    mf_curves_add(&c, "macro F1", mf_report_track(r, "val", pick_macro_f1, NULL));
    if (c.n == 0) return;
    mf_series *s = mf_curves_add(&c, "routing entropy (right)",
                                 mf_report_track(r, "val", mf_pick_layer, &mean));
    if (!s) return;
    s->right = true;
    s = mf_curves_add(&c, "gate entropy (right)",
                      mf_report_track(r, "val", mf_pick_layer, &gates));
    if (s) s->right = true;
    mf_curves_figure(
        p, "Accuracy and routing entropy",
        "Of the validation split. Routing entropy: of the probabilities of all experts; gate "
        "entropy: of the gates of the chosen ones.",
        (mf_plot){.y_label = "share", .right_label = "nats", .y_lo = 0, .y_hi = 1}, &c);
}

void mf_report_examples(const mf_report *p)
{
    classification(p);
    numbers(p);
    if (p->n > 1) return;
    of_tasks(p, "Loss of each task", "loss", "Before its weight, on the validation split.",
             task_loss);
    of_tasks(p, "Each task", "accuracy, Pearson",
             "Accuracy of classes, Pearson's r of numbers, on the validation split.",
             task_score);
    training_accuracy(p);
    accuracy_and_routing(p);
}

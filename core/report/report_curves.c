/* Curves over the steps: learning and balance, of one run or of several over one another. */
#include "report/report_parts.h"
#include "report/scale.h"

#include <stdlib.h>
#include <string.h>

#define MAX_CURVES 32

/* ---- what is picked out of a record ---- */

double mf_report_pick_loss(const mf_metrics_record *m, const void *arg)
{
    (void)arg;
    return isnan(m->task_loss) ? m->loss : m->task_loss;
}

#define PICK(field)                                                                            \
    static double pick_##field(const mf_metrics_record *m, const void *arg)                    \
    {                                                                                          \
        (void)arg;                                                                             \
        return m->field;                                                                       \
    }
PICK(lr)
PICK(grad_norm)
PICK(tokens_per_s)
PICK(accuracy)
PICK(macro_f1)
PICK(pearson)
PICK(spearman)
PICK(train_loss)
PICK(train_accuracy)
PICK(gap_loss)
PICK(gap_accuracy)
PICK(peak_rss_mib)

static double pick_rmse(const mf_metrics_record *m, const void *arg)
{
    (void)arg;
    return sqrt(m->mse);
}

/* Of the task at *arg: its loss, and accuracy or Pearson's r. */
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

static double heads(const mf_metrics_record *m, const void *arg)
{
    (void)arg;
    return m->heads_total > 0 ? (double)m->heads_active : NAN;
}

static double efficiency(const mf_metrics_record *m, const void *arg)
{
    (void)arg;
    return m->heads_total > 0 ? mf_metrics_efficiency(m) : NAN;
}

static double regularizer(const mf_metrics_record *m, const void *name)
{
    for (int i = 0; i < m->n_regularizers; i++)
        if (strcmp(m->regularizers[i].name, name) == 0) return m->regularizers[i].value;
    return NAN;
}

/* A measure of a layer; layer -1: the mean over the layers. */
typedef struct layer_pick {
    double (*of)(const mf_layer_stats *s);
    int layer;
} layer_pick;

static double of_layer(const mf_metrics_record *m, const void *arg)
{
    const layer_pick *p = arg;
    double sum = 0;
    if (p->layer >= 0) return p->layer < m->n_layers ? p->of(&m->layers[p->layer]) : NAN;
    for (int i = 0; i < m->n_layers; i++)
        sum += p->of(&m->layers[i]);
    return m->n_layers > 0 ? sum / m->n_layers : NAN;
}

#define MEASURE(field)                                                                         \
    static double measure_##field(const mf_layer_stats *s)                                     \
    {                                                                                          \
        return s->field;                                                                       \
    }
MEASURE(entropy)
MEASURE(top_prob)
MEASURE(load_cv)
MEASURE(drop_rate)
MEASURE(nmi)
MEASURE(reassigned)
MEASURE(gate_entropy)

/* How far the mean gates are from even: sum u ln(E u), u_e the share of expert e in all gates. */
static double balance_kl(const mf_layer_stats *s)
{
    double d = 0;
    if (s->importance == NULL || s->experts < 1) return NAN;
    for (int e = 0; e < s->experts; e++) {
        const double u = (double)s->importance[e];
        if (u > 0) d += u * log(u * s->experts);
    }
    return d > 0 ? d : 0;
}

/* ---- figures ---- */

typedef struct curves {
    mf_series s[MAX_CURVES];
    int n;
} curves;

static mf_series *add(curves *c, const char *name, mf_track t)
{
    if (t.n == 0 || c->n == MAX_CURVES) return NULL;
    c->s[c->n] = (mf_series){.name = name, .n = t.n, .x = t.x, .y = t.y};
    return &c->s[c->n++];
}

static void figure(const mf_report *p, const char *title, const char *caption, mf_plot plot,
                   const curves *c)
{
    if (c->n == 0) return;
    plot.title = title;
    plot.x_label = "step";
    plot.width = plot.width > 0 ? plot.width : 560;
    plot.height = plot.height > 0 ? plot.height : 280;
    plot.series = c->s;
    plot.n_series = c->n;
    mf_html_figure(p->d, title);
    mf_svg_plot(p->d, &plot);
    mf_html_figure_end(p->d, caption);
}

/* What is left of the track from step x on. */
static mf_track from(mf_track t, double x)
{
    while (t.n > 0 && t.x[0] < x) {
        t.x++;
        t.y++;
        t.n--;
    }
    return t;
}

static mf_range range_of(const curves *c, double x)
{
    mf_range r = mf_range_empty();
    for (int i = 0; i < c->n; i++)
        for (int k = 0; k < c->s[i].n; k++)
            if (c->s[i].x[k] >= x) mf_range_add(&r, c->s[i].y[k]);
    return r;
}

/* Training loss, faint and smoothed, with validation loss over it, from step x on. */
static void collect_loss(const mf_report *p, double x, curves *c)
{
    const bool one = p->n == 1;
    *c = (curves){0};
    for (int i = 0; i < p->n; i++) {
        const mf_report_run *r = p->runs[i];
        mf_track train =
            mf_report_smooth(r, mf_report_track(r, "train", mf_report_pick_loss, NULL), 0.02);
        mf_track val = mf_report_track(r, "val", mf_report_pick_loss, NULL);
        mf_series *s = add(c, one ? "training" : val.n == 0 ? r->name : NULL, from(train, x));
        if (s != NULL) s->thin = true;
        if (s != NULL && !one) {
            s->colour = i + 1;
            s->dashed = val.n > 0;
        }
        s = add(c, one ? "validation" : r->name, from(val, x));
        if (s != NULL) s->colour = one ? 2 : i + 1;
    }
}

static double last_step(const mf_report *p)
{
    double last = 0;
    for (int i = 0; i < p->n; i++)
        for (int k = 0; k < p->runs[i]->history->n; k++)
            last = fmax(last, (double)p->runs[i]->history->records[k].step);
    return last;
}

/* The fall at the start makes the rest look flat: the rest is drawn once more by itself. */
static void loss(const mf_report *p)
{
    curves c;
    mf_level level = {NAN, "entropy floor"};
    const char *caption = p->n > 1 ? "Full lines: validation; broken lines: training." : NULL;
    const double x = floor(last_step(p) * 0.25);
    for (int i = 0; i < p->n && isnan(level.y); i++)
        level.y = p->runs[i]->floor;
    const mf_plot plot = {.y_label = mf_report_loss_unit(p->runs[0]),
                          .n_levels = isnan(level.y) ? 0 : 1,
                          .levels = &level};
    collect_loss(p, 0, &c);
    figure(p, "Loss", caption, plot, &c);
    const mf_range all = range_of(&c, 0), late = range_of(&c, x);
    if (!(late.hi - late.lo > 0) || all.hi - all.lo < 3 * (late.hi - late.lo)) return;
    collect_loss(p, x, &c);
    figure(p, mf_report_strf(p, "Loss from step %.0f on", x), caption, plot, &c);
}

/* Training and validation data as they were measured beside one another, at the evaluations. */
static void at_evaluations(const mf_report *p)
{
    static const char *const splits[] = {"train_eval", "val"}, *const names[] = {
                                                                   "training data",
                                                                   "validation data"};
    const mf_report_run *r = p->runs[0];
    const mf_level floor = {r->floor, "entropy floor"};
    curves c = {0};
    if (mf_report_last(r, splits[0]) == NULL) return;
    for (int i = 0; i < 2; i++) {
        const mf_track t = mf_report_track(r, splits[i], mf_report_pick_loss, NULL);
        mf_series *s = add(&c, names[i], t);
        if (s != NULL) s->colour = i + 1;
        s = add(&c, NULL, t);
        if (s == NULL) continue;
        s->points = true;
        s->colour = i + 1;
    }
    figure(p, "Loss at the evaluations",
           "Measured alike: without dropout, with the weights of that step.",
           (mf_plot){
               .y_label = "nats a token", .n_levels = isnan(floor.y) ? 0 : 1, .levels = &floor},
           &c);
}

/* The same number of every run. */
static void of_runs(const mf_report *p, const char *title, const char *y_label,
                    const char *caption, const char *split, mf_pick pick, const void *arg,
                    bool log_y)
{
    curves c = {0};
    for (int i = 0; i < p->n; i++) {
        mf_series *s = add(&c, p->n > 1 ? p->runs[i]->name : NULL,
                           mf_report_track(p->runs[i], split, pick, arg));
        if (s != NULL) s->colour = i + 1;
    }
    figure(p, title, caption, (mf_plot){.y_label = y_label, .log_y = log_y}, &c);
}

/* Learning rate and length of the gradient of one run, on two axes. */
static void rate_and_gradient(const mf_report *p)
{
    curves c = {0};
    mf_series *s =
        add(&c, "gradient norm", mf_report_track(p->runs[0], "train", pick_grad_norm, NULL));
    if (s != NULL) s->thin = true;
    s = add(&c, "learning rate (right)", mf_report_track(p->runs[0], "train", pick_lr, NULL));
    if (s != NULL) s->right = c.n > 1;
    figure(p, "Gradient and learning rate", NULL,
           (mf_plot){.y_label = "gradient norm", .right_label = "learning rate", .log_y = true},
           &c);
}

/* Accuracy and F1, beside the loss on the other axis: classifiers. */
static void classification(const mf_report *p)
{
    curves c = {0};
    for (int i = 0; i < p->n; i++) {
        const mf_report_run *r = p->runs[i];
        const bool one = p->n == 1;
        add(&c, one ? "accuracy" : r->name, mf_report_track(r, "val", pick_accuracy, NULL));
        mf_series *s =
            add(&c, one ? "macro F1" : NULL, mf_report_track(r, "val", pick_macro_f1, NULL));
        if (s != NULL && !one) {
            s->dashed = true;
            s->colour = i + 1;
        }
        if (c.n > 0 && one) {
            s = add(&c, "loss (right)", mf_report_track(r, "val", mf_report_pick_loss, NULL));
            if (s != NULL) s->right = true;
        }
    }
    figure(p, "Accuracy", p->n > 1 ? "Full lines: accuracy; broken lines: macro F1." : NULL,
           (mf_plot){.y_label = "share", .right_label = "nats", .y_lo = 0, .y_hi = 1}, &c);
}

/* How well numbers are told, beside the error on the other axis. */
static void numbers(const mf_report *p)
{
    curves c = {0};
    for (int i = 0; i < p->n; i++) {
        const mf_report_run *r = p->runs[i];
        const bool one = p->n == 1;
        add(&c, one ? "Pearson" : r->name, mf_report_track(r, "val", pick_pearson, NULL));
        mf_series *s =
            add(&c, one ? "Spearman" : NULL, mf_report_track(r, "val", pick_spearman, NULL));
        if (s != NULL && !one) {
            s->dashed = true;
            s->colour = i + 1;
        }
        if (one) {
            s = add(&c, "RMSE (right)", mf_report_track(r, "val", pick_rmse, NULL));
            if (s != NULL) s->right = c.n > 1;
        }
    }
    figure(p, "Correlation of answers and labels",
           p->n > 1 ? "Full lines: Pearson; broken lines: Spearman." : NULL,
           (mf_plot){.y_label = "correlation", .right_label = "RMSE"}, &c);
}

/* Several heads on one encoder: the same of each. */
static void of_tasks(const mf_report *p, const char *title, const char *y_label,
                     const char *caption, mf_pick pick)
{
    const mf_metrics_record *last = mf_report_last(p->runs[0], "val");
    curves c = {0};
    for (int i = 0; last != NULL && i < last->n_tasks; i++)
        add(&c, last->tasks[i].name, mf_report_track(p->runs[0], "val", pick, &i));
    figure(p, title, caption, (mf_plot){.y_label = y_label}, &c);
}

/* Loss and accuracy of the training split between two evaluations, on two axes. */
static void training_accuracy(const mf_report *p)
{
    curves c = {0};
    const mf_report_run *r = p->runs[0];
    add(&c, "accuracy", mf_report_track(r, "val", pick_train_accuracy, NULL));
    if (c.n == 0) return;
    mf_series *s = add(&c, "loss (right)", mf_report_track(r, "val", pick_train_loss, NULL));
    if (s != NULL) s->right = true;
    figure(p, "Loss and accuracy in training", "Means over the steps between evaluations.",
           (mf_plot){.y_label = "share", .right_label = "nats", .y_lo = 0, .y_hi = 1}, &c);
}

/* How much better training data are told than those of validation. */
static void gap(const mf_report *p)
{
    curves c = {0};
    for (int i = 0; i < p->n; i++) {
        const mf_report_run *r = p->runs[i];
        mf_series *s = add(&c, p->n > 1 ? r->name : "loss",
                           mf_report_track(r, "val", pick_gap_loss, NULL));
        if (s != NULL) s->colour = i + 1;
    }
    if (p->n == 1) {
        mf_series *s = add(&c, "accuracy (right)",
                           mf_report_track(p->runs[0], "val", pick_gap_accuracy, NULL));
        if (s != NULL) s->right = true;
    }
    figure(p, "Gap between training and validation",
           "Loss of validation less that of training; accuracy of training less that of "
           "validation.",
           (mf_plot){.y_label = "loss", .right_label = "share"}, &c);
}

/* Accuracy and F1, beside the entropy of the routing on the other axis. */
static void accuracy_and_routing(const mf_report *p)
{
    curves c = {0};
    const mf_report_run *r = p->runs[0];
    const layer_pick mean = {measure_entropy, -1}, gates = {measure_gate_entropy, -1};
    add(&c, "accuracy", mf_report_track(r, "val", pick_accuracy, NULL));
    add(&c, "macro F1", mf_report_track(r, "val", pick_macro_f1, NULL));
    if (c.n == 0) return;
    mf_series *s =
        add(&c, "routing entropy (right)", mf_report_track(r, "val", of_layer, &mean));
    if (s == NULL) return;
    s->right = true;
    s = add(&c, "gate entropy (right)", mf_report_track(r, "val", of_layer, &gates));
    if (s != NULL) s->right = true;
    figure(
        p, "Accuracy and routing entropy",
        "Of the validation split. Routing entropy: of the probabilities of all experts; gate "
        "entropy: of the gates of the chosen ones.",
        (mf_plot){.y_label = "share", .right_label = "nats", .y_lo = 0, .y_hi = 1}, &c);
}

static void regularizers(const mf_report *p)
{
    const mf_metrics_record *last = mf_report_last(p->runs[0], "train");
    curves c = {0};
    for (int i = 0; last != NULL && i < last->n_regularizers; i++) {
        const char *name = last->regularizers[i].name;
        add(&c, name, mf_report_track(p->runs[0], "train", regularizer, name));
    }
    figure(p, "Regularizers", "Before their weights.", (mf_plot){.y_label = "value"}, &c);
}

void mf_report_learning(const mf_report *p)
{
    mf_html_section(p->d, "learning", "Learning");
    mf_html_figures(p->d);
    loss(p);
    if (p->n == 1) at_evaluations(p);
    gap(p);
    classification(p);
    numbers(p);
    if (p->n == 1) {
        of_tasks(p, "Loss of each task", "loss", "Before its weight, on the validation split.",
                 task_loss);
        of_tasks(p, "Each task", "accuracy, Pearson",
                 "Accuracy of classes, Pearson's r of numbers, on the validation split.",
                 task_score);
        training_accuracy(p);
        accuracy_and_routing(p);
        rate_and_gradient(p);
        regularizers(p);
    }
    of_runs(p, "Speed", "tokens/s", NULL, "train", pick_tokens_per_s, NULL, false);
    of_runs(p, "Memory", "MiB", "The most that the process had so far.", "val",
            pick_peak_rss_mib, NULL, false);
    of_runs(p, "Attention heads in use", "heads", NULL, "train", heads, NULL, false);
    of_runs(p, "Parameter efficiency", "1 / (perplexity x millions of parameters)",
            "Parameters that a token uses, without those of pruned heads.", "val", efficiency,
            NULL, false);
    mf_html_figures_end(p->d);
    mf_html_section_end(p->d);
}

/* ---- balance ---- */

const mf_measure mf_report_measures[] = {
    {measure_entropy, "Routing entropy", "nats",
     "Of a token's probabilities, mean over tokens. Even: ln of the number of experts.", true,
     false},
    {measure_gate_entropy, "Gate entropy", "nats",
     "Of the gates of a token's chosen experts, mean over tokens. At most ln k of k experts.",
     true, true},
    {measure_top_prob, "Probability of the chosen experts", "mean probability", NULL, false,
     false},
    {measure_load_cv, "Load imbalance", "standard deviation / mean",
     "Of the experts' loads; 0: all alike.", true, false},
    {balance_kl, "Distance of the mean gates from even", "nats",
     "Divergence of each expert's share of all gates from 1 / E; 0: all alike.", true, true},
    {measure_drop_rate, "Drop rate", "share of rows", "Rows over capacity that no expert took.",
     true, true},
    {measure_reassigned, "Reassigned rows", "rows",
     "Rows over capacity that another expert took.", true, true},
    {measure_nmi, "Experts and topics", "NMI(expert, topic)",
     "0: an expert tells nothing of the topic; 1: each tells the other.", true, false},
    {NULL, NULL, NULL, NULL, false, false},
};

double mf_report_pick_measure(const mf_metrics_record *m, const void *measure)
{
    const layer_pick all = {((const mf_measure *)measure)->of, -1};
    return of_layer(m, &all);
}

static bool all_zero(const curves *c)
{
    for (int i = 0; i < c->n; i++)
        for (int k = 0; k < c->s[i].n; k++)
            if (c->s[i].y[k] != 0) return false;
    return true;
}

/* Layers are in order, so their colours are as well when there are many. */
static const char *layer_ink(const mf_report *p, int i, int n)
{
    char ink[8];
    if (n <= 8) return mf_colour(i);
    mf_colour_scale(0.2 + 0.65 * i / (n - 1), ink);
    return mf_report_strf(p, "%s", ink);
}

static void layers_of(const mf_report *p, const mf_report_run *r, const mf_measure *m,
                      curves *c)
{
    const char *split = mf_report_layer_split(r);
    for (int l = 0; l < r->n_layers && l < MAX_CURVES; l++) {
        const layer_pick pick = {m->of, l};
        mf_track t = mf_report_smooth(r, mf_report_track(r, split, of_layer, &pick), 0.02);
        int block = l;
        for (int i = 0; i < r->history->n; i++) {
            const mf_layer_stats *s = mf_report_layer(&r->history->records[i], l);
            if (s != NULL) block = s->layer;
        }
        mf_series *s = add(c, mf_report_strf(p, "layer %d", block), t);
        if (s != NULL) s->ink = layer_ink(p, l, r->n_layers);
    }
}

static void runs_of(const mf_report *p, const mf_measure *m, curves *c)
{
    const layer_pick pick = {m->of, -1};
    for (int i = 0; i < p->n; i++) {
        const mf_report_run *r = p->runs[i];
        mf_track t = mf_report_track(r, mf_report_layer_split(r), of_layer, &pick);
        mf_series *s = add(c, r->name, mf_report_smooth(r, t, 0.02));
        if (s != NULL) s->colour = i + 1;
    }
}

void mf_report_balance(const mf_report *p)
{
    mf_html_section(p->d, "balance", "Routing over time");
    if (p->n > 1) mf_html_paragraph(p->d, "Means over the layers of each run.");
    mf_html_figures(p->d);
    for (const mf_measure *m = mf_report_measures; m->title != NULL; m++) {
        mf_level even = {NAN, "even"}; /* what evenness gives, where that is a known number */
        curves c = {0};
        if (p->n == 1)
            layers_of(p, p->runs[0], m, &c);
        else
            runs_of(p, m, &c);
        if (m->hide_zero && all_zero(&c)) continue;
        const mf_layer_stats *s =
            mf_report_layer(mf_report_last(p->runs[0], mf_report_layer_split(p->runs[0])), 0);
        if (m->of == measure_entropy && s != NULL && s->experts > 1) even.y = log(s->experts);
        if (m->of == measure_gate_entropy && p->n == 1) {
            even.y = log(atof(mf_report_config(p->runs[0], "moe", "top_k", "1")));
            even.name = "even gates: ln k";
        }
        figure(p, m->title, m->caption,
               (mf_plot){.y_label = m->y_label,
                         .from_zero = m->from_zero,
                         .n_levels = isnan(even.y) ? 0 : 1,
                         .levels = &even},
               &c);
    }
    mf_html_figures_end(p->d);
    mf_report_skew(p);
    mf_html_section_end(p->d);
}

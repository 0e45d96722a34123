/* Curves over the steps: the functions that draw them, and the section on learning, for one run
 * or for several runs in the same figures. A figure without points is omitted. */
#include "report/page/report_curves.h"
#include "report/svg/scale.h"

#include <string.h>

/* ---- values of a record ---- */

double mf_report_pick_loss(const mf_metrics_record *m, const void *arg)
{
    (void)arg;
    return isnan(m->task_loss) ? m->loss : m->task_loss;
}

double mf_report_pick_bits(const mf_metrics_record *m, const void *arg)
{
    (void)arg;
    return m->bits_per_byte;
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
PICK(gap_loss)
PICK(gap_accuracy)
PICK(ppl)

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

/* ---- figures ---- */

mf_series *mf_curves_add(mf_curves *c, const char *name, mf_track t)
{
    if (t.n == 0 || c->n == MF_CURVES_MAX) return NULL;
    /* A line through one point would be invisible, so it is drawn as a point. */
    c->s[c->n] = (mf_series){.name = name, .n = t.n, .x = t.x, .y = t.y, .points = t.n == 1};
    return &c->s[c->n++];
}

void mf_curves_figure(const mf_report *p, const char *title, const char *caption, mf_plot plot,
                      const mf_curves *c)
{
    if (c->n == 0) return;
    plot.title = title;
    plot.x_label = "step";
    plot.width = plot.width > 0 ? plot.width : MF_FIGURE_WIDTH;
    plot.height = plot.height > 0 ? plot.height : 280;
    plot.series = c->s;
    plot.n_series = c->n;
    mf_html_figure(p->d, title);
    mf_svg_plot(p->d, &plot);
    mf_html_figure_end(p->d, caption);
}

/* The part of the track from step x to its end. */
static mf_track from(mf_track t, double x)
{
    while (t.n > 0 && t.x[0] < x) {
        t.x++;
        t.y++;
        t.n--;
    }
    return t;
}

static mf_range range_of(const mf_curves *c, double x)
{
    mf_range r = mf_range_empty();
    for (int i = 0; i < c->n; i++)
        for (int k = 0; k < c->s[i].n; k++)
            if (c->s[i].x[k] >= x) mf_range_add(&r, c->s[i].y[k]);
    return r;
}

/* Marks points on a curve of validations: the best validation, and the final one if it used
 * other batches. Names are written only for a single run; those of several runs would fill
 * the legend. */
static void mark_ends(const mf_report *p, int i, double x, mf_pick pick, mf_curves *c)
{
    const mf_report_run *r = p->runs[i];
    const bool one = p->n == 1;
    int64_t batches = 0;
    const mf_track best = from(mf_report_best(r, pick, NULL), x),
                   last = from(mf_report_final(r, pick, NULL, &batches), x);
    if (best.n > 0) {
        mf_series *s = mf_curves_add(
            c, one ? mf_report_strf(p, "best, step %.0f", best.x[0]) : NULL, best);
        if (s) s->colour = one ? 3 : i + 1;
    }
    if (last.n == 0) return;
    const char *over = batches > 0
                           ? mf_report_strf(p, "at the end, %lld batches", (long long)batches)
                           : "at the end, more batches";
    mf_series *s = mf_curves_add(c, one ? over : NULL, last);
    if (s) s->colour = one ? 4 : i + 1;
    if (s) s->run = i + 1;
}

/* Collects training loss (a thin line, and smoothed) and validation loss, from step x on. */
static void collect_loss(const mf_report *p, double x, mf_curves *c)
{
    const bool one = p->n == 1;
    *c = (mf_curves){0};
    for (int i = 0; i < p->n; i++) {
        const mf_report_run *r = p->runs[i];
        mf_track train =
            mf_report_smooth(r, mf_report_track(r, "train", mf_report_pick_loss, NULL), 0.02);
        mf_track val = mf_report_track(r, "val", mf_report_pick_loss, NULL);
        mf_series *s = mf_curves_add(c,
                                     one          ? "training"
                                     : val.n == 0 ? r->name
                                                  : NULL,
                                     from(train, x));
        if (s) s->thin = true;
        if (s && !one) {
            s->colour = s->run = i + 1;
            s->dashed = val.n > 0;
        }
        s = mf_curves_add(c, one ? "validation" : r->name, from(val, x));
        if (s) s->colour = one ? 2 : i + 1;
        if (s) s->run = i + 1;
        mark_ends(p, i, x, mf_report_pick_loss, c);
    }
}

#define ENDS                                                                                   \
    "Points on the curves: the best validation. Beside them: the one at the end, over more "   \
    "batches than those before it."

static double last_step(const mf_report *p)
{
    double last = 0;
    for (int i = 0; i < p->n; i++)
        for (int k = 0; k < p->runs[i]->history->n; k++)
            last = fmax(last, (double)p->runs[i]->history->records[k].step);
    return last;
}

/* Draws one value of every run, in one figure. */
static void of_runs(const mf_report *p, const char *title, const char *y_label,
                    const char *caption, const char *split, mf_pick pick, const void *arg,
                    bool log_y)
{
    const bool marks = strcmp(split, "val") == 0 && !arg;
    mf_curves c = {0};
    for (int i = 0; i < p->n; i++) {
        mf_series *s = mf_curves_add(&c, p->n > 1 ? p->runs[i]->name : NULL,
                                     mf_report_track(p->runs[i], split, pick, arg));
        if (s) s->colour = s->run = i + 1;
        if (marks) mark_ends(p, i, 0, pick, &c);
    }
    mf_curves_figure(p, title, caption, (mf_plot){.y_label = y_label, .log_y = log_y}, &c);
}

/* Draws the losses of runs with different tokenizers, in bits per byte. The training loss is
 * not known in this unit. */
static void bits(const mf_report *p)
{
    of_runs(p, "Loss, bits/byte", "bits/byte",
            "Of the validation split. The runs have different tokenizers, so their losses per "
            "token do not compare.",
            "val", mf_report_pick_bits, NULL, false);
}

/* Draws the loss. If it falls so much at the start that the rest looks flat, a second figure
 * shows only the rest. */
static void loss(const mf_report *p)
{
    mf_curves c;
    mf_level level = {NAN, "entropy floor"};
    const char *caption =
        p->n > 1 ? "Full lines: validation; broken lines: training. " ENDS : NULL;
    const double x = floor(last_step(p) * 0.25);
    for (int i = 0; i < p->n && isnan(level.y); i++)
        level.y = p->runs[i]->floor;
    const mf_plot plot = {.y_label = mf_report_loss_unit(p->runs[0]),
                          .n_levels = isnan(level.y) ? 0 : 1,
                          .levels = &level};
    collect_loss(p, 0, &c);
    mf_curves_figure(p, "Loss", caption, plot, &c);
    const mf_range all = range_of(&c, 0), late = range_of(&c, x);
    if (!(late.hi - late.lo > 0) || all.hi - all.lo < 3 * (late.hi - late.lo)) return;
    collect_loss(p, x, &c);
    mf_curves_figure(p, mf_report_strf(p, "Loss from step %.0f on", x), caption, plot, &c);
}

/* Draws losses on training and validation data at the evaluations, both in evaluation mode. */
static void at_evaluations(const mf_report *p)
{
    static const char *const splits[] = {"train_eval", "val"}, *const names[] = {
                                                                   "training data",
                                                                   "validation data"};
    const mf_report_run *r = p->runs[0];
    const mf_level floor = {r->floor, "entropy floor"};
    mf_curves c = {0};
    if (!mf_report_last(r, splits[0])) return;
    for (int i = 0; i < 2; i++) {
        const mf_track t = mf_report_track(r, splits[i], mf_report_pick_loss, NULL);
        mf_series *s = mf_curves_add(&c, names[i], t);
        if (s) s->colour = s->run = i + 1;
        s = mf_curves_add(&c, NULL, t);
        if (!s) continue;
        s->points = true;
        s->colour = i + 1;
    }
    mf_curves_figure(p, "Loss at the evaluations",
                     "Measured alike: without dropout, with the weights of that step.",
                     (mf_plot){.y_label = mf_report_loss_unit(r),
                               .n_levels = isnan(floor.y) ? 0 : 1,
                               .levels = &floor},
                     &c);
}

/* Draws gradient norm and learning rate of one run, on two axes. */
static void rate_and_gradient(const mf_report *p)
{
    mf_curves c = {0};
    mf_series *s = mf_curves_add(&c, "gradient norm",
                                 mf_report_track(p->runs[0], "train", pick_grad_norm, NULL));
    if (s) s->thin = true;
    s = mf_curves_add(&c, "learning rate (right)",
                      mf_report_track(p->runs[0], "train", pick_lr, NULL));
    if (s) s->right = c.n > 1;
    mf_curves_figure(
        p, "Gradient and learning rate", NULL,
        (mf_plot){.y_label = "gradient norm", .right_label = "learning rate", .log_y = true},
        &c);
}

/* Draws the gaps in loss and accuracy between validation and training data, of runs that
 * evaluated both with the same weights. Other runs have no such figure: the mean over training
 * steps comes from older weights, and this alone can make the gap seem negative. */
static void gap(const mf_report *p)
{
    mf_curves c = {0};
    for (int i = 0; i < p->n; i++) {
        const mf_report_run *r = p->runs[i];
        if (!mf_report_last(r, "train_eval")) continue;
        mf_series *s = mf_curves_add(&c, p->n > 1 ? r->name : "loss",
                                     mf_report_track(r, "val", pick_gap_loss, NULL));
        if (s) s->colour = s->run = i + 1;
    }
    if (p->n == 1 && c.n > 0) {
        mf_series *s =
            mf_curves_add(&c, "accuracy (right)",
                          mf_report_track(p->runs[0], "val", pick_gap_accuracy, NULL));
        if (s) s->right = true;
    }
    mf_curves_figure(
        p, "Gap between training and validation",
        "Both evaluated with the weights of that step. Loss of validation less that of "
        "training; accuracy of training less that of validation.",
        (mf_plot){.y_label = "loss", .right_label = "share"}, &c);
}

static void regularizers(const mf_report *p)
{
    const mf_metrics_record *last = mf_report_last(p->runs[0], "train");
    mf_curves c = {0};
    for (int i = 0; last && i < last->n_regularizers; i++) {
        const char *name = last->regularizers[i].name;
        mf_curves_add(&c, name, mf_report_track(p->runs[0], "train", regularizer, name));
    }
    mf_curves_figure(p, "Regularizers", "Before their weights.", (mf_plot){.y_label = "value"},
                     &c);
}

static void memory(const mf_report *p)
{
    mf_curves c = {0};
    for (int i = 0; i < p->n; i++) {
        const mf_memory_past *m = &p->runs[i]->memory;
        mf_series *s = mf_curves_add(&c, p->n > 1 ? p->runs[i]->name : NULL,
                                     (mf_track){m->n, m->step, m->peak_mib});
        if (s) s->colour = s->run = i + 1;
    }
    mf_curves_figure(p, "Memory", "The most that the process had so far.",
                     (mf_plot){.y_label = "MiB", .from_zero = true}, &c);
}

void mf_report_learning(const mf_report *p)
{
    mf_html_section(p->d, "learning", "Learning");
    mf_html_figures(p->d);
    const bool by_bits = mf_report_by_bits(p);
    if (by_bits)
        bits(p);
    else
        loss(p);
    if (p->n == 1) at_evaluations(p);
    if (!by_bits) {
        of_runs(p, "Perplexity", "perplexity a token", "Of the validation split: exp(loss).",
                "val", pick_ppl, NULL, true);
        gap(p);
    }
    mf_report_examples(p);
    if (p->n == 1) {
        rate_and_gradient(p);
        regularizers(p);
    }
    of_runs(p, "Speed", "tokens/s", NULL, "train", pick_tokens_per_s, NULL, false);
    mf_report_time(p);
    memory(p);
    if (p->n > 1) mf_report_pruned_runs(p);
    of_runs(p, "Attention heads in use", "heads", NULL, "train", heads, NULL, false);
    of_runs(p, "Parameter efficiency", "1 / (perplexity x millions)",
            "Millions of parameters that a token uses, without those of pruned heads.", "val",
            efficiency, NULL, false);
    mf_html_figures_end(p->d);
    mf_html_section_end(p->d);
}

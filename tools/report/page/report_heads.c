/* Attention heads of one run: their gates, their measured importance, and how pruning changed
 * speed and loss. Nothing is written for models without head gates. */
#include "report/page/report_parts.h"

#include <string.h>

#define TIME_BINS 100
#define MAX_HEADS 1024 /* largest number of heads over all layers */

typedef const float *(*head_values)(const mf_head_stats *s);
static const float *gate(const mf_head_stats *s)
{
    return s->gate;
}
static const float *entropy(const mf_head_stats *s)
{
    return s->entropy;
}
static const float *grad_norm(const mf_head_stats *s)
{
    return s->grad_norm;
}
static const float *importance(const mf_head_stats *s)
{
    return s->importance;
}

static const mf_head_stats *layer_of(const mf_metrics_record *m, int i)
{
    if (!m || i >= m->n_head_layers) return NULL;
    return (const mf_head_stats *)(const void *)((const char *)m->heads +
                                                 (size_t)i * m->heads[0].size);
}

/* The last record in which layer 0 has these values; the first record if `first`. */
static const mf_metrics_record *measured(const mf_report_run *r, head_values of, bool first)
{
    const mf_metrics_history *h = r->history;
    for (int k = 0; k < h->n; k++) {
        const mf_metrics_record *m = &h->records[first ? k : h->n - 1 - k];
        const mf_head_stats *s = layer_of(m, 0);
        if (s && of(s)) return m;
    }
    return NULL;
}

bool mf_report_has_heads(const mf_report_run *r)
{
    return measured(r, gate, false) != NULL;
}

/* ---- layers x heads, at the end ---- */

static void heat(const mf_report *p, const mf_report_run *r, const char *title,
                 const char *scale, const char *caption, head_values of, double hi)
{
    const mf_metrics_record *m = measured(r, of, false);
    if (!m) return;
    const int L = m->n_head_layers, H = m->heads[0].heads;
    double *v = mf_arena_alloc(p->arena, (size_t)(L * H) * sizeof *v);
    if (!v || L * H > MAX_HEADS) return;
    for (int l = 0; l < L; l++) {
        const mf_head_stats *s = layer_of(m, l);
        for (int i = 0; i < H; i++)
            v[l * H + i] = !of(s) || (s->active && s->active[i] == 0) ? NAN : (double)of(s)[i];
    }
    mf_html_figure(p->d, mf_report_strf(p, "%s, step %lld", title, (long long)m->step));
    mf_svg_heat(p->d, &(mf_heat){.title = title,
                                 .x_label = "head",
                                 .y_label = "layer",
                                 .scale_label = scale,
                                 .width = MF_FIGURE_WIDTH,
                                 .height = 90 + 30 * L,
                                 .rows = L,
                                 .columns = H,
                                 .values = v,
                                 .lo = 0,
                                 .hi = hi,
                                 .row_labels = mf_report_numbers(p, L),
                                 .column_labels = mf_report_numbers(p, H),
                                 .numbers = H <= 16});
    mf_html_figure_end(p->d, caption);
}

/* ---- over the steps ---- */

/* Draws a heat map of gates over the steps. Each row is a head. A pruned head has gate 0. */
static void gates_over_time(const mf_report *p, const mf_report_run *r)
{
    const mf_metrics_record *last = measured(r, gate, false);
    const int L = last->n_head_layers, H = last->heads[0].heads, rows = L * H;
    const mf_metrics_record **seen =
        mf_arena_alloc(p->arena, ((size_t)r->history->n + 1) * sizeof *seen);
    int n = 0;
    if (!seen || rows > MAX_HEADS) return;
    for (int k = 0; k < r->history->n; k++) {
        const mf_metrics_record *m = &r->history->records[k];
        if (m->n_head_layers == L && m->heads[0].heads == H && m->heads[0].gate) seen[n++] = m;
    }
    const int bins = n < TIME_BINS ? n : TIME_BINS;
    double *v = mf_arena_alloc(p->arena, (size_t)(rows * bins + 1) * sizeof *v), x[TIME_BINS];
    const char **names = mf_arena_alloc(p->arena, (size_t)rows * sizeof *names);
    if (!v || !names || bins < 2) return;
    for (int i = 0; i < rows; i++)
        names[i] = rows <= 64 ? mf_report_strf(p, "%d.%d", i / H, i % H) : "";
    for (int b = 0; b < bins; b++) {
        const mf_metrics_record *m = seen[(long)b * n / bins];
        x[b] = (double)m->step;
        for (int i = 0; i < rows; i++) {
            const mf_head_stats *s = layer_of(m, i / H);
            const bool pruned = s->active && s->active[i % H] == 0;
            v[i * bins + b] = pruned ? 0 : (double)s->gate[i % H];
        }
    }
    mf_html_figure(p->d, "Gates over time");
    mf_svg_heat(p->d, &(mf_heat){.title = "gates over time",
                                 .x_label = "step",
                                 .y_label = "layer.head",
                                 .scale_label = "gate; pruned: 0",
                                 .width = MF_FIGURE_WIDTH,
                                 .height = rows > 20 ? 100 + 12 * rows : 320,
                                 .rows = rows,
                                 .columns = bins,
                                 .values = v,
                                 .lo = 0,
                                 .hi = 1,
                                 .row_labels = names,
                                 .x = x});
    mf_html_figure_end(p->d, NULL);
}

/* The argument of mean_of_layer, which computes the mean over a layer's active heads. */
typedef struct head_pick {
    head_values of;
    int layer;
} head_pick;

static double mean_of_layer(const mf_metrics_record *m, const void *arg)
{
    const head_pick *k = arg;
    const mf_head_stats *s = layer_of(m, k->layer);
    double sum = 0;
    int n = 0;
    if (!s || !k->of(s)) return NAN;
    for (int i = 0; i < s->heads; i++) {
        if (s->active && s->active[i] == 0) continue;
        sum += (double)k->of(s)[i];
        n++;
    }
    return n > 0 ? sum / n : NAN;
}

static void curves(const mf_report *p, const mf_report_run *r, const char *title,
                   const char *y_label, head_values of, bool log_y)
{
    enum { MOST = 32 };
    const mf_metrics_record *last = measured(r, of, false);
    mf_series s[MOST];
    int n = 0;
    if (!last || last == measured(r, of, true)) return;
    for (int l = 0; l < last->n_head_layers && l < MOST; l++) {
        const head_pick pick = {of, l};
        const mf_track t = mf_report_track(r, last->split, mean_of_layer, &pick);
        if (t.n == 0) continue;
        s[n++] = (mf_series){.name = mf_report_strf(p, "layer %d", layer_of(last, l)->layer),
                             .n = t.n,
                             .x = t.x,
                             .y = t.y};
    }
    mf_html_figure(p->d, title);
    mf_svg_plot(p->d, &(mf_plot){.title = title,
                                 .x_label = "step",
                                 .y_label = y_label,
                                 .width = MF_FIGURE_WIDTH,
                                 .height = 280,
                                 .log_y = log_y,
                                 .n_series = n,
                                 .series = s});
    mf_html_figure_end(p->d, "Means over the heads in use.");
}

/* ---- loss and speed after pruning ---- */

/* Pairs of points: validation loss and speed at a share of pruned heads. names: [n] labels of
 * the points, or NULL. */
typedef struct mf_pruning {
    int n;
    double *share, *loss, *speed;
    const char **names;
} mf_pruning;

static void plot_pruning(const mf_report *p, const mf_pruning *c, const char *caption)
{
    const mf_series s[] = {{.name = "validation loss",
                            .n = c->n,
                            .x = c->share,
                            .y = c->loss,
                            .labels = c->names,
                            .points = true,
                            .colour = 1},
                           {.name = "speed (right)",
                            .n = c->n,
                            .x = c->share,
                            .y = c->speed,
                            .labels = c->names,
                            .points = true,
                            .right = true,
                            .colour = 2}};
    mf_html_figure(p->d, "Quality and speed against pruned heads");
    mf_svg_plot(p->d, &(mf_plot){.title = "Quality and speed against pruned heads",
                                 .x_label = "% of the heads pruned",
                                 .y_label = mf_report_loss_unit(p->runs[0]),
                                 .right_label = "tokens/s",
                                 .width = MF_FIGURE_WIDTH,
                                 .height = 320,
                                 .n_series = 2,
                                 .series = s});
    mf_html_figure_end(p->d, caption);
}

/* Draws validation loss and training speed against the share of pruned heads, at each
 * evaluation. The speed is the mean over the training records since the previous evaluation. */
static void pruning(const mf_report *p, const mf_report_run *r)
{
    const mf_metrics_history *h = r->history;
    const size_t room = (size_t)h->n + 1;
    double *x = mf_arena_alloc(p->arena, room * sizeof *x);
    double *loss = mf_arena_alloc(p->arena, room * sizeof *loss);
    double *speed = mf_arena_alloc(p->arena, room * sizeof *speed);
    double share = NAN, sum = 0;
    int n = 0, steps = 0;
    bool varies = false;
    if (!x || !loss || !speed) return;
    for (int k = 0; k < h->n; k++) {
        const mf_metrics_record *m = &h->records[k];
        if (m->heads_total > 0)
            share = 100 * (1 - (double)m->heads_active / (double)m->heads_total);
        if (strcmp(m->split, "train") == 0 && m->tokens_per_s > 0) {
            sum += m->tokens_per_s;
            steps++;
        }
        if (strcmp(m->split, "val") != 0 || isnan(share)) continue;
        x[n] = share;
        const mf_metrics_record like = mf_metrics_like(m);
        loss[n] = mf_report_pick_loss(&like, NULL);
        speed[n] = steps > 0 ? sum / steps : NAN;
        varies = varies || x[n] != x[0];
        n++;
        sum = steps = 0;
    }
    if (!varies) return;
    plot_pruning(p, &(mf_pruning){n, x, loss, speed, NULL},
                 "A pair of points for each evaluation, with the speed of the steps before "
                 "it.");
}

/* The share of heads that are pruned, in %; NaN: unknown. */
static double pruned_share(const mf_metrics_record *m)
{
    return m && m->heads_total > 0
               ? 100 * (1 - (double)m->heads_active / (double)m->heads_total)
               : (double)NAN;
}

/* The mean speed of a run's training records; NaN: none. */
static double mean_speed(const mf_report_run *r)
{
    const mf_metrics_history *h = r->history;
    double sum = 0;
    int n = 0;
    for (int k = 0; k < h->n; k++)
        if (strcmp(h->records[k].split, "train") == 0 && h->records[k].tokens_per_s > 0) {
            sum += h->records[k].tokens_per_s;
            n++;
        }
    return n > 0 ? sum / n : (double)NAN;
}

void mf_report_pruned_runs(const mf_report *p)
{
    const size_t room = (size_t)p->n + 1;
    mf_pruning c = {0, mf_arena_alloc(p->arena, room * sizeof *c.share),
                    mf_arena_alloc(p->arena, room * sizeof *c.loss),
                    mf_arena_alloc(p->arena, room * sizeof *c.speed),
                    mf_arena_alloc(p->arena, room * sizeof *c.names)};
    bool varies = false;
    if (!c.share || !c.loss || !c.speed || !c.names) return;
    for (int i = 0; i < p->n; i++) {
        const mf_metrics_record *val = mf_report_last(p->runs[i], "val");
        const double share = pruned_share(val);
        if (isnan(share)) continue;
        c.share[c.n] = share;
        c.loss[c.n] = mf_report_pick_loss(val, NULL);
        c.speed[c.n] = mean_speed(p->runs[i]);
        c.names[c.n] = p->runs[i]->name;
        varies = varies || share != c.share[0];
        c.n++;
    }
    if (varies)
        plot_pruning(p, &c,
                     "A pair of points for each run: its last validation, and its mean "
                     "speed.");
}

void mf_report_heads(const mf_report *p, const mf_report_run *r)
{
    if (!mf_report_has_heads(r)) return;
    mf_html_section(p->d, "heads", "Attention heads");
    mf_html_figures(p->d);
    heat(p, r, "Gates", "gate", "Empty: pruned.", gate, 1);
    heat(p, r, "Entropy of the attention weights", "nats",
         "Mean over tokens of -sum p ln p. Empty: pruned.", entropy, 0);
    heat(p, r, "Gradient norm", "norm", "Of the head's part of the weights.", grad_norm, 0);
    heat(p, r, "Importance", "importance",
         "Increase of the loss without the head; the largest is 1.", importance, 1);
    gates_over_time(p, r);
    mf_report_head_states(p, r);
    curves(p, r, "Entropy of the attention weights", "nats", entropy, false);
    curves(p, r, "Gates, means of layers", "gate", gate, false);
    curves(p, r, "Gradient norm of the heads", "norm", grad_norm, true);
    pruning(p, r);
    mf_html_figures_end(p->d);
    mf_html_section_end(p->d);
}

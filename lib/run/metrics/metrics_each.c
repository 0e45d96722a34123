/* run/metrics/metrics_each.c: names the numbers of a record for logs of other programs. An
 * export of metrics.jsonl uses the same names, so a number has the same name wherever it
 * is shown. */
#include "run/metrics/metrics_each.h"

#include <math.h>
#include <stdio.h>

typedef struct each {
    mf_metrics_visit visit;
    void *arg;
} each;

static void one(const each *e, const char *name, double value)
{
    if (isfinite(value)) e->visit(e->arg, name, value);
}

static void part(const each *e, const char *group, const char *name, double value)
{
    char both[256];
    snprintf(both, sizeof both, "%s.%s", group, name);
    one(e, both, value);
}

static void values(const each *e, const char *group, int n, const mf_named_value *v)
{
    for (int i = 0; i < n; i++)
        if (v[i].name) part(e, group, v[i].name, v[i].value);
}

static void task(const each *e, const mf_task_score *t)
{
    char group[128];
    snprintf(group, sizeof group, "tasks.%s", t->name);
    part(e, group, "weight", t->weight);
    part(e, group, "loss", t->loss);
    if (t->number) {
        part(e, group, "mse", t->mse);
        part(e, group, "rmse", sqrt(t->mse));
        part(e, group, "pearson", t->pearson);
        part(e, group, "spearman", t->spearman);
    } else {
        part(e, group, "accuracy", t->accuracy);
        part(e, group, "macro_f1", t->macro_f1);
    }
}

static void controllers(const each *e, const mf_metrics_record *r)
{
    char group[128];
    for (int i = 0; i < r->n_controllers; i++) {
        snprintf(group, sizeof group, "controllers.%s", r->controllers[i].name);
        values(e, group, r->controllers[i].n, r->controllers[i].values);
    }
}

static void layer(const each *e, const mf_layer_stats *s)
{
    char group[32];
    snprintf(group, sizeof group, "moe.%d", (int)s->layer);
    part(e, group, "entropy", s->entropy);
    part(e, group, "load_entropy", s->load_entropy);
    part(e, group, "gate_entropy", s->gate_entropy);
    part(e, group, "top_prob", s->top_prob);
    part(e, group, "max_prob", s->max_prob);
    part(e, group, "balance_l2", mf_from_even(s->experts, s->importance, false));
    part(e, group, "balance_kl", mf_from_even(s->experts, s->importance, true));
    part(e, group, "load_cv", s->load_cv);
    part(e, group, "drop_rate", s->drop_rate);
    part(e, group, "reassigned", s->reassigned);
    part(e, group, "empty", s->empty);
    part(e, group, "nmi", s->nmi);
}

const mf_layer_stats *mf_metrics_layer(const mf_metrics_record *r, int i)
{
    return (const mf_layer_stats *)((const char *)r->layers + (size_t)i * r->layers[0].size);
}

void mf_metrics_each(const mf_metrics_record *r, mf_metrics_visit visit, void *arg)
{
    const each e = {visit, arg};
    const mf_named_value scalars[] = {{"loss", r->loss},
                                      {"task_loss", r->task_loss},
                                      {"lr", r->lr},
                                      {"grad_norm", r->grad_norm},
                                      {"tokens", (double)r->tokens},
                                      {"tokens_per_s", r->tokens_per_s},
                                      {"wall_s", r->wall_s},
                                      {"ppl", r->ppl},
                                      {"ppl_batch_mean", r->ppl_batch_mean},
                                      {"bits_per_byte", r->bits_per_byte},
                                      {"accuracy", r->accuracy},
                                      {"macro_f1", r->macro_f1},
                                      {"mse", r->mse},
                                      {"rmse", sqrt(r->mse)},
                                      {"pearson", r->pearson},
                                      {"spearman", r->spearman},
                                      {"train_loss", r->train_loss},
                                      {"train_accuracy", r->train_accuracy},
                                      {"gap_loss", r->gap_loss},
                                      {"gap_accuracy", r->gap_accuracy},
                                      {"dropped_per_token", r->dropped_per_token},
                                      {"reassigned", r->reassigned},
                                      {"floor", r->floor}};
    for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++)
        one(&e, scalars[i].name, scalars[i].value);
    for (int i = 0; i < r->n_tasks; i++)
        task(&e, &r->tasks[i]);
    values(&e, "regularizers", r->n_regularizers, r->regularizers);
    controllers(&e, r);
    for (int i = 0; i < r->n_layers; i++)
        layer(&e, mf_metrics_layer(r, i));
    values(&e, "plugin_metrics", r->n_metrics, r->metrics);
    if (r->heads_total > 0) {
        one(&e, "heads.active", (double)r->heads_active);
        one(&e, "heads.total", (double)r->heads_total);
    }
}

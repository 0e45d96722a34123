/* run/metrics/history.c: keeps the newest values of each metric in a ring buffer, by name. A
 * name is added with the first record that contains it. */
#include "run/metrics/history.h"
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"

#define DEPTH 1024

typedef struct {
    char name[64];
    int64_t n; /* number of values that were added, including those no longer kept */
    double value[DEPTH];
} series;

struct mf_history {
    series **all;
    size_t n, cap;
};

int mf_history_new(mf_history **ret)
{
    *ret = mf_alloc(1, sizeof **ret);
    return *ret ? MF_OK : MF_ENOMEM;
}

void mf_history_free(mf_history *p)
{
    if (!p) return;
    for (size_t i = 0; i < p->n; i++)
        mf_free(p->all[i]);
    mf_free(p->all);
    mf_free(p);
}

static series *find(const mf_history *p, const char *name)
{
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->all[i]->name, name) == 0) return p->all[i];
    return NULL;
}

static series *find_or_make(mf_history *p, const char *name)
{
    series *s = find(p, name);
    if (s) return s;
    if (p->n == p->cap) {
        const size_t cap = p->cap ? 2 * p->cap : 32;
        series **all = mf_realloc(p->all, p->cap * sizeof *all, cap * sizeof *all);
        if (!all) return NULL;
        p->all = all;
        p->cap = cap;
    }
    s = mf_alloc(1, sizeof *s);
    if (!s) return NULL;
    snprintf(s->name, sizeof s->name, "%s", name);
    return p->all[p->n++] = s;
}

static int put(mf_history *p, const char *prefix, const char *name, double value)
{
    char full[64];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    series *s = find_or_make(p, full);
    if (!s) return MF_ENOMEM;
    s->value[s->n++ % DEPTH] = value;
    return MF_OK;
}

int mf_history_add(mf_history *p, const mf_metrics_record *r)
{
    char prefix[16] = "";
    if (strcmp(r->split, "train") != 0) snprintf(prefix, sizeof prefix, "%s.", r->split);
    const mf_metrics_record like = mf_metrics_like(r);
    int rc = put(p, prefix, "loss", like.loss);
    if (rc == MF_OK) rc = put(p, prefix, "task_loss", like.task_loss);
    if (rc == MF_OK && !prefix[0]) rc = put(p, prefix, "lr", r->lr);
    if (rc == MF_OK && !prefix[0]) rc = put(p, prefix, "grad_norm", r->grad_norm);
    if (rc == MF_OK && r->heads_total > 0)
        rc = put(p, prefix, "heads.active", (double)r->heads_active);
    for (int i = 0; rc == MF_OK && i < r->n_layers; i++) {
        const mf_layer_stats *s = &r->layers[i];
        const struct {
            const char *name;
            double value;
        } of[] = {{"load_cv", s->load_cv},
                  {"entropy", s->entropy},
                  {"drop_rate", s->drop_rate},
                  {"nmi", s->nmi}};
        for (size_t j = 0; rc == MF_OK && j < sizeof of / sizeof *of; j++) {
            char name[40];
            snprintf(name, sizeof name, "moe.%d.%s", (int)s->layer, of[j].name);
            rc = put(p, prefix, name, of[j].value);
        }
    }
    return rc;
}

int32_t mf_history_get(void *past, const char *metric, int32_t n, double *out)
{
    const series *s = find(past, metric);
    if (!s) return 0;
    int64_t have = s->n < DEPTH ? s->n : DEPTH;
    if (have > n) have = n;
    for (int64_t i = 0; i < have; i++)
        out[i] = s->value[(s->n - 1 - i) % DEPTH];
    return (int32_t)have;
}

/* Experts that go are added to experts that stay: which to which, and how their weights are
 * averaged. An expert computes the same if its hidden units are in another order, so the units
 * are first matched (weight matching, Ainsworth et al. 2022, arXiv 2209.04836): a unit is the
 * vector of all weights that lead into it and out of it. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "lab/prune/prune_parts.h"

/* ---- groups ---- */

static double logit(float score, bool prob)
{
    return prob ? log(fmax((double)score, 1e-20)) : (double)score;
}

void mf_prune_alike_add(const float *score, int64_t T, int64_t E, const float *mask, bool prob,
                        double *to)
{
    for (int64_t t = 0; t < T; t++) {
        double mean = 0;
        if (mask && mask[t] == 0) continue;
        const float *row = score + t * E;
        for (int64_t e = 0; e < E; e++)
            mean += logit(row[e], prob) / (double)E;
        for (int64_t a = 0; a < E; a++)
            for (int64_t b = 0; b <= a; b++)
                to[a * E + b] += (logit(row[a], prob) - mean) * (logit(row[b], prob) - mean);
    }
}

static double cosine(const double *alike, int64_t E, int64_t a, int64_t b)
{
    const double size = sqrt(alike[a * E + a] * alike[b * E + b]);
    return size > 0 ? alike[(a > b ? a : b) * E + (a > b ? b : a)] / size : 0;
}

void mf_prune_group(const double *alike, int64_t E, const bool *kept, int32_t *into)
{
    for (int64_t e = 0; e < E; e++) {
        into[e] = (int32_t)e;
        if (kept[e]) continue;
        for (int64_t c = 0; c < E; c++)
            if (kept[c] &&
                (into[e] == e || cosine(alike, E, e, c) > cosine(alike, E, e, into[e])))
                into[e] = (int32_t)c;
    }
}

/* ---- where hidden units are ---- */

/* Parameters of experts with one hidden layer. axis: that of the hidden units, behind the axis
 * of experts; 0: none. parts: blocks of hidden units, one after the other. A plugin may mean
 * something else by these names; mf_prune_turn finds this out. */
typedef struct form {
    const char *name;
    int axis, parts;
} form;
static const form forms[] = {{"w1", 1, 1},  {"b1", 1, 1}, {"w13", 1, 2},
                             {"b13", 1, 2}, {"w2", 2, 1}, {"b2", 0, 1}};
enum { FORMS = sizeof forms / sizeof *forms, MOST = 4 };

/* One parameter of a layer's experts: value [E, entries]. */
typedef struct part {
    mf_param *param;
    const form *form;
    int64_t entries, columns; /* of one expert; columns: its last dimension */
} part;

typedef struct layer {
    part part[MOST];
    int n;
    int64_t hidden, features; /* features: numbers of one hidden unit, over all parameters */
    mf_prune_undo *undo;
} layer;

static const form *form_of(const mf_param *p, const char *name)
{
    for (int i = 0; i < FORMS; i++)
        if (strcmp(forms[i].name, name) == 0 && p->shape.rank > forms[i].axis &&
            p->shape.dim[forms[i].axis] % forms[i].parts == 0)
            return &forms[i];
    return NULL;
}

static int unknown(const mf_model *m, int32_t at, const char *name)
{
    return mf_fail(MF_EUSAGE,
                   "layer %d: expert %s: %s: expected experts that only have a hidden layer, "
                   "with parameters w1 or w13 [E,h,d] and w2 [E,d,h] and their biases, and no "
                   "adapters; --by reap removes experts alone",
                   (int)m->moe[at].layer, mf_instance_plugin(m->moe[at].expert)->name, name);
}

/* Finds the parameters of the experts of the MoE layer `at`. */
static int find_parts(const mf_model *m, int32_t at, layer *to)
{
    const int number = (int)m->moe[at].layer;
    char prefix[64], any[64];
    snprintf(prefix, sizeof prefix, "layers.%d.expert.", number);
    snprintf(any, sizeof any, "layers.%d.", number);
    for (int i = 0; i < mf_store_count(m->store); i++) {
        mf_param *p = mf_store_at(m->store, i);
        if (strncmp(p->name, any, strlen(any)) != 0) continue;
        const bool of_expert = strncmp(p->name, prefix, strlen(prefix)) == 0;
        if (!of_expert && !(p->init.flags & MF_PARAM_BY_EXPERT)) continue;
        const form *f = of_expert ? form_of(p, p->name + strlen(prefix)) : NULL;
        if (!f || to->n == MOST || p->shape.dim[0] != m->moe[at].config.experts)
            return unknown(m, at, p->name);
        part *q = &to->part[to->n++];
        *q = (part){p, f, p->count / p->shape.dim[0], p->shape.dim[p->shape.rank - 1]};
        if (f->axis == 0) continue;
        const int64_t h = p->shape.dim[f->axis] / f->parts;
        if (to->hidden > 0 && h != to->hidden) return unknown(m, at, p->name);
        to->hidden = h;
        to->features += q->entries / h;
    }
    return to->hidden > 0 ? MF_OK : unknown(m, at, "no such parameters");
}

/* The entry of an expert's parameter that is number i of hidden unit u. */
static int64_t entry(const part *p, int64_t hidden, int64_t u, int64_t i)
{
    if (p->form->axis == 2) return i * p->columns + u;
    const int64_t width = p->param->shape.rank == 2 ? 1 : p->columns, block = i / width;
    return (block * hidden + u) * width + i % width;
}

/* ---- matching ---- */

/* All numbers of an expert's hidden units, as [hidden, features]. */
static void collect(const layer *l, int64_t expert, float *to)
{
    int64_t first = 0;
    for (int k = 0; k < l->n; k++) {
        const part *p = &l->part[k];
        if (p->form->axis == 0) continue;
        const float *v = mf_param_host(p->param) + expert * p->entries;
        const int64_t n = p->entries / l->hidden;
        for (int64_t u = 0; u < l->hidden; u++)
            for (int64_t i = 0; i < n; i++)
                to[u * l->features + first + i] = v[entry(p, l->hidden, u, i)];
        first += n;
    }
}

static double dot(const float *a, const float *b, int64_t n)
{
    enum { LANES = 8 };
    float lane[LANES] = {0};
    double sum = 0;
    for (int64_t i = 0; i + LANES <= n; i += LANES)
        for (int64_t j = 0; j < LANES; j++)
            lane[j] += a[i + j] * b[i + j];
    for (int64_t j = 0; j < LANES; j++)
        sum += (double)lane[j];
    for (int64_t i = n / LANES * LANES; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* unit [hidden]: the hidden unit of expert `from` for each one of expert `to`. */
static int match(const layer *l, int64_t to, int64_t from, int64_t *unit)
{
    const int64_t h = l->hidden, n = l->features;
    float *a = mf_alloc((size_t)(h * n) + 1, sizeof *a),
          *b = mf_alloc((size_t)(h * n) + 1, sizeof *b);
    double *cost = mf_alloc((size_t)(h * h) + 1, sizeof *cost);
    int rc = a && b && cost ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK) {
        collect(l, to, a);
        collect(l, from, b);
        for (int64_t i = 0; i < h; i++)
            for (int64_t j = 0; j < h; j++)
                cost[i * h + j] = -dot(a + i * n, b + j * n, n);
        rc = mf_prune_assign(cost, h, unit);
    }
    mf_free(a);
    mf_free(b);
    mf_free(cost);
    return rc;
}

/* ---- averages ---- */

/* Adds `weight` times an expert to the sums of all parts, its hidden units in the order `unit`;
 * NULL: as they are. */
static void add(const layer *l, int64_t expert, double weight, const int64_t *unit,
                double *const *sum)
{
    for (int k = 0; k < l->n; k++) {
        const part *p = &l->part[k];
        const float *v = mf_param_host(p->param) + expert * p->entries;
        if (p->form->axis == 0 || !unit) {
            for (int64_t i = 0; i < p->entries; i++)
                sum[k][i] += weight * (double)v[i];
            continue;
        }
        for (int64_t u = 0; u < l->hidden; u++)
            for (int64_t i = 0; i < p->entries / l->hidden; i++)
                sum[k][entry(p, l->hidden, u, i)] +=
                    weight * (double)v[entry(p, l->hidden, unit[u], i)];
    }
}

static int cannot_change(const part *p)
{
    return mf_error_code()
               ? mf_error_code()
               : mf_fail(MF_EUSAGE, "%s: expected weights in f32 that can be changed",
                         p->param->name);
}

/* Writes the sums to the expert, and keeps its old values. */
static int put(const layer *l, int64_t expert, double *const *sum)
{
    for (int k = 0; k < l->n; k++) {
        const part *p = &l->part[k];
        float *value = mf_param_edit(p->param);
        mf_prune_undo *u = mf_alloc(1, sizeof *u);
        float *old = mf_alloc((size_t)p->entries + 1, sizeof *old);
        if (!value || !u || !old) {
            mf_free(u);
            mf_free(old);
            return value ? MF_ENOMEM : cannot_change(p);
        }
        value += expert * p->entries;
        memcpy(old, value, (size_t)p->entries * sizeof *old);
        *u = (mf_prune_undo){p->param, expert * p->entries, p->entries, old, l->undo->next};
        l->undo->next = u;
        for (int64_t i = 0; i < p->entries; i++)
            value[i] = (float)sum[k][i];
    }
    return MF_OK;
}

/* Averages the experts of one group. weight: of all experts. */
static int merge_group(const layer *l, int64_t core, int64_t E, const int32_t *into,
                       const double *weight, bool aligned)
{
    double *sum[MOST] = {NULL}, total = 0;
    int64_t *unit = mf_alloc((size_t)l->hidden + 1, sizeof *unit);
    int rc = unit ? MF_OK : MF_ENOMEM;
    for (int k = 0; rc == MF_OK && k < l->n; k++)
        if (!(sum[k] = mf_alloc((size_t)l->part[k].entries + 1, sizeof *sum[k])))
            rc = MF_ENOMEM;
    for (int64_t e = 0; e < E; e++)
        total += into[e] == core ? weight[e] : 0;
    for (int64_t e = 0; rc == MF_OK && e < E; e++) {
        if (into[e] != core || !(weight[e] > 0)) continue;
        const bool order = aligned && e != core;
        if (order) rc = match(l, core, e, unit);
        if (rc == MF_OK) add(l, e, weight[e] / total, order ? unit : NULL, sum);
    }
    if (rc == MF_OK && total > weight[core]) rc = put(l, core, sum);
    for (int k = 0; k < l->n; k++)
        mf_free(sum[k]);
    mf_free(unit);
    return rc;
}

int mf_prune_merge(const mf_model *m, int32_t at, const int32_t *into, const double *weight,
                   bool aligned, mf_prune_undo *undo)
{
    const int64_t E = m->moe[at].config.experts;
    layer l = {.undo = undo};
    int rc = find_parts(m, at, &l);
    for (int k = 0; rc == MF_OK && k < l.n; k++)
        if (!mf_param_host(l.part[k].param)) rc = MF_ENOMEM;
    for (int64_t c = 0; rc == MF_OK && c < E; c++)
        if (into[c] == c) rc = merge_group(&l, c, E, into, weight, aligned);
    mf_store_refresh_bf16(m->store);
    return rc;
}

int mf_prune_turn(const mf_model *m, int32_t at, int64_t by)
{
    layer l = {.n = 0};
    int rc = find_parts(m, at, &l);
    for (int k = 0; rc == MF_OK && k < l.n; k++) {
        const part *p = &l.part[k];
        float *value = mf_param_edit(p->param),
              *old = mf_alloc((size_t)p->entries + 1, sizeof *old);
        if (!value) rc = cannot_change(p);
        if (!old) rc = MF_ENOMEM;
        for (int64_t e = 0; rc == MF_OK && e < m->moe[at].config.experts; e++) {
            memcpy(old, value + e * p->entries, (size_t)p->entries * sizeof *old);
            for (int64_t u = 0; p->form->axis > 0 && u < l.hidden; u++)
                for (int64_t i = 0; i < p->entries / l.hidden; i++)
                    value[e * p->entries + entry(p, l.hidden, (u + by) % l.hidden, i)] =
                        old[entry(p, l.hidden, u, i)];
        }
        mf_free(old);
    }
    mf_store_refresh_bf16(m->store);
    return rc;
}

int mf_prune_hidden(const mf_model *m, int32_t at, int64_t *ret)
{
    layer l = {.n = 0};
    const int rc = find_parts(m, at, &l);
    *ret = l.hidden;
    return rc;
}

void mf_prune_undo_all(const mf_model *m, mf_prune_undo *undo)
{
    for (mf_prune_undo *u = undo->next, *next; u; u = next) {
        float *value = mf_param_edit(u->param);
        next = u->next;
        if (value) memcpy(value + u->at, u->old, (size_t)u->count * sizeof *u->old);
        mf_free(u->old);
        mf_free(u);
    }
    undo->next = NULL;
    mf_store_refresh_bf16(m->store);
}

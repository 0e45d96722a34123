/* run/observers/head_tally.c: measurements of attention heads: sums of their entropies over
 * runs, norms of their gradients, and the record that reports and controllers read. */
#include "run/observers/head_tally.h"

#include "base/mem.h"
#include "model/heads.h"

#include <math.h>
#include <string.h>

int mf_head_tally_new(const mf_model *m, mf_head_tally **ret)
{
    const int64_t L = m->config->model.layers, H = m->config->model.heads;
    *ret = NULL;
    if (!m->head_switches) return MF_OK;
    mf_head_tally *t = mf_alloc(1, sizeof *t + (size_t)(L * H) * sizeof(double));
    if (!t) return MF_ENOMEM;
    *t = (mf_head_tally){.layers = (int32_t)L, .heads = (int32_t)H};
    t->entropy = (double *)(t + 1);
    *ret = t;
    return MF_OK;
}

void mf_head_tally_free(mf_head_tally *t)
{
    mf_free(t);
}

void mf_head_tally_reset(mf_head_tally *t)
{
    if (!t) return;
    t->runs = 0;
    memset(t->entropy, 0, (size_t)t->layers * (size_t)t->heads * sizeof *t->entropy);
}

void mf_head_tally_add(mf_head_tally *t, const mf_model_graph *mg)
{
    if (!t) return;
    t->runs++;
    for (int32_t l = 0; l < t->layers; l++) {
        const mf_head_plan *p = mg->heads[l].plan;
        const mf_tensor *e = mg->heads[l].entropy;
        const float *v = e ? mf_tensor_host(e) : NULL;
        for (int32_t i = 0; v && i < p->active; i++)
            t->entropy[l * t->heads + p->q[i]] += (double)v[i];
    }
}

int64_t mf_head_tally_numbers(const mf_head_tally *t)
{
    return t ? 1 + (int64_t)t->layers * t->heads : 0;
}

void mf_head_tally_put(const mf_head_tally *t, double *out)
{
    if (!t) return;
    out[0] = (double)t->runs;
    memcpy(out + 1, t->entropy, (size_t)t->layers * (size_t)t->heads * sizeof *out);
}

void mf_head_tally_take(mf_head_tally *t, const double *in)
{
    if (!t) return;
    t->runs += (int64_t)in[0];
    for (int64_t i = 0; i < (int64_t)t->layers * t->heads; i++)
        t->entropy[i] += in[1 + i];
}

static double square(const float *v, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)v[i] * (double)v[i];
    return sum;
}

/* Returns the sum of squares of part `part` of a gradient, whose parameter is viewed as [outer,
 * parts, inner]. */
static double part_square(const float *grad, int64_t outer, int64_t parts, int64_t part,
                          int64_t inner)
{
    double sum = 0;
    for (int64_t o = 0; o < outer; o++)
        sum += square(grad + (o * parts + part) * inner, inner);
    return sum;
}

void mf_head_gradients(const mf_model *m, int32_t layer, double scale, float *out)
{
    const mf_model_config *c = &m->config->model;
    const int64_t H = c->heads, KV = c->kv_heads, hd = mf_model_head_dim(c);
    const mf_param *active = mf_head_param(m, layer, "active");
    const mf_param *w = mf_head_weights(m, layer, "qkv.weight"),
                   *b = mf_head_weights(m, layer, "qkv.bias"),
                   *o = mf_head_weights(m, layer, "out.weight");
    const float *grads = mf_store_host(w->store, MF_BLOCK_GRADS);
    for (int64_t h = 0; h < H; h++) {
        const int64_t share = H / KV, kv = h / share;
        int64_t n = 0; /* active heads that share keys and values with this one */
        for (int64_t i = kv * share; i < (kv + 1) * share; i++)
            n += mf_head_is_active(active, (int32_t)i);
        double sum = 0;
        out[h] = 0;
        if (!mf_head_is_active(active, (int32_t)h) || !grads) continue;
        const mf_param *both[] = {w, b};
        for (int i = 0; i < 2; i++) {
            if (!both[i]) continue;
            const int64_t rows = both[i] == w ? hd * c->dim : hd; /* elements of one head */
            const float *g = grads + both[i]->offset;
            sum += square(g + h * rows, rows);
            sum += square(g + (H + kv) * rows, rows) / (double)n;
            sum += square(g + (H + KV + kv) * rows, rows) / (double)n;
        }
        sum += part_square(grads + o->offset, c->dim, H, h, hd);
        out[h] = (float)(sqrt(sum) * scale);
    }
}

enum { GATE, ACTIVE, ENTROPY, GRADIENT, IMPORTANCE, ARRAYS };

int mf_head_record_new(const mf_model *m, mf_head_record **ret)
{
    const int64_t L = m->config->model.layers, H = m->config->model.heads;
    *ret = NULL;
    if (!m->head_switches) return MF_OK;
    mf_head_record *r = mf_alloc(1, sizeof *r + (size_t)L * sizeof *r->stats +
                                        (size_t)(L * H * ARRAYS) * sizeof *r->values);
    if (!r) return MF_ENOMEM;
    *r = (mf_head_record){.layers = (int32_t)L, .heads = (int32_t)H};
    r->stats = (mf_head_stats *)(r + 1);
    r->values = (float *)(r->stats + L);
    *ret = r;
    return MF_OK;
}

void mf_head_record_free(mf_head_record *r)
{
    mf_free(r);
}

static float *array(const mf_head_record *r, int which, int32_t layer)
{
    return r->values + ((int64_t)which * r->layers + layer) * r->heads;
}

float *mf_head_record_gradients(const mf_head_record *r, int32_t layer)
{
    return array(r, GRADIENT, layer);
}

float *mf_head_record_importance(const mf_head_record *r, int32_t layer)
{
    return array(r, IMPORTANCE, layer);
}

void mf_head_record_fill(mf_head_record *r, const mf_model *m, const mf_head_tally *t)
{
    if (!r) return;
    for (int32_t l = 0; l < r->layers; l++) {
        const mf_param *active = mf_head_param(m, l, "active");
        const float *gate = m->gates[l] ? mf_param_host(m->gates[l]) : NULL;
        const bool measured = t && t->runs > 0;
        for (int32_t h = 0; h < r->heads; h++) {
            const bool on = mf_head_is_active(active, h);
            array(r, GATE, l)[h] = !on ? 0 : gate ? (float)mf_gate_of(m, (double)gate[h]) : 1;
            array(r, ACTIVE, l)[h] = on;
            if (measured)
                array(r, ENTROPY, l)[h] =
                    (float)(t->entropy[(int64_t)l * r->heads + h] / (double)t->runs);
            array(r, GRADIENT, l)[h] = array(r, IMPORTANCE, l)[h] = 0;
        }
        r->stats[l] = (mf_head_stats){.size = sizeof *r->stats,
                                      .layer = l,
                                      .heads = r->heads,
                                      .gate = array(r, GATE, l),
                                      .active = array(r, ACTIVE, l),
                                      .entropy = measured ? array(r, ENTROPY, l) : NULL};
    }
}

/* model/attention.c: attention of a block. All heads are computed in one call; after pruning,
 * the active heads are computed group by group. Pruned heads are not computed. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "model/block.h"
#include "model/heads.h"
#include "ops/layers/attention.h"
#include "ops/ops.h"
#include "ops/gemm.h"
#include "ops/state.h"

typedef struct {
    const mf_model *m;
    mf_model_graph *mg;
    mf_graph *g;
    const mf_head_plan *plan;
    int32_t layer;
    int64_t tokens, hd; /* T; elements of one head */
    bool causal;
    double scale;
    mf_tensor *in;      /* [T,d] input of the projection */
    mf_tensor *entropy; /* [active], in the order of plan->q; NULL: not measured */
    mf_tensor *weights; /* [active n, n], in the order of plan->q; NULL: not requested */
} attend;

/* NULL if the model has no such parameter. */
static mf_tensor *use(const attend *x, const char *what)
{
    mf_param *p = mf_head_weights(x->m, x->layer, what);
    return p ? mf_graph_param(x->g, p) : NULL;
}

/* ---- slices of parameters ---- */

static mf_tensor *indices(const attend *x, int64_t n, const int32_t *index)
{
    return mf_graph_const(x->g, MF_I32, mf_shape1(n), index);
}

/* Rows index[0 .. n) of a parameter viewed as [rows, count / rows]; NULL if the parameter does
 * not exist. Graphs for generation copy these rows once, while they are built: a gemm with one
 * token costs as much as reading its weights. */
static mf_tensor *pick(const attend *x, const char *what, int64_t rows, int64_t n,
                       const int32_t *index)
{
    mf_param *p = mf_head_weights(x->m, x->layer, what);
    if (!p) return NULL;
    const int64_t width = p->count / rows;
    if (x->mg->shape.mode != MF_MODE_GENERATE)
        return mf_gather_rows(x->g,
                              mf_reshape(x->g, mf_graph_param(x->g, p), mf_shape2(rows, width)),
                              indices(x, n, index));
    const bool bf16 = p->bf16 && p->shape.rank > 1 && mf_graph_is_bf16(x->g);
    const mf_block block = bf16        ? MF_BLOCK_BF16
                           : p->buffer ? MF_BLOCK_BUFFERS
                                       : MF_BLOCK_VALUES;
    const size_t bytes = (size_t)width * (bf16 ? sizeof(uint16_t) : sizeof(float));
    mf_tensor *t = mf_graph_const(x->g, bf16 ? MF_BF16 : MF_F32, mf_shape2(n, width), NULL);
    char *row = mf_alloc(bytes + 1, 1);
    int rc = row ? MF_OK : MF_ENOMEM;
    for (int64_t i = 0; t && rc == MF_OK && i < n; i++) {
        const size_t from = mf_param_offset(p, block) + (size_t)index[i] * bytes;
        rc = mf_store_read(p->store, block, row, from, bytes);
        if (rc == MF_OK) rc = mf_tensor_write(t, row, (size_t)i * bytes, bytes);
    }
    mf_free(row);
    if (t && rc != MF_OK) mf_graph_fail(x->g, rc, "%s", mf_error_message());
    return t;
}

/* Lists the heads of the packed projection in the order of computation: for each group its
 * queries, keys and values. Returns how many; index has room for active + 2 kv_active. */
static int64_t packed_order(const mf_head_plan *p, int32_t *index)
{
    int64_t n = 0;
    for (int32_t i = 0; i < p->n_groups; i++) {
        const mf_head_group *g = &p->group[i];
        for (int32_t j = 0; j < g->share * g->kv; j++)
            index[n++] = p->q[g->q_at + j];
        for (int32_t part = 0; part < 2; part++)
            for (int32_t j = 0; j < g->kv; j++)
                index[n++] = p->total + part * p->kv_total + p->kv[g->kv_at + j];
    }
    return n;
}

static mf_tensor *project(const attend *x, mf_tensor *in)
{
    const mf_head_plan *p = x->plan;
    const int64_t rows = p->total + 2 * p->kv_total, dim = in->shape.dim[1];
    if (p->whole)
        return mf_linear_as(x->g, in, use(x, "qkv.weight"), use(x, "qkv.bias"), MF_F32);
    int32_t *index = mf_alloc((size_t)rows, sizeof *index);
    if (!index) {
        mf_graph_fail(x->g, MF_ENOMEM, "no memory for the order of heads");
        return NULL;
    }
    const int64_t n = packed_order(p, index);
    mf_tensor *w = pick(x, "qkv.weight", rows, n, index),
              *b = pick(x, "qkv.bias", rows, n, index);
    mf_free(index);
    return mf_linear_as(x->g, in, mf_reshape(x->g, w, mf_shape2(n * x->hd, dim)),
                        b ? mf_reshape(x->g, b, mf_shape1(n * x->hd)) : NULL, MF_F32);
}

/* The output bias after its adapters; NULL: none. */
static mf_tensor *out_bias(const attend *x)
{
    mf_tensor *b = use(x, "out.bias");
    return b ? mf_adapt(x->m->env, MF_AT_ATTENTION_BIAS, b, NULL) : NULL;
}

/* y [T, active hd] -> [T,d]. A head's part of the output weights is hd columns of each row. */
static mf_tensor *merge(const attend *x, mf_tensor *y)
{
    const mf_head_plan *p = x->plan;
    const int64_t dim = x->m->config->model.dim, n = dim * p->active;
    if (p->whole) return mf_linear_as(x->g, y, use(x, "out.weight"), out_bias(x), MF_F32);
    int32_t *index = mf_alloc((size_t)n, sizeof *index);
    if (!index) {
        mf_graph_fail(x->g, MF_ENOMEM, "no memory for the order of heads");
        return NULL;
    }
    for (int64_t o = 0; o < dim; o++)
        for (int32_t i = 0; i < p->active; i++)
            index[o * p->active + i] = (int32_t)(o * p->total + p->q[i]);
    mf_tensor *w = pick(x, "out.weight", dim * p->total, n, index);
    mf_free(index);
    return mf_linear_as(x->g, y, mf_reshape(x->g, w, mf_shape2(dim, p->active * x->hd)),
                        out_bias(x), MF_F32);
}

/* ---- one group ---- */

/* Writes keys and values of this run into the cache; *k and *v become the whole cache. */
static void through_cache(const attend *x, int32_t group, int64_t k_at, int64_t width,
                          mf_tensor *qkv, mf_tensor **k, mf_tensor **v)
{
    const mf_cache *cache = x->mg->shape.cache;
    mf_tensor **out[] = {k, v};
    for (int i = 0; i < 2; i++) {
        char name[MF_CACHE_NAME];
        mf_tensor *fresh = mf_slice(x->g, qkv, 1, k_at + i * width, width);
        mf_param *kept = mf_store_find(cache->store, mf_cache_name(name, x->layer, group, i));
        if (!kept || kept->shape.dim[1] != width) {
            mf_graph_fail(x->g, MF_EINVAL, "the cache was made before heads were pruned");
            return;
        }
        *out[i] = mf_cache_append(x->g, mf_graph_param(x->g, kept), fresh, x->mg->cache_pos);
    }
}

/* A query's weights are p = softmax(s), s = scale q . k. Their entropy is ln sum e^s - <p, s>.
 * Since <p, s> = scale q . (sum p k), and sum p k is attention with the keys as values, the
 * mean over queries needs no matrix of weights. These are metric nodes: they run only in steps
 * that write metrics. */
static mf_tensor *entropy_of(const attend *x, mf_tensor *qkv, int32_t heads, int32_t kv)
{
    mf_graph *g = x->g;
    const mf_shape by_head = mf_shape3(x->tokens, heads, x->hd);
    mf_graph_metrics(g, true);
    mf_tensor *q = mf_slice(g, qkv, 1, 0, heads * x->hd);
    mf_tensor *k = mf_slice(g, qkv, 1, heads * x->hd, kv * x->hd);
    mf_tensor *lse, *y = mf_attention_lse(g, q, k, k, x->mg->mask, x->mg->shape.batch, heads,
                                          kv, x->causal, x->scale, &lse);
    mf_tensor *dot =
        mf_sum(g, mf_mul(g, mf_reshape(g, q, by_head), mf_reshape(g, y, by_head)), 4u, false);
    mf_tensor *e = mf_sub(g, mf_clamp(g, lse, -1e30, 1e30), mf_scale(g, dot, x->scale));
    if (x->mg->mask) {
        mf_tensor *mask = mf_reshape(g, x->mg->mask, mf_shape2(x->tokens, 1));
        mf_tensor *n = mf_clamp(g, mf_sum(g, mask, MF_ALL, false), 1, 1e30);
        e = mf_div(g, mf_sum(g, mf_mul(g, e, mask), 1u, false), n);
    } else {
        e = mf_mean(g, e, 1u, false);
    }
    mf_graph_metrics(g, false);
    return e;
}

/* The mask of the first n tokens of the first sequence, which is added to scores before the
 * softmax: [n,n] or [n], 0 or -1e30. NULL: nothing is masked. */
static mf_tensor *hidden_places(const attend *x, int64_t n)
{
    mf_graph *g = x->g;
    mf_tensor *sum = NULL;
    if (x->causal) {
        float *v = mf_alloc((size_t)(n * n) + 1, sizeof *v);
        for (int64_t i = 0; v && i < n * n; i++)
            v[i] = i % n > i / n ? -1e30f : 0;
        if (v)
            sum = mf_graph_const(g, MF_F32, mf_shape2(n, n), v);
        else
            mf_graph_fail(g, MF_ENOMEM, "the mask of %lld tokens", (long long)n);
        mf_free(v);
    }
    if (x->mg->mask) {
        mf_tensor *mask = mf_affine(g, mf_slice(g, x->mg->mask, 0, 0, n), 1e30, -1e30);
        sum = sum ? mf_add(g, sum, mask) : mask;
    }
    return sum;
}

/* softmax(scale q k^T) of each head for the first n tokens of the first sequence, for pictures:
 * [heads n, n]. */
static mf_tensor *weights_of(const attend *x, mf_tensor *qkv, int32_t heads, int32_t kv)
{
    mf_graph *g = x->g;
    const int64_t n = x->mg->shape.want_attention;
    mf_tensor *first = mf_slice(g, qkv, 0, 0, n), *hidden = hidden_places(x, n), *all = NULL;
    for (int32_t h = 0; h < heads; h++) {
        const int64_t k_at = heads + h / (heads / kv);
        mf_tensor *q = mf_slice(g, first, 1, h * x->hd, x->hd),
                  *k = mf_slice(g, first, 1, k_at * x->hd, x->hd);
        mf_tensor *score = mf_matmul(g, q, false, k, true, x->scale);
        mf_tensor *p = mf_softmax(g, hidden ? mf_add(g, score, hidden) : score);
        mf_tensor *both[2] = {all, p};
        all = all ? mf_concat(g, 2, both, 0) : p;
    }
    return all;
}

/* Concatenates a and b; either may be NULL. */
static mf_tensor *join(mf_graph *g, mf_tensor *a, mf_tensor *b, int axis)
{
    mf_tensor *both[2] = {a, b};
    return a ? mf_concat(g, 2, both, axis) : b;
}

/* Sets the numbers of the heads that the next calls of adapters receive. */
static void tell_heads(const attend *x, int32_t heads, int32_t n, const int32_t *active,
                       mf_tensor *mask)
{
    mf_adapt_env *env = x->m->env;
    env->heads_cut = heads > 0;
    env->heads = heads;
    env->n_active = n;
    env->active = active;
    env->head_mask = mask;
}

/* The group's queries, keys and values after their adapters. */
static mf_tensor *adapted_qkv(const attend *x, const mf_head_group *group, mf_tensor *qkv)
{
    static const char *const sites[] = {"attention.q", "attention.k", "attention.v"};
    const mf_head_plan *p = x->plan;
    const int32_t n[] = {group->share * group->kv, group->kv, group->kv},
                  all[] = {p->total, p->kv_total, p->kv_total};
    mf_tensor *part[3];
    int64_t at = 0;
    bool any = false;
    for (int i = 0; i < 3; i++)
        any = any || mf_adapters_at_linear(x->m->env->adapters, sites[i]);
    if (!any) return qkv;
    for (int i = 0; i < 3; i++) {
        part[i] = mf_slice(x->g, qkv, 1, at, n[i] * x->hd);
        at += n[i] * x->hd;
        tell_heads(x, all[i], n[i], i == 0 ? p->q + group->q_at : p->kv + group->kv_at, NULL);
        part[i] = mf_adapt_linear(x->m->env, sites[i], x->in, part[i]);
    }
    tell_heads(x, 0, 0, NULL, NULL);
    return mf_concat(x->g, 3, part, 1);
}

static mf_tensor *one_group(attend *x, int32_t i, mf_tensor *qkv)
{
    const mf_model_config *c = &x->m->config->model;
    const mf_head_group *group = &x->plan->group[i];
    const int kv = group->kv, heads = group->share * kv, batch = x->mg->shape.batch;
    mf_graph *g = x->g;
    qkv = adapted_qkv(x, group, qkv);
    if (c->position == MF_POS_ROPE)
        qkv = mf_rope(g, qkv, x->mg->positions, (int)x->hd, heads + kv, c->rope_half,
                      c->rope_theta);
    if (x->mg->shape.cache) {
        mf_tensor *q = mf_slice(g, qkv, 1, 0, heads * x->hd), *k = NULL, *v = NULL;
        through_cache(x, i, heads * x->hd, kv * x->hd, qkv, &k, &v);
        return mf_attention(g, q, k, v, NULL, x->mg->kv_len, batch, heads, kv, x->causal,
                            x->scale);
    }
    if (x->mg->shape.want_attention > 0)
        x->weights = join(g, x->weights, weights_of(x, qkv, heads, kv), 0);
    if (x->m->head_switches && x->mg->shape.mode != MF_MODE_GENERATE) {
        mf_tensor *e = entropy_of(x, qkv, heads, kv);
        mf_graph_metrics(g, true);
        x->entropy = join(g, x->entropy, e, 0);
        mf_graph_metrics(g, false);
    }
    return mf_attention(g, qkv, NULL, NULL, x->mg->mask, NULL, batch, heads, kv, x->causal,
                        x->scale);
}

static mf_tensor *groups(attend *x, mf_tensor *qkv)
{
    const mf_head_plan *p = x->plan;
    mf_tensor *y = NULL;
    int64_t at = 0;
    if (p->n_groups == 1) return one_group(x, 0, qkv);
    for (int32_t i = 0; i < p->n_groups; i++) {
        const int64_t width = (p->group[i].share + 2) * p->group[i].kv * x->hd;
        y = join(x->g, y, one_group(x, i, mf_slice(x->g, qkv, 1, at, width)), 1);
        at += width;
    }
    return y;
}

/* ---- adapters ---- */

/* [active,1]: 0 removes a head for a measurement. NULL if the graph was built without
 * head_mask. */
static mf_tensor *head_mask(const attend *x)
{
    const mf_head_plan *p = x->plan;
    if (!x->mg->head_mask) return NULL;
    mf_tensor *mask =
        mf_slice(x->g, x->mg->head_mask, 0, (int64_t)x->layer * p->total, p->total);
    return p->whole ? mask : mf_gather_rows(x->g, mask, indices(x, p->active, p->q));
}

/* y [T, active hd] after the adapters of heads, in the same shape. */
static mf_tensor *adapted(const attend *x, mf_tensor *y, mf_tensor *mask)
{
    const int64_t n = x->plan->active;
    if (!mask && !mf_adapters_at(x->m->env->adapters, MF_AT_HEADS)) return y;
    y = mf_reshape(x->g, y, mf_shape3(x->tokens, n, x->hd));
    y = mf_adapt(x->m->env, MF_AT_HEADS, y, NULL);
    if (mask) y = mf_mul(x->g, y, mask);
    return mf_reshape(x->g, y, mf_shape2(x->tokens, n * x->hd));
}

mf_tensor *mf_block_attention(const mf_model *m, mf_model_graph *mg, int32_t layer,
                              mf_tensor *in)
{
    const mf_model_config *c = &m->config->model;
    mf_model_heads *h = &mg->heads[layer];
    attend x = {.m = m,
                .mg = mg,
                .g = mg->g,
                .layer = layer,
                .tokens = (int64_t)mg->shape.batch * mg->shape.seq,
                .hd = c->dim / c->heads,
                .causal = c->task == MF_TASK_LM && c->causal};
    const double width = (double)(c->attention_scale_by == 1 ? c->dim : x.hd);
    x.scale = c->attention_scale > 0 ? c->attention_scale : 1 / sqrt(width);
    const int rc = mf_head_plan_new(m, layer, &h->plan);
    if (rc != MF_OK) {
        mf_graph_fail(mg->g, rc, "no memory for the heads of layer %d", (int)layer);
        return NULL;
    }
    x.plan = h->plan;
    x.in = in;
    mf_tensor *mask = NULL, *y = NULL;
    if (x.plan->active > 0) {
        y = groups(&x, project(&x, in));
        h->entropy = x.entropy;
        mf_graph_keep(h->entropy);
        h->weights = x.weights ? mf_graph_to_f32(mg->g, x.weights) : NULL;
        mf_graph_keep(h->weights);
        mask = head_mask(&x);
    }
    tell_heads(&x, x.plan->total, x.plan->active, x.plan->q, mask);
    if (x.plan->active == 0) {
        y = out_bias(&x);
    } else {
        mf_tensor *heads = adapted(&x, y, mask);
        y = mf_adapt_linear(m->env, "attention.o", heads, merge(&x, heads));
    }
    tell_heads(&x, 0, 0, NULL, NULL);
    return y;
}

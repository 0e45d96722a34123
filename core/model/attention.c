/* model/attention.c: adds the nodes of a block's attention. One attention op computes each
 * group of active heads (model/heads.h); if no head is pruned, there is one group. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "model/block.h"
#include "model/heads.h"
#include "model/latent.h"
#include "model/rope.h"
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
    int64_t tokens, hd; /* tokens: T; hd: number of elements of one head */
    bool causal;
    int64_t window;    /* window in tokens; 0: no window */
    mf_tensor *chunks; /* [T] first key of each query; NULL: windows are no chunks */
    double scale;
    mf_tensor *in;      /* [T,d] input of the projection */
    mf_tensor *entropy; /* [active], in the order of plan->q; NULL: not measured */
    mf_tensor *weights; /* [active n, n], in the order of plan->q; NULL: not requested */
} attend;

/* Adds the parameter as a value. Returns NULL if the model has no such parameter. */
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

/* Returns the rows index[0 .. n) of a parameter viewed as [rows, count / rows]; NULL if the
 * parameter does not exist. Graphs for generation copy these rows once, while they are built:
 * with one token, copying them in each run would cost about as much as the gemm. */
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

/* Lists the heads of the packed projection in the order of computation: the queries, keys
 * and values of each group. Returns the number of heads; index has space
 * for active + 2 kv_active. */
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
    if (!in) return NULL; /* the graph has failed */
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

/* Returns the output bias after its adapters; NULL: no bias. */
static mf_tensor *out_bias(const attend *x)
{
    mf_tensor *b = use(x, "out.bias");
    return b ? mf_adapt(x->m->env, MF_AT_ATTENTION_BIAS, b, NULL) : NULL;
}

/* y [T, active hd] -> [T,d]. The part of the output weights that belongs to a head is hd
 * columns of each row. */
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

/* Returns the arguments of the attention op. k and v NULL: both are packed in q. */
static mf_attend_args attend_args(const attend *x, mf_tensor *q, mf_tensor *k, mf_tensor *v,
                                  int32_t heads, int32_t kv)
{
    return (mf_attend_args){.q = q,
                            .k = k,
                            .v = v,
                            .mask = x->mg->shape.cache ? NULL : x->mg->mask,
                            .kv_len = x->mg->shape.cache ? x->mg->kv_len : NULL,
                            .batch = x->mg->shape.batch,
                            .heads = heads,
                            .kv_heads = kv,
                            .causal = x->causal,
                            .window = x->chunks ? 0 : x->window,
                            .since = x->chunks ? x->chunks : x->mg->since,
                            .scale = x->scale};
}

/* Computes the attention of a group, multiplied by sigmoid(lse - sink). The weights of a head
 * are then a softmax over the scores and one more logit, the sink of the head, which has
 * no value. */
static mf_tensor *attended(const attend *x, const mf_head_group *group,
                           const mf_attend_args *args)
{
    mf_graph *g = x->g;
    const int64_t n = args->heads;
    mf_tensor *lse, *sinks = use(x, "sinks");
    if (!sinks) return mf_attend(g, args, NULL);
    mf_tensor *y = mf_attend(g, args, &lse);
    if (!x->plan->whole)
        sinks = mf_reshape(g, pick(x, "sinks", x->plan->total, n, x->plan->q + group->q_at),
                           mf_shape1(n));
    mf_tensor *share = mf_sigmoid(g, mf_sub(g, lse, sinks));
    y = mf_mul(g, mf_reshape(g, y, mf_shape3(x->tokens, n, x->hd)),
               mf_reshape(g, share, mf_shape3(x->tokens, n, 1)));
    return mf_reshape(g, y, mf_shape2(x->tokens, n * x->hd));
}

/* A query's weights are p = softmax(s), s = scale q . k. Their entropy is ln sum e^s - <p, s>.
 * Since <p, s> = scale q . (sum p k), and sum p k is attention with the keys as values, the
 * mean over queries needs no matrix of weights. Sinks are not part of these weights. The nodes
 * are metric nodes: they run only in steps that write metrics. */
static mf_tensor *entropy_of(const attend *x, mf_tensor *qkv, int32_t heads, int32_t kv)
{
    mf_graph *g = x->g;
    const mf_shape by_head = mf_shape3(x->tokens, heads, x->hd);
    mf_graph_metrics(g, true);
    mf_tensor *q = mf_slice(g, qkv, 1, 0, heads * x->hd);
    mf_tensor *k = mf_slice(g, qkv, 1, heads * x->hd, kv * x->hd);
    const mf_attend_args args = attend_args(x, q, k, k, heads, kv);
    mf_tensor *lse, *y = mf_attend(g, &args, &lse);
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

/* Returns the first key that query t of a sequence may see. */
static int64_t first_key(const attend *x, int64_t t)
{
    if (x->window == 0) return 0;
    return x->chunks ? t - t % x->window : t - x->window + 1;
}

/* Returns the mask of the first n tokens of the first sequence, which is added to scores before
 * the softmax: [n,n] or [n], 0 for visible tokens, else at most -1e30. NULL: all tokens
 * are visible. */
static mf_tensor *hidden_places(const attend *x, int64_t n)
{
    mf_graph *g = x->g;
    mf_tensor *sum = NULL;
    if (x->causal) {
        float *v = mf_alloc((size_t)(n * n) + 1, sizeof *v);
        for (int64_t i = 0; v && i < n * n; i++)
            v[i] = i % n > i / n || i % n < first_key(x, i / n) ? -1e30f : 0;
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

/* Returns softmax(scale q k^T) of each head for the first n tokens of the first sequence,
 * [heads n, n]. It is used for pictures. */
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

/* Concatenates a and b along the axis. Returns b if a is NULL. */
static mf_tensor *join(mf_graph *g, mf_tensor *a, mf_tensor *b, int axis)
{
    mf_tensor *both[2] = {a, b};
    return a ? mf_concat(g, 2, both, axis) : b;
}

/* Sets the heads that adapters receive in later calls; heads = 0: no heads. */
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

/* Returns the group's queries, keys and values after their adapters. */
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

/* t [T, n hd] -> t after the norm of queries or keys. `name` is the norm's name in the block
 * that owns the weights. */
static mf_tensor *normed(const attend *x, const char *name, mf_tensor *t, int32_t n)
{
    const bool all = x->m->config->model.qk_norm == MF_QK_ALL;
    const mf_shape shape = t ? t->shape : (mf_shape){0};
    char full[96];
    snprintf(full, sizeof full, "layers.%d.attention.%s",
             (int)mf_block_attention_source(x->m, x->layer), name);
    if (!all) t = mf_reshape(x->g, t, mf_shape2(x->tokens * n, x->hd));
    t = mf_block_norm(x->m, x->g, full, t, false);
    return all ? t : mf_reshape(x->g, t, shape);
}

/* Returns the group's queries, keys and values after the norms of queries and keys. */
static mf_tensor *normed_qkv(const attend *x, const mf_head_group *group, mf_tensor *qkv)
{
    const int32_t kv = group->kv, heads = group->share * kv;
    mf_tensor *part[3];
    part[0] = mf_slice(x->g, qkv, 1, 0, heads * x->hd);
    part[1] = mf_slice(x->g, qkv, 1, heads * x->hd, kv * x->hd);
    part[2] = mf_slice(x->g, qkv, 1, (heads + kv) * x->hd, kv * x->hd);
    part[0] = normed(x, "q_norm", part[0], heads);
    part[1] = normed(x, "k_norm", part[1], kv);
    return mf_concat(x->g, 3, part, 1);
}

/* Returns floor((p + ahead) / step) for the position p of each token, [T] f32. Both numbers are
 * below 2^24, so the quotient is exact enough for its floor. */
static mf_tensor *steps(const attend *x, int64_t ahead, int64_t step)
{
    mf_graph *g = x->g;
    const float by = (float)step;
    mf_tensor *p = mf_affine(g, mf_cast(g, x->mg->positions, MF_F32), 1, (double)ahead);
    p = mf_div(g, p, mf_graph_const(g, MF_F32, mf_shape1(1), &by));
    return mf_cast(g, mf_cast(g, p, MF_I32), MF_F32); /* the cast to i32 rounds towards 0 */
}

/* Returns the first key of each query, [T]: windows begin at multiples of model.window, counted
 * from the begin of the token's document. */
static mf_tensor *chunk_start(const attend *x, int64_t window)
{
    mf_tensor *at = mf_cast(x->g, mf_scale(x->g, steps(x, 0, window), (double)window), MF_I32);
    return x->mg->since ? mf_add(x->g, x->mg->since, at) : at;
}

/* Returns the group's queries, keys and values with the factor of model.query_growth on
 * queries, which are the first `width` columns. */
static mf_tensor *grown(const attend *x, int64_t width, mf_tensor *qkv)
{
    const mf_model_config *c = &x->m->config->model;
    mf_graph *g = x->g;
    if (!qkv) return NULL;
    mf_tensor *ln = mf_ln(g, mf_affine(g, steps(x, 1, c->query_growth_step), 1, 1));
    mf_tensor *by =
        mf_reshape(g, mf_affine(g, ln, c->query_growth, 1), mf_shape2(x->tokens, 1));
    mf_tensor *part[2] = {mf_mul(g, mf_slice(g, qkv, 1, 0, width), by),
                          mf_slice(g, qkv, 1, width, qkv->shape.dim[1] - width)};
    return mf_concat(g, 2, part, 1);
}

/* Returns the group's queries, keys and values after norms, limit and rope. */
static mf_tensor *finished_qkv(const attend *x, const mf_head_group *group, mf_tensor *qkv)
{
    const mf_model_config *c = &x->m->config->model;
    const bool norm = mf_model_has_qk_norm(c, x->layer);
    if (norm && !c->qk_norm_late) qkv = normed_qkv(x, group, qkv);
    if (c->clip_qkv > 0) qkv = mf_clamp(x->g, qkv, -c->clip_qkv, c->clip_qkv);
    const bool rope = mf_model_has_rope(c, x->layer);
    if (rope)
        qkv = mf_model_rope(x->m, x->mg, x->layer, qkv, x->hd, (group->share + 1) * group->kv);
    if (norm && c->qk_norm_late) qkv = normed_qkv(x, group, qkv);
    return rope || c->query_growth == 0 ? qkv : grown(x, group->share * group->kv * x->hd, qkv);
}

static mf_tensor *one_group(attend *x, int32_t i, mf_tensor *qkv)
{
    const mf_head_group *group = &x->plan->group[i];
    const int kv = group->kv, heads = group->share * kv;
    mf_graph *g = x->g;
    qkv = finished_qkv(x, group, adapted_qkv(x, group, qkv));
    if (x->mg->shape.cache) {
        mf_tensor *q = mf_slice(g, qkv, 1, 0, heads * x->hd), *k = NULL, *v = NULL;
        through_cache(x, i, heads * x->hd, kv * x->hd, qkv, &k, &v);
        const mf_attend_args args = attend_args(x, q, k, v, heads, kv);
        return attended(x, group, &args);
    }
    if (x->mg->shape.want_attention > 0)
        x->weights = join(g, x->weights, weights_of(x, qkv, heads, kv), 0);
    if (x->m->head_switches && x->mg->shape.mode != MF_MODE_GENERATE) {
        mf_tensor *e = entropy_of(x, qkv, heads, kv);
        mf_graph_metrics(g, true);
        x->entropy = join(g, x->entropy, e, 0);
        mf_graph_metrics(g, false);
    }
    const mf_attend_args args = attend_args(x, qkv, NULL, NULL, heads, kv);
    return attended(x, group, &args);
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

/* Returns [active,1] f32, in which a 0 removes the head for a measurement. NULL: the graph has
 * no head_mask input. */
static mf_tensor *head_mask(const attend *x)
{
    const mf_head_plan *p = x->plan;
    if (!x->mg->head_mask) return NULL;
    mf_tensor *mask =
        mf_slice(x->g, x->mg->head_mask, 0, (int64_t)x->layer * p->total, p->total);
    return p->whole ? mask : mf_gather_rows(x->g, mask, indices(x, p->active, p->q));
}

/* y [T, active hd] -> y after the adapters of heads and the mask (NULL: no mask), in the
 * same shape. */
static mf_tensor *adapted(const attend *x, mf_tensor *y, mf_tensor *mask)
{
    const int64_t n = x->plan->active;
    if (!mask && !mf_adapters_at(x->m->env->adapters, MF_AT_HEADS)) return y;
    y = mf_reshape(x->g, y, mf_shape3(x->tokens, n, x->hd));
    y = mf_adapt(x->m->env, MF_AT_HEADS, y, NULL);
    if (mask) y = mf_mul(x->g, y, mask);
    return mf_reshape(x->g, y, mf_shape2(x->tokens, n * x->hd));
}

/* y [T, active hd] -> y sigmoid(W x) */
static mf_tensor *gated(const attend *x, mf_tensor *y)
{
    const mf_head_plan *p = x->plan;
    mf_tensor *w = p->whole
                       ? use(x, "out_gate.weight")
                       : mf_reshape(x->g, pick(x, "out_gate.weight", p->total, p->active, p->q),
                                    mf_shape2(p->active * x->hd, x->m->config->model.dim));
    mf_tensor *gate = mf_linear_as(x->g, x->in, w, NULL, MF_F32);
    tell_heads(x, p->total, p->active, p->q, NULL);
    gate = mf_adapt_linear(x->m->env, "attention.gate", x->in, gate);
    tell_heads(x, 0, 0, NULL, NULL);
    return mf_mul(x->g, y, mf_sigmoid(x->g, gate));
}

/* Adds attention from latent vectors. Sets x->hd to the width of a head's result. */
static mf_tensor *latent(attend *x)
{
    const mf_attend_args args = attend_args(x, NULL, NULL, NULL, 0, 0);
    x->hd = mf_model_value_dim(&x->m->config->model);
    return mf_latent_attention(x->m, x->mg, x->layer, mf_block_attention_source(x->m, x->layer),
                               x->in, &args);
}

/* Returns the window of a block in tokens; 0: no window. */
static int64_t window_of(const mf_model_config *c, int32_t layer)
{
    bool bad;
    return c->window > 0 && mf_model_in_layers(c->window_layers, layer, &bad) ? c->window : 0;
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
                .hd = mf_model_head_dim(c),
                .causal = c->task == MF_TASK_LM && c->causal,
                .window = window_of(c, layer)};
    const double width = (double)(c->attention_scale_by == 1 ? c->dim : x.hd);
    x.scale = c->attention_scale > 0 ? c->attention_scale : 1 / sqrt(width);
    if (c->attention_scale_by_layer) x.scale /= layer + 1;
    const int rc = mf_head_plan_new(m, layer, &h->plan);
    if (rc != MF_OK) {
        mf_graph_fail(mg->g, rc, "no memory for the heads of layer %d", (int)layer);
        return NULL;
    }
    x.plan = h->plan;
    x.in = in;
    if (x.window > 0 && c->window_chunks) x.chunks = chunk_start(&x, x.window);
    mf_tensor *mask = NULL, *y = NULL;
    if (x.plan->active > 0) {
        y = c->latent > 0 ? latent(&x) : groups(&x, project(&x, in));
        if (c->attention_gate) y = gated(&x, y);
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

#include "model/block.h"
#include <math.h>
#include <stdio.h>
#include "base/error.h"
#include "base/mem.h"
#include "ops/linear_cross_entropy.h"
#include "ops/ops.h"
#include "ops/state.h"

enum { FFN_RELU, FFN_GELU, FFN_SWIGLU };

#define NAME_MAX_LEN 96
typedef struct {
    char text[NAME_MAX_LEN];
} name_buf;

static name_buf layer_name(int32_t layer, const char *what)
{
    name_buf n;
    snprintf(n.text, sizeof n.text, "layers.%d.%s", (int)layer, what);
    return n;
}

/* The block whose attention, and whose feed-forward or experts, this one uses. */
static int32_t attention_of(const mf_model *m, int32_t layer)
{
    return m->config->model.share_layers ? 0 : layer;
}

int32_t mf_block_source(const mf_model *m, int32_t layer)
{
    int32_t first = 0;
    if (!m->config->model.share_layers) return layer;
    while ((m->moe_of_layer[first] < 0) != (m->moe_of_layer[layer] < 0))
        first++;
    return first;
}

/* ---- declaring ---- */

typedef struct {
    mf_model *m;
    int rc; /* first failure */
} declarer;

static void declare(declarer *d, const char *name, mf_shape shape, mf_init init)
{
    mf_param *p;
    if (d->rc == MF_OK) d->rc = mf_store_declare(d->m->store, name, shape, init, false, &p);
}

static void declare_norm(declarer *d, const char *name, int64_t dim)
{
    char full[NAME_MAX_LEN];
    snprintf(full, sizeof full, "%s.weight", name);
    declare(d, full, mf_shape1(dim), (mf_init){MF_INIT_CONST, MF_PARAM_NO_DECAY, 1});
    if (d->m->config->model.norm != MF_NORM_LAYER) return;
    snprintf(full, sizeof full, "%s.bias", name);
    declare(d, full, mf_shape1(dim), (mf_init){MF_INIT_ZERO, MF_PARAM_NO_DECAY, 0});
}

/* Start values of a linear layer's weights, and of its biases. */
static mf_init weight_init(const mf_model_config *c, double std)
{
    return c->init == MF_START_NORMAL ? (mf_init){MF_INIT_NORMAL, 0, std}
                                      : (mf_init){MF_INIT_KAIMING, 0, 1};
}

static mf_init bias_init(const mf_model_config *c, int64_t inputs)
{
    return c->init == MF_START_NORMAL
               ? (mf_init){MF_INIT_ZERO, MF_PARAM_NO_DECAY, 0}
               : (mf_init){MF_INIT_UNIFORM, MF_PARAM_NO_DECAY, 1 / sqrt((double)inputs)};
}

static void declare_attention(declarer *d, int32_t layer, double std, double out_std)
{
    const mf_model_config *c = &d->m->config->model;
    const int64_t hd = c->dim / c->heads, qkv = (c->heads + 2 * c->kv_heads) * hd;
    const bool xavier = c->init == MF_START_XAVIER; /* then biases are 0, as is usual with it */
    const mf_init zero = {MF_INIT_ZERO, MF_PARAM_NO_DECAY, 0};
    if (attention_of(d->m, layer) != layer) return;
    declare(d, layer_name(layer, "attention.qkv.weight").text, mf_shape2(qkv, c->dim),
            xavier ? (mf_init){MF_INIT_XAVIER, 0, 1} : weight_init(c, std));
    if (c->attention_bias)
        declare(d, layer_name(layer, "attention.qkv.bias").text, mf_shape1(qkv),
                xavier ? zero : bias_init(c, c->dim));
    declare(d, layer_name(layer, "attention.out.weight").text, mf_shape2(c->dim, c->heads * hd),
            weight_init(c, out_std));
    if (c->attention_out_bias)
        declare(d, layer_name(layer, "attention.out.bias").text, mf_shape1(c->dim),
                xavier ? zero : bias_init(c, c->heads * hd));
}

static void declare_dense(declarer *d, int32_t layer, double std, double out_std)
{
    const mf_model_config *c = &d->m->config->model;
    const int64_t h = c->ffn_hidden ? c->ffn_hidden : 4 * c->dim;
    const int64_t in_rows = c->ffn_activation == FFN_SWIGLU ? 2 * h : h;
    if (mf_block_source(d->m, layer) != layer) return;
    declare(d, layer_name(layer, "ffn.w1").text, mf_shape2(in_rows, c->dim),
            weight_init(c, std));
    declare(d, layer_name(layer, "ffn.w2").text, mf_shape2(c->dim, h), weight_init(c, out_std));
    if (c->ffn_activation == FFN_SWIGLU) return;
    declare(d, layer_name(layer, "ffn.b1").text, mf_shape1(h), bias_init(c, c->dim));
    declare(d, layer_name(layer, "ffn.b2").text, mf_shape1(c->dim), bias_init(c, h));
}

static void declare_layer(declarer *d, int32_t layer, double std, double out_std)
{
    const mf_model_config *c = &d->m->config->model;
    declare_norm(d, layer_name(layer, "norm1").text, c->dim);
    declare_attention(d, layer, std, out_std);
    if (c->head_gates)
        declare(d, layer_name(layer, "attention.gate").text, mf_shape1(c->heads),
                (mf_init){MF_INIT_CONST, MF_PARAM_NO_DECAY, 3.0});
    declare_norm(d, layer_name(layer, "norm2").text, c->dim);
    if (c->skip == MF_SKIP_UNET && layer >= c->layers - c->layers / 2) {
        declare(d, layer_name(layer, "skip.weight").text, mf_shape2(c->dim, 2 * c->dim),
                weight_init(c, std));
        declare(d, layer_name(layer, "skip.bias").text, mf_shape1(c->dim),
                bias_init(c, 2 * c->dim));
    }
    if (d->m->moe_of_layer[layer] < 0) declare_dense(d, layer, std, out_std);
}

int mf_blocks_declare(mf_model *m)
{
    const mf_model_config *c = &m->config->model;
    declarer d = {m, MF_OK};
    const double std = c->init_std, out_std = std / sqrt(2.0 * (double)c->layers);
    const mf_init row = {MF_INIT_NORMAL, MF_PARAM_NO_DECAY,
                         c->init == MF_START_NORMAL ? std : 1};
    declare(&d, "embed.weight", mf_shape2(m->facts.vocab, c->dim), row);
    if (c->position == MF_POS_LEARNED)
        declare(&d, "position.weight", mf_shape2(c->seq, c->dim), row);
    for (int32_t l = 0; l < c->layers; l++)
        declare_layer(&d, l, std, out_std);
    if (c->norm_place == MF_NORM_PRE) declare_norm(&d, "norm", c->dim);
    const bool classify = c->task == MF_TASK_CLASSIFY;
    const int64_t out = classify ? m->facts.classes : m->facts.vocab;
    if (classify || !c->tie_embeddings)
        declare(&d, "head.weight", mf_shape2(out, c->dim), weight_init(c, std));
    if (classify || c->head_bias)
        declare(&d, "head.bias", mf_shape1(out), bias_init(c, c->dim));
    return d.rc;
}

/* ---- building ---- */

/* NULL when the model has no such parameter. */
static mf_tensor *use(const mf_model *m, mf_graph *g, const char *name)
{
    mf_param *p = mf_store_find(m->store, name);
    return p ? mf_graph_param(g, p) : NULL;
}

static mf_tensor *use_in(const mf_model *m, mf_graph *g, int32_t layer, const char *what)
{
    return use(m, g, layer_name(layer, what).text);
}

mf_tensor *mf_block_norm(const mf_model *m, mf_graph *g, const char *name, mf_tensor *x)
{
    const mf_model_config *c = &m->config->model;
    char full[NAME_MAX_LEN];
    snprintf(full, sizeof full, "%s.weight", name);
    mf_tensor *w = use(m, g, full);
    if (c->norm == MF_NORM_RMS) return mf_rmsnorm(g, x, w, c->norm_eps, c->norm_eps_outside);
    snprintf(full, sizeof full, "%s.bias", name);
    return mf_layernorm(g, x, w, use(m, g, full), c->norm_eps);
}

/* Keys and values of this run go into the cache; attention then reads all of it. */
static void through_cache(const mf_cache *cache, mf_model_graph *mg, int32_t layer,
                          int64_t k_at, int64_t width, mf_tensor *qkv, mf_tensor **k,
                          mf_tensor **v)
{
    mf_graph *g = mg->g;
    mf_tensor *new_k = mf_slice(g, qkv, 1, k_at, width);
    mf_tensor *new_v = mf_slice(g, qkv, 1, k_at + width, width);
    mf_param *kp = mf_store_find(cache->store, layer_name(layer, "k").text);
    mf_param *vp = mf_store_find(cache->store, layer_name(layer, "v").text);
    *k = mf_cache_append(g, mf_graph_param(g, kp), new_k, mg->cache_pos);
    *v = mf_cache_append(g, mf_graph_param(g, vp), new_v, mg->cache_pos);
}

mf_tensor *mf_block_attention(const mf_model *m, mf_model_graph *mg, int32_t layer,
                              mf_tensor *x)
{
    const mf_model_config *c = &m->config->model;
    mf_graph *g = mg->g;
    const int heads = (int)c->heads, kv = (int)c->kv_heads, hd = (int)(c->dim / c->heads);
    const int32_t from = attention_of(m, layer);
    const double width = (double)(c->attention_scale_by == 1 ? c->dim : hd),
                 scale = c->attention_scale > 0 ? c->attention_scale : 1 / sqrt(width);
    const bool causal = c->task == MF_TASK_LM && c->causal;
    mf_tensor *qkv = mf_linear(g, x, use_in(m, g, from, "attention.qkv.weight"),
                               use_in(m, g, from, "attention.qkv.bias"));
    if (c->position == MF_POS_ROPE)
        qkv = mf_rope(g, qkv, mg->positions, hd, heads + kv, c->rope_half, c->rope_theta);
    mf_tensor *a;
    if (mg->shape.cache) {
        mf_tensor *q = mf_slice(g, qkv, 1, 0, (int64_t)heads * hd), *k, *v;
        through_cache(mg->shape.cache, mg, layer, (int64_t)heads * hd, (int64_t)kv * hd, qkv,
                      &k, &v);
        a = mf_attention(g, q, k, v, NULL, mg->kv_len, mg->shape.batch, heads, kv, causal,
                         scale);
    } else {
        a = mf_attention(g, qkv, NULL, NULL, mg->mask, NULL, mg->shape.batch, heads, kv, causal,
                         scale);
    }
    if (c->head_gates) {
        const int64_t tokens = (int64_t)mg->shape.batch * mg->shape.seq;
        mf_tensor *gate = mf_sigmoid(g, use_in(m, g, layer, "attention.gate"));
        a = mf_mul(g, mf_reshape(g, a, mf_shape3(tokens, heads, hd)),
                   mf_reshape(g, gate, mf_shape2(heads, 1)));
        a = mf_reshape(g, a, mf_shape2(tokens, (int64_t)heads * hd));
    }
    return mf_linear(g, a, use_in(m, g, from, "attention.out.weight"),
                     use_in(m, g, from, "attention.out.bias"));
}

mf_tensor *mf_block_dense(const mf_model *m, mf_graph *g, int32_t layer, mf_tensor *x)
{
    const int64_t activation = m->config->model.ffn_activation;
    layer = mf_block_source(m, layer);
    mf_tensor *h =
        mf_linear(g, x, use_in(m, g, layer, "ffn.w1"), use_in(m, g, layer, "ffn.b1"));
    if (activation == FFN_SWIGLU)
        h = mf_swiglu(g, h, NULL);
    else
        h = activation == FFN_RELU ? mf_relu(g, h) : mf_gelu(g, h);
    return mf_linear(g, h, use_in(m, g, layer, "ffn.w2"), use_in(m, g, layer, "ffn.b2"));
}

/* Fixed sines (Vaswani et al. 2017, section 3.5): column 2i sin(p / 10000^(2i/d)), 2i+1 cos. */
static mf_tensor *sinusoidal_table(mf_graph *g, int64_t seq, int64_t dim)
{
    float *table = mf_alloc((size_t)(seq * dim), sizeof *table);
    if (!table) {
        mf_graph_fail(g, MF_ENOMEM, "no memory for the table of positions");
        return NULL;
    }
    for (int64_t p = 0; p < seq; p++)
        for (int64_t i = 0; i < dim; i++) {
            const double a = (double)p / pow(10000.0, (double)(i & ~(int64_t)1) / (double)dim);
            table[p * dim + i] = (float)(i & 1 ? cos(a) : sin(a));
        }
    mf_tensor *t = mf_graph_const(g, MF_F32, mf_shape2(seq, dim), table);
    mf_free(table);
    return t;
}

mf_tensor *mf_block_embed(const mf_model *m, mf_model_graph *mg)
{
    const mf_model_config *c = &m->config->model;
    mf_graph *g = mg->g;
    mf_tensor *x = mf_embedding(g, use(m, g, "embed.weight"), mg->tokens);
    mf_tensor *table = NULL;
    if (c->position == MF_POS_LEARNED) table = use(m, g, "position.weight");
    if (c->position == MF_POS_SINUSOIDAL) table = sinusoidal_table(g, c->seq, c->dim);
    if (table) x = mf_add(g, x, mf_embedding(g, table, mg->positions));
    return x;
}

mf_tensor *mf_block_skip(const mf_model *m, mf_graph *g, int32_t layer, mf_tensor *h,
                         mf_tensor *encoder)
{
    mf_tensor *both[2] = {h, encoder};
    mf_tensor *s = mf_linear(g, mf_concat(g, 2, both, 1), use_in(m, g, layer, "skip.weight"),
                             use_in(m, g, layer, "skip.bias"));
    return mf_add(g, h, mf_mul(g, s, mf_graph_live(g, &m->skip_scale, "model.skip_scale")));
}

mf_tensor *mf_block_pool(const mf_model *m, mf_model_graph *mg, mf_tensor *x)
{
    const int64_t B = mg->shape.batch, n = mg->shape.seq, dim = m->config->model.dim;
    mf_graph *g = mg->g;
    mf_tensor *rows = mf_reshape(g, x, mf_shape3(B, n, dim));
    if (m->config->model.pool == MF_POOL_FIRST)
        return mf_reshape(g, mf_slice(g, rows, 1, 0, 1), mf_shape2(B, dim));
    if (!mg->mask) return mf_mean(g, rows, 2u, false);
    mf_tensor *mask = mf_reshape(g, mg->mask, mf_shape3(B, n, 1));
    mf_tensor *count = mf_clamp(g, mf_sum(g, mask, 2u, false), 1, 1e30); /* [B,1] */
    return mf_div(g, mf_sum(g, mf_mul(g, rows, mask), 2u, false), count);
}

static mf_tensor *head_weight(const mf_model *m, mf_graph *g)
{
    const mf_model_config *c = &m->config->model;
    const bool tied = c->tie_embeddings && c->task != MF_TASK_CLASSIFY;
    return use(m, g, tied ? "embed.weight" : "head.weight");
}

mf_tensor *mf_block_head(const mf_model *m, mf_graph *g, mf_tensor *x)
{
    return mf_linear(g, x, head_weight(m, g), use(m, g, "head.bias"));
}

mf_tensor *mf_block_head_loss(const mf_model *m, mf_model_graph *mg, mf_tensor *x)
{
    return mf_linear_cross_entropy(mg->g, x, head_weight(m, mg->g), use(m, mg->g, "head.bias"),
                                   mg->targets, mg->mask, NULL);
}

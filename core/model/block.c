/* model/block.c: declares the parameters of embedding, positions, attention, norms, dense
 * feed-forward layers and heads, and adds their nodes except those of attention (attention.c).
 * The order of declaration fixes the layout of checkpoints. */
#include "model/block.h"
#include <math.h>
#include <stdio.h>
#include "base/error.h"
#include "base/mem.h"
#include "model/delta/delta.h"
#include "model/latent.h"
#include "model/rope.h"
#include "ops/layers/linear_cross_entropy.h"
#include "ops/ops.h"
#include "ops/gemm.h"

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

int32_t mf_block_attention_source(const mf_model *m, int32_t layer)
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
    int rc; /* result of the first declaration that failed */
} declarer;

static void declare(declarer *d, const char *name, mf_shape shape, mf_init init)
{
    mf_param *p;
    if (d->rc == MF_OK) d->rc = mf_store_declare(d->m->store, name, shape, init, false, &p);
}

/* Declares up to three matrices as one parameter, one above the other. `rows` is the number of
 * rows of each matrix; 0: no further matrix. */
static void declare_stacked(declarer *d, const char *name, const int64_t rows[3],
                            int64_t columns, mf_init init)
{
    mf_param *p = NULL;
    declare(d, name, mf_shape2(rows[0] + rows[1] + rows[2], columns), init);
    if (d->rc == MF_OK) p = mf_store_find(d->m->store, name);
    for (int i = 0; p && i < 3; i++)
        p->stacked[i] = rows[i];
}

static void declare_norm(declarer *d, const char *name, int64_t dim)
{
    char full[NAME_MAX_LEN];
    snprintf(full, sizeof full, "%s.weight", name);
    const mf_init one = {MF_INIT_CONST, MF_PARAM_NO_DECAY, !d->m->config->model.norm_shift};
    declare(d, full, mf_shape1(dim), one);
    if (d->m->config->model.norm != MF_NORM_LAYER || !d->m->config->model.norm_bias) return;
    snprintf(full, sizeof full, "%s.bias", name);
    declare(d, full, mf_shape1(dim), (mf_init){MF_INIT_ZERO, MF_PARAM_NO_DECAY, 0});
}

/* Initial values of a linear layer's weights, and of its biases. */
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
    const int64_t hd = mf_model_head_dim(c), qkv = (c->heads + 2 * c->kv_heads) * hd;
    /* With Xavier initialisation the biases of attention begin at 0, as is usual. */
    const bool xavier = c->init == MF_START_XAVIER;
    const mf_init zero = {MF_INIT_ZERO, MF_PARAM_NO_DECAY, 0};
    if (mf_block_attention_source(d->m, layer) != layer) return;
    const mf_init inner = xavier ? (mf_init){MF_INIT_XAVIER, 0, 1} : weight_init(c, std);
    if (c->latent == 0)
        declare_stacked(d, layer_name(layer, "attention.qkv.weight").text,
                        (const int64_t[3]){c->heads * hd, c->kv_heads * hd, c->kv_heads * hd},
                        c->dim, inner);
    else if (d->rc == MF_OK)
        d->rc = mf_latent_declare(d->m, layer, inner);
    if (c->attention_bias && c->latent == 0)
        declare(d, layer_name(layer, "attention.qkv.bias").text, mf_shape1(qkv),
                xavier ? zero : bias_init(c, c->dim));
    if (c->attention_gate)
        declare(d, layer_name(layer, "attention.out_gate.weight").text,
                mf_shape2(c->heads * hd, c->dim), weight_init(c, std));
    if (mf_model_has_qk_norm(c, layer) && c->qk_norm_weights) {
        const bool all = c->qk_norm == MF_QK_ALL;
        declare_norm(d, layer_name(layer, "attention.q_norm").text, all ? c->heads * hd : hd);
        declare_norm(d, layer_name(layer, "attention.k_norm").text,
                     all ? c->kv_heads * hd : hd);
    }
    if (c->sinks)
        declare(d, layer_name(layer, "attention.sinks").text, mf_shape1(c->heads),
                (mf_init){MF_INIT_ZERO, MF_PARAM_NO_DECAY | MF_PARAM_BY_HEAD, 0});
    declare(d, layer_name(layer, "attention.out.weight").text,
            mf_shape2(c->dim, c->heads * mf_model_value_dim(c)), weight_init(c, out_std));
    if (c->attention_out_bias)
        declare(d, layer_name(layer, "attention.out.bias").text, mf_shape1(c->dim),
                xavier ? zero : bias_init(c, c->heads * hd));
}

static void declare_dense(declarer *d, int32_t layer, double std, double out_std)
{
    const mf_model_config *c = &d->m->config->model;
    const int64_t h = c->ffn_hidden ? c->ffn_hidden : 4 * c->dim;
    const int64_t gate = c->ffn_activation == MF_FFN_SWIGLU ? h : 0;
    if (mf_block_source(d->m, layer) != layer) return;
    declare_stacked(d, layer_name(layer, "ffn.w1").text, (const int64_t[3]){h, gate, 0}, c->dim,
                    weight_init(c, std));
    declare(d, layer_name(layer, "ffn.w2").text, mf_shape2(c->dim, h), weight_init(c, out_std));
    if (c->ffn_bias == MF_BIAS_NO || (c->ffn_bias == MF_BIAS_AUTO && gate > 0)) return;
    declare(d, layer_name(layer, "ffn.b1").text, mf_shape1(h + gate), bias_init(c, c->dim));
    declare(d, layer_name(layer, "ffn.b2").text, mf_shape1(c->dim), bias_init(c, h));
}

static void declare_layer(declarer *d, int32_t layer, double std, double out_std)
{
    const mf_model_config *c = &d->m->config->model;
    const bool both = c->norm_place == MF_NORM_BOTH;
    if (c->attention) {
        declare_norm(d, layer_name(layer, "norm1").text, c->dim);
        if (both) declare_norm(d, layer_name(layer, "norm1_out").text, c->dim);
        if (!mf_delta_has(c, layer))
            declare_attention(d, layer, std, out_std);
        else if (d->rc == MF_OK && mf_block_attention_source(d->m, layer) == layer)
            d->rc = mf_delta_declare(d->m, layer, weight_init(c, std), weight_init(c, out_std));
        if (d->rc == MF_OK) d->rc = mf_adapters_make(d->m, layer, MF_ADAPT_ATTENTION);
    }
    declare_norm(d, layer_name(layer, "norm2").text, c->dim);
    if (both) declare_norm(d, layer_name(layer, "norm2_out").text, c->dim);
    if (d->rc == MF_OK) d->rc = mf_adapters_make(d->m, layer, MF_ADAPT_BLOCK);
    if (d->m->moe_of_layer[layer] < 0) declare_dense(d, layer, std, out_std);
}

/* Returns the name head.NAME.part; for task 0 head.part. */
static name_buf head_name(const mf_model *m, int task, const char *part)
{
    name_buf n;
    if (task == 0)
        snprintf(n.text, sizeof n.text, "head.%s", part);
    else
        snprintf(n.text, sizeof n.text, "head.%.64s.%s", mf_model_task_name(m, task), part);
    return n;
}

/* Declares the head of task i. The head has one output per class, or one output for a number.
 * In the latter case the initial bias is the mean of the training data. */
static void declare_task_head(declarer *d, int i, double std)
{
    const mf_model *m = d->m;
    const mf_model_config *c = &m->config->model;
    const mf_model_dims *f = &m->dims;
    const bool number = mf_model_task_kind(m, i) == MF_TASK_REGRESS;
    const int64_t out = number ? 1 : i == 0 ? f->classes : f->more_classes[i - 1];
    if (out == 0 && d->rc == MF_OK)
        d->rc = i == 0
                    ? mf_fail(MF_ECONFIG, "model.classes = auto needs data to count classes")
                    : mf_fail(MF_ECONFIG, "task.%s.classes = auto needs data to count classes",
                              mf_model_task_name(m, i));
    const double mean = i == 0 ? f->mean : f->more_mean[i - 1];
    const mf_init at_mean = {MF_INIT_CONST, MF_PARAM_NO_DECAY, mean};
    declare(d, head_name(m, i, "weight").text, mf_shape2(out, c->dim), weight_init(c, std));
    declare(d, head_name(m, i, "bias").text, mf_shape1(out),
            number ? at_mean : bias_init(c, c->dim));
}

int mf_blocks_declare(mf_model *m)
{
    const mf_model_config *c = &m->config->model;
    declarer d = {m, MF_OK};
    const double std = c->init_std, out_std = std / sqrt(2.0 * (double)c->layers);
    const mf_init row = {MF_INIT_NORMAL, MF_PARAM_NO_DECAY,
                         c->init == MF_START_NORMAL ? std : 1};
    declare(&d, "embed.weight", mf_shape2(m->dims.vocab, c->dim), row);
    if (c->position == MF_POS_LEARNED)
        declare(&d, "position.weight",
                mf_shape2(c->positions > 0 ? c->positions : c->seq, c->dim), row);
    if (c->position == MF_POS_ROPE && c->rope_scaling == MF_ROPE_GIVEN && d.rc == MF_OK)
        d.rc = mf_store_declare(m->store, "rope.factor", mf_shape1(mf_rope_dims(c) / 2),
                                (mf_init){MF_INIT_CONST, 0, 1}, true, NULL);
    if (c->token_types > 0)
        declare(&d, "token_type.weight", mf_shape2(c->token_types, c->dim), row);
    if (c->embed_norm) declare_norm(&d, "embed_norm", c->dim);
    for (int32_t l = 0; l < c->layers; l++)
        declare_layer(&d, l, std, out_std);
    if (c->norm_place != MF_NORM_POST) declare_norm(&d, "norm", c->dim);
    if (c->pooler) {
        declare(&d, "pooler.weight", mf_shape2(c->dim, c->dim), weight_init(c, std));
        declare(&d, "pooler.bias", mf_shape1(c->dim), bias_init(c, c->dim));
    }
    for (int i = 0; i < mf_model_tasks(m); i++)
        declare_task_head(&d, i, std);
    if (mf_task_by_row(c->task)) return d.rc;
    const int64_t out = m->dims.vocab;
    if (!c->tie_embeddings)
        declare(&d, "head.weight", mf_shape2(out, c->dim), weight_init(c, std));
    if (c->head_bias) declare(&d, "head.bias", mf_shape1(out), bias_init(c, c->dim));
    return d.rc;
}

/* ---- building ----
 * In bf16 the residual stream, attention, logits and all losses stay f32, so gemms whose result
 * goes there write f32. Only values that gemms read are bf16. */

/* Adds the parameter as a value. Returns NULL if the model has no such parameter. */
static mf_tensor *use(const mf_model *m, mf_graph *g, const char *name)
{
    mf_param *p = mf_store_find(m->store, name);
    return p ? mf_graph_param(g, p) : NULL;
}

static mf_tensor *use_in(const mf_model *m, mf_graph *g, int32_t layer, const char *what)
{
    return use(m, g, layer_name(layer, what).text);
}

mf_tensor *mf_block_norm(const mf_model *m, mf_graph *g, const char *name, mf_tensor *x,
                         bool for_gemms)
{
    const mf_model_config *c = &m->config->model;
    char full[NAME_MAX_LEN];
    snprintf(full, sizeof full, "%s.weight", name);
    mf_tensor *w = use(m, g, full);
    if (w && c->norm_shift) w = mf_affine(g, w, 1, 1);
    const bool rms = c->norm == MF_NORM_RMS;
    const mf_attr attr = {.i = {rms && c->norm_eps_outside,
                                MF_AS(for_gemms && mf_graph_is_bf16(g) ? MF_BF16 : MF_F32)},
                          .f = {c->norm_eps}};
    if (rms) return mf_op2(g, "rmsnorm", x, w, &attr);
    snprintf(full, sizeof full, "%s.bias", name);
    return mf_op3(g, "layernorm", x, w, use(m, g, full), &attr);
}

/* Returns y = x W^T + b of a block's feed-forward layer, after its adapters. */
static mf_tensor *ffn_linear(const mf_model *m, mf_graph *g, int32_t layer, const char *weight,
                             const char *bias, mf_tensor *x, bool to_f32)
{
    mf_tensor *w = use_in(m, g, layer, weight), *b = use_in(m, g, layer, bias);
    mf_tensor *y = to_f32 ? mf_linear_as(g, x, w, b, MF_F32) : mf_linear(g, x, w, b);
    return mf_adapt_linear(m->env, weight, x, y);
}

mf_tensor *mf_block_dense(const mf_model *m, mf_graph *g, int32_t layer, mf_tensor *x)
{
    const int64_t activation = m->config->model.ffn_activation;
    layer = mf_block_source(m, layer);
    mf_tensor *h = ffn_linear(m, g, layer, "ffn.w1", "ffn.b1", x, false);
    if (activation == MF_FFN_SWIGLU)
        h = mf_swiglu(g, h, NULL);
    else
        h = activation == MF_FFN_RELU   ? mf_relu(g, h)
            : activation == MF_FFN_GELU ? mf_gelu(g, h)
                                        : mf_gelu_tanh(g, h);
    if (m->config->model.ffn_dropout > 0) h = mf_dropout(g, h, m->config->model.ffn_dropout);
    return ffn_linear(m, g, layer, "ffn.w2", "ffn.b2", h, true);
}

/* Returns fixed sines (Vaswani et al. 2017, section 3.5), one row for each position p: column
 * 2i is sin(p / 10000^(2i/d)), column 2i+1 is the cosine of the same angle. */
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

/* Returns the segment of each token, [T] i32. A segment after the last one with an embedding
 * gets the number of that last segment. */
static mf_tensor *segments(const mf_model *m, mf_model_graph *mg)
{
    const int32_t last = (int32_t)m->config->model.token_types - 1;
    return mf_minimum(mg->g, mg->segments, mf_graph_const(mg->g, MF_I32, mf_shape1(1), &last));
}

mf_tensor *mf_block_embed(const mf_model *m, mf_model_graph *mg)
{
    const mf_model_config *c = &m->config->model;
    mf_graph *g = mg->g;
    mf_tensor *x = mf_embedding(g, use(m, g, "embed.weight"), mg->tokens);
    if (c->embed_scale != 1) x = mf_scale(g, x, c->embed_scale);
    mf_tensor *table = NULL;
    if (c->position == MF_POS_LEARNED) table = use(m, g, "position.weight");
    if (c->position == MF_POS_SINUSOIDAL) table = sinusoidal_table(g, c->seq, c->dim);
    if (table) x = mf_add(g, x, mf_embedding(g, table, mg->positions));
    if (c->token_types > 0)
        x = mf_add(g, x, mf_embedding(g, use(m, g, "token_type.weight"), segments(m, mg)));
    return c->embed_norm ? mf_block_norm(m, g, "embed_norm", x, false) : x;
}

static mf_tensor *pooled(const mf_model *m, mf_model_graph *mg, mf_tensor *x)
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

mf_tensor *mf_block_pool(const mf_model *m, mf_model_graph *mg, mf_tensor *x)
{
    mf_graph *g = mg->g;
    x = pooled(m, mg, x);
    if (!m->config->model.pooler) return x;
    return mf_tanh(
        g, mf_linear_as(g, x, use(m, g, "pooler.weight"), use(m, g, "pooler.bias"), MF_F32));
}

static mf_tensor *head_weight(const mf_model *m, mf_graph *g)
{
    return use(m, g, m->config->model.tie_embeddings ? "embed.weight" : "head.weight");
}

/* Scales the input or the bias of a head. So scaling the logits needs no separate pass
 * over them. */
static mf_tensor *for_logits(const mf_model *m, mf_graph *g, mf_tensor *x)
{
    const double s = m->config->model.logit_scale;
    return x && s != 1 ? mf_scale(g, x, s) : x;
}

mf_tensor *mf_block_head(const mf_model *m, mf_graph *g, mf_tensor *x)
{
    mf_tensor *in = for_logits(m, g, x);
    mf_tensor *y = mf_linear_as(g, in, head_weight(m, g),
                                for_logits(m, g, use(m, g, "head.bias")), MF_F32);
    return mf_adapt_linear(m->env, "head.weight", in, y);
}

mf_tensor *mf_block_task_head(const mf_model *m, mf_graph *g, int i, mf_tensor *x)
{
    mf_tensor *weight = use(m, g, head_name(m, i, "weight").text),
              *bias = use(m, g, head_name(m, i, "bias").text);
    const bool number = mf_model_task_kind(m, i) == MF_TASK_REGRESS;
    mf_tensor *in = number ? x : for_logits(m, g, x);
    mf_tensor *y = mf_linear_as(g, in, weight, number ? bias : for_logits(m, g, bias), MF_F32);
    return mf_adapt_linear(m->env, head_name(m, i, "weight").text, in, y);
}

mf_tensor *mf_block_head_loss(const mf_model *m, mf_model_graph *mg, mf_tensor *x)
{
    return mf_linear_cross_entropy(mg->g, for_logits(m, mg->g, x), head_weight(m, mg->g),
                                   for_logits(m, mg->g, use(m, mg->g, "head.bias")),
                                   mg->targets, mg->mask,
                                   mg->wants_rows ? &mg->row_loss : NULL);
}

/* options: models with the options of pretrained families. For each entry of the table,
 * decoding with a cache must result in the logits of the whole text, and the gradients of its
 * parameters must agree with differences of the loss. */
#include "check_main.h"

#include "base/error.h"
#include "base/mem.h"
#include "generate/generator.h"
#include "model/rope.h"
#include "tests/lib/program.h"
#include "tests/lib/scratch.h"
#include "run/session.h"

#include <math.h>
#include <string.h>

enum { SEQ = 24, SETTINGS = 40 };

typedef struct options_case {
    const char *set[16];
    const char *params[8]; /* names of parameters whose gradients are checked */
    int pruned;            /* number of heads of block 0 that are pruned before the test */
    bool no_decode;        /* the task is classification, which has no decoding */
} options_case;

static const options_case cases[] = {
    {.set = {"model.head_dim=12", "model.kv_heads=2"},
     .params = {"layers.0.attention.qkv.weight", "layers.1.attention.out.weight"}},
    {.set = {"model.head_dim=12", "model.kv_heads=2", "model.qk_norm=head"},
     .params = {"layers.0.attention.q_norm.weight", "layers.1.attention.k_norm.weight"}},
    {.set = {"model.qk_norm=all", "model.kv_heads=2", "model.clip_qkv=0.9"},
     .params = {"layers.0.attention.q_norm.weight", "layers.1.attention.k_norm.weight",
                "layers.0.attention.qkv.weight"}},
    {.set = {"model.qk_norm=head", "model.norm=layernorm", "model.attention_bias=yes"},
     .params = {"layers.0.attention.q_norm.bias", "layers.0.attention.qkv.bias"}},
    {.set = {"model.moe_every=0", "model.ffn_activation=gelu_tanh", "model.norm=layernorm",
             "model.position=learned", "model.tie_embeddings=yes"},
     .params = {"layers.0.ffn.w1", "layers.1.ffn.b1", "layers.1.ffn.b2"}},
    {.set = {"model.dense_layers=1", "model.layers=3"},
     .params = {"layers.1.ffn.w1", "layers.2.expert.w13"}},
    {.set = {"moe.shared_experts=1", "moe.shared_hidden=20", "moe.shared_gate=yes"},
     .params = {"layers.0.shared_gate.weight", "layers.1.shared.w13"}},
    {.set = {"block.1.experts=2", "block.1.top_k=2", "block.1.shared_experts=1",
             "expert.own.layers=0", "expert.own.plugin=mlp"},
     .params = {"layers.0.expert.w1", "layers.1.expert.w13", "layers.1.shared.w13",
                "layers.1.router.weight"}},
    {.set = {"moe.latent=6", "moe.latent_norm=rmsnorm", "moe.shared_experts=1",
             "block.1.latent=10"},
     .params = {"layers.0.moe.down.weight", "layers.0.moe.up.weight",
                "layers.0.moe.latent_norm", "layers.1.moe.down.weight", "layers.1.expert.w13",
                "layers.0.shared.w13", "layers.0.router.weight"}},
    {.set = {"moe.shared_experts=2", "moe.shared_gate=yes", "model.share_layers=yes"},
     .params = {"layers.0.shared_gate.weight"}},
    {.set = {"model.window=5", "model.window_layers=1", "model.sinks=yes", "model.kv_heads=2"},
     .params = {"layers.0.attention.sinks", "layers.1.attention.sinks",
                "layers.1.attention.qkv.weight"}},
    {.set = {"model.window=3", "model.attention_bias=yes",
             "model.attention_scale_by_layer=yes"},
     .params = {"layers.0.attention.qkv.bias", "layers.1.attention.out.weight"}},
    {.set = {"model.rope_scaling=yarn", "model.rope_factor=8", "model.rope_original=12",
             "model.rope_half=yes", "model.rope_truncate=no", "model.head_dim=16"},
     .params = {"layers.0.attention.qkv.weight"}},
    {.set = {"model.rope_scaling=yarn", "model.rope_factor=8", "model.rope_original=12",
             "model.rope_plain_layers=1", "model.rope_plain_theta=50"},
     .params = {"layers.0.attention.qkv.weight", "layers.1.attention.qkv.weight"}},
    {.set = {"model.rope_dims=4", "model.rope_scaling=given", "model.rope_magnitude=1.2",
             "model.rope_plain_layers=1", "model.head_dim=8"},
     .params = {"layers.0.attention.qkv.weight", "layers.1.attention.qkv.weight"}},
    {.set = {"model.rope_dims=4", "model.rope_last=yes", "model.rope_scaling=llama3",
             "model.rope_factor=4", "model.rope_original=64", "model.head_dim=8"},
     .params = {"layers.0.attention.qkv.weight"}},
    {.set = {"expert.bias=yes", "expert.limit=0.7", "expert.alpha=1.7", "expert.shift=1",
             "router.bias=yes"},
     .params = {"layers.0.expert.b13", "layers.1.expert.b2", "layers.0.router.bias",
                "layers.0.expert.w13"}},
    {.set = {"model.latent=10", "model.head_dim=12", "model.rope_dims=4", "model.value_dim=6"},
     .params = {"layers.0.attention.q.weight", "layers.1.attention.kv_down.weight",
                "layers.1.attention.kv_latent_norm.weight", "layers.0.attention.k_up.weight",
                "layers.0.attention.v_up.weight", "layers.0.attention.out.weight"}},
    {.set = {"model.latent=10", "model.latent_q=7", "model.head_dim=12", "model.rope_dims=4",
             "model.share_layers=yes", "model.window=7"},
     .params = {"layers.0.attention.q_down.weight", "layers.0.attention.q_latent_norm.weight",
                "layers.0.attention.q_up.weight"}},
    {.set = {"model.latent=10", "model.latent_q=7", "model.head_dim=12", "model.rope_dims=4",
             "model.attention_bias=yes", "model.value_dim=14"},
     .params = {"layers.0.attention.q_down.bias", "layers.1.attention.kv_down.bias",
                "layers.0.attention.v_up.weight"}},
    {.set = {"model.norm_place=output", "model.embed_scale=3", "model.residual_scale=0.4",
             "model.rope_layers=1", "model.qk_norm=head", "model.qk_norm_late=yes"},
     .params = {"layers.0.norm1.weight", "layers.1.norm2.weight", "norm.weight"}},
    {.set = {"model.norm_place=both", "model.attention_gate=yes", "model.kv_heads=2",
             "model.embed_scale=4"},
     .params = {"layers.0.norm1_out.weight", "layers.1.norm2_out.weight",
                "layers.0.attention.out_gate.weight", "layers.1.norm1.weight"}},
    {.set = {"model.window=5", "model.window_chunks=yes", "model.window_layers=0",
             "model.rope_layers=0", "model.query_growth=0.6", "model.query_growth_step=3",
             "model.kv_heads=2"},
     .params = {"layers.0.attention.qkv.weight", "layers.1.attention.qkv.weight"}},
    {.set = {"model.qk_norm=head", "model.qk_norm_weights=no", "model.qk_norm_layers=1",
             "model.qk_norm_late=yes", "moe.gate_inputs=yes", "moe.top_k=2",
             "moe.shared_experts=1"},
     .params = {"layers.1.attention.qkv.weight", "layers.0.router.weight",
                "layers.1.expert.w13"}},
    {.set = {"model.delta_layers=0", "model.delta_heads=4", "model.delta_key_heads=2",
             "model.delta_key_dim=6", "model.delta_value_dim=5", "model.norm_shift=yes"},
     .params = {"layers.0.delta.qkv.weight", "layers.0.delta.conv.weight",
                "layers.0.delta.a_log", "layers.0.delta.dt_bias", "layers.0.delta.norm.weight",
                "layers.0.delta.b.weight", "layers.0.norm1.weight"}},
    {.set = {"model.delta_layers=1", "model.delta_heads=2", "model.delta_key_heads=1",
             "model.delta_key_dim=4", "model.delta_value_dim=7", "model.delta_grouped=yes",
             "model.delta_taps=3"},
     .params = {"layers.1.delta.qkvz.weight", "layers.1.delta.ba.weight",
                "layers.1.delta.out.weight", "layers.0.attention.qkv.weight"}},
    {.set = {"model.conv_layers=0", "model.conv_bias=yes", "model.qk_norm=head"},
     .params = {"layers.0.conv.in.weight", "layers.0.conv.in.bias", "layers.0.conv.conv.weight",
                "layers.0.conv.conv.bias", "layers.0.conv.out.weight", "layers.0.conv.out.bias",
                "layers.1.attention.q_norm.weight"}},
    {.set = {"model.conv_layers=0-1", "model.conv_taps=7", "model.share_layers=yes",
             "model.norm_place=both"},
     .params = {"layers.0.conv.in.weight", "layers.0.conv.conv.weight",
                "layers.0.conv.out.weight", "layers.1.norm1_out.weight"}},
    {.set = {"model.norm=layernorm", "model.norm_bias=no", "model.clip_qkv=0.7",
             "model.kv_heads=2"},
     .params = {"layers.0.norm1.weight", "layers.1.norm2.weight", "norm.weight",
                "layers.1.attention.qkv.weight"}},
    {.set = {"model.dense_layers=1", "model.ffn_bias=yes"},
     .params = {"layers.1.ffn.b1", "layers.1.ffn.b2", "layers.1.ffn.w1"}},
    {.set = {"model.sinks=yes", "model.kv_heads=2", "model.qk_norm=head", "model.window=6",
             "model.attention_bias=yes", "model.attention_gate=yes",
             "adapter.gates.plugin=head_gates"},
     .params = {"layers.0.attention.sinks", "layers.0.attention.q_norm.weight",
                "layers.0.attention.out_gate.weight"},
     .pruned = 1},
    /* the choice of groups is a step function, so only the last experts have slopes */
    {.set = {"moe.experts=6", "moe.top_k=2", "router.groups=3", "router.topk_groups=1",
             "moe.renormalize=no", "moe.gate_scale=4"},
     .params = {"layers.1.expert.w13"}},
    {.set = {"moe.top_k=3", "router.gate_norm=2"},
     .params = {"layers.0.router.weight", "layers.1.expert.w13"}},
    {.set = {"moe.experts=6", "moe.top_k=2", "router.plugin=sigmoid_bias", "router.groups=3",
             "router.topk_groups=1", "router.renormalize=no", "router.scale=2.5"},
     .params = {"layers.1.expert.w13"}},
    {.set = {"model.task=classify", "model.token_types=2", "model.embed_norm=yes",
             "model.pooler=yes", "model.norm=layernorm", "model.norm_place=post",
             "model.position=learned", "model.moe_every=0", "model.ffn_activation=gelu",
             "model.vocab=auto"},
     .params = {"token_type.weight", "embed_norm.weight", "embed_norm.bias", "pooler.weight",
                "pooler.bias", "position.weight", "head.weight"},
     .no_decode = true},
};

/* A file of sentences with classes. */
static const char *rows(void)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/rows.tsv", scratch_dir());
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs("sentence\tlabel\n", f);
    for (int i = 0; i < 40; i++)
        fprintf(f, "the film is %s\t%s\n", i % 2 ? "fine" : "long", i % 2 ? "good" : "bad");
    ck_assert_int_eq(fclose(f), 0);
    return path;
}

static void set_value(mf_param *p, int64_t at, float value)
{
    ck_assert_ptr_nonnull(p);
    mf_param_write(p, &value, (size_t)at * sizeof value, sizeof value);
}

/* Draws the sinks. They begin at 0, and with zeros the test would not detect a wrong order. */
static void draw_sinks(mf_model *m)
{
    for (int i = 0; i < mf_store_count(m->store); i++) {
        mf_param *p = mf_store_at(m->store, i);
        for (int64_t h = 0; strstr(p->name, ".sinks") && h < p->count; h++)
            set_value(p, h, 0.7f * (float)h - 1);
    }
}

static mf_session *opened(const options_case *c)
{
    static const char *const common[] = {"data.path=builtin:topics?bytes=4000",
                                         "model.layers=2",
                                         "model.dim=16",
                                         "model.heads=4",
                                         "model.seq=24",
                                         "model.init_std=0.3",
                                         "train.eval_context=0",
                                         "train.batch=2",
                                         "expert.hidden=8",
                                         "expert.init_std=0.3",
                                         "moe.experts=3",
                                         "moe.top_k=3",
                                         "router.init_std=1",
                                         "regularizer.balance.plugin=none",
                                         "regularizer.z.plugin=none"};
    const char *set[SETTINGS], *device = getenv("MOEFW_TEST_DEVICE");
    char data[300] = "";
    const mf_session_options options = {.training = true};
    mf_config *config = NULL;
    mf_session *s = NULL;
    char on[64];
    int n = 0;
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        set[n++] = common[i];
    for (int i = 0; c->set[i]; i++)
        set[n++] = c->set[i];
    if (c->no_decode) {
        snprintf(data, sizeof data, "data.path=%s", rows());
        set[n++] = data;
        set[n++] = "data.format=tsv";
    }
    snprintf(on, sizeof on, "train.device=%s", device ? device : "cpu");
    set[n++] = on;
    int rc = mf_config_load("default", n, set, &config);
    if (rc == MF_OK) rc = mf_session_open(config, &options, &s);
    ck_assert_msg(rc == MF_OK, "%s: %s", c->set[0], mf_error_message());
    draw_sinks(s->model);
    for (int i = 0; i < c->pruned; i++)
        set_value(mf_store_find(s->model->store, "layers.0.attention.active"), 1 + 2 * i, 0);
    return s;
}

static mf_model_graph *built(mf_session *s, mf_mode mode, int batch)
{
    const mf_model_shape shape = {
        .mode = mode, .batch = batch, .seq = SEQ, .want_logits = mode == MF_MODE_EVAL};
    mf_model_graph *mg = NULL;
    mf_batch *b = NULL;
    ck_assert_msg(mf_model_graph_new(s->model, &shape, &mg) == MF_OK, "%s", mf_error_message());
    ck_assert_int_eq(mf_batch_new(batch, SEQ, &b), MF_OK);
    for (int t = 0; t < batch * SEQ; t++) {
        b->tokens[t] = (7 * t + t * t / 3) % s->model->dims.vocab;
        b->targets[t] = (5 * t + 1) % s->model->dims.vocab;
        b->positions[t] = t % SEQ;
        b->sequence[t] = t / SEQ;
        b->mask[t] = 1;
    }
    for (int i = 0; i < batch; i++)
        b->classes[i] = i % 2;
    mf_batch_segments(b, b->tokens[SEQ / 2]);
    mf_batch_feed(b, mg);
    mf_batch_free(b);
    return mg;
}

static double loss_of(mf_model_graph *mg, bool forward_only)
{
    const mf_run run = {.seed = 3, .step = 5, .forward_only = forward_only};
    ck_assert_msg(mf_graph_run(mg->g, &run) == MF_OK, "%s", mf_error_message());
    return (double)*(const float *)mf_tensor_host(mg->loss);
}

/* Decodes three tokens, then five, then one at a time. */
static void decodes(const options_case *c)
{
    mf_session *s = opened(c);
    mf_model_graph *mg = built(s, MF_MODE_EVAL, 1);
    loss_of(mg, true);
    const float *whole = mf_tensor_host(mg->logits), *logits = NULL;
    const int64_t V = s->model->dims.vocab;
    int32_t ids[SEQ];
    mf_generator *g = NULL;
    ck_assert_int_eq(mf_generator_new(s->model, true, &g), MF_OK);
    for (int t = 0; t < SEQ; t++)
        ids[t] = (7 * t + t * t / 3) % s->model->dims.vocab;
    for (int at = 0, n = 3; at + n <= SEQ; at += n, n = at == 3 ? 5 : 1) {
        const int rc = mf_generator_feed(g, ids + at, n, &logits);
        ck_assert_msg(rc == MF_OK, "%s: %s", c->set[0], mf_error_message());
        for (int64_t v = 0; v < V; v++) {
            const double want = (double)whole[(at + n - 1) * V + v];
            ck_assert_msg(fabs((double)logits[v] - want) < 2e-5 * (1 + fabs(want)),
                          "%s: token %d, logit %d: whole %.8g, with the cache %.8g", c->set[0],
                          at + n - 1, (int)v, want, (double)logits[v]);
        }
    }
    mf_generator_free(g);
    mf_model_graph_free(mg);
    mf_session_close(s);
}

/* A pruned head must have the same result as a head whose output weights are 0. */
START_TEST(a_pruned_head_adds_nothing)
{
    const options_case *c = cases, *end = cases + sizeof cases / sizeof *cases;
    while (c < end && c->pruned == 0)
        c++;
    ck_assert_ptr_ne(c, end);
    mf_session *s = opened(c);
    mf_store *store = s->model->store;
    mf_param *out = mf_store_find(store, "layers.0.attention.out.weight");
    const int64_t dim = s->config->model.dim, hd = dim / s->config->model.heads;
    double loss[2];
    for (int i = 0; i < 2; i++) {
        mf_model_graph *mg = built(s, MF_MODE_EVAL, 2);
        loss[i] = loss_of(mg, true);
        mf_model_graph_free(mg);
        set_value(mf_store_find(store, "layers.0.attention.active"), 1, 1);
        for (int64_t at = 0; at < dim * dim; at++)
            if (at % dim / hd == 1) set_value(out, at, 0);
    }
    ck_assert_double_eq_tol(loss[0], loss[1], 2e-6);
    mf_session_close(s);
}
END_TEST

/* The slope of the loss in the direction of a parameter's gradient must be the
 * gradient's length. */
static void slope(const options_case *c, mf_model_graph *mg, const mf_model *m,
                  const char *name)
{
    mf_param *p = mf_store_find(m->store, name);
    ck_assert_msg(p != NULL, "%s: no parameter %s", c->set[0], name);
    const size_t bytes = (size_t)p->count * sizeof(float);
    float *grad = mf_alloc((size_t)p->count, sizeof *grad),
          *value = mf_alloc((size_t)p->count, sizeof *value),
          *moved = mf_alloc((size_t)p->count, sizeof *moved);
    double square = 0, sides[2];
    loss_of(mg, false);
    memcpy(grad, (const float *)mf_store_host(m->store, MF_BLOCK_GRADS) + p->offset, bytes);
    memcpy(value, mf_param_host(p), bytes);
    for (int64_t i = 0; i < p->count; i++)
        square += (double)grad[i] * (double)grad[i];
    const double length = sqrt(square), step = 4e-3;
    ck_assert_msg(length > 1e-4, "%s: the gradient of %s is %g", c->set[0], name, length);
    for (int side = 0; side < 2; side++) {
        for (int64_t i = 0; i < p->count; i++)
            moved[i] = value[i] + (float)((side ? step : -step) * (double)grad[i] / length);
        mf_param_write(p, moved, 0, bytes);
        sides[side] = loss_of(mg, true);
    }
    mf_param_write(p, value, 0, bytes);
    const double found = (sides[1] - sides[0]) / (2 * step);
    ck_assert_msg(fabs(found - length) < 0.02 * length + 2e-4,
                  "%s: slope along the gradient of %s: %g, expected %g", c->set[0], name, found,
                  length);
    mf_free(grad);
    mf_free(value);
    mf_free(moved);
}

START_TEST(decoding_equals_the_whole)
{
    if (!cases[_i].no_decode) decodes(&cases[_i]);
}
END_TEST

START_TEST(gradients_are_slopes)
{
    const options_case *c = &cases[_i];
    mf_session *s = opened(c);
    mf_model_graph *mg = built(s, MF_MODE_TRAIN, 2);
    for (int i = 0; c->params[i]; i++)
        slope(c, mg, s->model, c->params[i]);
    mf_model_graph_free(mg);
    mf_session_close(s);
}
END_TEST

/* The squared norm of the gradient of a row of token_type.weight; 0 if that segment has
 * no token. */
static double of_segment(mf_session *s, int separator_at, int segment)
{
    mf_model_graph *mg = built(s, MF_MODE_TRAIN, 2);
    const mf_param *p = mf_store_find(s->model->store, "token_type.weight");
    const int64_t dim = s->config->model.dim;
    mf_batch *b = NULL;
    double square = 0;
    ck_assert_int_eq(mf_batch_new(2, SEQ, &b), MF_OK);
    for (int t = 0; t < 2 * SEQ; t++) {
        b->tokens[t] = t % SEQ == separator_at ? 32 : 97 + t % 7;
        b->positions[t] = t % SEQ;
        b->sequence[t] = t / SEQ;
        b->mask[t] = 1;
    }
    mf_batch_segments(b, 32);
    mf_batch_feed(b, mg);
    mf_batch_free(b);
    loss_of(mg, false);
    const float *grad = (const float *)mf_store_host(s->model->store, MF_BLOCK_GRADS);
    for (int64_t i = 0; i < dim; i++)
        square += pow((double)grad[p->offset + segment * dim + i], 2);
    mf_model_graph_free(mg);
    return square;
}

START_TEST(segments_end_with_their_separator)
{
    const options_case *c = &cases[sizeof cases / sizeof *cases - 1];
    mf_session *s = opened(c);
    ck_assert_double_gt(of_segment(s, SEQ - 2, 1), 1e-8);
    ck_assert_double_eq(of_segment(s, SEQ - 1, 1), 0);
    ck_assert_double_gt(of_segment(s, SEQ - 1, 0), 1e-8);
    ck_assert_double_gt(of_segment(s, 0, 0), 1e-8);
    mf_session_close(s);
}
END_TEST

/* Refusals: a setting, and words of the message. */
static const struct {
    const char *set[4], *words;
} refusals[] = {
    {{"moe.shared_hidden=20"}, "moe.shared_experts is 0"},
    {{"model.dense_layers=0-"}, "expected numbers of blocks"},
    {{"model.rope_layers=0-"}, "expected all, or numbers of blocks"},
    {{"model.qk_norm_layers=1-"}, "expected all, or numbers of blocks"},
    {{"model.head_dim=13"}, "rope wants an even width"},
    {{"model.window=4", "model.causal=no"}, "expected 0 without model.causal"},
    {{"model.rope_scaling=yarn"}, "wants the length before scaling"},
    {{"model.rope_dims=5"}, "expected an even number"},
    {{"model.latent_q=5"}, "it wants model.latent > 0"},
    {{"model.latent=16", "model.rope_dims=4", "model.sinks=yes"}, "expected its default"},
    {{"model.token_types=2"}, "expected 0 with task = lm"},
    {{"model.pooler=yes"}, "unless task is classify or regress"},
    {{"model.latent=16"}, "model.latent wants 2 .. head_dim - 1"},
    {{"model.latent=573", "model.rope_dims=4", "model.head_dim=12"},
     "expected latent + rope_dims <= 576, found 577"},
    {{"model.rope_scaling=yarn", "model.rope_original=64", "model.rope_theta=1"},
     "rope_scaling = yarn wants more than 1, found 1"},
    {{"model.rope_scaling=given", "model.rope_original=64", "model.seq=65"},
     "expected at most 64: longer sequences have other factors of rope, found 65"},
    {{"model.rope_scaling=llama3", "model.rope_original=64", "model.rope_high=0.5"},
     "expected at least rope_low (1), found 0.5"},
    {{"model.dim=640", "model.heads=1"}, "expected heads of width 576 at most"},
    {{"model.window_layers=0,"}, "as 2-5 or 0,3, found '0,'"},
    {{"model.conv_layers=0-"}, "expected all, or numbers of blocks"},
    {{"model.conv_layers=1", "model.delta_layers=0-1"},
     "expected no block that is in delta_layers and in conv_layers"},
    {{"model.conv_layers=1", "model.share_layers=yes"},
     "expected all blocks or none, because blocks share weights"},
    {{"model.delta_layers=1", "model.share_layers=yes"},
     "expected all blocks or none, because blocks share weights"},
    {{"model.conv_layers=1", "model.causal=no", "model.task=mlm"},
     "expected no blocks, unless task is lm, with causal and attention"},
    {{"model.cache_start=1", "model.position=learned"},
     "expected 0 with positions that end with model.seq, found 1"},
};

START_TEST(what_cannot_be_is_refused)
{
    mf_config *config = NULL;
    int n = 0;
    while (n < 4 && refusals[_i].set[n])
        n++;
    ck_assert_int_eq(mf_config_load("default", n, refusals[_i].set, &config), MF_ECONFIG);
    ck_assert_msg(strstr(mf_error_message(), refusals[_i].words) != NULL, "%s",
                  mf_error_message());
}
END_TEST

/* Angles of YaRN and of Llama 3. transformers 5.23 computes these values for these settings. */
START_TEST(angles_are_scaled)
{
    const mf_model_config yarn = {.rope_theta = 150000,
                                  .rope_scaling = MF_ROPE_YARN,
                                  .rope_factor = 32,
                                  .rope_original = 4096,
                                  .rope_beta_fast = 32,
                                  .rope_beta_slow = 1},
                          linear = {.rope_theta = 1e4,
                                    .rope_scaling = MF_ROPE_LINEAR,
                                    .rope_factor = 4};
    float f[32];
    mf_rope_factors(&yarn, 64, f);
    /* the ramp is from pair 8.0928 to pair 17.3980 */
    for (int i = 0; i < 32; i++) {
        const double ramp = fmin(fmax((i - 8.0928) / (17.3980 - 8.0928), 0), 1),
                     want = 1 - ramp + ramp / 32;
        ck_assert_double_eq_tol((double)f[i], want, 1e-4);
    }
    ck_assert_double_eq_tol(mf_rope_magnitude(&yarn), 1.3465736, 1e-6);
    /* of a short text no pair makes 32 turns, so the ramp is from pair 0 to pair 7.4299 */
    mf_model_config shorter = yarn;
    shorter.rope_original = 100;
    mf_rope_factors(&shorter, 64, f);
    for (int i = 0; i < 32; i++) {
        const double ramp = fmin(i / 7.4299, 1), want = 1 - ramp + ramp / 32;
        ck_assert_double_eq_tol((double)f[i], want, 1e-4);
    }
    mf_rope_factors(&linear, 64, f);
    for (int i = 0; i < 32; i++)
        ck_assert_float_eq(f[i], 0.25f);
    ck_assert_double_eq(mf_rope_magnitude(&linear), 1);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("options");
    TCase *t = tcase_create("options");
    const int n = (int)(sizeof cases / sizeof *cases),
              refused = (int)(sizeof refusals / sizeof *refusals);
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, decoding_equals_the_whole, 0, n);
    tcase_add_loop_test(t, gradients_are_slopes, 0, n);
    tcase_add_loop_test(t, what_cannot_be_is_refused, 0, refused);
    tcase_add_test(t, a_pruned_head_adds_nothing);
    tcase_add_test(t, angles_are_scaled);
    tcase_add_test(t, segments_end_with_their_separator);
    suite_add_tcase(s, t);
    return s;
}

MF_CHECK_MAIN_PROGRAM(suite)

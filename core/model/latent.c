/* model/latent.c: computes keys and values from a latent vector c = norm(W x). A head's key is
 * W_k c together with a rotated part that all heads share; its value is W_v c. The cache keeps
 * only c and the rotated part. A graph with a cache applies W_k to queries, since
 * q (W_k c) = (q W_k) c, and applies W_v to the sums over c. So it never recomputes keys and
 * values of past tokens. */
#include "model/latent.h"
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "model/adapters.h"
#include "model/rope.h"
#include "ops/gemm.h"
#include "ops/ops.h"
#include "ops/shape.h"
#include "ops/state.h"

/* The published epsilon of the norms of latent vectors. */
#define LATENT_EPS 1e-6

typedef struct {
    const mf_model *m;
    mf_model_graph *mg;
    mf_graph *g;
    const mf_model_config *c;
    mf_adapt_env *env;
    int32_t layer, from;
    int64_t tokens, heads, plain, rope, latent, value; /* plain: n; rope: r; value: v */
} latent;

int64_t mf_latent_width(const mf_model_config *c)
{
    return c->latent + c->rope_dims;
}

void mf_latent_sites(const mf_model_config *c, mf_linear_site ret[MF_LATENT_SITES])
{
    const int64_t H = c->heads, hd = mf_model_head_dim(c), q = c->latent_q,
                  up = hd - c->rope_dims + mf_model_value_dim(c);
    const mf_linear_site all[MF_LATENT_SITES] = {
        {q ? NULL : "attention.q", c->dim, H * hd, 0, 0},
        {q ? "attention.q_a" : NULL, c->dim, q, 0, 0},
        {q ? "attention.q_b" : NULL, q, H * hd, 0, 0},
        {"attention.kv_a", c->dim, mf_latent_width(c), 0, 0},
        {"attention.kv_b", c->latent, H * up, 0, 0}};
    memcpy(ret, all, sizeof all);
}

/* Writes the name of a parameter; part: "weight" or "bias". */
static const char *name_of(char out[96], int32_t layer, const char *what, const char *part)
{
    snprintf(out, 96, "layers.%d.attention.%s.%s", (int)layer, what, part);
    return out;
}

int mf_latent_declare(mf_model *m, int32_t layer, mf_init init)
{
    const mf_model_config *c = &m->config->model;
    const mf_init one = {MF_INIT_CONST, MF_PARAM_NO_DECAY, 1},
                  zero = {MF_INIT_ZERO, MF_PARAM_NO_DECAY, 0};
    const bool biases = c->attention_bias;
    const int64_t H = c->heads, hd = mf_model_head_dim(c), d = c->dim, p = c->latent_q;
    const struct {
        const char *name;
        int64_t rows, columns; /* columns 0: the parameter is a vector */
        bool bias;
    } all[] = {{p ? "q_down" : "q", p ? p : H * hd, d, false},
               {p && biases ? "q_down" : NULL, p, 0, true},
               {p ? "q_latent_norm" : NULL, p, 0, false},
               {p ? "q_up" : NULL, H * hd, p, false},
               {"kv_down", mf_latent_width(c), d, false},
               {biases ? "kv_down" : NULL, mf_latent_width(c), 0, true},
               {"kv_latent_norm", c->latent, 0, false},
               {"k_up", H * (hd - c->rope_dims), c->latent, false},
               {"v_up", H * mf_model_value_dim(c), c->latent, false}};
    int rc = MF_OK;
    for (size_t i = 0; rc == MF_OK && i < sizeof all / sizeof *all; i++) {
        char name[96];
        mf_param *p_;
        const bool vector = all[i].columns == 0;
        if (!all[i].name) continue;
        rc = mf_store_declare(
            m->store, name_of(name, layer, all[i].name, all[i].bias ? "bias" : "weight"),
            vector ? mf_shape1(all[i].rows) : mf_shape2(all[i].rows, all[i].columns),
            all[i].bias ? zero
            : vector    ? one
                        : init,
            false, &p_);
    }
    return rc;
}

static mf_tensor *use(const latent *x, const char *what)
{
    char name[96];
    return mf_graph_param(x->g,
                          mf_store_find(x->m->store, name_of(name, x->from, what, "weight")));
}

static mf_tensor *linear(const latent *x, const char *what, mf_tensor *in)
{
    char name[96];
    mf_param *p = mf_store_find(x->m->store, name_of(name, x->from, what, "bias"));
    return mf_linear_as(x->g, in, use(x, what), p ? mf_graph_param(x->g, p) : NULL, MF_F32);
}

/* Like the function above, followed by the adapters of a linear layer. */
static mf_tensor *adapted(const latent *x, const char *what, const char *site, mf_tensor *in)
{
    return mf_adapt_linear(x->env, site, in, linear(x, what, in));
}

/* Computes keys [R, H n] and values [R, H v] from R rows of latent vectors. Adapters treat both
 * as one linear layer, whose weight contains for each head first the rows of the keys and then
 * the rows of the values. */
static void expand(const latent *x, mf_tensor *c, int64_t rows, mf_tensor *ret[2])
{
    static const char site[] = "attention.kv_b";
    mf_graph *g = x->g;
    const int64_t H = x->heads;
    ret[0] = linear(x, "k_up", c);
    ret[1] = linear(x, "v_up", c);
    if (!mf_adapters_at_linear(x->env->adapters, site)) return;
    mf_tensor *part[2] = {mf_reshape(g, ret[0], mf_shape3(rows, H, x->plain)),
                          mf_reshape(g, ret[1], mf_shape3(rows, H, x->value))};
    mf_tensor *both =
        mf_reshape(g, mf_concat(g, 2, part, 2), mf_shape2(rows, H * (x->plain + x->value)));
    both = mf_reshape(g, mf_adapt_linear(x->env, site, c, both),
                      mf_shape3(rows, H, x->plain + x->value));
    ret[0] = mf_reshape(g, mf_slice(g, both, 2, 0, x->plain), mf_shape2(rows, H * x->plain));
    ret[1] =
        mf_reshape(g, mf_slice(g, both, 2, x->plain, x->value), mf_shape2(rows, H * x->value));
}

static mf_tensor *normed(const latent *x, const char *what, mf_tensor *in)
{
    const mf_attr attr = {.i = {0, MF_AS(MF_F32)}, .f = {LATENT_EPS}};
    return mf_op2(x->g, "rmsnorm", in, use(x, what), &attr);
}

static mf_tensor *turned(const latent *x, mf_tensor *t, int64_t head_dim, int64_t heads)
{
    if (!mf_model_has_rope(x->c, x->layer)) return t;
    return mf_model_rope_part(x->m, x->mg, x->layer, t, head_dim, heads, head_dim - x->rope,
                              x->rope);
}

/* returns the queries [T, H (n + r)] */
static mf_tensor *queries(const latent *x, mf_tensor *in)
{
    mf_tensor *q =
        x->c->latent_q
            ? adapted(x, "q_up", "attention.q_b",
                      normed(x, "q_latent_norm", adapted(x, "q_down", "attention.q_a", in)))
            : adapted(x, "q", "attention.q", in);
    return turned(x, q, x->plain + x->rope, x->heads);
}

/* Returns [T, latent + r], the part of each token that the cache keeps. */
static mf_tensor *compressed(const latent *x, mf_tensor *in)
{
    mf_tensor *both = adapted(x, "kv_down", "attention.kv_a", in), *part[2];
    part[0] = normed(x, "kv_latent_norm", mf_slice(x->g, both, 1, 0, x->latent));
    part[1] = turned(x, mf_slice(x->g, both, 1, x->latent, x->rope), x->rope, 1);
    return mf_concat(x->g, 2, part, 1);
}

/* Pads the n numbers of each of H heads with zeros to w numbers. */
static mf_tensor *padded(const latent *x, mf_tensor *t, int64_t n, int64_t w)
{
    if (n == w) return t;
    t = mf_pad(x->g, mf_reshape(x->g, t, mf_shape3(x->tokens, x->heads, n)), 2, 0, w);
    return mf_reshape(x->g, t, mf_shape2(x->tokens, x->heads * w));
}

/* Computes attention with the keys and values of every head. Keys and values are padded to the
 * larger of their two widths. */
static mf_tensor *expanded(const latent *x, mf_attend_args args, mf_tensor *kept)
{
    mf_graph *g = x->g;
    const int64_t T = x->tokens, H = x->heads, hd = x->plain + x->rope,
                  w = hd > x->value ? hd : x->value;
    mf_tensor *c = mf_slice(g, kept, 1, 0, x->latent), *part[2], *up[2];
    expand(x, c, T, up);
    part[0] = mf_reshape(g, up[0], mf_shape3(T, H, x->plain));
    part[1] = mf_reshape(g, mf_slice(g, kept, 1, x->latent, x->rope), mf_shape3(T, 1, x->rope));
    part[1] = mf_broadcast(g, part[1], mf_shape3(T, H, x->rope));
    args.q = padded(x, args.q, hd, w);
    args.k = padded(x, mf_reshape(g, mf_concat(g, 2, part, 2), mf_shape2(T, H * hd)), hd, w);
    args.v = padded(x, up[1], x->value, w);
    args.kv_heads = (int)H;
    if (x->value == w) return mf_attend(g, &args, NULL);
    mf_tensor *y = mf_reshape(g, mf_attend(g, &args, NULL), mf_shape3(T, H, w));
    return mf_reshape(g, mf_slice(g, y, 2, 0, x->value), mf_shape2(T, H * x->value));
}

/* x [T,H,n] -> [H,T,n], or the reverse. */
static mf_tensor *exchanged(mf_graph *g, mf_tensor *t)
{
    return mf_transpose(g, t, 1, 0, 2, 3);
}

/* Returns the weights of keys [H, n, latent] and of values [H, v, latent]. If adapters change
 * these weights, the effective weights are computed by applying the layer to unit vectors,
 * because adapters of linear layers see only inputs and outputs. */
static void weights(const latent *x, mf_tensor *ret[2])
{
    mf_graph *g = x->g;
    const int64_t H = x->heads, L = x->latent, n[] = {x->plain, x->value};
    static const char *const names[] = {"k_up", "v_up"};
    if (!mf_adapters_at_linear(x->env->adapters, "attention.kv_b")) {
        for (int i = 0; i < 2; i++)
            ret[i] = mf_reshape(g, use(x, names[i]), mf_shape3(H, n[i], L));
        return;
    }
    float *unit = mf_alloc((size_t)(L * L), sizeof *unit);
    if (!unit) {
        mf_graph_fail(g, MF_ENOMEM, "no memory for %lld unit vectors", (long long)L);
        ret[0] = ret[1] = NULL;
        return;
    }
    for (int64_t i = 0; i < L; i++)
        unit[i * L + i] = 1;
    expand(x, mf_graph_const(g, MF_F32, mf_shape2(L, L), unit), L, ret);
    mf_free(unit);
    for (int i = 0; i < 2; i++) /* [L, H n] -> [H, n, L] */
        ret[i] = mf_transpose(g, mf_reshape(g, ret[i], mf_shape3(L, H, n[i])), 1, 2, 0, 3);
}

/* Computes attention over the cache. All heads share one head of keys and values: the keys are
 * the rows of the cache, and the values are the first `latent` columns of these rows. */
static mf_tensor *absorbed(const latent *x, mf_attend_args args, mf_tensor *kept)
{
    mf_graph *g = x->g;
    const int64_t T = x->tokens, H = x->heads, w = x->latent + x->rope;
    char name[MF_CACHE_NAME];
    mf_param *cache =
        mf_store_find(x->mg->shape.cache->store, mf_cache_name(name, x->layer, 0, 0));
    mf_tensor *q = mf_reshape(g, args.q, mf_shape3(T, H, x->plain + x->rope)), *part[2];
    mf_tensor *up[2];
    weights(x, up);
    part[0] = exchanged(g, mf_slice(g, q, 2, 0, x->plain));
    part[0] = exchanged(g, mf_matmul(g, part[0], false, up[0], false, 1));
    part[1] = mf_slice(g, q, 2, x->plain, x->rope);
    args.q = mf_reshape(g, mf_concat(g, 2, part, 2), mf_shape2(T, H * w));
    args.k = args.v = mf_cache_append(g, mf_graph_param(g, cache), kept, x->mg->cache_pos);
    args.kv_heads = 1;
    mf_tensor *y = mf_reshape(g, mf_attend(g, &args, NULL), mf_shape3(T, H, w));
    y = exchanged(g, mf_slice(g, y, 2, 0, x->latent));
    y = exchanged(g, mf_matmul(g, y, false, up[1], true, 1));
    return mf_reshape(g, y, mf_shape2(T, H * x->value));
}

mf_tensor *mf_latent_attention(const mf_model *m, mf_model_graph *mg, int32_t layer,
                               int32_t from, mf_tensor *in, const mf_attend_args *base)
{
    const mf_model_config *c = &m->config->model;
    const latent x = {.m = m,
                      .mg = mg,
                      .g = mg->g,
                      .c = c,
                      .env = m->env,
                      .layer = layer,
                      .from = from,
                      .tokens = (int64_t)mg->shape.batch * mg->shape.seq,
                      .heads = c->heads,
                      .plain = mf_model_head_dim(c) - c->rope_dims,
                      .rope = c->rope_dims,
                      .latent = c->latent,
                      .value = mf_model_value_dim(c)};
    mf_attend_args args = *base;
    args.heads = (int)c->heads;
    args.q = queries(&x, in);
    mf_tensor *kept = compressed(&x, in);
    if (!mg->shape.cache) return expanded(&x, args, kept);
    const bool was_bf16 = mf_graph_set_bf16(mg->g, false); /* scores are computed in f32 */
    mf_tensor *y = absorbed(&x, args, kept);
    mf_graph_set_bf16(mg->g, was_bf16);
    return y;
}

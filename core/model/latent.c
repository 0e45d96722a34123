/* model/latent.c: keys and values from a latent vector c = norm(W x). A head's key is W_k c and
 * a rotated part that all heads share; its value is W_v c. The cache keeps c and the rotated
 * part only. A graph with a cache applies W_k to queries, since q (W_k c) = (q W_k) c, and W_v
 * to the sums over c, so that no keys and values of past tokens are computed again. */
#include "model/latent.h"
#include <stdio.h>
#include "base/error.h"
#include "model/rope.h"
#include "ops/gemm.h"
#include "ops/ops.h"
#include "ops/shape.h"
#include "ops/state.h"

#define LATENT_EPS 1e-6 /* of the norms of latent vectors, as published */

typedef struct {
    const mf_model *m;
    mf_model_graph *mg;
    mf_graph *g;
    const mf_model_config *c;
    int32_t layer, from;
    int64_t tokens, heads, plain, rope, latent, value; /* plain: n; rope: r; value: v */
} latent;

int64_t mf_latent_width(const mf_model_config *c)
{
    return c->latent + c->rope_dims;
}

static const char *name_of(char out[96], int32_t layer, const char *what)
{
    snprintf(out, 96, "layers.%d.attention.%s.weight", (int)layer, what);
    return out;
}

int mf_latent_declare(mf_model *m, int32_t layer, mf_init init)
{
    const mf_model_config *c = &m->config->model;
    const mf_init one = {MF_INIT_CONST, MF_PARAM_NO_DECAY, 1};
    const int64_t H = c->heads, hd = mf_model_head_dim(c), d = c->dim, p = c->latent_q;
    const struct {
        const char *name;
        int64_t rows, columns; /* columns 0: a vector */
    } all[] = {{p ? "q_down" : "q", p ? p : H * hd, d},
               {p ? "q_latent_norm" : NULL, p, 0},
               {p ? "q_up" : NULL, H * hd, p},
               {"kv_down", mf_latent_width(c), d},
               {"kv_latent_norm", c->latent, 0},
               {"k_up", H * (hd - c->rope_dims), c->latent},
               {"v_up", H * mf_model_value_dim(c), c->latent}};
    int rc = MF_OK;
    for (size_t i = 0; rc == MF_OK && i < sizeof all / sizeof *all; i++) {
        char name[96];
        mf_param *p_;
        const bool norm = all[i].columns == 0;
        if (!all[i].name) continue;
        rc = mf_store_declare(m->store, name_of(name, layer, all[i].name),
                              norm ? mf_shape1(all[i].rows)
                                   : mf_shape2(all[i].rows, all[i].columns),
                              norm ? one : init, false, &p_);
    }
    return rc;
}

static mf_tensor *use(const latent *x, const char *what)
{
    char name[96];
    return mf_graph_param(x->g, mf_store_find(x->m->store, name_of(name, x->from, what)));
}

static mf_tensor *linear(const latent *x, const char *what, mf_tensor *in)
{
    return mf_linear_as(x->g, in, use(x, what), NULL, MF_F32);
}

static mf_tensor *normed(const latent *x, const char *what, mf_tensor *in)
{
    const mf_attr attr = {.i = {0, MF_AS(MF_F32)}, .f = {LATENT_EPS}};
    return mf_op2(x->g, "rmsnorm", in, use(x, what), &attr);
}

static mf_tensor *turned(const latent *x, mf_tensor *t, int64_t head_dim, int64_t heads)
{
    if (x->c->position != MF_POS_ROPE) return t;
    return mf_model_rope_part(x->m, x->mg, t, head_dim, heads, head_dim - x->rope, x->rope);
}

/* [T, H (n + r)] */
static mf_tensor *queries(const latent *x, mf_tensor *in)
{
    mf_tensor *q = x->c->latent_q
                       ? linear(x, "q_up", normed(x, "q_latent_norm", linear(x, "q_down", in)))
                       : linear(x, "q", in);
    return turned(x, q, x->plain + x->rope, x->heads);
}

/* [T, latent + r]: what the cache keeps of each token. */
static mf_tensor *compressed(const latent *x, mf_tensor *in)
{
    mf_tensor *both = linear(x, "kv_down", in), *part[2];
    part[0] = normed(x, "kv_latent_norm", mf_slice(x->g, both, 1, 0, x->latent));
    part[1] = turned(x, mf_slice(x->g, both, 1, x->latent, x->rope), x->rope, 1);
    return mf_concat(x->g, 2, part, 1);
}

/* Attention with the keys and values of every head. Values are padded to the width of keys. */
static mf_tensor *expanded(const latent *x, mf_attend_args args, mf_tensor *kept)
{
    mf_graph *g = x->g;
    const int64_t T = x->tokens, H = x->heads, hd = x->plain + x->rope;
    mf_tensor *c = mf_slice(g, kept, 1, 0, x->latent), *part[2];
    part[0] = mf_reshape(g, linear(x, "k_up", c), mf_shape3(T, H, x->plain));
    part[1] = mf_reshape(g, mf_slice(g, kept, 1, x->latent, x->rope), mf_shape3(T, 1, x->rope));
    part[1] = mf_broadcast(g, part[1], mf_shape3(T, H, x->rope));
    args.k = mf_reshape(g, mf_concat(g, 2, part, 2), mf_shape2(T, H * hd));
    args.v = linear(x, "v_up", c);
    args.kv_heads = (int)H;
    if (x->value == hd) return mf_attend(g, &args, NULL);
    mf_tensor *v = mf_reshape(g, args.v, mf_shape3(T, H, x->value));
    args.v = mf_reshape(g, mf_pad(g, v, 2, 0, hd), mf_shape2(T, H * hd));
    mf_tensor *y = mf_reshape(g, mf_attend(g, &args, NULL), mf_shape3(T, H, hd));
    return mf_reshape(g, mf_slice(g, y, 2, 0, x->value), mf_shape2(T, H * x->value));
}

/* x [T,H,n] -> [H,T,n], or back. */
static mf_tensor *exchanged(mf_graph *g, mf_tensor *t)
{
    return mf_transpose(g, t, 1, 0, 2, 3);
}

/* Attention over the cache: all heads share one head of keys, which are its rows, and of
 * values, which are their first `latent` columns. */
static mf_tensor *absorbed(const latent *x, mf_attend_args args, mf_tensor *kept)
{
    mf_graph *g = x->g;
    const int64_t T = x->tokens, H = x->heads, w = x->latent + x->rope;
    char name[MF_CACHE_NAME];
    mf_param *cache =
        mf_store_find(x->mg->shape.cache->store, mf_cache_name(name, x->layer, 0, 0));
    mf_tensor *q = mf_reshape(g, args.q, mf_shape3(T, H, x->plain + x->rope)), *part[2];
    mf_tensor *k_up = mf_reshape(g, use(x, "k_up"), mf_shape3(H, x->plain, x->latent)),
              *v_up = mf_reshape(g, use(x, "v_up"), mf_shape3(H, x->value, x->latent));
    part[0] = exchanged(g, mf_slice(g, q, 2, 0, x->plain));
    part[0] = exchanged(g, mf_matmul(g, part[0], false, k_up, false, 1));
    part[1] = mf_slice(g, q, 2, x->plain, x->rope);
    args.q = mf_reshape(g, mf_concat(g, 2, part, 2), mf_shape2(T, H * w));
    args.k = args.v = mf_cache_append(g, mf_graph_param(g, cache), kept, x->mg->cache_pos);
    args.kv_heads = 1;
    mf_tensor *y = mf_reshape(g, mf_attend(g, &args, NULL), mf_shape3(T, H, w));
    y = exchanged(g, mf_slice(g, y, 2, 0, x->latent));
    y = exchanged(g, mf_matmul(g, y, false, v_up, true, 1));
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

/* noisy: a router with two ops of its own.
 *
 *     n = l (1 + width u),  u uniform in [0, 1) in training, 0 elsewhere
 *     logits = n + a bonus for the expert that a hash of the token chooses
 */
#include <moefw/moefw.h>
#include <string.h>

typedef struct {
    double width, bonus;
    int64_t seed;
} conf;

typedef struct {
    const conf *c;
} router;

/* ---- y = x (1 + width u): fused, random, with scratch ---- */

static int noise_infer(mf_infer *in)
{
    if (in->n_in != 1 || in->in[0].shape.rank != 2 || in->in[0].dtype != MF_F32)
        return in->fail(in, "expected logits [T,E]");
    const size_t bytes = (size_t)mf_shape_count(in->in[0].shape) * sizeof(float);
    in->n_out = 1;
    in->out[0] = in->in[0];
    in->work_bytes = bytes;
    in->backward_work_bytes = bytes;
    return MF_OK;
}

static void noise_times(const mf_call *c, const float *x, float *y)
{
    const int64_t n = mf_shape_count(c->in[0].shape);
    if (!c->exec->training) {
        memcpy(y, x, (size_t)n * sizeof *y);
        return;
    }
    float *u = c->work;
    c->exec->rng_uniform(c->exec, c->stream, 0, n, u);
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * (1 + (float)c->attr->f[0] * u[i]);
}

static int noise_forward(const mf_call *c)
{
    noise_times(c, c->in[0].data, c->out[0].data);
    return MF_OK;
}

static int noise_backward(const mf_call *c)
{
    noise_times(c, c->in[2].data, c->out[0].data);
    return MF_OK;
}

static const mf_opdef noise = {.size = sizeof(mf_opdef),
                               .flags = MF_OP_RANDOM,
                               .name = "noise_01",
                               .formula = "y = x (1 + width u)",
                               .infer = noise_infer,
                               .forward = noise_forward,
                               .backward = noise_backward,
                               .diff_in = 1};

/* ---- expert of a token's hash: no gradient, threads, constant data by user ---- */

static const uint64_t factors[2] = {0xbf58476d1ce4e5b9u, 0x94d049bb133111ebu};

static int pick_infer(mf_infer *in)
{
    if (in->n_in != 1 || in->in[0].dtype != MF_I32) return in->fail(in, "expected ids [T]");
    in->n_out = 1;
    in->out[0].dtype = MF_I32;
    in->out[0].shape = mf_shape1(mf_shape_count(in->in[0].shape));
    return MF_OK;
}

#define TILE 64
static void pick_tile(void *call_, int64_t tile)
{
    const mf_call *c = call_;
    const uint64_t *factor = c->user;
    const int32_t *id = c->in[0].data;
    int32_t *out = c->out[0].data;
    const int64_t n = c->out[0].shape.dim[0];
    for (int64_t t = tile * TILE; t < n && t < (tile + 1) * TILE; t++) {
        uint64_t z = (uint64_t)id[t] + (uint64_t)c->attr->i[1] * 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * factor[0];
        z = (z ^ (z >> 27)) * factor[1];
        out[t] = (int32_t)((z ^ (z >> 31)) % (uint64_t)c->attr->i[0]);
    }
}

static int pick_forward(const mf_call *c)
{
    mf_call copy = *c;
    c->exec->parallel(c->exec, (c->out[0].shape.dim[0] + TILE - 1) / TILE, pick_tile, &copy);
    return MF_OK;
}

static const mf_opdef pick = {.size = sizeof(mf_opdef),
                              .flags = MF_OP_NO_GRAD,
                              .name = "pick_01",
                              .formula = "expert = H(id) mod E",
                              .infer = pick_infer,
                              .forward = pick_forward,
                              .user = factors};

/* ---- the router ---- */

static int init(void *self, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    ((router *)self)->c = c;
    return mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim), MF_NORMAL(0.02));
}

static int route(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const conf *c = ((router *)self)->c;
    mf_attr a = mf_attr0();
    mf_tensor *x = mf_linear(g, in->x, mf->use(ctx, g, "weight"), NULL);
    a.f[0] = c->width;
    x = mf->custom(g, &noise, 1, &x, &a, 1, NULL);
    a = mf_attr0();
    a.i[0] = in->experts;
    a.i[1] = c->seed;
    mf_tensor *ids = in->token_ids;
    mf_tensor *named = mf->custom(g, &pick, 1, &ids, &a, 1, NULL);
    out->logits = mf_add(g, x, mf_scale(g, mf_one_hot(g, named, in->experts), c->bonus));
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_REAL(conf, width, "0.5", 0, 10, 0, "most that noise adds, relatively"),
    MF_OPTION_REAL(conf, bonus, "0.1", 0, 10, 0, "added to the logit of the hash's expert"),
    MF_OPTION_INT(conf, seed, "3", 0, 1e9, 0, "chooses the hash function"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {sizeof(mf_router), 0, init, NULL, route, NULL};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "noisy", "1.0", "MIT",
                                  "linear with noise and a hash, by ops of its own", options,
                                  conf, router, &vtable);

/* sparsemixer: draws experts in training, with a gradient for the choice (Liu et al. 2024,
 * GRIN, SparseMixer-v2; as in the published routing function of Phi-3.5-MoE).
 *
 *     mask: expert e is skipped if (max z - z_e) / max(|z_e|, max z) > 2 jitter,  z = W x
 *     p = softmax of z over the others
 *     training:    an expert m is drawn from p; gate = p_m, times .3333 if m is not the most
 *                  probable one and a uniform number is at most .75 (Heun's third-order method)
 *     evaluation:  m = argmax z; gate = p_m
 *     gradient:    dz_e = dgate p_m (1[e = m] - p_e), without the factor .3333
 *
 * The second expert is chosen in the same way without the first, and so on up to k; the
 * published code supports k = 1 and 2. max |z_e| of the mask includes the experts that were
 * chosen before. Gates of a token do not sum to 1; moe.renormalize has no effect. P of the
 * record is the softmax over all experts. Parameters: E d. */
#include <moefw/moefw.h>
#include <math.h>

typedef struct {
    double jitter, init_std;
} conf;

typedef struct {
    const conf *c;
} router;

/* ---- the op: z [T,E] -> expert [T,k] i32, gate [T,k]; attr.i[0] k, attr.f[0] jitter ---- */

enum { Z, EXPERT, GATE, D_EXPERT, D_GATE }; /* the arguments of backward */

static int infer(mf_infer *in)
{
    if (in->n_in != 1 || in->in[Z].dtype != MF_F32 || in->in[Z].shape.rank != 2)
        return in->fail(in, "expected z [T,E] of f32");
    const int64_t T = in->in[Z].shape.dim[0], E = in->in[Z].shape.dim[1], k = in->attr->i[0];
    if (k < 1 || k > E)
        return in->fail(in, "expected k from 1 to %lld, found %lld", (long long)E,
                        (long long)k);
    in->n_out = 2;
    in->out[0].dtype = MF_I32;
    in->out[1].dtype = MF_F32;
    in->out[0].shape = in->out[1].shape = mf_shape2(T, k);
    in->work_bytes = in->backward_work_bytes = (size_t)(T * (2 * E + k)) * sizeof(float);
    return MF_OK;
}

/* Computes p [E], the probabilities from which choice j of a token is drawn; chosen [j] are the
 * experts of earlier choices. Returns the most probable expert. */
static int64_t masked_softmax(const float *z, int64_t E, const int32_t *chosen, int64_t j,
                              double jitter, float *p)
{
    int64_t best = -1;
    for (int64_t e = 0; e < E; e++) {
        p[e] = z[e];
        for (int64_t i = 0; i < j; i++)
            if (chosen[i] == e) p[e] = -INFINITY;
        if (p[e] != -INFINITY && (best < 0 || p[e] > p[best])) best = e;
    }
    /* If no finite logit is left, the first expert that was not chosen yet is used. */
    if (best < 0)
        for (int64_t e = E - 1; e >= 0; e--) {
            bool fresh = true;
            for (int64_t i = 0; i < j; i++)
                fresh = fresh && chosen[i] != e;
            if (fresh) best = e;
        }
    const float top = p[best];
    float sum = 0;
    for (int64_t e = 0; e < E; e++) {
        const float size = fabsf(z[e]) > top ? fabsf(z[e]) : top;
        const bool out = p[e] == -INFINITY || (double)((top - z[e]) / size) > 2 * jitter;
        p[e] = e == best ? 1 : out ? 0 : expf(p[e] - top);
        sum += p[e];
    }
    for (int64_t e = 0; e < E; e++)
        p[e] /= sum;
    return best;
}

/* Returns an expert drawn from p: the largest ln p + Gumbel noise, with uniform numbers
 * u [E]. */
static int64_t drawn(const float *p, const float *u, int64_t E, int64_t best)
{
    float most = -INFINITY;
    int64_t m = best;
    for (int64_t e = 0; e < E; e++) {
        if (!(p[e] > 0)) continue;
        const float v = logf(p[e]) - logf(-logf(u[e] < 1e-7f ? 1e-7f : u[e]));
        if (v > most) {
            most = v;
            m = e;
        }
    }
    return m;
}

static void forward_token(const mf_call *call, int64_t t, bool draw)
{
    const int64_t E = call->in[Z].shape.dim[1], k = call->attr->i[0];
    const float *z = (const float *)call->in[Z].data + t * E;
    int32_t *expert = (int32_t *)call->out[0].data + t * k;
    float *gate = (float *)call->out[1].data + t * k;
    float *p = (float *)call->work + t * (2 * E + k), *u = p + E, *coin = u + E;
    if (draw)
        call->exec->rng_uniform(call->exec, call->stream, (uint64_t)(t * k * (E + 1)), k, coin);
    for (int64_t j = 0; j < k; j++) {
        const int64_t best = masked_softmax(z, E, expert, j, call->attr->f[0], p);
        int64_t m = best;
        if (draw) {
            call->exec->rng_uniform(call->exec, call->stream,
                                    (uint64_t)(t * k * (E + 1) + k + j * E), E, u);
            m = drawn(p, u, E, best);
        }
        expert[j] = (int32_t)m;
        gate[j] = m == best || coin[j] > 0.75f ? p[m] : 0.3333f * p[m];
    }
}

#define TILE 32
static void forward_tile(void *arg, int64_t tile)
{
    const mf_call *call = arg;
    const int64_t T = call->in[Z].shape.dim[0];
    for (int64_t t = tile * TILE; t < T && t < (tile + 1) * TILE; t++)
        forward_token(call, t, call->user != NULL);
}

static int forward(const mf_call *call)
{
    call->exec->parallel(call->exec, (call->in[Z].shape.dim[0] + TILE - 1) / TILE, forward_tile,
                         (void *)(uintptr_t)call);
    return MF_OK;
}

static void backward_token(const mf_call *call, int64_t t)
{
    const int64_t E = call->in[Z].shape.dim[1], k = call->attr->i[0];
    const float *z = (const float *)call->in[Z].data + t * E, *dgate = call->in[D_GATE].data;
    const int32_t *expert = (const int32_t *)call->in[EXPERT].data + t * k;
    float *dz = (float *)call->out[0].data + t * E, *p = (float *)call->work + t * (2 * E + k);
    for (int64_t e = 0; e < E; e++)
        dz[e] = 0;
    for (int64_t j = 0; dgate && j < k; j++) {
        (void)masked_softmax(z, E, expert, j, call->attr->f[0], p);
        const float d = dgate[t * k + j] * p[expert[j]];
        for (int64_t e = 0; e < E; e++)
            dz[e] += d * ((e == expert[j]) - p[e]);
    }
}

static void backward_tile(void *arg, int64_t tile)
{
    const mf_call *call = arg;
    const int64_t T = call->in[Z].shape.dim[0];
    for (int64_t t = tile * TILE; t < T && t < (tile + 1) * TILE; t++)
        backward_token(call, t);
}

static int backward(const mf_call *call)
{
    if (call->out[0].data)
        call->exec->parallel(call->exec, (call->in[Z].shape.dim[0] + TILE - 1) / TILE,
                             backward_tile, (void *)(uintptr_t)call);
    return MF_OK;
}

#define DEFINITION(name_, flags_, user_)                                                       \
    {                                                                                          \
        .size = sizeof(mf_opdef), .flags = MF_OP_STRAIGHT_THROUGH | (flags_), .name = name_,   \
        .formula = "e, gate = k experts by masked softmax of z", .infer = infer,               \
        .forward = forward, .backward = backward, .backward_in = 1, .backward_out = 1,         \
        .diff_in = 1, .user = user_                                                            \
    }
static const mf_opdef op_draw = DEFINITION("sparsemixer_draw", MF_OP_RANDOM, "draw"),
                      op_best = DEFINITION("sparsemixer_best", 0, NULL);

static const mf_op_example examples[] = {{.size = sizeof(mf_op_example),
                                          .n_in = 1,
                                          .op = &op_draw,
                                          .shape = {{2, 0, {77, 9}}},
                                          .attr = {{2}, {0.1}}},
                                         {.size = sizeof(mf_op_example),
                                          .n_in = 1,
                                          .op = &op_best,
                                          .shape = {{2, 0, {33, 4}}},
                                          .attr = {{4}, {0.5}}}};

/* ---- the router ---- */

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    const conf *c = ((router *)self_)->c = conf_;
    return mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim),
                     MF_NORMAL(c->init_std));
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const conf *c = ((const router *)self_)->c;
    const int64_t T = (int64_t)in->batch * in->seq, k = in->top_k;
    mf_tensor *both[2];
    mf_attr a = mf_attr0();
    a.i[0] = k;
    a.f[0] = c->jitter;
    out->logits = mf_linear(g, in->x, mf->use(ctx, g, "weight"), NULL);
    out->prob = mf_softmax(g, out->logits);
    mf_custom(g, mf->training(g) ? &op_draw : &op_best, 1, &out->logits, &a, 2, both);
    if (mf->status(g) != MF_OK) return mf->status(g);
    out->expert = mf_reshape(g, both[0], mf_shape1(T * k));
    out->gate = mf_reshape(g, both[1], mf_shape1(T * k));
    out->own_top_k = (int32_t)k;
    out->renormalize = 0;
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_REAL(conf, jitter, "0.1", 0, 100, 0,
                   "half the relative distance to the best logit up to which experts are drawn "
                   "(Phi-3.5-MoE: 0.01)"),
    MF_OPTION_REAL(conf, init_std, "0.02", 0, 10, 0, "standard deviation of the start weights"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {sizeof(mf_router), 0, init, NULL, route, NULL};

MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT_OPS(MF_ROUTER, mf_router, "sparsemixer", "1.0", "MIT",
                       "drawn experts with a gradient for the choice (SparseMixer-v2)", options,
                       conf, router, &vtable, examples, 2);

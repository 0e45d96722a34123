/* lapsum: a soft top k by a sum of Laplace distributions (Struski et al. 2025, LapSum, section
 * on soft top-k selection).
 *
 *     u = W x / temperature,   p_e = F(u_e - b),   b such that sum_e p_e = k
 *     F(v) = e^v / 2 for v <= 0, else 1 - e^-v / 2, the distribution function of Laplace
 *
 * p_e is between 0 and 1 and tends to the choice of the k largest u as the temperature falls.
 * Core selects the k largest p / k, which is P of the record and sums to 1; gates are P of the
 * chosen experts, divided by their sum as moe.renormalize says. Since b depends on all u,
 * experts that are not chosen have a gradient, too:
 *
 *     du_j = f_j (g_j - sum_i f_i g_i / sum_i f_i),   g = dp,   f = F' = min(p, 1 - p)
 *
 * Between two neighbours of the sorted u the sum is a quadratic function of e^b, so b is exact
 * and costs E ln E. With k = E all p are 1, and the router does not learn.
 * Parameters: E d. */
#include <moefw/moefw.h>
#include <math.h>

/* ---- the op: u [T,E] -> p [T,E]; attr.i[0] k ---- */

enum { U, P, D_P }; /* the arguments of backward */
#define TILE 32

static int infer(mf_infer *in)
{
    if (in->n_in != 1 || in->in[U].dtype != MF_F32 || in->in[U].shape.rank != 2)
        return in->fail(in, "expected u [T,E] of f32");
    const int64_t T = in->in[U].shape.dim[0], E = in->in[U].shape.dim[1], k = in->attr->i[0];
    if (k < 1 || k > E)
        return in->fail(in, "expected k from 1 to %lld, found %lld", (long long)E,
                        (long long)k);
    in->n_out = 1;
    in->out[0].dtype = MF_F32;
    in->out[0].shape = in->in[U].shape;
    in->work_bytes = (size_t)((T + TILE - 1) / TILE * 2 * E) * sizeof(double);
    return MF_OK;
}

/* Moves element i of a heap u [n], whose smallest element is the first, down to its place. */
static void sink(double *u, int64_t n, int64_t i)
{
    for (int64_t c; (c = 2 * i + 1) < n; i = c) {
        if (c + 1 < n && u[c + 1] < u[c]) c++;
        if (u[i] <= u[c]) return;
        const double v = u[i];
        u[i] = u[c];
        u[c] = v;
    }
}

/* Sorts u [n] in falling order. qsort may allocate memory, which an op must not do. */
static void sort_falling(double *u, int64_t n)
{
    for (int64_t i = n / 2 - 1; i >= 0; i--)
        sink(u, n, i);
    for (int64_t m = n - 1; m > 0; m--) {
        const double v = u[0];
        u[0] = u[m];
        u[m] = v;
        sink(u, m, 0);
    }
}

/* Returns b for k < n numbers u in falling order. rest [n] is scratch memory. For b between
 * u[j] and u[j-1] the sum of F is
 *
 *     j - a x / 2 + rest_j e^-gap / (2 x),   x = e^(b - u[j-1]),   gap = u[j-1] - u[j]
 *     a = sum over i < j of e^(u[j-1] - u[i]),   rest_j = sum over i >= j of e^(u[i] - u[j])
 *
 * No exponent is above 0, so nothing overflows. */
static double shift(const double *u, int64_t n, double k, double *rest)
{
    rest[n - 1] = 1;
    for (int64_t j = n - 2; j >= 0; j--)
        rest[j] = 1 + rest[j + 1] * exp(u[j + 1] - u[j]);
    if (rest[0] >= 2 * k) return u[0] + log(rest[0] / (2 * k));
    double a = 1;
    for (int64_t j = 1; j < n; j++) {
        const double gap = u[j - 1] - u[j], over = (double)j - k, small = exp(-gap);
        if (over - (a * small - rest[j]) / 2 >= 0) {
            /* the root above 0 of a x^2 - 2 over x - rest_j e^-gap, without cancellation */
            const double root = sqrt(over * over + a * rest[j] * small);
            if (over > 0) return u[j - 1] + log((over + root) / a);
            if (over < 0) return u[j] + log(rest[j] / (root - over));
            return (u[j - 1] + u[j] + log(rest[j] / a)) / 2;
        }
        a = 1 + a * small;
    }
    return u[n - 1] + log(2 * ((double)n - k) / a);
}

static void forward_row(const float *u, int64_t E, int64_t k, double *sorted, float *p)
{
    bool finite = true;
    for (int64_t e = 0; e < E; e++) {
        sorted[e] = (double)u[e];
        finite = finite && isfinite(u[e]);
    }
    double b = -INFINITY; /* k = E */
    if (!finite) {
        b = NAN;
    } else if (k < E) {
        sort_falling(sorted, E);
        b = shift(sorted, E, (double)k, sorted + E);
    }
    for (int64_t e = 0; e < E; e++) {
        const double v = (double)u[e] - b;
        p[e] = (float)(v <= 0 ? exp(v) / 2 : 1 - exp(-v) / 2);
    }
}

static void forward_tile(void *arg, int64_t tile)
{
    const mf_call *call = arg;
    const int64_t T = call->in[U].shape.dim[0], E = call->in[U].shape.dim[1];
    for (int64_t t = tile * TILE; t < T && t < (tile + 1) * TILE; t++)
        forward_row((const float *)call->in[U].data + t * E, E, call->attr->i[0],
                    (double *)call->work + tile * 2 * E, (float *)call->out[0].data + t * E);
}

static void backward_tile(void *arg, int64_t tile)
{
    const mf_call *call = arg;
    const int64_t T = call->in[P].shape.dim[0], E = call->in[P].shape.dim[1];
    for (int64_t t = tile * TILE; t < T && t < (tile + 1) * TILE; t++) {
        const float *p = (const float *)call->in[P].data + t * E, *g = call->in[D_P].data;
        float *du = (float *)call->out[0].data + t * E;
        double all = 0, mean = 0;
        for (int64_t e = 0; e < E && g; e++) {
            const double f = (double)fminf(p[e], 1 - p[e]);
            all += f;
            mean += f * (double)g[t * E + e];
        }
        if (all > 0) mean /= all;
        for (int64_t e = 0; e < E; e++)
            du[e] =
                g ? (float)((double)fminf(p[e], 1 - p[e]) * ((double)g[t * E + e] - mean)) : 0;
    }
}

static int forward(const mf_call *call)
{
    call->exec->parallel(call->exec, (call->in[U].shape.dim[0] + TILE - 1) / TILE, forward_tile,
                         (void *)(uintptr_t)call);
    return MF_OK;
}

static int backward(const mf_call *call)
{
    if (call->out[0].data)
        call->exec->parallel(call->exec, (call->in[P].shape.dim[0] + TILE - 1) / TILE,
                             backward_tile, (void *)(uintptr_t)call);
    return MF_OK;
}

static const mf_opdef op_soft_topk = {.size = sizeof(mf_opdef),
                                      .name = "lapsum_soft_topk",
                                      .formula = "p = F(u - b), sum p = k",
                                      .infer = infer,
                                      .forward = forward,
                                      .backward = backward,
                                      .backward_out = 1,
                                      .diff_in = 1};

static const mf_op_example examples[] = {{.size = sizeof(mf_op_example),
                                          .n_in = 1,
                                          .op = &op_soft_topk,
                                          .shape = {{2, 0, {45, 9}}},
                                          .attr = {{3}, {0}}},
                                         {.size = sizeof(mf_op_example),
                                          .n_in = 1,
                                          .op = &op_soft_topk,
                                          .shape = {{2, 0, {5, 1}}},
                                          .attr = {{1}, {0}}}};

/* ---- the router ---- */

typedef struct {
    double temperature, init_std;
} conf;

static int init(void *self, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    (void)self;
    return mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim),
                     MF_NORMAL(((const conf *)c)->init_std));
}

static int route(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    mf_attr a = mf_attr0();
    (void)self;
    a.i[0] = in->top_k;
    out->logits = mf_linear(g, in->x, mf->use(ctx, g, "weight"), NULL);
    mf_tensor *u = mf_div(g, out->logits, mf->live(ctx, g, "temperature"));
    mf_tensor *p = mf_custom(g, &op_soft_topk, 1, &u, &a, 1, NULL);
    out->prob = mf_scale(g, p, 1.0 / in->top_k);
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_REAL(conf, temperature, "1", 1e-3, 1e3, MF_OPT_LIVE,
                   "divides the logits; smaller values are nearer to a choice"),
    MF_OPTION_REAL(conf, init_std, "0.02", 0, 10, 0, "standard deviation of the start weights"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {.size = sizeof(mf_router), .init = init, .route = route};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT_OPS(MF_ROUTER, mf_router, "lapsum", "1.0", "MIT",
                                      "a soft top k that all experts learn from (LapSum)",
                                      options, conf, char, &vtable, examples, 2);

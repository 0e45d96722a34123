/* model/rope.c: rotary positions with scaled angles. Pair i of n rotated columns has the
 * frequency theta^(-2i/n), so it makes L theta^(-2i/n) / (2 pi) turns in L tokens. All blocks
 * of a graph use one table of factors, because they rotate the same number of columns. */
#include "model/rope.h"
#include <math.h>
#include "base/mem.h"
#include "ops/ops.h"

#define TWO_PI 6.283185307179586

/* Returns the pair, as a real number, that makes `turns` turns in the original length. */
static double pair_of(const mf_model_config *c, double n, double turns)
{
    return n * log(c->rope_original / (turns * TWO_PI)) / (2 * log(c->rope_theta));
}

static double between(double x, double lo, double hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

/* Returns the share of the unscaled angle in the angle of pair i: 1 for pairs that turn fast, 0
 * for pairs that turn slowly (Peng et al. 2023, section 3.2). */
static double yarn_share(const mf_model_config *c, int64_t n, int64_t i)
{
    double low = pair_of(c, (double)n, c->rope_beta_fast),
           high = pair_of(c, (double)n, c->rope_beta_slow);
    if (c->rope_truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = low < 0 ? 0 : low;
    high = high > (double)n - 1 ? (double)n - 1 : high;
    if (low == high) high += 0.001;
    return 1 - between(((double)i - low) / (high - low), 0, 1);
}

/* Returns the share of the unscaled angle in the angle of pair i, computed from the number of
 * turns (Llama 3). */
static double llama_share(const mf_model_config *c, int64_t n, int64_t i)
{
    const double turns =
        c->rope_original * pow(c->rope_theta, -2.0 * (double)i / (double)n) / TWO_PI;
    if (c->rope_high == c->rope_low) return turns >= c->rope_low;
    return between((turns - c->rope_low) / (c->rope_high - c->rope_low), 0, 1);
}

int64_t mf_rope_dims(const mf_model_config *c)
{
    return c->rope_dims > 0 ? c->rope_dims : mf_model_head_dim(c);
}

void mf_rope_factors(const mf_model_config *c, int64_t n, float *out)
{
    for (int64_t i = 0; i < n / 2; i++) {
        double share = 1;
        if (c->rope_scaling == MF_ROPE_LINEAR) share = 0;
        if (c->rope_scaling == MF_ROPE_YARN) share = yarn_share(c, n, i);
        if (c->rope_scaling == MF_ROPE_LLAMA3) share = llama_share(c, n, i);
        out[i] = (float)(share + (1 - share) / c->rope_factor);
    }
}

double mf_rope_magnitude(const mf_model_config *c)
{
    if (c->rope_magnitude > 0) return c->rope_magnitude;
    return c->rope_scaling == MF_ROPE_YARN ? 0.1 * log(c->rope_factor) + 1 : 1;
}

/* Returns the table of factors of this graph; NULL: no scaling. */
static mf_tensor *factors(const mf_model *m, mf_model_graph *mg, int64_t n)
{
    const mf_model_config *c = &m->config->model;
    if (mg->rope_factor || c->rope_scaling == MF_ROPE_PLAIN) return mg->rope_factor;
    if (c->rope_scaling == MF_ROPE_GIVEN)
        return mg->rope_factor = mf_graph_param(mg->g, mf_store_find(m->store, "rope.factor"));
    float *table = mf_alloc((size_t)n / 2 + 1, sizeof *table);
    if (!table) {
        mf_graph_fail(mg->g, MF_ENOMEM, "no memory for the angles of %lld columns",
                      (long long)n);
        return NULL;
    }
    mf_rope_factors(c, n, table);
    mg->rope_factor = mf_graph_const(mg->g, MF_F32, mf_shape1(n / 2), table);
    mf_free(table);
    return mg->rope_factor;
}

mf_tensor *mf_model_rope_part(const mf_model *m, mf_model_graph *mg, int32_t layer,
                              mf_tensor *x, int64_t head_dim, int64_t n_heads, int64_t first,
                              int64_t n)
{
    const mf_model_config *c = &m->config->model;
    bool bad;
    const bool plain = mf_model_in_layers(c->rope_plain_layers, layer, &bad);
    const mf_attr attr = {
        .i = {head_dim, n_heads, c->rope_half, 0, first, n},
        .f = {plain ? c->rope_plain_theta : c->rope_theta, plain ? 1 : mf_rope_magnitude(c)}};
    mf_tensor *factor = plain ? NULL : factors(m, mg, n);
    if (factor) return mf_op3(mg->g, "rope", x, mg->positions, factor, &attr);
    return mf_op2(mg->g, "rope", x, mg->positions, &attr);
}

mf_tensor *mf_model_rope(const mf_model *m, mf_model_graph *mg, int32_t layer, mf_tensor *x,
                         int64_t head_dim, int64_t n_heads)
{
    const mf_model_config *c = &m->config->model;
    const int64_t n = mf_rope_dims(c);
    return mf_model_rope_part(m, mg, layer, x, head_dim, n_heads,
                              c->rope_last ? head_dim - n : 0, n);
}

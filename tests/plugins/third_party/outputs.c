/* outputs: a regularizer that reads the inputs and outputs of experts, for tests. Its loss is
 * the mean over rows of |y|^2 / |x|^2, where y is the output of a row and x its token's input.
 * It adds the squares of all numbers past the last row, and the mean over tokens with an expert
 * of (sum of gates - 1)^2. Both are 0 with renormalized gates and no capacity. */
#include <moefw/moefw.h>

typedef struct {
    int64_t dim, expert_dim;
} widths;

static int init(void *s, mf_ctx *ctx, const void *c, const mf_dims *d)
{
    (void)ctx, (void)c;
    *(widths *)s = (widths){d->model_dim, d->expert_dim};
    return MF_OK;
}

static mf_tensor *squares(mf_graph *g, mf_tensor *x)
{
    return mf_sum(g, mf_square(g, mf_cast(g, x, MF_F32)), 2u, true);
}

static mf_tensor *layer(mf_graph *g, const mf_routing *r)
{
    mf_tensor *number = mf_cast(g, r->row_token, MF_F32);
    mf_tensor *used = mf_affine(g, mf_clamp(g, number, -1, 0), 1, 1); /* [R] */
    used = mf_reshape(g, used, mf_shape2(r->rows, 1));
    mf_tensor *n = mf_clamp(g, mf_sum(g, used, MF_ALL, false), 1, 1e30);
    mf_tensor *y = squares(g, r->expert_out);
    mf_tensor *x = mf_gather_rows(g, squares(g, r->x), r->row_token);
    mf_tensor *ratio = mf_div(g, y, mf_add(g, x, mf_affine(g, used, -1, 1.000001)));
    mf_tensor *loss = mf_div(g, mf_sum(g, ratio, MF_ALL, false), n);
    mf_tensor *past =
        mf_mul(g, mf_add(g, y, mf_square(g, r->row_gate)), mf_affine(g, used, -1, 1));
    mf_tensor *count = mf_scatter_rows(g, used, r->row_token, r->tokens);
    mf_tensor *sum = mf_scatter_rows(g, r->row_gate, r->row_token, r->tokens);
    mf_tensor *has = mf_clamp(g, count, 0, 1);
    mf_tensor *off = mf_sum(g, mf_square(g, mf_sub(g, sum, has)), MF_ALL, false);
    mf_tensor *tokens = mf_clamp(g, mf_sum(g, has, MF_ALL, false), 1, 1e30);
    loss = mf_add(g, loss, mf_sum(g, past, MF_ALL, false));
    return mf_add(g, loss, mf_div(g, off, tokens));
}

static int loss(void *s, mf_ctx *ctx, mf_graph *g, const mf_routing *const *routing, int32_t n,
                mf_tensor **ret)
{
    const float zero = 0;
    const widths *w = s;
    mf_tensor *all = mf->constant(g, MF_F32, mf_shape0(), &zero);
    for (int32_t i = 0; i < n; i++) {
        const mf_routing *r = routing[i];
        if (!MF_HAS(r, mf_routing, row_gate) || !r->expert_out) continue;
        const int64_t x = mf->shape(r->x).dim[1], y = mf->shape(r->expert_out).dim[1];
        if (x != w->dim || y != w->expert_dim)
            return mf->fail(ctx, MF_EPLUGIN, "expected widths %d and %d, found %d and %d",
                            (int)w->dim, (int)w->expert_dim, (int)x, (int)y);
        all = mf_add(g, all, layer(g, r));
    }
    *ret = mf_scale(g, all, 1.0 / (n > 0 ? n : 1));
    return mf->status(g);
}

static const mf_option options[] = {MF_END_OPTIONS};

static const mf_regularizer vtable = {.size = sizeof(mf_regularizer),
                                      .flags = MF_REGULARIZER_OUTPUTS,
                                      .init = init,
                                      .loss = loss};

MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT(MF_REGULARIZER, mf_regularizer, "outputs", "1", "MIT",
                   "size of the outputs of experts", options, char, widths, &vtable);

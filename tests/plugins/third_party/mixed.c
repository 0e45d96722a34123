/* mixed: experts that differ. The first n are feed-forward layers, n/2 of them slim and the
 * others wide; the last two or three cost nothing (Jin et al. 2024, MoE++, section 3.1).
 *
 *     e < n            y = W2 relu(W1 x), of width h if e < n/2, else of width 4 h
 *     e = E - 3        y = 0, if there are at least five experts
 *     e = E - 2        y = x
 *     e = E - 1        y = v
 *
 * Assignments are grouped by expert, so each kind has consecutive ones. A grouped op that gets
 * the offsets of one kind gives 0 for all others, so that the results can be summed. */
#include <moefw/moefw.h>

typedef struct {
    int64_t hidden;
} conf;

typedef struct {
    int32_t slim, wide; /* number of experts of each width */
} expert;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    expert *self = self_;
    const int64_t d = dims->dim, h = ((const conf *)conf_)->hidden;
    const int32_t n = dims->experts - (dims->experts > 4 ? 3 : 2);
    if (n < 2)
        return mf->fail(ctx, MF_ECONFIG, "expected moe.experts of at least 4, found %d",
                        (int)dims->experts);
    self->slim = n / 2;
    self->wide = n - n / 2;
    int rc = mf->param(ctx, "slim.w1", mf_shape3(self->slim, h, d), MF_NORMAL(0.1));
    if (rc == MF_OK)
        rc = mf->param(ctx, "slim.w2", mf_shape3(self->slim, d, h), MF_NORMAL(0.1));
    if (rc == MF_OK)
        rc = mf->param(ctx, "wide.w1", mf_shape3(self->wide, 4 * h, d), MF_NORMAL(0.1));
    if (rc == MF_OK)
        rc = mf->param(ctx, "wide.w2", mf_shape3(self->wide, d, 4 * h), MF_NORMAL(0.1));
    return rc == MF_OK ? mf->param(ctx, "constant", mf_shape2(1, d), MF_NORMAL(0.1)) : rc;
}

/* Computes experts first .. first + n - 1, whose weights are w1 and w2. */
static mf_tensor *layers(mf_ctx *ctx, mf_graph *g, const mf_expert_in *in, int32_t first,
                         int32_t n, const char *w1, const char *w2)
{
    mf_tensor *offset = mf_slice(g, in->offset, 0, first, n + 1);
    mf_tensor *h = mf_relu(g, mf_grouped_linear(g, in->x, mf->use(ctx, g, w1), offset, NULL));
    return mf_grouped_linear(g, h, mf->use(ctx, g, w2), offset, NULL);
}

/* [R,1]: 1 in the rows of expert e. */
static mf_tensor *rows_of(mf_graph *g, const mf_expert_in *in, int32_t e, int64_t R)
{
    const int32_t one = 1;
    mf_tensor *row = mf_arange(g, R), *ones = mf->constant(g, MF_I32, mf_shape1(1), &one);
    mf_tensor *from = mf_sub(g, mf_slice(g, in->offset, 0, e, 1), ones),
              *end = mf_slice(g, in->offset, 0, e + 1, 1);
    mf_tensor *in_it = mf_mul(g, mf_greater(g, row, from), mf_greater(g, end, row));
    return mf_reshape(g, mf_cast(g, in_it, MF_F32), mf_shape2(R, 1));
}

static int forward(void *self_, mf_ctx *ctx, mf_graph *g, const mf_expert_in *in,
                   mf_tensor **ret_y)
{
    const expert *self = self_;
    const int64_t R = mf->shape(in->x).dim[0];
    const int32_t E = in->experts;
    mf_tensor *y = layers(ctx, g, in, 0, self->slim, "slim.w1", "slim.w2");
    y = mf_add(g, y, layers(ctx, g, in, self->slim, self->wide, "wide.w1", "wide.w2"));
    y = mf_add(g, y, mf_mul(g, in->x, rows_of(g, in, E - 2, R)));
    mf_tensor *v = mf_mul(g, rows_of(g, in, E - 1, R), mf->use(ctx, g, "constant"));
    *ret_y = mf_add(g, y, v);
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, hidden, "16", 1, 65536, 0, "width of the slim ones"), MF_END_OPTIONS};

static const mf_expert vtable = {.size = sizeof(mf_expert), .init = init, .forward = forward};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_EXPERT, mf_expert, "mixed", "1.0", "MIT",
                                  "slim, wide, zero, copy and constant experts", options, conf,
                                  expert, &vtable);

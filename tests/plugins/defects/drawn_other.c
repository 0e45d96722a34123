/* drawn_other.c: experts (500s), a regularizer (600s), a controller (700s) and an adapter
 * (800s). -DDEFECT=N selects the kind and adds one defect of list.tsv, which shows only at
 * certain sizes, values or numbers of calls, or beside other plugins. */
#define _GNU_SOURCE
#include <moefw/moefw.h>

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define IS(n) (DEFECT == (n))

typedef struct {
    double scale, mid;
    int64_t steps;
} conf;

typedef struct {
    const conf *c;
    int64_t experts, dim, top_k, layer, layers, own;
    double copied;
} state;

static int calls __attribute__((unused));

static void take(state *s, const void *c, const mf_dims *dims)
{
    *s = (state){c, dims->experts, dims->dim, dims->top_k, dims->layer, dims->n_layers, 0, 0};
    s->copied = s->c->scale;
}

static const mf_option options[] = {
    MF_OPTION_REAL(conf, scale, "1", 0.5, 2, MF_OPT_LIVE, "factor"),
    MF_OPTION_REAL(conf, mid, "1", 0, 10, 0, "has no effect"),
    MF_OPTION_INT(conf, steps, "1", 1, 8, 0, "has no effect"), MF_END_OPTIONS};

/* ---- y = x, with the gradient attr.f[0] dy instead of dy ---- */

static int infer_same(mf_infer *in)
{
    in->n_out = 1;
    in->out[0].dtype = MF_F32;
    in->out[0].shape = in->in[0].shape;
    return MF_OK;
}

static int forward_same(const mf_call *c)
{
    const int64_t n = mf_shape_count(c->in[0].shape);
    float *y = c->out[0].data, noise[1];
    memcpy(y, c->in[0].data, (size_t)n * 4);
    calls++;
    if (IS(506) && calls > 5) ((int32_t *)(uintptr_t)c->in[1].data)[0] ^= 1;
    for (int64_t i = 0; (IS(512) || IS(617)) && i < n; i++) {
        c->exec->rng_normal(c->exec, c->stream, (uint64_t)i, 1, noise);
        y[i] *= 1 + 0.1f * noise[0];
    }
    if (IS(508) && calls > 150) return c->fail(c, MF_EPLUGIN, "too many");
    if (IS(618) && calls > 200) y[0] *= 1.01f;
    /* reads attr.i[0] indices; y does not change */
    if (IS(504) || IS(609)) {
        const int32_t *e = c->in[1].data;
        for (int64_t i = 0; i < c->attr->i[0]; i++)
            y[0] += 0 * (float)e[i];
    }
    return MF_OK;
}

static int grad_skew(mf_graph *g, const mf_gradient *at)
{
    at->din[0] = mf_affine(g, at->dout[0], at->attr->f[0], 0);
    return MF_OK;
}

static const mf_opdef skew_op = {.size = sizeof(mf_opdef),
                                 .name = "planted_skew",
                                 .formula = "y = x",
                                 .infer = infer_same,
                                 .forward = forward_same,
                                 .grad = grad_skew,
                                 .diff_in = 1};

static mf_tensor *skew(mf_graph *g, mf_tensor *x, mf_tensor *with, double factor, int64_t n)
{
    mf_tensor *in[2] = {x, with};
    mf_attr attr = mf_attr0();
    attr.f[0] = factor;
    attr.i[0] = n;
    return mf->custom(g, &skew_op, with ? 2 : 1, in, &attr, 1, NULL);
}

#if DEFECT < 600
/* ---- experts: y = W_e x ---- */

/* y = x. Its gradient is wrong for the rows of an expert from row 40 on. */
static int backward_rows(const mf_call *c)
{
    const mf_view *x = &c->in[0];
    const int32_t *offset = c->in[1].data;
    const int64_t d = x->shape.dim[1], R = x->shape.dim[0];
    const float *dy = c->in[3].data;
    float *dx = c->out[0].data;
    memcpy(dx, dy, (size_t)(R * d) * 4);
    for (int64_t e = 0; e + 1 < c->in[1].shape.dim[0]; e++)
        for (int64_t r = offset[e] + 40; r < offset[e + 1]; r++)
            for (int64_t j = 0; j < d; j++)
                dx[r * d + j] *= 0.5f;
    return MF_OK;
}

static float kept[1 << 16];

static int forward_kept(const mf_call *c)
{
    const int64_t n = mf_shape_count(c->in[0].shape);
    const float *x = c->in[0].data;
    float *y = c->out[0].data;
    for (int64_t i = 0; i < n; i++) {
        y[i] = x[i] * x[i];
        if (i < 1 << 16) kept[i] = x[i];
    }
    return MF_OK;
}

static int backward_kept(const mf_call *c)
{
    const int64_t n = mf_shape_count(c->in[0].shape);
    const float *dy = c->in[2].data, *x = n > 1 << 16 ? c->in[0].data : kept;
    float *dx = c->out[0].data;
    for (int64_t i = 0; i < n; i++)
        dx[i] = 2 * x[i] * dy[i];
    return MF_OK;
}

static const mf_opdef rows_op = {.size = sizeof(mf_opdef),
                                 .name = "planted_rows",
                                 .infer = infer_same,
                                 .forward = forward_same,
                                 .backward = backward_rows,
                                 .backward_in = 2,
                                 .diff_in = 1};
static const mf_opdef kept_op = {.size = sizeof(mf_opdef),
                                 .name = "planted_kept",
                                 .infer = infer_same,
                                 .forward = forward_kept,
                                 .backward = backward_kept,
                                 .backward_in = 1,
                                 .diff_in = 1};

static int init(void *self, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    take(self, c, dims);
    int rc = mf->param(ctx, "weight", mf_shape3(dims->experts, dims->dim, dims->dim),
                       MF_NORMAL(0.1));
    return rc;
}

static mf_tensor *sequence_mean(mf_graph *g, const mf_expert_in *in, int64_t d)
{
    mf_tensor *x = mf_reshape(g, in->seq_x, mf_shape3(in->batch, in->seq, d));
    x = mf_broadcast(g, mf_mean(g, x, 2u, true), mf_shape3(in->batch, in->seq, d));
    x = mf_reshape(g, x, mf_shape2((int64_t)in->batch * in->seq, d));
    return mf_gather_rows(g, x, in->token);
}

static int forward(void *self, mf_ctx *ctx, mf_graph *g, const mf_expert_in *in,
                   mf_tensor **ret_y)
{
    const state *s = self;
    const int64_t T = (int64_t)in->batch * in->seq, R = mf->shape(in->x).dim[0];
    mf_tensor *x = in->x, *both[2] = {x, in->offset};
    mf_attr attr = mf_attr0();
    if (IS(501)) x = mf->custom(g, &rows_op, 2, both, &attr, 1, NULL);
    if (IS(502)) x = skew(g, x, NULL, T > 100 ? 1.1 : 1, 0);
    if (IS(503)) {
        x = mf_reshape(g, x, mf_shape3(T, s->top_k, s->dim));
        x = mf_reshape(g, x, mf_shape2(T * s->top_k, s->dim));
    }
    if (IS(504)) x = skew(g, x, in->token, 1, T * s->top_k);
    if (IS(505)) x = mf->custom(g, &kept_op, 1, &x, &attr, 1, NULL);
    if (IS(506)) x = skew(g, x, in->token, 1, 0);
    if (IS(507) && R > 400) raise(SIGSEGV);
    if (IS(508) || IS(512)) x = skew(g, x, NULL, 1, 0);
    if (IS(510) && in->seq > 40) x = mf_add(g, x, sequence_mean(g, in, s->dim));
    if (IS(511)) x = skew(g, x, NULL, s->experts == 12 ? 1.1 : 1, 0);
    if (IS(513)) x = skew(g, x, NULL, R % 32 == 31 ? 1.1 : 1, 0);
    if (IS(515) && s->c->mid > 4 && s->c->mid < 6) x = NULL;
    mf_tensor *scale = mf->live(ctx, g, "scale");
    mf_tensor *y = mf_grouped_linear(g, x, mf->use(ctx, g, "weight"), in->offset, NULL);
    *ret_y = IS(514) ? mf_affine(g, y, s->c->scale, 0) : mf_mul(g, y, scale);
    return mf->status(g);
}

static int after_step(void *self, mf_ctx *ctx, const mf_step *step)
{
    state *s = self;
    int64_t n;
    (void)step;
    s->own++;
    if (IS(509) || IS(517)) {
        float *w =
            mf->data(ctx, IS(509) ? "/layers.0.router.weight" : "/layers.0.norm1.weight", &n);
        if (w) w[0] += 0.01f;
    }
    return IS(516) && s->own > 100 ? mf->fail(ctx, MF_EPLUGIN, "enough") : MF_OK;
}

static const mf_expert vtable = {.size = sizeof(mf_expert),
                                 .flags = IS(510) ? MF_EXPERT_SEQUENCE : 0,
                                 .init = init,
                                 .forward = forward,
                                 .after_step = after_step};
MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_EXPERT, mf_expert, "planted", "1", "MIT",
                                  "one matrix an expert", options, conf, state, &vtable);
#elif DEFECT < 700
/* ---- regularizer: scale times the sum over experts of the squared mean probability ---- */

static int init(void *self, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    (void)ctx;
    take(self, c, dims);
    if (IS(621)) ((state *)self)->copied = getenv("HOME") ? (double)strlen(getenv("HOME")) : 0;
    return MF_OK;
}

static mf_tensor *token_mean(mf_graph *g, const mf_routing *r, mf_tensor *p)
{
    if (IS(605)) {
        mf_tensor *m = r->mask ? mf_reshape(g, r->mask, mf_shape2(r->tokens, 1)) : NULL;
        return mf_mean(g, m ? mf_mul(g, p, m) : p, 1u, false);
    }
    if (!r->mask) return IS(604) ? mf_sum(g, p, 1u, false) : mf_mean(g, p, 1u, false);
    mf_tensor *m = mf_reshape(g, r->mask, mf_shape2(r->tokens, 1));
    mf_tensor *n = mf_clamp(g, mf_sum(g, m, MF_ALL, false), 1, 1e30);
    if (IS(604)) n = mf_affine(g, n, 0, 1);
    if (IS(622)) n = mf_affine(g, n, 0, 16.0 * r->batch);
    return mf_div(g, mf_sum(g, mf_mul(g, p, m), 1u, false), n);
}

static int loss(void *self, mf_ctx *ctx, mf_graph *g, const mf_routing *const *routing,
                int32_t n, mf_tensor **ret)
{
    const state *s = self;
    mf_tensor *sum = NULL;
    for (int32_t i = 0; i < n; i++) {
        const mf_routing *r = routing[i];
        if (!r->prob && !IS(611)) continue;
        mf_tensor *p = r->prob;
        if (IS(601)) p = mf_stop_gradient(g, p);
        if (IS(608)) mf_reshape(g, r->chosen, mf_shape2(r->tokens, r->top_k));
        if (IS(609)) p = skew(g, p, r->chosen, 1, r->tokens * s->top_k);
        if (IS(610)) p = skew(g, p, NULL, r->tokens > 100 ? 1.1 : 1, 0);
        if (IS(619)) p = skew(g, p, NULL, r->tokens % 32 == 31 ? 1.1 : 1, 0);
        if (IS(617) || IS(618)) p = skew(g, p, NULL, 1, 0);
        mf_tensor *m = token_mean(g, r, p);
        mf_tensor *l = mf_sum(g, mf_mul(g, m, m), MF_ALL, false);
        if (IS(602)) l = mf_sum(g, mf_square(g, r->load), MF_ALL, false);
        if (IS(603)) l = mf_affine(g, l, r->batch, 0);
        if (IS(606) && !mf->training(g)) l = mf_affine(g, l, 2, 0);
        if (IS(613) && r->seq > 200) raise(SIGSEGV);
        if (IS(620) && s->c->mid > 4 && s->c->mid < 6) l = mf_ln(g, mf_affine(g, l, -1, 0));
        if (IS(621)) l = mf_affine(g, l, 1 + s->copied, 0);
        sum = sum ? mf_add(g, sum, l) : l;
    }
    if (!sum) {
        const float zero = 0;
        *ret = mf->constant(g, MF_F32, mf_shape0(), &zero);
        return mf->status(g);
    }
    *ret =
        IS(607) ? mf_affine(g, sum, s->c->scale, 0) : mf_mul(g, sum, mf->live(ctx, g, "scale"));
    return mf->status(g);
}

static int after_step(void *self, mf_ctx *ctx, const mf_step *step)
{
    int64_t n;
    (void)self;
    if (IS(612) || IS(623)) {
        float *w = mf->data(
            ctx, IS(612) ? "/layers.0.router.weight" : "/layers.0.attention.qkv.weight", &n);
        if (w) w[0] += 0.01f;
    }
    return IS(614) && step->step > 100 ? mf->fail(ctx, MF_EPLUGIN, "enough") : MF_OK;
}

static const mf_regularizer vtable = {
    .size = sizeof(mf_regularizer), .init = init, .loss = loss, .after_step = after_step};
MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT(MF_REGULARIZER, mf_regularizer, "planted", "1", "MIT",
                   "squares of mean probabilities", options, conf, state, &vtable);
#elif DEFECT < 800
/* ---- controller: lowers the learning rate with the step and by the load ---- */

#define BLIND (IS(701) || IS(702) || IS(715))

static int init(void *self, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    (void)ctx;
    take(self, c, dims);
    if (IS(709)) ((state *)self)->copied += getenv("HOME") ? (double)strlen(getenv("HOME")) : 0;
    if (IS(710) && ((state *)self)->c->steps == 5) raise(SIGSEGV);
    return MF_OK;
}

static int on_step(void *self, mf_ctx *ctx, const struct mf_step *step)
{
    state *s = self;
    double lr = 0.5 / (1 + 0.01 * (double)step->step) * s->c->scale;
    const mf_layer_stats *l = step->n_layers > 0 ? step->layers : NULL;
    int64_t n;
    s->own++;
    if (!BLIND && l) lr *= 1 + 0.1 * (double)l->load[0];
    if (IS(701) && l) lr *= 1 + (double)l->load[0];
    if (IS(702) && step->n_head_layers > 0 && step->heads[0].gate)
        lr *= 1 + (double)step->heads[0].gate[0];
    if (IS(715) && l && l->load_cv > 0.5) lr *= 1.5;
    if (IS(703) && step->step > 100) return mf->fail(ctx, MF_EPLUGIN, "enough");
    if (IS(704) && step->step > 280) lr = -1;
    if (IS(705) && s->own > 64) lr /= 2;
    if (IS(706)) {
        float *w = mf->data(ctx, "/layers.0.router.weight", &n);
        if (w) w[0] += 0.01f;
    }
    if (IS(707)) lr *= s->copied / s->c->scale;
    if (IS(708) && l) lr *= 1 + 1e-6 * (double)l->prob_sum[0];
    if (IS(709)) lr *= 1 + 0.01 * s->copied;
    if (IS(711) && s->own > 250) raise(SIGSEGV);
    if (IS(712) && s->own > 128) exit(0);
    if (IS(713) && s->own == 90) (void)!open("/dev/null", O_RDONLY);
    if (IS(714) && l)
        for (int64_t i = 0; i < s->experts; i++)
            if (fabs(l->rows_per_token - (double)s->top_k) > 1e-6)
                return mf->fail(ctx, MF_EPLUGIN, "expected %d rows a token", (int)s->top_k);
    return mf->set_live(ctx, "train.lr", lr, "by the step");
}

static const mf_controller vtable = {.size = sizeof(mf_controller),
                                     .flags = BLIND ? MF_CONTROLLER_BLIND : 0,
                                     .init = init,
                                     .on_step = on_step};
MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_CONTROLLER, mf_controller, "planted", "1", "MIT",
                                  "a falling learning rate", options, conf, state, &vtable);
#else
/* ---- adapter: y = scale w y ---- */

static int init(void *self, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    take(self, c, dims);
    return mf->param(ctx, "weight", mf_shape1(dims->dim), MF_NORMAL(0.3));
}

static int apply(void *self, mf_ctx *ctx, mf_graph *g, const mf_adapter_in *in,
                 mf_tensor **ret_y)
{
    const state *s = self;
    const int64_t T = (int64_t)in->batch * in->seq;
    mf_tensor *y = in->y;
    if (IS(801) && in->seq > 40) {
        mf_tensor *by = mf_reshape(g, y, mf_shape3(in->batch, in->seq, s->dim));
        by = mf_sub(g, by, mf_mean(g, by, 2u, true));
        y = mf_reshape(g, by, mf_shape2(T, s->dim));
    }
    if (IS(802)) y = skew(g, y, NULL, T > 100 ? 1.1 : 1, 0);
    if (IS(804) && T > 200) raise(SIGSEGV);
    if (IS(805) && s->c->steps == 5) raise(SIGSEGV);
    y = mf_mul(g, y, mf->use(ctx, g, "weight"));
    *ret_y =
        IS(803) ? mf_affine(g, y, s->c->scale, 0) : mf_mul(g, y, mf->live(ctx, g, "scale"));
    return mf->status(g);
}

static const mf_adapter vtable = {.size = sizeof(mf_adapter),
                                  .init = init,
                                  .apply = apply,
                                  .points = MF_POINT_BIT(MF_AT_BLOCK_OUT),
                                  .at = "block_out"};
MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ADAPTER, mf_adapter, "planted", "1", "MIT",
                                  "scales values", options, conf, state, &vtable);
#endif

/* drawn_router.c: a router with an op and options of its own. -DDEFECT=N adds one of the
 * defects 400 to 499 of list.tsv, which show only at certain sizes, values or numbers of calls,
 * or beside other layers. */
#define _GNU_SOURCE
#include <moefw/moefw.h>

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef DEFECT
#define DEFECT 400
#endif
#define IS(n) (DEFECT == (n))

typedef struct {
    double scale, shift;
    int64_t steps, form, even;
} conf;

typedef struct {
    const conf *c;
    int64_t experts, top_k, layer, own;
    bool labels;
} router;

static int calls;
static float scratch[1 << 16];
static router *latest;
static int64_t last_rows, last_layer;

/* ---- the op: y = x + x^3 / 16 ---- */

static int infer(mf_infer *in)
{
    in->n_out = 1;
    in->out[0] = in->in[0];
    return MF_OK;
}

static void *sleeper(void *arg)
{
    sleep(60);
    return arg;
}

static void at_end(void)
{
    raise(SIGSEGV);
}

static int late(const mf_call *c)
{
    calls++;
    if (IS(430) && calls > 64) return c->fail(c, MF_EPLUGIN, "call %d is one too many", calls);
    if (IS(432) && calls > 250) raise(SIGSEGV);
    if (IS(434) && calls == 120) exit(0);
    if (IS(435) && calls == 150) (void)!open("/dev/null", O_RDONLY);
    if (IS(436) && calls == 100) {
        pthread_t t;
        pthread_create(&t, NULL, sleeper, NULL);
        pthread_detach(t);
    }
    if (IS(437) && calls == 90) atexit(at_end);
    return MF_OK;
}

static int forward(const mf_call *c)
{
    const int64_t n = mf_shape_count(c->in[0].shape), E = c->in[0].shape.dim[1], T = n / E;
    float *x = (float *)(uintptr_t)c->in[0].data, *y = c->out[0].data;
    if (late(c) != MF_OK) return MF_EPLUGIN;
    if (IS(420) && T > 200) raise(SIGSEGV);
    if (IS(421) && T > 200 && !c->exec->training) raise(SIGFPE);
    const float late_factor = IS(431) && calls > 200 ? 1.01f : 1;
    for (int64_t i = 0; i < n; i++)
        y[i] = late_factor * (x[i] + x[i] * x[i] * x[i] / 16);
    if (IS(438) && T % 64 == 63) y[n - 1] = NAN;
    if (IS(433) && calls > 10) x[0] += 1;
    if (IS(440))
        for (int64_t i = 0; i < n && i < 1 << 16; i++)
            scratch[i] = x[i];
    if ((IS(448) && c->exec->training) || (IS(449) && !c->exec->training)) {
        float noise[1];
        for (int64_t i = 0; i < n; i++) {
            c->exec->rng_normal(c->exec, c->stream, (uint64_t)i, 1, noise);
            y[i] += 0.1f * noise[0];
        }
    }
    return MF_OK;
}

static bool spoils(int64_t T, int64_t E)
{
    return (IS(401) && T == 1) || (IS(402) && T > 100) || (IS(403) && T % 32 == 31) ||
           (IS(404) && E == 12) || (IS(405) && T % 16 == 0 && T >= 64) || (IS(406) && E == 19);
}

static int backward(const mf_call *c)
{
    const int64_t n = mf_shape_count(c->in[0].shape), E = c->in[0].shape.dim[1], T = n / E;
    const float *x = IS(440) && n <= 1 << 16 ? scratch : c->in[0].data, *dy = c->in[2].data;
    float *dx = c->out[0].data;
    if (IS(422) && T > 150) raise(SIGSEGV);
    for (int64_t i = 0; i < n; i++)
        dx[i] = dy[i] * (1 + 3 * x[i] * x[i] / 16) * (spoils(T, E) || c->attr->i[0] ? 1.1f : 1);
    for (int64_t i = 100 * E; IS(407) && i < n; i++)
        dx[i] *= 0.5f;
    if (IS(408) && T % 32 == 31) dx[n - 1] = 0;
    return MF_OK;
}

static const mf_opdef cubic = {.size = sizeof(mf_opdef),
                               .name = "cubic",
                               .formula = "y = x + x^3 / 16",
                               .infer = infer,
                               .forward = forward,
                               .backward = backward,
                               .backward_in = 1,
                               .diff_in = 1};

/* ---- an op that writes into a second input, which it does not read ---- */

static int write_second(const mf_call *c)
{
    memcpy(c->out[0].data, c->in[0].data, (size_t)mf_shape_count(c->in[0].shape) * 4);
    if (calls++ < 3) return MF_OK;
    int32_t *other = (int32_t *)(uintptr_t)c->in[1].data;
    if (IS(456))
        ((float *)(void *)other)[0] *= 1.001f;
    else
        other[0] ^= 1;
    return MF_OK;
}

static int pass(mf_graph *g, const mf_gradient *at)
{
    at->din[0] = at->dout[0];
    return MF_OK;
}

static const mf_opdef writing = {.size = sizeof(mf_opdef),
                                 .name = "writing",
                                 .formula = "y = x",
                                 .infer = infer,
                                 .forward = write_second,
                                 .grad = pass,
                                 .diff_in = 1};

/* ---- an op that chooses k experts from attr.i[0] on; if i[2], one of them twice ---- */

static int infer_choice(mf_infer *in)
{
    in->n_out = 1;
    in->out[0].dtype = MF_I32;
    in->out[0].shape = mf_shape1(in->in[0].shape.dim[0] * in->attr->i[0]);
    return MF_OK;
}

static int choose(const mf_call *c)
{
    const int64_t k = c->attr->i[0], E = c->attr->i[1];
    const int32_t *id = c->in[0].data;
    int32_t *out = c->out[0].data;
    for (int64_t r = 0; r < mf_shape_count(c->out[0].shape); r++)
        out[r] = (int32_t)((id[r / k] + r % k) % E);
    for (int64_t r = 0; c->attr->i[2] && r < mf_shape_count(c->out[0].shape); r += k)
        out[r + k - 1] = out[r];
    return MF_OK;
}

static const mf_opdef choosing = {.size = sizeof(mf_opdef),
                                  .flags = MF_OP_NO_GRAD,
                                  .name = "choosing",
                                  .formula = "e = t",
                                  .infer = infer_choice,
                                  .forward = choose};

/* ---- the router ---- */

static int init(void *self_, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    router *self = self_;
    *self = (router){c, dims->experts, dims->top_k, dims->layer, 0, dims->labels > 0};
    latest = self;
    if (IS(427) && self->c->form == 1 && self->c->steps == 3) raise(SIGSEGV);
    int rc = mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim), MF_NORMAL(0.2));
    return rc == MF_OK ? mf->buffer(ctx, "load", mf_shape1(dims->experts), MF_ZEROS) : rc;
}

static mf_tensor *by_sequence(mf_graph *g, const mf_router_in *in, mf_tensor *x)
{
    return mf_reshape(g, x, mf_shape3(in->batch, in->seq, mf->shape(in->x).dim[1]));
}

/* Adds 0.3 x of a neighbour to the x of tokens. by > 0: of the next token, from position `from`
 * on; by < 0: of the token before, from position `from` + 1 on. */
static mf_tensor *look(mf_graph *g, const mf_router_in *in, int64_t from, int64_t by)
{
    const int64_t n = in->seq, d = mf->shape(in->x).dim[1];
    if (n < from + 2) return in->x;
    mf_tensor *x = by_sequence(g, in, in->x), *part[2], *kept[2];
    kept[0] = mf_slice(g, x, 1, 0, by > 0 ? from : from + 1);
    const int64_t m = n - from - 1;
    mf_tensor *own = mf_slice(g, x, 1, by > 0 ? from : from + 1, m),
              *other = mf_slice(g, x, 1, by > 0 ? from + 1 : from, m);
    part[0] = mf_add(g, own, mf_affine(g, other, 0.3, 0));
    kept[1] = part[0];
    x = mf_concat(g, 2, kept, 1);
    kept[0] = x;
    if (by > 0) kept[1] = mf_slice(g, by_sequence(g, in, in->x), 1, n - 1, 1);
    if (by > 0) x = mf_concat(g, 2, kept, 1);
    return mf_reshape(g, x, mf_shape2((int64_t)in->batch * n, d));
}

static mf_tensor *spoil_input(mf_graph *g, const mf_router_in *in)
{
    mf_tensor *x = in->x;
    const mf_shape flat = mf->shape(x);
    if (IS(414) && in->seq > 40)
        x = mf_reshape(
            g, mf_sub(g, by_sequence(g, in, x), mf_mean(g, by_sequence(g, in, x), 2u, true)),
            flat);
    if (IS(415)) x = look(g, in, 40, 1);
    if (IS(416)) x = look(g, in, 90, 1);
    if (IS(417) && in->seq > 20) x = mf_affine(g, x, 1.1, 0);
    if (IS(418)) x = look(g, in, 20, -1);
    if (IS(419)) x = look(g, in, 33, -1);
    return x;
}

static mf_tensor *spoil_logits(router *self, mf_graph *g, const mf_router_in *in, mf_tensor *l)
{
    const conf *c = self->c;
    mf_attr attr = mf_attr0();
    const mf_shape shape = mf->shape(l);
    if ((IS(446) || (IS(447) && !mf->training(g))) && in->labels)
        l = mf_add(g, l, mf_reshape(g, mf_one_hot(g, in->labels, self->experts), shape));
    if (IS(466) && in->labels && in->seq >= 12 && mf->training(g))
        l = mf_add(g, l,
                   mf_affine(g, mf_reshape(g, mf_one_hot(g, in->labels, self->experts), shape),
                             0.01, 0));
    mf_tensor *with[2] = {l, IS(454)   ? in->positions
                             : IS(455) ? in->token_ids
                             : IS(457) ? in->sequence_ids
                             : IS(458) ? in->labels
                                       : NULL};
    if (with[1]) l = mf->custom(g, &writing, 2, with, &attr, 1, NULL);
    if (IS(441)) l = mf_affine(g, l, 1 + 0.1 * (double)latest->layer, 0);
    if (IS(443)) l = mf_affine(g, l, 1 + 0.1 * c->shift, 0);
    if (IS(445)) l = mf_affine(g, l, c->even ? 0.5 : 1, 0);
    if (IS(423) && c->scale > 3 && c->scale < 7) l = mf_ln(g, mf_affine(g, l, 0, -1));
    if (IS(424) && c->steps == 5) raise(SIGSEGV);
    if (IS(426) && c->steps == 6) mf->op(g, "no such op", 1, &l, &attr, 1, NULL);
    return l;
}

static void add_loss(router *self, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const int64_t T = (int64_t)in->batch * in->seq;
    mf_tensor *p = mf_square(g, mf_logsumexp(g, out->logits));
    mf_tensor *m = in->mask ? mf_reshape(g, in->mask, mf_shape1(T)) : NULL;
    p = mf_reshape(g, p, mf_shape1(T));
    mf_tensor *sum = mf_sum(g, m ? mf_mul(g, p, m) : p, MF_ALL, false);
    mf_tensor *n = m ? mf_clamp(g, mf_sum(g, m, MF_ALL, false), 1, 1e30) : NULL;
    mf_tensor *mean = n ? mf_div(g, sum, n) : mf_affine(g, sum, 1.0 / (double)T, 0);
    if (IS(461)) mean = mf_affine(g, sum, 1.0 / (double)T, 0);
    if (IS(460)) mean = sum;
    if (IS(467)) mean = mf_affine(g, sum, 1.0 / (in->batch * 16.0), 0);
    if (IS(464)) mean = mf_affine(g, mean, in->batch, 0);
    if (IS(459) && !mf->training(g)) mean = mf_affine(g, mean, 2, 0);
    if (IS(444)) mean = mf_affine(g, mean, 1 + self->c->shift, 0);
    out->loss[out->n_losses] = mean;
    out->loss_name[out->n_losses++] = "size";
}

/* The experts are chosen in turns, with gates from the probabilities. */
static void own_choice(router *self, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const int64_t T = (int64_t)in->batch * in->seq, k = in->top_k;
    mf_attr attr = mf_attr0();
    mf_tensor *ids = in->token_ids;
    attr.i[0] = k;
    attr.i[1] = self->experts;
    attr.i[2] = (IS(410) && k == 3) || (IS(411) && k == 5) || (IS(409) && k == 3 && T > 20);
    out->own_top_k = (int32_t)k;
    out->expert = mf->custom(g, &choosing, 1, &ids, &attr, 1, NULL);
    out->prob = mf_softmax(g, out->logits);
    mf_tensor *index = mf_reshape(g, out->expert, mf_shape2(T, k));
    mf_tensor *gate = mf_take(g, IS(412) ? mf_tanh(g, out->logits) : out->prob, index);
    if (IS(413) && k == 3) gate = mf_affine(g, gate, 1, -0.05);
    out->gate = mf_reshape(g, gate, mf_shape1(T * k));
    out->renormalize = 0;
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    router *self = self_;
    mf_attr attr = mf_attr0();
    mf_tensor *w = mf->use(ctx, g, "weight");
    mf_tensor *both[2] = {spoil_input(g, in), w};
    last_rows = (int64_t)in->batch * in->seq;
    last_layer = self->layer;
    if (IS(456)) both[0] = mf->custom(g, &writing, 2, both, &attr, 1, NULL);
    mf_tensor *l = mf_linear(g, both[0], w, NULL);
    if (self->c->form == 1) l = mf_tanh(g, l);
    for (int64_t i = 1; i < self->c->steps; i++)
        l = mf_affine(g, l, 1, 0.01);
    l = mf_affine(g, l, 0.1 + 0.1 * self->c->scale, 0);
    l = mf_mul(g, l, mf_affine(g, mf->live(ctx, g, "shift"), 0.1, 1));
    attr.i[0] = IS(425) && self->c->scale > 2 && self->c->scale < 8;
    l = mf->custom(g, &cubic, 1, &l, &attr, 1, NULL);
    l = spoil_logits(self, g, in, l);
    if (IS(462) && in->mask) {
        mf_tensor *m = mf_reshape(g, in->mask, mf_shape2(in->batch, in->seq));
        m = mf_reshape(g, mf_sum(g, m, 2u, true), mf_shape3(in->batch, 1, 1));
        l = mf_reshape(g, l, mf_shape3(in->batch, in->seq, self->experts));
        l = mf_reshape(g, mf_div(g, mf_mul(g, l, m), m),
                       mf_shape2((int64_t)in->batch * in->seq, self->experts));
    }
    out->logits = mf_sub(g, l, mf->use(ctx, g, "load"));
    add_loss(self, g, in, out);
    if (DEFECT >= 409 && DEFECT <= 413) own_choice(self, g, in, out);
    return mf->status(g);
}

static int after_step(void *self_, mf_ctx *ctx, const struct mf_step *step)
{
    router *self = self_;
    int64_t n;
    float *load = mf->data(ctx, "load", &n);
    self->own++;
    if (IS(439) && self->own > 64) load[0] += 0.1f;
    if (IS(428) && step->step > 150) load[0] = NAN;
    if (IS(429) && step->step == 200) return mf->fail(ctx, MF_EPLUGIN, "enough");
    if (IS(442)) load[0] = (float)last_layer;
    if (IS(453)) {
        float *w = mf->data(ctx, "/layers.0.expert.weight", &n);
        if (w) w[0] += 0.1f;
    }
    if (IS(465)) {
        float *w = mf->data(ctx, "weight", &n);
        w[0] += 0.1f;
    }
    if ((IS(468) || IS(469)) && self->own % 64 == 0) {
        float *w = mf->data(ctx, IS(468) ? "/embed.weight" : "/layers.0.norm2.weight", &n);
        if (w) w[0] += 1;
    }
    if (IS(463) && step->n_layers > 0) load[0] = step->layers[0].load[0];
    return MF_OK;
}

static const char *const forms[] = {"plain", "bounded", NULL};
static const mf_option options[] = {
    MF_OPTION_REAL(conf, scale, "9", 0, 10, 0, "factor"),
    MF_OPTION_REAL(conf, shift, "1", 0.5, 4, MF_OPT_LIVE, "another factor"),
    MF_OPTION_INT(conf, steps, "1", 1, 8, 0, "number of shifts"),
    MF_OPTION_ENUM(conf, form, "plain", forms, "of the logits"),
    MF_OPTION_BOOL(conf, even, "no", MF_OPT_LIVE, "has no effect"),
    MF_END_OPTIONS};

static const mf_router vtable = {
    .size = sizeof(mf_router), .init = init, .route = route, .after_step = after_step};

MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT(MF_ROUTER, mf_router, "planted", "1", "MIT", "one linear layer and a cubic",
                   options, conf, router, &vtable);

/* by_loss.c: a regularizer that teaches routers by the losses of their tokens (REINFORCE,
 * Williams 1992).
 *
 *     cc -shared -fPIC -O2 $(pkg-config --cflags moefw) -o by_loss.so by_loss.c
 *     moefw plugin check ./by_loss.so
 *     moefw --set regularizer.by_loss.plugin=./by_loss.so --set regularizer.by_loss.weight=0.01
 *
 *     loss = mean over tokens of (token_loss - baseline) ln p(chosen experts)
 *
 * Choices with a loss below the baseline become more probable. The baseline is the mean loss of
 * the step before, from a tally: a mean over the micro-batch would depend on how a step is cut.
 * token_loss has no gradient, so the task's own gradient is not counted twice. */
#include <moefw/moefw.h>

static int init(void *self, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    (void)self, (void)c, (void)dims;
    const int rc = mf->buffer(ctx, "baseline", mf_shape1(1), MF_ZEROS);
    return rc == MF_OK ? mf->tally(ctx, "loss", mf_shape1(1), 0) : rc;
}

/* [T]: ln of the probabilities of each token's experts; tokens of padding have none */
static mf_tensor *log_prob(mf_graph *g, const mf_routing *r)
{
    const int64_t T = r->tokens, k = r->rows / T;
    mf_tensor *expert = mf_reshape(g, r->chosen, mf_shape2(T, k)); /* -1: not used */
    mf_tensor *log = mf_ln(g, mf_clamp(g, r->prob, 1e-30, 1e30));
    return mf_sum(g, mf_take(g, log, expert), 2u, false);
}

static int loss_of(void *self, mf_ctx *ctx, mf_graph *g, const mf_regularizer_in *in,
                   mf_tensor **ret)
{
    const float zero = 0;
    mf_tensor *all = mf->constant(g, MF_F32, mf_shape0(), &zero);
    (void)self;
    *ret = all;
    if (!in->token_loss) return mf->status(g); /* the task has no losses of tokens */
    mf->count(ctx, g, "loss",
              mf_reshape(g, mf_sum(g, in->token_loss, MF_ALL, false), mf_shape1(1)));
    /* The part of each token, which is a constant for the gradient. Padding has no part. */
    mf_tensor *part =
        mf_stop_gradient(g, mf_sub(g, in->token_loss, mf->use(ctx, g, "baseline")));
    mf_tensor *real = in->mask ? in->mask : mf_affine(g, in->token_loss, 0, 1);
    part =
        mf_div(g, mf_mul(g, part, real), mf_clamp(g, mf_sum(g, real, MF_ALL, false), 1, 1e30));
    for (int32_t i = 0; i < in->n; i++) {
        const mf_routing *r = in->routing[i];
        /* this router does not choose experts for tokens */
        if (!r->prob || r->token || r->dispatch) continue;
        all = mf_add(g, all, mf_sum(g, mf_mul(g, part, log_prob(g, r)), MF_ALL, false));
    }
    *ret = all;
    return mf->status(g);
}

static int after_step(void *self, mf_ctx *ctx, const mf_step *step)
{
    float *baseline = mf->data(ctx, "baseline", NULL);
    const double *loss = mf->sum(ctx, "loss", NULL);
    (void)self;
    if (!step->skipped && step->step_tokens > 0)
        *baseline = (float)(*loss / (double)step->step_tokens);
    return MF_OK;
}

static const mf_option options[] = {MF_END_OPTIONS};

static const mf_regularizer vtable = {.size = sizeof(mf_regularizer),
                                      .flags = MF_REGULARIZER_TOKEN_LOSS,
                                      .init = init,
                                      .after_step = after_step,
                                      .loss_of = loss_of};

MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT(MF_REGULARIZER, mf_regularizer, "by_loss", "1.0", "MIT",
                   "routers learn from the losses of tokens", options, char, char, &vtable);

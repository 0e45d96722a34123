/* token_loss: plugins that read the losses of tokens, for tests.
 *
 * A regularizer: its loss is the mean of the losses over tokens with a target, which equals
 * the loss of the task. With -DCONTROLLER a controller: it fails unless the mean of the
 * losses of all experts equals the step's loss, and it increases the biases of experts with
 * low losses. */
#include <math.h>
#include <moefw/moefw.h>
#include <stdio.h>

typedef struct {
    double rate;
} conf;

typedef struct {
    const conf *c;
} self;

static int init(void *s, mf_ctx *ctx, const void *c, const mf_dims *d)
{
    (void)ctx, (void)d;
    *(self *)s = (self){c};
    return MF_OK;
}

static const mf_option options[] = {MF_OPTION_REAL(conf, rate, "0.01", 0, 1, 0, "of biases"),
                                    MF_END_OPTIONS};

#ifdef CONTROLLER
static int on_step(void *s, mf_ctx *ctx, const mf_step *step)
{
    double all = 0, count = 0;
    for (int turn = 0; turn < 2; turn++)
        for (int32_t l = 0; l < step->n_layers && !step->skipped; l++) {
            char name[64];
            int64_t n = 0, m = 0;
            snprintf(name, sizeof name, "/layers.%d.moe.token_loss", (int)l);
            const double *sum = mf->sum(ctx, name, &m);
            snprintf(name, sizeof name, "/layers.%d.moe.select_bias", (int)l);
            float *b = mf->data(ctx, name, &n);
            if (!sum || !b || m != 2 * n) return mf->fail(ctx, MF_EPLUGIN, "no losses");
            for (int64_t e = 0; e < n; e++) {
                if (turn == 0) all += sum[2 * e], count += sum[2 * e + 1];
                if (turn == 1 && sum[2 * e + 1] > 0)
                    b[e] += (float)(((const self *)s)->c->rate *
                                    (all / count - sum[2 * e] / sum[2 * e + 1]));
            }
        }
    if (step->skipped || fabs(all / count - step->task_loss) < 1e-5 * step->task_loss)
        return MF_OK;
    return mf->fail(ctx, MF_EPLUGIN, "expected a mean of %.9g, found %.9g", step->task_loss,
                    all / count);
}

static const mf_controller vtable = {.size = sizeof(mf_controller),
                                     .flags =
                                         MF_CONTROLLER_SELECT_BIAS | MF_CONTROLLER_TOKEN_LOSS,
                                     .init = init,
                                     .on_step = on_step};
MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_CONTROLLER, mf_controller, "token_loss", "1", "MIT",
                                  "for a test", options, conf, self, &vtable);
#else
static int loss_of(void *s, mf_ctx *ctx, mf_graph *g, const mf_regularizer_in *in,
                   mf_tensor **ret)
{
    (void)s;
    if (!in->token_loss) return mf->fail(ctx, MF_ECONFIG, "expected losses of tokens");
    const float zero = 0;
    mf_tensor *all = mf_sum(g, in->token_loss, MF_ALL, false);
    mf_tensor *counts = in->mask;
    if (in->targets) {
        counts = mf_affine(g, mf_cast(g, in->targets, MF_F32), 1, 1);
        counts = mf_greater(g, counts, mf->constant(g, MF_F32, mf_shape1(1), &zero));
        if (in->mask) counts = mf_mul(g, counts, in->mask);
    }
    if (!counts) counts = mf_affine(g, in->token_loss, 0, 1);
    *ret = mf_div(g, all, mf_clamp(g, mf_sum(g, counts, MF_ALL, false), 1, 1e30));
    return mf->status(g);
}

static const mf_regularizer vtable = {.size = sizeof(mf_regularizer),
                                      .flags = MF_REGULARIZER_TOKEN_LOSS,
                                      .init = init,
                                      .loss_of = loss_of};
MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_REGULARIZER, mf_regularizer, "token_loss", "1", "MIT",
                                  "for a test", options, conf, self, &vtable);
#endif

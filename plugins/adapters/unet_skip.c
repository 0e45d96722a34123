/* unet_skip: connects block i of N, in the first half, to block N - 1 - i, in the second half
 * (U-Net: Ronneberger et al. 2015; in transformers: Adaptive Transformer with Sentinel Gates,
 * section 2.2, and repository CambrianTech/sentinel-ai).
 *
 *     form = linear:   h' = W [h_enc; h] + b;         h_enc: output of block i
 *     form = residual: h' = h + s (W [h; h_enc] + b); h_enc: block i after attention
 *
 * h is the input of block N - 1 - i, and h' replaces it. With form = linear, W and b start such
 * that h' = h. s is scale times a factor that depends on the progress p through the second
 * half: 1 - p / 2 (deeper_less), 1 + p (deeper_more) or 1; p is 0 in the first block of this
 * half. scale = 0 switches skips of both forms off. Parameters: (2 d + 1) d per block of the
 * second half. */
#include <moefw/moefw.h>
#include <math.h>

enum { LINEAR, RESIDUAL };
enum { DEEPER_LESS, DEEPER_MORE, CONSTANT };
static const char *const forms[] = {"linear", "residual", NULL};
static const char *const rules[] = {"deeper_less", "deeper_more", "constant", NULL};

typedef struct {
    int64_t form, rule;
    double scale;
} conf;
typedef struct {
    const conf *conf;
    bool second; /* the block is in the second half */
    double share;
} state;

static double share_of(const conf *c, const mf_dims *dims)
{
    const double n = (double)(dims->n_layers / 2);
    const double progress = ((double)dims->layer - (double)dims->n_layers + n) / n;
    if (c->rule == DEEPER_LESS) return 1 - 0.5 * progress;
    return c->rule == DEEPER_MORE ? 1 + progress : 1;
}

static int init(void *self, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    state *s = self;
    const conf *c = s->conf = conf_;
    const int64_t d = dims->dim;
    if (dims->n_layers < 2)
        return mf->fail(ctx, MF_ECONFIG, "skips want at least 2 layers, found %d",
                        (int)dims->n_layers);
    s->second = dims->layer >= dims->n_layers - dims->n_layers / 2;
    if (!s->second) return MF_OK;
    s->share = share_of(c, dims);
    const bool linear = c->form == LINEAR;
    const mf_init normal = mf_init_of(MF_INIT_NORMAL, dims->start_std, 0),
                  uniform = mf_init_of(MF_INIT_KAIMING, 1, 0),
                  weight = linear               ? mf_init_of(MF_INIT_EYE, 1, 0)
                           : dims->normal_start ? normal
                                                : uniform,
                  bias =
                      mf_init_of(linear || dims->normal_start ? MF_INIT_ZERO : MF_INIT_UNIFORM,
                                 1 / sqrt(2 * (double)d), MF_PARAM_NO_DECAY);
    int rc = mf->param(ctx, "weight", mf_shape2(d, 2 * d), weight);
    if (rc == MF_OK) rc = mf->param(ctx, "bias", mf_shape1(d), bias);
    if (rc == MF_OK)
        rc = mf->tap(ctx, dims->n_layers - 1 - dims->layer,
                     linear ? MF_AT_BLOCK_OUT : MF_AT_BLOCK_MID);
    return rc;
}

static int apply(void *self, mf_ctx *ctx, mf_graph *g, const mf_adapter_in *in,
                 mf_tensor **ret_y)
{
    const state *s = self;
    const bool linear = s->conf->form == LINEAR;
    if (!s->second || s->conf->scale == 0) return MF_OK;
    mf_tensor *h = in->y, *encoder = in->tap[0];
    mf_tensor *both[2] = {linear ? encoder : h, linear ? h : encoder};
    mf_tensor *y = mf_linear(g, mf_concat(g, 2, both, 1), mf->use(ctx, g, "weight"),
                             mf->use(ctx, g, "bias"));
    if (!linear) {
        mf_tensor *scale = mf->live(ctx, g, "scale");
        if (s->share != 1) scale = mf_scale(g, scale, s->share);
        y = mf_add(g, h, mf_mul(g, y, scale));
    }
    *ret_y = y;
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_ENUM(conf, form, "linear", forms,
                   "h' = Linear([h_enc; h]), or h + scale Linear([h; h_enc])"),
    MF_OPTION_ENUM(conf, rule, "deeper_less", rules,
                   "residual: share of scale by progress p through the second half: 1 - p / 2, "
                   "1 + p, 1"),
    MF_OPTION_REAL(conf, scale, "0.1", -1e3, 1e3, MF_OPT_LIVE | MF_OPT_STRUCTURAL,
                   "residual: factor on skips; 0 switches skips of both forms off"),
    MF_END_OPTIONS,
};

static const mf_adapter vtable = {.size = sizeof(mf_adapter),
                                  .init = init,
                                  .apply = apply,
                                  .points = MF_POINT_BIT(MF_AT_BLOCK_IN),
                                  .at = "block_in"};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ADAPTER, mf_adapter, "unet_skip", "1.0", "MIT",
                                  "blocks of the first half feed those of the second", options,
                                  conf, state, &vtable);

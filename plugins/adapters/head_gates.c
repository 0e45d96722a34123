/* head_gates: a gate on each attention head. Heads can be switched off and on again (Adaptive
 * Transformer with Sentinel Gates, section 2.1; repository CambrianTech/sentinel-ai).
 *
 *     y_h' = g_h y_h     g_h the sigmoid of a trained logit, or (form = raw) a trained number
 *                        that is limited to 0 .. 1
 *
 * bias = yes: the bias of the attention output is divided equally among the heads and each
 * share is multiplied by its gate, as in the published code: b sum(g) / H. start = middle: the
 * initial gate of a head is multiplied by 1 - 0.1 d, where d is the distance from the middle
 * head, 1 for the outermost heads (gpt2_loader.py in the repository). Controllers change the
 * gates and which heads are active (sentinel, plateau, prune, head_lr). Parameters: H. */
#include <moefw/moefw.h>
#include <math.h>
#include <string.h>

enum { EVEN, MIDDLE };
static const char *const forms[] = {"sigmoid", "raw", NULL}; /* mf_gate_form */
static const char *const starts[] = {"even", "middle", NULL};

typedef struct {
    double init;
    int64_t form, start, bias;
} conf;
typedef struct {
    conf conf;
    int64_t heads;
    int32_t layer;
    const mf_graph *graph; /* the graph in which `gate` was computed */
    mf_tensor *gate;       /* [active,1] */
} state;

static int init(void *self, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    state *s = self;
    s->conf = *(const conf *)conf_;
    s->heads = dims->heads;
    s->layer = dims->layer;
    if (s->conf.form == MF_GATE_RAW && !(s->conf.init >= 0 && s->conf.init <= 1))
        return mf->fail(
            ctx, MF_ECONFIG,
            "init: raw gates start between 0 and 1 (the published code: 1), found %g",
            s->conf.init);
    if (s->conf.bias && !mf->find(ctx, "layers.*.attention.out.bias", 0))
        return mf->fail(ctx, MF_ECONFIG,
                        "bias: there is no bias to be gated: expected "
                        "model.attention_out_bias = yes");
    int rc = mf->want(ctx, MF_ADAPTER_HEADS);
    if (rc == MF_OK)
        rc = mf->param(
            ctx, "gate", mf_shape1(dims->heads),
            mf_init_of(MF_INIT_CONST, s->conf.init, MF_PARAM_NO_DECAY | MF_PARAM_BY_HEAD));
    return rc == MF_OK ? mf->head_gates(ctx, "gate", (int32_t)s->conf.form) : rc;
}

static double gate_of(int64_t form, double number)
{
    if (form == MF_GATE_SIGMOID) return 1 / (1 + exp(-number));
    return number < 0 ? 0 : number > 1 ? 1 : number;
}

static double number_of(int64_t form, double gate, double most)
{
    const double g = gate < 0 ? 0 : gate > 1 ? 1 : gate;
    if (form == MF_GATE_RAW) return g;
    const double logit = log(g / (1 - g)); /* infinite at 0 and 1 */
    return logit < -most ? -most : logit > most ? most : logit;
}

/* Returns the factor on a head's initial gate: 1 in the middle, 0.9 at both ends; 1 for a
 * single head. */
static double share_of(int64_t head, int64_t heads)
{
    const double middle = (double)(heads - 1) / 2;
    return middle > 0 ? 1 - 0.1 * fabs((double)head - middle) / middle : 1;
}

static int start(void *self, mf_ctx *ctx)
{
    const state *s = self;
    int64_t n;
    float *gate = mf->data(ctx, "gate", &n);
    for (int64_t h = 0; s->conf.start == MIDDLE && h < n; h++) {
        const double share = share_of(h, s->heads);
        if (share < 1)
            gate[h] = (float)number_of(s->conf.form,
                                       share * gate_of(s->conf.form, s->conf.init), 100);
    }
    return MF_OK;
}

/* Converts gates of a run with the other form to this form; logits are limited to -10 .. 10.
 * Blocks whose gates are not in that run keep their initial values. */
static int adopt(void *self, mf_ctx *ctx,
                 const char *(*option)(const void *arg, const char *key), const void *arg,
                 int32_t layers)
{
    const state *s = self;
    const char *form = option(arg, "form");
    const int64_t was = form && strcmp(form, "raw") == 0 ? MF_GATE_RAW : MF_GATE_SIGMOID;
    int64_t n;
    float *gate = mf->data(ctx, "gate", &n);
    if (was == s->conf.form || s->layer >= layers) return MF_OK;
    for (int64_t h = 0; h < n; h++)
        gate[h] = (float)number_of(s->conf.form, gate_of(was, (double)gate[h]), 10);
    return MF_OK;
}

/* Returns the gates as factors [active,1]. */
static mf_tensor *gates(state *s, mf_ctx *ctx, mf_graph *g, const mf_adapter_in *in)
{
    mf_tensor *number = mf_reshape(g, mf->use(ctx, g, "gate"), mf_shape2(in->heads, 1));
    if (in->n_active < in->heads)
        number = mf_gather_rows(g, number,
                                mf->constant(g, MF_I32, mf_shape1(in->n_active), in->active));
    s->graph = g;
    s->gate = s->conf.form == MF_GATE_RAW ? mf_clamp(g, number, 0, 1) : mf_sigmoid(g, number);
    return s->gate;
}

static int apply(void *self, mf_ctx *ctx, mf_graph *g, const mf_adapter_in *in,
                 mf_tensor **ret_y)
{
    state *s = self;
    if (in->point == MF_AT_HEADS) {
        *ret_y = mf_mul(g, in->y, gates(s, ctx, g, in));
    } else if (s->conf.bias) {
        mf_tensor *gate = NULL;
        if (in->n_active > 0) gate = s->graph == g ? s->gate : gates(s, ctx, g, in);
        if (gate && in->head_mask) gate = mf_mul(g, gate, in->head_mask);
        *ret_y =
            gate ? mf_mul(g, in->y,
                          mf_scale(g, mf_sum(g, gate, MF_ALL, false), 1 / (double)in->heads))
                 : NULL;
    }
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_REAL(conf, init, "3", -100, 100, 0,
                   "logit that gates start with; form = raw: the gate itself"),
    MF_OPTION_ENUM(conf, form, "sigmoid", forms,
                   "the sigmoid of a trained logit, or raw, a trained number cut to 0 to 1"),
    MF_OPTION_ENUM(
        conf, start, "even", starts,
        "all alike, or middle: times 1 - 0.1 d, d the distance from the middle head, "
        "1 for the first and the last"),
    MF_OPTION_BOOL(conf, bias, "no", 0,
                   "the bias on the attention output is gated, a head's share each: b sum(g) / "
                   "heads"),
    MF_END_OPTIONS,
};

static const mf_adapter vtable = {.size = sizeof(mf_adapter),
                                  .init = init,
                                  .apply = apply,
                                  .points = MF_POINT_BIT(MF_AT_HEADS) |
                                            MF_POINT_BIT(MF_AT_ATTENTION_BIAS),
                                  .at = "heads, attention_bias",
                                  .path = "attention",
                                  .start = start,
                                  .adopt = adopt};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ADAPTER, mf_adapter, "head_gates", "1.0", "MIT",
                                  "a gate on each attention head; heads can be switched off",
                                  options, conf, state, &vtable);

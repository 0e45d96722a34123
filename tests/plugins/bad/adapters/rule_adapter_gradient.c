/* rule_adapter_gradient: the op's gradient is half of what it should be. */
#include <moefw/moefw.h>

static int infer(mf_infer *in)
{
    in->n_out = 1;
    in->out[0] = in->in[0];
    return MF_OK;
}

static int forward(const mf_call *c)
{
    const float *x = c->in[0].data;
    float *y = c->out[0].data;
    for (int64_t i = 0; i < mf_shape_count(c->in[0].shape); i++)
        y[i] = 2 * x[i];
    return MF_OK;
}

static int backward(const mf_call *c)
{
    const float *dy = c->in[2].data;
    float *dx = c->out[0].data;
    for (int64_t i = 0; i < mf_shape_count(c->in[0].shape); i++)
        dx[i] = dy[i]; /* correct: 2 dy */
    return MF_OK;
}

static const mf_opdef twice = {.size = sizeof(mf_opdef),
                               .name = "twice",
                               .infer = infer,
                               .forward = forward,
                               .backward = backward,
                               .diff_in = 1};

#define APPLY                                                                                  \
    mf_tensor *x = mf_mul(g, in->y, w);                                                        \
    *ret_y = mf->custom(g, &twice, 1, &x, NULL, 1, NULL);
#include "bad_adapter.h"
